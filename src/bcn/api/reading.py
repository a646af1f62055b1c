"""What a repository holds: answers in a fraction of a second, without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bcn.api.parts import open_configured, own_settings, parse_names
from bcn.errors import UsageError
from bcn.model import split_names

if TYPE_CHECKING:
    from bcn.changes.diff import DiffReport
    from bcn.changes.log import LogReport
    from bcn.config.settings import Settings
    from bcn.repository.listing import DescribeReport, ListReport, ObjectsReport

# ruff: noqa: PLC0415  what a function needs is imported when it is called, see the package


def list_pits(repo: str | None = None, *, settings: Settings | None = None) -> ListReport:
    """The PITs of a repository, oldest first."""
    from bcn.repository.listing import list_pits as load_report

    return load_report(open_configured(settings or own_settings(), repo))


def list_objects(
    repo: str | None = None,
    *,
    pit: str = "latest",
    database: str | None = None,
    settings: Settings | None = None,
) -> ObjectsReport:
    """The tables and views of a PIT, those that are gone by then too."""
    from bcn.repository.listing import list_objects as load_report
    from bcn.repository.resolve import resolve_pit

    if database is not None:
        split_names(database)
    repository = open_configured(settings or own_settings(), repo)
    return load_report(repository, resolve_pit(repository, pit), database)


def describe(repo: str | None = None, *, settings: Settings | None = None) -> DescribeReport:
    """A repository as a whole: what it is locked to, its PITs, what is gone, who writes."""
    from bcn.repository.listing import describe as load_report

    return load_report(open_configured(settings or own_settings(), repo))


def diff(
    old: str,
    new: str = "latest",
    repo: str | None = None,
    *,
    databases: Sequence[str] = (),
    tables: Sequence[str] = (),
    settings: Settings | None = None,
) -> DiffReport:
    """What differs between two PITs: all, or what matches one of the globs."""
    from bcn.changes.chosen import Chosen
    from bcn.changes.diff import diff_pits
    from bcn.repository.resolve import resolve_pit

    names = parse_names(databases, tables, None, None)
    repository = open_configured(settings or own_settings(), repo)
    pits = [resolve_pit(repository, text) for text in (old, new)]
    return diff_pits(repository, pits[0], pits[1], Chosen(names.databases, names.tables))


def log(
    table: str,
    repo: str | None = None,
    *,
    limit: int | None = None,
    settings: Settings | None = None,
) -> LogReport:
    """Every PIT in which a table or view changed, newest first; also one that is gone."""
    from bcn.changes.log import load_history

    if limit is not None and limit < 1:
        raise UsageError(f"--limit must be 1 or more, not {limit}")
    split_names(table)
    return load_history(open_configured(settings or own_settings(), repo), table, limit)
