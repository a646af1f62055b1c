"""Making repositories and PITs, and ending what was left behind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bcn.api.parts import (
    catalogs_of,
    find_repository,
    now,
    open_configured,
    open_engine,
    own_settings,
    parse_scope,
    repository_spec,
)
from bcn.errors import NoSuchTableError, OverlapError
from bcn.model import Json, TableId, join_names
from bcn.repository.repository import Scope, create_repository

if TYPE_CHECKING:
    from bcn.backup.report import BackupReport
    from bcn.catalog.protocol import Catalog
    from bcn.config.settings import Settings
    from bcn.repository.unlock import UnlockReport
    from bcn.telemetry.progress import Progress

# ruff: noqa: PLC0415  what a function needs is imported when it is called, see the package


@dataclass(frozen=True, slots=True)
class InitReport:
    """A repository that was made."""

    repository: str
    repository_id: str
    granularity: str | None
    catalog: str | None = None
    database: str | None = None
    table: str | None = None

    def as_json(self) -> Json:
        """The documented object, docs/json-output.md."""
        return {
            "repository": self.repository,
            "repository_id": self.repository_id,
            "granularity": self.granularity,
            "scope": {"catalog": self.catalog, "database": self.database, "table": self.table},
        }


def init(
    repo: str | None = None,
    *,
    catalog: str | None = None,
    database: str | None = None,
    table: str | None = None,
    settings: Settings | None = None,
) -> InitReport:
    """Make an empty repository; with names, lock it to them. Raises RefusedError if it is taken.

    Names that are locked must exist: they cannot be corrected later.
    """
    settings = settings or own_settings()
    spec = repository_spec(find_repository(settings, repo))
    scope = parse_scope(catalog, database, table)
    if scope is not None:
        _check_scope(catalogs_of(settings)(scope.catalog), scope, spec.location)
    repository = create_repository(spec, scope, now())
    return InitReport(
        spec.location,
        repository.id,
        scope.granularity if scope else None,
        scope.catalog if scope else None,
        join_names(scope.database) if scope and scope.database else None,
        scope.table if scope else None,
    )


def _check_scope(catalog: Catalog, scope: Scope, location: str) -> None:
    """Names are locked for ever, so they must be right; and the repository must lie apart."""
    from bcn.storage.open import overlaps

    for root in catalog.warehouse_roots():
        if overlaps(location, root):
            raise OverlapError(f"the repository {location} and the warehouse {root} overlap")
    if scope.database is not None:
        catalog.load_namespace(scope.database)
    if scope.database is not None and scope.table is not None:
        wanted = TableId(scope.database, scope.table)
        if catalog.find_pointer(wanted) is None:
            raise NoSuchTableError(f"no table {wanted} in catalog {scope.catalog}")


def backup(  # noqa: PLR0913  what the command line offers
    repo: str | None = None,
    *,
    catalog: str | None = None,
    database: str | None = None,
    table: str | None = None,
    labels: Mapping[str, str] | None = None,
    history: str | None = None,
    bytes_per_second: float | None = None,
    jobs: int | None = None,
    lock_wait_seconds: float = 0.0,
    skip_damaged: bool = False,
    accept_deletions: bool = False,
    dry_run: bool = False,
    verbose: bool = False,
    settings: Settings | None = None,
    progress: Progress | None = None,
) -> BackupReport:
    """Make a PIT. Tables that could not be backed up are in the report's `failed`, and only there.

    Names are needed by a repository's first backup only: what it holds is fixed from then on.
    `history` says how much of each table's is kept (`all`, `current`, `last:N`, `since:TIME`); left
    out, as much as by the backup before.
    """
    from bcn.backup.run import BackupRequest, run_backup
    from bcn.iceberg.history import History
    from bcn.repository.lease import LeaseSettings

    settings = settings or own_settings()
    request = BackupRequest(
        repository=repository_spec(find_repository(settings, repo)),
        scope=parse_scope(catalog, database, table),
        labels=labels or {},
        history=None if history is None else History.parse(history),
        bytes_per_second=bytes_per_second,
        skip_damaged=skip_damaged,
        accept_deletions=accept_deletions,
        dry_run=dry_run,
        lock_wait_seconds=lock_wait_seconds,
        lease=LeaseSettings(float(settings.lease.ttl_seconds)),
    )
    with open_engine(settings, jobs, verbose=verbose) as engine:
        return run_backup(request, catalogs_of(settings), engine, now, progress)


def unlock(
    repo: str | None = None, *, force: bool = False, settings: Settings | None = None
) -> UnlockReport:
    """End a lease that was left behind. Raises RepositoryLockedError if its owner is alive.

    With `force` a living owner loses it, too: it cannot publish any more.
    """
    from bcn.repository.lease import LeaseSettings
    from bcn.repository.unlock import run_unlock

    settings = settings or own_settings()
    lease = LeaseSettings(float(settings.lease.ttl_seconds))
    return run_unlock(open_configured(settings, repo), lease, now, force=force)
