"""Backing up: the steps in order. Publish last, publish once."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime

from bcn.backup.capture import Capture, capture, table_of
from bcn.backup.damage import damaged_snapshots
from bcn.backup.plan import deleted_namespaces, deletions, renames
from bcn.backup.publish import (
    build_entry,
    planned_record,
    publish,
    save_entry,
    status_of,
    stored_metadata,
)
from bcn.backup.report import BackupReport
from bcn.backup.round import CopyOptions, Round, RoundOutcome, error_of, error_of_all
from bcn.backup.scope import (
    check_parent,
    check_places,
    find_repository,
    make_repository,
    settle_scope,
)
from bcn.backup.survey import Earlier, Survey, Surveyor, kept_records
from bcn.backup.tasks import Failure, Run, SealedPart
from bcn.backup.work import Work
from bcn.catalog.protocol import Catalog
from bcn.engine.spark import Engine
from bcn.errors import NoSuchTableError
from bcn.iceberg.history import ALL_HISTORY, History
from bcn.model import Json, PitId, iso
from bcn.repository import layout
from bcn.repository.entry import Entry
from bcn.repository.lease import Claim, HeldLease, LeaseSettings, Lessor, leased_pits
from bcn.repository.pit import FailedObject, ObjectRecord, PitManifest
from bcn.repository.refresh import write_derived
from bcn.repository.repository import (
    Repository,
    Scope,
    next_pit_id,
    open_repository,
)
from bcn.storage.protocol import StorageSpec
from bcn.telemetry.progress import Progress, Silent, Stopwatch
from bcn.version import VERSION

MAX_ROUNDS = 3
_SKIPPABLE = {"MissingSourceFileError", "MalformedFileError"}


@dataclass(frozen=True, slots=True)
class BackupRequest:
    """What to back up, where to, and how."""

    repository: StorageSpec
    scope: Scope | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    history: History | None = None  # None: as the backup before
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


@dataclass(frozen=True)
class _Start:
    """What a backup starts from: what there is in the repository, and in the catalog."""

    repository: Repository
    captured: Capture
    parent: PitManifest | None


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
        self._totals = RoundOutcome()
        self._warnings: list[str] = []
        self._requests = engine.requests()

    def run(self) -> BackupReport:
        """All steps."""
        repository = find_repository(self._request.repository)
        self._scope = settle_scope(repository, self._request.scope)
        self._catalog = self._open_catalog(self._scope.catalog)
        check_places(self._request.repository, self._catalog.warehouse_roots(), "warehouse")
        if repository is not None:
            repository.check_writable()
        if self._request.dry_run:
            return self._plan_only(repository)
        with self._begin(repository) as (lease, start):
            return self._make_pit(lease, start)

    # before the work

    @contextmanager
    def _begin(self, found: Repository | None) -> Iterator[tuple[HeldLease, _Start]]:
        """Capture and take the lease, in an order that no other writer can slip through.

        A PIT that another writer publishes after we listed them needs the lease that we create
        next, so creating it would fail.
        """
        first = None
        if found is None:
            first = self._capture(None, None)  # wrong names leave no repository behind
            make_repository(self._request.repository, self._scope, self._now())
        storage = open_repository(self._request.repository).storage
        lessor = Lessor(storage, self._request.lease, self._now)
        wait, say = self._request.lock_wait_seconds, self._progress.message
        with lessor.hold_when_free(wait, say, lambda: self._start(first)) as (lease, start):
            yield lease, start

    def _start(self, first: Capture | None) -> tuple[Claim, _Start]:
        """What there is now; a first capture serves if no other writer was quicker."""
        repository = self._reopen()
        parent = repository.find_newest()
        check_parent(parent, self._scope)
        captured = first
        if captured is None or parent is not None:
            captured = self._capture(repository, parent)
        used = [*repository.pit_ids(), *leased_pits(repository.storage)]
        pit = next_pit_id(captured.started_at, used)
        return Claim(pit, repository.pit_key(pit)), _Start(repository, captured, parent)

    def _reopen(self) -> Repository:
        """The repository as its last writer left it, locked to our scope."""
        repository = open_repository(self._request.repository)
        settle_scope(repository, self._scope)
        repository.check_writable()
        return repository.locked_to(self._scope)

    def _capture(self, repository: Repository | None, parent: PitManifest | None) -> Capture:
        with self._watch.phase("capture"):
            self._progress.phase("reading the catalog")
            captured = capture(self._catalog, self._scope, self._now)
            if self._scope.table is None or captured.pointers:
                return captured
            return self._follow(captured, repository, parent)

    def _follow(
        self, captured: Capture, repository: Repository | None, parent: PitManifest | None
    ) -> Capture:
        """A TABLE repository follows its table to a new name."""
        if parent is None or not parent.objects:
            name = table_of(self._scope)
            raise NoSuchTableError(f"no table {name} in catalog {self._scope.catalog}")
        surveyor = self._surveyor(repository, parent)
        for pointer in self._catalog.iter_pointers():
            if surveyor.is_object(pointer, parent.objects[0]):
                return replace(captured, pointers=(pointer,))
        return captured

    def _surveyor(self, repository: Repository | None, parent: PitManifest | None) -> Surveyor:
        earlier = Earlier(self._request.repository, repository, parent)
        return Surveyor(earlier, self._catalog, self._scope, self._history(parent))

    def _history(self, parent: PitManifest | None) -> History:
        before = History.parse(parent.history) if parent else ALL_HISTORY
        return self._request.history or before

    def _survey(self, surveyor: Surveyor, captured: Capture) -> Survey:
        with self._watch.phase("compare"):
            quiet = self._request.dry_run
            survey = surveyor.survey(captured, (lambda: None) if quiet else self._engine.warm_up)
        for text in survey.warnings:
            self._progress.message(f"warning: {text}")
        is_hopeless = not survey.works and not survey.settled()  # told once, by the error
        for item in () if is_hopeless else survey.failed:
            self._progress.message(f"{item.table} failed: {item.message}")
        if not self._request.accept_deletions:
            surveyor.check_gone(survey)
        return survey

    # the work

    def _make_pit(self, lease: HeldLease, start: _Start) -> BackupReport:
        repository, pit = start.repository, lease.lease.pit
        surveyor = self._surveyor(repository, start.parent)
        survey = self._survey(surveyor, start.captured)
        failed, objects = list(survey.failed), survey.settled()
        entries: list[Entry] = []
        for work, parts, damaged in self._rounds(surveyor, survey.works, pit, failed):
            entry = build_entry(work, parts, pit, damaged)
            self._note_odd_sizes(work, sum(part.odd_sizes for part in parts))
            record = save_entry(repository, self._scope.catalog, entry, status_of(work), parts)
            entries.append(entry)
            objects.append(record)
        if failed and not objects:
            raise error_of_all(failed)
        manifest = self._manifest(start, pit, objects, failed)
        with self._watch.phase("publish"):
            self._progress.phase("publishing")
            publish(repository, lease, manifest)
            properties = self._catalog.public_properties()
            write_derived(repository, manifest, start.parent, properties, entries)
            for number in range(1, MAX_ROUNDS + 1):
                repository.storage.delete_all(layout.job_prefix(_job(pit, number)))
            repository.storage.flush()
        return self._report(manifest, (*survey.warnings, *self._warnings))

    def _rounds(
        self,
        surveyor: Surveyor,
        works: Sequence[Work],
        pit: PitId,
        failed: list[FailedObject],
    ) -> Iterator[tuple[Work, Sequence[SealedPart], list[Json]]]:
        """Take works through rounds; one whose table moved on meanwhile goes into another round."""
        pending = list(works)
        for number in range(1, MAX_ROUNDS + 1):
            if not pending:
                return
            round_ = self._round(pit, number, self._request.repository)
            outcome = round_.execute(pending)
            self._add_totals(outcome)
            again: list[Work] = []
            for work in pending:
                failures = _failures_of(work, outcome)
                moved = surveyor.moved_on(work) if failures and number < MAX_ROUNDS else None
                if moved is not None:
                    self._progress.message(f"{work.table} moved on: reading it again")
                    again.append(moved)
                elif failures and not self._may_skip(work, failures):
                    failed.append(self._fail(surveyor, work, failures, round_.run))
                else:
                    damaged = damaged_snapshots(work, failures, round_.run) if failures else []
                    yield work, outcome.sealed[work.number], damaged
            pending = again

    def _note_odd_sizes(self, work: Work, count: int) -> None:
        if count:
            self._warnings.append(
                f"{count} new files of {work.table} are not as long as its metadata says"
            )
            self._progress.message(f"warning: {self._warnings[-1]}")

    def _round(self, pit: PitId, number: int, scratch: StorageSpec) -> Round:
        repository, catalog = self._request.repository, self._scope.catalog
        access = self._catalog.access
        run = Run(repository, scratch, _job(pit, number), pit, catalog, access, number)
        options = CopyOptions(self._request.bytes_per_second, self._request.skip_damaged)
        return Round(run, self._engine, self._progress, self._watch, options)

    def _add_totals(self, outcome: RoundOutcome) -> None:
        self._totals.files_copied += outcome.files_copied
        self._totals.bytes_copied += outcome.bytes_copied
        self._totals.files_adopted += outcome.files_adopted
        self._totals.bytes_adopted += outcome.bytes_adopted
        self._totals.manifests_decoded += outcome.manifests_decoded

    def _may_skip(self, work: Work, failures: Sequence[Failure]) -> bool:
        pointer = work.source.pointer.metadata_location
        return self._request.skip_damaged and all(
            item.error_class in _SKIPPABLE and item.location != pointer for item in failures
        )

    def _fail(
        self, surveyor: Surveyor, work: Work, failures: Sequence[Failure], run: Run
    ) -> FailedObject:
        more = f" (and {len(failures) - 1} more files)" if len(failures) > 1 else ""
        hurt = ", ".join(item["snapshot_id"] for item in damaged_snapshots(work, failures, run))
        where = f"; snapshots hurt: {hurt}" if hurt else ""
        message = f"{failures[0].message}{more}{where}"
        self._progress.message(f"{work.table} failed: {message}")
        error = error_of(replace(failures[0], message=message))
        found = surveyor.failed(work.table, work.object_id, error)
        return replace(found, error_class=failures[0].error_class)

    # after the work

    def _manifest(
        self,
        start: _Start,
        pit: PitId,
        objects: Sequence[ObjectRecord],
        failed: Sequence[FailedObject],
    ) -> PitManifest:
        parent, captured = start.parent, start.captured
        whole = sorted([*objects, *kept_records(parent, failed)], key=lambda item: item.table)
        present = {item.object_id for item in whole} | {item.object_id for item in failed}
        return PitManifest(
            pit=pit,
            pit_uuid=str(uuid.uuid4()),
            parent=parent.pit if parent else None,
            captured_at=iso(captured.ended_at),
            repository=start.repository.identity(),
            consistency=captured.consistency(),
            bcn_version=VERSION,
            objects=tuple(whole),
            namespaces=captured.namespaces,
            deleted=deletions(parent, present, pit),
            deleted_namespaces=deleted_namespaces(parent, captured.namespaces),
            renamed=renames(parent, whole),
            failed=tuple(failed),
            labels=self._request.labels,
            history=str(self._history(parent)),
        )

    def _report(self, manifest: PitManifest, warnings: Sequence[str]) -> BackupReport:
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
            requests=self._engine.requests() - self._requests,
            consistency=manifest.consistency,
            warnings=tuple(warnings),
            history=manifest.history,
        )

    # the plan alone

    def _plan_only(self, repository: Repository | None) -> BackupReport:
        """What a backup would do; nothing is written but a temporary folder on this machine."""
        parent = repository.find_newest() if repository else None
        captured = self._capture(repository, parent)
        surveyor = self._surveyor(repository, parent)
        survey = self._survey(surveyor, captured)
        pit = next_pit_id(captured.started_at, repository.pit_ids() if repository else [])
        failed, objects = list(survey.failed), survey.settled()
        with tempfile.TemporaryDirectory(prefix="bcn-plan-") as folder:
            round_ = self._round(pit, 1, StorageSpec(folder))
            round_.plan(survey.works)
            for work in survey.works:
                failures = round_.outcome.failures.get(work.number, [])
                if failures:
                    failed.append(self._fail(surveyor, work, failures, round_.run))
                else:
                    objects.append(planned_record(work, round_.outcome.planned[work.number]))
        present = {item.object_id for item in objects} | {item.object_id for item in failed}
        return BackupReport(
            repository=self._request.repository.location,
            pit=pit,
            parent=parent.pit if parent else None,
            objects=tuple(sorted(objects, key=lambda item: item.table)),
            deleted=deletions(parent, present, pit),
            failed=tuple(failed),
            seconds=self._watch.seconds,
            consistency=captured.consistency(),
            warnings=survey.warnings,
            dry_run=True,
            history=str(self._history(parent)),
        )


def _failures_of(work: Work, outcome: RoundOutcome) -> list[Failure]:
    """What went wrong with a work; also if its metadata is not what was read at the beginning."""
    failures = outcome.failures.get(work.number, [])
    if not failures and stored_metadata(work, outcome.sealed[work.number])[1] != work.source.sha256:
        pointer = work.source.pointer.metadata_location
        text = f"{pointer} was replaced while the table was read"
        return [Failure(work.number, "DamagedSourceError", text, pointer)]
    return failures


def _job(pit: PitId, number: int) -> str:
    return f"{pit}-{number}"
