"""Text and JSON as they leave the process: aligned, in units people read, without secrets."""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from bcn.catalog.protocol import public_location
from bcn.config.secrets import redact_text
from bcn.errors import BcnError, StorageError
from bcn.model import Json

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_FIGURE = re.compile(r"\d[\d,.]*( [KMGTP]?i?B)?|[-?]")
_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB")


# units


def format_bytes(count: float) -> str:
    """A size with a unit that keeps it short."""
    if count < 1024:
        return f"{count:.0f} B"
    for unit in _UNITS:
        count /= 1024
        if count < 1000 or unit == _UNITS[-1]:
            break
    return f"{count:.1f} {unit}"


def format_requests(requests: Mapping[str, int]) -> str:
    """Requests to object stores by kind, most of them first; tries that had to be repeated last."""
    kinds = sorted(requests.items(), key=lambda item: (item[0] == "retry", -item[1], item[0]))
    words = {"retry": "tried again"}
    return ", ".join(f"{count:,} {words.get(kind, kind)}" for kind, count in kinds)


def format_seconds(seconds: float) -> str:
    """A time span: tenths while it is short, then minutes and hours."""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}"


def format_count(count: int, noun: str) -> str:
    """A number and what is counted."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def format_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Lines of columns; those with nothing but figures in them stand to the right."""
    cells = [[clean(str(cell)) for cell in row] for row in rows]
    widths = [max(len(line[i]) for line in [list(header), *cells]) for i in range(len(header))]
    right = [
        bool(cells) and all(_FIGURE.fullmatch(line[i]) for line in cells)
        for i in range(len(widths))
    ]
    return [
        "  ".join(
            cell.rjust(width) if is_right else cell.ljust(width)
            for cell, width, is_right in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in [list(header), *cells]
    ]


def clean(text: str) -> str:
    """A text that cannot move a terminal's cursor or colour: control characters are spelled out."""
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


# what to type next


def command_line(words: Sequence[str | None]) -> str:
    """A command to copy and run; words that are None are left out, with the flag before them."""
    kept: list[str] = []
    for word in words:
        if word is None:
            kept.pop()
        else:
            kept.append(word)
    return shlex.join(kept)


# leaving the process


def redacted(value: Any, key: str = "") -> Any:
    """A JSON value without secrets. Locations stay exact, but for a password of their server."""
    if isinstance(value, str):
        is_location = key.endswith("location") or key in {"repository", "old", "new"}
        return public_location(value) if is_location else redact_text(value)
    if isinstance(value, Mapping):
        return {name: redacted(item, str(name)) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [redacted(item, key) for item in value]
    return value


def error_json(error: BaseException, message: str, hint: str, exit_code: int) -> Json:
    """The documented object of an error, docs/json-output.md."""
    return {
        "class": type(error).__name__,
        "message": message,
        "hint": hint,
        "exit_code": exit_code,
    }


def bcn_error_json(error: BcnError) -> Json:
    """The documented object of an error of ours."""
    return error_json(error, str(error), error.hint, error.exit_code)


def write_json(document: Json) -> None:
    """The one object that a command prints with --json; ASCII, so that any name gets through."""
    _write(sys.stdout, json.dumps(redacted(document), indent=2))


def write_result(lines: Sequence[str]) -> None:
    """A command's result for people."""
    _write(sys.stdout, "\n".join(redact_text(line) for line in lines))


def write_note(text: str) -> None:
    """A line for people beside the result. One that cannot be shown never stops the work."""
    try:
        sys.stderr.write(redact_text(text) + "\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        return


def write_error(message: str, hint: str) -> None:
    """What went wrong and what to do about it."""
    write_note(f"error: {clean(message)}")
    if hint:
        write_note(f"hint: {clean(hint)}")


def _write(stream: TextIO, text: str) -> None:
    """Raises StorageError if it cannot be written; a reader that went away is no error."""
    try:
        stream.write(text + "\n")
        stream.flush()
    except OSError as error:
        _discard_stdout()
        if error.errno != errno.EPIPE:
            reason = (error.strerror or str(error)).lower()
            raise StorageError(f"cannot write the result: {reason}") from error


def _discard_stdout() -> None:
    """Let what is still buffered go nowhere, or Python would complain on its way out."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        return
