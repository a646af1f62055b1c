"""Copying files into the repository, on executors."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from bcn.backup.stage import copied_prefix, plan_key
from bcn.backup.tasks import COPIED_SCHEMA, CopyResult, CopyTask, Failure, TableRecipe
from bcn.backup.walk import failure
from bcn.engine.meter import Meter
from bcn.engine.parts import load_group, save_part
from bcn.engine.transfer import Copied, Pace, Transfer
from bcn.errors import (
    BcnError,
    KeyExistsError,
    MissingKeyError,
    MissingSourceFileError,
    StorageError,
)
from bcn.model import Json, PitId
from bcn.repository import layout
from bcn.storage.open import Stores, open_storage
from bcn.storage.protocol import Storage


class _RepositoryWriteError(Exception):
    """The repository takes no bytes: no other file will fare better."""

    def __init__(self, cause: StorageError) -> None:
        super().__init__(str(cause))
        self.cause = cause


@dataclass(frozen=True, slots=True)
class _Stored:
    key: str
    content: Copied
    source_version: str
    copied: bool


class _Copier:
    """Brings files of tables into the repository, at keys that are free or hold the same bytes."""

    def __init__(self, repository: Storage, pit: PitId, transfer: Transfer) -> None:
        self._stores = Stores()
        self._repository = repository
        self._pit = pit
        self._transfer = transfer

    def copy(self, location: str, key: str) -> _Stored:
        """Store one source file. Raises MissingSourceFileError, StorageError."""
        source, source_key = self._stores.resolve(location)
        stat = source.find_stat(source_key)
        if stat is None:
            raise MissingSourceFileError(f"{location} is missing")
        for candidate in (key, layout.alternative_data_key(key, self._pit)):
            stored = self._try_key(source, source_key, candidate)
            if stored is not None:
                content, copied = stored
                return _Stored(candidate, content, stat.version, copied)
        raise StorageError(f"{key} is taken by other bytes, and so is the key beside it")

    def _try_key(self, source: Storage, source_key: str, key: str) -> tuple[Copied, bool] | None:
        """Copy to the key, or adopt what is there if it is the same; None if other bytes are."""
        if self._repository.find_stat(key) is None:
            try:
                return self._write(source, source_key, key), True
            except KeyExistsError:
                pass  # another attempt of this task was quicker
        content = self._transfer.hash(source, source_key)
        if self._transfer.hash(self._repository, key) == content:
            return content, False
        return None

    def _write(self, source: Storage, source_key: str, key: str) -> Copied:
        try:
            return self._transfer.copy(source, source_key, self._repository, key)
        except (KeyExistsError, MissingKeyError):
            raise
        except StorageError as error:
            if source.find_stat(source_key) is not None:
                raise _RepositoryWriteError(error) from error
            raise


def copy_chunks(task: CopyTask) -> CopyResult:
    """Copy the files of some chunks; what became of them is written as parts."""
    repository, scratch = open_storage(task.run.repository), open_storage(task.run.scratch)
    transfer = Transfer(Pace(task.bytes_per_second))
    copier = _Copier(repository, task.run.pit, transfer)
    meter, adopted = Meter(task.meter, task.number), [0, 0]
    failures: list[Failure] = []
    for chunk in task.chunks:
        rows: list[Json] = []
        planned = load_group(scratch, plan_key(task.run, chunk.group), chunk.row_group)
        for row in planned.to_pylist():
            recipe = task.tables[row["table_no"]]
            location = _location(recipe, row)
            try:
                stored = copier.copy(
                    location, layout.data_key(recipe.object_id, row["root_id"], row["path"])
                )
            except _RepositoryWriteError as error:
                return _result(meter, adopted, failures, failure(-1, error.cause, location))
            except BcnError as error:
                failures.append(failure(row["table_no"], error, location))
                continue
            rows.append(_copied_row(row, stored, task.run.pit))
            meter.add(1, stored.content.size_bytes)
            if not stored.copied:
                adopted[0] += 1
                adopted[1] += stored.content.size_bytes
        key = f"{copied_prefix(task.run, chunk.group)}{chunk.row_group:06d}.parquet"
        save_part(scratch, key, pa.Table.from_pylist(rows, COPIED_SCHEMA))
    return _result(meter, adopted, failures, None)


def _result(
    meter: Meter, adopted: list[int], failures: list[Failure], fatal: Failure | None
) -> CopyResult:
    meter.send()
    return CopyResult(
        meter.files - adopted[0],
        meter.size_bytes - adopted[1],
        adopted[0],
        adopted[1],
        tuple(failures),
        fatal,
    )


def _location(recipe: TableRecipe, row: Json) -> str:
    spelling = next(root.spelling for root in recipe.roots if root.id == row["root_id"])
    return f"{spelling}/{row['path']}"


def _copied_row(row: Json, stored: _Stored, pit: PitId) -> Json:
    return {
        "table_no": row["table_no"],
        "root_id": row["root_id"],
        "path": row["path"],
        "key": stored.key,
        "size_bytes": stored.content.size_bytes,
        "sha256": stored.content.sha256,
        "stored_size_bytes": stored.content.size_bytes,
        "source_version": stored.source_version,
        "first_pit": str(pit),
        "copied": stored.copied,
    }
