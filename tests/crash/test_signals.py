"""Ctrl-C and SIGTERM at any moment: a clean end, nothing left running, nothing lost."""

from __future__ import annotations

import functools
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from bcn.repository.lease import find_held_lease
from tests.support.command import (
    Answer,
    Desk,
    answer_of,
    session_members,
    started,
    stored_bytes,
    wait_for_end,
    wait_until,
)

pytestmark = pytest.mark.long

BACKUP = ("backup", "--limit-rate", "8M")
LARGE = 24 << 20

# Runs a step of a backup with a signal before or after it, as if it came just then.
HOOK = """
import os, signal, bcn.backup.run as run
real = run.{step}
def step(*arguments):
    if "{when}" == "before": os.kill(os.getpid(), signal.{name})
    result = real(*arguments)
    if "{when}" == "after": os.kill(os.getpid(), signal.{name})
    return result
run.{step} = step
"""


def add_large(desk: Desk) -> None:
    desk.add_table("large", snapshots=2, files=12, file_bytes=1 << 20)


def stop(process: subprocess.Popen[str], number: signal.Signals) -> Answer:
    """Ctrl-C goes to all processes of a terminal, SIGTERM to the one that was named."""
    if number is signal.SIGINT:
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    return answer_of(process)


def check_stopped(
    desk: Desk, process: subprocess.Popen[str], answer: Answer, number: signal.Signals
) -> None:
    assert answer.code == 128 + number
    assert answer.error == "Interrupted"
    assert answer.hint
    assert answer.seconds < 15, "nobody waits for Spark to start before it is ended"
    assert "Traceback" not in answer.stderr
    assert wait_for_end(process.pid) == {}
    assert find_held_lease(desk.repository.storage) is None
    assert len(desk.pits()) == 1


@pytest.mark.parametrize(
    ("step", "when", "number", "published"),
    [
        ("capture", "before", signal.SIGINT, False),
        ("publish", "before", signal.SIGTERM, False),
        ("write_derived", "before", signal.SIGINT, True),
        ("write_derived", "after", signal.SIGTERM, True),
    ],
)
def test_a_signal_around_publishing_leaves_a_whole_pit_or_none(
    desk: Desk, step: str, when: str, number: signal.Signals, published: bool
) -> None:
    answer = desk.run("backup", hook=HOOK.format(step=step, when=when, name=number.name))
    assert (answer.code, answer.error) == (128 + number, "Interrupted")
    assert len(desk.pits()) == 1 + published
    assert find_held_lease(desk.repository.storage) is None
    again = desk.run("backup")
    assert again.code == 0
    assert again.report["parent_pit"] == desk.pits()[-2]


LOSING = {
    "callback": """\
@ctypes.CFUNCTYPE(None)
def lose(): os.kill(os.getpid(), signal.SIGTERM)
""",
    "destructor": """\
class Thing:
    def __del__(self): os.kill(os.getpid(), signal.SIGTERM)
lose = Thing
""",
    "catch all": """\
def lose():
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(1)
    except:
        pass
""",
    "catch all, kept": """\
def lose():
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(1)
    except BaseException as error:
        reason = str(error)
""",
}


@pytest.mark.parametrize("way", LOSING)
def test_a_signal_that_a_library_drops_is_not_lost(way: str) -> None:
    """Python drops what is raised in a callback of C or a destructor; some code catches all."""
    script = (
        "import ctypes, os, signal, time\n"
        "from bcn.cli.signals import catch_signals\n"
        "catch_signals()\n"
        f"{LOSING[way]}"
        "try:\n"
        "    lose()\n"
        "    time.sleep(30)\n"
        "except BaseException as stop: print(repr(stop))\n"
    )
    line = [sys.executable, "-c", script]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("Interrupted(143)\n", "")


def test_a_stop_that_was_told_does_not_come_again() -> None:
    script = (
        "import os, signal, time\n"
        "from bcn.cli import main\n"
        "def work(_arguments):\n"
        "    try: os.kill(os.getpid(), signal.SIGTERM); time.sleep(30)\n"
        "    except BaseException as stop: print(repr(stop))\n"
        "    return 143\n"
        "main.run = work\n"
        "leave = main._leave\n"
        "main._leave = lambda code: (time.sleep(1), print('left'), leave(code))\n"
        "main.main()\n"
    )
    line = [sys.executable, "-c", script]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (143, "Interrupted(143)\nleft\n", "")


@pytest.mark.spark
def test_signals_while_spark_starts_and_copies_leave_nothing_running_and_nothing_held(
    desk: Desk,
) -> None:
    add_large(desk)
    moments = [
        (signal.SIGTERM, lambda pid: any("java" in line for line in session_members(pid).values())),
        (signal.SIGINT, lambda _: stored_bytes(desk.location / "data") > LARGE // 6),
        (signal.SIGTERM, lambda _: stored_bytes(desk.location / "data") > LARGE // 2),
    ]
    for number, has_come in moments:
        with started([desk.start(*BACKUP)]) as (process,):
            wait_until(functools.partial(has_come, process.pid), process)
            check_stopped(desk, process, stop(process, number), number)
    done = desk.run("backup")
    assert (done.code, done.error) == (0, None)
    assert done.report["bytes_adopted"] > LARGE // 3
    verified = desk.run("verify", "--level", "3")
    assert (verified.code, verified.report["ok"]) == (0, True)
    assert [len(verified.report["pits"]), verified.report["errors"]] == [2, 0]


@pytest.mark.spark
@pytest.mark.slow
def test_signals_at_random_moments_of_a_whole_run(desk: Desk) -> None:
    add_large(desk)
    chance = random.Random(11)
    moments = [0.02, 0.1, 0.3, *(chance.uniform(0.3, 9) for _ in range(13))]
    for number, moment in zip([signal.SIGINT, signal.SIGTERM] * 8, moments, strict=True):
        with started([desk.start("backup", "--limit-rate", "2M")]) as (process,):
            time.sleep(moment)
            answer = stop(process, number)
            assert wait_for_end(process.pid) == {}
        # Python itself, before the first line of bcn, knows no better than to die of a signal.
        assert answer.code == 128 + number or (moment < 0.3 and answer.code in {-number, 1})
        assert find_held_lease(desk.repository.storage) is None
        assert len(desk.pits()) == 1
        assert len(desk.run("list").report["pits"]) == 1
    assert desk.run("backup").code == 0
    assert desk.run("verify", "--level", "3").report["ok"]
