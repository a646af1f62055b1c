"""`bcn config check`, `bcn config show` and `bcn config spark`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from bcn import api
from bcn.cli.app import App, pass_app
from bcn.cli.options import common_options
from bcn.cli.output import clean, format_count, format_seconds, format_table

if TYPE_CHECKING:
    from bcn.config.check_report import CheckedSection, CheckReport, CheckStep
    from bcn.config.show import ShowReport
    from bcn.config.spark import SparkReport


@click.group(short_help="Show the settings, or try them out.")
def config() -> None:
    """Show the settings in force, or try out what they name."""


@config.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@common_options()
@pass_app
def check(app: App, names: tuple[str, ...]) -> None:
    """Try out catalogs and repositories: all, or those of the given names.

    Each is connected to and listed, and a file of a table is looked at. A small probe is written
    into a repository's place and into a catalog's warehouse, never into a table, and removed again.
    What does not work is told with what to change; the exit code is that of the first failure.
    """
    report = api.check_config(names, repo=app.repo, settings=app.settings)
    app.show(report, _check_lines(report), report.failure)


@config.command()
@common_options()
@pass_app
def show(app: App) -> None:
    """Print every setting in force and where it comes from; secrets are hidden."""
    report = api.show_config(settings=app.settings)
    app.show(report, _show_lines(report))


@config.command()
@click.argument("name", metavar="CATALOG")
@click.option("--show-secrets", is_flag=True, help="Print keys and passwords, too.")
@click.option("--command", "as_command", is_flag=True, help="Print a spark-sql command line.")
@common_options()
@pass_app
def spark(app: App, name: str, show_secrets: bool, as_command: bool) -> None:
    """Print what Spark must be told to open a catalog, as lines of a spark-defaults.conf.

    With them Spark reads and writes the same tables: those of a source, and restored ones at once.
    """
    report = api.spark_config(name, show_secrets=show_secrets, settings=app.settings)
    app.show(report, [report.command_line()] if as_command else _spark_lines(report))
    app.warn([f"Spark is not told of {key}: see docs/catalogs.md" for key in report.left_out])


def _spark_lines(report: SparkReport) -> list[str]:
    variables = [f"# needs {key}={value}" for key, value in report.environment.items()]
    return [*variables, *report.defaults_lines()]


def _check_lines(report: CheckReport) -> list[str]:
    lines: list[str] = []
    for section in report.sections:
        lines += [_title(section), *(line for step in section.steps for line in _step(step)), ""]
    failed = sum(section.failure is not None for section in report.sections)
    count = format_count(len(report.sections), "section")
    return [*lines, f"{count} checked, {failed} failed" if failed else f"{count} checked, all work"]


def _title(section: CheckedSection) -> str:
    kind = {"catalogs": "catalog", "repositories": "repository"}[section.section]
    type_ = f" ({section.type})" if section.type else ""
    return clean(f"{kind} {section.name}{type_}, {format_seconds(section.seconds)}")


def _step(step: CheckStep) -> list[str]:
    lines = [clean(f"  {step.status.value:<7} {step.name:<9} {step.message}")]
    return [*lines, clean(f"          to do     {step.hint}")] if step.hint else lines


def _show_lines(report: ShowReport) -> list[str]:
    rows = [(item.title, item.key, item.value, item.source) for item in report.settings]
    table = format_table(("SECTION", "KEY", "VALUE", "FROM"), rows)
    unusable = [clean(f"catalog {name} cannot be used: {why}") for name, why in report.unusable]
    return [*table, *(["", *unusable] if unusable else [])]
