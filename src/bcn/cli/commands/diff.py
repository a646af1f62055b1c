"""`bcn diff`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from bcn import api
from bcn.cli.app import App, pass_app
from bcn.cli.options import common_options, filter_options
from bcn.cli.output import clean, format_bytes, format_count
from bcn.errors import DamagedRepositoryError
from bcn.model import quote_name

if TYPE_CHECKING:
    from bcn.changes.diff import DiffReport, ObjectDiff, Span


@click.command(short_help="Say what differs between two points in time.")
@click.argument("old", metavar="PIT1")
@click.argument("new", metavar="[PIT2]", default="latest")
@filter_options
@common_options()
@pass_app
def diff(app: App, old: str, new: str, databases: tuple[str, ...], tables: tuple[str, ...]) -> None:
    """Say what differs between two points in time, each given as --pit takes it.

    PIT2 is the newest one if it is left out: 'bcn diff latest~1' tells what the last backup found.
    Rows are what a table's own summary counts.
    """
    report = api.diff(old, new, app.repo, databases=databases, tables=tables, settings=app.settings)
    app.warn(report.warnings)
    app.show(report, _lines(report), find_error(report.problems, report.repository))


def find_error(problems: int, repository: str) -> DamagedRepositoryError | None:
    """What a reading command ends with where documents are damaged."""
    if not problems:
        return None
    return DamagedRepositoryError(
        f"{format_count(problems, 'version')} in {repository} cannot be read whole"
    )


def _lines(report: DiffReport) -> list[str]:
    lines = [f"{report.old} to {report.new}"]
    for item in report.objects:
        lines += ["", clean(_title(item)), *(f"    {clean(line)}" for line in _details(item))]
    counts = [f"{report.count(name)} {name.lower()}" for name in _STATUSES if report.count(name)]
    told = ", ".join([*counts, f"{report.unchanged:,} unchanged"])
    return [*lines, "", told]


_STATUSES = ("NEW", "CHANGED", "RENAMED", "DELETED")


def _title(item: ObjectDiff) -> str:
    name = item.name if item.type == "database" else f"{item.database}.{quote_name(item.name)}"
    renamed = f"{item.old_name} to " if item.old_name else ""
    return f"{item.status:<8} {item.type} {renamed}{name}"


def _details(item: ObjectDiff) -> list[str]:
    from bcn.changes.words import tell_each  # noqa: PLC0415  other commands do without

    lines = [] if item.type == "database" else _figures(item)
    if item.deleted_at:
        lines.append(f"gone since {item.deleted_at} or before")
    lines += tell_each(item.changes)
    return [*lines, f"DAMAGED: {item.problem}"] if item.problem else lines


def _figures(item: ObjectDiff) -> list[str]:
    """Rows, bytes, files and snapshots; of what is only renamed, none."""
    if item.old_name and not item.changes and not item.problem:
        return ["nothing but its name"]
    lines = [f"size      {_span(item.size_bytes, format_bytes)}"]
    lines.append(f"files     {_span(item.files, _number)}{_moved(item)}")
    if item.type == "table":
        deletes = f", delete marks {_span(item.deletes, _number)}" if _any(item.deletes) else ""
        lines.insert(0, f"rows      {_span(item.rows, _number)}{deletes}")
        lines.append(f"snapshots {_span(item.snapshots, _number)}")
    return lines if item.type == "table" else lines[:1]


def _moved(item: ObjectDiff) -> str:
    if item.files_added is None or item.files_removed is None:
        return ""
    return f", {item.files_added:,} added, {item.files_removed:,} removed"


def _any(span: Span) -> bool:
    return bool(span.before or span.after)


def _span(span: Span, show: Callable[[int], str]) -> str:
    """One figure where nothing moved or only one side is there, else both."""
    before, after = (None if one is None else show(one) for one in (span.before, span.after))
    if before == after:
        return after or "unknown"
    if span.before is None or span.after is None:
        return before or after or "unknown"
    return f"{before} to {after}{_difference(span, show)}"


def _difference(span: Span, show: Callable[[int], str]) -> str:
    difference = (span.after or 0) - (span.before or 0)
    return f" ({'+' if difference > 0 else '-'}{show(abs(difference))})"


def _number(count: int) -> str:
    return f"{count:,}"
