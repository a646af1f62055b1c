"""`bcn restore`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from bcn import api
from bcn.cli.app import App, pass_app
from bcn.cli.options import (
    common_options,
    dry_run_option,
    filter_options,
    jobs_option,
    parse_mappings,
    pit_option,
    rate_option,
)
from bcn.cli.output import (
    clean,
    format_bytes,
    format_count,
    format_requests,
    format_seconds,
    format_table,
)

if TYPE_CHECKING:
    from bcn.restore.report import RestoredTable, RestoredView, RestoreReport


@click.command(short_help="Bring tables and views of a point in time back.")
@pit_option("latest")
@filter_options
@click.option(
    "--exclude",
    metavar="GLOB",
    multiple=True,
    help="All but databases, tables and database.table that match; may be given several times.",
)
@click.option(
    "--include-deleted",
    is_flag=True,
    help="Also what was deleted before this point in time, each as the last one has it.",
)
@click.option("--target-catalog", metavar="NAME", help="Where tables go. Default: their catalog.")
@click.option("--target-database", metavar="NAME", help="Default: their own.")
@click.option(
    "--target-table",
    metavar="NAME",
    help="Another name. For several tables with {table} or {database}, such as '{table}_back'.",
)
@click.option(
    "--target-location",
    metavar="LOCATION",
    help="A place for files. For several tables with {catalog}, {database}, {table}, such as "
    "'/dr/{database}/{table}'.",
)
@click.option(
    "--map-root",
    "map_roots",
    metavar="OLD=NEW",
    multiple=True,
    help="Where files outside of a table's location go; may be given several times.",
)
@click.option(
    "--uuid",
    type=click.Choice(["keep", "new"]),
    help="Default: a table that comes back in its old place keeps its uuid, a copy gets a new one.",
)
@click.option(
    "--overwrite",
    is_flag=True,
    help="Let tables take the place of those that have their names. They are built beside them, and"
    " the catalog is told at the end; of the old tables no file is removed.",
)
@dry_run_option
@rate_option
@jobs_option
@common_options()
@pass_app
def restore(
    app: App,
    pit: str | None,
    databases: tuple[str, ...],
    tables: tuple[str, ...],
    exclude: tuple[str, ...],
    include_deleted: bool,
    target_catalog: str | None,
    target_database: str | None,
    target_table: str | None,
    target_location: str | None,
    map_roots: tuple[str, ...],
    uuid: str | None,
    overwrite: bool,
    dry_run: bool,
    bytes_per_second: float | None,
    jobs: int | None,
) -> None:
    """Bring tables and views of a point in time back, under their own names or others.

    A name that is taken is refused, unless --overwrite says otherwise. Tables appear when all of
    their files were checked.
    """
    with app.progress() as progress:
        report = api.restore(
            app.repo,
            pit=pit or "latest",
            databases=databases,
            tables=tables,
            exclude=exclude,
            include_deleted=include_deleted,
            target_catalog=target_catalog,
            target_database=target_database,
            target_table=target_table,
            target_location=target_location,
            map_roots=parse_mappings(map_roots),
            uuid=uuid or "auto",
            overwrite=overwrite,
            bytes_per_second=bytes_per_second,
            jobs=jobs,
            dry_run=dry_run,
            verbose=app.is_verbose,
            settings=app.settings,
            progress=progress,
        )
    app.show(report, _lines(report))


def _lines(report: RestoreReport) -> list[str]:
    rows: list[tuple[object, ...]] = [
        (
            table.table,
            table.snapshots,
            table.files,
            format_bytes(table.size_bytes),
            table.metadata_location,
        )
        for table in report.tables
    ]
    rows += [(view.view, "", "", "view", view.metadata_location) for view in report.views]
    header = ("TABLE", "SNAPSHOTS", "FILES", "SIZE", "METADATA")
    verb = "would restore" if report.dry_run else "restored"
    phases = ", ".join(f"{name} {format_seconds(spent)}" for name, spent in report.seconds.items())
    return [
        *format_table(header, rows),
        "",
        f"{verb} {_count(report)} of PIT {report.pit} to catalog {clean(report.catalog)}",
        *(f"from    {line}" for line in _origins(report)),
        *(f"instead {line}" for line in _replaced(report)),
        f"copied  {_copied(report)}",
        *([f"asked   {format_requests(report.requests)}"] if report.requests else []),
        f"time    {format_seconds(sum(report.seconds.values()))} ({phases})",
        *(f"warning {clean(text)}" for text in report.warnings),
    ]


def _origins(report: RestoreReport) -> list[str]:
    """What was deleted comes from other points in time."""
    items: list[RestoredTable | RestoredView] = [*report.tables, *report.views]
    return [
        f"PIT {item.pit}: {clean(str(item.source))}, deleted by {item.deleted_at}"
        for item in items
        if item.deleted_at is not None
    ]


def _replaced(report: RestoreReport) -> list[str]:
    """Where the old tables are: whoever wants one back needs to know."""
    return [
        f"of {clean(str(table.table))} at {clean(table.replaced)}, whose files are all kept"
        for table in report.tables
        if table.replaced is not None
    ]


def _count(report: RestoreReport) -> str:
    counts = [format_count(len(report.tables), "table")]
    if report.views:
        counts.append(format_count(len(report.views), "view"))
    if report.namespaces:
        counts.append(format_count(len(report.namespaces), "new database"))
    return ", ".join(counts)


def _copied(report: RestoreReport) -> str:
    copied = f"{format_bytes(report.bytes_copied)} in {format_count(report.files_copied, 'file')}"
    if not report.files_adopted:
        return copied
    found = f"{format_bytes(report.bytes_adopted)} in {format_count(report.files_adopted, 'file')}"
    return f"{copied}; {found} were there from an earlier try"
