"""What a mutant is, and how it is put into a copy of the source."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import utime
from pathlib import Path


class MutantError(Exception):
    """The text that a mutant replaces is not there, or not only once."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One step left out: `old` becomes `new` in `file` (under src/bcn), then `tests` must fail."""

    name: str
    step: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def mutated(self, text: str) -> str:
        """The source without the step. Raises MutantError."""
        count = text.count(self.old)
        if count != 1:
            raise MutantError(f"{self.file} has its text {count} times")
        return text.replace(self.old, self.new)


@contextmanager
def applied(mutant: Mutant, source: Path) -> Iterator[None]:
    """The mutant in a copy of the source, until the end of the block. Raises MutantError.

    What is put back has its old time of change too: compiled loops are cached by it.
    """
    path = source / mutant.file
    before, times = path.read_text(), path.stat()
    path.write_text(mutant.mutated(before))
    try:
        yield
    finally:
        path.write_text(before)
        utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
