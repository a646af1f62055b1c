"""`bcn repair`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from bcn import api
from bcn.cli.app import App, pass_app
from bcn.cli.options import common_options, dry_run_option, lock_wait_option
from bcn.cli.output import clean, format_count, format_table
from bcn.errors import DamagedRepositoryError

if TYPE_CHECKING:
    from bcn.maintenance.losses import Loss, LostTable
    from bcn.maintenance.repair import RepairReport

_SHOWN = 3


@click.command(short_help="Make anew what only repeats points in time.")
@click.option(
    "--quarantine",
    metavar="PIT",
    help="Set this damaged point in time aside; backups go on from the newest whole one.",
)
@dry_run_option
@lock_wait_option
@common_options()
@pass_app
def repair(app: App, quarantine: str | None, dry_run: bool, lock_wait_seconds: float) -> None:
    """Make anew whatever only repeats points in time, and name what is lost.

    manifest.json and all derived files are written as the points in time say. Points in time,
    entries, layers and data are read and never changed. What cannot be read is named, with the
    tables it hurts and the points in time that still have a whole version of them (exit 13).
    """
    with app.progress() as progress:
        report = api.repair(
            app.repo,
            quarantine=quarantine,
            dry_run=dry_run,
            lock_wait_seconds=lock_wait_seconds,
            settings=app.settings,
            progress=progress,
        )
    app.warn(report.warnings)
    app.show(report, _lines(report), _find_error(report))


def _find_error(report: RepairReport) -> DamagedRepositoryError | None:
    if report.ok:
        return None
    documents = format_count(len(report.losses), "document")
    return DamagedRepositoryError(
        f"{documents} in {report.repository} cannot be made again",
        hint="take a new backup now, while the source is there; a damaged point in time is set "
        "aside with 'bcn repair --quarantine PIT'",
    )


def _lines(report: RepairReport) -> list[str]:
    lines = [line for loss in report.losses for line in _loss_lines(loss)]
    if report.quarantined is not None:
        verb = "would be" if report.dry_run else "was"
        lines.append(f"{report.quarantined} {verb} set aside as {report.quarantine_key}")
    rows = [(item.action, item.key) for item in report.changes]
    lines += format_table(("ACTION", "KEY"), rows) if rows else []
    return [*lines, _verdict(report)]


def _verdict(report: RepairReport) -> str:
    pits = format_count(report.pits, "point") + " in time read"
    if not report.changes:
        return f"nothing to repair: {pits}"
    verb = "to repair" if report.dry_run else "repaired"
    return f"{verb}: {format_count(len(report.changes), 'file')}; {pits}"


def _loss_lines(loss: Loss) -> list[str]:
    lines = [f"LOST {loss.what}: {clean(loss.message)}"]
    if len(loss.pits) > 1:
        lines.append(
            f"  needed by {len(loss.pits)} points in time, {loss.pits[0]} to {loss.pits[-1]}"
        )
    elif loss.key:
        lines += [f"  needed by {pit}" for pit in loss.pits if str(pit) not in loss.key]
    return lines + [f"  {clean(item.table)}: {_holders(item)}" for item in loss.tables]


def _holders(item: LostTable) -> str:
    if not item.held_by:
        return "no point in time has a whole version of it"
    shown = ", ".join(str(pit) for pit in item.held_by[-_SHOWN:])
    more = len(item.held_by) - _SHOWN
    return f"whole in {shown}" + (f" and {more} earlier" if more > 0 else "")
