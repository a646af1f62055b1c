"""How many stored files one version of a table has and another has not. Needs pyarrow."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bcn.errors import DamagedRepositoryError
from bcn.repository.entry import Entry, Layer, LayerPart
from bcn.repository.inventory import LAYER_SCHEMA, fold_layer, load_layer_bytes
from bcn.storage.protocol import Storage

_COLUMNS = ("change", "kind", "root_id", "path", "parent_manifest", "key")
_SCHEMA = pa.schema([LAYER_SCHEMA.field(name) for name in _COLUMNS])


def count_file_changes(storage: Storage, old: Entry, new: Entry) -> tuple[int, int]:
    """Files added and removed, by their keys. Raises DamagedRepositoryError, StorageError."""
    shared = _count_shared(old.layers, new.layers)
    common = _fold(storage, _SCHEMA.empty_table(), old.layers[:shared])
    before, after = (_fold(storage, common, entry.layers[shared:]) for entry in (old, new))
    keys = pc.unique(before["key"]), pc.unique(after["key"])
    kept = int(pc.sum(pc.is_in(keys[0], keys[1])).as_py() or 0)
    return len(keys[1]) - kept, len(keys[0]) - kept


def _count_shared(old: Sequence[Layer], new: Sequence[Layer]) -> int:
    pairs = enumerate(zip(old, new, strict=False))
    return next((n for n, (one, other) in pairs if one != other), min(len(old), len(new)))


def _fold(storage: Storage, rows: pa.Table, layers: Sequence[Layer]) -> pa.Table:
    for layer in layers:
        rows = fold_layer(rows, [_load(storage, part) for part in layer.parts])
    return rows


def _load(storage: Storage, part: LayerPart) -> pa.Table:
    """A few columns of a part; without threads, which cost more than such small files."""
    data = load_layer_bytes(storage, part)
    try:
        file = pq.ParquetFile(pa.BufferReader(data), pre_buffer=False)
        return file.read(columns=list(_COLUMNS), use_threads=False).cast(_SCHEMA)
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise DamagedRepositoryError(f"layer {part.key} is not what it was: {error}") from error
