"""What all commands share: the flags that every one takes, settings, progress, showing a report."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import click

from bcn import api
from bcn.cli.output import (
    bcn_error_json,
    command_line,
    write_error,
    write_json,
    write_note,
    write_result,
)
from bcn.cli.progress import open_progress
from bcn.config.load import load_settings
from bcn.errors import BcnError
from bcn.model import Json, PitId

if TYPE_CHECKING:
    from bcn.config.settings import Settings
    from bcn.telemetry.progress import Progress


class Report(Protocol):
    """What a command shows."""

    def as_json(self) -> Json:
        """The documented object, docs/json-output.md."""


@dataclass
class App:
    """One run of the command line; flags before and after the command's name end up here."""

    repo: str | None = None
    config: str | None = None
    is_json: bool = False
    is_quiet: bool = False
    is_verbose: bool = False

    @cached_property
    def settings(self) -> Settings:
        """From the file, the environment and the current folder."""
        config = None if self.config is None else Path(self.config)
        return load_settings(config, os.environ, Path.cwd())

    def progress(self) -> AbstractContextManager[Progress]:
        """Where long work reports to."""
        return open_progress(is_quiet=self.is_quiet)

    def warn(self, warnings: Sequence[str]) -> None:
        """Lines that must not be overlooked."""
        for warning in warnings:
            write_note(f"warning: {warning}")

    def show(self, report: Report, lines: Sequence[str], error: BcnError | None = None) -> None:
        """Print a report; with an error, which joins the same object, end with its exit code."""
        if self.is_json:
            problem = {} if error is None else {"error": bcn_error_json(error)}
            write_json({**report.as_json(), **problem})
        else:
            write_result(lines)
        if error is not None:
            write_error(str(error), error.hint)
            raise click.exceptions.Exit(error.exit_code)

    def restore_line(self, pit: PitId) -> str:
        """The command that brings a PIT back: into another catalog if one is configured."""
        catalog = api.find_catalog(self.repo, settings=self.settings)
        others = [name for name in self.settings.catalogs if name != catalog]
        repository = api.find_repository(self.settings, self.repo)
        return command_line(
            [
                *("bcn", "restore"),
                *("--config", self.config),
                *("--repo", repository.name or repository.location),
                *("--pit", str(pit)),
                *("--target-catalog", others[0] if others else None),
            ]
        )


pass_app = click.make_pass_decorator(App, ensure=True)
