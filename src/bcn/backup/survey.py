"""Surveying a capture: which objects are unchanged, which are works, which cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from bcn.backup.capture import Capture
from bcn.backup.plan import Comparison, check_deletions, compare, object_ids
from bcn.backup.roots import Roots
from bcn.backup.scope import check_places
from bcn.backup.work import Source, Work, read_pointer
from bcn.catalog.protocol import Catalog, Pointer
from bcn.errors import BcnError, OverlapError
from bcn.iceberg.history import ALL_HISTORY, History
from bcn.model import PitId, TableId
from bcn.repository import layout
from bcn.repository.pit import FailedObject, ObjectRecord, PitManifest
from bcn.repository.repository import Repository, Scope
from bcn.storage.open import Stores
from bcn.storage.protocol import StorageSpec


@dataclass(frozen=True)
class Survey:
    """A capture, sorted."""

    comparison: Comparison
    works: tuple[Work, ...]
    failed: tuple[FailedObject, ...]
    warnings: tuple[str, ...]

    def settled(self) -> list[ObjectRecord]:
        """Records of objects that need no work: unchanged ones, renamed ones under new names."""
        kept = [replace(item, status="UNCHANGED") for item in self.comparison.unchanged]
        kept += [
            replace(item, table=pointer.table, status="RENAMED")
            for item, pointer in self.comparison.renamed
        ]
        return [replace(item, files_new=0, bytes_new=0) for item in kept]


@dataclass(frozen=True)
class Earlier:
    """Where backups go, and what those before this one left there."""

    spec: StorageSpec
    repository: Repository | None
    parent: PitManifest | None


class Surveyor:
    """Looks at tables on behalf of one run."""

    def __init__(
        self, earlier: Earlier, catalog: Catalog, scope: Scope, history: History = ALL_HISTORY
    ) -> None:
        self._spec = earlier.spec
        self._history = history
        self._repository = earlier.repository
        self._parent = earlier.parent
        self._records = {
            item.object_id: item for item in (self._parent.objects if self._parent else ())
        }
        self._catalog = catalog
        self._scope = scope
        self._stores = Stores(catalog.access)

    def survey(self, captured: Capture, on_change: Callable[[], None]) -> Survey:
        """Sort a capture; `on_change` is called as soon as a table was read."""
        versions = {item.metadata_location: self._version(item) for item in captured.pointers}
        comparison = compare(captured.pointers, versions, self._parent, str(self._history))
        sources: list[Source] = []
        failed: list[FailedObject] = []
        for pointer in comparison.to_read:
            try:
                source = read_pointer(self._stores, pointer, self._history)
                check_places(self._spec, source.declared, f"table {pointer.table} at")
            except OverlapError:
                raise
            except BcnError as error:
                failed.append(self.failed(pointer.table, None, error))
            else:
                sources.append(source)
                if len(sources) == 1:
                    on_change()
        works, warnings = self._works(sources, comparison)
        return Survey(comparison, tuple(works), tuple(failed), tuple(warnings))

    def _version(self, pointer: Pointer) -> str | None:
        try:
            storage, key = self._stores.resolve(pointer.metadata_location)
            stat = storage.find_stat(key)
        except BcnError:
            return None
        return stat.version if stat else None

    def _works(
        self, sources: Sequence[Source], comparison: Comparison
    ) -> tuple[list[Work], list[str]]:
        taken = {item.object_id: item.table for item in comparison.unchanged}
        taken |= {item.object_id: pointer.table for item, pointer in comparison.renamed}
        triples = [(source.pointer, source.uuid, source.location) for source in sources]
        ids = object_ids(triples, taken, self._parent, self._scope.catalog)
        pairs = list(zip(sources, ids, strict=True))
        warnings = [
            f"{source.pointer.table} shares its uuid {source.uuid} with another table"
            for source, object_id in pairs
            if object_id.startswith("n-") and layout.find_uuid_id(source.uuid)
        ]
        works = [self.work(number, *pair) for number, pair in enumerate(pairs, 1)]
        return works, warnings

    def work(self, number: int, source: Source, object_id: str) -> Work:
        """The work of one object, with what the parent knows of it."""
        record = self._records.get(object_id)
        entry = self._repository.load_entry(record.entry) if self._repository and record else None
        roots = Roots(entry.roots if entry else ())
        for spelling in source.declared:
            roots.add(spelling)
        return Work(number, source, object_id, entry, record, roots)

    def moved_on(self, work: Work) -> Work | None:
        """The work anew if the catalog points elsewhere by now, and still to the same table."""
        pointer = self._catalog.find_pointer(work.source.pointer.table)
        if pointer is None:
            return None
        if pointer == work.source.pointer and self._version(pointer) == work.source.version:
            return None
        source = read_pointer(self._stores, pointer, self._history)
        if source.uuid != work.source.uuid:
            return None
        return self.work(work.number, source, work.object_id)

    def failed(self, table: TableId, object_id: str | None, error: BcnError) -> FailedObject:
        """A table that could not be read keeps the id and the version that the parent has."""
        kept = self._records.get(object_id or "") or next(
            (item for item in self._records.values() if item.table == table), None
        )
        known_id = kept.object_id if kept else (object_id or "")
        name, kept_pit = type(error).__name__, self._kept_pit(kept)
        return FailedObject(known_id, table, name, str(error), kept_pit, error.hint)

    def _kept_pit(self, kept: ObjectRecord | None) -> PitId | None:
        if kept is None or self._parent is None:
            return None
        earlier = {item.object_id: item.kept_pit for item in self._parent.failed}
        return earlier.get(kept.object_id) or self._parent.pit

    def is_object(self, pointer: Pointer, record: ObjectRecord) -> bool:
        """Whether a pointer is the object of a record, whatever its name."""
        if pointer.metadata_location == record.metadata_location:
            return True
        try:
            uuid = read_pointer(self._stores, pointer, self._history).uuid
        except BcnError:
            return False
        return layout.find_uuid_id(uuid) == record.object_id

    def check_gone(self, survey: Survey) -> None:
        """Raises MassDeletionError if too much of the parent is gone."""
        present = {item.object_id for item in survey.settled()}
        present |= {work.object_id for work in survey.works}
        present |= {item.object_id for item in survey.failed}
        check_deletions(self._parent, len(self._records.keys() - present))


def kept_records(parent: PitManifest | None, failed: Sequence[FailedObject]) -> list[ObjectRecord]:
    """The last good versions of objects that failed, under the names they have now."""
    records: Mapping[str, ObjectRecord] = {
        item.object_id: item for item in (parent.objects if parent else ())
    }
    return [
        replace(
            records[item.object_id], table=item.table, status="FAILED", files_new=0, bytes_new=0
        )
        for item in failed
        if item.kept_pit is not None
    ]
