"""What a repository holds: answers in a fraction of a second, without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bcn.api.parts import open_configured, own_settings
from bcn.model import split_names

if TYPE_CHECKING:
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
