"""The steps of a restore on executors: sort files, copy or rewrite them, check."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bcn.engine.chunks import Chunk, chunk_ends, size_of
from bcn.engine.meter import Meter
from bcn.engine.parts import Part, identities, load_group, load_parts, look_up, save_part
from bcn.engine.transfer import Copied, Pace, Transfer, map_files, small_in_flight
from bcn.errors import (
    BcnError,
    DamagedRepositoryError,
    KeyExistsError,
    MissingKeyError,
    OverlapError,
    TargetExistsError,
)
from bcn.iceberg.deletes import relocate_position_deletes
from bcn.iceberg.manifest import (
    RewrittenDelete,
    decode_manifest,
    decode_manifest_list,
    relocate_manifest,
    relocate_manifest_list,
)
from bcn.iceberg.puffin import relocate_puffin
from bcn.model import Json, sha256
from bcn.repository.inventory import load_inventory
from bcn.restore.tasks import (
    COPY,
    DELETES,
    LISTS,
    MANIFESTS,
    PLAN_SCHEMA,
    REWRITTEN_SCHEMA,
    STEP_OF_KIND,
    STEPS,
    PlanResult,
    PlanTask,
    RestoreRecipe,
    StepResult,
    StepTask,
)
from bcn.storage.open import Stores, open_storage
from bcn.storage.protocol import Storage

_DELETED = 2


# sorting


def plan_group(task: PlanTask) -> PlanResult:
    """Sort a share of the inventory by step, and cut each step into chunks."""
    repository, scratch = open_storage(task.run.repository), open_storage(task.run.scratch)
    tables = [PLAN_SCHEMA.empty_table()]
    odd_sizes: dict[str, int] = {}
    for number, slot in task.units:
        recipe = task.tables[number]
        inventory = load_inventory(repository, recipe.layers, slot)
        files = inventory.filter(pc.not_equal(inventory["kind"], "metadata"))
        tables.append(_rows_of(recipe, _distinct_places(files)))
        odd_sizes |= _odd_sizes(recipe, files)
    rows = pa.concat_tables(tables)
    steps = _steps(rows, task.tables)
    chunks = {
        step: _save_chunks(scratch, step, task.group, rows.filter(pa.array(steps == step)))
        for step in STEPS
    }
    return PlanResult(chunks, odd_sizes)


def _rows_of(recipe: RestoreRecipe, files: pa.Table) -> pa.Table:
    """One row a location: two roots may spell one place, and then both are rows."""
    locations = _locations(recipe, files)
    columns = {
        name: files[name]
        for name in ("kind", "format", "key", "size_bytes", "recorded_size_bytes", "sha256")
    }
    table = pa.table(
        {
            "table_no": pa.array(np.full(files.num_rows, recipe.number, np.int32)),
            "location": pa.array(locations, pa.string()),
            "target": pa.array([recipe.moves.apply(place) for place in locations], pa.string()),
            **columns,
        }
    )
    return table.select(PLAN_SCHEMA.names).cast(PLAN_SCHEMA)


def _locations(recipe: RestoreRecipe, files: pa.Table) -> list[str]:
    pairs = zip(files["root_id"].to_pylist(), files["path"].to_pylist(), strict=True)
    return [recipe.location(root, path) for root, path in pairs]


def _odd_sizes(recipe: RestoreRecipe, files: pa.Table) -> dict[str, int]:
    """Files whose size some manifest gets wrong: the size that they have, by their new place."""
    places = ("root_id", "path")
    real = look_up(files, _distinct_places(files), places, ("size_bytes",))["size_bytes"]
    odd = files.filter(pc.fill_null(pc.not_equal(real, files["recorded_size_bytes"]), False))  # noqa: FBT003  pyarrow's own
    sizes = look_up(odd, _distinct_places(files), places, ("size_bytes",))["size_bytes"]
    targets = (recipe.moves.apply(location) for location in _locations(recipe, odd))
    return dict(zip(targets, sizes.to_pylist(), strict=True))


def _distinct_places(files: pa.Table) -> pa.Table:
    """One row a location. Of a path that was used again, the row of the latest layer counts."""
    places = identities(files, ("root_id", "path"))
    lasts = (
        pa.table({"place": places, "row": np.arange(len(places))})
        .group_by("place", use_threads=False)
        .aggregate([("row", "max")])["row_max"]
    )
    return files.take(lasts)


def _steps(rows: pa.Table, tables: Mapping[int, RestoreRecipe]) -> np.ndarray:
    """What to do with each row; where nothing moves, everything is copied as it is."""
    still = {number for number, recipe in tables.items() if recipe.moves.is_identity}
    pairs = zip(rows["table_no"].to_pylist(), rows["kind"].to_pylist(), strict=True)
    return np.array(
        [COPY if number in still else STEP_OF_KIND.get(kind, COPY) for number, kind in pairs],
        dtype=object,
    )


def _plan_key(step: str, group: int) -> str:
    return f"plan/{step}/{group:06d}.parquet"


def _save_chunks(scratch: Storage, step: str, group: int, rows: pa.Table) -> tuple[Chunk, ...]:
    order = pc.sort_indices(rows, sort_keys=[("size_bytes", "descending")])
    rows = rows.take(order)
    sizes = np.asarray(rows["size_bytes"], dtype=np.int64)
    ends = chunk_ends(sizes)
    save_part(scratch, _plan_key(step, group), rows, ends)
    return tuple(
        Chunk(group, number, end - start, int(sizes[start:end].sum()))
        for number, (start, end) in enumerate(zip([0, *ends], ends, strict=False))
    )


# doing


def run_step(task: StepTask) -> StepResult:
    """Do one step for some chunks. The first error ends the task: a restore is whole or not."""
    worker = _Worker(task)
    try:
        if task.step == COPY:
            worker.copy(task.chunks)
        for chunk in task.chunks if task.step != COPY else ():
            worker.rewrite(chunk)
    except BcnError as error:
        return StepResult(error=error)
    finally:
        worker.meter.send()
    return StepResult(
        worker.meter.files - worker.files_adopted,
        worker.meter.size_bytes - worker.bytes_adopted,
        worker.files_adopted,
        worker.bytes_adopted,
    )


class _Worker:
    def __init__(self, task: StepTask) -> None:
        self._task = task
        self._repository = open_storage(task.run.repository)
        self._scratch = open_storage(task.run.scratch)
        self._stores = Stores(task.run.access)
        self._transfer = Transfer(Pace(task.bytes_per_second), size_of(task.chunks))
        self._rewritten: dict[str, dict[int, list[Json]]] = {}
        self._plans: dict[int, Part] = {}
        self.meter = Meter(task.meter, task.number)
        self.files_adopted = 0
        self.bytes_adopted = 0

    def copy(self, chunks: Sequence[Chunk]) -> None:
        """Bring files of chunks to their targets as they are."""
        targets = (move.new for recipe in self._task.tables.values() for move in recipe.moves.moves)
        in_flight = small_in_flight(self._repository, self._stores, targets)
        for size_bytes, brought in map_files(self._copy, self._rows, chunks, in_flight):
            self.meter.add(1, size_bytes)
            if not brought:
                self._count_adopted(size_bytes)
        self._transfer.settle()

    def rewrite(self, chunk: Chunk) -> None:
        """Make the files of a chunk anew, and note what became of them."""
        results = [self._rewrite(row) for row in self._rows(chunk)]
        key = f"rewritten/{self._task.step}/{chunk.group:06d}-{chunk.row_group:06d}.parquet"
        save_part(self._scratch, key, pa.Table.from_pylist(results, REWRITTEN_SCHEMA))

    def _rows(self, chunk: Chunk) -> list[Json]:
        if chunk.group not in self._plans:
            key = _plan_key(self._task.step, chunk.group)
            self._plans[chunk.group] = Part(self._scratch, key)
        rows: list[Json] = self._plans[chunk.group].load_group(chunk.row_group).to_pylist()
        return rows

    def _count_adopted(self, size_bytes: int) -> None:
        self.files_adopted += 1
        self.bytes_adopted += size_bytes

    def _check_inside(self, row: Json) -> None:
        """Raises OverlapError for a path that a disk would follow out of its target."""
        move = self._task.tables[row["table_no"]].moves.find(row["location"])
        if move and move.old != move.new and ".." in row["location"][len(move.old) :].split("/"):
            raise OverlapError(
                f"{row['location']} leads out of {move.old}, and would lead out of {move.new}:"
                " say with --map-root where the place it leads to shall go"
            )

    # verbatim

    def _copy(self, row: Json) -> tuple[int, bool]:
        """The size of a file that is in its place now, and whether it had to be brought there."""
        self._check_inside(row)
        target, key = self._stores.resolve(row["target"])
        if target.find_stat(key) is None:
            with suppress(KeyExistsError):
                copied = self._bring(row, target, key)
                return copied.size_bytes, True
        # What an earlier, interrupted run has put there already.
        if self._transfer.hash(target, key).sha256 != row["sha256"]:
            raise _taken(row["target"])
        return row["size_bytes"], False

    def _bring(self, row: Json, target: Storage, key: str) -> Copied:
        try:
            copied = self._transfer.copy(self._repository, row["key"], target, key)
        except MissingKeyError:
            raise _missing(row) from None
        if copied.sha256 != row["sha256"]:
            target.delete(key)
            raise _damaged(row)
        return copied

    # rewritten

    def _rewrite(self, row: Json) -> Json:
        self._check_inside(row)
        data = self._load(row)
        recipe = self._task.tables[row["table_no"]]
        new, lower, upper = _REWRITERS[self._task.step](self, recipe, row, data)
        self._save(row["target"], new)
        self.meter.add(1, row["size_bytes"])
        return {
            "table_no": row["table_no"],
            "location": row["location"],
            "size_bytes": len(new),
            "lower": lower,
            "upper": upper,
        }

    def _load(self, row: Json) -> bytes:
        try:
            data = self._repository.read(row["key"])
        except MissingKeyError:
            raise _missing(row) from None
        if sha256(data) != row["sha256"].hex():
            raise _damaged(row)
        return data

    def _save(self, location: str, data: bytes) -> None:
        storage, key = self._stores.resolve(location)
        try:
            with storage.open_writer(key) as writer:
                writer.write(data)
                writer.commit()
        except KeyExistsError:
            if storage.read(key) != data:
                raise _taken(location) from None
            self._count_adopted(len(data))

    def rewritten(self, step: str, table_no: int) -> Iterator[Json]:
        """What an earlier step made of this table's files."""
        if step not in self._rewritten:
            by_table: dict[int, list[Json]] = {}
            rows = load_parts(self._scratch, f"rewritten/{step}/", REWRITTEN_SCHEMA)
            for row in rows.to_pylist():
                by_table.setdefault(row["table_no"], []).append(row)
            self._rewritten[step] = by_table
        yield from self._rewritten[step].get(table_no, [])


def _missing(row: Json) -> DamagedRepositoryError:
    return DamagedRepositoryError(f"{row['key']} is missing from the repository")


def _damaged(row: Json) -> DamagedRepositoryError:
    return DamagedRepositoryError(f"{row['key']} is damaged: its SHA-256 does not match")


def _taken(location: str) -> TargetExistsError:
    return TargetExistsError(f"{location} is there already, with other bytes")


_New = tuple[bytes, str | None, str | None]


def _rewrite_deletes(worker: _Worker, recipe: RestoreRecipe, row: Json, data: bytes) -> _New:
    if row["kind"] == "deletion_vectors":
        return relocate_puffin(data, recipe.moves), None, None
    result = relocate_position_deletes(data, row["format"], recipe.moves)
    return result.data, result.lower, result.upper


def _rewrite_manifest(worker: _Worker, recipe: RestoreRecipe, row: Json, data: bytes) -> _New:
    deletes = {
        item["location"]: RewrittenDelete(item["size_bytes"], item["lower"], item["upper"])
        for item in worker.rewritten(DELETES, recipe.number)
    }
    return relocate_manifest(data, recipe.moves, deletes), None, None


def _rewrite_list(worker: _Worker, recipe: RestoreRecipe, row: Json, data: bytes) -> _New:
    lengths = {
        item["location"]: item["size_bytes"] for item in worker.rewritten(MANIFESTS, recipe.number)
    }
    if recipe.damaged:
        rows = decode_manifest_list(data)
        for path, length in zip(rows.manifest_path, rows.manifest_length, strict=True):
            if path in recipe.damaged:
                lengths.setdefault(path, length)
    return relocate_manifest_list(data, recipe.moves, lengths), None, None


_REWRITERS: dict[str, Callable[[_Worker, RestoreRecipe, Json, bytes], _New]] = {
    DELETES: _rewrite_deletes,
    MANIFESTS: _rewrite_manifest,
    LISTS: _rewrite_list,
}


# checking


def check_manifests(task: StepTask) -> StepResult:
    """Walk restored manifests: every live file is in its new place, of its recorded size."""
    scratch, stores, files = open_storage(task.run.scratch), Stores(task.run.access), 0
    try:
        for chunk in task.chunks:
            key = _plan_key(task.step, chunk.group)
            for row in load_group(scratch, key, chunk.row_group).to_pylist():
                if row["kind"] == "manifest":
                    files += _check_manifest(stores, row, task)
    except BcnError as error:
        return StepResult(error=error)
    return StepResult(files=files)


def _check_manifest(stores: Stores, row: Json, task: StepTask) -> int:
    recipe = task.tables[row["table_no"]]
    storage, key = stores.resolve(row["target"])
    entries = decode_manifest(storage.read(key))
    live = pa.array(entries.status != _DELETED)
    paths = entries.file_path.filter(live).to_pylist()
    sizes = pa.array(entries.file_size_bytes).filter(live).to_pylist()
    missing = {recipe.moves.apply(location) for location in recipe.damaged}
    for path, size in zip(paths, sizes, strict=True):
        if path not in missing:
            _check_file(stores, path, task.odd_sizes.get(path, size), row["target"])
    return len(paths)


def _check_file(stores: Stores, path: str, size: int, manifest: str) -> None:
    storage, key = stores.resolve(path)
    stat = storage.find_stat(key)
    if stat is None:
        raise DamagedRepositoryError(f"{manifest} names {path}, which was not restored")
    if stat.size_bytes != size:
        raise DamagedRepositoryError(f"{path} has {stat.size_bytes} bytes, {manifest} says {size}")
