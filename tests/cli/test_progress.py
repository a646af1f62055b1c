"""Progress: true figures, few lines, and never a reason for the work to stop."""

from __future__ import annotations

import io
import sys
import time

import pytest
from rich.console import Console
from rich.progress import Progress as Bar

from bcn.cli.progress import Lines, Phase, Terminal, _open_bar, figures, open_progress
from bcn.telemetry.progress import Silent


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_figures_are_those_that_were_counted() -> None:
    phase = Phase("copying", 100.0, 10, 10 << 20)
    phase.count(1, 1 << 20, 102.0)
    phase.count(5, 5 << 20, 104.0)
    assert figures(phase, 105.0) == "5.0 MiB of 10.0 MiB, 5 of 10 files, 1.0 MiB/s, 3.8 s left"


def test_starting_up_is_not_counted_as_pace() -> None:
    phase = Phase("copying", 100.0, 100, 100 << 20)
    phase.count(1, 1 << 20, 160.0)
    assert "left" not in figures(phase, 160.1)
    phase.count(51, 51 << 20, 165.0)
    assert figures(phase, 165.0).endswith("4.9 s left")


def test_a_plan_that_was_short_is_not_shown_as_more_than_all() -> None:
    phase = Phase("copying", 100.0, 2, 100)
    phase.count(2, 150, 110.0)
    assert figures(phase, 110.0) == "150 B, 2 files, 15 B/s, 10.0 s"


def test_a_phase_without_counts_shows_its_time() -> None:
    assert figures(Phase("publishing", 100.0), 101.5) == "1.5 s"


def test_a_phase_of_files_alone_has_a_share() -> None:
    phase = Phase("checking", 100.0, 4)
    phase.count(1, 0, 101.0)
    phase.count(3, 0, 103.0)
    assert (phase.share, phase.seconds_left(103.0)) == (0.75, 1.0)


def test_lines_come_every_ten_seconds_and_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    lines = Lines(clock)
    lines.update(1, 1)  # before any phase: nothing to say
    lines.phase("copying", 100, 100 << 20)
    for second in range(25):
        clock.now = 100.0 + second
        lines.update(second, second << 20)
    lines.phase("publishing")
    lines.close()
    shown = capsys.readouterr()
    assert shown.out == ""
    assert [line.split(",")[0] for line in shown.err.splitlines()] == [
        "copying: 10.0 MiB of 100.0 MiB",
        "copying: 20.0 MiB of 100.0 MiB",
        "copying: 24.0 MiB of 100.0 MiB",
        "publishing: 0.0 s",
    ]


def test_messages_hold_no_password_and_move_no_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    Lines().message("cannot reach sql://ada:pw@db\x1b[2J")
    assert capsys.readouterr().err == "cannot reach sql://***@db\\x1b[2J\n"


def test_a_stderr_that_is_gone_does_not_stop_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed)
    lines = Lines()
    lines.phase("copying")
    lines.message("hello")
    lines.close()


def test_quiet_is_silent() -> None:
    with open_progress(is_quiet=True) as progress:
        assert isinstance(progress, Silent)


def test_elsewhere_than_on_a_terminal_there_are_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with open_progress(is_quiet=False) as progress:
        progress.phase("reading the catalog")
    assert capsys.readouterr().err.startswith("reading the catalog: ")


def _draw(bar: Bar) -> str:
    console = Console(file=io.StringIO(), width=120, force_terminal=True, color_system=None)
    console.print(bar.get_renderable())
    return console.file.getvalue()  # type: ignore[attr-defined]  # a StringIO


def test_a_terminal_shows_one_phase_with_the_same_figures() -> None:
    bar = _open_bar()
    progress = Terminal(bar)
    progress.update(1, 1)  # before any phase: nothing to show
    progress.phase("reading [the] catalog")
    progress.phase("copying", 4, 4 << 20)
    progress.update(1, 1 << 20)
    time.sleep(0.3)  # figures are drawn anew five times a second
    drawn = _draw(bar)
    assert "reading" not in drawn
    assert "copying" in drawn
    assert "1.0 MiB of 4.0 MiB, 1 of 4 files" in drawn
    assert bar.tasks[0].percentage == 25.0


def test_names_with_brackets_are_shown_as_they_are() -> None:
    bar = _open_bar()
    Terminal(bar).phase("reading [red]it[/red]")
    assert "reading [red]it[/red]" in _draw(bar)
