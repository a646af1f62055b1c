"""`python -m bcn.cli.reference cli` prints docs/cli.md, `… errors` prints docs/errors.md."""

from __future__ import annotations

import pkgutil
import sys
from collections.abc import Iterator
from importlib import import_module

import click

import bcn
from bcn.cli.main import cli
from bcn.errors import BcnError

_INTRODUCTION = """\
# Command line

Made from the commands' own help by `python -m bcn.cli.reference cli`. `--repo`, `--config`,
`--json`, `--quiet` and `--verbose` may stand before or after the command's name.

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


_ERRORS = """\
# Errors and exit codes

Made from the classes by `python -m bcn.cli.reference errors`. An error is told on stderr as
`error: what happened` and `hint: what to do`; with `--json`, stdout has it as an object, see
[json-output.md](json-output.md). In Python all of them are `bcn.BcnError`.

## Exit codes

| code | means |
| --- | --- |
| 0 | done |
| 1 | failed, for a reason that no other code has; also a bug of bcn |
| 2 | the command line or the settings ask for something that cannot be |
| 3 | partly done: a PIT was published, but some tables are not in it or kept an older version |
| 10 | no repository there |
| 11 | the repository is locked by another process |
| 13 | something in the repository is damaged, or is of a newer version |
| 14 | the catalog cannot be reached, or has no such database or table |
| 15 | bytes could not be read or written |
| 16 | refused for safety: somebody could lose a table |
| 17 | the source is damaged |
| 130 | stopped by SIGINT (Ctrl-C); the same command goes on where this one stopped |
| 143 | stopped by SIGTERM; likewise |

A first signal lets bcn clean up, a second one ends it at once. Neither costs anything: what is
published is whole, what is not is taken up by the next run. With `--json` the class of both is
`Interrupted`; it is no `BcnError`, so that no handler of errors stops a stop.

## Classes

An error may have a better hint than its class where more is known.

| class | code | means | hint |
| --- | --- | --- | --- |
"""


def render_cli() -> str:
    """docs/cli.md."""
    pages = [_INTRODUCTION, _page(cli, "bcn", None)]
    above = click.Context(cli, info_name="bcn")
    pages += _pages(cli, above)
    return "\n".join(pages)


def _pages(group: click.Group, above: click.Context) -> Iterator[str]:
    """A group's commands, and those of its groups."""
    for name, command in sorted(group.commands.items()):
        yield _page(command, f"{above.command_path} {name}", above)
        if isinstance(command, click.Group):
            yield from _pages(command, click.Context(command, info_name=name, parent=above))


def _page(command: click.Command, title: str, above: click.Context | None) -> str:
    context = click.Context(
        command,
        info_name=title.rsplit(" ", 1)[-1],
        parent=above,
        terminal_width=100,
        max_content_width=100,
        help_option_names=["-h", "--help"],
    )
    return f"## `{title}`\n\n```text\n{command.get_help(context)}\n```\n"


def render_errors() -> str:
    """docs/errors.md."""
    for module in pkgutil.walk_packages(bcn.__path__, "bcn."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    classes = sorted(set(_iter_classes(BcnError)), key=lambda kind: (kind.exit_code, kind.__name__))
    return _ERRORS + "".join(_row(kind) for kind in classes)


def _iter_classes(kind: type[BcnError]) -> Iterator[type[BcnError]]:
    if kind.__module__.startswith("bcn."):  # a test may have its own
        yield kind
    for child in kind.__subclasses__():
        yield from _iter_classes(child)


def _row(kind: type[BcnError]) -> str:
    means = " ".join((kind.__doc__ or "").split()).removesuffix(".")
    return f"| `{kind.__name__}` | {kind.exit_code} | {means} | {kind.hint} |\n"


if __name__ == "__main__":
    page = {"cli": render_cli, "errors": render_errors}[sys.argv[1] if len(sys.argv) > 1 else "cli"]
    click.echo(page(), nl=False)
