"""`bcn down`."""

from __future__ import annotations

import click

from bcn import api
from bcn.api.stacks import STACK_FOLDER
from bcn.cli.app import App, pass_app
from bcn.cli.options import common_options
from bcn.cli.output import clean


@click.command(short_help="End the servers that 'bcn up' started.")
@click.option(
    "--folder",
    metavar="DIR",
    default=STACK_FOLDER,
    show_default=True,
    help="The folder that was given to 'bcn up'.",
)
@click.option("--delete-data", is_flag=True, help="Also delete all that the servers stored.")
@common_options()
@pass_app
def down(app: App, folder: str, delete_data: bool) -> None:
    """End the servers that 'bcn up' started in a folder, and no other process.

    Their data stay for the next 'bcn up', unless they are to be deleted.
    """
    with app.progress() as progress:
        report = api.down(folder=folder, delete_data=delete_data, progress=progress)
    names = ", ".join(report.stopped)
    lines = [f"ended {names}" if names else clean(f"nothing runs in {report.folder}")]
    if report.is_deleted:
        lines.append(clean(f"deleted what the stack had in {report.folder}"))
    app.show(report, lines)
