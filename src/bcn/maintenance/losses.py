"""What cannot be made again: which point in time, which tables, and who else still has them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from bcn.errors import DamagedRepositoryError, StorageError
from bcn.maintenance.holdings import Damage, Holdings, Reader
from bcn.model import Json, PitId
from bcn.repository import layout
from bcn.repository.entry import parse_entry
from bcn.repository.repository import Repository

PIT = "point in time"


@dataclass(frozen=True, slots=True)
class LostTable:
    """A table that something damaged belongs to; `held_by` have a whole version of it."""

    table: str
    object_id: str
    held_by: tuple[PitId, ...]

    def as_json(self) -> Json:
        """The documented object, docs/json-output.md."""
        return {
            "table": self.table,
            "object_id": self.object_id,
            "held_by": [str(pit) for pit in self.held_by],
        }


@dataclass(frozen=True, slots=True)
class Loss:
    """One document that is damaged or missing, and the PITs that need it."""

    what: str
    key: str
    message: str
    pits: tuple[PitId, ...]
    tables: tuple[LostTable, ...]

    def as_json(self) -> Json:
        """The documented object, docs/json-output.md."""
        return {
            "what": self.what,
            "key": self.key,
            "message": self.message,
            "pits": [str(pit) for pit in self.pits],
            "tables": [table.as_json() for table in self.tables],
        }


def find_losses(
    repository: Repository, holdings: Holdings, unreadable: dict[PitId, str]
) -> tuple[Loss, ...]:
    """Damaged PITs, entries and layers. Every entry and layer that a PIT names is read."""
    reader = Reader(repository)
    damages: list[Damage] = []
    whole: dict[str, set[PitId]] = {}
    for object_id, versions in holdings.by_object().items():
        held = whole.setdefault(object_id, set())
        for version in versions:
            found = list(reader.find_damage(version))
            damages += found
            held.update([] if found else version.pits)
    return (*_lost_pits(repository, unreadable, whole), *_lost_documents(damages, whole))


def _lost_documents(damages: Iterable[Damage], whole: dict[str, set[PitId]]) -> Iterator[Loss]:
    by_key: dict[str, list[Damage]] = {}
    for damage in damages:
        by_key.setdefault(damage.key, []).append(damage)
    for key, items in by_key.items():
        pits = {pit for item in items for pit in item.version.pits}
        names = {item.version.object_id: str(item.version.table) for item in items}
        yield Loss(
            items[0].what, key, items[0].message, tuple(sorted(pits)), _tables(names.items(), whole)
        )


def _lost_pits(
    repository: Repository, unreadable: dict[PitId, str], whole: dict[str, set[PitId]]
) -> Iterator[Loss]:
    """A damaged PIT does not say what it held; the entries that it wrote do, in part."""
    if not unreadable or repository.scope is None:
        return
    written: dict[PitId, list[str]] = {pit: [] for pit in unreadable}
    for key in repository.storage.iter_keys(layout.catalog_prefix(repository.scope.catalog)):
        pit = layout.parse_entry_key(key)
        if pit in written:
            written[pit].append(key)
    for pit, message in unreadable.items():
        names = _names(repository, written[pit])
        yield Loss("point in time", repository.pit_key(pit), message, (pit,), _tables(names, whole))


def _names(repository: Repository, keys: Sequence[str]) -> Iterator[tuple[str, str]]:
    for key in keys:
        try:
            entry = parse_entry(repository.storage.read(key), key)
        except (DamagedRepositoryError, StorageError):
            continue  # its name is in its key; that the PIT is lost is told in any case
        yield entry.object_id, str(entry.table)


def _tables(
    names: Iterable[tuple[str, str]], whole: dict[str, set[PitId]]
) -> tuple[LostTable, ...]:
    return tuple(
        LostTable(name, object_id, tuple(sorted(whole.get(object_id, ()))))
        for object_id, name in names
    )
