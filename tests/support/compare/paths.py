"""Roots, how a location moves from an old one to a new one, and where its bytes are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

Resolve = Callable[[str], Path]

MIRRORS: dict[str, Path] = {}
"""Folders that hold the same files as places that are not local (`s3://bucket`)."""


@dataclass(frozen=True)
class Difference:
    """One thing that a restore got wrong: the rule (`G1`…), the file or field, what is there."""

    check: str
    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.check} {self.where}: {self.what}"


@dataclass(frozen=True)
class Moves:
    """Old root to new root, the longest old root first; a root matches at a `/` only."""

    pairs: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, pairs: Sequence[tuple[str, str]]) -> Moves:
        bare = {(old.rstrip("/"), new.rstrip("/")) for old, new in pairs}
        return cls(tuple(sorted(bare, key=lambda pair: (-len(pair[0]), pair))))

    def apply(self, location: str) -> str:
        """The new spelling of `location`; itself where no root matches."""
        for old, new in self.pairs:
            if location == old or location.startswith(old + "/"):
                return new + location[len(old) :]
        return location


def local_path(location: str) -> Path:
    """Where a location of the local file system is: `/x`, `file:/x` and `file:///x` alike.

    Where a location of another place is mirrored.
    """
    for place, folder in MIRRORS.items():
        if location.startswith(f"{place}/"):
            return folder / location.removeprefix(f"{place}/")
    bare = location.removeprefix("file:")
    if bare.startswith("///"):
        bare = bare[2:]
    if not bare.startswith("/"):
        raise ValueError(f"not a local location: {location}")
    return Path(bare)


def split_name(table: str) -> list[str]:
    """The levels of a dotted name; a level that holds dots itself stands in back-ticks."""
    levels, quoted, level = [], False, ""
    for character in table:
        if character == "`":
            quoted = not quoted
        elif character == "." and not quoted:
            levels.append(level)
            level = ""
        else:
            level += character
    return [*levels, level]
