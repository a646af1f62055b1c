"""What a repository holds, also when parts of it are hurt; and PITs by what people type."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bcn.errors import DamagedRepositoryError, NoSuchNamespaceError, UnknownPitError
from bcn.model import PitId
from bcn.repository import layout
from bcn.repository.lease import LeaseSettings, Lessor
from bcn.repository.listing import describe, list_objects, list_pits
from bcn.repository.repository import Repository, create_repository
from bcn.repository.resolve import choose_pit, resolve_pit
from bcn.storage.protocol import StorageSpec
from tests.cli.made import (
    PITS,
    START,
    damage,
    make_repository,
    manifest,
    record,
    three_pits,
    write_index,
)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return make_repository(tmp_path / "repository")


# PITs


def test_pits_are_listed_oldest_first_with_their_own_counts(repository: Repository) -> None:
    report = list_pits(repository)
    assert [pit.pit for pit in report.pits] == list(PITS)
    assert [pit.parent for pit in report.pits] == [None, PITS[0], PITS[1]]
    assert [pit.count("bytes_new") for pit in report.pits] == [4096, 10, 0]
    assert [pit.count("deleted") for pit in report.pits] == [0, 1, 1]
    assert report.pits[1].labels == (("by", "cron"),)
    assert report.newest is report.pits[-1]
    assert report.warnings == ()


def test_a_damaged_pit_is_listed_as_such_and_hides_no_other(repository: Repository) -> None:
    damage(repository, PITS[1])
    report = list_pits(repository)
    assert [pit.damaged is None for pit in report.pits] == [True, False, True]
    [warning] = report.warnings
    assert str(PITS[1]) in warning
    assert "damaged" in warning


def test_damage_is_seen_though_the_index_says_that_all_is_well(repository: Repository) -> None:
    write_index(repository, three_pits())
    damage(repository, PITS[2])
    report = list_pits(repository)
    assert report.pits[-1].damaged is not None
    assert report.newest is report.pits[1]


def test_an_edited_pit_is_damaged(repository: Repository) -> None:
    path = Path(repository.spec.location, repository.pit_key(PITS[0]))
    path.write_text(path.read_text().replace("sales.orders", "sales.ordres"))
    assert "checksum" in str(list_pits(repository).pits[0].damaged)


def test_beyond_the_limit_older_pits_come_from_the_index(repository: Repository) -> None:
    write_index(repository, three_pits())
    damage(repository, PITS[0])
    report = list_pits(repository, checked_bytes=0)
    assert [pit.is_checked for pit in report.pits] == [False] * 3
    assert [pit.count("bytes_new") for pit in report.pits] == [4096, 10, 0]


@pytest.mark.parametrize("line", ["{}", "[]", '{"pit": 7}', "not json", ""])
def test_a_wrong_index_is_as_good_as_none(repository: Repository, line: str) -> None:
    repository.storage.replace(layout.pits_index_key("prod"), line.encode())
    report = list_pits(repository, checked_bytes=0)
    assert [pit.count("bytes_new") for pit in report.pits] == [4096, 10, 0]


def test_an_index_line_that_lacks_counts_is_not_believed(repository: Repository) -> None:
    text = json.dumps({"pit": str(PITS[0]), "parent_pit": None, "labels": {}})
    repository.storage.replace(layout.pits_index_key("prod"), text.encode())
    assert list_pits(repository, checked_bytes=0).pits[0].count("bytes_new") == 4096


def test_an_abandoned_pit_is_none(repository: Repository) -> None:
    later = PitId.of(datetime(2026, 9, 1, tzinfo=UTC))
    marker = b'{"version": "1", "abandoned": true}'
    repository.storage.write_once(repository.pit_key(later), marker)
    assert [pit.pit for pit in list_pits(repository).pits] == list(PITS)
    assert resolve_pit(repository, "latest") == PITS[-1]


# objects of one PIT


def test_objects_have_the_status_that_people_are_told(repository: Repository) -> None:
    report = list_objects(repository, PITS[2])
    told = {f"{item.database}.{item.name}": item.status for item in report.objects}
    assert told == {
        "hr.ghosts": "FAILED",
        "hr.people": "FAILED",
        "sales.items": "DELETED",
        "sales.orders": "UNCHANGED",
    }
    assert [item.name for item in report.objects] == ["ghosts", "people", "items", "orders"]


@pytest.mark.parametrize("change", ["NEW", "CHANGED", "RENAMED"])
def test_what_came_or_changed_is_active(tmp_path: Path, change: str) -> None:
    repository = make_repository(tmp_path / "r", [manifest(PITS[0], [record("a.b", change)])])
    [item] = list_objects(repository, PITS[0]).objects
    assert (item.status, item.change) == ("ACTIVE", change)


def test_an_object_says_where_its_last_good_version_is(repository: Repository) -> None:
    found = {item.name: item for item in list_objects(repository, PITS[2]).objects}
    assert found["people"].last_pit == PITS[1]
    assert found["people"].message == "no"
    assert found["items"].last_pit == PITS[0]
    assert found["ghosts"].last_pit is None
    assert found["orders"].damaged_snapshots == 1


def test_one_database_can_be_listed(repository: Repository) -> None:
    report = list_objects(repository, PITS[2], "hr")
    assert [item.name for item in report.objects] == ["ghosts", "people"]


def test_a_database_of_which_all_is_gone_can_still_be_listed(tmp_path: Path) -> None:
    pit = manifest(PITS[1], [record("hr.people")], deleted_namespaces=("sales",))
    repository = make_repository(tmp_path / "r", [pit])
    assert list_objects(repository, PITS[1], "sales").objects == ()


def test_an_odd_name_of_a_database_is_found_with_and_without_quotes(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "r", [manifest(PITS[0], [record("`my-db`.x.t")])])
    assert len(list_objects(repository, PITS[0], "my-db.x").objects) == 1
    assert len(list_objects(repository, PITS[0], "`my-db`.x").objects) == 1


def test_an_unknown_database_is_told_the_nearest_name(repository: Repository) -> None:
    with pytest.raises(NoSuchNamespaceError, match="did you mean 'sales'"):
        list_objects(repository, PITS[0], "sale")


def test_a_damaged_pit_has_no_objects_to_list(repository: Repository) -> None:
    damage(repository, PITS[0])
    with pytest.raises(DamagedRepositoryError):
        list_objects(repository, PITS[0])


# the whole


def test_a_repository_is_described(repository: Repository) -> None:
    report = describe(repository)
    assert (report.granularity, report.catalog, report.database) == ("CATALOG", "prod", None)
    assert (report.bytes_new, report.bytes_total) == (4106, 8192)
    assert [item.name for item in report.deleted] == ["items"]
    assert report.lease is None
    assert report.warnings == ()


def test_an_empty_repository_is_described(tmp_path: Path) -> None:
    report = describe(create_repository(StorageSpec(str(tmp_path / "r")), None, START))
    assert (report.granularity, report.list.pits, report.bytes_total) == (None, (), 0)


def test_the_writer_of_a_repository_is_named(repository: Repository) -> None:
    lessor = Lessor(repository.storage, LeaseSettings(), lambda: START)
    later = PitId.of(datetime(2026, 9, 1, tzinfo=UTC))
    with lessor.hold(later, repository.pit_key(later), None):
        held = describe(repository).lease
    assert held is not None
    assert f"process {os.getpid()}" in held.owner
    assert (held.pit, held.is_gone) == (later, False)


def test_a_writer_that_is_gone_is_told_to_be(repository: Repository) -> None:
    script = (
        "import os, sys\n"
        "from datetime import UTC, datetime\n"
        "from bcn.model import PitId\n"
        "from bcn.repository.lease import LeaseSettings, Lessor\n"
        "from bcn.storage.local import LocalStorage\n"
        "now = lambda: datetime(2026, 9, 1, tzinfo=UTC)\n"
        "lessor = Lessor(LocalStorage(sys.argv[1]), LeaseSettings(), now)\n"
        "with lessor.hold(PitId.of(now()), sys.argv[2], None):\n"
        "    os._exit(0)\n"
    )
    key = repository.pit_key(PitId.of(datetime(2026, 9, 1, tzinfo=UTC)))
    subprocess.run([sys.executable, "-c", script, repository.spec.location, key], check=True)
    held = describe(repository).lease
    assert held is not None
    assert held.is_gone


def test_a_lease_that_cannot_be_read_is_a_warning(repository: Repository) -> None:
    repository.storage.write_once(layout.lease_key(1), b'{"version": "1"}')
    report = describe(repository)
    assert report.lease is None
    assert "lease" in report.warnings[0]


# what people type


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("latest", 2),
        ("latest~0", 2),
        ("latest~2", 0),
        (" latest ", 2),
        ("20260821T101530.500000Z", 1),
        ("20260821T101530.500000", 1),
        ("20260821", 1),
        ("20260820T10", 0),
        ("2026-08-21", 1),
        ("2026-08", 2),
        ("2026-W34", 2),
        ("2026-W34-5", 1),
        ("2026-233", 1),
        ("2026-08-21T10", 1),
        ("2026-08-21T10:14", 0),
        ("2026-08-21T10:15", 1),
        ("2026-08-21 10:15:30", 1),
        ("2026-08-21T10:15:30Z", 1),
        ("20260821T101530Z", 1),
        ("2026-08-21T10:15:30.5", 1),
        ("2026-08-21T10:15:30.499999Z", 0),
        ("2026-08-21T12:15:30+02:00", 1),
        ("2026-08-21T12:15:29+0200", 0),
        ("2026-08-21T05:15-05", 1),
        ("2026-08-21T23:59:59,9", 1),
        ("9999-12-31", 2),
    ],
)
def test_a_point_in_time_is_found_by_what_people_type(text: str, number: int) -> None:
    assert choose_pit(PITS, text.strip()) == PITS[number]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("2026", str(PITS[0])),
        ("202608", str(PITS[2])),
        ("latest~3", "only 3"),
        ("2026-08-20T10:15:29", f"the oldest is {PITS[0]}"),
        ("2026-08-19", "at or before"),
        ("2026-13-01", "no time"),
        ("yesterday", str(PITS[1])),
        ("", "no time"),
        ("latest~", "no time"),
        ("LATEST", "no time"),
    ],
)
def test_none_or_several_are_an_error_that_names_what_there_is(text: str, told: str) -> None:
    with pytest.raises(UnknownPitError) as caught:
        choose_pit(PITS, text)
    assert told in str(caught.value)


def test_of_many_candidates_only_some_are_named() -> None:
    many = [PitId.of(START.replace(minute=minute)) for minute in range(40)]
    with pytest.raises(UnknownPitError, match="and 35 older ones") as caught:
        choose_pit(many, "2026")
    assert str(many[-1]) in str(caught.value)


def test_asking_for_the_newest_never_gives_an_older_one(repository: Repository) -> None:
    damage(repository, PITS[2])
    assert resolve_pit(repository, "latest") == PITS[2]


def test_without_a_backup_there_is_no_point_in_time(tmp_path: Path) -> None:
    repository = create_repository(StorageSpec(str(tmp_path / "r")), None, START)
    with pytest.raises(UnknownPitError, match="no point in time yet"):
        resolve_pit(repository, "latest")
