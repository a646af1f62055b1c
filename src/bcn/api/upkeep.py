"""Keeping repositories sound and small."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from bcn.api.parts import find_repository, now, own_settings, repository_spec
from bcn.errors import UsageError

if TYPE_CHECKING:
    from bcn.config.settings import Settings
    from bcn.maintenance.prune_report import PruneReport
    from bcn.maintenance.repair import RepairReport
    from bcn.maintenance.turn import TurnSettings
    from bcn.telemetry.progress import Progress

# ruff: noqa: PLC0415  what a function needs is imported when it is called, see the package

MAX_GRACE_HOURS = 1_000_000


def repair(
    repo: str | None = None,
    *,
    quarantine: str | None = None,
    dry_run: bool = False,
    lock_wait_seconds: float = 0.0,
    settings: Settings | None = None,
    progress: Progress | None = None,
) -> RepairReport:
    """Make everything anew that only repeats PITs. What is lost is told by the report's `losses`.

    `quarantine` sets a damaged PIT aside, so that backups go on from the newest whole one.
    """
    from bcn.maintenance.repair import RepairRequest, run_repair

    settings = settings or own_settings()
    request = RepairRequest(
        repository=repository_spec(find_repository(settings, repo)),
        quarantine=quarantine,
        dry_run=dry_run,
        turn=_turn(settings, lock_wait_seconds),
    )
    return run_repair(request, now, progress)


def prune(
    repo: str | None = None,
    *,
    grace_hours: float = 24.0,
    dry_run: bool = False,
    lock_wait_seconds: float = 0.0,
    settings: Settings | None = None,
    progress: Progress | None = None,
) -> PruneReport:
    """List what no PIT needs; delete what was listed so many hours ago and is still unneeded."""
    from bcn.maintenance.prune import PruneRequest, run_prune

    if not 0 <= grace_hours <= MAX_GRACE_HOURS:
        raise UsageError(f"--grace must be from 0 to {MAX_GRACE_HOURS} hours, not {grace_hours}")
    settings = settings or own_settings()
    request = PruneRequest(
        repository=repository_spec(find_repository(settings, repo)),
        grace=timedelta(hours=grace_hours),
        dry_run=dry_run,
        turn=_turn(settings, lock_wait_seconds),
    )
    return run_prune(request, now, progress)


def _turn(settings: Settings, lock_wait_seconds: float) -> TurnSettings:
    from bcn.maintenance.turn import TurnSettings
    from bcn.repository.lease import LeaseSettings

    return TurnSettings(lock_wait_seconds, LeaseSettings(float(settings.lease.ttl_seconds)))
