"""bcn as a process: exit codes, streams, signals, what it imports and how soon it answers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bcn.model import PitId
from bcn.repository.lease import LeaseSettings, Lessor
from tests.cli.made import PITS, START, Folder, clean_environment, damage

pytestmark = pytest.mark.long

HEAVY = {"pyspark", "pyarrow", "numpy", "numba", "sqlalchemy", "pyiceberg", "rich", "fastavro"}


@pytest.mark.parametrize("command", ["--help", "list", "list --pit latest", "describe", "unlock"])
def test_what_only_reads_imports_nothing_heavy(stocked: Folder, command: str) -> None:
    script = (
        "import sys\n"
        "from bcn.cli.main import run\n"
        "code = run(sys.argv[1:])\n"
        "print(code, *(name for name in sys.modules if '.' not in name), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *command.split()],
        cwd=stocked.root,
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    code, *modules = done.stderr.split()
    assert code == "0"
    assert "click" in modules
    assert not HEAVY & set(modules)


@pytest.mark.parametrize("command", ["--help", "list", "describe"])
def test_what_only_reads_answers_at_once(stocked: Folder, command: str) -> None:
    spent = []
    for _ in range(3):
        started = time.monotonic()
        assert stocked.run(command).returncode == 0
        spent.append(time.monotonic() - started)
    assert min(spent) < 1.5


def test_an_error_is_told_on_stderr_with_a_hint(folder: Folder) -> None:
    done = folder.run("list")
    assert done.returncode == 10
    assert done.stdout == ""
    assert done.stderr.splitlines() == [
        f"error: no repository at {folder.location}",
        "hint: check --repo, or make one with 'bcn init' or a first 'bcn backup'",
    ]


def test_an_error_is_told_as_an_object_too(folder: Folder) -> None:
    done = folder.run("list", "--json")
    assert done.returncode == 10
    assert json.loads(done.stdout) == {
        "error": {
            "class": "NoRepositoryError",
            "message": f"no repository at {folder.location}",
            "hint": "check --repo, or make one with 'bcn init' or a first 'bcn backup'",
            "exit_code": 10,
        }
    }
    assert done.stderr.startswith("error: ")


@pytest.mark.parametrize(
    "arguments",
    [
        ("nope",),
        ("list", "--nope"),
        ("list", "extra"),
        ("verify", "--level", "6"),
        ("verify", "--level", "deep"),
        ("backup", "--jobs", "0"),
        ("restore", "--uuid", "maybe"),
        ("restore", "--pit"),
        (),
    ],
)
def test_a_line_that_cannot_be_read_is_an_error_of_its_own(
    stocked: Folder, arguments: tuple[str, ...]
) -> None:
    done = stocked.run("--json", *arguments)
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["exit_code"] == 2
    assert "Traceback" not in done.stderr


def test_a_wrong_option_points_to_the_help_of_its_command(stocked: Folder) -> None:
    assert "hint: run 'bcn list --help'" in stocked.run("list", "--nope").stderr


def test_a_bug_is_one_line_and_a_stack_trace_only_on_request(stocked: Folder) -> None:
    script = (
        "import sys\n"
        "from bcn.cli import main\n"
        "import click\n"
        "@main.cli.command('broken')\n"
        "@click.option('-v', is_flag=True)\n"
        "@click.option('--json', is_flag=True)\n"
        "def broken(v, json): {}['x']\n"
        "sys.exit(main.run(['broken', *sys.argv[1:]]))\n"
    )
    line = [sys.executable, "-c", script]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[0] == "error: KeyError: 'x'"
    assert "bug" in done.stderr.splitlines()[1]
    assert len(done.stderr.splitlines()) == 2
    shown = subprocess.run([*line, "-v"], capture_output=True, text=True, check=False)
    assert "Traceback" in shown.stderr
    told = subprocess.run([*line, "--json"], capture_output=True, text=True, check=False)
    assert json.loads(told.stdout)["error"]["class"] == "KeyError"


def test_no_password_reaches_a_message(folder: Folder) -> None:
    text = "[catalogs.prod]\ntype = 'sql'\nuri = 'postgresql://ada:secret77@db/x'\n"
    (folder.root / "bcn.toml").write_text(text)
    done = folder.run("backup", "--catalog", "prod", "--repo", "new", "-v", "--json")
    assert done.returncode != 0
    assert "secret77" not in done.stdout + done.stderr
    done = folder.run("list", "--repo", "s3://ada:secret77@bucket/x", "--json")
    assert done.returncode == 15
    assert "secret77" not in done.stdout + done.stderr


# streams


def test_a_reader_that_goes_away_is_no_error(stocked: Folder) -> None:
    process = stocked.start("list")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.wait(timeout=60) == 0
    assert process.stderr.read() == ""
    process.stderr.close()


def test_a_result_that_cannot_be_written_is_an_error(stocked: Folder) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "bcn", "list"],
            cwd=stocked.root,
            env=clean_environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 15
    assert "cannot write the result" in done.stderr
    assert "Traceback" not in done.stderr


def test_output_survives_a_terminal_that_knows_ascii_only(stocked: Folder) -> None:
    done = stocked.run("list", "--database", "größe", PYTHONIOENCODING="ascii")
    assert done.returncode == 14
    assert "gr\\xf6\\xdfe" in done.stderr


def test_a_damaged_pit_is_a_warning_beside_the_object(stocked: Folder) -> None:
    damage(stocked.repository, PITS[0])
    done = stocked.run("list", "--json")
    report = json.loads(done.stdout)
    assert done.returncode == 0
    assert [pit["damaged"] is None for pit in report["pits"]] == [False, True, True]
    assert len(report["warnings"]) == 1
    assert "is damaged" in done.stderr


# signals


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["int", "term"]
)
def test_a_signal_stops_a_command_cleanly(
    stocked: Folder, number: signal.Signals, code: int
) -> None:
    repository = stocked.repository
    later = PitId.of(datetime(2026, 9, 1, tzinfo=UTC))
    lessor = Lessor(repository.storage, LeaseSettings(3600), lambda: START)
    with lessor.hold(later, repository.pit_key(later), None):
        process = stocked.start("unlock", "--json")  # watches the heart for a long time
        _wait_until_it_sleeps(process.pid)
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    assert process.returncode == code
    error = json.loads(out)["error"]
    assert (error["class"], error["exit_code"]) == ("Interrupted", code)
    assert err.splitlines() == [
        f"error: stopped by {number.name}",
        "hint: nothing that was finished is lost; the same command goes on where this one stopped",
    ]


def _wait_until_it_sleeps(pid: int) -> None:
    """Until the handlers are set, as the kernel knows them."""
    caught = 0
    while not caught & (1 << (signal.SIGTERM - 1)):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        caught = int(next(line for line in lines if line.startswith("SigCgt")).split()[1], 16)
        time.sleep(0.05)
    time.sleep(0.5)


def test_a_second_signal_ends_the_clean_up_at_once() -> None:
    script = (
        "import os, signal, time\n"
        "from bcn.cli.signals import catch_signals\n"
        "from bcn.errors import Interrupted\n"
        "catch_signals()\n"
        "try:\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    time.sleep(60)\n"
        "except Interrupted as stop:\n"
        "    print('cleaning up', stop.exit_code, flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    time.sleep(60)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.stdout == "cleaning up 143\n"
    assert (done.returncode, done.stderr) == (130, "")


def test_a_module_run_is_the_command(stocked: Folder) -> None:
    script = Path(sys.executable).with_name("bcn")
    done = subprocess.run(
        [script, "list"],
        cwd=stocked.root,
        env=clean_environment() | {"PATH": os.environ.get("PATH", "")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == stocked.run("list").stdout
