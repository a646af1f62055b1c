"""Ending a lease that its process left behind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime

from bcn.errors import RepositoryLockedError
from bcn.model import Json
from bcn.repository.lease import LeaseSettings, Lessor, find_held_lease
from bcn.repository.repository import Repository


@dataclass(frozen=True, slots=True)
class UnlockReport:
    """Whose lease was ended; `owner` is None where nobody held one."""

    repository: str
    unlocked: bool
    owner: str | None = None
    taken_at: str | None = None

    def as_json(self) -> Json:
        """The documented object, docs/json-output.md."""
        return asdict(self)


def run_unlock(
    repository: Repository,
    settings: LeaseSettings,
    now: Callable[[], datetime],
    *,
    force: bool,
) -> UnlockReport:
    """End the current lease. Raises RepositoryLockedError if its owner is alive, unless forced.

    The key that the owner would publish at is marked first: it cannot publish any more.
    """
    location = repository.spec.location
    held = find_held_lease(repository.storage)
    if held is None:
        return UnlockReport(location, unlocked=False)
    lessor = Lessor(repository.storage, settings, now)
    if not force and lessor.is_alive(held):
        raise RepositoryLockedError(
            f"locked by {held.owner} since {held.taken_at}, and it is alive",
            hint="wait for it, or add --force: what it has copied stays, but it cannot publish",
        )
    lessor.abandon(held)
    lessor.release(held.number, "unlocked")
    return UnlockReport(location, unlocked=True, owner=str(held.owner), taken_at=held.taken_at)
