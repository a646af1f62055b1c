"""Leases among real processes that die, sleep and wake up late: one writer at a time."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bcn.errors import RepositoryLockedError
from bcn.model import PitId
from bcn.repository import layout
from bcn.repository.lease import LeaseSettings, Lessor, find_held_lease, highest_lease
from bcn.repository.owner import process_state
from bcn.storage.local import LocalStorage

pytestmark = pytest.mark.long

PIT = PitId("20260102T030405.000006Z")
LATER = PitId("20260102T030405.000007Z")
KEY, LATER_KEY = layout.pit_key("prod", PIT), layout.pit_key("prod", LATER)

_HOLDER = """
    import sys
    from datetime import UTC, datetime
    from bcn.errors import BcnError
    from bcn.model import PitId
    from bcn.repository import layout
    from bcn.repository.lease import LeaseSettings, Lessor
    from bcn.storage.local import LocalStorage

    root, pit, ttl, wait = sys.argv[1], PitId(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])
    lessor = Lessor(LocalStorage(root), LeaseSettings(ttl), lambda: datetime.now(UTC))
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        taken_over = lessor.wait_until_free(wait, lambda text: None)
        with lessor.hold(pit, layout.pit_key("prod", pit), taken_over) as lease:
            print("held", lease.lease.number, taken_over, flush=True)
            if sys.stdin.readline() == "publish\\n":
                lease.publish(b"the PIT of %d" % lease.lease.number)
                print("published", flush=True)
                sys.stdin.readline()
    except BcnError as error:
        print(type(error).__name__, flush=True)
"""


class Holder:
    """Another process that takes the lease when told."""

    def __init__(self, root: Path, pit: PitId, ttl: float, wait: float = 0.0) -> None:
        arguments = [str(root), str(pit), str(ttl), str(wait)]
        self.process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(_HOLDER), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.hear() == "ready"

    def hear(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def tell(self, word: str = "") -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def stop(self) -> None:
        """Returns when the process stands still."""
        self.process.send_signal(signal.SIGSTOP)
        deadline = time.monotonic() + 10
        while process_state(self.process.pid)[0] != "T":
            assert time.monotonic() < deadline

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(str(tmp_path))


@pytest.fixture
def holders(tmp_path: Path) -> Iterator[list[Holder]]:
    found: list[Holder] = []
    yield found
    for holder in found:
        holder.process.send_signal(signal.SIGCONT)
        holder.end()


def _lessor(storage: LocalStorage, ttl: float = 60.0) -> Lessor:
    return Lessor(storage, LeaseSettings(ttl), lambda: datetime.now(UTC))


def _quiet(_text: str) -> None:
    """Nobody listens."""


def test_of_two_contenders_one_wins(
    tmp_path: Path, holders: list[Holder], storage: LocalStorage
) -> None:
    holders += [Holder(tmp_path, PIT, 1.0), Holder(tmp_path, LATER, 1.0)]
    for holder in holders:
        holder.tell()
    heard = sorted(holder.hear() for holder in holders)
    assert heard == ["RepositoryLockedError", "held 1 None"]
    assert highest_lease(storage) == 1


def test_a_killed_holder_on_this_machine_is_taken_over_at_once(
    tmp_path: Path, holders: list[Holder], storage: LocalStorage
) -> None:
    holders += [Holder(tmp_path, PIT, 60.0), Holder(tmp_path, LATER, 60.0)]
    holders[0].tell()
    assert holders[0].hear() == "held 1 None"
    holders[0].end()
    started = time.monotonic()
    holders[1].tell()
    assert holders[1].hear() == "held 2 1"
    assert time.monotonic() - started < 10
    marker = json.loads(storage.read(KEY))
    assert (marker["abandoned"], marker["pit"], marker["lease"]) == (True, str(PIT), 1)
    assert json.loads(storage.read(layout.lease_key(2)))["takes_over"] == 1


def test_a_holder_that_dies_while_others_wait_is_taken_over(
    tmp_path: Path, holders: list[Holder]
) -> None:
    holders += [Holder(tmp_path, PIT, 60.0), Holder(tmp_path, LATER, 60.0, wait=60.0)]
    holders[0].tell()
    assert holders[0].hear() == "held 1 None"
    holders[1].tell()
    time.sleep(0.5)
    holders[0].end()
    assert holders[1].hear() == "held 2 1"


def test_a_stopped_holder_is_taken_over_after_its_ttl_and_cannot_publish_when_it_wakes(
    tmp_path: Path, holders: list[Holder], storage: LocalStorage
) -> None:
    holders += [Holder(tmp_path, PIT, 1.5), Holder(tmp_path, LATER, 1.5)]
    holders[0].tell()
    assert holders[0].hear() == "held 1 None"
    holders[0].stop()
    started = time.monotonic()
    holders[1].tell()
    assert holders[1].hear() == "held 2 1"
    assert time.monotonic() - started >= 1.5
    holders[0].process.send_signal(signal.SIGCONT)
    holders[0].tell("publish")
    assert holders[0].hear() == "LeaseLostError"
    assert json.loads(storage.read(KEY))["abandoned"] is True
    holders[1].tell("publish")
    assert holders[1].hear() == "published"
    assert storage.read(LATER_KEY) == b"the PIT of 2"


def test_what_was_published_just_before_a_takeover_counts(
    tmp_path: Path, holders: list[Holder], storage: LocalStorage
) -> None:
    holders += [Holder(tmp_path, PIT, 60.0), Holder(tmp_path, LATER, 60.0)]
    holders[0].tell()
    holders[0].tell("publish")
    assert [holders[0].hear(), holders[0].hear()] == ["held 1 None", "published"]
    holders[0].end()
    holders[1].tell()
    assert holders[1].hear() == "held 2 1"
    assert storage.read(KEY) == b"the PIT of 1"


def test_a_lease_that_is_released_goes_to_who_waits(
    tmp_path: Path, holders: list[Holder], storage: LocalStorage
) -> None:
    holders += [Holder(tmp_path, PIT, 2.0), Holder(tmp_path, LATER, 2.0, wait=30.0)]
    holders[0].tell()
    assert holders[0].hear() == "held 1 None"
    holders[1].tell()
    time.sleep(1.0)  # longer than some beats: the heart of the first one is heard
    holders[0].tell("leave")
    assert holders[1].hear() == "held 2 None"
    assert json.loads(storage.read(layout.released_key(1)))["outcome"] == "done"


def test_a_heart_that_beats_keeps_the_lease(
    tmp_path: Path, holders: list[Holder], storage: LocalStorage
) -> None:
    holders.append(Holder(tmp_path, PIT, 1.0))
    holders[0].tell()
    assert holders[0].hear() == "held 1 None"
    with pytest.raises(RepositoryLockedError, match=f"process {holders[0].process.pid}"):
        _lessor(storage).wait_until_free(1.5, _quiet)
    beats = [_beat(storage)]
    time.sleep(0.6)
    beats.append(_beat(storage))
    assert beats[1] > beats[0]


def _beat(storage: LocalStorage) -> int:
    return int(json.loads(storage.read(layout.heartbeat_key(1)))["beat"])


def test_unlocking_tells_the_living_from_the_stopped_and_the_dead(
    tmp_path: Path, holders: list[Holder], storage: LocalStorage
) -> None:
    holders.append(Holder(tmp_path, PIT, 1.0))
    holders[0].tell()
    assert holders[0].hear() == "held 1 None"
    lessor, held = _lessor(storage), find_held_lease(storage)
    assert held is not None
    assert lessor.is_alive(held)
    holders[0].stop()
    assert not lessor.is_alive(held)
    holders[0].process.send_signal(signal.SIGCONT)
    holders[0].end()
    assert not lessor.is_alive(held)
    lessor.abandon(held)
    lessor.release(held.number, "unlocked")
    assert find_held_lease(storage) is None
    assert lessor.wait_until_free(0, _quiet) is None
    assert json.loads(storage.read(layout.released_key(1)))["outcome"] == "unlocked"
