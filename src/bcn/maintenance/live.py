"""Which stored keys points in time need: those of every folded inventory, entries and layers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bcn.errors import DamagedRepositoryError, NewerVersionError, StorageError
from bcn.maintenance.holdings import Holdings, Version
from bcn.repository.entry import Layer, LayerPart
from bcn.repository.inventory import (
    ADDED,
    LAYER_SCHEMA,
    Slot,
    fold_layer,
    load_layer_bytes,
    slot_of,
)
from bcn.repository.repository import Repository
from bcn.storage.protocol import Storage

# An inventory is folded in shares of about so many rows, which bounds the memory it takes.
ROWS_PER_SLOT = 400_000
_BATCH = 65_536

_COLUMNS = ("change", "kind", "root_id", "path", "parent_manifest", "key")
_ROWS = pa.schema([LAYER_SCHEMA.field(name) for name in _COLUMNS])
_SCHEMA = _ROWS.append(pa.field("layer", pa.int32()))


class KeySet:
    """A set of keys as 64-bit hashes: a million take 8 MB.

    Two keys of one hash are taken for one: then a file that nobody needs stays, never the reverse.
    """

    def __init__(self) -> None:
        self._hashes: NDArray[np.uint64] = np.empty(0, np.uint64)
        self._added: list[NDArray[np.uint64]] = []

    def add(self, keys: Iterable[str]) -> None:
        """Keys that belong to it."""
        self._added.append(_hash(keys))

    def has(self, keys: Sequence[str]) -> NDArray[np.bool_]:
        """Which of the keys belong to it."""
        if self._added:
            self._hashes = np.unique(np.concatenate([self._hashes, *self._added]))
            self._added = []
        if not len(self._hashes):
            return np.zeros(len(keys), np.bool_)
        hashes = _hash(keys)
        places = np.searchsorted(self._hashes, hashes)
        found = self._hashes[np.minimum(places, len(self._hashes) - 1)]
        return np.asarray(found == hashes)


def _hash(keys: Iterable[str]) -> NDArray[np.uint64]:
    digests = (
        blake2b(key.encode("utf-8", "surrogateescape"), digest_size=8).digest() for key in keys
    )
    return np.fromiter((int.from_bytes(digest) for digest in digests), np.uint64)


def load_live(repository: Repository, holdings: Holdings) -> KeySet:
    """What all PITs together need. Raises DamagedRepositoryError if anything cannot be read."""
    live, problems = KeySet(), []
    for versions in holdings.by_object().values():
        try:
            for keys in _needed(repository, versions):
                live.add(keys)
        except NewerVersionError:
            raise
        except (DamagedRepositoryError, StorageError) as error:
            problems.append(str(error))
    if problems:
        raise DamagedRepositoryError(
            f"nothing can be deleted while it is not known what is needed: {'; '.join(problems)}",
            hint="run 'bcn repair' to see which points in time need what is damaged; one that is "
            "given up can be removed: the folder of its manifest, docs/format.md 9",
        )
    return live


def _needed(repository: Repository, versions: Sequence[Version]) -> Iterator[Iterable[str]]:
    """The keys that the versions of one object need; some more than once."""
    rows = 0
    for version in versions:
        entry = repository.load_entry(version.ref)
        rows = max(rows, sum(layer.rows for layer in entry.layers))
        yield (version.ref.key, entry.metadata_key)
        yield (part.key for layer in entry.layers for part in layer.parts)
    count = 1 + rows // ROWS_PER_SLOT
    for number in range(count):
        chains = (repository.load_entry(version.ref).layers for version in versions)
        yield from _folded(repository.storage, chains, Slot(number, count))


def _folded(
    storage: Storage, chains: Iterable[tuple[Layer, ...]], slot: Slot
) -> Iterator[list[str]]:
    """The keys of every chain's folded inventory. A chain that goes on from the one before it is
    not folded from its beginning, and gives only the keys of layers that the other has not.
    """
    known: tuple[Layer, ...] = ()
    state = _SCHEMA.empty_table()
    for chain in chains:
        if chain[: len(known)] != known:
            known, state = (), _SCHEMA.empty_table()
        for number in range(len(known), len(chain)):
            parts = [_load_part(storage, part, number, slot) for part in chain[number].parts]
            state = fold_layer(state, parts)
        fresh = state.filter(pc.greater_equal(state["layer"], len(known)))
        known = chain
        yield from (batch["key"].to_pylist() for batch in fresh.to_batches(_BATCH))


def _load_part(storage: Storage, part: LayerPart, number: int, slot: Slot) -> pa.Table:
    """The rows that fold to a slot: its files, and all removals."""
    data = load_layer_bytes(storage, part)
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        batches = [
            _only(pa.Table.from_batches([batch]).select(_COLUMNS), part.key, slot)
            for batch in file.iter_batches(batch_size=_BATCH, columns=list(_COLUMNS))
        ]
    except (pa.ArrowException, OSError, KeyError) as error:
        raise DamagedRepositoryError(f"layer {part.key} is no inventory: {error}") from error
    rows = pa.concat_tables([_ROWS.empty_table(), *batches])
    return rows.append_column("layer", pa.array(np.full(rows.num_rows, number, np.int32)))


def _only(rows: pa.Table, key: str, slot: Slot) -> pa.Table:
    is_added = pc.equal(rows["change"], ADDED)
    if rows.filter(is_added)["key"].null_count:
        raise DamagedRepositoryError(f"layer {key} has files without a key")
    if slot.count > 1:
        rows = rows.filter(pc.or_(pc.invert(is_added), pa.array(slot_of(rows["path"], slot))))
    return rows.cast(_ROWS)
