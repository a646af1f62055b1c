"""Several writers at once: one writes, the others wait, refuse, or find that they came too late."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from bcn.catalog.protocol import TABLE, Pointer
from bcn.model import TableId
from bcn.repository.lease import find_held_lease
from tests.support.command import Desk, answer_of, open_desk, session_members, started, wait_until
from tests.support.small import InProcess

pytestmark = pytest.mark.long

# The process stops itself where it says, as a machine that is suspended would.
PAUSE_BEFORE_CHECK = """
import os, signal
from bcn.repository.lease import HeldLease
real = HeldLease.publish
def publish(self, data):
    os.kill(os.getpid(), signal.SIGSTOP)
    real(self, data)
HeldLease.publish = publish
"""
PAUSE_AFTER_CHECK = """
import os, signal
from bcn.repository.lease import HeldLease
real = HeldLease.check
def check(self):
    real(self)
    os.kill(os.getpid(), signal.SIGSTOP)
HeldLease.check = check
"""
WAIT_FOR_A_PIT = """
import time, pathlib
from bcn.repository.lease import Lessor
real = Lessor.wait_until_free
def wait_until_free(self, *arguments):
    print("ready", flush=True)
    while not list(pathlib.Path("repository").glob("leases/*.released")):
        time.sleep(0.01)
    return real(self, *arguments)
Lessor.wait_until_free = wait_until_free
"""
WAIT_FOR_ANOTHER = """
import time, pathlib
import bcn.backup.scope as scope_module
real = scope_module.create_repository
def create(spec, scope, now):
    print("ready", flush=True)
    while not pathlib.Path(spec.location, "manifest.json").exists():
        time.sleep(0.01)
    return real(spec, scope, now)
scope_module.create_repository = create
"""

# Processes of other PID namespaces are not known to one another, as on two machines.
MACHINE = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")


@pytest.mark.spark
def test_of_two_backups_one_is_locked_out_and_one_that_waits_goes_next(desk: Desk) -> None:
    desk.add_table("large", snapshots=1, files=12, file_bytes=1 << 20)
    before = desk.pits()
    with started([desk.start("backup", "--limit-rate", "4M")]) as (first,):
        wait_until(lambda: find_held_lease(desk.repository.storage) is not None, first)
        refused = desk.run("backup")
        assert (refused.code, refused.error) == (11, "RepositoryLockedError")
        assert f"process {first.pid}" in refused.message
        assert "--lock-wait" in refused.hint
        assert first.poll() is None
        with started([desk.start("backup", "--lock-wait", "2m")]) as (second,):
            done, waited = answer_of(first), answer_of(second)
    assert (done.code, waited.code) == (0, 0)
    assert waited.report["parent_pit"] == done.report["pit"]
    assert {table["status"] for table in waited.report["tables"]} == {"UNCHANGED"}
    assert desk.pits() == [*before, done.report["pit"], waited.report["pit"]]


@pytest.mark.parametrize("pause", [PAUSE_BEFORE_CHECK, PAUSE_AFTER_CHECK], ids=["before", "after"])
def test_a_writer_that_sleeps_through_a_takeover_cannot_publish(desk: Desk, pause: str) -> None:
    before = desk.pits()
    with started([desk.start("backup", hook=pause, BCN_LEASE__TTL_SECONDS="2")]) as (sleeper,):
        wait_until(lambda: _state(sleeper.pid) == "T", sleeper)
        held = find_held_lease(desk.repository.storage)
        assert held is not None
        other = desk.run("backup")
        assert (other.code, other.error) == (0, None)
        sleeper.send_signal(signal.SIGCONT)
        late = answer_of(sleeper)
    assert (late.code, late.error) == (11, "LeaseLostError")
    assert late.hint
    assert desk.pits() == [*before, other.report["pit"]]
    marker = json.loads((desk.location / held.commit_key).read_text())
    assert marker["abandoned"] is True
    assert desk.run("backup").report["parent_pit"] == other.report["pit"]


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def test_of_two_first_backups_the_later_one_uses_the_repository_of_the_other(
    tmp_path: Path,
) -> None:
    desk = open_desk(tmp_path)
    desk.catalog().create_namespace(("shop",), {})
    with started([desk.start("backup", "--catalog", "prod", hook=WAIT_FOR_ANOTHER)]) as (late,):
        assert late.stdout is not None
        assert late.stdout.readline() == "ready\n"
        made = desk.run("init", "--catalog", "prod")
        done = answer_of(late)
    assert (made.code, done.code, done.error) == (0, 0, None)
    assert desk.repository.id == made.report["repository_id"]
    assert desk.pits() == [done.report["pit"]]


def test_of_two_first_backups_of_different_scopes_only_one_fixes_the_scope(tmp_path: Path) -> None:
    desk = open_desk(tmp_path)
    desk.catalog().create_namespace(("shop",), {})
    assert desk.run("init").code == 0
    line = ("backup", "--catalog", "prod", "--database", "shop")
    with started([desk.start(*line, hook=WAIT_FOR_A_PIT)]) as (late,):
        assert late.stdout is not None
        assert late.stdout.readline() == "ready\n"
        done = desk.run("backup", "--catalog", "prod")
        refused = answer_of(late)
    assert (done.code, refused.code, refused.error) == (0, 16, "ScopeMismatchError")
    assert desk.repository.document["granularity"] == "CATALOG"
    assert desk.pits() == [done.report["pit"]]


@pytest.mark.spark
def test_of_two_restores_to_one_target_one_wins_and_the_table_is_whole(desk: Desk) -> None:
    table = desk.add_table("large", snapshots=1, files=8, file_bytes=1 << 20)
    desk.product(InProcess()).backup()
    line = ("restore", "--table", "large", "--target-catalog", "dr", "--limit-rate", "3M")
    with started(desk.start(*line) for _ in range(2)) as processes:
        answers = sorted((answer_of(process) for process in processes), key=lambda item: item.code)
    won, lost = answers
    assert (won.code, lost.code, lost.error) == (0, 16, "TargetExistsError")
    assert lost.hint
    location = won.report["tables"][0]["metadata_location"]
    assert desk.differences(table, location, desk.target / "shop/large") == []
    assert not list((desk.target / "shop/large").glob(".bcn-*"))


@pytest.mark.spark
def test_of_two_restores_from_two_machines_to_one_target_one_wins(desk: Desk) -> None:
    table = desk.add_table("large", snapshots=1, files=8, file_bytes=1 << 20)
    desk.product(InProcess()).backup()
    line = ("restore", "--table", "large", "--target-catalog", "dr", "--limit-rate", "3M")
    with started(desk.start(*line, behind=MACHINE) for _ in range(2)) as processes:
        answers = sorted((answer_of(process) for process in processes), key=lambda item: item.code)
    won, lost = answers
    assert (won.code, lost.code, lost.error) == (0, 16, "TargetExistsError")
    assert "another restore was quicker" in lost.message
    assert "--target-table" in lost.hint
    location = won.report["tables"][0]["metadata_location"]
    assert desk.catalog("dr").find_pointer(TableId(("shop",), "large")) == Pointer(
        TableId(("shop",), "large"), location, TABLE
    )
    assert desk.differences(table, location, desk.target / "shop/large") == []
    assert not list((desk.target / "shop/large").glob(".bcn-*"))


def test_a_backup_of_nothing_new_has_no_java_and_never_imports_pyspark(desk: Desk) -> None:
    script = (
        "import atexit, sys\n"
        "atexit.register(lambda: print('pyspark' in sys.modules, file=sys.stderr))\n"
    )
    seen: set[str] = set()
    with started([desk.start("backup", hook=script)]) as (process,):
        while process.poll() is None:
            seen |= set(session_members(process.pid).values())
            os.sched_yield()
        answer = answer_of(process)
    assert answer.code == 0
    assert answer.report["files_copied"] == 0
    assert answer.stderr == "False\n"
    assert seen
    seen.discard("")  # a process that ends has no command line any more
    assert all(line.startswith(sys.executable) for line in seen), seen
