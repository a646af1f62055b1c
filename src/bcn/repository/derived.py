"""Documents that only repeat PITs, for people and for quick lists: docs/format.md 4.6.

What each of them must be follows from PITs and entries alone. A backup writes those that it
changes; whatever is lost or wrong comes back from a *history*, which is gathered from all PITs.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from bcn.errors import (
    BcnError,
    DamagedRepositoryError,
    MissingKeyError,
    NewerVersionError,
    StorageError,
)
from bcn.model import Json, PitId, TableId, iso, join_names
from bcn.repository import layout
from bcn.repository.document import VERSION
from bcn.repository.entry import Entry
from bcn.repository.pit import DeletedObject, EntryRef, Namespace, PitManifest
from bcn.repository.repository import Repository, summary_line
from bcn.storage.protocol import Storage

# what one document says


def database_document(namespace: Namespace) -> Json:
    """A database as of the newest PIT that has it."""
    return {
        "version": VERSION,
        "name": join_names(namespace.levels),
        "levels": list(namespace.levels),
        "properties": dict(namespace.properties),
    }


def deleted_tables_document(items: Sequence[DeletedObject]) -> Json:
    """The tables of one database that are gone."""
    found = [
        {
            "name": item.table.name,
            "database": item.table.database,
            "deleted_at": item.deleted_at,
            "last_pit_included": str(item.last_pit_included),
            "source_object_id": item.object_id,
        }
        for item in items
    ]
    return {"version": VERSION, "deleted_tables": found}


@dataclass(frozen=True, slots=True)
class DeletedDatabase:
    """A database that is gone; `last_pit` is None where no PIT that has it is left."""

    name: str
    deleted_at: str
    last_pit: str | None


def deleted_databases_document(items: Iterable[DeletedDatabase]) -> Json:
    """The databases that are gone."""
    found = [
        {"name": item.name, "deleted_at": item.deleted_at, "last_pit_included": item.last_pit}
        for item in sorted(items, key=lambda item: item.name)
    ]
    return {"version": VERSION, "deleted_databases": found}


Names = tuple[tuple[str, str], ...]  # each name of an object, and the first PIT that has it so


def named_so(names: Names, table: TableId, pit: PitId) -> Names:
    """The names of an object that a PIT has under this one."""
    if names and names[-1][0] == str(table):
        return names
    return (*names, (str(table), str(pit)))


def table_document(table: TableId, entry: Entry, names: Names) -> Json:
    """A table as of the newest PIT that has it, and what it was called before."""
    return {
        "version": VERSION,
        "name": str(table),
        "object_id": entry.object_id,
        "type": entry.type,
        "uuid": entry.uuid,
        "as_of": str(entry.pit),
        "names": [{"name": name, "since_pit": pit} for name, pit in names],
        **entry.table_facts,
        "layers": [
            {"kind": layer.kind, "pit": str(layer.pit), "rows": layer.rows}
            for layer in entry.layers
        ],
        "totals": {"files": entry.files, "bytes": entry.size_bytes},
    }


def index_bytes(lines: Iterable[Json]) -> bytes:
    """`pits.jsonl` of these lines."""
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


# all of them, from all PITs


@dataclass(slots=True)
class KnownObject:
    """An object as the newest PIT that has it knows it."""

    table: TableId
    entry: EntryRef
    names: Names


@dataclass(slots=True)
class PitHistory:
    """What derived documents need of PITs, which are added oldest first.

    It holds a few values for each object, however many PITs there are.
    """

    newest: PitManifest | None = None
    unreadable: dict[PitId, BcnError] = field(default_factory=dict)
    lines: list[Json] = field(default_factory=list)
    objects: dict[str, KnownObject] = field(default_factory=dict)
    gone: dict[str, DeletedDatabase] = field(default_factory=dict)
    _holders: dict[TableId, str] = field(default_factory=dict)
    _namespaces: dict[tuple[str, ...], Namespace] = field(default_factory=dict)
    _last_pits: dict[str, PitId] = field(default_factory=dict)

    def add(self, pit: PitManifest) -> None:
        """One more PIT, later than all so far."""
        self.newest = pit
        self.lines.append(summary_line(pit))
        for record in pit.objects:
            known = self.objects.get(record.object_id)
            names = named_so(known.names if known else (), record.table, pit.pit)
            self.objects[record.object_id] = KnownObject(record.table, record.entry, names)
            self._holders[record.table] = record.object_id
        self._add_namespaces(pit)

    def _add_namespaces(self, pit: PitManifest) -> None:
        gone = {
            name: DeletedDatabase(name, iso(pit.pit.moment), _text(self._last_pits.get(name)))
            for name in pit.deleted_namespaces
        }
        self.gone = {name: self.gone.get(name, item) for name, item in gone.items()}
        for item in pit.namespaces:
            self._namespaces[item.levels] = item
            self._last_pits[join_names(item.levels)] = pit.pit

    def check_known(self) -> None:
        """Raises NewerVersionError if a PIT was written by a later bcn: it is not damaged."""
        for error in self.unreadable.values():
            if isinstance(error, NewerVersionError):
                raise error

    def documents(
        self, catalog: str, find_entry: Callable[[EntryRef], Entry | None]
    ) -> Iterator[tuple[str, Json]]:
        """Every document that there must be, but for tables whose entry cannot be read.

        A table's document lies under its last name, unless another object had that name later.
        """
        for item in self._namespaces.values():
            yield layout.database_metadata_key(catalog, item.levels), database_document(item)
        deleted = self.newest.deleted if self.newest else ()
        for namespace, items in by_database(deleted).items():
            yield layout.deleted_tables_key(catalog, namespace), deleted_tables_document(items)
        if self.gone:
            document = deleted_databases_document(self.gone.values())
            yield layout.deleted_databases_key(catalog), document
        for table, object_id in self._holders.items():
            known = self.objects[object_id]
            entry = find_entry(known.entry) if known.table == table else None
            if entry is not None:
                document = table_document(table, entry, known.names)
                yield layout.table_manifest_key(catalog, table), document


def load_history(
    repository: Repository, visit: Callable[[PitManifest], None] = lambda _: None
) -> PitHistory:
    """The history that readable PITs give, each of which `visit` gets too; it names the others."""
    history = PitHistory()
    for pit in repository.pit_ids():
        try:
            manifest = repository.find_pit(pit)
        except (DamagedRepositoryError, StorageError) as error:
            history.unreadable[pit] = error
            continue
        if manifest is not None:
            history.add(manifest)
            visit(manifest)
    return history


def _text(pit: PitId | None) -> str | None:
    return None if pit is None else str(pit)


def by_database(items: Iterable[DeletedObject]) -> dict[tuple[str, ...], list[DeletedObject]]:
    """Tables that are gone, by the database they were in."""
    found: dict[tuple[str, ...], list[DeletedObject]] = defaultdict(list)
    for item in items:
        found[item.table.namespace].append(item)
    return found


# as they are stored


def entry_finder(
    repository: Repository, in_hand: Mapping[str, Entry]
) -> Callable[[EntryRef], Entry | None]:
    """A function that gives entries by where they are; None for one that cannot be read."""

    def find(ref: EntryRef) -> Entry | None:
        if ref.key in in_hand:
            return in_hand[ref.key]
        try:
            return repository.load_entry(ref)
        except (DamagedRepositoryError, StorageError):
            return None  # told by verify and repair

    return find


def stale_keys(storage: Storage, catalog: str, needed: Mapping[str, object]) -> list[str]:
    """Derived documents that nothing calls for any more."""
    kept = {*needed, layout.catalog_metadata_key(catalog)}
    keys = storage.iter_keys(layout.catalog_prefix(catalog))
    return [key for key in keys if layout.is_derived_key(key) and key not in kept]


def catalog_document(catalog: str, properties: Mapping[str, str]) -> Json:
    """What a catalog says of itself: the one derived document that no PIT can give."""
    return {"version": VERSION, "name": catalog, "properties": dict(properties)}


def find_bytes(storage: Storage, key: str) -> bytes | None:
    """What is stored, None if nothing is."""
    try:
        return storage.read(key)
    except MissingKeyError:
        return None
