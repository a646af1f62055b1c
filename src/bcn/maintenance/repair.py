"""Repairing: whatever only repeats points in time is made anew from them; losses are named.

Points in time, entries, layers and data are read and never changed. The one exception is asked for
by name: a damaged PIT manifest is set aside, so that backups go on from the newest whole one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime

from bcn.errors import (
    DamagedRepositoryError,
    MissingKeyError,
    NewerVersionError,
    NoRepositoryError,
    RefusedError,
    UnknownPitError,
)
from bcn.maintenance.holdings import Holdings
from bcn.maintenance.losses import PIT, Loss, find_losses
from bcn.maintenance.turn import TurnSettings, open_turn
from bcn.model import Json, PitId, iso
from bcn.repository import layout
from bcn.repository.derived import (
    PitHistory,
    catalog_document,
    entry_finder,
    find_bytes,
    index_bytes,
    load_history,
    stale_keys,
)
from bcn.repository.document import VERSION, parse_document, render_document
from bcn.repository.lease import HeldLease, find_held_lease
from bcn.repository.repository import Repository, open_repository, rebuild_repository
from bcn.repository.resolve import resolve_pit
from bcn.storage.protocol import Storage, StorageSpec
from bcn.telemetry.progress import Progress, Silent


@dataclass(frozen=True, slots=True)
class RepairRequest:
    """What to repair; `quarantine` is a damaged PIT to set aside, as people type it."""

    repository: StorageSpec
    quarantine: str | None = None
    dry_run: bool = False
    turn: TurnSettings = field(default_factory=TurnSettings)


@dataclass(frozen=True, slots=True)
class Change:
    """A key whose bytes are not what they must be; None where there must be none."""

    key: str
    data: bytes | None

    @property
    def action(self) -> str:
        """What is done about it."""
        return "remove" if self.data is None else "write"


@dataclass(frozen=True, slots=True)
class RepairReport:
    """What was changed, or would be, and what nothing can bring back."""

    repository: str
    dry_run: bool
    pits: int
    changes: tuple[Change, ...]
    losses: tuple[Loss, ...]
    quarantined: PitId | None = None
    quarantine_key: str | None = None
    warnings: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing is lost."""
        return not self.losses

    def as_json(self) -> Json:
        """The documented object, docs/json-output.md."""
        return {
            "repository": self.repository,
            "dry_run": self.dry_run,
            "ok": self.ok,
            "pits": self.pits,
            "changes": [{"key": item.key, "action": item.action} for item in self.changes],
            "losses": [loss.as_json() for loss in self.losses],
            "quarantined": str(self.quarantined) if self.quarantined else None,
            "quarantine_key": self.quarantine_key,
            "warnings": list(self.warnings),
        }


def run_repair(
    request: RepairRequest, now: Callable[[], datetime], progress: Progress | None = None
) -> RepairReport:
    """Make derived documents whole. What is lost is told by the report's `losses`.

    Raises NoRepositoryError, RepositoryLockedError, NewerVersionError, DamagedRepositoryError if
    not even the repository's id can be read; for a quarantine UnknownPitError, RefusedError.
    """
    return _Repair(request, now, progress or Silent()).run()


class _Repair:
    def __init__(
        self, request: RepairRequest, now: Callable[[], datetime], progress: Progress
    ) -> None:
        self._request = request
        self._now = now
        self._progress = progress

    def run(self) -> RepairReport:
        repository = open_by_pits(self._request.repository)
        repository.check_writable()
        left_behind = _find_left_behind(repository.storage)
        pit = self._find_damaged(repository)
        if self._request.dry_run:
            plan = self._plan(repository, pit, left_behind)
            key = None if pit is None else _find_free_key(repository, pit)
            return self._report(repository, plan, pit, key)
        with open_turn(repository, self._request.turn, self._now, self._progress.message) as lease:
            repository = open_by_pits(self._request.repository)
            pit = self._find_damaged(repository)
            plan = self._plan(repository, pit, left_behind)
            key = None if pit is None else self._quarantine(repository, pit, lease)
            self._apply(repository, plan, lease)
            return self._report(repository, plan, pit, key)

    # setting aside

    def _find_damaged(self, repository: Repository) -> PitId | None:
        """The PIT that is to be set aside. Raises UnknownPitError; RefusedError if it is whole."""
        text = self._request.quarantine
        if text is None:
            return None
        pit = resolve_pit(repository, text)
        if not (text.startswith("latest") or str(pit).startswith(text)):
            raise UnknownPitError(f"no point in time {text}")  # a time may mean another one
        try:
            manifest = repository.find_pit(pit)
        except NewerVersionError:
            raise
        except DamagedRepositoryError:
            return pit
        if manifest is None:
            raise UnknownPitError(f"no point in time {pit}")
        raise RefusedError(
            f"{pit} is whole: only a damaged point in time is set aside",
            hint="run 'bcn repair' without --quarantine to see what is damaged",
        )

    def _quarantine(self, repository: Repository, pit: PitId, lease: HeldLease) -> str:
        """Keep the bytes in the trash, then put a marker in their place.

        The marker keeps the id from being used again. The index loses the PIT first: a list never
        shows one that is a marker.
        """
        storage, place = repository.storage, repository.pit_key(pit)
        key = _find_free_key(repository, pit)
        if storage.find_stat(key) is None:
            storage.write_once(key, storage.read(place))
        lines = [line for line in repository.summaries(skip=pit) if "damaged" not in line]
        assert repository.scope is not None  # noqa: S101  there is a PIT
        storage.replace(layout.pits_index_key(repository.scope.catalog), index_bytes(lines))
        marker = {
            "version": VERSION,
            "abandoned": True,
            "pit": str(pit),
            "lease": lease.lease.number,
            "by": str(lease.lease.owner),
            "at": iso(self._now()),
            "quarantined": key,
        }
        lease.check()
        storage.flush()
        storage.replace(place, render_document(marker))
        return key

    # deciding

    def _plan(
        self, repository: Repository, pit: PitId | None, left_behind: list[str]
    ) -> _RepairPlan:
        self._progress.phase("reading points in time")
        holdings = Holdings()
        history = load_history(repository, holdings.add)
        history.check_known()
        if pit is not None:
            history.unreadable.pop(pit, None)
        missing = _missing_pits(repository, pit)
        self._progress.phase("reading entries and layers")
        lost = {item: str(error) for item, error in history.unreadable.items()}
        losses = find_losses(repository, holdings, lost | missing)
        is_known = not history.unreadable and all(item.what == PIT for item in losses)
        changes = [*_plan_changes(repository, history, is_known=is_known)]
        changes += [Change(key, None) for key in left_behind]
        return _RepairPlan(tuple(changes), losses, len(history.lines), tuple(_warnings(changes)))

    # doing

    def _apply(self, repository: Repository, plan: _RepairPlan, lease: HeldLease) -> None:
        storage = repository.storage
        for change in plan.changes:
            if change.key == layout.IN_PROGRESS_KEY:
                continue  # it is ours by now, and goes when the lease is released
            lease.check()
            if change.data is None:
                storage.delete(change.key)
            else:
                storage.replace(change.key, change.data)
        if plan.changes:
            storage.flush()

    def _report(
        self, repository: Repository, plan: _RepairPlan, pit: PitId | None, key: str | None
    ) -> RepairReport:
        return RepairReport(
            repository=repository.spec.location,
            dry_run=self._request.dry_run,
            pits=plan.pits,
            changes=plan.changes,
            losses=plan.losses,
            quarantined=pit,
            quarantine_key=key,
            warnings=plan.warnings,
        )


@dataclass(frozen=True, slots=True)
class _RepairPlan:
    changes: tuple[Change, ...]
    losses: tuple[Loss, ...]
    pits: int
    warnings: tuple[str, ...]


def open_by_pits(spec: StorageSpec) -> Repository:
    """The repository with a `manifest.json` as it must be: where PITs say otherwise, they hold.

    Raises NoRepositoryError, NewerVersionError; DamagedRepositoryError without a readable PIT.
    """
    try:
        rebuilt = rebuild_repository(spec)
    except NoRepositoryError:
        return open_repository(spec)
    try:
        stored = open_repository(spec).document
    except NewerVersionError:
        raise
    except DamagedRepositoryError:
        stored = {}
    said = {key: rebuilt.document[key] for key in ("repository_id", "granularity", "scope")}
    document = {**rebuilt.document, **stored, **said, "last_pit": rebuilt.document["last_pit"]}
    return Repository(spec, rebuilt.storage, document)


def _find_left_behind(storage: Storage) -> list[str]:
    """The view of a lease that nobody holds; half-written documents of writers that are gone."""
    if find_held_lease(storage) is not None:
        return []
    shown = [layout.IN_PROGRESS_KEY] if storage.find_stat(layout.IN_PROGRESS_KEY) else []
    halves = storage.iter_leftovers(layout.CATALOGS_PREFIX)
    return shown + [key for key in halves if layout.find_stored_folder(key) is None]


def _find_free_key(repository: Repository, pit: PitId) -> str:
    """Where a PIT manifest is set aside: a new key, or the one that has these bytes already."""
    data, number = repository.storage.read(repository.pit_key(pit)), 1
    while find_bytes(repository.storage, layout.quarantine_key(pit, number)) not in {None, data}:
        number += 1
    return layout.quarantine_key(pit, number)


def _plan_changes(
    repository: Repository, history: PitHistory, *, is_known: bool
) -> Iterator[Change]:
    """Documents that are not what PITs say; `manifest.json` last, as after a backup.

    What no PIT calls for stays while something cannot be read: it may be the only trace of it.
    """
    storage = repository.storage
    if repository.scope is not None and history.newest is not None:
        catalog = repository.scope.catalog
        documents = dict(history.documents(catalog, entry_finder(repository, {})))
        key = layout.catalog_metadata_key(catalog)
        documents[key] = _kept_catalog(storage, key, catalog)
        wanted = {key: render_document(document) for key, document in documents.items()}
        wanted[layout.pits_index_key(catalog)] = index_bytes(history.lines)
        yield from _differences(storage, wanted)
        if is_known:
            yield from (Change(key, None) for key in stale_keys(storage, catalog, wanted))
    yield from _differences(storage, {layout.REPOSITORY_KEY: render_document(repository.document)})


def _differences(storage: Storage, wanted: dict[str, bytes]) -> Iterator[Change]:
    for key, data in wanted.items():
        if find_bytes(storage, key) != data:
            yield Change(key, data)


def _kept_catalog(storage: Storage, key: str, catalog: str) -> Json:
    """What is stored of the catalog, which PITs do not repeat; without it, only its name."""
    try:
        stored = parse_document(storage.read(key), key)
    except (DamagedRepositoryError, MissingKeyError):
        return catalog_document(catalog, {})
    is_sound = stored.get("name") == catalog and isinstance(stored.get("properties"), dict)
    return stored if is_sound else catalog_document(catalog, {})


def _missing_pits(repository: Repository, pit: PitId | None) -> dict[PitId, str]:
    """PITs that the index lists and that are not there."""
    there = {str(item) for item in repository.pit_ids()}
    found = [PitId.find(name) for name in repository.indexed_pits() if name not in there]
    text = "listed in pits.jsonl, but not there: removed by hand, or lost"
    return {item: f"{item} is {text}" for item in found if item is not None and item != pit}


def _warnings(changes: list[Change]) -> Iterator[str]:
    for change in changes:
        if change.key.endswith("/catalog_metadata.json"):
            yield f"the properties in {change.key} come back with the next backup"
