"""What is configured: shown, and tried out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bcn.api.parts import own_settings

if TYPE_CHECKING:
    from bcn.config.check_report import CheckReport
    from bcn.config.settings import Settings
    from bcn.config.show import ShowReport
    from bcn.config.spark import SparkReport

# ruff: noqa: PLC0415  what a function needs is imported when it is called, see the package


def check_config(
    names: Sequence[str] = (), *, repo: str | None = None, settings: Settings | None = None
) -> CheckReport:
    """Try catalogs and repositories of these names, or all; what is wrong is in the report.

    `repo` adds a repository that has no section. Nothing stays where a probe was written.
    """
    from bcn.config.check import run_check

    return run_check(settings or own_settings(), names, repo)


def show_config(*, settings: Settings | None = None) -> ShowReport:
    """The settings in force and where each comes from, secrets hidden."""
    from bcn.config.show import show_settings

    return show_settings(settings or own_settings())


def spark_config(
    catalog: str, *, show_secrets: bool = False, settings: Settings | None = None
) -> SparkReport:
    """What Spark must be told to open a catalog. Raises UnknownCatalogError, SettingsError."""
    from bcn.config.spark import report_spark

    return report_spark(settings or own_settings(), catalog, show_secrets=show_secrets)
