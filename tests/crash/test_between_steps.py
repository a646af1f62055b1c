"""A run that ends between any two of its steps costs nothing, and the next one completes it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bcn.engine import handful
from bcn.errors import Interrupted, StorageFullError
from bcn.maintenance.verify import VerifyRequest, run_verify
from bcn.model import PitId, TableId
from bcn.repository.lease import LeaseSettings, find_held_lease
from bcn.repository.repository import Scope
from bcn.storage.protocol import StorageSpec
from tests.crash.faults import Fault, Killed, Steps, watched
from tests.support.command import Desk, Source, open_desk
from tests.support.compare import unreferenced_files
from tests.support.small import InProcess

pytestmark = pytest.mark.long

EXPECTED = {"t": 13, "u": 9, "v": 5}
HANDFULS = 2  # of ten files
SHORT = LeaseSettings(ttl_seconds=0.02)  # a killed run is this very process, so it looks alive


class Shop:
    """A repository with one PIT of two tables, of which one has changed, and a third is new."""

    def __init__(self, root: Path) -> None:
        self.desk = open_desk(root)
        table, other = self.desk.add_table("t"), self.desk.add_table("u")
        self.first = self.desk.product(InProcess()).backup(Scope("prod")).pit
        self.tables = (self.desk.grow(table), other, self.desk.add_table("v", snapshots=1))
        self.folder = root

    def copy(self, name: str) -> Desk:
        """The same with a repository and a target of its own; the source is shared."""
        root = self.folder / "runs" / name
        root.mkdir(parents=True)
        shutil.copytree(self.desk.location, root / "repository")
        shutil.copyfile(self.folder / "prod.db", root / "prod.db")
        return open_desk(root)


@pytest.fixture(scope="module")
def shop() -> Iterator[Shop]:
    """In memory where that is possible: flushing hundreds of repositories to a disk takes long."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Shop(Path(folder))


def strike(steps: Steps, work: Callable[[], Any]) -> None:
    """Do the work under a fault, which must come through as what it is."""
    kinds = {Fault.KILLED: Killed, Fault.STOPPED: Interrupted, Fault.REFUSED: StorageFullError}
    with watched(steps), pytest.raises(kinds[steps.fault]):
        work()


def check_whole(desk: Desk) -> None:
    """Every byte of every PIT is there, and all that its metadata names."""
    request = VerifyRequest(StorageSpec(str(desk.location)), level=4)
    report = run_verify(request, InProcess(), lambda: datetime.now(UTC))
    assert [item for item in report.findings if item.severity == "error"] == []


def backup(desk: Desk) -> Any:
    return desk.product(InProcess()).backup(lease=SHORT, lock_wait_seconds=5)


def restore(desk: Desk, pit: PitId) -> Any:
    return desk.product(InProcess()).restore(pit, target_catalog="dr")


def count_steps(work: Callable[[], Any]) -> list[str]:
    with watched(Steps()) as steps:
        work()
    return steps.done


# backups


@pytest.mark.parametrize("fault", Fault, ids=[fault.value for fault in Fault])
def test_a_backup_that_ends_between_any_two_steps_is_made_whole_by_the_next(
    shop: Shop, fault: Fault
) -> None:
    check_every_end(shop, fault, f"backup-{fault.value}")


def test_so_is_one_that_is_killed_while_it_copies_by_the_handful(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handful, "_WORTH_FILES", 1)
    steps = check_every_end(shop, Fault.KILLED, "handful")
    assert len([step for step in steps if step.endswith("and others")]) == HANDFULS


def check_every_end(shop: Shop, fault: Fault, name: str) -> list[str]:
    """Let backups end before each step in turn, which are given; each time, make another."""
    steps = count_steps(lambda: backup(shop.copy(name)))
    released = next(n for n, step in enumerate(steps) if step.endswith(".released"))
    for number in range(released if fault is Fault.REFUSED else len(steps)):
        desk = shop.copy(f"{name}-{number}")
        strike(Steps(number, fault), lambda desk=desk: backup(desk))
        left = desk.pits()
        assert left[0] == str(shop.first)
        assert len(left) == 1 + any("/pit_manifests/" in step for step in steps[:number])
        if fault is not Fault.KILLED and number < released:
            assert find_held_lease(desk.repository.storage) is None, steps[number]
        report = backup(desk)
        assert {item.table.name: item.files for item in report.objects} == EXPECTED
        assert report.failed == ()
        assert str(report.pit) > max(left)
        check_whole(desk)  # all PITs: the earlier one, too, and what the fault may have published
        shutil.rmtree(desk.root)
    return steps


def test_a_lease_that_cannot_be_released_does_not_undo_what_was_published(shop: Shop) -> None:
    desk = shop.copy("release")
    steps = count_steps(lambda: backup(shop.copy("release-steps")))
    released = next(n for n, step in enumerate(steps) if step.endswith(".released"))
    with watched(Steps(released, Fault.REFUSED)):
        report = backup(desk)
    assert desk.pits() == [str(shop.first), str(report.pit)]
    assert backup(desk).parent == report.pit


def test_everything_a_pit_needs_is_flushed_before_it_appears(shop: Shop) -> None:
    steps = count_steps(lambda: backup(shop.copy("order")))
    published = next(n for n, step in enumerate(steps) if "/pit_manifests/" in step)
    flushed = max(n for n, step in enumerate(steps[:published]) if step.startswith("flush"))
    needed = ("/data/", "/deltas/", "/snapshots/", "/entries/")
    writes = [n for n, step in enumerate(steps) if any(folder in step for folder in needed)]
    assert len(writes) == 14
    assert max(writes) < flushed < published
    assert [step for step in steps[published + 1 :] if step.startswith("create")] == [
        step for step in steps if step.endswith("00000002.released")
    ]


# restores


@pytest.mark.parametrize("fault", Fault, ids=[fault.value for fault in Fault])
def test_a_restore_that_ends_between_any_two_steps_is_made_whole_by_the_next(
    shop: Shop, fault: Fault
) -> None:
    made = shop.copy(f"restore-{fault.value}")
    pit = backup(made).pit
    steps = count_steps(lambda: restore(made, pit))
    markers = [n for n, step in enumerate(steps) if step.startswith("delete") and ".json" in step]
    for number in range(len(steps)):
        desk = open_desk(
            made.root / str(number), location=made.location, target=made.root / str(number) / "t"
        )
        strike(Steps(number, fault), lambda desk=desk: restore(desk, pit))
        before = check_registered(shop, desk)
        if number in markers[1:]:  # nothing was left to do but to forget that it was under way
            assert before == 3
            continue
        try:
            report = restore(desk, pit)
        except BaseException as error:
            error.add_note(f"after a fault at step {number}: {steps[number]}")
            raise
        assert sorted(item.table.name for item in report.tables) == ["t", "u", "v"]
        assert check_registered(shop, desk) == 3
        check_nothing_is_left(desk)
        shutil.rmtree(desk.root)


def check_registered(shop: Shop, desk: Desk) -> int:
    """Whatever the catalog names is whole. How many tables that are."""
    found = 0
    for table in shop.tables:
        location = find_metadata(desk, table)
        if location is not None:
            found += 1
            assert desk.differences(table, location, desk.target / "shop" / table.name) == []
    return found


def find_metadata(desk: Desk, table: Source) -> str | None:
    if not (desk.root / "dr.db").exists():
        return None
    pointer = desk.catalog("dr").find_pointer(TableId(("shop",), table.name))
    return pointer.metadata_location if pointer else None


def check_nothing_is_left(desk: Desk) -> None:
    """No scratch, no markers; a metadata file of a try that was not registered may be there."""
    for folder in (desk.target / "shop").iterdir():
        location = desk.catalog("dr").find_pointer(TableId(("shop",), folder.name))
        assert location is not None
        extra = unreferenced_files(location.metadata_location, folder)
        assert [path for path in extra if not path.name.endswith(".metadata.json")] == []
        assert not (folder / ".bcn-restore").exists()
