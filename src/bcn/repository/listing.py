"""What a repository holds, as people and programs are told: PITs, objects of one, the whole."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

from bcn.errors import (
    BcnError,
    DamagedRepositoryError,
    NoSuchNamespaceError,
    StorageError,
    UnknownPitError,
)
from bcn.model import Json, PitId, join_names, split_names
from bcn.repository.entry import ALL
from bcn.repository.lease import find_held_lease
from bcn.repository.nearest import did_you_mean
from bcn.repository.owner import is_proven_dead, this_process
from bcn.repository.pit import FailedObject, ObjectRecord, PitManifest
from bcn.repository.repository import Repository, summary_line
from bcn.repository.verification import Verification, find_verifications

ACTIVE, UNCHANGED, DELETED, FAILED = "ACTIVE", "UNCHANGED", "DELETED", "FAILED"

# PITs are read and checked newest first up to so many bytes; older ones come from `pits.jsonl`,
# so that a list of many thousand stays quick.
CHECKED_BYTES = 8 << 20

_COUNTS = (
    "databases",
    "tables",
    "views",
    "snapshots",
    "new",
    "changed",
    "unchanged",
    "renamed",
    "deleted",
    "failed",
    "files_new",
    "bytes_new",
    "files_total",
    "bytes_total",
)


@dataclass(frozen=True, slots=True)
class PitSummary:
    """One PIT in a list. `damaged` says why it cannot be read, `is_checked` if that was tried."""

    pit: PitId
    parent: PitId | None = None
    counts: tuple[int, ...] = (0,) * len(_COUNTS)
    labels: tuple[tuple[str, str], ...] = ()
    is_checked: bool = True
    damaged: str | None = None
    verified: Verification | None = None

    def count(self, name: str) -> int:
        """A number out of the PIT's own summary."""
        return self.counts[_COUNTS.index(name)]

    def as_json(self) -> Json:
        """The documented object, docs/json-output.md."""
        return {
            "pit": str(self.pit),
            "pit_timestamp": self.pit.moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "parent_pit": str(self.parent) if self.parent else None,
            **dict(zip(_COUNTS, self.counts, strict=True)),
            "labels": dict(self.labels),
            "checked": self.is_checked,
            "damaged": self.damaged,
            "verified": self.verified.as_json() if self.verified else None,
        }


@dataclass(frozen=True, slots=True)
class ListReport:
    """The PITs of a repository, oldest first."""

    repository: str
    pits: tuple[PitSummary, ...]

    @property
    def newest(self) -> PitSummary | None:
        """The newest PIT that can be read."""
        return next((pit for pit in reversed(self.pits) if pit.damaged is None), None)

    @property
    def warnings(self) -> tuple[str, ...]:
        """A line for each PIT that cannot be read."""
        return tuple(f"{pit.pit} is damaged: {pit.damaged}" for pit in self.pits if pit.damaged)

    def as_json(self) -> Json:
        """The documented object, docs/json-output.md."""
        return {
            "repository": self.repository,
            "pits": [pit.as_json() for pit in self.pits],
            "warnings": list(self.warnings),
        }


@dataclass(frozen=True, slots=True)
class ListedObject:
    """A table or view of a PIT, or one that was there before it."""

    database: str
    name: str
    type: str
    status: str
    change: str
    files: int = 0
    size_bytes: int = 0
    snapshots: int = 0
    damaged_snapshots: int = 0
    last_pit: PitId | None = None
    message: str | None = None
    coverage: str = ALL

    def as_json(self) -> Json:
        """The documented object, docs/json-output.md."""
        document = asdict(self)
        document["bytes"] = document.pop("size_bytes")
        document["last_pit"] = str(self.last_pit) if self.last_pit else None
        return document


@dataclass(frozen=True, slots=True)
class ObjectsReport:
    """What one PIT holds, sorted by name."""

    repository: str
    pit: PitId
    objects: tuple[ListedObject, ...]
    verified: Verification | None = None

    def count(self, status: str) -> int:
        """How many objects have a status."""
        return sum(item.status == status for item in self.objects)

    def as_json(self) -> Json:
        """The documented object, docs/json-output.md."""
        return {
            "repository": self.repository,
            "pit": str(self.pit),
            "verified": self.verified.as_json() if self.verified else None,
            "objects": [item.as_json() for item in self.objects],
        }


@dataclass(frozen=True, slots=True)
class HeldBy:
    """Who may write now; `is_gone` when that process is known to run no more."""

    owner: str
    pit: PitId
    taken_at: str
    is_gone: bool

    def as_json(self) -> Json:
        """The documented object, docs/json-output.md."""
        return {
            "owner": self.owner,
            "pit": str(self.pit),
            "taken_at": self.taken_at,
            "gone": self.is_gone,
        }


@dataclass(frozen=True, slots=True)
class DescribeReport:
    """A repository as a whole. `deleted` is as of the newest PIT."""

    repository_id: str
    created_at: str
    granularity: str | None
    catalog: str | None
    database: str | None
    table: str | None
    list: ListReport
    deleted: tuple[ListedObject, ...]
    lease: HeldBy | None
    problems: tuple[str, ...] = ()

    @property
    def bytes_new(self) -> int:
        """Bytes that all PITs together stored."""
        return sum(pit.count("bytes_new") for pit in self.list.pits)

    @property
    def bytes_total(self) -> int:
        """Bytes that the newest PIT needs."""
        return self.list.newest.count("bytes_total") if self.list.newest else 0

    @property
    def last_verification(self) -> Verification | None:
        """The newest look at any PIT; of several at one moment, the one at the newest PIT."""
        notes = [pit.verified for pit in self.list.pits if pit.verified]
        return max(notes, key=lambda note: (note.at, note.pit), default=None)

    @property
    def warnings(self) -> tuple[str, ...]:
        """A line for everything that cannot be read."""
        return (*self.list.warnings, *self.problems)

    def as_json(self) -> Json:
        """The documented object, docs/json-output.md."""
        last = self.last_verification
        return {
            "repository": self.list.repository,
            "repository_id": self.repository_id,
            "created_at": self.created_at,
            "granularity": self.granularity,
            "scope": {"catalog": self.catalog, "database": self.database, "table": self.table},
            "pits": [pit.as_json() for pit in self.list.pits],
            "deleted": [item.as_json() for item in self.deleted],
            "bytes_new": self.bytes_new,
            "bytes_total": self.bytes_total,
            "last_verification": last.as_json() if last else None,
            "lease": self.lease.as_json() if self.lease else None,
            "warnings": list(self.warnings),
        }


# making them


def list_pits(repository: Repository, checked_bytes: int = CHECKED_BYTES) -> ListReport:
    """All PITs, oldest first. A damaged one is listed as such and hides no other."""
    known: dict[str, Json] | None = None
    notes = find_verifications(repository.storage)
    found: list[PitSummary] = []
    for pit in reversed(repository.pit_ids()):
        stat = repository.storage.find_stat(repository.pit_key(pit))
        checked_bytes -= stat.size_bytes if stat else 0
        if checked_bytes < 0 and known is None:
            known = {line["pit"]: line for line in repository.summaries()}
        summary = _indexed((known or {}).get(str(pit))) or _checked(repository, pit)
        if summary is not None:
            found.append(replace(summary, verified=notes.get(pit)))
    return ListReport(repository.spec.location, tuple(reversed(found)))


def _indexed(line: Json | None) -> PitSummary | None:
    """A line of the index as a value; None if it is not what a PIT would say."""
    try:
        return None if line is None else _from_line(line, is_checked=False)
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _from_line(line: Json, *, is_checked: bool) -> PitSummary:
    return PitSummary(
        PitId.parse(line["pit"]),
        PitId.parse(line["parent_pit"]) if line["parent_pit"] else None,
        tuple(int(line[name]) for name in _COUNTS),
        tuple(line["labels"].items()),
        is_checked,
    )


def _checked(repository: Repository, pit: PitId) -> PitSummary | None:
    """A PIT read and its checksum compared; None if it was abandoned."""
    try:
        manifest = repository.find_pit(pit)
    except (DamagedRepositoryError, StorageError) as error:
        return PitSummary(pit, damaged=str(error))
    return None if manifest is None else _from_line(summary_line(manifest), is_checked=True)


def list_objects(repository: Repository, pit: PitId, database: str | None = None) -> ObjectsReport:
    """What a PIT holds, or one database of it. Raises NoSuchNamespaceError and as `load_pit`."""
    manifest = load_pit(repository, pit)
    objects = _objects(manifest)
    if database is not None:
        wanted = _find_database(manifest, database)
        objects = [item for item in objects if item.database == wanted]
    verified = find_verifications(repository.storage).get(pit)
    return ObjectsReport(repository.spec.location, pit, tuple(objects), verified)


def load_pit(repository: Repository, pit: PitId) -> PitManifest:
    """A PIT that must be there. Raises UnknownPitError, DamagedRepositoryError."""
    manifest = repository.find_pit(pit)
    if manifest is None:
        raise UnknownPitError(f"no point in time {pit}")
    return manifest


def _objects(manifest: PitManifest) -> list[ListedObject]:
    failed = {item.object_id: item for item in manifest.failed}
    listed = [_present(item, failed.get(item.object_id)) for item in manifest.objects]
    kept = {item.object_id for item in manifest.objects}
    listed += [_never_stored(item) for item in manifest.failed if item.object_id not in kept]
    return sorted([*listed, *_deleted(manifest)], key=lambda item: (item.database, item.name))


def _present(item: ObjectRecord, failed: FailedObject | None) -> ListedObject:
    status = item.status if item.status in {UNCHANGED, FAILED} else ACTIVE
    return ListedObject(
        item.table.database,
        item.table.name,
        item.type,
        status,
        item.status,
        item.files,
        item.size_bytes,
        item.snapshots,
        item.damaged,
        failed.kept_pit if failed else None,
        failed.message if failed else None,
        item.coverage,
    )


def _never_stored(item: FailedObject) -> ListedObject:
    table = item.table
    return ListedObject(table.database, table.name, "table", FAILED, FAILED, message=item.message)


def _deleted(manifest: PitManifest) -> list[ListedObject]:
    return [
        ListedObject(
            item.table.database,
            item.table.name,
            item.type,
            DELETED,
            DELETED,
            last_pit=item.last_pit_included,
        )
        for item in manifest.deleted
    ]


def _deleted_databases(manifest: PitManifest) -> list[ListedObject]:
    return [
        ListedObject(name, name, "database", DELETED, DELETED)
        for name in manifest.deleted_namespaces
    ]


def _find_database(manifest: PitManifest, text: str) -> str:
    """A database of a PIT, also one that is gone by now. Raises NoSuchNamespaceError."""
    known = {join_names(item.levels) for item in manifest.namespaces}
    known |= set(manifest.deleted_namespaces) | {item.database for item in _objects(manifest)}
    wanted = join_names(split_names(text))
    if wanted not in known:
        question = did_you_mean(wanted, known)
        raise NoSuchNamespaceError(f"no database {wanted!r} in {manifest.pit}{question}")
    return wanted


def describe(repository: Repository) -> DescribeReport:
    """A repository as a whole; what cannot be read becomes a warning."""
    report, scope, problems = list_pits(repository), repository.scope, []
    newest = load_pit(repository, report.newest.pit) if report.newest else None
    lease = None
    try:
        lease = find_holder(repository)
    except (BcnError, KeyError, TypeError) as error:
        problems.append(f"the lease cannot be read: {error}")
    return DescribeReport(
        repository_id=repository.id,
        created_at=str(repository.document.get("created_at", "")),
        granularity=scope.granularity if scope else None,
        catalog=scope.catalog if scope else None,
        database=join_names(scope.database) if scope and scope.database is not None else None,
        table=scope.table if scope else None,
        list=report,
        deleted=(*_deleted_databases(newest), *_deleted(newest)) if newest else (),
        lease=lease,
        problems=tuple(problems),
    )


def find_holder(repository: Repository) -> HeldBy | None:
    """Who holds the lease, if anybody does."""
    held = find_held_lease(repository.storage)
    if held is None:
        return None
    gone = is_proven_dead(held.owner, this_process())
    return HeldBy(str(held.owner), held.pit, held.taken_at, gone)
