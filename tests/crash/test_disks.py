"""Disks that are full or read-only: it is told, nothing is lost, and more room completes it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bcn.repository.repository import Scope
from tests.support.command import Answer, Desk, SmallDisk, Source, open_desk, small_disk
from tests.support.small import InProcess

pytestmark = pytest.mark.long

MIB = 1 << 20

# Each changes the disk, in the bcn process itself, right before a step of the backup.
FILL = """
def change():
    with open("disk/filler", "wb", buffering=0) as file:
        try:
            while True: file.write(bytes(4096))
        except OSError: pass
"""
LOCK = """
def change():
    import subprocess, time
    while subprocess.run(["mount", "-o", "remount,ro", "disk"], capture_output=True).returncode:
        time.sleep(0.005)  # a heartbeat is just being written
"""
HOOK = """
import bcn.backup.run, bcn.backup.round
real = {owner}.{step}
def step(*arguments):
    change()
    return real(*arguments)
{owner}.{step} = step
"""
BEFORE_PUBLISHING = HOOK.format(owner="bcn.backup.run", step="publish")
BEFORE_COPYING = HOOK.format(owner="bcn.backup.round.Round", step="_copy")


@dataclass
class Shop:
    """A desk whose repository, with one PIT of a small table, is on a disk of 12 MiB."""

    desk: Desk
    disk: SmallDisk
    table: Source

    def check_kept(self, answer: Answer, error: str) -> None:
        """The run failed as it should, and the PIT from before restores byte for byte."""
        assert (answer.code, answer.error) == (15, error)
        assert answer.hint
        assert len(self.desk.pits()) == 1
        product = self.desk.product(InProcess())
        report = product.restore(tables=("t",), target_catalog="dr", target_table="kept")
        location = report.tables[0].metadata_location
        assert self.desk.differences(self.table, location, self.desk.target / "shop/kept") == []


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with small_disk(tmp_path / "disk", 12 * MIB) as disk:
        desk = open_desk(tmp_path, location=disk.folder / "repository")
        table = desk.add_table("t")
        desk.product(InProcess()).backup(Scope("prod"))
        yield Shop(desk, disk, table)


@pytest.mark.spark
def test_a_disk_that_fills_up_while_copying_is_told_and_more_room_completes_the_backup(
    shop: Shop,
) -> None:
    large = shop.desk.add_table("large", snapshots=1, files=20, file_bytes=MIB)
    before = shop.desk.kept()
    shop.check_kept(shop.desk.run("backup"), "StorageFullError")
    after = shop.desk.kept()
    assert {name: after[name] for name in before} == before
    shop.disk.resize(64 * MIB)
    again = shop.desk.run("backup")
    assert (again.code, again.error) == (0, None)
    assert again.report["bytes_adopted"] >= 5 * MIB
    restored = (
        shop.desk.product(InProcess()).restore(tables=("large",), target_catalog="dr").tables[0]
    )
    target = shop.desk.target / "shop/large"
    assert shop.desk.differences(large, restored.metadata_location, target) == []


@pytest.mark.spark
def test_a_disk_that_becomes_read_only_before_copying_is_told(shop: Shop) -> None:
    shop.desk.add_table("large", snapshots=1, files=4, file_bytes=MIB)
    before = shop.desk.kept()
    shop.check_kept(shop.desk.run("backup", hook=LOCK + BEFORE_COPYING), "ReadOnlyStorageError")
    assert shop.desk.kept() == before
    shop.disk.resize(12 * MIB)
    again = shop.desk.product(InProcess()).backup()
    assert [item.status for item in again.objects] == ["NEW", "UNCHANGED"]


@pytest.mark.parametrize(
    ("change", "error"), [(FILL, "StorageFullError"), (LOCK, "ReadOnlyStorageError")]
)
def test_a_disk_that_fails_when_the_pit_is_to_be_published_is_told(
    shop: Shop, change: str, error: str
) -> None:
    before = shop.desk.kept()
    shop.check_kept(shop.desk.run("backup", hook=change + BEFORE_PUBLISHING), error)
    assert shop.desk.kept() == before
    shop.disk.resize(13 * MIB)
    again = shop.desk.run("backup")
    assert (again.code, again.report["parent_pit"]) == (0, shop.desk.pits()[0])


def test_a_read_only_repository_is_listed_and_described_and_takes_no_backup(shop: Shop) -> None:
    before = shop.desk.kept()
    shop.disk.make_read_only()
    shop.check_kept(shop.desk.run("backup"), "ReadOnlyStorageError")
    assert len(shop.desk.run("list").report["pits"]) == 1
    assert shop.desk.run("describe").code == 0
    unlocked = shop.desk.run("unlock")
    assert (unlocked.code, unlocked.report["unlocked"]) == (0, False)
    assert shop.desk.kept() == before


@pytest.mark.spark
def test_a_target_that_fills_up_is_told_and_more_room_completes_the_restore(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 6 * MIB) as disk:
        desk = open_desk(tmp_path, target=disk.folder / "target")
        table = desk.add_table("t", snapshots=2, files=6, file_bytes=MIB)
        desk.product(InProcess()).backup(Scope("prod"))
        before = desk.kept()
        full = desk.run("restore", "--target-catalog", "dr")
        assert (full.code, full.error) == (15, "StorageFullError")
        assert full.hint
        assert not (desk.root / "dr.db").exists()
        assert desk.kept() == before
        disk.resize(32 * MIB)
        report = desk.product(InProcess()).restore(target_catalog="dr")
        assert report.bytes_adopted >= 3 * MIB
        location = report.tables[0].metadata_location
        assert desk.differences(table, location, desk.target / "shop/t") == []
