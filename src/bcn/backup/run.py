"""Backing up: the steps in order. Publish last, publish once."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime

from bcn import __version__
from bcn.backup.capture import Capture, capture, table_of
from bcn.backup.damage import damaged_snapshots
from bcn.backup.plan import (
    Comparison,
    check_deletions,
    compare,
    deleted_namespaces,
    deletions,
    object_ids,
    renames,
)
from bcn.backup.publish import build_entry, publish, save_entry, write_derived
from bcn.backup.report import BackupReport
from bcn.backup.roots import Roots
from bcn.backup.round import CopyOptions, Round, RoundOutcome, error_of
from bcn.backup.tasks import Failure, Run
from bcn.backup.work import Source, Work, as_failure, read_pointer
from bcn.catalog.protocol import Catalog, Pointer
from bcn.engine.spark import Engine
from bcn.errors import (
    BcnError,
    NoRepositoryError,
    NoSuchTableError,
    OverlapError,
    ScopeMismatchError,
    UsageError,
)
from bcn.model import PitId, TableId, iso, join_names
from bcn.repository import layout
from bcn.repository.entry import Entry
from bcn.repository.lease import HeldLease, LeaseSettings, Lessor, leased_pits
from bcn.repository.pit import FailedObject, ObjectRecord, PitManifest
from bcn.repository.repository import (
    Repository,
    Scope,
    create_repository,
    next_pit_id,
    open_repository,
)
from bcn.storage.open import Stores, overlaps
from bcn.storage.protocol import StorageSpec
from bcn.telemetry.progress import Progress, Silent, Stopwatch

MAX_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class BackupRequest:
    """What to back up, where to, and how."""

    repository: StorageSpec
    scope: Scope | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    bytes_per_second: float | None = None
    skip_damaged: bool = False
    accept_deletions: bool = False
    dry_run: bool = False
    lock_wait_seconds: float = 0.0
    lease: LeaseSettings = field(default_factory=LeaseSettings)


def run_backup(
    request: BackupRequest,
    open_catalog: Callable[[str], Catalog],
    engine: Engine,
    now: Callable[[], datetime],
    progress: Progress | None = None,
) -> BackupReport:
    """Make a PIT. Raises BcnError; a PIT that lacks tables is told by `failed` in the report."""
    return _Backup(request, open_catalog, engine, now, progress or Silent()).run()


class _Backup:
    def __init__(
        self,
        request: BackupRequest,
        open_catalog: Callable[[str], Catalog],
        engine: Engine,
        now: Callable[[], datetime],
        progress: Progress,
    ) -> None:
        self._request = request
        self._open_catalog = open_catalog
        self._engine = engine
        self._now = now
        self._progress = progress
        self._watch = Stopwatch()
        self._stores = Stores()
        self._warnings: list[str] = []
        self._totals = RoundOutcome()

    def run(self) -> BackupReport:
        """All steps."""
        repository = _find_repository(self._request.repository)
        self._scope = settle_scope(repository, self._request.scope)
        self._catalog = self._open_catalog(self._scope.catalog)
        self._check_places(self._catalog.warehouse_roots(), "warehouse")
        if repository is not None:
            repository.check_writable()
        if self._request.dry_run:
            return self._plan_only(repository)
        with self._leased(repository) as (repository, lease, captured, parent):
            self._repository, self._parent = repository, parent
            return self._make_pit(lease, captured)

    # before the work

    def _check_places(self, roots: Sequence[str], what: str) -> None:
        for root in roots:
            if overlaps(self._request.repository.location, root):
                raise OverlapError(
                    f"the repository {self._request.repository.location} and the {what} {root} overlap"
                )

    @contextmanager
    def _leased(
        self, found: Repository | None
    ) -> Iterator[tuple[Repository, HeldLease, Capture, PitManifest | None]]:
        """Capture and take the lease, in an order that no other writer can slip through."""
        repository, captured = found, None
        if repository is None:
            captured = self._capture(None)
            repository = create_repository(self._request.repository, self._scope, self._now())
        lessor = Lessor(repository.storage, self._request.lease, self._now)
        wait = self._request.lock_wait_seconds
        taken_over = lessor.wait_until_free(wait, self._progress.message)
        if repository.scope is None:
            repository.document = {
                **repository.document,
                "granularity": self._scope.granularity,
                "scope": self._scope.document(),
            }
        parent = repository.find_newest()
        captured = captured or self._capture(parent)
        pit = self._next_pit(repository, captured)
        with lessor.hold(pit, repository.pit_key(pit), taken_over) as lease:
            if found is not None and found.document.get("last_pit") is None:
                repository.lock_scope(self._scope)
            yield repository, lease, captured, parent

    def _next_pit(self, repository: Repository, captured: Capture) -> PitId:
        used = [*repository.pit_ids(), *leased_pits(repository.storage)]
        return next_pit_id(captured.started_at, used)

    def _capture(self, parent: PitManifest | None) -> Capture:
        with self._watch.phase("capture"):
            self._progress.phase("reading the catalog")
            captured = capture(self._catalog, self._scope, self._now)
            if self._scope.table is not None and not captured.pointers:
                return self._follow(captured, parent)
        return captured

    def _follow(self, captured: Capture, parent: PitManifest | None) -> Capture:
        """A TABLE repository follows its table to a new name."""
        if parent is None or not parent.objects:
            raise NoSuchTableError(
                f"no table {table_of(self._scope)} in catalog {self._scope.catalog}"
            )
        record = parent.objects[0]
        for pointer in self._catalog.iter_pointers():
            if self._is_object(pointer, record):
                return replace(captured, pointers=(pointer,))
        return captured

    def _is_object(self, pointer: Pointer, record: ObjectRecord) -> bool:
        if pointer.metadata_location == record.metadata_location:
            return True
        try:
            uuid_id = layout.find_uuid_id(read_pointer(self._stores, pointer).uuid)
        except BcnError:
            return False
        return uuid_id == record.object_id

    # the work

    def _make_pit(self, lease: HeldLease, captured: Capture) -> BackupReport:
        pit = lease.lease.pit
        comparison, sources, failed = self._compare(captured)
        works = self._works(sources, comparison)
        self._check_gone(comparison, works, failed)
        entries: list[Entry] = []
        objects = [
            replace(item, status="UNCHANGED", files_new=0, bytes_new=0)
            for item in comparison.unchanged
        ]
        objects += [
            replace(item, table=pointer.table, status="RENAMED", files_new=0, bytes_new=0)
            for item, pointer in comparison.renamed
        ]
        for work, parts, damaged in self._rounds(works, pit, failed):
            entry = build_entry(work, parts, pit, damaged)
            entries.append(entry)
            objects.append(
                save_entry(self._repository, self._scope.catalog, entry, self._status(work), parts)
            )
        manifest = self._manifest(pit, captured, objects, failed)
        if failed and not objects:
            raise _error_of(failed[0])
        with self._watch.phase("publish"):
            self._progress.phase("publishing")
            publish(self._repository, lease, manifest)
            write_derived(self._repository, manifest, self._catalog.public_properties(), entries)
            self._repository.storage.flush()
            self._clean_up(pit)
        return self._report(manifest)

    def _compare(self, captured: Capture) -> tuple[Comparison, list[Source], list[FailedObject]]:
        with self._watch.phase("compare"):
            versions = {p.metadata_location: self._version(p) for p in captured.pointers}
            comparison = compare(captured.pointers, versions, self._parent)
            if comparison.to_read and not self._request.dry_run:
                self._engine.warm_up()
            sources, failed = [], []
            for pointer in comparison.to_read:
                try:
                    source = read_pointer(self._stores, pointer)
                    self._check_places(source.declared, f"table {pointer.table} at")
                    sources.append(source)
                except OverlapError:
                    raise
                except BcnError as error:
                    failed.append(self._failed(pointer.table, None, *as_failure(error)))
        return comparison, sources, failed

    def _version(self, pointer: Pointer) -> str | None:
        if not pointer.metadata_location:
            return None
        try:
            storage, key = self._stores.resolve(pointer.metadata_location)
            stat = storage.find_stat(key)
        except BcnError:
            return None
        return stat.version if stat else None

    def _failed(
        self, table: TableId, object_id: str | None, error_class: str, message: str
    ) -> FailedObject:
        """A table that could not be read keeps the id, and the version, that it has in the parent."""
        records = self._parent.objects if self._parent else ()
        kept = next(
            (item for item in records if item.object_id == object_id),
            next((item for item in records if item.table == table), None),
        )
        self._progress.message(f"{table} failed: {message}")
        return FailedObject(
            kept.object_id if kept else (object_id or ""),
            table,
            error_class,
            message,
            self._kept_pit(kept) if kept else None,
        )

    def _kept_pit(self, kept: ObjectRecord) -> PitId:
        earlier = self._parent.failed if self._parent else ()
        for item in earlier:
            if item.object_id == kept.object_id and item.kept_pit is not None:
                return item.kept_pit
        assert self._parent is not None  # noqa: S101  kept comes from it
        return self._parent.pit

    def _works(self, sources: Sequence[Source], comparison: Comparison) -> list[Work]:
        taken = {item.object_id: item.table for item in comparison.unchanged}
        taken |= {item.object_id: pointer.table for item, pointer in comparison.renamed}
        triples = [(source.pointer, source.uuid, source.location) for source in sources]
        ids = object_ids(triples, taken, self._parent, self._scope.catalog)
        records = {item.object_id: item for item in (self._parent.objects if self._parent else ())}
        works = []
        for number, (source, object_id) in enumerate(zip(sources, ids, strict=True), 1):
            if object_id.startswith("n-") and layout.find_uuid_id(source.uuid):
                self._warn(
                    f"{source.pointer.table} shares its uuid {source.uuid} with another table"
                )
            works.append(self._work(number, source, object_id, records.get(object_id)))
        return works

    def _work(
        self, number: int, source: Source, object_id: str, record: ObjectRecord | None
    ) -> Work:
        entry = self._repository.load_entry(record.entry) if record else None
        roots = Roots(entry.roots if entry else ())
        for spelling in source.declared:
            roots.add(spelling)
        return Work(number, source, object_id, entry, record, roots)

    def _warn(self, text: str) -> None:
        self._warnings.append(text)
        self._progress.message(f"warning: {text}")

    def _check_gone(
        self, comparison: Comparison, works: Sequence[Work], failed: Sequence[FailedObject]
    ) -> None:
        present = {item.object_id for item in comparison.unchanged}
        present |= {item.object_id for item, _ in comparison.renamed}
        present |= {work.object_id for work in works} | {item.object_id for item in failed}
        known = {item.object_id for item in (self._parent.objects if self._parent else ())}
        if not self._request.accept_deletions:
            check_deletions(self._parent, len(known - present))

    def _status(self, work: Work) -> str:
        if work.parent_record is None:
            return "NEW"
        renamed = work.parent_record.table != work.source.pointer.table
        return "RENAMED" if renamed else "CHANGED"

    def _rounds(
        self, works: Sequence[Work], pit: PitId, failed: list[FailedObject]
    ) -> Iterator[tuple[Work, list, list]]:
        """Take works through rounds; one whose table moved on meanwhile goes into another round."""
        pending = list(works)
        for number in range(1, MAX_ROUNDS + 1):
            if not pending:
                return
            round_ = self._round(self._run_value(pit, f"{pit}-{number}", self._request.repository))
            outcome = round_.execute(pending)
            self._add_totals(outcome)
            again: list[Work] = []
            for work in pending:
                failures = outcome.failures.get(work.number, [])
                moved = self._moved_on(work) if failures and number < MAX_ROUNDS else None
                if moved is not None:
                    self._progress.message(
                        f"{work.source.pointer.table} moved on: reading it again"
                    )
                    again.append(moved)
                elif failures and not (self._request.skip_damaged and _can_skip(work, failures)):
                    failed.append(self._fail_work(work, failures, round_.run))
                else:
                    damaged = damaged_snapshots(work, failures, round_.run) if failures else []
                    yield work, outcome.sealed[work.number], damaged
            pending = again

    def _round(self, run: Run) -> Round:
        options = CopyOptions(self._request.bytes_per_second, self._request.skip_damaged)
        return Round(run, self._engine, self._progress, self._watch, options)

    def _run_value(self, pit: PitId, job: str, scratch: StorageSpec) -> Run:
        return Run(self._request.repository, scratch, job, pit, self._scope.catalog)

    def _add_totals(self, outcome: RoundOutcome) -> None:
        self._totals.files_copied += outcome.files_copied
        self._totals.bytes_copied += outcome.bytes_copied
        self._totals.files_adopted += outcome.files_adopted
        self._totals.bytes_adopted += outcome.bytes_adopted
        self._totals.manifests_decoded += outcome.manifests_decoded

    def _moved_on(self, work: Work) -> Work | None:
        """The work anew if the catalog points elsewhere by now."""
        pointer = self._catalog.find_pointer(work.source.pointer.table)
        if pointer is None or pointer == work.source.pointer:
            return None
        source = read_pointer(self._stores, pointer)
        if source.uuid != work.source.uuid:
            return None
        return self._work(work.number, source, work.object_id, work.parent_record)

    def _fail_work(self, work: Work, failures: Sequence[Failure], run: Run) -> FailedObject:
        first = failures[0]
        more = f" (and {len(failures) - 1} more files)" if len(failures) > 1 else ""
        hurt = damaged_snapshots(work, failures, run)
        snapshots = ", ".join(item["snapshot_id"] for item in hurt)
        where = f"; snapshots hurt: {snapshots}" if snapshots else ""
        message = f"{first.message}{more}{where}"
        return self._failed(work.source.pointer.table, work.object_id, first.error_class, message)

    # after the work

    def _manifest(
        self,
        pit: PitId,
        captured: Capture,
        objects: list[ObjectRecord],
        failed: Sequence[FailedObject],
    ) -> PitManifest:
        kept = {item.object_id: item for item in (self._parent.objects if self._parent else ())}
        for item in failed:
            if item.kept_pit is not None:
                record = replace(kept[item.object_id], table=item.table, status="FAILED")
                objects.append(replace(record, files_new=0, bytes_new=0))
        objects.sort(key=lambda item: item.table)
        present = {item.object_id for item in objects} | {item.object_id for item in failed}
        document = self._repository.document
        return PitManifest(
            pit=pit,
            pit_uuid=str(uuid.uuid4()),
            parent=self._parent.pit if self._parent else None,
            captured_at=iso(captured.ended_at),
            repository={
                "id": self._repository.id,
                "granularity": self._scope.granularity,
                "scope": self._scope.document(),
                "features": document["features"],
            },
            consistency=captured.consistency(),
            bcn_version=__version__,
            objects=tuple(objects),
            namespaces=captured.namespaces,
            deleted=deletions(self._parent, present, pit),
            deleted_namespaces=deleted_namespaces(self._parent, captured.namespaces),
            renamed=renames(self._parent, objects),
            failed=tuple(failed),
            labels=self._request.labels,
        )

    def _clean_up(self, pit: PitId) -> None:
        """Scratch of this run; what a killed one left is for prune."""
        for number in range(1, MAX_ROUNDS + 1):
            for key in list(
                self._repository.storage.iter_keys(layout.job_prefix(f"{pit}-{number}"))
            ):
                self._repository.storage.delete(key)

    def _report(self, manifest: PitManifest) -> BackupReport:
        return BackupReport(
            repository=self._request.repository.location,
            pit=manifest.pit,
            parent=manifest.parent,
            objects=manifest.objects,
            deleted=manifest.deleted,
            failed=manifest.failed,
            seconds=self._watch.seconds,
            files_copied=self._totals.files_copied,
            bytes_copied=self._totals.bytes_copied,
            files_adopted=self._totals.files_adopted,
            bytes_adopted=self._totals.bytes_adopted,
            manifests_decoded=self._totals.manifests_decoded,
            consistency=manifest.consistency,
            warnings=tuple(self._warnings),
            dry_run=self._request.dry_run,
        )

    # the plan alone

    def _plan_only(self, repository: Repository | None) -> BackupReport:
        """What a backup would do; nothing is written but a temporary folder on this machine."""
        captured = self._capture(repository.find_newest() if repository else None)
        self._parent = repository.find_newest() if repository else None
        with tempfile.TemporaryDirectory(prefix="bcn-plan-") as folder:
            if repository is None:
                repository = Repository(
                    StorageSpec(folder),
                    None,  # type: ignore[arg-type]  nothing is read from a repository that is not there
                    {"repository_id": "", "features": {"read": [], "write": []}},
                )
            self._repository = repository
            comparison, sources, failed = self._compare(captured)
            works = self._works(sources, comparison)
            self._check_gone(comparison, works, failed)
            pit = next_pit_id(captured.started_at, repository.pit_ids() if self._parent else [])
            round_ = self._round(self._run_value(pit, "plan", StorageSpec(folder)))
            round_.plan(works)
        objects = [
            replace(item, status="UNCHANGED", files_new=0, bytes_new=0)
            for item in comparison.unchanged
        ]
        objects += [
            replace(item, table=pointer.table, status="RENAMED", files_new=0, bytes_new=0)
            for item, pointer in comparison.renamed
        ]
        for work in works:
            failures = round_.outcome.failures.get(work.number, [])
            if failures:
                failed.append(self._fail_work(work, failures, round_.run))
            else:
                objects.append(self._planned(work, round_.outcome.planned[work.number]))
        manifest = self._manifest(pit, captured, objects, failed)
        return self._report(manifest)

    def _planned(self, work: Work, new: tuple[int, int]) -> ObjectRecord:
        from bcn.repository.pit import EntryRef

        facts = work.source.facts
        known = (work.parent.files, work.parent.size_bytes) if work.parent else (0, 0)
        return ObjectRecord(
            object_id=work.object_id,
            type=work.source.pointer.kind,
            table=work.source.pointer.table,
            status=self._status(work),
            entry=EntryRef("", "", 0),
            metadata_location=work.source.pointer.metadata_location,
            metadata_version=work.source.version,
            metadata_sha256=work.source.sha256,
            files=known[0] + new[0],
            size_bytes=known[1] + new[1],
            snapshots=len(facts.snapshots) if facts else 0,
            files_new=new[0],
            bytes_new=new[1],
        )


def _find_repository(spec: StorageSpec) -> Repository | None:
    try:
        return open_repository(spec)
    except NoRepositoryError:
        return None


def settle_scope(repository: Repository | None, asked: Scope | None) -> Scope:
    """The scope of this run: the repository's own, or what the first backup asks for."""
    locked = repository.scope if repository else None
    if locked is None:
        if asked is None:
            raise UsageError(
                "the first backup needs to know what to back up",
                hint="add --catalog NAME, and --database and --table for less than all of it",
            )
        return asked
    if asked is not None and asked != locked:
        raise ScopeMismatchError(
            f"this repository is locked to {describe_scope(locked)}, not {describe_scope(asked)}"
        )
    return locked


def describe_scope(scope: Scope) -> str:
    """A scope in words."""
    text = f"{scope.granularity} {scope.catalog}"
    if scope.database is not None:
        text += f", database {join_names(scope.database)}"
    if scope.table is not None:
        text += f", table {scope.table}"
    return text


def _can_skip(work: Work, failures: Sequence[Failure]) -> bool:
    metadata = work.source.pointer.metadata_location
    classes = {"MissingSourceFileError", "MalformedFileError"}
    return all(item.error_class in classes and item.location != metadata for item in failures)


def _error_of(failed: FailedObject) -> BcnError:
    message = f"{failed.table}: {failed.message}"
    return error_of(Failure(0, failed.error_class, message, ""))
