"""bcn from Python: one typed function for each command; the command line calls these and no others.

Names, locations and PITs are given as people type them; `settings` are those of the current folder
unless given. Every failure is a BcnError. What a function needs is imported when it is called, so
that commands which only read start at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from bcn.errors import (
    Interrupted,
    NoSuchTableError,
    OverlapError,
    UsageError,
)
from bcn.model import Json, TableId, check_name, join_names, split_names
from bcn.repository.repository import Repository, Scope, create_repository, open_repository
from bcn.storage.protocol import StorageSpec

if TYPE_CHECKING:  # types of what is imported when it is used
    from bcn.backup.report import BackupReport
    from bcn.catalog.protocol import Catalog
    from bcn.config.settings import RepositorySettings, Settings
    from bcn.engine.spark import Engine
    from bcn.maintenance.report import VerifyReport
    from bcn.repository.listing import DescribeReport, ListReport, ObjectsReport
    from bcn.repository.unlock import UnlockReport
    from bcn.restore.report import RestoreReport
    from bcn.telemetry.progress import Progress

# ruff: noqa: PLC0415  imports inside functions: see above


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


# writing


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
    settings = settings or _settings()
    spec = _spec(find_repository(settings, repo))
    scope = parse_scope(catalog, database, table)
    if scope is not None:
        _check_scope(_catalogs(settings)(scope.catalog), scope, spec.location)
    repository = create_repository(spec, scope, _now())
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
    """
    from bcn.backup.run import BackupRequest, run_backup
    from bcn.repository.lease import LeaseSettings

    settings = settings or _settings()
    request = BackupRequest(
        repository=_spec(find_repository(settings, repo)),
        scope=parse_scope(catalog, database, table),
        labels=labels or {},
        bytes_per_second=bytes_per_second,
        skip_damaged=skip_damaged,
        accept_deletions=accept_deletions,
        dry_run=dry_run,
        lock_wait_seconds=lock_wait_seconds,
        lease=LeaseSettings(float(settings.lease.ttl_seconds)),
    )
    with _engine(settings, jobs, verbose=verbose) as engine:
        return run_backup(request, _catalogs(settings), engine, _now, progress)


def restore(  # noqa: PLR0913  what the command line offers
    repo: str | None = None,
    *,
    pit: str = "latest",
    databases: Sequence[str] = (),
    tables: Sequence[str] = (),
    target_catalog: str | None = None,
    target_database: str | None = None,
    target_table: str | None = None,
    target_location: str | None = None,
    map_roots: Mapping[str, str] | None = None,
    uuid: str = "auto",
    bytes_per_second: float | None = None,
    jobs: int | None = None,
    dry_run: bool = False,
    verbose: bool = False,
    settings: Settings | None = None,
    progress: Progress | None = None,
) -> RestoreReport:
    """Bring tables of a PIT back: all, or those whose database and name match one of the globs."""
    from bcn.config.settings import resolve_path
    from bcn.iceberg.relocate import Move
    from bcn.repository.resolve import resolve_pit
    from bcn.restore.plan import RestoreRequest, UuidPolicy
    from bcn.restore.run import run_restore

    settings = settings or _settings()
    folder, home = settings.folder, settings.home
    names = _restored_names(databases, tables, target_database, target_table)
    spec = _spec(find_repository(settings, repo))
    request = RestoreRequest(
        repository=spec,
        pit=resolve_pit(open_repository(spec), pit),
        databases=names.databases,
        tables=names.tables,
        target_catalog=target_catalog,
        target_database=names.target_database,
        target_table=target_table,
        target_location=resolve_path(target_location, folder, home) if target_location else None,
        map_roots=tuple(
            Move(old, resolve_path(new, folder, home)) for old, new in (map_roots or {}).items()
        ),
        uuid=UuidPolicy(uuid),
        bytes_per_second=bytes_per_second,
        dry_run=dry_run,
    )
    with _engine(settings, jobs, verbose=verbose) as engine:
        return run_restore(request, _catalogs(settings), engine, progress)


def unlock(
    repo: str | None = None, *, force: bool = False, settings: Settings | None = None
) -> UnlockReport:
    """End a lease that was left behind. Raises RepositoryLockedError if its owner is alive.

    With `force` a living owner loses it, too: it cannot publish any more.
    """
    from bcn.repository.lease import LeaseSettings
    from bcn.repository.unlock import run_unlock

    settings = settings or _settings()
    lease = LeaseSettings(float(settings.lease.ttl_seconds))
    return run_unlock(_open(settings, repo), lease, _now, force=force)


# reading


def verify(  # noqa: PLR0913  what the command line offers
    repo: str | None = None,
    *,
    pit: str | None = None,
    level: int = 3,
    databases: Sequence[str] = (),
    tables: Sequence[str] = (),
    bytes_per_second: float | None = None,
    jobs: int | None = None,
    verbose: bool = False,
    settings: Settings | None = None,
    progress: Progress | None = None,
) -> VerifyReport:
    """Check a PIT, or all, up to a level from 1 to 5. Damage is told by the report's findings."""
    from bcn.maintenance.verify import VerifyRequest, run_verify
    from bcn.repository.resolve import resolve_pit

    settings = settings or _settings()
    names = _restored_names(databases, tables, None, None)
    repository = _open(settings, repo)
    request = VerifyRequest(
        repository=repository.spec,
        pit=None if pit is None else resolve_pit(repository, pit),
        tables=names.tables,
        databases=names.databases,
        level=level,
        bytes_per_second=bytes_per_second,
    )
    with _engine(settings, jobs, verbose=verbose, iceberg=level >= 5) as engine:
        return run_verify(request, engine, _now, progress)


def list_pits(repo: str | None = None, *, settings: Settings | None = None) -> ListReport:
    """The PITs of a repository, oldest first."""
    from bcn.repository.listing import list_pits as load_report

    return load_report(_open(settings or _settings(), repo))


def list_objects(
    repo: str | None = None,
    *,
    pit: str = "latest",
    database: str | None = None,
    settings: Settings | None = None,
) -> ObjectsReport:
    """The tables and views of a PIT, those that are gone by then too."""
    from bcn.repository.listing import list_objects as load_report
    from bcn.repository.resolve import resolve_pit

    if database is not None:
        split_names(database)
    repository = _open(settings or _settings(), repo)
    return load_report(repository, resolve_pit(repository, pit), database)


def describe(repo: str | None = None, *, settings: Settings | None = None) -> DescribeReport:
    """A repository as a whole: what it is locked to, its PITs, what is gone, who writes."""
    from bcn.repository.listing import describe as load_report

    return load_report(_open(settings or _settings(), repo))


# names and places


def find_catalog(repo: str | None = None, *, settings: Settings | None = None) -> str | None:
    """The name of the catalog that a repository is locked to, None before its first backup."""
    scope = _open(settings or _settings(), repo).scope
    return scope.catalog if scope else None


def find_repository(settings: Settings, repo: str | None) -> RepositorySettings:
    """The repository of that name or place; the only configured one if none is given."""
    if repo is not None:
        if not repo or "\0" in repo:
            raise UsageError(f"{repo!r} is no place of a repository", hint="check --repo")
        return settings.repository(repo)
    if len(settings.repositories) == 1:
        return next(iter(settings.repositories.values()))
    known = ", ".join(sorted(settings.repositories)) or "none is configured"
    raise UsageError(
        f"which repository? known: {known}",
        hint="add --repo NAME or --repo LOCATION, or set BCN_REPO",
    )


def parse_scope(catalog: str | None, database: str | None, table: str | None) -> Scope | None:
    """What to back up, by the names given; None if none is. Raises UsageError, BadNameError."""
    if catalog is None and database is None and table is None:
        return None
    if catalog is None:
        raise UsageError("--database and --table need --catalog", hint="add --catalog NAME")
    if table is not None and database is None:
        raise UsageError("--table needs --database", hint="add --database NAME")
    return Scope(
        check_name(catalog),
        None if database is None else split_names(database),
        None if table is None else check_name(table),
    )


@dataclass(frozen=True, slots=True)
class _Names:
    databases: tuple[str, ...]
    tables: tuple[str, ...]
    target_database: tuple[str, ...] | None


def _restored_names(
    databases: Sequence[str],
    tables: Sequence[str],
    target_database: str | None,
    target_table: str | None,
) -> _Names:
    if target_table is not None:
        check_name(target_table)
    return _Names(
        tuple(_pattern(text) for text in databases),
        tuple(check_name(text) for text in tables),
        None if target_database is None else split_names(target_database),
    )


def _pattern(text: str) -> str:
    """A database as PITs spell it; a glob as it is."""
    levels = split_names(text)
    return text if any(sign in text for sign in "*?[") else join_names(levels)


# parts


def _settings() -> Settings:
    from bcn.config.load import load_settings

    return load_settings(None, os.environ, Path.cwd())


def _spec(repository: RepositorySettings) -> StorageSpec:
    return StorageSpec(repository.location, repository.properties)


def _open(settings: Settings, repo: str | None) -> Repository:
    return open_repository(_spec(find_repository(settings, repo)))


def _catalogs(settings: Settings) -> Callable[[str], Catalog]:
    from bcn.catalog.open import open_catalog

    return lambda name: open_catalog(settings.catalog(name))


def _now() -> datetime:
    return datetime.now(UTC)


@contextmanager
def _engine(
    settings: Settings, jobs: int | None, *, verbose: bool, iceberg: bool = False
) -> Iterator[Engine]:
    """Spark as configured; it starts when there is work for it, and ends with the block."""
    from bcn.engine.spark import Engine, SparkSettings

    if jobs is not None and jobs < 1:
        raise UsageError(f"--jobs must be 1 or more, not {jobs}")
    conf = {key: value for key, value in settings.spark.items() if key != "master"}
    engine = Engine(
        SparkSettings(settings.spark.get("master", "local[*]"), conf, jobs, iceberg, verbose)
    )
    wait_seconds = 60.0
    try:
        yield engine
    except Interrupted:
        wait_seconds = 0.0  # the process ends now, and with it a JVM that is still starting
        raise
    finally:
        engine.stop(wait_seconds)
