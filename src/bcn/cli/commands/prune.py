"""`bcn prune`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from bcn import api
from bcn.cli.app import App, pass_app
from bcn.cli.options import common_options, dry_run_option, lock_wait_option
from bcn.cli.output import format_bytes, format_count, format_table

if TYPE_CHECKING:
    from bcn.maintenance.prune_report import Amount, PruneReport

_SHOWN = 20


@click.command(short_help="Delete stored files that no point in time needs.")
@click.option(
    "--grace",
    "grace_hours",
    metavar="HOURS",
    type=float,
    default=24.0,
    show_default=True,
    help="How long a file must have been listed before it is deleted; 0 deletes at once.",
)
@dry_run_option
@lock_wait_option
@common_options()
@pass_app
def prune(app: App, grace_hours: float, dry_run: bool, lock_wait_seconds: float) -> None:
    """Delete stored files that no point in time needs, in two steps.

    The first run lists them; a run after the grace period deletes those that were listed, are still
    not needed and have not changed. Nothing is deleted while a backup runs, or while anything that
    a point in time needs cannot be read (exit 13).
    """
    with app.progress() as progress:
        report = api.prune(
            app.repo,
            grace_hours=grace_hours,
            dry_run=dry_run,
            lock_wait_seconds=lock_wait_seconds,
            settings=app.settings,
            progress=progress,
        )
    app.warn(report.notes)
    app.show(report, _lines(report))


def _lines(report: PruneReport) -> list[str]:
    if not report.items:
        return [f"nothing to prune: {format_count(report.pits, 'point')} in time need all files"]
    kinds = [
        (kind, f"{amount.files:,}", format_bytes(amount.size_bytes))
        for kind, amount in report.kinds()
    ]
    largest = [
        (item.orphan.kind, format_bytes(item.orphan.size_bytes), item.state, item.orphan.key)
        for item in report.items[:_SHOWN]
    ]
    more = len(report.items) - _SHOWN
    return [
        *format_table(("KIND", "FILES", "BYTES"), kinds),
        "",
        *format_table(("KIND", "BYTES", "STATE", "KEY"), largest),
        *([f"and {format_count(more, 'smaller file')}"] if more > 0 else []),
        "",
        *_verdict(report),
    ]


def _verdict(report: PruneReport) -> list[str]:
    lines = [f"not needed  {_amount(report.unneeded)}"]
    if report.dry_run:
        lines.append(f"due now     {_amount(report.deletable)}")
    else:
        lines.append(f"deleted     {_amount(report.deleted)}")
    if report.next_due_at is not None and (report.dry_run or report.deleted != report.unneeded):
        moment = report.next_due_at.strftime("%Y-%m-%d %H:%M UTC")
        lines.append(f"waiting     until {moment}; then 'bcn prune' deletes what is still unneeded")
    return lines


def _amount(amount: Amount) -> str:
    return f"{format_count(amount.files, 'file')}, {format_bytes(amount.size_bytes)}"
