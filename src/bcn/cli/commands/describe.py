"""`bcn describe`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from bcn import api
from bcn.cli.app import App, pass_app
from bcn.cli.commands.list import show_pits, tell_damage, tell_verification
from bcn.cli.options import common_options
from bcn.cli.output import clean, format_bytes, format_count

if TYPE_CHECKING:
    from bcn.repository.listing import DescribeReport, ListedObject


@click.command(short_help="Say what a repository holds.")
@common_options()
@pass_app
def describe(app: App) -> None:
    """Say what a repository holds, since when, how much, and who writes to it."""
    report = api.describe(app.repo, settings=app.settings)
    app.warn(report.warnings)
    app.show(report, _lines(report))


def _lines(report: DescribeReport) -> list[str]:
    lines = [f"{name:<12}{clean(text)}" for name, text in _facts(report)]
    lines += [f"deleted     {clean(_deleted(item))}" for item in report.deleted]
    pits = report.list.pits
    table = show_pits(pits, _CONTENTS, [tell_damage(pit) for pit in pits])
    return [*lines, "", *table] if pits else lines


_CONTENTS = {name: name.upper() for name in ("databases", "tables", "views", "snapshots")}


def _deleted(item: ListedObject) -> str:
    if item.type == "database":
        return f"database {item.name}"
    return f"{item.database}.{item.name}, last in {item.last_pit}"


def _facts(report: DescribeReport) -> list[tuple[str, str]]:
    return [
        ("repository", report.list.repository),
        ("id", report.repository_id),
        ("created", report.created_at),
        ("granularity", report.granularity or "not fixed yet: the first backup decides"),
        ("scope", _scope(report)),
        ("pits", str(len(report.list.pits))),
        ("stored", f"{format_bytes(report.bytes_new)} by all points in time"),
        ("total", f"{format_bytes(report.bytes_total)} in the newest one"),
        ("newest", _newest(report)),
        ("verified", _verified(report)),
        ("writer", _writer(report)),
    ]


def _newest(report: DescribeReport) -> str:
    newest = report.list.newest
    if newest is None:
        return "-"
    counts = [format_count(newest.count(f"{noun}s"), noun) for noun in _NOUNS]
    return f"{newest.pit}: {', '.join(counts)}"


_NOUNS = ("database", "table", "view", "snapshot")


def _verified(report: DescribeReport) -> str:
    last = report.last_verification
    about = f" ({last.pit})" if last else ""
    return f"{tell_verification(last)}{about}"


def _scope(report: DescribeReport) -> str:
    names = (("catalog", report.catalog), ("database", report.database), ("table", report.table))
    return ", ".join(f"{kind} {name}" for kind, name in names if name) or "-"


def _writer(report: DescribeReport) -> str:
    if report.lease is None:
        return "nobody"
    gone = (
        ", which is gone: run 'bcn unlock' or just the next backup" if report.lease.is_gone else ""
    )
    return f"{report.lease.owner} since {report.lease.taken_at}{gone}"
