"""The root command; the one place where errors and signals become messages and exit codes."""

from __future__ import annotations

import os
import signal
import sys
import traceback
import warnings
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

import click

from bcn import __version__
from bcn.cli.app import App
from bcn.cli.commands.backup import backup
from bcn.cli.commands.config import config
from bcn.cli.commands.describe import describe
from bcn.cli.commands.diff import diff
from bcn.cli.commands.down import down
from bcn.cli.commands.init import init
from bcn.cli.commands.list import list_
from bcn.cli.commands.log import log
from bcn.cli.commands.prune import prune
from bcn.cli.commands.repair import repair
from bcn.cli.commands.restore import restore
from bcn.cli.commands.unlock import unlock
from bcn.cli.commands.up import up
from bcn.cli.commands.verify import verify
from bcn.cli.options import common_options
from bcn.cli.output import error_json, write_error, write_json, write_note
from bcn.cli.signals import catch_signals
from bcn.errors import BcnError, Interrupted

_BUG_HINT = "this is a bug of bcn: please report it, with what the same command says with -v"
_STOP_HINT = "nothing that was finished is lost; the same command goes on where this one stopped"


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@common_options(envvar="BCN_REPO")
@click.version_option(__version__, prog_name="bcn")
@click.pass_context
def cli(context: click.Context) -> None:
    """Back up and restore Apache Iceberg tables, databases and catalogs.

    A repository keeps points in time (PITs) of one catalog, database or table. Every PIT is whole:
    it can be restored anywhere, without the source and without the other PITs.
    """
    context.ensure_object(App)


for _command in (
    init,
    backup,
    restore,
    list_,
    describe,
    diff,
    log,
    verify,
    repair,
    prune,
    unlock,
    config,
    up,
    down,
):
    cli.add_command(_command)


def main() -> NoReturn:
    """The process `bcn`."""
    if not sys.warnoptions:
        warnings.simplefilter("ignore")  # of libraries; ours are lines of the report
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # files
    stops = catch_signals()
    code = run(sys.argv[1:])
    stops.end()
    if code > 128:
        _leave(code)
    sys.exit(code)


def _leave(code: int) -> NoReturn:
    """End a process that was stopped: a library that is half made may crash when it is unmade."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def run(arguments: Sequence[str]) -> int:
    """One command; its exit code. Every failure has been told when it returns."""
    is_json = _is_asked(arguments, "--json")
    try:
        code = cli.main(list(arguments), prog_name="bcn", standalone_mode=False)
    except BcnError as error:
        return _fail(error, str(error), error.hint, error.exit_code, is_json)
    except click.exceptions.NoArgsIsHelpError as error:
        write_note(error.format_message())
        return _told(error, "no command is given", "", 2, is_json)
    except click.ClickException as error:
        return _fail(error, error.format_message(), _usage_hint(error), 2, is_json)
    except (Interrupted, click.Abort) as stop:
        code = getattr(stop, "exit_code", 130)
        name = signal.Signals(code - 128).name
        return _fail(stop, f"stopped by {name}", _STOP_HINT, code, is_json)
    except Exception as error:  # noqa: BLE001  the last place that can say anything
        if _is_asked(arguments, "-v") or _is_asked(arguments, "--verbose"):
            write_note(traceback.format_exc())
        return _fail(error, f"{type(error).__name__}: {error}", _BUG_HINT, 1, is_json)
    return int(code or 0)


def _is_asked(arguments: Sequence[str], flag: str) -> bool:
    """Whether a flag is on the line: for errors of the line itself, before it is parsed."""
    return flag in arguments


def _usage_hint(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    return f"run '{context.command_path if context else 'bcn'} --help'"


def _fail(error: BaseException, message: str, hint: str, exit_code: int, is_json: bool) -> int:
    write_error(message, hint)
    return _told(error, message, hint, exit_code, is_json)


def _told(error: BaseException, message: str, hint: str, exit_code: int, is_json: bool) -> int:
    if is_json:
        try:
            write_json({"error": error_json(error, message, hint, exit_code)})
        except BcnError as unwritten:
            write_error(str(unwritten), unwritten.hint)
    return exit_code
