"""`bcn up`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from bcn import api
from bcn.api.stacks import STACK_FOLDER
from bcn.cli.app import App, pass_app
from bcn.cli.options import common_options
from bcn.cli.output import clean, command_line, format_table

if TYPE_CHECKING:
    from bcn.stack.up import UpReport


@click.command(short_help="Start servers to try things out with.")
@click.argument("kind", metavar="[hive|rest]", type=click.Choice(["hive", "rest"]), required=False)
@click.option(
    "--folder",
    metavar="DIR",
    default=STACK_FOLDER,
    show_default=True,
    help="Where data, logs and settings are kept.",
)
@click.option(
    "--port-base",
    metavar="N",
    type=click.IntRange(1, 65534),
    help="Ports N (objects) and N+1 (catalog). Default: the usual ones, free ones if those are "
    "taken.",
)
@common_options()
@pass_app
def up(app: App, kind: str | None, folder: str, port_base: int | None) -> None:
    """Start MinIO and a catalog (a Hive Metastore, or a REST catalog) to try things out with.

    They are processes of this machine, without containers; what they need and the machine lacks is
    fetched once. Run again, it starts what has ended and leaves alone what runs. The keys are known
    to everybody: this is no place for data of value. 'bcn down' ends it.
    """
    with app.progress() as progress:
        report = api.up(kind, folder=folder, port_base=port_base, progress=progress)
    app.warn(report.warnings)
    app.show(report, _lines(report))


def _lines(report: UpReport) -> list[str]:
    rows = [
        (item.title, item.uri, "started" if item.is_new else "runs already")
        for item in report.servers
    ]
    config, folder = _short(report.config), _short(report.folder)
    catalog = report.kind.catalog
    commands = (
        ("bcn", "config", "check", "--config", config),
        ("bcn", "backup", "--config", config, "--catalog", catalog),
        ("bcn", "list", "--config", config),
        ("bcn", "restore", "--config", config, "--target-catalog", "dr"),
        ("bcn", "down", "--folder", folder),
    )
    return [
        *format_table(("SERVER", "ADDRESS", ""), rows),
        "",
        clean(f"settings  {config}"),
        clean(f"variables {_short(report.variables)}"),
        "",
        "type next",
        *(f"  {command_line(words)}" for words in commands),
    ]


def _short(path: Path) -> str:
    """As it is typed in the current folder."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
