"""After a backup: what repeats PITs is brought up to date, at the cost of what has changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from bcn.errors import DamagedRepositoryError, StorageError
from bcn.model import Json, TableId, iso
from bcn.repository import layout
from bcn.repository.derived import (
    DeletedDatabase,
    Names,
    PitHistory,
    by_database,
    catalog_document,
    database_document,
    deleted_databases_document,
    deleted_tables_document,
    entry_finder,
    find_bytes,
    index_bytes,
    load_history,
    named_so,
    stale_keys,
    table_document,
)
from bcn.repository.document import parse_document, render_document
from bcn.repository.entry import Entry
from bcn.repository.pit import ObjectRecord, PitManifest
from bcn.repository.repository import Repository, summary_line
from bcn.storage.protocol import Storage

# A document by its key; None where there must be none.
Documents = dict[str, Json | None]


def write_derived(
    repository: Repository,
    pit: PitManifest,
    parent: PitManifest | None,
    catalog_properties: Mapping[str, str],
    entries: Sequence[Entry],
) -> None:
    """Bring everything that repeats PITs up to date, at the cost of what this one changed.

    `manifest.json` comes last: where it names the parent, all others are as of the parent. Where it
    does not, a run ended before this point, and all are made anew.
    """
    storage, catalog = repository.storage, pit.repository["scope"]["catalog"]
    if parent is not None and _find_last_pit(storage) == str(parent.pit):
        documents = _Changes(repository, catalog, parent, pit, entries).documents()
    else:
        documents = _all_documents(repository, catalog, entries)
    key = layout.catalog_metadata_key(catalog)
    documents[key] = catalog_document(catalog, catalog_properties)
    for key, document in documents.items():
        _save(storage, key, None if document is None else render_document(document))
    lines = [*_lines_before(repository, pit), summary_line(pit)]
    storage.replace(layout.pits_index_key(catalog), index_bytes(lines))
    repository.update(last_pit=str(pit.pit))


def _all_documents(repository: Repository, catalog: str, entries: Sequence[Entry]) -> Documents:
    in_hand = {layout.entry_key(catalog, item.table, item.pit): item for item in entries}
    history = load_history(repository)
    documents: Documents = dict(history.documents(catalog, entry_finder(repository, in_hand)))
    if not history.unreadable:
        documents |= dict.fromkeys(stale_keys(repository.storage, catalog, documents))
    return documents


def _save(storage: Storage, key: str, data: bytes | None) -> None:
    """Make a derived document what it must be; one that is so already is left alone."""
    found = find_bytes(storage, key)
    if data is None and found is not None:
        storage.delete(key)
    elif data is not None and data != found:
        storage.replace(key, data)


def _find_last_pit(storage: Storage) -> str | None:
    """The PIT that the stored `manifest.json` names."""
    document = _find_document(storage, layout.REPOSITORY_KEY)
    return None if document is None else document.get("last_pit")


def _find_document(storage: Storage, key: str) -> Json | None:
    """A derived document; None if it is missing or anything else than one."""
    try:
        return parse_document(storage.read(key), key)
    except (DamagedRepositoryError, StorageError):
        return None


def _lines_before(repository: Repository, pit: PitManifest) -> list[Json]:
    """The index without this PIT, and without PITs that cannot be read: lists try those again."""
    lines = repository.summaries(skip=pit.pit)
    return [line for line in lines if "damaged" not in line]


@dataclass
class _Changes:
    """The documents that a PIT changes, given those of its parent."""

    repository: Repository
    catalog: str
    parent: PitManifest
    pit: PitManifest
    entries: Sequence[Entry]

    @cached_property
    def _history(self) -> PitHistory:
        """Of all PITs: only where a document that says the same is lost."""
        return load_history(self.repository)

    def documents(self) -> Documents:
        return {
            **self._databases(),
            **self._deleted(),
            **self._deleted_databases(),
            **self._tables(),
        }

    def _databases(self) -> Documents:
        before = {item.levels: item for item in self.parent.namespaces}
        return {
            layout.database_metadata_key(self.catalog, item.levels): database_document(item)
            for item in self.pit.namespaces
            if before.get(item.levels) != item
        }

    def _deleted(self) -> Documents:
        before, after = by_database(self.parent.deleted), by_database(self.pit.deleted)
        return {
            layout.deleted_tables_key(self.catalog, namespace): (
                deleted_tables_document(after[namespace]) if namespace in after else None
            )
            for namespace in {**before, **after}
            if before.get(namespace) != after.get(namespace)
        }

    def _deleted_databases(self) -> Documents:
        if self.pit.deleted_namespaces == self.parent.deleted_namespaces:
            return {}
        key = layout.deleted_databases_key(self.catalog)
        known = {item.name: item for item in _stored_databases(self.repository.storage, key)}
        just_gone = set(self.pit.deleted_namespaces) - set(self.parent.deleted_namespaces)
        now, last = iso(self.pit.pit.moment), str(self.parent.pit)
        known |= {name: DeletedDatabase(name, now, last) for name in just_gone}
        items = [
            known.get(name) or self._history.gone[name] for name in self.pit.deleted_namespaces
        ]
        return {key: deleted_databases_document(items) if items else None}

    def _tables(self) -> Documents:
        """Of objects that were read, or have another name now; old names lose their document."""
        before = {item.object_id: item.table for item in self.parent.deleted}
        before |= {item.object_id: item.table for item in self.parent.objects}
        read = {item.object_id: item for item in self.entries}
        taken = {record.table for record in self.pit.objects}
        find_entry = entry_finder(self.repository, {})
        documents: Documents = {}
        for record in self.pit.objects:
            old = before.get(record.object_id)
            if record.object_id not in read and old == record.table:
                continue
            entry = read.get(record.object_id) or find_entry(record.entry)
            if entry is None:
                continue  # an older version that is damaged: told by verify and repair
            names = self._names_before(record, old)
            if names is not None and old is not None and old not in taken:
                documents[layout.table_manifest_key(self.catalog, old)] = None
            names = named_so(names or self._walked(record, old), record.table, self.pit.pit)
            key = layout.table_manifest_key(self.catalog, record.table)
            documents[key] = table_document(record.table, entry, names)
        return documents

    def _names_before(self, record: ObjectRecord, old: TableId | None) -> Names | None:
        """The names in an object's own document; None if it has none."""
        key = layout.table_manifest_key(self.catalog, old or record.table)
        document = _find_document(self.repository.storage, key)
        if document is None or document.get("object_id") != record.object_id:
            return None
        try:
            return tuple((str(item["name"]), str(item["since_pit"])) for item in document["names"])
        except (KeyError, TypeError):
            return None

    def _walked(self, record: ObjectRecord, old: TableId | None) -> Names:
        """The names that PITs give, for an object of earlier ones whose document is lost."""
        if old is None:
            return ()
        known = self._history.objects.get(record.object_id)
        return known.names if known else ()


def _stored_databases(storage: Storage, key: str) -> Iterator[DeletedDatabase]:
    try:
        for item in (_find_document(storage, key) or {})["deleted_databases"]:
            yield DeletedDatabase(item["name"], item["deleted_at"], item["last_pit_included"])
    except (KeyError, TypeError):
        return
