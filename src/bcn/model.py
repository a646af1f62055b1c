"""Values that two packages share: names of tables, points in time, digests."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeAlias

from bcn.errors import BadNameError, UsageError

Json: TypeAlias = dict[str, Any]

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_]*[A-Za-z_][A-Za-z0-9_]*\Z")


def quote_name(name: str) -> str:
    """A level of a name as Spark writes it: back-ticked where it is not a plain word."""
    return name if _PLAIN_NAME.match(name) else "`" + name.replace("`", "``") + "`"


def join_names(levels: Iterable[str]) -> str:
    """Levels of a name joined by dots."""
    return ".".join(quote_name(level) for level in levels)


_LEVEL = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")


def split_names(text: str) -> tuple[str, ...]:
    """Levels of a dotted name; back-ticks protect dots. Raises BadNameError."""
    levels: list[str] = []
    position = 0
    while True:
        match = _LEVEL.match(text, position)
        if match is None:
            raise BadNameError(f"bad name {text!r}")
        levels.append(match[1].replace("``", "`") if match[1] is not None else match[2])
        position = match.end()
        if position == len(text):
            return tuple(check_name(level) for level in levels)
        if text[position] != ".":
            raise BadNameError(f"bad name {text!r}")
        position += 1


def check_name(name: str) -> str:
    """The name itself if a catalog, database or table may be called so."""
    if name in {"", ".", ".."} or "/" in name or "\0" in name:
        raise BadNameError(f"bad name {name!r}")
    return name


@dataclass(frozen=True, slots=True, order=True)
class TableId:
    """A table or view by name, within one catalog."""

    namespace: tuple[str, ...]
    name: str

    def __str__(self) -> str:
        return join_names((*self.namespace, self.name))

    @property
    def database(self) -> str:
        """The namespace as one dotted name."""
        return join_names(self.namespace)

    @classmethod
    def parse(cls, text: str) -> TableId:
        """From `database.table`, any number of levels."""
        *namespace, name = split_names(text)
        return cls(tuple(namespace), name)


_PIT_FORMAT = "%Y%m%dT%H%M%S.%fZ"


@dataclass(frozen=True, slots=True, order=True)
class PitId:
    """The id of a point in time: its moment in UTC to the microsecond, sortable as text."""

    text: str

    def __str__(self) -> str:
        return self.text

    @classmethod
    def of(cls, moment: datetime) -> PitId:
        """The id of a moment."""
        return cls(moment.astimezone(UTC).strftime(_PIT_FORMAT))

    @classmethod
    def parse(cls, text: str) -> PitId:
        """From the exact form. Raises UsageError for any other text."""
        pit = cls.find(text)
        if pit is None:
            raise UsageError(f"{text!r} is not the id of a point in time")
        return pit

    @classmethod
    def find(cls, text: str) -> PitId | None:
        """From the exact form; None for any other text."""
        pit = cls(text)
        with suppress(ValueError):
            return pit if cls.of(pit.moment) == pit else None
        return None

    @property
    def moment(self) -> datetime:
        """The moment it stands for."""
        return datetime.strptime(self.text, _PIT_FORMAT).replace(tzinfo=UTC)


def iso(moment: datetime) -> str:
    """A moment as stored documents spell it."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def sha256(data: bytes | memoryview) -> str:
    """The digest of bytes, in lower-case hex."""
    return hashlib.sha256(data).hexdigest()
