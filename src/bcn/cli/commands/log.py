"""`bcn log`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from bcn import api
from bcn.cli.app import App, pass_app
from bcn.cli.commands.diff import find_error
from bcn.cli.options import common_options
from bcn.cli.output import clean, format_bytes, format_count, format_table

if TYPE_CHECKING:
    from bcn.changes.log import Event, LogReport, ObjectHistory


@click.command(short_help="Say when and how a table changed.")
@click.argument("table", metavar="TABLE")
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(min=1),
    help="Only the newest N changes. Default: all.",
)
@common_options()
@pass_app
def log(app: App, table: str, limit: int | None) -> None:
    """Say in which points in time a table or view changed, and how, newest first.

    TABLE is DATABASE.TABLE, or the last part alone where only one has it; also a name that a table
    had before, and one that is gone. A name that was given to several tables tells of each.
    """
    report = api.log(table, app.repo, limit=limit, settings=app.settings)
    app.warn(report.warnings)
    app.show(report, _lines(report), find_error(report.problems, report.repository))


def _lines(report: LogReport) -> list[str]:
    lines: list[str] = []
    for item in report.objects:
        lines += ["", *_history(item)] if lines else _history(item)
    return lines


def _history(item: ObjectHistory) -> list[str]:
    lines = [clean(f"{item.type} {item.name}, id {item.object_id}")]
    header = ("PIT", "STATUS", "ROWS", "SIZE", "SNAPSHOTS", "NAME")
    first, *rows = format_table(header, [_row(event) for event in item.events])
    lines.append(first)
    for row, event in zip(rows, item.events, strict=True):
        lines += [row, *(f"    {clean(text)}" for text in _told(event))]
    if item.omitted:
        lines.append(f"{format_count(item.omitted, 'older change')} not shown")
    return lines


def _row(event: Event) -> tuple[object, ...]:
    if event.status == "DELETED":
        return (event.pit, event.status, "-", "-", "-", event.name)
    rows = "unknown" if event.rows is None else f"{event.rows:,}"
    less = f" less {event.deletes:,}" if event.deletes else ""
    size = "?" if event.size_bytes is None else format_bytes(event.size_bytes)
    snapshots = "?" if event.snapshots is None else f"{event.snapshots:,}"
    return (event.pit, event.status, f"{rows}{less}", size, snapshots, event.name)


def _told(event: Event) -> list[str]:
    moment = f", noticed {event.deleted_at}" if event.deleted_at else ""
    lines = [f"{event.what}{moment}"] if event.what else []
    return [*lines, f"DAMAGED: {event.problem}"] if event.problem else lines
