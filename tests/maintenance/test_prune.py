"""bcn prune: what nobody needs is named and goes; what anybody needs never does."""

from __future__ import annotations

import json
import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bcn.errors import (
    DamagedRepositoryError,
    NewerVersionError,
    NoRepositoryError,
    RefusedError,
)
from bcn.maintenance.orphans import Orphan
from bcn.maintenance.prune import PruneRequest, plan_prune, run_prune
from bcn.maintenance.prune_list import PruneList
from bcn.maintenance.repair import RepairRequest, run_repair
from bcn.model import PitId
from bcn.repository.repository import Scope, create_repository
from bcn.storage.protocol import StorageSpec
from tests.cli.pages import differences, examples
from tests.crash.faults import Fault, Killed, Steps, watched
from tests.maintenance.pruning import (
    AT_ONCE,
    DAY,
    SHORT,
    check_whole,
    files,
    kinds,
    make_desk,
    now,
    orphan,
    pit_path,
    prune,
    remove_pit,
)
from tests.support.command import (
    Desk,
    answer_of,
    open_desk,
    started,
    stored_bytes,
    wait_until,
)
from tests.support.small import InProcess


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return make_desk(tmp_path)


# what is an orphan


def test_after_backups_that_went_well_there_is_nothing_to_prune(desk: Desk) -> None:
    before = files(desk)
    report = prune(desk, grace=AT_ONCE)
    assert (report.items, report.pits, report.notes) == ((), 3, ())
    assert files(desk) == before


def test_what_only_a_removed_pit_needed_goes_and_all_else_stays(desk: Desk) -> None:
    remove_pit(desk, 1)
    remove_pit(desk, 0)
    kept = set(desk.pits())
    report = prune(desk, grace=AT_ONCE)
    # The dropped table: data, manifest, list, metadata; and the metadata of the first version.
    assert kinds(report) == {"data": 6, "layers": 1, "entries": 2}
    assert report.deleted == report.unneeded
    assert not list(desk.location.glob("data/*gone*"))
    gone = [item.orphan.key for item in report.items]
    assert not any((desk.location / key).exists() for key in gone)
    assert len([note for note in report.notes if "not there" in note]) == 2
    assert set(desk.pits()) == kept
    check_whole(desk)
    assert prune(desk, grace=AT_ONCE).items == ()


def test_a_file_that_an_older_pit_needs_stays_though_the_newest_does_not(desk: Desk) -> None:
    remove_pit(desk, 1)
    before = files(desk)
    report = prune(desk, grace=AT_ONCE)
    assert kinds(report) == {}, "the third PIT needs all that the second one stored"
    assert files(desk) == before
    remove_pit(desk, 1)
    report = prune(desk, grace=AT_ONCE)
    assert kinds(report) == {"data": 5, "layers": 1, "entries": 1}
    check_whole(desk)


@pytest.mark.long
def test_a_killed_backup_leaves_files_that_prune_names_and_deletes(desk: Desk) -> None:
    desk.add_table("late", snapshots=2)
    with watched(Steps()) as steps:
        backup_of(desk, "steps")
    published = next(n for n, step in enumerate(steps.done) if "/pit_manifests/" in step)
    with watched(Steps(published, Fault.KILLED)), pytest.raises(Killed):
        desk.product(InProcess()).backup(lease=SHORT.lease)
    report = prune(desk, grace=AT_ONCE, turn=SHORT)
    found = kinds(report)
    assert found["data"] == 9
    assert (found["layers"], found["entries"]) == (1, 1)
    assert found["jobs"] >= 3
    assert report.deleted == report.unneeded
    assert list((desk.location / "jobs").iterdir()) == []
    check_whole(desk)
    again = desk.product(InProcess()).backup(lease=SHORT.lease, lock_wait_seconds=5)
    assert {item.table.name for item in again.objects} == {"t", "late"}
    check_whole(desk)


def backup_of(desk: Desk, name: str) -> None:
    """The same backup on a copy: only its steps matter."""
    shutil.copytree(desk.location, desk.root / name / "repository")
    shutil.copyfile(desk.root / "prod.db", desk.root / name / "prod.db")
    open_desk(desk.root / name).product(InProcess()).backup()


@pytest.mark.spark
def test_what_a_backup_leaves_that_dies_by_sigkill_is_named_and_deleted(desk: Desk) -> None:
    desk.add_table("large", snapshots=2, files=15, file_bytes=2 << 20)
    before = stored_bytes(desk.location / "data")
    with started([desk.start("backup", "--limit-rate", "20M")]) as (process,):
        wait_until(lambda: stored_bytes(desk.location / "data") > before + (20 << 20), process)
        process.kill()
        assert answer_of(process).code == -9
    first = desk.run("prune")
    assert first.code == 0
    assert first.report["unneeded"]["bytes"] > 20 << 20
    assert first.report["items"][0]["bytes"] == 2 << 20
    assert first.report["deleted"] == {"files": 0, "bytes": 0}
    second = desk.run("prune", "--grace", "0")
    assert second.report["deleted"] == second.report["unneeded"] == first.report["unneeded"]
    assert stored_bytes(desk.location / "data") == before
    check_whole(desk)


def test_a_failed_table_leaves_files_and_its_last_version_stays(desk: Desk) -> None:
    table = desk.add_table("broken", snapshots=2)
    table.data_file(3).unlink()
    report = desk.product(InProcess()).backup()
    assert [item.table.name for item in report.failed] == ["broken"]
    found = prune(desk, grace=AT_ONCE)
    assert found.deleted.files > 0
    assert all("/broken/" in item.orphan.key or "data/" in item.orphan.key for item in found.items)
    check_whole(desk)
    assert prune(desk, grace=AT_ONCE).items == ()


def test_temporary_files_go_where_prune_may_delete_and_only_there(desk: Desk) -> None:
    folders = ["data/x/r0", "jobs/j", "trash", "catalogs/prod/databases/shop/t/deltas"]
    others = [".", "leases", "catalogs/prod", "catalogs/prod/databases/shop/t"]
    for folder in (*folders, *others):
        path = desk.location / folder / ".bcn-tmp-0123456789abcdef"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"half")
    report = prune(desk, grace=AT_ONCE)
    assert kinds(report) == {"temporary": 4}
    left = {
        str(path.parent.relative_to(desk.location)) for path in desk.location.rglob(".bcn-tmp-*")
    }
    assert left == set(others)
    assert not (desk.location / "data/x").exists(), "an empty folder goes with its last file"


def test_nothing_outside_its_prefixes_is_named(desk: Desk) -> None:
    for name in (
        "mine.txt",
        "verifications/x.json",
        "published/t/x",
        "catalogs/prod/x.json",
        "catalogs/prod/databases/shop/t/x.json",
        "trash/mine.txt",
        "keys/k",
    ):
        path = desk.location / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    assert prune(desk, grace=AT_ONCE).items == ()


def test_odd_names_are_named_and_deleted(desk: Desk) -> None:
    folder = os.fsencode(desk.location) + b"/data/\xff odd\n"
    os.makedirs(folder)
    (Path(os.fsdecode(folder)) / "x").write_bytes(b"x")
    assert prune(desk).unneeded.files == 1
    assert prune(desk, at=now() + 2 * DAY).deleted.files == 1
    assert not os.path.exists(folder)


# deciding


def test_the_plan_follows_from_lists_and_clock() -> None:
    moment = datetime(2026, 8, 20, tzinfo=UTC)
    items = [Orphan("data", name, 1, "v1") for name in ("new", "old", "young", "changed")]
    old = PruneList(PitId.of(moment), moment, {"old": "v1", "changed": "v0"})
    young = PruneList(PitId.of(moment + DAY), moment + DAY, {"young": "v1", "old": "v1"})
    plan = plan_prune(items, [old, young], 2 * DAY, moment + 2 * DAY)
    assert [item.key for item in plan.unlisted] == ["new", "changed"]
    assert [item.orphan.key for item in plan.due] == ["old"]
    assert [item.orphan.key for item in plan.waiting] == ["new", "young", "changed"]
    assert plan.finished == (old,)
    at_once = plan_prune(items, [young], AT_ONCE, moment)  # listed in a future: a clock ran back
    assert len(at_once.due) == 4
    assert at_once.finished == (young,)


# what is needed must be known


@pytest.mark.parametrize("place", ["pit", "entry", "layer"])
@pytest.mark.parametrize("damage", ["cut", "missing"])
def test_while_anything_needed_cannot_be_read_nothing_is_listed_or_deleted(
    desk: Desk, place: str, damage: str
) -> None:
    orphan(desk)
    start = now()
    prune(desk, at=start)
    table = desk.location / "catalogs/prod/databases/shop/t"
    path = {
        "pit": pit_path(desk, 1),
        "entry": sorted(table.glob("entries/*"))[0],
        "layer": next(table.glob("deltas/*")),
    }[place]
    if damage == "cut":
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    elif place == "pit":
        return  # a PIT that is not there needs nothing
    else:
        path.unlink()
    before = files(desk)
    for more in ({}, {"dry_run": True}, {"grace": AT_ONCE}):
        with pytest.raises(DamagedRepositoryError) as caught:
            prune(desk, at=start + 2 * DAY, **more)
        name = path.parent.name if place == "pit" else path.name
        assert name in str(caught.value)
        assert "bcn repair" in caught.value.hint
    assert files(desk) == before


def test_a_pit_that_was_set_aside_no_longer_counts_and_is_told(desk: Desk) -> None:
    path = pit_path(desk, -1)
    path.write_bytes(b"junk")
    name = path.parent.name
    run_repair(RepairRequest(StorageSpec(str(desk.location)), quarantine=name), now)
    report = prune(desk, grace=AT_ONCE)
    assert any(name in note for note in report.notes)
    assert list(desk.location.glob(f"trash/{name}-1.json"))
    check_whole(desk)


def test_a_manifest_json_of_another_catalog_does_not_make_everything_unneeded(desk: Desk) -> None:
    path = desk.location / "manifest.json"
    document = json.loads(path.read_bytes())
    document["scope"]["catalog"] = "other"
    path.write_text(json.dumps(document))
    with pytest.raises(DamagedRepositoryError, match="does not know the catalog"):
        prune(desk, grace=AT_ONCE)


def test_when_every_pit_is_gone_nothing_is_deleted(desk: Desk) -> None:
    shutil.rmtree(desk.location / "catalogs/prod/pit_manifests")
    before = files(desk)
    with pytest.raises(RefusedError, match="every point in time is gone"):
        prune(desk, grace=AT_ONCE)
    assert files(desk) == before


def test_a_first_backup_that_was_killed_can_be_pruned(tmp_path: Path) -> None:
    desk = open_desk(tmp_path)
    create_repository(StorageSpec(str(desk.location)), Scope("prod"), now())
    path = orphan(desk)
    assert prune(desk, grace=AT_ONCE).deleted.files == 1
    assert not path.exists()


def test_newer_and_read_only_and_missing_repositories_are_refused(desk: Desk) -> None:
    with pytest.raises(NoRepositoryError):
        run_prune(PruneRequest(StorageSpec(str(desk.root / "nothing"))), now)
    path, pit = desk.location / "manifest.json", pit_path(desk, 0)
    before = path.read_bytes()
    document = json.loads(before)
    path.write_text(json.dumps({**document, "features": {"read": [], "write": ["later"]}}))
    with pytest.raises(RefusedError, match="read-only"):
        prune(desk)
    path.write_bytes(before)
    pit.write_text(json.dumps({**json.loads(pit.read_bytes()), "version": "2"}))
    with pytest.raises(NewerVersionError):
        prune(desk, grace=AT_ONCE)


# the command


@pytest.mark.long
def test_the_command_lists_then_deletes(desk: Desk) -> None:
    orphan(desk, size=2048)
    planned = desk.run("prune", "--dry-run")
    assert (planned.code, planned.report["unneeded"]) == (0, {"files": 1, "bytes": 2048})
    assert desk.run("prune").report["deleted"] == {"files": 0, "bytes": 0}
    done = desk.run("prune", "--grace", "0")
    assert done.report["deleted"] == {"files": 1, "bytes": 2048}
    assert done.report["kinds"] == [{"kind": "data", "files": 1, "bytes": 2048}]
    for answer in (planned, done):
        assert differences(answer.report, examples()["prune"]) == []
    for text in ("-1", "nan", "inf", "soon"):
        assert desk.run("prune", f"--grace={text}").code == 2
