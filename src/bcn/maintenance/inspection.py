"""Levels 1 to 3 on executors: layers folded and checked, stored files looked at, bytes hashed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bcn.engine.chunks import Chunk, chunk_ends, size_of
from bcn.engine.meter import Meter
from bcn.engine.parts import load_group, save_part
from bcn.engine.transfer import Copied, Pace, Transfer, map_files
from bcn.errors import BcnError
from bcn.maintenance.report import Finding, Findings, Severity
from bcn.maintenance.sums import SUMMED_SCHEMA, save_sums, with_sums
from bcn.maintenance.verify_tasks import (
    FILE_SCHEMA,
    FINDINGS_PER_TASK,
    Chain,
    HashResult,
    HashTask,
    InspectResult,
    InspectTask,
    NeedTask,
    Unit,
    hash_key,
    manifests_key,
)
from bcn.model import Json
from bcn.repository.entry import Layer
from bcn.repository.inventory import (
    REMOVED,
    Slot,
    fold_layer,
    load_inventory,
    load_layer_part,
    manifest_names,
    slot_of,
    totals,
)
from bcn.storage.open import open_storage
from bcn.storage.protocol import Storage

_NEVER_NULL = ("key", "size_bytes", "sha256", "stored_size_bytes", "first_pit")
# A path that was used again with other bytes has a key for each, of different points in time.
_STORED = ["root_id", "path", "first_pit"]
_CONTENT = ["key", "sha256", "size_bytes", "stored_size_bytes"]


def inspect_group(task: InspectTask) -> InspectResult:
    """Fold the inventories of some units and check them; what later levels need goes to scratch."""
    inspector = _Inspector(task)
    for unit in task.units:
        inspector.inspect(unit)
    return inspector.result()


class _Inspector:
    def __init__(self, task: InspectTask) -> None:
        self._run = task.run
        self._group = task.group
        self._repository = open_storage(task.run.repository)
        self._scratch = open_storage(task.run.scratch)
        self._findings = Findings(FINDINGS_PER_TASK)
        self._totals: dict[int, tuple[int, int, int]] = {}
        self._files: list[pa.Table] = [FILE_SCHEMA.empty_table()]
        self._manifests: list[pa.Table] = [FILE_SCHEMA.empty_table()]
        self._counts = [0, 0]

    def result(self) -> InspectResult:
        """What was found; the plans of later levels are saved now."""
        to_hash: tuple[Chunk, ...] = ()
        to_walk: tuple[Chunk, ...] = ()
        if self._run.level >= 3:
            to_hash = _save_plan(self._scratch, hash_key(self._group), self._group, self._files)
        if self._run.level >= 4:
            key = manifests_key(self._group)
            to_walk = _save_plan(self._scratch, key, self._group, self._manifests)
        return InspectResult(
            tuple(self._findings.items),
            self._findings.omitted,
            self._counts[0],
            self._counts[1],
            self._totals,
            to_hash,
            to_walk,
        )

    def inspect(self, unit: Unit) -> None:
        """Check every chain of an object; files that several chains share are looked at once."""
        state = SUMMED_SCHEMA.empty_table()
        done: tuple[Layer, ...] = ()
        seen = pa.array([], pa.binary())
        for chain in unit.chains:
            if chain.layers[: len(done)] != done:
                state, done = SUMMED_SCHEMA.empty_table(), ()
            folded = self._fold(state, chain, chain.layers[len(done) :], unit.slot)
            if folded is None:
                continue
            state, done = folded, chain.layers
            self._check_rows(chain, state)
            names = _contents(state)
            fresh = state.filter(pc.invert(pc.is_in(names, seen)))
            seen = pa.concat_arrays([seen, pc.unique(_contents(fresh)).cast(pa.binary())])
            self._look(chain, _distinct(fresh))
            if self._run.level >= 4:
                save_sums(self._scratch, chain, unit.slot, state)

    def _find(self, level: int, chain: Chain, key: str, message: str) -> None:
        finding = Finding(level, Severity.ERROR, chain.pit, chain.object, key, message)
        self._findings.add(finding)

    # level 1

    def _fold(
        self, state: pa.Table, chain: Chain, layers: Sequence[Layer], slot: Slot
    ) -> pa.Table | None:
        """The state with more layers on top, None if one of them is hurt."""
        for layer in layers:
            parts = [self._load(chain, layer, number, slot) for number in range(len(layer.parts))]
            if any(part is None for part in parts):
                return None
            state = fold_layer(state, parts)
        return state

    def _load(self, chain: Chain, layer: Layer, number: int, slot: Slot) -> pa.Table | None:
        part = layer.parts[number]
        try:
            rows = load_layer_part(self._repository, part)
        except BcnError as error:
            self._find(1, chain, part.key, str(error))
            return None
        if rows.num_rows != part.rows:
            text = f"layer {part.key} has {rows.num_rows} rows, its entry says {part.rows}"
            self._find(1, chain, part.key, text)
        removed = pc.equal(rows["change"], REMOVED)
        if layer.kind == "full" and pc.any(removed).as_py():
            self._find(1, chain, part.key, f"full layer {part.key} has removed rows")
        mine = pc.or_(removed, pa.array(slot_of(rows["path"], slot)))
        return with_sums(rows.filter(mine), is_wanted=self._run.level >= 4)

    def _check_rows(self, chain: Chain, rows: pa.Table) -> None:
        """What docs/format.md 5 promises of a folded inventory."""
        key = chain.entry_key
        for name in _NEVER_NULL:
            if rows[name].null_count:
                self._find(1, chain, key, f"{rows[name].null_count} rows have no {name}")
        unknown = set(pc.unique(rows["root_id"]).to_pylist()) - {root.id for root in chain.roots}
        if unknown:
            self._find(1, chain, key, f"rows name roots that the entry lacks: {sorted(unknown)}")
        other = pc.sum(pc.not_equal(rows["size_bytes"], rows["stored_size_bytes"])).as_py()
        if other:
            self._find(1, chain, key, f"{other} files are stored with another size than their own")
        if _count(rows, ["key"]) != _count(rows, _CONTENT):
            self._find(1, chain, key, "one key has two digests or sizes")
        if _count(rows, _STORED) != _count(rows, [*_STORED, "key"]):
            self._find(1, chain, key, "one file was stored under two keys by one point in time")
        metadata = rows.filter(pc.equal(rows["kind"], "metadata"))
        for row in metadata.to_pylist():
            self._check_metadata(chain, row)
        self._totals[chain.number] = (*totals(rows), metadata.num_rows)

    def _check_metadata(self, chain: Chain, row: Json) -> None:
        digest = row["sha256"].hex() if row["sha256"] else None
        if (row["key"], digest) != (chain.metadata_key, chain.metadata_sha256):
            text = f"the entry's metadata is {chain.metadata_key}, the inventory's {row['key']}"
            self._find(1, chain, chain.entry_key, text)

    # level 2

    def _look(self, chain: Chain, rows: pa.Table) -> None:
        """Count files that no earlier chain has; at level 2 they must be there, whole in size."""
        good = rows.filter(pc.is_valid(rows["key"]))
        if self._run.level >= 2:
            whole = [self._is_whole(chain, row) for row in _sizes(good)]
            self._counts[0] += good.num_rows
            self._counts[1] += pc.sum(good["stored_size_bytes"]).as_py() or 0
            good = good.filter(pa.array(whole, pa.bool_()))
        files = _files(chain, good)
        self._files.append(files)
        self._manifests.append(files.filter(pc.equal(good["kind"], "manifest")))

    def _is_whole(self, chain: Chain, row: tuple[str, int]) -> bool:
        key, size_bytes = row
        try:
            stat = self._repository.find_stat(key)
        except BcnError as error:
            self._find(2, chain, key, str(error))
            return False
        if stat is None:
            self._find(2, chain, key, f"stored file {key} is missing")
        elif stat.size_bytes != size_bytes:
            text = f"stored file {key} has {stat.size_bytes} bytes, not {size_bytes}"
            self._find(2, chain, key, text)
        return stat is not None and stat.size_bytes == size_bytes


def _count(rows: pa.Table, columns: list[str]) -> int:
    """How many different values the columns have together."""
    return int(rows.group_by(columns).aggregate([]).num_rows)


def _contents(rows: pa.Table) -> pa.Array:
    """One value a row that is equal where key, digest and size are."""
    columns = [
        pc.cast(rows["key"], pa.binary()),
        pc.cast(rows["sha256"], pa.binary()),
        pc.cast(pc.cast(rows["stored_size_bytes"], pa.string()), pa.binary()),
    ]
    joined = pc.binary_join_element_wise(*columns, b"\0", null_handling="replace")
    return pa.concat_arrays([pa.array([], pa.binary()), *joined.chunks])


def _distinct(rows: pa.Table) -> pa.Table:
    """One row for each stored content."""
    names = pa.table({"name": _contents(rows), "row": np.arange(rows.num_rows)})
    firsts = names.group_by("name", use_threads=False).aggregate([("row", "min")])["row_min"]
    return rows.take(firsts)


def _sizes(rows: pa.Table) -> Iterator[tuple[str, int]]:
    return zip(rows["key"].to_pylist(), rows["stored_size_bytes"].to_pylist(), strict=True)


def _files(chain: Chain, rows: pa.Table) -> pa.Table:
    count = rows.num_rows
    return pa.table(
        {
            "object_id": pa.array([chain.object_id] * count, pa.string()),
            "name": manifest_names(rows),
            "key": rows["key"],
            "sha256": rows["sha256"],
            "size_bytes": rows["stored_size_bytes"],
            "pit": pa.array([chain.pit] * count, pa.string()),
            "object": pa.array([chain.object] * count, pa.string()),
        }
    ).cast(FILE_SCHEMA)


def _save_plan(
    scratch: Storage, key: str, group: int, tables: Sequence[pa.Table]
) -> tuple[Chunk, ...]:
    rows = pa.concat_tables(tables).sort_by([("size_bytes", "descending")])
    sizes = np.asarray(rows["size_bytes"], dtype=np.int64)
    ends = chunk_ends(sizes)
    save_part(scratch, key, rows, ends)
    return tuple(
        Chunk(group, number, end - start, int(sizes[start:end].sum()))
        for number, (start, end) in enumerate(zip([0, *ends], ends, strict=False))
    )


def find_needs(task: NeedTask) -> list[tuple[str, int]]:
    """Which chains need which of the keys, as pairs. A chain that cannot be folded was told."""
    repository, keys = open_storage(task.run.repository), pa.array(sorted(task.keys), pa.string())
    needs: list[tuple[str, int]] = []
    for unit in task.units:
        for chain in unit.chains:
            try:
                rows = load_inventory(repository, chain.layers, unit.slot)
            except BcnError:
                continue
            found = pc.unique(rows["key"].filter(pc.is_in(rows["key"], keys)))
            needs += [(key, chain.number) for key in found.to_pylist()]
    return needs


# level 3


def hash_chunks(task: HashTask) -> HashResult:
    """Hash the files of some chunks and compare with what was taken when they were backed up."""
    repository, scratch = open_storage(task.run.repository), open_storage(task.run.scratch)
    transfer = Transfer(Pace(task.bytes_per_second), size_of(task.chunks))
    meter = Meter(task.meter, task.number)
    findings = Findings(FINDINGS_PER_TASK)

    def load_rows(chunk: Chunk) -> list[Json]:
        rows: list[Json] = load_group(scratch, hash_key(chunk.group), chunk.row_group).to_pylist()
        return rows

    def hash_file(row: Json) -> tuple[Json, Copied | BcnError]:
        try:
            return row, transfer.hash(repository, row["key"])
        except BcnError as error:
            return row, error

    hashed = map_files(hash_file, load_rows, task.chunks, repository.small_in_flight)
    for row, content in hashed:
        message = _compare(row, content)
        meter.add(1, row["size_bytes"])
        if message is not None:
            finding = Finding(3, Severity.ERROR, row["pit"], row["object"], row["key"], message)
            findings.add(finding)
    meter.send()
    return HashResult(tuple(findings.items), findings.omitted, meter.files, meter.size_bytes)


def _compare(row: Json, content: Copied | BcnError) -> str | None:
    """What is wrong with a stored file, None if nothing."""
    if isinstance(content, BcnError):
        return str(content)
    if content.sha256 != row["sha256"]:
        return f"stored file {row['key']} is damaged: its SHA-256 does not match"
    return None
