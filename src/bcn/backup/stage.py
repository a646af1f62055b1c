"""Planning and sealing a group of files on executors: what to copy, and the layers it becomes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bcn.backup.roots import UNRESOLVED, Roots
from bcn.backup.tasks import (
    COPIED_SCHEMA,
    FILE_IDENTITY,
    FILE_SCHEMA,
    KNOWN_COLUMNS,
    KNOWN_IDENTITY,
    GroupTask,
    PlanResult,
    Run,
    SealedPart,
    TableRecipe,
)
from bcn.engine.chunks import Chunk, chunk_ends
from bcn.engine.parts import identities, load_part, load_parts, look_up, save_part
from bcn.errors import DamagedRepositoryError, KeyExistsError
from bcn.model import sha256
from bcn.repository import layout
from bcn.repository.entry import LayerPart
from bcn.repository.inventory import (
    ADDED,
    LAYER_SCHEMA,
    REMOVED,
    Slot,
    distinct_files,
    load_inventory,
    removals_of,
    render_layer,
    totals,
)
from bcn.storage.open import Stores, open_storage
from bcn.storage.protocol import Storage

_ROWS_SCHEMA = pa.schema([*FILE_SCHEMA, *(COPIED_SCHEMA.field(name) for name in KNOWN_COLUMNS)])


def rows_key(run: Run, group: int) -> str:
    """Where planning leaves all rows of a group, with what is known of them."""
    return layout.job_key(run.job, f"rows/{group:06d}.parquet")


def plan_key(run: Run, group: int) -> str:
    """Where planning leaves the files of a group to copy, a row group for each chunk."""
    return layout.job_key(run.job, f"plan/{group:06d}.parquet")


def copied_prefix(run: Run, group: int) -> str:
    """Where copying leaves what became of the files of a group."""
    return layout.job_key(run.job, f"copied/{group:06d}/")


def plan_group(task: GroupTask) -> PlanResult:
    """Sort out what the parent knows from what must be copied, and cut the latter into chunks."""
    repository, scratch = open_storage(task.run.repository), open_storage(task.run.scratch)
    prefix = layout.job_key(task.run.job, f"walk/{task.group.number:06d}/")
    rows = _resolve(_of_tables(load_parts(scratch, prefix, FILE_SCHEMA), task.tables), task.tables)
    known = _known_files(task, repository)
    columns = look_up(rows, known, KNOWN_IDENTITY, KNOWN_COLUMNS)
    for name in KNOWN_COLUMNS:
        rows = rows.append_column(_ROWS_SCHEMA.field(name), columns[name])
    save_part(scratch, rows_key(task.run, task.group.number), rows.cast(_ROWS_SCHEMA))
    untouched = _untouched(task, repository, known)
    return _save_plan(task, scratch, _distinct(rows.filter(pc.is_null(rows["key"]))), untouched)


def _of_tables(rows: pa.Table, tables: Mapping[int, TableRecipe]) -> pa.Table:
    """Without rows of tables that failed while they were walked."""
    return rows.filter(pc.is_in(rows["table_no"], pa.array(list(tables), pa.int32())))


def _resolve(rows: pa.Table, tables: Mapping[int, TableRecipe]) -> pa.Table:
    """Split locations whose root was not yet known when they were walked."""
    pending = rows.filter(pc.equal(rows["root_id"], UNRESOLVED))
    if pending.num_rows == 0:
        return rows
    done = [rows.filter(pc.not_equal(rows["root_id"], UNRESOLVED))]
    for number in pc.unique(pending["table_no"]).to_pylist():
        part = pending.filter(pc.equal(pending["table_no"], number))
        locations = part["path"].combine_chunks()
        ids, paths = Roots(tables[number].roots).split_all(locations)
        part = part.set_column(2, FILE_SCHEMA.field("root_id"), pa.array(ids))
        done.append(part.set_column(3, FILE_SCHEMA.field("path"), paths))
    return pa.concat_tables(done)


def _known_files(task: GroupTask, repository: Storage) -> pa.Table:
    """Files of these tables that the parent PIT holds. Metadata documents are always read anew."""
    schema = pa.schema([("table_no", pa.int32()), *LAYER_SCHEMA])
    tables = [schema.empty_table()]
    for number, slot in task.group.units:
        inventory = load_inventory(repository, task.tables[number].parent_layers, slot)
        files = inventory.filter(pc.not_equal(inventory["kind"], "metadata"))
        numbers = pa.array(np.full(files.num_rows, number, np.int32))
        tables.append(files.add_column(0, schema.field("table_no"), numbers).cast(schema))
    known = pa.concat_tables(tables)
    return known.take(np.arange(known.num_rows)[::-1])  # of a path used twice, the latest counts


def _untouched(task: GroupTask, repository: Storage, known: pa.Table) -> frozenset[int]:
    """Tables of which nothing is stored, not even by a run that was killed: their keys are free."""
    fresh = set(task.tables) - set(pc.unique(known["table_no"]).to_pylist())
    prefixes = {number: layout.data_prefix(task.tables[number].object_id) for number in fresh}
    return frozenset(
        number for number in fresh if next(repository.iter_keys(prefixes[number]), None) is None
    )


def _distinct(rows: pa.Table) -> pa.Table:
    """One row a file."""
    names = identities(rows, FILE_IDENTITY)
    firsts = (
        pa.table({"name": names, "row": np.arange(len(names))})
        .group_by("name", use_threads=False)
        .aggregate([("row", "min")])["row_min"]
    )
    return rows.take(firsts)


def _save_plan(
    task: GroupTask, scratch: Storage, files: pa.Table, untouched: frozenset[int]
) -> PlanResult:
    sizes = _sizes(files, task)
    order = np.argsort(-sizes, kind="stable")
    sizes = sizes[order]
    files = files.select(["table_no", "root_id", "path", "kind"]).take(order)
    ends = chunk_ends(sizes)
    save_part(scratch, plan_key(task.run, task.group.number), files, ends)
    chunks = tuple(
        Chunk(task.group.number, number, end - start, int(sizes[start:end].sum()))
        for number, (start, end) in enumerate(zip([0, *ends], ends, strict=False))
    )
    numbers = np.asarray(files["table_no"], dtype=np.int64)
    least = max(task.tables) + 1
    counts = np.bincount(numbers, minlength=least)
    bytes_ = np.bincount(numbers, weights=sizes, minlength=least)
    by_table = {number: (int(counts[number]), int(bytes_[number])) for number in task.tables}
    return PlanResult(chunks, len(sizes), int(sizes.sum()), by_table, untouched)


def _sizes(files: pa.Table, task: GroupTask) -> NDArray[np.int64]:
    """Sizes as recorded; the source is asked where nothing records one, as of manifest lists."""
    recorded = pc.fill_null(files["recorded_size_bytes"], -1)
    sizes: NDArray[np.int64] = recorded.to_numpy().copy()
    stores = Stores(task.run.access)
    unknown = np.flatnonzero(sizes < 0)
    for position, row in zip(unknown.tolist(), files.take(unknown).to_pylist(), strict=True):
        recipe = task.tables[row["table_no"]]
        storage, key = stores.resolve(recipe.location(row["root_id"], row["path"]))
        stat = storage.find_stat(key)
        sizes[position] = stat.size_bytes if stat else 0
    return sizes


def seal_group(task: GroupTask) -> list[SealedPart]:
    """Write the layer parts of a group's tables, except of those that are hurt."""
    repository, scratch = open_storage(task.run.repository), open_storage(task.run.scratch)
    rows = load_part(scratch, rows_key(task.run, task.group.number))
    copied = load_parts(scratch, copied_prefix(task.run, task.group.number), COPIED_SCHEMA)
    found = look_up(rows, copied, FILE_IDENTITY, KNOWN_COLUMNS)
    for name in KNOWN_COLUMNS:
        index = rows.schema.get_field_index(name)
        rows = rows.set_column(index, name, pc.coalesce(rows[name], found[name]))
    return [
        _seal_table(task, repository, number, slot, rows.filter(pc.equal(rows["table_no"], number)))
        for number, slot in task.group.units
        if number not in task.hurt
    ]


def _seal_table(
    task: GroupTask, repository: Storage, number: int, slot: Slot, rows: pa.Table
) -> SealedPart:
    recipe = task.tables[number]
    rows = _whole_rows(task, rows)
    added = rows.append_column("change", pa.array([ADDED] * rows.num_rows, pa.string()))
    layer = pa.concat_tables(
        [
            added.select(LAYER_SCHEMA.names).cast(LAYER_SCHEMA),
            _removed_rows(task.removed.get(number, ()) if slot.number == 0 else ()),
        ]
    )
    inventory = _inventory(task, repository, number, slot, layer)
    if recipe.layer_kind == "full":
        layer = inventory
    new = distinct_files(layer.filter(pc.equal(layer["first_pit"], str(task.run.pit))))
    odd = new.filter(pc.not_equal(new["size_bytes"], new["recorded_size_bytes"]))
    files, size_bytes = totals(inventory)
    metadata = inventory.filter(pc.equal(inventory["kind"], "metadata")).to_pylist()
    return SealedPart(
        table_no=number,
        part=_save_layer(task, repository, recipe, slot, layer),
        files=files,
        size_bytes=size_bytes,
        files_new=new.num_rows,
        bytes_new=pc.sum(new["size_bytes"]).as_py() or 0,
        odd_sizes=odd.num_rows,
        metadata=(metadata[-1]["key"], metadata[-1]["sha256"].hex()) if metadata else None,
    )


def _whole_rows(task: GroupTask, rows: pa.Table) -> pa.Table:
    """Rows whose bytes are stored. Raises unless the missing ones were allowed to be missing."""
    stored = rows.filter(pc.is_valid(rows["key"]))
    if stored.num_rows != rows.num_rows and not task.skip_damaged:
        raise DamagedRepositoryError(
            f"{rows.num_rows - stored.num_rows} files were neither known nor copied"
        )
    return stored


def _inventory(
    task: GroupTask, repository: Storage, number: int, slot: Slot, layer: pa.Table
) -> pa.Table:
    """The table's folded inventory with this layer on top."""
    added = layer.filter(pc.equal(layer["change"], ADDED))
    if not task.tables[number].carries:
        return added
    parent = load_inventory(repository, task.tables[number].parent_layers, slot)
    removals = removals_of(_removed_rows(task.removed.get(number, ())))
    if removals is not None:
        parent = removals.keep(parent)
    return pa.concat_tables([parent, added])


def _removed_rows(removed: tuple[tuple[str, int, str], ...]) -> pa.Table:
    columns = {
        "change": [REMOVED] * len(removed),
        "kind": [kind for kind, _, _ in removed],
        "root_id": [root for _, root, _ in removed],
        "path": [path for _, _, path in removed],
    }
    nulls = {name: [None] * len(removed) for name in LAYER_SCHEMA.names if name not in columns}
    return pa.table({**columns, **nulls}, schema=None).select(LAYER_SCHEMA.names).cast(LAYER_SCHEMA)


def _save_layer(
    task: GroupTask, repository: Storage, recipe: TableRecipe, slot: Slot, layer: pa.Table
) -> LayerPart:
    suffix = f"-r{task.run.round}" if task.run.round > 1 else ""
    suffix += f"-p{slot.number + 1}" if slot.count > 1 else ""
    key = layout.layer_key(task.run.catalog, recipe.table, task.run.pit, recipe.layer_kind, suffix)
    data = render_layer(layer)
    try:
        with repository.open_writer(key) as writer:
            writer.write(data)
            writer.commit()
    except KeyExistsError:  # an earlier attempt of this very task
        if repository.read(key) != data:
            raise
    return LayerPart(key, sha256(data), len(data), layer.num_rows)
