"""`bcn list`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from bcn import api
from bcn.cli.app import App, pass_app
from bcn.cli.options import common_options, pit_option
from bcn.cli.output import clean, format_bytes, format_table

if TYPE_CHECKING:
    from bcn.repository.listing import ListReport, ObjectsReport, PitSummary

_COUNTS = ("tables", "new", "changed", "renamed", "unchanged", "deleted", "failed")


@click.command("list", short_help="List points in time, or tables of one.")
@pit_option("none, list them")
@click.option("--database", metavar="NAME", help="Only objects of this database.")
@common_options()
@pass_app
def list_(app: App, pit: str | None, database: str | None) -> None:
    """List the points in time, or with --pit the tables and views of one."""
    if pit is None and database is None:
        report = api.list_pits(app.repo, settings=app.settings)
        app.warn(report.warnings)
        app.show(report, _pits(app, report))
    else:
        objects = api.list_objects(
            app.repo, pit=pit or "latest", database=database, settings=app.settings
        )
        app.show(objects, _objects(objects))


def _pits(app: App, report: ListReport) -> list[str]:
    newest = report.newest
    if not report.pits:
        return [f"no point in time yet in {report.repository}"]
    lines = pit_table(report.pits)
    if newest is not None:
        lines += ["", "restore the newest with", f"  {app.restore_line(newest.pit)}"]
    return lines


def pit_table(pits: tuple[PitSummary, ...]) -> list[str]:
    """Lines of points in time, the newest last."""
    header = ("PIT", *(name.upper() for name in _COUNTS), "STORED", "TOTAL", "LABELS")
    return format_table(header, [_row(pit) for pit in pits])


def _row(pit: PitSummary) -> tuple[object, ...]:
    if pit.damaged is not None:
        return (pit.pit, *("?" for _ in _COUNTS), "?", "?", f"DAMAGED: {pit.damaged}")
    return (
        pit.pit,
        *(f"{pit.count(name):,}" for name in _COUNTS),
        format_bytes(pit.count("bytes_new")),
        format_bytes(pit.count("bytes_total")),
        " ".join(f"{key}={value}" for key, value in pit.labels),
    )


def _objects(report: ObjectsReport) -> list[str]:
    rows = [
        (
            item.database,
            item.name,
            item.type,
            item.status,
            f"{item.snapshots:,}",
            f"{item.files:,}",
            format_bytes(item.size_bytes),
            clean(item.message or _last(item.last_pit)),
        )
        for item in report.objects
    ]
    header = ("DATABASE", "NAME", "TYPE", "STATUS", "SNAPSHOTS", "FILES", "SIZE", "")
    return [f"PIT {report.pit}", *format_table(header, rows)]


def _last(pit: object) -> str:
    return f"last in {pit}" if pit else ""
