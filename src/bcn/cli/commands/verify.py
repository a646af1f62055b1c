"""`bcn verify`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from bcn import api
from bcn.cli.app import App, pass_app
from bcn.cli.options import (
    common_options,
    filter_options,
    jobs_option,
    pit_option,
    rate_option,
)
from bcn.cli.output import format_bytes, format_count, format_seconds, format_table
from bcn.errors import DamagedRepositoryError

if TYPE_CHECKING:
    from bcn.maintenance.report import VerifyReport


@click.command(short_help="Prove that points in time are whole.")
@click.option(
    "--level",
    type=click.IntRange(1, 5),
    default=3,
    show_default=True,
    help="How deep: 1 documents, 2 files and sizes, 3 every byte, 4 what the metadata names, "
    "5 read every snapshot of a scratch restore.",
)
@pit_option("all")
@filter_options
@rate_option
@jobs_option
@common_options()
@pass_app
def verify(
    app: App,
    level: int,
    pit: str | None,
    databases: tuple[str, ...],
    tables: tuple[str, ...],
    bytes_per_second: float | None,
    jobs: int | None,
) -> None:
    """Prove that points in time are whole: all of them, or the one that --pit names.

    Each level includes those before it.
    """
    with app.progress() as progress:
        report = api.verify(
            app.repo,
            pit=pit,
            level=level,
            databases=databases,
            tables=tables,
            bytes_per_second=bytes_per_second,
            jobs=jobs,
            verbose=app.is_verbose,
            settings=app.settings,
            progress=progress,
        )
    app.show(report, _lines(report), _find_error(report))


def _find_error(report: VerifyReport) -> DamagedRepositoryError | None:
    if report.ok:
        return None
    count = sum(item.severity == "error" for item in report.findings) + report.omitted
    return DamagedRepositoryError(
        f"{format_count(count, 'error')} in {report.repository}",
        hint="take a new backup now, while the source is there",
    )


def _lines(report: VerifyReport) -> list[str]:
    lines = _findings(report)
    verdict = "whole" if report.ok else "DAMAGED"
    pits, objects = len(report.pits), report.objects
    lines.append(f"{verdict}: {format_count(pits, 'PIT')} of {format_count(objects, 'object')}")
    if report.ok:
        lines += [f"  {text}" for text in report.as_json()["proves"]]
    else:
        lines += _whole_pits(report)
    checked = f"{format_count(report.files_checked, 'file')}, {format_bytes(report.bytes_checked)}"
    hashed = f"{format_count(report.files_hashed, 'file')}, {format_bytes(report.bytes_hashed)}"
    phases = ", ".join(f"{name} {format_seconds(spent)}" for name, spent in report.seconds.items())
    return [
        *lines,
        f"checked {checked}",
        f"hashed  {hashed}",
        f"time    {format_seconds(sum(report.seconds.values()))} ({phases})",
        *(["noted   for 'bcn list' and 'bcn describe'"] if report.is_recorded else []),
    ]


def _whole_pits(report: VerifyReport) -> list[str]:
    """What can still be restored, said only if every error was listed."""
    if report.omitted:
        return []
    hurt = report.hurt
    whole = [str(pit) for pit in report.pits if pit not in hurt]
    return [f"  not hurt: {', '.join(whole)}" if whole else "  every point in time is hurt"]


def _findings(report: VerifyReport) -> list[str]:
    rows = [
        (item.severity.upper(), item.level, item.object or "-", item.key or "-", item.message)
        for item in report.findings
    ]
    lines = format_table(("SEVERITY", "LEVEL", "OBJECT", "KEY", "WHAT"), rows) if rows else []
    if report.omitted:
        lines.append(f"{report.omitted:,} more findings are not listed")
    return [*lines, ""] if lines else []
