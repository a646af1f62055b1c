"""Leases: taken, held, watched, released, taken over, in one process with clocks of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bcn.errors import (
    DamagedRepositoryError,
    KeyExistsError,
    LeaseLostError,
    RepositoryLockedError,
    StorageError,
)
from bcn.model import PitId
from bcn.repository import layout, owner
from bcn.repository.lease import (
    Claim,
    HeldLease,
    Lease,
    LeaseSettings,
    Lessor,
    find_held_lease,
    highest_lease,
    leased_pits,
    parse_lease,
)
from bcn.repository.owner import (
    Owner,
    is_proven_dead,
    is_proven_running,
    process_start,
    this_process,
)
from bcn.storage.local import LocalStorage

PIT = PitId("20260102T030405.000006Z")
LATER = PitId("20260102T030405.000007Z")
KEY, LATER_KEY = layout.pit_key("prod", PIT), layout.pit_key("prod", LATER)
MOMENT = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(str(tmp_path))


def _lessor(storage: LocalStorage, ttl: float = 60.0) -> Lessor:
    return Lessor(storage, LeaseSettings(ttl), lambda: MOMENT)


def _quiet(_text: str) -> None:
    """Nobody listens."""


def test_a_lease_shows_itself_and_is_released_at_the_end(storage: LocalStorage) -> None:
    lessor = _lessor(storage)
    assert lessor.wait_until_free(0, _quiet) is None
    with lessor.hold(PIT, KEY, None) as held:
        shown = json.loads(storage.read(layout.IN_PROGRESS_KEY))
        assert shown == held.lease.document()
        assert find_held_lease(storage) == held.lease
        assert (shown["commit_key"], shown["pit"]) == (KEY, str(PIT))
        assert shown["owner"]["pid"] == os.getpid()
    assert find_held_lease(storage) is None
    assert storage.find_stat(layout.IN_PROGRESS_KEY) is None
    assert list(leased_pits(storage)) == [PIT]


def test_a_run_that_fails_releases_its_lease_and_says_so(storage: LocalStorage) -> None:
    with pytest.raises(ZeroDivisionError), _lessor(storage).hold(PIT, KEY, None):
        _ = 1 / 0
    assert json.loads(storage.read(layout.released_key(1)))["outcome"] == "failed"


def test_a_lease_that_is_held_is_not_taken_without_waiting(storage: LocalStorage) -> None:
    with (
        _lessor(storage).hold(PIT, KEY, None),
        pytest.raises(RepositoryLockedError, match="locked by"),
        _lessor(storage).hold(LATER, LATER_KEY, None),
    ):
        pytest.fail("two hold the lease")


def test_who_was_overtaken_while_it_read_the_catalog_does_not_take_the_lease(
    storage: LocalStorage,
) -> None:
    slow = _lessor(storage)
    slow.wait_until_free(0, _quiet)
    with _lessor(storage).hold(PIT, KEY, None) as quick:
        quick.publish(b"newer than what the slow one read")
    with pytest.raises(RepositoryLockedError, match="first"), slow.hold(LATER, LATER_KEY, None):
        pytest.fail("its parent is stale")
    assert highest_lease(storage) == 1


def test_a_silent_owner_of_another_machine_is_watched_for_a_whole_ttl(
    storage: LocalStorage,
) -> None:
    _leave_lease(storage, replace(this_process(), boot_id="elsewhere"), ttl=50.0)
    clock = [0.0]
    lessor = Lessor(
        storage,
        LeaseSettings(),
        lambda: MOMENT,
        monotonic=lambda: clock[0],
        sleep=lambda seconds: clock.__setitem__(0, clock[0] + seconds),
    )
    said: list[str] = []
    assert lessor.wait_until_free(0, said.append) == 1
    assert 50 <= clock[0] < 51
    assert "waiting for the lease of" in said[0]
    assert json.loads(storage.read(KEY))["abandoned"] is True


def test_an_owner_that_runs_on_this_machine_is_waited_for_no_longer_than_asked(
    storage: LocalStorage,
) -> None:
    with _lessor(storage).hold(PIT, KEY, None):
        started = time.monotonic()
        with pytest.raises(RepositoryLockedError, match=f"process {os.getpid()}"):
            _lessor(storage).wait_until_free(0, _quiet)
        assert time.monotonic() - started < 5


def test_a_lease_that_is_released_while_it_is_watched_is_free(storage: LocalStorage) -> None:
    _leave_lease(storage, replace(this_process(), boot_id="elsewhere"), ttl=60.0)
    other = _lessor(storage)
    lessor = Lessor(
        storage, LeaseSettings(), lambda: MOMENT, sleep=lambda _: other.release(1, "done")
    )
    assert lessor.wait_until_free(0, _quiet) is None
    assert storage.find_stat(KEY) is None


def test_an_owner_that_dies_while_it_is_watched_is_taken_over(storage: LocalStorage) -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    start = process_start(child.pid)
    assert start is not None
    _leave_lease(storage, replace(this_process(), pid=child.pid, process_start=start), ttl=60.0)

    def end(_seconds: float) -> None:
        child.kill()
        child.wait()

    lessor = Lessor(storage, LeaseSettings(), lambda: MOMENT, sleep=end)
    assert lessor.wait_until_free(60, _quiet) == 1
    assert json.loads(storage.read(KEY))["abandoned"] is True


def _leave_lease(storage: LocalStorage, owner: Owner, ttl: float) -> None:
    left = Lease(1, "u", owner, KEY, PIT, ttl, "then", None)
    storage.write_once(layout.lease_key(1), json.dumps(left.document()).encode())


def test_two_who_take_over_the_same_lease_leave_one_marker(storage: LocalStorage) -> None:
    _leave_lease(storage, replace(this_process(), process_start="another"), ttl=60.0)
    first, second = _lessor(storage), _lessor(storage)
    assert first.wait_until_free(0, _quiet) == 1
    marker = storage.read(KEY)
    assert second.wait_until_free(0, _quiet) == 1
    assert storage.read(KEY) == marker
    with (
        first.hold(LATER, LATER_KEY, 1),
        pytest.raises(RepositoryLockedError),
        second.hold(LATER, LATER_KEY, 1),
    ):
        pytest.fail("two took over")


def test_a_holder_finds_out_that_it_was_overtaken(storage: LocalStorage) -> None:
    with _lessor(storage).hold(PIT, KEY, None) as held:
        held.check()
        storage.write_once(layout.lease_key(2), b"{}")
        with pytest.raises(LeaseLostError, match="taken over"):
            held.check()
    assert storage.find_stat(layout.IN_PROGRESS_KEY) is not None  # it is the other one's by now


def test_a_holder_finds_out_that_it_was_unlocked(storage: LocalStorage) -> None:
    lessor = _lessor(storage)
    with lessor.hold(PIT, KEY, None) as held:
        lessor.release(1, "unlocked")
        with pytest.raises(LeaseLostError, match="released by somebody else"):
            held.publish(b"x")
    assert storage.find_stat(KEY) is None


def test_a_marker_stops_a_holder_that_nothing_else_stopped(storage: LocalStorage) -> None:
    lessor = _lessor(storage)
    with lessor.hold(PIT, KEY, None) as held:
        lessor.abandon(held.lease)
        with pytest.raises(LeaseLostError, match="given up"):
            held.publish(b"x")


class _Forgetful(LocalStorage):
    """Reports a write that succeeded as somebody else's, as a retried request may be."""

    def write_once(self, key: str, data: bytes) -> None:
        super().write_once(key, data)
        raise KeyExistsError(key)


def test_a_write_of_ours_that_is_reported_as_another_ones_counts(tmp_path: Path) -> None:
    storage = _Forgetful(str(tmp_path))
    with _lessor(storage).hold(PIT, KEY, None) as held:
        held.publish(b"the PIT")
    assert storage.read(KEY) == b"the PIT"


def test_a_heart_goes_on_after_a_missed_beat(storage: LocalStorage) -> None:
    failures = []

    class _Unsteady(LocalStorage):
        def replace(self, key: str, data: bytes) -> None:
            if key == layout.heartbeat_key(1) and not failures:
                failures.append(key)
                raise StorageError("for a moment")
            super().replace(key, data)

    with _lessor(_Unsteady(storage.root), ttl=0.2).hold(PIT, KEY, None):
        deadline = time.monotonic() + 10
        while storage.find_stat(layout.heartbeat_key(1)) is None:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    assert failures


def test_a_lease_whose_heart_never_began_can_be_stopped(storage: LocalStorage) -> None:
    held = Lease(1, "u", this_process(), KEY, PIT, 60.0, "then", None)
    HeldLease(storage, held).stop()


# owners


def test_this_process_is_alive_and_another_with_its_pid_is_not() -> None:
    me = this_process()
    assert not is_proven_dead(me, me)
    assert is_proven_dead(replace(me, process_start="1"), me)
    assert is_proven_dead(replace(me, pid=2**22 + 1), me)


@pytest.mark.parametrize("change", [{"boot_id": "x"}, {"pid_namespace": "x"}, {"boot_id": ""}])
def test_nothing_can_be_proven_of_anybody_elsewhere(change: dict[str, str]) -> None:
    me = this_process()
    assert not is_proven_dead(replace(me, process_start="1", **change), me)
    assert not is_proven_running(replace(me, **change), me)


def test_a_process_runs_unless_it_is_stopped_or_another_one() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        start = process_start(child.pid)
        assert start is not None
        owner = replace(this_process(), pid=child.pid, process_start=start)
        assert is_proven_running(owner, this_process())
        assert not is_proven_running(replace(owner, process_start="1"), this_process())
        child.send_signal(signal.SIGSTOP)
        deadline = time.monotonic() + 10
        while is_proven_running(owner, this_process()):
            assert time.monotonic() < deadline
        assert not is_proven_dead(owner, this_process())
    finally:
        child.kill()
        child.wait()


def test_a_process_that_nobody_has_waited_for_is_dead() -> None:
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    owner = replace(this_process(), pid=child.pid)
    deadline = time.monotonic() + 20
    while not is_proven_dead(owner, this_process()):
        assert time.monotonic() < deadline
        owner = replace(owner, process_start=process_start(child.pid) or "gone")
        time.sleep(0.01)
    child.wait()


def test_where_the_system_says_nothing_an_owner_is_still_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_args: object, **_more: object) -> str:
        raise OSError

    monkeypatch.setattr(owner.getpass, "getuser", refuse)
    monkeypatch.setattr(owner.Path, "read_text", refuse)
    monkeypatch.setattr(owner.Path, "readlink", refuse)
    me = this_process()
    assert (me.process_start, me.boot_id, me.pid_namespace) == ("", "", "")
    assert str(me) == f"{os.getuid()}@{me.host} (process {os.getpid()})"
    assert not is_proven_dead(me, me)


# documents


@pytest.mark.parametrize(
    "change",
    [{"lease": None}, {"owner": None}, {"owner": {}}, {"pit": "x"}, {"ttl_seconds": "soon"}],
)
def test_a_lease_that_is_not_whole_is_damage(change: dict[str, object]) -> None:
    whole = Lease(3, "u", this_process(), KEY, PIT, 60.0, "then", 2)
    assert parse_lease(json.dumps(whole.document()).encode(), "key") == whole
    with pytest.raises(DamagedRepositoryError, match="not a whole lease"):
        parse_lease(json.dumps({**whole.document(), **change}).encode(), "key")


def test_what_a_later_bcn_adds_to_an_owner_is_ignored() -> None:
    whole = Lease(3, "u", this_process(), KEY, PIT, 60.0, "then", 2)
    document = whole.document()
    document["owner"]["mood"] = "fine"
    assert parse_lease(json.dumps(document).encode(), "key") == whole


def test_without_leases_nothing_is_held(storage: LocalStorage) -> None:
    assert highest_lease(storage) == 0
    assert find_held_lease(storage) is None
    assert list(leased_pits(storage)) == []


def test_who_loses_the_race_for_a_free_lease_waits_for_the_winner(storage: LocalStorage) -> None:
    winner, slow, prepared = _lessor(storage), _lessor(storage), []
    releases: list[Callable[[], None]] = []

    def prepare() -> tuple[Claim, int]:
        prepared.append(len(prepared))
        if len(prepared) == 1:  # somebody takes the lease while we read
            held = winner.hold(PIT, KEY, None)
            held.__enter__()
            releases.append(lambda: held.__exit__(None, None, None))
            threading.Timer(0.3, releases[0]).start()
        return Claim(LATER, LATER_KEY), len(prepared)

    with slow.hold_when_free(20, _quiet, prepare) as (lease, value):
        assert lease.lease.number == 2
        assert value == 2, "what was read before the winner wrote is stale"


def test_who_does_not_wait_is_told_of_the_lost_race(storage: LocalStorage) -> None:
    with ExitStack() as stack:

        def prepare() -> tuple[Claim, None]:
            stack.enter_context(_lessor(storage).hold(PIT, KEY, None))
            return Claim(LATER, LATER_KEY), None

        late = _lessor(storage).hold_when_free(0, _quiet, prepare)
        with pytest.raises(RepositoryLockedError) as told, late:
            raise AssertionError("two hold the lease")
    assert str(told.value) == f"{this_process()} took the lease first"


def test_who_loses_to_one_that_has_not_written_its_name_yet_is_told_so(
    storage: LocalStorage,
) -> None:
    def prepare() -> tuple[Claim, None]:
        storage.write_once(layout.lease_key(1), b"{")  # as far as the winner has come
        return Claim(LATER, LATER_KEY), None

    late = _lessor(storage).hold_when_free(0, _quiet, prepare)
    with pytest.raises(RepositoryLockedError, match="another process took the lease first"), late:
        raise AssertionError("two hold the lease")
