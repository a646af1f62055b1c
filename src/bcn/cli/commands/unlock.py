"""`bcn unlock`."""

from __future__ import annotations

import click

from bcn import api
from bcn.cli.app import App, pass_app
from bcn.cli.options import common_options
from bcn.cli.output import clean


@click.command()
@click.option("--force", is_flag=True, help="Also if the process that holds it is alive.")
@common_options()
@pass_app
def unlock(app: App, force: bool) -> None:
    """End a lease that a process left behind.

    Backups take over from a process that is gone by themselves. One that is alive is refused; with
    --force it loses the lease and cannot publish any more.
    """
    report = api.unlock(app.repo, force=force, settings=app.settings)
    if not report.unlocked:
        app.show(report, ["nobody holds a lease"])
    else:
        app.show(
            report,
            [f"ended the lease of {clean(report.owner or '')}, held since {report.taken_at}"],
        )
