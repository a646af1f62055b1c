"""Bringing tables back, and proving that they can be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from bcn.api.parts import (
    catalogs_of,
    find_repository,
    now,
    open_configured,
    open_engine,
    own_settings,
    parse_names,
    repository_spec,
)
from bcn.model import check_name
from bcn.repository.repository import open_repository

if TYPE_CHECKING:
    from bcn.config.settings import Settings
    from bcn.maintenance.report import VerifyReport
    from bcn.restore.report import RestoreReport
    from bcn.telemetry.progress import Progress

# ruff: noqa: PLC0415  what a function needs is imported when it is called, see the package


def restore(  # noqa: PLR0913  what the command line offers
    repo: str | None = None,
    *,
    pit: str = "latest",
    databases: Sequence[str] = (),
    tables: Sequence[str] = (),
    exclude: Sequence[str] = (),
    include_deleted: bool = False,
    target_catalog: str | None = None,
    target_database: str | None = None,
    target_table: str | None = None,
    target_location: str | None = None,
    map_roots: Mapping[str, str] | None = None,
    uuid: str = "auto",
    overwrite: bool = False,
    bytes_per_second: float | None = None,
    jobs: int | None = None,
    dry_run: bool = False,
    verbose: bool = False,
    settings: Settings | None = None,
    progress: Progress | None = None,
) -> RestoreReport:
    """Bring tables of a PIT back: all, or those whose database and name match one of the globs.

    `exclude` leaves out what it matches; `include_deleted` adds what was gone by then; with
    `overwrite` tables take the place of those that are there, of which no file is removed.
    """
    from bcn.config.settings import resolve_path
    from bcn.iceberg.relocate import Move
    from bcn.repository.resolve import resolve_pit
    from bcn.restore.plan import RestoreRequest, UuidPolicy
    from bcn.restore.run import run_restore

    settings = settings or own_settings()
    folder, home = settings.folder, settings.home
    names = parse_names(databases, tables, target_database, target_table)
    spec = repository_spec(find_repository(settings, repo))
    request = RestoreRequest(
        repository=spec,
        pit=resolve_pit(open_repository(spec), pit),
        databases=names.databases,
        tables=names.tables,
        exclude=tuple(check_name(text) for text in exclude),
        include_deleted=include_deleted,
        target_catalog=target_catalog,
        target_database=names.target_database,
        target_table=target_table,
        target_location=resolve_path(target_location, folder, home) if target_location else None,
        map_roots=tuple(
            Move(old, resolve_path(new, folder, home)) for old, new in (map_roots or {}).items()
        ),
        uuid=UuidPolicy(uuid),
        overwrite=overwrite,
        bytes_per_second=bytes_per_second,
        dry_run=dry_run,
    )
    with open_engine(settings, jobs, verbose=verbose) as engine:
        return run_restore(request, catalogs_of(settings), engine, progress)


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
    """Check a PIT, or all, up to a level from 1 to 5. Damage is told by the report's findings.

    What was checked whole is noted in the repository, where that can be written to.
    """
    from bcn.maintenance.record import record_verification
    from bcn.maintenance.verify import VerifyRequest, run_verify
    from bcn.repository.resolve import resolve_pit

    settings = settings or own_settings()
    names = parse_names(databases, tables, None, None)
    repository = open_configured(settings, repo)
    request = VerifyRequest(
        repository=repository.spec,
        pit=None if pit is None else resolve_pit(repository, pit),
        tables=names.tables,
        databases=names.databases,
        level=level,
        bytes_per_second=bytes_per_second,
    )
    with open_engine(settings, jobs, verbose=verbose, iceberg=level >= 5) as engine:
        report = run_verify(request, engine, now, progress)
    is_part = bool(names.tables or names.databases)
    return report if is_part else record_verification(repository, report, now())
