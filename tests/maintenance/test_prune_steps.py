"""bcn prune in two steps, beside other writers, and ended anywhere."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bcn.errors import (
    Interrupted,
    LeaseLostError,
    RepositoryLockedError,
    StorageFullError,
)
from bcn.maintenance.prune import PruneRequest, run_prune
from bcn.maintenance.prune_report import PruneReport
from bcn.model import PitId
from bcn.repository.lease import LeaseSettings, Lessor, highest_lease
from bcn.storage.local import LocalStorage
from bcn.storage.protocol import StorageSpec
from bcn.telemetry.progress import Silent
from tests.crash.faults import Fault, Killed, Steps, watched
from tests.maintenance.pruning import (
    AT_ONCE,
    DAY,
    SHORT,
    backup,
    check_whole,
    files,
    kinds,
    lists,
    make_desk,
    now,
    orphan,
    prune,
    remove_pit,
)
from tests.support.command import (
    Desk,
    open_desk,
)
from tests.support.small import InProcess

pytestmark = pytest.mark.long


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return make_desk(tmp_path)


# two steps


def test_the_first_run_lists_and_a_run_after_the_grace_period_deletes(desk: Desk) -> None:
    path, start = orphan(desk), now()
    first = prune(desk, at=start)
    assert first.deleted.files == 0
    assert first.next_due_at == start + DAY
    (listed,) = lists(desk)
    document = json.loads(listed.read_text())
    assert document["run"] == listed.stem
    assert document["pits"]["count"] == 3
    stat = path.stat()
    assert document["candidates"]["data"] == [
        ["data/x/r0/stray", 5, f"{stat.st_size}-{stat.st_mtime_ns}"]
    ]
    early = prune(desk, at=start + DAY - timedelta(seconds=1))
    assert (early.deleted.files, early.unneeded.files) == (0, 1)
    assert path.exists()
    assert lists(desk) == [listed], "what is listed is not listed again"
    late = prune(desk, at=start + DAY)
    assert late.deleted.files == 1
    assert late.next_due_at is None
    assert not path.exists()
    assert lists(desk) == []


def test_what_comes_later_waits_for_its_own_grace_period(desk: Desk) -> None:
    start = now()
    old = orphan(desk, "old")
    prune(desk, at=start)
    new = orphan(desk, "new", 9)
    report = prune(desk, at=start + DAY)
    assert [(item.orphan.key[-3:], str(item.state)) for item in report.items] == [
        ("new", "waiting"),
        ("old", "deleted"),
    ]
    assert (old.exists(), new.exists()) == (False, True)
    assert prune(desk, at=start + 2 * DAY).deleted.files == 1


def test_a_file_that_changed_since_it_was_listed_waits_anew(desk: Desk) -> None:
    start, path = now(), orphan(desk)
    prune(desk, at=start)
    path.write_bytes(b"yyyyy")
    assert prune(desk, at=start + DAY).deleted.files == 0
    assert path.exists()
    assert prune(desk, at=start + 2 * DAY).deleted.files == 1


def test_a_file_that_a_backup_adopted_since_it_was_listed_stays(desk: Desk) -> None:
    start = now()
    pits = sorted(desk.location.glob("catalogs/prod/pit_manifests/*"))
    away = [shutil.move(path, desk.root / path.name) for path in pits[1:]]
    listed = prune(desk, at=start)
    assert listed.unneeded.files > 0
    for path in away:
        shutil.rmtree(path)
    pit = backup(desk)  # its table has grown: the same files again, which it adopts
    assert desk.product(InProcess()).repository.find_pit(pit) is not None
    late = prune(desk, at=start + 2 * DAY)
    adopted = [item for item in listed.items if (desk.location / item.orphan.key).exists()]
    assert adopted
    assert not {item.orphan.key for item in adopted} & {item.orphan.key for item in late.items}
    check_whole(desk)


def test_a_dry_run_names_the_same_and_changes_nothing(desk: Desk) -> None:
    orphan(desk)
    remove_pit(desk, 0)
    remove_pit(desk, 0)
    start = now()
    before, leases = files(desk), highest_lease(desk.repository.storage)
    planned = prune(desk, at=start, dry_run=True, grace=AT_ONCE)
    assert planned.deletable == planned.unneeded
    assert planned.deleted.files == 0
    assert (files(desk), highest_lease(desk.repository.storage)) == (before, leases)
    done = prune(desk, at=start, grace=AT_ONCE)
    assert [item.orphan for item in planned.items] == [item.orphan for item in done.items]
    assert [item.orphan.size_bytes for item in done.items] == sorted(
        (item.orphan.size_bytes for item in done.items), reverse=True
    )


def test_lists_that_are_no_lists_are_trash_and_nothing_goes_on_their_word(desk: Desk) -> None:
    start, path = now(), orphan(desk)
    prune(desk, at=start)
    (listed,) = lists(desk)
    junk = [
        b"",
        b"{}",
        b"null",
        b'{"version": "1", "listed_at": "x", "candidates": {}}',
        b'{"version": "1", "listed_at": "2020-01-01T00:00:00.000000Z", "candidates": [1]}',
        b'{"version": "1", "abandoned": true}',
    ]
    for number, data in enumerate(junk):
        (desk.location / f"trash/20200101T00000{number}.000000Z.json").write_bytes(data)
    listed.unlink()
    report = prune(desk, at=start + 2 * DAY)
    assert kinds(report) == {"data": 1, "trash": len(junk)}
    assert (report.deleted.files, path.exists()) == (0, True)
    assert prune(desk, at=start + 4 * DAY).deleted.files == 1 + len(junk)
    assert lists(desk) == []


def test_a_list_that_names_what_is_needed_does_no_harm(desk: Desk) -> None:
    needed = next(path for path in desk.location.glob("data/**/*.parquet"))
    stat, key = needed.stat(), str(needed.relative_to(desk.location))
    document = {
        "version": "1",
        "run": "20200101T000000.000000Z",
        "listed_at": "2020-01-01T00:00:00.000000Z",
        "pits": {"count": 0, "sha256": ""},
        "candidates": {
            "data": [[key, stat.st_size, f"{stat.st_size}-{stat.st_mtime_ns}"]],
            "trash": [["manifest.json", 1, "1-1"], ["../outside", 1, "1-1"]],
        },
    }
    (desk.location / "trash").mkdir()
    (desk.location / "trash/20200101T000000.000000Z.json").write_text(json.dumps(document))
    (desk.root / "outside").write_bytes(b"x")
    assert prune(desk).items == ()
    assert needed.exists()
    assert (desk.root / "outside").exists()
    assert lists(desk) == []


# beside others


def test_while_a_backup_holds_the_lease_prune_waits_or_gives_up(desk: Desk) -> None:
    repository, path = desk.repository, orphan(desk)
    pit = PitId.of(now())
    with Lessor(repository.storage, LeaseSettings(), now).hold(pit, repository.pit_key(pit), None):
        with pytest.raises(RepositoryLockedError):
            prune(desk, grace=AT_ONCE)
        shown = prune(desk, dry_run=True)
    assert path.exists()
    assert any("is writing" in note for note in shown.notes)
    assert prune(desk, grace=AT_ONCE).deleted.files == 1


def test_a_dry_run_does_not_name_what_is_published_while_it_looks(desk: Desk) -> None:
    desk.add_table("late", snapshots=1)

    class AtWork(Silent):
        """A whole backup between reading the points in time and looking for files."""

        is_done = False

        def phase(self, name: str, files: int | None = None, size_bytes: int | None = None) -> None:
            if name.startswith("looking") and not self.is_done:
                self.is_done = True
                backup(desk)

    request = PruneRequest(StorageSpec(str(desk.location)), dry_run=True)
    assert run_prune(request, now, AtWork()).items == ()
    assert len(desk.pits()) == 4


_RACER = """
import sys
from datetime import UTC, datetime, timedelta
from bcn.maintenance.prune import PruneRequest, run_prune
from bcn.maintenance.turn import TurnSettings
from bcn.storage.protocol import StorageSpec
for _ in range(int(sys.argv[2])):
    request = PruneRequest(StorageSpec(sys.argv[1]), timedelta(), turn=TurnSettings(60))
    run_prune(request, lambda: datetime.now(UTC))
"""


def test_backups_and_prunes_that_race_cost_nothing(desk: Desk) -> None:
    """Backups that are killed and adopt, beside a process that prunes all the time."""
    line = [sys.executable, "-c", _RACER, str(desk.location), "12"]
    table = desk.add_table("raced", snapshots=1)
    racer = subprocess.Popen(line, stderr=subprocess.PIPE, text=True)
    try:
        for _ in range(4):
            table = desk.grow(table)
            desk.product(InProcess()).backup(lock_wait_seconds=60)
    finally:
        _out, err = racer.communicate(timeout=120)
    assert (racer.returncode, err) == (0, "")
    check_whole(desk)


def test_a_prune_that_lost_its_lease_stops_deleting(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [orphan(desk, name) for name in ("a", "b", "c")]
    real = LocalStorage.delete
    repository = desk.repository

    def delete(storage: LocalStorage, key: str) -> None:
        real(storage, key)
        if key.endswith("/a"):  # somebody else takes over, as after a long sleep
            number = highest_lease(storage)
            key = f"leases/{number + 1:08d}.json"
            storage.write_once(key, repository.storage.read(f"leases/{number:08d}.json"))

    monkeypatch.setattr(LocalStorage, "delete", delete)
    with pytest.raises(LeaseLostError):
        prune(desk, grace=AT_ONCE)
    assert [path.exists() for path in paths] == [False, True, True]


# ends between any two steps


@pytest.mark.parametrize("fault", Fault, ids=[fault.value for fault in Fault])
def test_a_prune_that_ends_between_any_two_steps_goes_on_next_time(
    desk: Desk, fault: Fault
) -> None:
    orphan(desk, "stray")
    prune(desk, at=now() - 2 * DAY)
    orphan(desk, "newer")
    remove_pit(desk, 0)
    remove_pit(desk, 0)

    def copy(name: str) -> Desk:
        shutil.copytree(desk.location, desk.root / name / "repository")
        shutil.copyfile(desk.root / "prod.db", desk.root / name / "prod.db")
        return open_desk(desk.root / name)

    def work(target: Desk) -> PruneReport:
        return prune(target, grace=AT_ONCE, turn=SHORT)

    with watched(Steps()) as steps:
        whole = copy("whole")
        work(whole)
    assert len([step for step in steps.done if "/data/" in step]) > 5
    for number in range(len(steps.done)):
        target = copy(f"{fault.value}{number}")
        with watched(Steps(number, fault)):
            end(lambda target=target: work(target))
        work(target)
        work(target)  # what a takeover left in the trash
        assert files(target) == files(whole), steps.done[number]
        shutil.rmtree(target.root)
    check_whole(whole)


def end(work: Callable[[], Any]) -> None:
    """A run under a fault; a lease that could not be released is no failure of the run."""
    with suppress(Killed, Interrupted, StorageFullError):
        work()
