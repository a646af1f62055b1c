"""bcn repair: what cannot come back is named, and a damaged point in time is set aside."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from bcn.errors import (
    RefusedError,
    UnknownPitError,
)
from bcn.model import PitId
from bcn.repository.repository import Scope
from bcn.repository.resolve import resolve_pit
from bcn.restore.plan import RestoreRequest
from bcn.restore.run import run_restore
from tests.maintenance.repairing import (
    backup,
    contents,
    copy_desk,
    cut,
    make_desk,
    pit_path,
    repair,
)
from tests.support.command import Desk, open_desk
from tests.support.small import InProcess


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    return make_desk(tmp_path_factory.mktemp("repair"))


@pytest.fixture
def desk(made: Desk, tmp_path: Path) -> Desk:
    return copy_desk(made, tmp_path)


# what is lost


def test_a_damaged_pit_is_named_with_its_tables_and_who_still_has_them(desk: Desk) -> None:
    pits = [PitId(text) for text in desk.pits()]
    cut(pit_path(desk, 1))
    before = contents(desk)
    report = repair(desk)
    (loss,) = report.losses
    assert (loss.what, loss.pits) == ("point in time", (pits[1],))
    assert [(item.table, item.held_by) for item in loss.tables] == [
        ("shop.t", (pits[0], pits[2], pits[3]))
    ]
    assert [item.key for item in report.changes] == ["catalogs/prod/pits.jsonl"]
    after = contents(desk)
    before.pop("catalogs/prod/pits.jsonl")
    lines = after.pop("catalogs/prod/pits.jsonl").decode().splitlines()
    assert after == before
    assert [json.loads(line)["pit"] for line in lines] == [str(pits[n]) for n in (0, 2, 3)]
    assert repair(desk).changes == ()
    assert not repair(desk).ok


@pytest.mark.parametrize("damage", [cut, Path.unlink])
def test_a_damaged_or_missing_entry_is_named_with_the_pits_that_need_it(
    desk: Desk, damage: Callable[[Path], None]
) -> None:
    pits = [PitId(text) for text in desk.pits()]
    entries = sorted(desk.location.glob("catalogs/prod/databases/shop/t/entries/*"))
    damage(entries[1])
    before = contents(desk)
    (loss,) = repair(desk).losses
    assert (loss.what, loss.key) == ("entry", str(entries[1].relative_to(desk.location)))
    assert loss.pits == tuple(pits[1:])
    assert [(item.table, item.held_by) for item in loss.tables] == [("shop.t", (pits[0],))]
    assert contents(desk) == before, "the table's own document stays: it is what is left of it"


def test_a_damaged_layer_is_named_with_every_pit_that_folds_it(desk: Desk) -> None:
    pits = [PitId(text) for text in desk.pits()]
    (layer,) = desk.location.glob("catalogs/prod/databases/shop/t/snapshots/*")
    layer.write_bytes(layer.read_bytes()[:-1] + b"x")
    (loss,) = repair(desk).losses
    assert (loss.what, loss.pits) == ("layer", tuple(pits))
    assert [(item.table, item.held_by) for item in loss.tables] == [("shop.t", ())]


def test_a_pit_that_vanished_is_told_once(desk: Desk) -> None:
    pits = [PitId(text) for text in desk.pits()]
    shutil.rmtree(pit_path(desk, 0).parent)
    first, second = repair(desk), repair(desk)
    (loss,) = first.losses
    assert loss.pits == (pits[0],)
    assert "removed by hand, or lost" in loss.message
    assert {item.table for item in loss.tables} == {"shop.t", "shop.gone"}
    assert (second.changes, second.losses) == ((), ())


@pytest.mark.long
def test_an_older_pit_restores_though_a_newer_one_is_damaged(desk: Desk) -> None:
    first = PitId(desk.pits()[0])
    path = pit_path(desk, -1)
    cut(path)
    listed = desk.run("list")
    assert listed.code == 0
    assert any(path.parent.name in line for line in listed.report["warnings"])
    refused = desk.run("restore", "--pit", path.parent.name, "--target-catalog", "dr")
    assert (refused.code, refused.error) == (13, "DamagedRepositoryError")
    product = desk.product(InProcess())
    request = RestoreRequest(product.spec, first, target_catalog="dr")
    restored = run_restore(request, product.open, product.engine)
    assert sorted(item.table.name for item in restored.tables) == ["gone", "t"]


# setting a damaged PIT aside


@pytest.mark.long
def test_a_backup_after_a_damaged_newest_pit_says_how_to_go_on_and_then_does(desk: Desk) -> None:
    pits, path = desk.pits(), pit_path(desk, -1)
    cut(path)
    damaged = path.read_bytes()
    refused = desk.run("backup")
    assert (refused.code, refused.error) == (13, "DamagedRepositoryError")
    assert f"bcn repair --quarantine {pits[-1]}" in refused.hint
    answer = desk.run("repair", "--quarantine", pits[-1])
    assert (answer.code, answer.report["ok"]) == (0, True)
    assert answer.report["quarantined"] == pits[-1]
    kept = desk.location / answer.report["quarantine_key"]
    assert kept.name == f"{pits[-1]}-1.json"
    assert kept.read_bytes() == damaged
    assert desk.pits() == pits[:-1]
    assert [item["pit"] for item in desk.run("list").report["pits"]] == pits[:-1]
    new = desk.product(InProcess()).backup()
    assert str(new.parent) == pits[-2]
    assert str(new.pit) > pits[-1]
    assert {item.table.name for item in new.objects} == {"t", "late"}
    assert repair(desk).changes == ()
    restored = desk.product(InProcess()).restore(new.pit, target_catalog="dr")
    assert len(restored.tables) == 2


def test_asking_for_a_pit_that_was_set_aside_never_gives_another(desk: Desk) -> None:
    name = pit_path(desk, -1).parent.name
    cut(pit_path(desk, -1))
    repair(desk, quarantine=name)
    with pytest.raises(UnknownPitError, match=name):
        resolve_pit(desk.repository, name)


def test_when_the_only_pit_is_set_aside_the_next_backup_begins_anew(tmp_path: Path) -> None:
    desk = open_desk(tmp_path)
    desk.add_table("t", snapshots=1)
    first = backup(desk, scope=Scope("prod"))
    cut(pit_path(desk, 0))
    assert repair(desk, quarantine=str(first)).ok
    report = desk.product(InProcess()).backup()
    assert report.parent is None
    assert report.pit > first
    assert report.files_adopted > 0, "what the damaged one stored is not copied again"
    assert (repair(desk).changes, repair(desk).losses) == ((), ())


def test_the_id_of_a_pit_that_was_set_aside_is_not_used_again(desk: Desk) -> None:
    later = pit_path(desk, -1).parent.rename(
        desk.location / "catalogs/prod/pit_manifests/20990101T000000.000000Z"
    )
    repair(desk, quarantine="2099")
    shutil.rmtree(desk.location / "leases")
    assert str(backup(desk)) > later.name


def test_several_damaged_manifests_of_one_pit_are_all_kept(desk: Desk) -> None:
    path = pit_path(desk, 1)
    for number, junk in enumerate([b"one", b"two", b"one"], 1):
        path.write_bytes(junk)
        report = repair(desk, quarantine=path.parent.name)
        kept = desk.location / str(report.quarantine_key)
        assert kept.name == f"{path.parent.name}-{min(number, 2) if junk == b'two' else 1}.json"
        assert kept.read_bytes() == junk


def test_what_is_whole_or_unknown_is_not_set_aside(desk: Desk) -> None:
    before = contents(desk)
    with pytest.raises(RefusedError, match="is whole"):
        repair(desk, quarantine="latest")
    for text in ("20200101T000000.000000Z", "20990101T000000.000000Z", "2099-01-01", "junk"):
        with pytest.raises(UnknownPitError):
            repair(desk, quarantine=text)
    assert contents(desk) == before


def test_a_dry_run_sets_nothing_aside(desk: Desk) -> None:
    cut(pit_path(desk, 2))
    before = contents(desk)
    report = repair(desk, quarantine="latest~1", dry_run=True)
    assert report.quarantine_key == f"trash/{pit_path(desk, 2).parent.name}-1.json"
    assert contents(desk) == before
