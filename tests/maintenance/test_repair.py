"""bcn repair: what only repeats points in time comes back, what is lost is named."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from bcn.errors import (
    BcnError,
    DamagedRepositoryError,
    NewerVersionError,
    NoRepositoryError,
    RefusedError,
    RepositoryLockedError,
    UnknownPitError,
)
from bcn.maintenance.repair import RepairReport, RepairRequest, run_repair
from bcn.maintenance.turn import TurnSettings
from bcn.model import PitId
from bcn.repository import layout
from bcn.repository.lease import LeaseSettings, Lessor, find_held_lease
from bcn.repository.repository import create_repository
from bcn.storage.protocol import StorageSpec
from tests.cli.pages import differences, examples
from tests.crash.faults import Fault, Killed, Steps, watched
from tests.maintenance.repairing import (
    backup,
    contents,
    copy_desk,
    cut,
    derived,
    make_desk,
    now,
    pit_path,
    repair,
)
from tests.support.command import Desk, open_desk


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    return make_desk(tmp_path_factory.mktemp("repair"))


@pytest.fixture
def desk(made: Desk, tmp_path: Path) -> Desk:
    return copy_desk(made, tmp_path)


# derived files


def test_what_backups_wrote_needs_no_repair(desk: Desk) -> None:
    before = contents(desk)
    report = repair(desk)
    assert (report.changes, report.losses, report.pits) == ((), (), 4)
    assert contents(desk) == before
    assert find_held_lease(desk.repository.storage) is None


def test_every_derived_file_comes_back_byte_for_byte(desk: Desk) -> None:
    before, paths = contents(desk), derived(desk)
    assert {path.name for path in paths} == {
        "manifest.json",
        "pits.jsonl",
        "catalog_metadata.json",
        "database_metadata.json",
        ".deleted_tables.json",
        "table_manifest.json",
    }
    for path in paths:
        path.unlink()
    report = repair(desk)
    assert {item.key for item in report.changes} == {
        str(path.relative_to(desk.location)) for path in paths
    }
    after = contents(desk)
    catalog = layout.catalog_metadata_key("prod")
    assert json.loads(after.pop(catalog)) == {"version": "1", "name": "prod", "properties": {}}
    before.pop(catalog)  # what the catalog says of itself is in no PIT
    assert after == before
    assert report.warnings == (f"the properties in {catalog} come back with the next backup",)
    assert repair(desk).changes == ()
    backup(desk)
    assert json.loads((desk.location / catalog).read_text())["properties"]["type"] == "sql"


@pytest.mark.parametrize(
    "junk", [b"", b"null", b"\xff\xfe", b'{"version": "1"}', b"[" * 100_000, b'{"version": "x"}']
)
def test_garbage_in_derived_files_is_replaced(desk: Desk, junk: bytes) -> None:
    before, paths = contents(desk), derived(desk)
    for path in paths:
        path.write_bytes(junk)
    assert len(repair(desk).changes) == len(paths)
    after = contents(desk)
    catalog = layout.catalog_metadata_key("prod")
    assert {**after, catalog: before[catalog]} == before


@pytest.mark.parametrize(
    "change",
    [
        {"scope": {"catalog": "other", "database": None, "table": None}},
        {"granularity": "TABLE"},
        {"repository_id": "another"},
        {"last_pit": None},
        {"features": "none"},
    ],
)
def test_where_manifest_json_and_points_in_time_disagree_they_hold(
    desk: Desk, change: dict[str, Any]
) -> None:
    path = desk.location / "manifest.json"
    before = path.read_bytes()
    path.write_text(json.dumps({**json.loads(before), **change}))
    assert [item.key for item in repair(desk).changes] == ["manifest.json"]
    assert path.read_bytes() == before


def test_what_a_later_bcn_added_to_manifest_json_stays(desk: Desk) -> None:
    path = desk.location / "manifest.json"
    document = {**json.loads(path.read_bytes()), "later": {"key": 1}, "last_pit": None}
    path.write_text(json.dumps(document))
    repair(desk)
    assert json.loads(path.read_bytes())["later"] == {"key": 1}


def test_documents_that_nothing_calls_for_and_half_written_ones_go(desk: Desk) -> None:
    folder = desk.location / "catalogs/prod/databases"
    stale = [folder / "old/t/table_manifest.json", folder / "old/.deleted_tables.json"]
    half = [desk.location / "catalogs/prod/.bcn-tmp-1", folder / "shop/.bcn-tmp-2"]
    others = [folder / "shop/t/entries/.bcn-tmp-3", folder / "shop/t/mine.txt"]
    for path in (*stale, *half, *others):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"{}")
    (desk.location / ".in_progress").write_bytes(b"{}")
    report = repair(desk)
    assert {item.action for item in report.changes} == {"remove"}
    assert not any(path.exists() for path in (*stale, *half, desk.location / ".in_progress"))
    assert all(path.exists() for path in others)
    assert repair(desk).changes == ()


def test_a_dry_run_changes_nothing_and_says_the_same(desk: Desk) -> None:
    for path in derived(desk):
        path.unlink()
    cut(pit_path(desk, 1))
    (desk.location / ".in_progress").write_bytes(b"{}")
    before = {**contents(desk)}
    planned = repair(desk, dry_run=True)
    assert contents(desk) == before
    assert not list(desk.location.glob("leases/00000005*"))
    done = repair(desk)
    assert (planned.changes, planned.losses) == (done.changes, done.losses)
    assert planned.changes
    assert planned.losses


# bad input


def test_no_repository_is_none_to_repair(tmp_path: Path) -> None:
    with pytest.raises(NoRepositoryError):
        run_repair(RepairRequest(StorageSpec(str(tmp_path / "nothing"))), now)


def test_a_repository_without_any_readable_pit_and_document_cannot_be_repaired(desk: Desk) -> None:
    for number in range(4):
        cut(pit_path(desk, number))
    (desk.location / "manifest.json").write_bytes(b"{}")
    with pytest.raises(DamagedRepositoryError, match=r"manifest\.json"):
        repair(desk)


def test_an_empty_repository_needs_no_repair(tmp_path: Path) -> None:
    spec = StorageSpec(str(tmp_path / "repository"))
    create_repository(spec, None, now())
    assert run_repair(RepairRequest(spec), now).changes == ()


@pytest.mark.parametrize("place", ["manifest", "pit", "entry"])
def test_what_a_later_bcn_wrote_is_not_repaired(desk: Desk, place: str) -> None:
    path = {
        "manifest": desk.location / "manifest.json",
        "pit": pit_path(desk, 1),
        "entry": next(desk.location.glob("catalogs/prod/databases/shop/t/entries/*")),
    }[place]
    path.write_text(json.dumps({**json.loads(path.read_bytes()), "version": "2"}))
    before = contents(desk)
    kinds = DamagedRepositoryError if place == "entry" else NewerVersionError
    if place == "entry":  # its digest is compared first, so it is damage
        assert repair(desk).losses
    else:
        with pytest.raises(kinds):
            repair(desk)
    assert contents(desk) == before


def test_a_repository_that_is_read_only_for_this_bcn_is_refused(desk: Desk) -> None:
    path = desk.location / "manifest.json"
    features = {"read": [], "write": ["later"]}
    path.write_text(json.dumps({**json.loads(path.read_bytes()), "features": features}))
    with pytest.raises(RefusedError, match="read-only"):
        repair(desk)


def test_repair_waits_for_a_writer(desk: Desk) -> None:
    repository = desk.repository
    lessor = Lessor(repository.storage, LeaseSettings(), now)
    pit = PitId.of(now())
    with lessor.hold(pit, repository.pit_key(pit), None), pytest.raises(RepositoryLockedError):
        repair(desk)


# ends between any two steps


@pytest.mark.long
@pytest.mark.parametrize("fault", Fault, ids=[fault.value for fault in Fault])
def test_a_repair_that_ends_between_any_two_steps_is_made_whole_by_the_next(
    desk: Desk, fault: Fault, tmp_path: Path
) -> None:
    for path in derived(desk)[::2]:
        path.write_bytes(b"junk")
    cut(pit_path(desk, -1))
    name = pit_path(desk, -1).parent.name
    short = TurnSettings(5, LeaseSettings(ttl_seconds=0.02))  # a killed run looks alive

    def copy(number: str) -> Desk:
        shutil.copytree(desk.location, tmp_path / number / "repository")
        return open_desk(tmp_path / number)

    def work(target: Desk) -> RepairReport:
        return repair(target, quarantine=name, turn=short)

    with watched(Steps()) as steps:
        whole = copy("whole")
        work(whole)
    kinds = {Fault.KILLED: Killed, Fault.STOPPED: BaseException, Fault.REFUSED: BcnError}
    for number in range(len(steps.done)):
        target = copy(f"{fault.value}{number}")
        with watched(Steps(number, fault)):
            try:
                work(target)
            except kinds[fault]:
                pass
        try:
            work(target)
        except UnknownPitError:  # it was set aside before the fault
            repair(target, turn=short)
        expected, found = comparable(whole), comparable(target)
        assert found == expected, steps.done[number]
        shutil.rmtree(target.root)


def comparable(desk: Desk) -> dict[str, bytes]:
    """All but leases, and the marker, which says when and by whom."""
    found = contents(desk)
    return {key: data for key, data in found.items() if b'"abandoned": true' not in data}


# the command


@pytest.mark.long
def test_the_command_says_what_it_did_and_ends_with_13_when_something_is_lost(desk: Desk) -> None:
    (desk.location / "catalogs/prod/pits.jsonl").unlink()
    answer = desk.run("repair")
    assert (answer.code, answer.report["ok"]) == (0, True)
    assert answer.report["changes"] == [{"key": "catalogs/prod/pits.jsonl", "action": "write"}]
    cut(pit_path(desk, 0))
    answer = desk.run("repair")
    assert (answer.code, answer.error) == (13, "DamagedRepositoryError")
    assert answer.report["losses"][0]["what"] == "point in time"
    assert answer.report["losses"][0]["tables"][0]["held_by"]
    assert "--quarantine" in answer.hint
    assert differences(answer.report, examples()["repair"]) == []
