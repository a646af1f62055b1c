"""`bcn init`."""

from __future__ import annotations

import click

from bcn import api
from bcn.cli.app import App, pass_app
from bcn.cli.options import common_options, scope_options


@click.command()
@scope_options
@common_options()
@pass_app
def init(app: App, catalog: str | None, database: str | None, table: str | None) -> None:
    """Make an empty repository.

    With names, it is locked to them for ever; without, the first backup does so.
    """
    report = api.init(
        app.repo, catalog=catalog, database=database, table=table, settings=app.settings
    )
    scope = report.granularity or "what its first backup names"
    app.show(
        report, [f"made repository {report.repository_id} at {report.repository}, for {scope}"]
    )
