"""Progress for people, on stderr: a bar on a terminal, lines elsewhere; same figures."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bcn.cli.output import clean, format_bytes, format_seconds, write_note
from bcn.config.secrets import redact_text
from bcn.telemetry.progress import Progress, Silent

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import Task

LINE_SECONDS = 10.0
PACE_SECONDS = 1.0


@dataclass
class Phase:
    """One phase: how much there is, how much is done, since when.

    `first` is when the first count came, and what it was: starting Spark belongs to a phase, but
    says nothing of its pace.
    """

    name: str
    started: float
    files_total: int | None = None
    bytes_total: int | None = None
    files: int = 0
    size_bytes: int = 0
    first: tuple[float, float] | None = None

    def count(self, files: int, size_bytes: int, now: float) -> None:
        """So much is done by now."""
        self.files, self.size_bytes = files, size_bytes
        if self.first is None and (files or size_bytes):
            self.first = (now, self.share or 0.0)

    @property
    def share(self) -> float | None:
        """How much is done, 0 to 1; None where the size is not known."""
        if self.bytes_total:
            return min(1.0, self.size_bytes / self.bytes_total)
        return min(1.0, self.files / self.files_total) if self.files_total else None

    def seconds_left(self, now: float) -> float | None:
        """At the pace since the first count; None while it cannot be told."""
        if self.first is None or self.share is None or self.share == 1.0:
            return None
        since, share = self.first
        gained = self.share - share
        if now - since < PACE_SECONDS or gained <= 0:
            return None
        return (now - since) * (1 - self.share) / gained


def figures(phase: Phase, now: float) -> str:
    """Bytes, files, rate and time left, as far as they are known."""
    spent = max(now - phase.started, 0.001)
    if not (phase.files or phase.size_bytes or phase.files_total or phase.bytes_total):
        return format_seconds(spent)
    size = _of(phase.size_bytes, phase.bytes_total, format_bytes)
    files = _of(phase.files, phase.files_total, "{:,}".format)
    noun = "file" if files == "1" else "files"
    left = phase.seconds_left(now)
    last = format_seconds(spent) if left is None else f"{format_seconds(left)} left"
    return f"{size}, {files} {noun}, {format_bytes(phase.size_bytes / spent)}/s, {last}"


def _of(done: int, total: int | None, spell: Callable[[int], str]) -> str:
    """What is done of what there is; plans may be short of what sources turn out to hold."""
    return f"{spell(done)} of {spell(total)}" if total and total > done else spell(done)


class Lines:
    """Plain lines: at most one every ten seconds, and one at the end of each phase."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._phase: Phase | None = None
        self._said = 0.0

    def phase(self, name: str, files: int | None = None, size_bytes: int | None = None) -> None:
        """End the phase before, begin this one."""
        with self._lock:
            self._end()
            self._said = self._monotonic()
            self._phase = Phase(name, self._said, files, size_bytes)

    def update(self, files: int, size_bytes: int) -> None:
        """Count; say so if nothing was said for long."""
        with self._lock:
            if self._phase is None:
                return
            now = self._monotonic()
            self._phase.count(files, size_bytes, now)
            if now - self._said >= LINE_SECONDS:
                self._said = now
                write_note(f"{self._phase.name}: {figures(self._phase, now)}")

    def message(self, text: str) -> None:
        """A line of its own."""
        write_note(clean(text))

    def close(self) -> None:
        """End the last phase."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        if self._phase is not None:
            write_note(f"{self._phase.name}: {figures(self._phase, self._monotonic())}")
        self._phase = None


class Terminal:
    """A bar that is redrawn in place, and is gone when the work is done."""

    def __init__(self, bar: Bar) -> None:
        self._bar = bar
        self._phase: Phase | None = None

    def phase(self, name: str, files: int | None = None, size_bytes: int | None = None) -> None:
        """Show this phase in place of the one before."""
        for task in self._bar.task_ids:
            self._bar.remove_task(task)
        phase = self._phase = Phase(name, time.monotonic(), files, size_bytes)
        self._bar.add_task(name, total=1.0 if size_bytes or files else None, phase=phase)

    def update(self, files: int, size_bytes: int) -> None:
        """Count; the bar redraws itself."""
        phase = self._phase
        if phase is None:
            return
        phase.count(files, size_bytes, time.monotonic())
        for task in self._bar.task_ids:
            self._bar.update(task, completed=phase.share or 0.0)

    def message(self, text: str) -> None:
        """A line above the bar."""
        line = clean(redact_text(text))
        self._bar.console.print(line, markup=False, highlight=False, soft_wrap=True)


def _open_bar() -> Bar:
    from rich import progress  # noqa: PLC0415  slow to import, and needed on terminals only
    from rich.console import Console  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    class Figures(progress.ProgressColumn):
        """The same figures that plain lines have, as of now."""

        max_refresh = 0.2

        def render(self, task: Task) -> Text:
            return Text(figures(task.fields["phase"], time.monotonic()))

    return progress.Progress(
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(bar_width=24),
        Figures(),
        console=Console(stderr=True),
        transient=True,
    )


@contextmanager
def open_progress(*, is_quiet: bool) -> Iterator[Progress]:
    """Whatever shows progress best where stderr goes to."""
    if is_quiet:
        yield Silent()
    elif sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        with _open_bar() as bar:
            yield Terminal(bar)
    else:
        lines = Lines()
        try:
            yield lines
        finally:
            lines.close()
