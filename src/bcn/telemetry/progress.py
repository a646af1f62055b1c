"""Progress events: who works reports counts, who shows decides how."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol


class Progress(Protocol):
    """Where a run reports to. Counts are totals so far, not steps."""

    def phase(self, name: str, files: int | None = None, size_bytes: int | None = None) -> None:
        """A new phase begins; its size where it is known."""

    def update(self, files: int, size_bytes: int) -> None:
        """So much of the phase is done."""

    def message(self, text: str) -> None:
        """Something a person should read now."""


class Silent:
    """Reports to nobody."""

    def phase(self, name: str, files: int | None = None, size_bytes: int | None = None) -> None:
        """Nothing to show."""

    def update(self, files: int, size_bytes: int) -> None:
        """Nothing to show."""

    def message(self, text: str) -> None:
        """Nothing to show."""


@dataclass
class Stopwatch:
    """Seconds by phase, on a monotonic clock."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the time spent inside to the phase."""
        started = time.monotonic()
        try:
            yield
        finally:
            spent = self.seconds.get(name, 0.0) + time.monotonic() - started
            self.seconds[name] = round(spent, 3)
