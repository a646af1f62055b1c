"""Reading metadata on executors: manifest lists to manifests, manifests to rows of live files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bcn.backup.roots import UNRESOLVED, Roots, external_roots
from bcn.backup.tasks import (
    FILE_SCHEMA,
    Failure,
    ListResult,
    ListTask,
    ManifestRef,
    Run,
    TableRecipe,
    WalkResult,
    WalkTask,
)
from bcn.engine.parts import save_part
from bcn.errors import BcnError, MissingKeyError, MissingSourceFileError
from bcn.iceberg.manifest import (
    ManifestEntries,
    decode_manifest,
    decode_manifest_list,
    file_kinds,
)
from bcn.repository import layout
from bcn.repository.inventory import Slot, slot_of
from bcn.storage.open import Stores, open_storage
from bcn.storage.protocol import Storage

_DELETED = 2


def read_source(stores: Stores, location: str) -> bytes:
    """All bytes of a source file. Raises MissingSourceFileError."""
    storage, key = stores.resolve(location)
    try:
        return storage.read(key)
    except MissingKeyError:
        raise MissingSourceFileError(f"{location} is missing") from None


def failure(table_no: int, error: BcnError, location: str) -> Failure:
    """An error as a result."""
    message = str(error)
    if location not in message:
        message = f"{location}: {message}"
    return Failure(table_no, type(error).__name__, message, location, error.hint)


def read_lists(task: ListTask) -> ListResult:
    """The manifests of some manifest lists."""
    stores = Stores(task.run.access)
    manifests: dict[str, ManifestRef] = {}
    failures: list[Failure] = []
    for _, location in task.lists:
        try:
            rows = decode_manifest_list(read_source(stores, location))
        except BcnError as error:
            failures.append(failure(task.table_no, error, location))
            continue
        columns = zip(
            rows.manifest_path,
            rows.manifest_length,
            rows.added_snapshot_id,
            rows.live_files_count,
            strict=True,
        )
        for path, length, snapshot, live in columns:
            manifests.setdefault(path, ManifestRef(path, length, snapshot, live))
    return ListResult(task.table_no, tuple(manifests.values()), tuple(failures))


def walk_manifests(task: WalkTask) -> WalkResult:
    """Decode manifests and write the rows of their live files, a part for each group."""
    stores, scratch = Stores(task.run.access), open_storage(task.run.scratch)
    walked: dict[int, list[pa.Table]] = defaultdict(list)
    failures: list[Failure] = []
    for table_no, location, name in task.manifests:
        try:
            entries = decode_manifest(read_source(stores, location))
        except BcnError as error:
            failures.append(failure(table_no, error, location))
            continue
        roots = Roots(task.tables[table_no].roots)
        walked[table_no].append(_live_rows(table_no, entries, name, roots))
    return _save_rows(task, scratch, walked, tuple(failures))


def _save_rows(
    task: WalkTask,
    scratch: Storage,
    walked: dict[int, list[pa.Table]],
    failures: tuple[Failure, ...],
) -> WalkResult:
    externals: list[tuple[int, str]] = []
    by_group: dict[int, list[pa.Table]] = defaultdict(list)
    for table_no, tables in walked.items():
        rows = pa.concat_tables(tables)
        unresolved = rows.filter(pc.equal(rows["root_id"], UNRESOLVED))
        externals += [(table_no, root) for root in external_roots(unresolved["path"].to_pylist())]
        for group, share in split_by_group(rows, task.tables[table_no]):
            by_group[group].append(share)
    for group, tables in by_group.items():
        save_part(scratch, walk_key(task.run, group, task.number), pa.concat_tables(tables))
    total = sum(table.num_rows for tables in walked.values() for table in tables)
    return WalkResult(len(task.manifests) - len(failures), total, tuple(externals), failures)


def walk_key(run: Run, group: int, part: int) -> str:
    """Where a walk leaves the rows of a group."""
    return layout.job_key(run.job, f"walk/{group:06d}/{part:06d}.parquet")


def split_by_group(rows: pa.Table, recipe: TableRecipe) -> Iterator[tuple[int, pa.Table]]:
    """The rows of one table by the groups that handle them."""
    count = len(recipe.groups)
    for number, group in enumerate(recipe.groups):
        share = rows
        if count > 1:
            share = rows.filter(pa.array(slot_of(rows["path"], Slot(number, count))))
        if share.num_rows:
            yield group, share


def _live_rows(table_no: int, entries: ManifestEntries, name: str, roots: Roots) -> pa.Table:
    live = pa.array(entries.status != _DELETED)
    locations = entries.file_path.filter(live)
    ids, paths = roots.split_all(locations)
    formats = pc.cast(pa.array(entries.file_format), pa.string()).filter(live)
    count = len(locations)
    snapshots = pa.array(entries.snapshot_id, mask=entries.snapshot_id_null).filter(live)
    return pa.table(
        {
            "table_no": pa.array(np.full(count, table_no, np.int32)),
            "kind": file_kinds(pa.array(entries.file_content).filter(live), formats),
            "root_id": pa.array(ids),
            "path": paths,
            "parent_manifest": pa.array([name] * count, pa.string()),
            "format": formats,
            "recorded_size_bytes": pa.array(entries.file_size_bytes).filter(live),
            "record_count": pa.array(entries.record_count).filter(live),
            "added_snapshot_id": snapshots,
        },
        schema=FILE_SCHEMA,
    )
