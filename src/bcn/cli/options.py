"""Options that several commands take, and the texts that people give them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from bcn.cli.app import App
from bcn.errors import UsageError

Command = TypeVar("Command", bound=Callable[..., Any])

_RATE = re.compile(r"(\d+(?:\.\d+)?) ?([KMGT]?)(?:i?B)?(?:/s)?\Z", re.IGNORECASE | re.ASCII)
_DURATION = re.compile(r"(\d+(?:\.\d+)?) ?([smhd]?)\Z", re.IGNORECASE | re.ASCII)
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_MAPPING = re.compile(r"=(?=/|~|\.|[A-Za-z][A-Za-z0-9+.-]*:)")


def parse_rate(text: str) -> float:
    """Bytes a second, from `50M`; a K is 1024. Raises UsageError."""
    match = _RATE.match(text.strip())
    rate = float(match[1]) * 1024 ** " KMGT".index(match[2].upper() or " ") if match else 0.0
    if rate < 1:
        raise UsageError(f"{text!r} is no rate", hint="give bytes a second, such as 50M or 800K")
    return rate


def parse_duration(text: str) -> float:
    """Seconds, from `30`, `30s`, `5m`, `1h`. Raises UsageError."""
    match = _DURATION.match(text.strip())
    if match is None:
        raise UsageError(f"{text!r} is no duration", hint="give 30, 30s, 5m or 1h")
    return float(match[1]) * _SECONDS[match[2].lower()]


def parse_labels(texts: Sequence[str]) -> dict[str, str]:
    """Labels, from `key=value` each. Raises UsageError."""
    labels: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise UsageError(f"{text!r} is no label", hint="give --label KEY=VALUE")
        if key in labels:
            raise UsageError(f"label {key!r} is given twice", hint="give each label once")
        labels[key] = value
    return labels


def parse_mappings(texts: Sequence[str]) -> dict[str, str]:
    """Roots and where they go, from `OLD=NEW` each; NEW is a place. Raises UsageError."""
    mappings: dict[str, str] = {}
    for text in texts:
        parts = text.split("=") if text.count("=") == 1 else _MAPPING.split(text)
        if len(parts) != 2 or not all(parts):
            raise UsageError(
                f"{text!r} does not say which root goes where",
                hint="give --map-root OLD=NEW, such as --map-root s3://old/t=/new/t",
            )
        if parts[0] in mappings:
            raise UsageError(f"root {parts[0]!r} is mapped twice", hint="map each root once")
        mappings[parts[0]] = parts[1]
    return mappings


# flags of every command


def _keep(field: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    """A callback that hands a flag to the App, wherever on the line it stood."""

    def keep(context: click.Context, _parameter: click.Parameter, value: Any) -> None:
        if value is not None and value is not False:
            setattr(context.ensure_object(App), field, value)

    return keep


def _common(field: str, *names: str, **attributes: Any) -> Callable[[Command], Command]:
    keep = _keep(field)
    return click.option(*names, field, callback=keep, expose_value=False, **attributes)


def common_options(envvar: str | None = None) -> Callable[[Command], Command]:
    """`--repo --config --json --quiet --verbose`; only the group looks at the environment."""
    flags = [
        _common(
            "repo",
            "--repo",
            metavar="NAME|LOCATION",
            envvar=envvar,
            help="The repository: a [repositories.NAME] section, a path or a URI. "
            "Default: $BCN_REPO, or the only section.",
        ),
        _common("config", "--config", metavar="FILE", help="Settings, in place of bcn.toml."),
        _common("is_json", "--json", is_flag=True, help="Print one JSON object on stdout."),
        _common("is_quiet", "--quiet", "-q", is_flag=True, help="No progress on stderr."),
        _common("is_verbose", "--verbose", "-v", is_flag=True, help="Spark's log, stack traces."),
    ]

    def decorate(command: Command) -> Command:
        for flag in reversed(flags):
            command = flag(command)
        return command

    return decorate


# flags of some commands


def scope_options(command: Command) -> Command:
    """`--catalog --database --table`: one catalog, one database or one table."""
    for flag, text in (
        ("--table", "One table of the database."),
        ("--database", "One database of the catalog; levels are joined by dots."),
        ("--catalog", "A [catalogs.NAME] section."),
    ):
        command = click.option(flag, metavar="NAME", help=text)(command)
    return command


def filter_options(command: Command) -> Command:
    """`--database --table`, each with globs and repeatable."""
    for flag, name in (("--table", "tables"), ("--database", "databases")):
        text = f"Only {name} that match; may be given several times."
        command = click.option(flag, name, metavar="GLOB", multiple=True, help=text)(command)
    return command


def pit_option(default: str) -> Callable[[Command], Command]:
    """`--pit`; the default is for people, the command knows it too."""
    return click.option(
        "--pit",
        metavar="PIT",
        help="A point in time: its id or the beginning of it, latest, latest~2, or a time in any "
        f"ISO 8601 form (UTC without an offset) for the newest one by then. Default: {default}.",
    )


dry_run_option = click.option("--dry-run", is_flag=True, help="Say what would be done; do nothing.")
jobs_option = click.option(
    "--jobs", metavar="N", type=click.IntRange(min=1), help="How many tasks run at once."
)
rate_option = click.option(
    "--limit-rate",
    "bytes_per_second",
    metavar="RATE",
    callback=lambda _context, _parameter, text: None if text is None else parse_rate(text),
    help="Bytes a second at most, such as 50M (a K is 1024).",
)
lock_wait_option = click.option(
    "--lock-wait",
    "lock_wait_seconds",
    metavar="DURATION",
    default="0",
    callback=lambda _context, _parameter, text: parse_duration(text),
    help="How long to wait for another bcn that writes: 30, 30s, 5m or 1h.",
)
