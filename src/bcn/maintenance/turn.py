"""A turn at writing for maintenance, by the lease that backups take: only one works at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime

from bcn.repository import layout
from bcn.repository.lease import Claim, HeldLease, LeaseSettings, Lessor, leased_pits
from bcn.repository.repository import Repository, next_pit_id


@dataclass(frozen=True, slots=True)
class TurnSettings:
    """How long to wait for another writer, and how long to believe in a silent one."""

    lock_wait_seconds: float = 0.0
    lease: LeaseSettings = field(default_factory=LeaseSettings)


@contextmanager
def open_turn(
    repository: Repository,
    settings: TurnSettings,
    now: Callable[[], datetime],
    say: Callable[[str], None],
) -> Iterator[HeldLease]:
    """Hold the lease. What is read inside is as the last writer left it.

    The run gets an id of its own, as a PIT does, and may publish one document in the trash.
    Raises RepositoryLockedError.
    """
    lessor = Lessor(repository.storage, settings.lease, now)

    def prepare() -> tuple[Claim, None]:
        run = next_pit_id(now(), [*repository.pit_ids(), *leased_pits(repository.storage)])
        return Claim(run, layout.trash_key(run)), None

    with lessor.hold_when_free(settings.lock_wait_seconds, say, prepare) as (lease, _):
        yield lease
