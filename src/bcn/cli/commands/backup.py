"""`bcn backup`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import click

from bcn import api
from bcn.cli.app import App, pass_app
from bcn.cli.options import (
    common_options,
    dry_run_option,
    jobs_option,
    lock_wait_option,
    parse_labels,
    rate_option,
    scope_options,
)
from bcn.cli.output import (
    clean,
    format_bytes,
    format_count,
    format_requests,
    format_seconds,
    format_table,
)
from bcn.errors import IncompleteBackupError

if TYPE_CHECKING:
    from bcn.backup.report import BackupReport
    from bcn.repository.pit import DeletedObject

_STATES = ("NEW", "CHANGED", "UNCHANGED", "RENAMED")


@click.command(short_help="Make a point in time.")
@scope_options
@click.option("--label", "labels", metavar="KEY=VALUE", multiple=True, help="Kept with the PIT.")
@click.option(
    "--history",
    metavar="HISTORY",
    help="Snapshots kept of each branch: all, current, last:N or since:TIME. Default: as before.",
)
@dry_run_option
@rate_option
@jobs_option
@lock_wait_option
@click.option("--accept-deletions", is_flag=True, help="Go on though most tables are gone.")
@click.option("--skip-damaged", is_flag=True, help="Keep what is whole of a damaged table.")
@common_options()
@pass_app
def backup(
    app: App,
    catalog: str | None,
    database: str | None,
    table: str | None,
    labels: tuple[str, ...],
    history: str | None,
    dry_run: bool,
    bytes_per_second: float | None,
    jobs: int | None,
    lock_wait_seconds: float,
    accept_deletions: bool,
    skip_damaged: bool,
) -> None:
    """Make a point in time of the catalog, database or table.

    The first backup of a repository needs names, and fixes them; later ones need none and copy only
    what is new.
    """
    with app.progress() as progress:
        report = api.backup(
            app.repo,
            catalog=catalog,
            database=database,
            table=table,
            labels=parse_labels(labels),
            history=history,
            bytes_per_second=bytes_per_second,
            jobs=jobs,
            lock_wait_seconds=lock_wait_seconds,
            skip_damaged=skip_damaged,
            accept_deletions=accept_deletions,
            dry_run=dry_run,
            verbose=app.is_verbose,
            settings=app.settings,
            progress=progress,
        )
    app.show(report, _lines(app, report), _find_error(report))


def _find_error(report: BackupReport) -> IncompleteBackupError | None:
    if not report.failed:
        return None
    names = ", ".join(str(item.table) for item in report.failed)
    return IncompleteBackupError(f"{format_count(len(report.failed), 'table')} failed: {names}")


def _lines(app: App, report: BackupReport) -> list[str]:
    lines = _changes(report)
    lines.append(f"{'would make PIT' if report.dry_run else 'PIT'} {report.pit}")
    lines += [f"{name:<7} {text}" for name, text in _summary(report)]
    lines += [f"warning {clean(text)}" for text in report.warnings]
    if not report.dry_run:
        lines += ["", "restore it with", f"  {app.restore_line(report.pit)}"]
    return lines


def _changes(report: BackupReport) -> list[str]:
    """A line for each table that is not unchanged."""
    rows = [
        (item.status, item.table, f"{item.files_new:,}", format_bytes(item.bytes_new), "")
        for item in report.objects
        if item.status not in {"UNCHANGED", "FAILED"}
    ]
    rows += [("FAILED", item.table, "-", "-", item.message) for item in report.failed]
    rows += [
        ("DELETED", item.table, "-", "-", f"last in {item.last_pit_included}")
        for item in _newly_deleted(report)
    ]
    return [*format_table(("STATUS", "TABLE", "FILES", "NEW", ""), rows), ""] if rows else []


def _newly_deleted(report: BackupReport) -> list[DeletedObject]:
    """What was there in the parent; the report, like the PIT, has all that ever were."""
    return [item for item in report.deleted if item.last_pit_included == report.parent]


def _summary(report: BackupReport) -> list[tuple[str, str]]:
    counts = Counter(item.status for item in report.objects)
    states = [f"{counts[state]} {state.lower()}" for state in _STATES]
    states += [f"{len(_newly_deleted(report))} deleted", f"{len(report.failed)} failed"]
    files_new = sum(item.files_new for item in report.objects)
    bytes_new = sum(item.bytes_new for item in report.objects)
    files = sum(item.files for item in report.objects) - files_new
    size_bytes = sum(item.size_bytes for item in report.objects) - bytes_new
    phases = ", ".join(f"{name} {format_seconds(spent)}" for name, spent in report.seconds.items())
    part = [("history", f"{report.history}, of every branch")] if report.history != "all" else []
    return [
        ("tables", ", ".join(states)),
        *part,
        ("new", f"{format_bytes(bytes_new)} in {format_count(files_new, 'file')}"),
        ("reused", f"{format_bytes(size_bytes)} in {format_count(files, 'file')}"),
        *([("asked", format_requests(report.requests))] if report.requests else []),
        ("time", f"{format_seconds(sum(report.seconds.values()))} ({phases})"),
    ]
