"""Two PITs compared: what came, went, was renamed, and what changed inside. Nothing is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace

from bcn.changes.chosen import Chosen
from bcn.changes.versions import Version, compare_versions, load_version
from bcn.errors import DamagedRepositoryError, StorageError
from bcn.iceberg.changes import RowCount, compare_properties
from bcn.iceberg.columns import Change
from bcn.model import Json, PitId, join_names
from bcn.repository.listing import load_pit
from bcn.repository.pit import ObjectRecord, PitManifest
from bcn.repository.repository import Repository

NEW, DELETED, RENAMED, CHANGED = "NEW", "DELETED", "RENAMED", "CHANGED"

# Files are counted one by one up to so many rows of inventories; beyond, only totals are told.
COUNTED_ROWS = 1_000_000


@dataclass(frozen=True, slots=True)
class Span:
    """A figure then and now; None where it is unknown or there was nothing."""

    before: int | None = None
    after: int | None = None


@dataclass(frozen=True, slots=True)
class ObjectDiff:
    """One database, table or view that differs. `problem` says why not all could be compared."""

    object_id: str
    type: str
    database: str
    name: str
    status: str
    old_name: str | None = None
    deleted_at: str | None = None
    rows: Span = Span()
    deletes: Span = Span()
    size_bytes: Span = Span()
    files: Span = Span()
    files_added: int | None = None
    files_removed: int | None = None
    snapshots: Span = Span()
    changes: tuple[Change, ...] = ()
    problem: str | None = None

    def as_json(self) -> Json:
        """The documented object, docs/json-output.md."""
        document = asdict(self)
        document["bytes"] = document.pop("size_bytes")
        return document | {"changes": [asdict(change) for change in self.changes]}


@dataclass(frozen=True, slots=True)
class DiffReport:
    """All that differs between two PITs: databases first, then tables and views by name."""

    repository: str
    old: PitId
    new: PitId
    objects: tuple[ObjectDiff, ...]
    unchanged: int
    warnings: tuple[str, ...] = ()

    def count(self, status: str) -> int:
        """How many differ in this way."""
        return Counter(item.status for item in self.objects)[status]

    @property
    def problems(self) -> int:
        """How many could not be compared."""
        return sum(item.problem is not None for item in self.objects)

    def as_json(self) -> Json:
        """The documented object, docs/json-output.md."""
        counts = {name.lower(): self.count(name) for name in (NEW, DELETED, RENAMED, CHANGED)}
        return {
            "repository": self.repository,
            "old_pit": str(self.old),
            "new_pit": str(self.new),
            "objects": [item.as_json() for item in self.objects],
            "summary": {**counts, "unchanged": self.unchanged},
            "warnings": list(self.warnings),
        }


def diff_pits(
    repository: Repository, old: PitId, new: PitId, chosen: Chosen | None = None
) -> DiffReport:
    """Compare two PITs. A document that is damaged hides only what it says.

    Raises UnknownPitError, DamagedRepositoryError, NoSuchTableError, NoSuchNamespaceError.
    """
    before, after = load_pit(repository, old), load_pit(repository, new)
    chosen = chosen or Chosen()
    chosen.check([before, after])
    comparison = _Comparison(repository, before, after, chosen)
    objects = tuple(comparison.iter_objects())
    databases = () if chosen.tables else tuple(_iter_databases(before, after, chosen))
    failed = tuple(_iter_failed(after, chosen))
    return DiffReport(
        repository.spec.location, old, new, (*databases, *objects), comparison.unchanged, failed
    )


class _Comparison:
    def __init__(
        self,
        repository: Repository,
        before: PitManifest,
        after: PitManifest,
        chosen: Chosen,
    ) -> None:
        self._repository = repository
        self._old = {item.object_id: item for item in before.objects}
        self._new = {item.object_id: item for item in after.objects}
        self._deleted_at = {item.object_id: item.deleted_at for item in after.deleted}
        self._chosen = chosen
        self._countable = COUNTED_ROWS
        self.unchanged = 0

    def iter_objects(self) -> Iterator[ObjectDiff]:
        """Objects that differ, by the name they have last."""
        records = {**self._old, **self._new}
        for number in sorted(records, key=lambda number: records[number].table):
            pair = self._old.get(number), self._new.get(number)
            if any(item is not None and self._chosen.takes(item.table) for item in pair):
                found = self._compare(*pair)
                self.unchanged += found is None
                if found is not None:
                    yield found

    def _compare(self, old: ObjectRecord | None, new: ObjectRecord | None) -> ObjectDiff | None:
        record = new or old
        status = _status(old, new)
        if record is None or status is None:
            return None
        found = ObjectDiff(
            object_id=record.object_id,
            type=record.type,
            database=record.table.database,
            name=record.table.name,
            status=status,
            old_name=str(old.table) if old and status == RENAMED else None,
            deleted_at=self._deleted_at.get(record.object_id) if new is None else None,
            size_bytes=_span(old, new, "size_bytes"),
            files=_span(old, new, "files"),
            snapshots=_span(old, new, "snapshots"),
        )
        if old and new and old.entry == new.entry:
            return found  # only its name is another one
        try:
            return self._look_inside(found, old, new)
        except (DamagedRepositoryError, StorageError) as error:
            return replace(found, problem=str(error))

    def _look_inside(
        self, found: ObjectDiff, old: ObjectRecord | None, new: ObjectRecord | None
    ) -> ObjectDiff:
        before = load_version(self._repository, old) if old else None
        after = load_version(self._repository, new) if new else None
        counts = [version.rows if version else RowCount(None, None) for version in (before, after)]
        found = replace(
            found,
            rows=Span(counts[0].rows, counts[1].rows),
            deletes=Span(counts[0].deletes, counts[1].deletes),
        )
        if before is None or after is None:
            return found
        found = replace(found, changes=compare_versions(before, after))
        added, removed = self._count_files(before, after)
        return replace(found, files_added=added, files_removed=removed)

    def _count_files(self, before: Version, after: Version) -> tuple[int | None, int | None]:
        layers = {*before.entry.layers, *after.entry.layers}
        self._countable -= sum(layer.rows for layer in layers)
        if self._countable < 0:
            return None, None
        # Only here are layers read: a comparison that finds nothing changed does without pyarrow.
        from bcn.changes.file_changes import count_file_changes  # noqa: PLC0415

        return count_file_changes(self._repository.storage, before.entry, after.entry)


def _status(old: ObjectRecord | None, new: ObjectRecord | None) -> str | None:
    if old is None or new is None:
        return NEW if old is None else DELETED
    if old.table != new.table:
        return RENAMED
    return None if old.entry == new.entry else CHANGED


def _span(old: ObjectRecord | None, new: ObjectRecord | None, field: str) -> Span:
    return Span(*(None if item is None else int(getattr(item, field)) for item in (old, new)))


def _iter_failed(after: PitManifest, chosen: Chosen) -> Iterator[str]:
    for item in after.failed:
        kept = f"this is its version of {item.kept_pit}" if item.kept_pit else "it has no version"
        if chosen.takes(item.table):
            yield f"{item.table} could not be backed up in {after.pit}, {kept}: {item.message}"


# databases


def _iter_databases(
    before: PitManifest, after: PitManifest, chosen: Chosen
) -> Iterator[ObjectDiff]:
    old, new = _properties(before), _properties(after)
    for name in sorted(old.keys() | new.keys()):
        if not chosen.takes_database(name):
            continue
        changes = tuple(compare_properties(old.get(name, {}), new.get(name, {})))
        if name not in old or name not in new:
            yield ObjectDiff("", "database", name, name, NEW if name not in old else DELETED)
        elif changes:
            yield ObjectDiff("", "database", name, name, CHANGED, changes=changes)


def _properties(pit: PitManifest) -> dict[str, Mapping[str, str]]:
    return {join_names(item.levels): item.properties for item in pit.namespaces}
