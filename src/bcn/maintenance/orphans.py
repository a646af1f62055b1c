"""Stored files that no point in time needs, and what runs left behind that were killed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice

from bcn.maintenance.live import KeySet
from bcn.repository import layout
from bcn.storage.protocol import Storage

DATA, LAYERS, ENTRIES, JOBS, TEMPORARY, TRASH = (
    "data",
    "layers",
    "entries",
    "jobs",
    "temporary",
    "trash",
)
KINDS = (DATA, LAYERS, ENTRIES, JOBS, TEMPORARY, TRASH)

_BATCH = 50_000


@dataclass(frozen=True, slots=True)
class Orphan:
    """A key that nobody needs; `version` is the store's, and changes when the bytes do."""

    kind: str
    key: str
    size_bytes: int
    version: str


def iter_orphans(storage: Storage, live: KeySet, kept: frozenset[str]) -> Iterator[Orphan]:
    """All orphans under the prefixes that prune may delete from; `kept` are lists that count."""
    for kind, keys in _candidates(storage, live, kept):
        for key in keys:
            stat = storage.find_stat(key)
            if stat is not None:
                yield Orphan(kind, key, stat.size_bytes, stat.version)


def _candidates(
    storage: Storage, live: KeySet, kept: frozenset[str]
) -> Iterator[tuple[str, Iterable[str]]]:
    yield DATA, _dead(storage.iter_keys(layout.DATA_PREFIX), live)
    for key in _dead(_stored(storage.iter_keys(layout.CATALOGS_PREFIX)), live):
        yield ENTRIES if layout.find_stored_folder(key) == "entries" else LAYERS, (key,)
    yield JOBS, storage.iter_keys(layout.JOBS_PREFIX)
    yield TEMPORARY, _leftovers(storage)
    lists = storage.iter_keys(layout.TRASH_PREFIX)
    yield TRASH, (key for key in lists if layout.parse_trash_key(key) and key not in kept)


def _stored(keys: Iterable[str]) -> Iterator[str]:
    return (key for key in keys if layout.find_stored_folder(key) is not None)


def _leftovers(storage: Storage) -> Iterator[str]:
    prefixes = (layout.DATA_PREFIX, layout.JOBS_PREFIX, layout.TRASH_PREFIX)
    found = chain.from_iterable(storage.iter_leftovers(prefix) for prefix in prefixes)
    return chain(found, _stored(storage.iter_leftovers(layout.CATALOGS_PREFIX)))


def _dead(keys: Iterator[str], live: KeySet) -> Iterator[str]:
    """The keys that are not needed; a batch at a time, so that none are held."""
    while batch := list(islice(keys, _BATCH)):
        yield from (key for key, is_live in zip(batch, live.has(batch), strict=True) if not is_live)
