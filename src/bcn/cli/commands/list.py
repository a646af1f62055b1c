"""`bcn list`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from bcn import api
from bcn.cli.app import App, pass_app
from bcn.cli.options import common_options, pit_option
from bcn.cli.output import clean, format_bytes, format_count, format_table

if TYPE_CHECKING:
    from bcn.repository.listing import ListedObject, ListReport, ObjectsReport, PitSummary
    from bcn.repository.verification import Verification


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
    """What changed in each point in time, the newest last; what is rare stands beside labels."""
    return show_pits(pits, _CHANGES, [_remark(pit) for pit in pits])


_CHANGES = {
    "tables": "TABLES",
    "new": "NEW",
    "changed": "CHANGED",
    "unchanged": "SAME",
    "deleted": "DELETED",
}


def show_pits(
    pits: Sequence[PitSummary], counts: Mapping[str, str], remarks: Sequence[str]
) -> list[str]:
    """Lines of points in time with some of their counts; columns of texts only if there are any."""
    header = ["PIT", *counts.values(), "STORED", "TOTAL"]
    rows = [[pit.pit, *_cells(pit, counts)] for pit in pits]
    for title, texts in (("VERIFIED", [_verified(pit) for pit in pits]), ("LABELS", remarks)):
        if any(texts):
            header.append(title)
            rows = [[*row, text] for row, text in zip(rows, texts, strict=True)]
    return format_table(header, rows)


def _cells(pit: PitSummary, counts: Iterable[str]) -> list[str]:
    if pit.damaged is not None:
        return ["?" for _ in (*counts, "stored", "total")]
    sizes = [format_bytes(pit.count(name)) for name in ("bytes_new", "bytes_total")]
    return [*(f"{pit.count(name):,}" for name in counts), *sizes]


def _verified(pit: PitSummary) -> str:
    note = pit.verified
    if note is None:
        return ""
    verdict = "" if note.outcome == "whole" else f" {note.outcome.upper()}"
    return f"{note.at.moment:%Y-%m-%d} l{note.level}{verdict}"


def _remark(pit: PitSummary) -> str:
    if pit.damaged is not None:
        return tell_damage(pit)
    rare = [f"{pit.count(name):,} {name}" for name in ("renamed", "failed") if pit.count(name)]
    return ", ".join([*rare, *(f"{key}={value}" for key, value in pit.labels)])


def tell_damage(pit: PitSummary) -> str:
    """Why a point in time cannot be read; nothing for one that can."""
    return f"DAMAGED: {pit.damaged}" if pit.damaged is not None else ""


def tell_verification(note: Verification | None) -> str:
    """When, how deeply, with what result."""
    if note is None:
        return "never"
    return f"{note.at.moment:%Y-%m-%d %H:%M:%S} UTC, level {note.level}: {note.outcome}"


# objects of one


def _objects(report: ObjectsReport) -> list[str]:
    rows = [
        (
            item.database,
            item.name,
            item.type,
            item.status,
            *(("-",) * 3 if item.status == "DELETED" else _figures(item)),
            clean(_note(item)),
        )
        for item in report.objects
    ]
    header = ("DATABASE", "NAME", "TYPE", "STATUS", "SNAPS", "FILES", "SIZE", "")
    statuses = ("ACTIVE", "UNCHANGED", "DELETED", "FAILED")
    counts = [f"{report.count(name):,} {name}" for name in statuses if report.count(name)]
    return [
        f"PIT {report.pit}",
        *format_table(header, rows),
        "",
        f"{', '.join(counts) or 'nothing'}; verified {tell_verification(report.verified)}",
    ]


def _figures(item: ListedObject) -> tuple[str, ...]:
    return (f"{item.snapshots:,}", f"{item.files:,}", format_bytes(item.size_bytes))


def _note(item: ListedObject) -> str:
    """What has to be said beside the figures."""
    notes = [item.message] if item.message else []
    if item.last_pit and not item.message:
        notes.append(f"last in {item.last_pit}")
    if item.coverage != "all":
        notes.append(f"history {item.coverage}")
    if item.damaged_snapshots:
        notes.append(f"{format_count(item.damaged_snapshots, 'snapshot')} damaged")
    return ", ".join(notes)
