"""Pruning: what no point in time needs is listed first, and deleted when it was listed long enough.

Both steps hold the lease that backups hold, and both work out anew what is needed. So nothing that
a backup adopts is deleted under it, and a list that is old by then does no harm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from bcn.errors import DamagedRepositoryError, RefusedError
from bcn.maintenance.holdings import Holdings
from bcn.maintenance.live import load_live
from bcn.maintenance.orphans import Orphan, iter_orphans
from bcn.maintenance.prune_list import PruneList, load_lists, render_list
from bcn.maintenance.prune_report import PruneItem, PruneReport, State
from bcn.maintenance.turn import TurnSettings, open_turn
from bcn.model import PitId
from bcn.repository import layout
from bcn.repository.derived import PitHistory, load_history
from bcn.repository.lease import HeldLease, find_held_lease
from bcn.repository.repository import Repository, open_repository
from bcn.storage.protocol import Storage, StorageSpec
from bcn.telemetry.progress import Progress, Silent

GRACE = timedelta(hours=24)
_TRIES = 3


@dataclass(frozen=True, slots=True)
class PruneRequest:
    """What to prune; `grace` is how long a file must have been listed."""

    repository: StorageSpec
    grace: timedelta = GRACE
    dry_run: bool = False
    turn: TurnSettings = field(default_factory=TurnSettings)


@dataclass(frozen=True, slots=True)
class Candidate:
    """An orphan, and since when it is listed; None for one that no list has."""

    orphan: Orphan
    listed_at: datetime | None


@dataclass(frozen=True)
class PrunePlan:
    """What is to be listed, what to be deleted, and the lists that are done with then."""

    unlisted: tuple[Orphan, ...]
    due: tuple[Candidate, ...]
    waiting: tuple[Candidate, ...]
    finished: tuple[PruneList, ...]


def plan_prune(
    orphans: Iterable[Orphan], lists: Sequence[PruneList], grace: timedelta, now: datetime
) -> PrunePlan:
    """Decide what becomes of each orphan. One whose bytes changed since it was listed starts anew.

    Without a grace period everything is due, also what is listed only now.
    """

    def is_due(listed_at: datetime) -> bool:
        return not grace or listed_at + grace <= now

    candidates = [Candidate(item, _find_listed(item, lists)) for item in orphans]
    return PrunePlan(
        unlisted=tuple(item.orphan for item in candidates if item.listed_at is None),
        due=tuple(item for item in candidates if is_due(item.listed_at or now)),
        waiting=tuple(item for item in candidates if not is_due(item.listed_at or now)),
        finished=tuple(item for item in lists if is_due(item.listed_at)),
    )


def _find_listed(orphan: Orphan, lists: Sequence[PruneList]) -> datetime | None:
    found = (item.listed_at for item in lists if item.versions.get(orphan.key) == orphan.version)
    return min(found, default=None)


def run_prune(
    request: PruneRequest, now: Callable[[], datetime], progress: Progress | None = None
) -> PruneReport:
    """List what no PIT needs, and delete what was listed for the grace period.

    Raises DamagedRepositoryError if anything that a PIT needs cannot be read: then nothing is
    listed or deleted. Raises NoRepositoryError, RepositoryLockedError, RefusedError.
    """
    return _Prune(request, now, progress or Silent()).run()


@dataclass(frozen=True)
class _Found:
    """What is known before anything is done."""

    plan: PrunePlan
    pits: tuple[PitId, ...]
    notes: tuple[str, ...]
    moment: datetime


class _Prune:
    def __init__(
        self, request: PruneRequest, now: Callable[[], datetime], progress: Progress
    ) -> None:
        self._request = request
        self._now = now
        self._progress = progress

    def run(self) -> PruneReport:
        repository = open_repository(self._request.repository)
        repository.check_writable()
        if self._request.dry_run:
            notes = _writer_notes(repository.storage)
            return self._report(self._find_meanwhile(repository), notes, frozenset())
        with open_turn(repository, self._request.turn, self._now, self._progress.message) as lease:
            repository = open_repository(self._request.repository)
            found = self._find(repository)
            deleted = self._carry_out(repository, found, lease)
            return self._report(found, (), deleted)

    # deciding

    def _find_meanwhile(self, repository: Repository) -> _Found:
        """Without the lease: what a backup publishes while we look is not mistaken for unneeded."""
        for _ in range(_TRIES - 1):
            before = repository.pit_ids()
            found = self._find(repository)
            if repository.pit_ids() == before:
                return found
        return self._find(repository)

    def _find(self, repository: Repository) -> _Found:
        self._progress.phase("reading points in time")
        holdings = Holdings()
        history = load_history(repository, holdings.add)
        _check_readable(repository, history)
        self._progress.phase("reading entries and layers")
        live = load_live(repository, holdings)
        self._progress.phase("looking for files that nobody needs")
        lists = load_lists(repository.storage)
        kept = frozenset(item.key for item in lists)
        orphans = iter_orphans(repository.storage, live, kept)
        moment = self._now()
        plan = plan_prune(orphans, lists, self._request.grace, moment)
        pits = tuple(PitId(line["pit"]) for line in history.lines)
        return _Found(plan, pits, tuple(_notes(repository)), moment)

    # doing

    def _carry_out(self, repository: Repository, found: _Found, lease: HeldLease) -> frozenset[str]:
        """List, then delete; the keys that were deleted. A list goes last: what it has is done."""
        storage, plan = repository.storage, found.plan
        if plan.unlisted:
            lease.publish(render_list(lease.lease.pit, found.moment, found.pits, plan.unlisted))
        deleted = _Deleting(storage, lease, self._progress).delete(plan.due)
        finished = [item.key for item in plan.finished]
        if not self._request.grace and plan.unlisted:
            finished.append(layout.trash_key(lease.lease.pit))
        for key in finished:
            storage.delete(key)
        return deleted

    def _report(self, found: _Found, notes: Sequence[str], deleted: frozenset[str]) -> PruneReport:
        grace, plan = self._request.grace, found.plan
        items = [
            PruneItem(item.orphan, _state(item, deleted), (item.listed_at or found.moment) + grace)
            for item in (*plan.due, *plan.waiting)
        ]
        return PruneReport(
            repository=self._request.repository.location,
            dry_run=self._request.dry_run,
            grace=grace,
            pits=len(found.pits),
            items=tuple(sorted(items, key=lambda item: (-item.orphan.size_bytes, item.orphan.key))),
            due=frozenset(item.orphan.key for item in plan.due),
            notes=(*found.notes, *notes),
        )


def _state(item: Candidate, deleted: frozenset[str]) -> State:
    return State.DELETED if item.orphan.key in deleted else State.WAITING


class _Deleting:
    def __init__(self, storage: Storage, lease: HeldLease, progress: Progress) -> None:
        self._storage = storage
        self._lease = lease
        self._progress = progress

    def delete(self, candidates: Sequence[Candidate]) -> frozenset[str]:
        """Remove what is still as it was listed. Raises LeaseLostError."""
        size_bytes = sum(item.orphan.size_bytes for item in candidates)
        self._progress.phase("deleting", len(candidates), size_bytes)
        done: set[str] = set()
        done_bytes = 0
        for item in candidates:
            if self._delete(item.orphan):
                done.add(item.orphan.key)
                done_bytes += item.orphan.size_bytes
                self._progress.update(len(done), done_bytes)
        for prefix in {_folder(key) for key in done}:
            self._storage.delete_empty(prefix)
        return frozenset(done)

    def _delete(self, orphan: Orphan) -> bool:
        stat = self._storage.find_stat(orphan.key)
        if stat is None or stat.version != orphan.version:
            return False
        self._check_lease()
        self._storage.delete(orphan.key)
        return True

    def _check_lease(self) -> None:
        """Before every deletion: a process that stood still for long may have lost its turn.

        Two looks are enough, where listing all leases would take longer than to delete a file.
        """
        number = self._lease.lease.number
        for key in (layout.lease_key(number + 1), layout.released_key(number)):
            if self._storage.find_stat(key) is not None:
                self._lease.check()


def _folder(key: str) -> str:
    """The folder that may be empty now: of an object, of a job, of some documents of a table."""
    if key.startswith((layout.DATA_PREFIX, layout.JOBS_PREFIX)):
        return "".join(f"{name}/" for name in key.split("/")[:-1][:2])
    return key.rpartition("/")[0] + "/"


# what must hold before anything is decided


def _check_readable(repository: Repository, history: PitHistory) -> None:
    """Raises DamagedRepositoryError, RefusedError where not all PITs are known."""
    history.check_known()
    if history.unreadable:
        reasons = "; ".join(str(error) for error in history.unreadable.values())
        raise DamagedRepositoryError(
            f"nothing can be deleted while it is not known what is needed: {reasons}",
            hint="run 'bcn repair'; what only a damaged point in time needs may be deleted after "
            f"'bcn repair --quarantine {max(history.unreadable)}'",
        )
    own = layout.pits_prefix(repository.scope.catalog) if repository.scope else None
    for key in repository.storage.iter_keys(layout.CATALOGS_PREFIX):
        if layout.parse_pit_key(key) and (own is None or not key.startswith(own)):
            raise DamagedRepositoryError(
                f"{layout.REPOSITORY_KEY} does not know the catalog of {key}",
                hint="run 'bcn repair': manifest.json follows the points in time again",
            )
    if history.newest is None and repository.document.get("last_pit") is not None:
        raise RefusedError(
            f"every point in time is gone: the last one was {repository.document['last_pit']}",
            hint="check the mount; without any point in time everything would be deleted",
        )


def _notes(repository: Repository) -> Iterable[str]:
    there = {str(pit) for pit in repository.pit_ids()}
    for pit in repository.indexed_pits():
        if pit not in there:
            yield f"{pit} is in pits.jsonl and not there: what only it needed counts as not needed"
    for key in repository.storage.iter_keys(layout.TRASH_PREFIX):
        if layout.parse_quarantine_key(key):
            yield f"{key} was set aside: what only this point in time needed counts as not needed"


def _writer_notes(storage: Storage) -> tuple[str, ...]:
    held = find_held_lease(storage)
    if held is None:
        return ()
    return (f"{held.owner} is writing: what it has stored so far is counted here too",)
