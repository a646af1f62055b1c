"""The history of a table or view: every PIT in which it changed, and how. Nothing is written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

from bcn.changes.chosen import nearest_table
from bcn.changes.versions import Version, compare_versions, load_version
from bcn.changes.words import tell_briefly
from bcn.errors import (
    DamagedRepositoryError,
    NoSuchTableError,
    StorageError,
    UnknownPitError,
    UsageError,
)
from bcn.iceberg.columns import Change
from bcn.model import Json, PitId, TableId, split_names
from bcn.repository.pit import DeletedObject, FailedObject, ObjectRecord, PitManifest
from bcn.repository.repository import Repository
from bcn.repository.sighting import Sighting, find_called, find_named, find_sightings

NEW, CHANGED, RENAMED, DELETED, FAILED = "NEW", "CHANGED", "RENAMED", "DELETED", "FAILED"

_Seen = list[tuple[PitId, Sighting]]


@dataclass(frozen=True, slots=True)
class Event:
    """What became of an object in a PIT. Figures are those of the version that the PIT holds."""

    pit: PitId
    status: str
    name: str
    rows: int | None = None
    deletes: int | None = None
    size_bytes: int | None = None
    snapshots: int | None = None
    what: str = ""
    deleted_at: str | None = None
    changes: tuple[Change, ...] = ()
    problem: str | None = None

    def as_json(self) -> Json:
        """The documented object, docs/json-output.md."""
        document = asdict(self) | {"pit": str(self.pit)}
        document["bytes"] = document.pop("size_bytes")
        return document | {"changes": [asdict(change) for change in self.changes]}


@dataclass(frozen=True, slots=True)
class ObjectHistory:
    """One object, the newest event first. `omitted` counts older ones that were not asked for."""

    object_id: str
    type: str
    name: str
    events: tuple[Event, ...]
    omitted: int = 0

    def as_json(self) -> Json:
        """The documented object, docs/json-output.md."""
        return {
            "object_id": self.object_id,
            "type": self.type,
            "name": self.name,
            "events": [event.as_json() for event in self.events],
            "omitted": self.omitted,
        }


@dataclass(frozen=True, slots=True)
class LogReport:
    """All objects that ever had a name, the one that had it last first."""

    repository: str
    name: str
    objects: tuple[ObjectHistory, ...]
    warnings: tuple[str, ...] = ()

    @property
    def problems(self) -> int:
        """How many events could not be told in full."""
        return sum(event.problem is not None for item in self.objects for event in item.events)

    def as_json(self) -> Json:
        """The documented object, docs/json-output.md."""
        return {
            "repository": self.repository,
            "name": self.name,
            "objects": [item.as_json() for item in self.objects],
            "warnings": list(self.warnings),
        }


def load_history(repository: Repository, text: str, limit: int | None = None) -> LogReport:
    """The history of what is or was called so, at most `limit` events each.

    Raises NoSuchTableError, UsageError if a bare name fits several, UnknownPitError.
    """
    look = _Look(repository)
    table = look.find_table(text)
    objects = [
        _history(repository, number, seen, limit)
        for number, seen in look.find_objects(table).items()
    ]
    return LogReport(
        repository.spec.location, str(table), tuple(objects), tuple(look.damaged.values())
    )


# finding it


class _Look:
    """Goes through the PITs of a repository, newest first; one that is damaged becomes a line."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self.pits = list(reversed(repository.pit_ids()))
        self.damaged: dict[PitId, str] = {}

    def find_table(self, text: str) -> TableId:
        """The full name that a text means. Raises NoSuchTableError, UsageError."""
        levels = split_names(text)
        if len(levels) > 1:
            return TableId(levels[:-1], levels[-1])
        newest = self._newest()
        present = {item.table for item in newest.objects}
        gone = {item.table for item in newest.deleted}
        for known in (present, gone, self._ever_called(levels[0])):
            found = sorted(table for table in known if table.name == levels[0])
            if len(found) > 1:
                names = ", ".join(str(table) for table in found)
                raise UsageError(f"{text!r} may be {names}", hint="say which: DATABASE.TABLE")
            if found:
                return found[0]
        raise self._unknown(text)

    def _ever_called(self, name: str) -> set[TableId]:
        return {
            sighting.table
            for _, data, key in self._iter_pits()
            for sighting in find_called(data, key, name).values()
            if sighting.table is not None
        }

    def find_objects(self, table: TableId) -> dict[str, _Seen]:
        """Objects that ever had a name, each with where it was seen, newest first."""
        seen: dict[str, _Seen] = {}
        late: set[str] = set()
        for pit, data, key in self._iter_pits():
            named = find_named(data, key, table).keys() - seen.keys()
            late |= named if pit != self.pits[0] else set()
            seen |= {number: [] for number in sorted(named)}
            for number, sighting in find_sightings(data, key, seen.keys() - late).items():
                seen[number].append((pit, sighting))
        if not seen:
            raise self._unknown(str(table))
        # Newer PITs know some of them by another name: only their ids find them there.
        for pit, data, key in self._iter_pits() if late else ():
            for number, sighting in find_sightings(data, key, late).items():
                seen[number].append((pit, sighting))
        return dict(sorted(seen.items(), key=lambda item: _last_so(item[1], table), reverse=True))

    def _iter_pits(self) -> Iterator[tuple[PitId, bytes, str]]:
        for pit in self.pits:
            key = self._repository.pit_key(pit)
            try:
                data = self._repository.storage.read(key)
                find_sightings(data, key, ())  # cut short or no PIT at all
            except (DamagedRepositoryError, StorageError) as error:
                self.damaged[pit] = f"{pit} is damaged: {error}"
            else:
                yield pit, data, key

    def _newest(self) -> PitManifest:
        """The newest PIT that can be read. Raises UnknownPitError if there is none."""
        for pit in self.pits:
            try:
                manifest = self._repository.find_pit(pit)
            except (DamagedRepositoryError, StorageError):
                continue
            if manifest is not None:
                return manifest
        raise UnknownPitError(f"{self._repository.spec.location} has no point in time yet")

    def _unknown(self, text: str) -> NoSuchTableError:
        newest = self._newest()
        tables = {item.table for item in newest.objects} | {one.table for one in newest.deleted}
        where = self._repository.spec.location
        return NoSuchTableError(
            f"no point in time of {where} has a table {text!r}{nearest_table(text, tables)}",
            hint="run 'bcn list --pit latest' to see the names",
        )


def _last_so(seen: _Seen, table: TableId) -> str:
    """When an object last had a name."""
    pits = (str(pit) for pit, one in seen if one.record is not None and one.record.table == table)
    return max(pits, default="")


# telling it


@dataclass(frozen=True, slots=True)
class _Step:
    """An event before anything is read: the version that a PIT holds, and the one before."""

    pit: PitId
    status: str
    table: TableId
    record: ObjectRecord | None = None
    before: ObjectRecord | None = None
    what: str = ""
    deleted_at: str | None = None


def _iter_steps(seen: _Seen) -> Iterator[_Step]:
    """What happened, oldest first. PITs in between may be missing, so no status is relied on."""
    before: ObjectRecord | None = None
    is_there = False
    for pit, sighting in reversed(seen):
        record = sighting.record
        if sighting.failed is not None:
            table = sighting.failed.table
            yield _Step(pit, FAILED, table, record, what=_failure(sighting.failed))
        elif record is not None and not is_there:
            yield _Step(pit, NEW, record.table, record, what=_arrival(record, before))
        elif record is not None and before is not None and record.table != before.table:
            yield _Step(pit, RENAMED, record.table, record, before)
        elif record is not None and before is not None and record.entry != before.entry:
            yield _Step(pit, CHANGED, record.table, record, before)
        elif record is None and sighting.deleted is not None and is_there:
            yield _gone(pit, sighting.deleted)
        before, is_there = record or before, record is not None


def _failure(failed: FailedObject) -> str:
    kept = f"keeps its version of {failed.kept_pit}" if failed.kept_pit else "has no version"
    return f"could not be backed up, {kept}: {failed.message}"


def _arrival(record: ObjectRecord, before: ObjectRecord | None) -> str:
    if before is not None:
        return "is back"
    return "appears" if record.status == "NEW" else "is in the oldest point in time that is left"


def _gone(pit: PitId, deleted: DeletedObject) -> _Step:
    what = f"gone from the source, last in {deleted.last_pit_included}"
    return _Step(pit, DELETED, deleted.table, what=what, deleted_at=deleted.deleted_at)


def _history(repository: Repository, number: str, seen: _Seen, limit: int | None) -> ObjectHistory:
    steps = list(_iter_steps(seen))[::-1]
    versions = _Versions(repository)
    shown = steps if limit is None else steps[:limit]
    kinds = [sighting.record.type for _, sighting in seen if sighting.record]
    names = [sighting.table for _, sighting in seen]
    return ObjectHistory(
        number,
        kinds[0] if kinds else "table",
        str(names[0]) if names else "",
        tuple(_event(step, versions) for step in shown),
        len(steps) - len(shown),
    )


class _Versions:
    """Versions as they are needed: each is the newer one of a pair, then the older one."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._kept: dict[str, Version] = {}

    def load(self, record: ObjectRecord) -> Version:
        """Raises DamagedRepositoryError, StorageError."""
        version = self._kept.get(record.entry.key) or load_version(self._repository, record)
        self._kept = {record.entry.key: version}
        return replace(version, record=record)


def _event(step: _Step, versions: _Versions) -> Event:
    record = step.record
    event = Event(
        step.pit,
        step.status,
        str(step.table),
        size_bytes=record.size_bytes if record else None,
        snapshots=record.snapshots if record else None,
        what=step.what,
        deleted_at=step.deleted_at,
    )
    if step.before is not None and step.before.table != step.table:
        event = replace(event, what=f"renamed from {step.before.table}")
    if record is None:
        return event
    try:
        return _with_changes(event, step.before, record, versions)
    except (DamagedRepositoryError, StorageError) as error:
        return replace(event, problem=str(error))


def _with_changes(
    event: Event, before: ObjectRecord | None, record: ObjectRecord, versions: _Versions
) -> Event:
    version = versions.load(record)
    event = replace(event, rows=version.rows.rows, deletes=version.rows.deletes)
    if before is None or before.entry == record.entry:
        return event
    changes = compare_versions(versions.load(before), version)
    told = [event.what] if event.what else []
    return replace(event, changes=changes, what="; ".join([*told, tell_briefly(changes)]))
