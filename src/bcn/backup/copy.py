"""Copying files into the repository, on executors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import NoReturn

import pyarrow as pa

from bcn.backup.stage import copied_prefix, plan_key
from bcn.backup.tasks import COPIED_SCHEMA, FILE_IDENTITY, CopyResult, CopyTask, Failure, Run
from bcn.backup.walk import failure
from bcn.engine.chunks import Chunk, size_of
from bcn.engine.handful import NOWHERE, Handful, Pair, find_handful, in_handfuls, pair_of
from bcn.engine.meter import Meter
from bcn.engine.parts import Part, save_part
from bcn.engine.transfer import Copied, Pace, Transfer, map_files, small_in_flight
from bcn.errors import (
    BcnError,
    KeyExistsError,
    MissingKeyError,
    MissingSourceFileError,
    StorageError,
)
from bcn.model import PitId
from bcn.repository import layout
from bcn.storage.open import Stores, open_storage
from bcn.storage.protocol import Storage

_File = tuple[int, int, str]  # the table's number, the root's, and the path


class _RepositoryWriteError(Exception):
    """The repository takes no bytes: no other file will fare better."""

    def __init__(self, cause: StorageError, location: str) -> None:
        super().__init__(str(cause))
        self.cause = cause
        self.location = location


@dataclass(frozen=True, slots=True)
class _Source:
    location: str
    storage: Storage
    key: str


@dataclass(frozen=True, slots=True)
class _Stored:
    key: str
    content: Copied
    copied: bool


class _Copier:
    """Brings files of tables into the repository, at keys that are free or hold the same bytes."""

    def __init__(self, repository: Storage, run: Run, stores: Stores, transfer: Transfer) -> None:
        self._stores = stores
        self._repository = repository
        self._pit = run.pit
        self._transfer = transfer

    def copy(self, location: str, key: str, *, is_free: bool) -> _Stored:
        """Store one source file; a free key is not looked at.

        Raises MissingSourceFileError, StorageError.
        """
        source = _Source(location, *self._stores.resolve(location))
        try:
            return (
                self._try_key(source, key, is_free=is_free)
                or self._try_key(source, layout.alternative_data_key(key, self._pit))
                or _refuse(key)
            )
        except MissingKeyError:
            raise MissingSourceFileError(f"{location} is missing") from None

    def _try_key(self, source: _Source, key: str, *, is_free: bool = False) -> _Stored | None:
        """Copy to the key, or adopt what is there if it is the same; None if other bytes are."""
        if is_free or self._repository.find_stat(key) is None:
            try:
                return _Stored(key, self._write(source, key), copied=True)
            except KeyExistsError:
                pass  # another attempt of this task was quicker
        content = self._transfer.hash(source.storage, source.key)
        if self._transfer.hash(self._repository, key).is_same(content):
            return _Stored(key, content, copied=False)
        return None

    def _write(self, source: _Source, key: str) -> Copied:
        try:
            return self._transfer.copy(source.storage, source.key, self._repository, key)
        except (KeyExistsError, MissingKeyError):
            raise
        except StorageError as error:
            if source.storage.find_stat(source.key) is not None:
                raise _RepositoryWriteError(error, source.location) from error
            raise


def _refuse(key: str) -> NoReturn:
    raise StorageError(f"{key} is taken by other bytes, and so is the key beside it")


def copy_chunks(task: CopyTask) -> CopyResult:
    """Copy the files of some chunks; what became of them is written as one part a group."""
    scratch = open_storage(task.run.scratch)
    copying = _Copying(task)
    for group, members in groupby(sorted(task.chunks, key=_place), key=lambda chunk: chunk.group):
        chunks = list(members)
        plan = Part(scratch, plan_key(task.run, group))
        try:
            rows = list(copying.copy(chunks, plan))
        except _RepositoryWriteError as error:
            return copying.result(failure(-1, error.cause, error.location))
        key = f"{copied_prefix(task.run, group)}{chunks[0].row_group:06d}.parquet"
        save_part(scratch, key, _copied_table(rows, task.run.pit))
    return copying.result()


def _place(chunk: Chunk) -> tuple[int, int]:
    return chunk.group, chunk.row_group


class _Copying:
    """Copies planned files and counts what became of them."""

    def __init__(self, task: CopyTask) -> None:
        repository = open_storage(task.run.repository)
        stores, pace = Stores(task.run.access), Pace(task.bytes_per_second)
        self._transfer = Transfer(pace, size_of(task.chunks))
        self._copier = _Copier(repository, task.run, stores, self._transfer)
        self._meter = Meter(task.meter, task.number)
        self._untouched = task.untouched
        self._ids = {number: recipe.object_id for number, recipe in task.tables.items()}
        self._spellings = {
            (number, root.id): root.spelling
            for number, recipe in task.tables.items()
            for root in recipe.roots
        }
        self._in_flight = small_in_flight(repository, stores, self._spellings.values())
        self._repository, self._stores = repository, stores
        is_plain = self._in_flight == 1 and task.bytes_per_second is None
        self._handful = find_handful(task.small_files) if is_plain else None
        self._failures: list[Failure] = []
        self._files_adopted = 0
        self._bytes_adopted = 0

    def copy(self, chunks: Sequence[Chunk], plan: Part) -> Iterator[_CopiedRow]:
        """Rows of the files that are stored now. Raises _RepositoryWriteError."""
        planned = partial(_planned, plan)
        many = partial(self._copy_many, self._handful) if self._handful else None
        for row in map_files(self._copy, planned, chunks, self._in_flight, many):
            if isinstance(row, Failure):
                self._failures.append(row)
            else:
                self._count(row.stored)
                yield row
        self._transfer.settle()

    def _copy_many(
        self, handful: Handful, files: Iterable[_File]
    ) -> Iterator[_CopiedRow | Failure]:
        for some in in_handfuls(files):
            pairs = [self._pair(file) for file in some]
            for file, content in zip(some, handful.copy(pairs), strict=True):
                if content is None:
                    yield self._copy(file)
                else:
                    yield _CopiedRow(*file, _Stored(self._key(file), content, copied=True))

    def _pair(self, file: _File) -> Pair:
        """From where to where a file goes if nothing is there yet."""
        try:
            key = self._key(file)
            if file[0] not in self._untouched and self._repository.find_stat(key) is not None:
                return NOWHERE
            return pair_of(*self._stores.resolve(self._location(file)), self._repository, key)
        except BcnError:
            return NOWHERE  # the ordinary way tells

    def _location(self, file: _File) -> str:
        table_no, root_id, path = file
        return f"{self._spellings[table_no, root_id]}/{path}"

    def _key(self, file: _File) -> str:
        table_no, root_id, path = file
        return layout.data_key(self._ids[table_no], root_id, path)

    def _copy(self, file: _File) -> _CopiedRow | Failure:
        table_no, root_id, path = file
        location = self._location(file)
        try:
            key = self._key(file)
            is_free = table_no in self._untouched
            stored = self._copier.copy(location, key, is_free=is_free)
            return _CopiedRow(table_no, root_id, path, stored)
        except BcnError as error:
            return failure(table_no, error, location)

    def _count(self, stored: _Stored) -> None:
        self._meter.add(1, stored.content.size_bytes)
        if not stored.copied:
            self._files_adopted += 1
            self._bytes_adopted += stored.content.size_bytes

    def result(self, fatal: Failure | None = None) -> CopyResult:
        """The counts so far."""
        self._meter.send()
        return CopyResult(
            self._meter.files - self._files_adopted,
            self._meter.size_bytes - self._bytes_adopted,
            self._files_adopted,
            self._bytes_adopted,
            tuple(self._failures),
            fatal,
        )


def _planned(plan: Part, chunk: Chunk) -> Iterator[_File]:
    rows = plan.load_group(chunk.row_group)
    return zip(*(rows[name].to_pylist() for name in FILE_IDENTITY), strict=True)


@dataclass(frozen=True, slots=True)
class _CopiedRow:
    table_no: int
    root_id: int
    path: str
    stored: _Stored


def _copied_table(rows: list[_CopiedRow], pit: PitId) -> pa.Table:
    sizes = [row.stored.content.size_bytes for row in rows]
    return pa.table(
        {
            "table_no": [row.table_no for row in rows],
            "root_id": [row.root_id for row in rows],
            "path": [row.path for row in rows],
            "key": [row.stored.key for row in rows],
            "size_bytes": sizes,
            "sha256": [row.stored.content.sha256 for row in rows],
            "stored_size_bytes": sizes,
            "source_version": [row.stored.content.version for row in rows],
            "first_pit": [str(pit)] * len(rows),
            "copied": [row.stored.copied for row in rows],
        },
        schema=COPIED_SCHEMA,
    )
