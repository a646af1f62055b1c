"""`python -m bcn.cli.reference` prints docs/cli.md: every command as its own --help shows it."""

from __future__ import annotations

import click

from bcn.cli.main import cli

_INTRODUCTION = """\
# Command line

Made from the commands' own help by `python -m bcn.cli.reference`. `--repo`, `--config`, `--json`,
`--quiet` and `--verbose` may stand before or after the command's name.

Results go to stdout, all else to stderr. With `--json`, stdout has one object, see
[json-output.md](json-output.md). Exit codes: [errors.md](errors.md). Settings:
[settings.md](settings.md).

## Points in time

`--pit` takes

| text | means |
| --- | --- |
| `20260821T101530.123456Z` | this one |
| `20260821T10` | the only one whose id begins so; several are an error that names them |
| `latest`, `latest~2` | the newest; the second before it |
| `2026-08-21`, `2026-08-21T10:15`, `2026-W34` | the newest by the end of that day, minute, week |
| `2026-08-21 10:15:30+02:00` | the same with an offset; without one a time is UTC |
"""


def render() -> str:
    """The whole page."""
    pages = [_INTRODUCTION, _page(cli, "bcn", None)]
    pages += [_page(cli.commands[name], f"bcn {name}", cli) for name in sorted(cli.commands)]
    return "\n".join(pages)


def _page(command: click.Command, title: str, parent: click.Group | None) -> str:
    above = click.Context(parent, info_name="bcn") if parent else None
    context = click.Context(
        command,
        info_name=title.rsplit(" ", 1)[-1],
        parent=above,
        terminal_width=100,
        max_content_width=100,
        help_option_names=["-h", "--help"],
    )
    return f"## `{title}`\n\n```text\n{command.get_help(context)}\n```\n"


if __name__ == "__main__":
    click.echo(render(), nl=False)
