"""Layers: Parquet inventories of an object's files, and how they fold: docs/format.md 5."""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bcn.errors import DamagedRepositoryError, MissingKeyError
from bcn.model import sha256
from bcn.repository.entry import Layer, LayerPart
from bcn.storage.protocol import Storage

ADDED = "added"
REMOVED = "removed"

LAYER_SCHEMA = pa.schema(
    [
        pa.field("change", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("root_id", pa.int32(), nullable=False),
        pa.field("path", pa.string(), nullable=False),
        pa.field("parent_manifest", pa.string()),
        pa.field("format", pa.string()),
        pa.field("key", pa.string()),
        pa.field("size_bytes", pa.int64()),
        pa.field("recorded_size_bytes", pa.int64()),
        pa.field("sha256", pa.binary(32)),
        pa.field("stored_size_bytes", pa.int64()),
        pa.field("source_version", pa.string()),
        pa.field("record_count", pa.int64()),
        pa.field("added_snapshot_id", pa.int64()),
        pa.field("first_pit", pa.string()),
    ]
)

_SORT = [("root_id", "ascending"), ("path", "ascending"), ("parent_manifest", "ascending")]
_REPEATED_COLUMNS = ["change", "kind", "parent_manifest", "format", "first_pit"]


@dataclass(frozen=True, slots=True)
class Slot:
    """The share of an inventory that one task handles: files whose names hash to this remainder.

    The name alone decides, without its folder, so that a file stays in its slot whatever its root.
    """

    number: int = 0
    count: int = 1


WHOLE = Slot()


def render_layer(rows: pa.Table) -> bytes:
    """Rows as the bytes of one part, sorted."""
    sink = io.BytesIO()
    pq.write_table(
        rows.select(LAYER_SCHEMA.names).cast(LAYER_SCHEMA).sort_by(_SORT),
        sink,
        compression="zstd",
        use_dictionary=_REPEATED_COLUMNS,
        row_group_size=100_000,
    )
    return sink.getvalue()


def parse_layer(data: bytes, key: str) -> pa.Table:
    """The rows of one part. Raises DamagedRepositoryError."""
    try:
        table = pq.read_table(io.BytesIO(data))
    except (pa.ArrowException, OSError) as error:
        raise DamagedRepositoryError(f"layer {key} is not Parquet: {error}") from error
    missing = set(LAYER_SCHEMA.names) - set(table.column_names)
    if missing:
        raise DamagedRepositoryError(f"layer {key} lacks columns {sorted(missing)}")
    return table.select(LAYER_SCHEMA.names).cast(LAYER_SCHEMA)


def manifest_names(rows: pa.Table) -> pa.ChunkedArray:
    """`r<root_id>/<path>` of each row: how `parent_manifest` names a manifest."""
    roots = pc.binary_join_element_wise("r", pc.cast(rows["root_id"], pa.string()), "")
    return pc.binary_join_element_wise(roots, rows["path"], "/")


def slot_of(paths: pa.ChunkedArray | pa.Array, slot: Slot) -> NDArray[np.bool_]:
    """Which of the paths belong to the slot."""
    if slot.count == 1:
        return np.ones(len(paths), dtype=np.bool_)
    hashes = np.fromiter(
        (zlib.crc32(path.rpartition("/")[2].encode()) for path in paths.to_pylist()),
        np.uint32,
        len(paths),
    )
    return np.asarray(hashes % slot.count == slot.number)


@dataclass(frozen=True, slots=True)
class Removals:
    """What a layer takes away: manifests with all that they list, and other files."""

    files: pa.Array
    manifests: pa.Array

    def keep(self, rows: pa.Table) -> pa.Table:
        """The rows that stay."""
        gone = pc.is_in(_file_names(rows), self.files)
        listed = pc.fill_null(pc.is_in(rows["parent_manifest"], self.manifests), False)  # noqa: FBT003  pyarrow's own
        return rows.filter(pc.invert(pc.or_(gone, listed)))


def _file_names(rows: pa.Table) -> pa.ChunkedArray:
    return pc.binary_join_element_wise(rows["kind"], manifest_names(rows), " ")


def removals_of(rows: pa.Table) -> Removals | None:
    """What a layer's rows take away from the layers before it; None if nothing."""
    removed = rows.filter(pc.equal(rows["change"], REMOVED))
    if removed.num_rows == 0:
        return None
    manifests = removed.filter(pc.equal(removed["kind"], "manifest"))
    return Removals(
        _combined(_file_names(removed)),
        _combined(manifest_names(manifests)),
    )


def _combined(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def fold(
    layers: Iterable[Sequence[pa.Table]], slot: Slot = WHOLE, schema: pa.Schema = LAYER_SCHEMA
) -> pa.Table:
    """The inventory that layers, each a sequence of parts, stand for; only rows of the slot."""
    state = schema.empty_table()
    for parts in layers:
        state = fold_layer(state, parts, slot)
    return state


def fold_layer(state: pa.Table, parts: Sequence[pa.Table], slot: Slot = WHOLE) -> pa.Table:
    """An inventory with one more layer on top; its rows of other slots are left out."""
    whole = pa.concat_tables([state.schema.empty_table(), *parts])
    removals = removals_of(whole)
    if removals is not None:
        state = removals.keep(state)
    added = whole.filter(pc.equal(whole["change"], ADDED))
    if slot.count > 1:
        added = added.filter(pa.array(slot_of(added["path"], slot)))
    return pa.concat_tables([state, added])


def distinct_files(rows: pa.Table) -> pa.Table:
    """One row a stored key, the first of each."""
    if rows.num_rows == 0:
        return rows
    indices = (
        pa.table({"key": rows["key"], "row": np.arange(rows.num_rows)})
        .group_by("key", use_threads=False)
        .aggregate([("row", "min")])["row_min"]
    )
    return rows.take(pc.take(indices, pc.sort_indices(indices)))


def totals(rows: pa.Table) -> tuple[int, int]:
    """Number of stored files and their bytes, every key counted once."""
    files = distinct_files(rows)
    return files.num_rows, pc.sum(files["size_bytes"]).as_py() or 0


def load_inventory(storage: Storage, layers: Iterable[Layer], slot: Slot = WHOLE) -> pa.Table:
    """The folded inventory of an entry's layers. Raises DamagedRepositoryError."""
    return fold((load_layer(storage, layer) for layer in layers), slot)


def load_layer(storage: Storage, layer: Layer) -> list[pa.Table]:
    """The parts of a layer, digests compared. Raises DamagedRepositoryError."""
    return [load_layer_part(storage, part) for part in layer.parts]


def load_layer_part(storage: Storage, part: LayerPart) -> pa.Table:
    """One part of a layer. Raises DamagedRepositoryError."""
    return parse_layer(load_layer_bytes(storage, part), part.key)


def load_layer_bytes(storage: Storage, part: LayerPart) -> bytes:
    """The bytes of a part, their digest compared. Raises DamagedRepositoryError."""
    try:
        data = storage.read(part.key)
    except MissingKeyError:
        raise DamagedRepositoryError(f"layer {part.key} is missing") from None
    if sha256(data) != part.sha256:
        raise DamagedRepositoryError(f"layer {part.key} is damaged: its SHA-256 does not match")
    return data


UNLISTED_COLUMNS = ("change", "kind", "root_id", "path", "parent_manifest", "recorded_size_bytes")


def load_unlisted(storage: Storage, layers: Iterable[Layer]) -> pa.Table:
    """The folded rows of files that no manifest lists, of a few columns: small for large tables."""
    parts = [[_load_unlisted_part(storage, part) for part in layer.parts] for layer in layers]
    return fold(parts, schema=pa.schema([LAYER_SCHEMA.field(name) for name in UNLISTED_COLUMNS]))


def _load_unlisted_part(storage: Storage, part: LayerPart) -> pa.Table:
    data = load_layer_bytes(storage, part)
    file = pq.ParquetFile(pa.BufferReader(data))
    batches = (
        pa.Table.from_batches([batch])
        for batch in file.iter_batches(batch_size=65_536, columns=list(UNLISTED_COLUMNS))
    )
    schema = pa.schema([LAYER_SCHEMA.field(name) for name in UNLISTED_COLUMNS])
    kept = [batch.filter(pc.is_null(batch["parent_manifest"])).cast(schema) for batch in batches]
    return pa.concat_tables([schema.empty_table(), *kept])
