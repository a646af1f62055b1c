"""Settings under construction: what was written, and where."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Entry:
    """A value as written, where it stands, and the folder that its relative paths start at."""

    value: str | int | bool
    origin: str  # for errors: the file, the section and the key, or the variable
    folder: str
    source: str  # the file or the variable alone


@dataclass(slots=True)
class Section:
    """A table of settings under construction; `name` is empty where sections have none.

    A borrowed one was written for another program: what is wrong in it matters only when it is
    used, and keys that bcn does not know are left alone.
    """

    kind: str
    name: str
    origin: str
    entries: dict[str, Entry]
    is_borrowed: bool = False

    @property
    def title(self) -> str:
        """As a file spells it."""
        return f"[{self.kind}.{self.name}]" if self.name else f"[{self.kind}]"


Sections = dict[tuple[str, str], Section]
