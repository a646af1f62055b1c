"""Two points in time of real backups, compared."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bcn.changes import diff as diff_module
from bcn.changes.chosen import Chosen
from bcn.changes.diff import DiffReport, ObjectDiff, Span, diff_pits
from bcn.errors import NoSuchNamespaceError, NoSuchTableError
from bcn.iceberg.columns import Change
from bcn.iceberg.history import History
from bcn.model import PitId
from tests.changes.places import World, append, open_world


@pytest.fixture
def world(tmp_path: Path) -> World:
    return open_world(tmp_path)


def diff(world: World, old: PitId, new: PitId, **chosen: tuple[str, ...]) -> DiffReport:
    return diff_pits(world.repository, old, new, Chosen(**chosen))


def only(report: DiffReport) -> ObjectDiff:
    assert len(report.objects) == 1, report.objects
    return report.objects[0]


def test_two_backups_of_the_same_have_no_difference(world: World) -> None:
    world.add("t")
    first, second = world.backup(), world.backup()
    report = diff(world, first, second)
    assert (report.objects, report.unchanged, report.warnings) == ((), 1, ())


def test_a_table_that_changed_is_told_with_rows_bytes_files_and_snapshots(world: World) -> None:
    world.add("t")
    world.add("other")
    first = world.backup()
    world.commit("t", append)
    second = world.backup()
    report = diff(world, first, second)
    found = only(report)
    assert (found.status, found.database, found.name, found.type) == (
        *("CHANGED", "db", "t"),
        "table",
    )
    assert (found.rows, found.deletes) == (Span(None, 120), Span(None, 7))
    assert found.snapshots == Span(2, 3)
    assert found.changes[0].aspect == "snapshot"
    assert report.unchanged == 1
    records = [
        next(item for item in world.pit(pit).objects if item.table.name == "t")
        for pit in (first, second)
    ]
    assert found.files == Span(records[0].files, records[1].files)
    assert found.size_bytes == Span(records[0].size_bytes, records[1].size_bytes)


def test_files_added_and_removed_are_those_of_the_inventories(world: World) -> None:
    table = world.add("t")
    first = world.backup()
    kept = {row["key"] for row in world.inventory("t")}

    def expire(document: Any) -> None:
        del document["snapshots"][0], document["snapshot-log"][0]
        document["statistics"] = []

    world.commit("t", expire)
    second = world.backup()
    now = {row["key"] for row in world.inventory("t")}
    found = only(diff(world, first, second))
    assert (found.files_added, found.files_removed) == (len(now - kept), len(kept - now))
    assert found.files_removed == 3  # the metadata file, a manifest list, statistics
    back = only(diff(world, second, first))
    assert (back.files_added, back.files_removed) == (len(kept - now), len(now - kept))
    assert table is not None


def test_files_of_very_large_tables_are_not_counted_one_by_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.add("t")
    first = world.backup()
    world.commit("t", append)
    second = world.backup()
    monkeypatch.setattr(diff_module, "COUNTED_ROWS", 3)
    found = only(diff(world, first, second))
    assert (found.files_added, found.files_removed) == (None, None)
    assert found.files.after is not None


def test_what_came_and_what_went_is_told_with_its_last_figures(world: World) -> None:
    world.add("old")
    world.commit("old", append)
    first = world.backup()
    world.drop("old")
    world.add("young")
    second = world.backup()
    report = diff(world, first, second)
    gone, young = report.objects
    assert (gone.name, gone.status, gone.rows) == ("old", "DELETED", Span(120, None))
    assert gone.deleted_at is not None
    assert (young.name, young.status, young.snapshots) == ("young", "NEW", Span(None, 2))
    assert (report.count("NEW"), report.count("DELETED")) == (1, 1)


def test_drop_and_create_under_one_name_is_two_objects(world: World) -> None:
    world.add("t")
    first = world.backup()
    world.drop("t")
    world.add("t")
    report = diff(world, first, world.backup())
    assert sorted(item.status for item in report.objects) == ["DELETED", "NEW"]
    assert {item.name for item in report.objects} == {"t"}


def test_a_rename_also_into_another_database_is_no_loss(world: World) -> None:
    world.add("t")
    first = world.backup()
    world.rename("t", "db2", "t9")
    second = world.backup()
    report = diff(world, first, second, databases=("db",))
    found = next(item for item in report.objects if item.type == "table")
    assert (found.status, found.old_name, found.database, found.name) == (
        *("RENAMED", "db.t"),
        *("db2", "t9"),
    )
    assert (found.changes, found.problem, found.rows) == ((), None, Span())


def test_a_rename_with_a_change_tells_both(world: World) -> None:
    world.add("t")
    first = world.backup()
    world.rename("t", "db", "t9")
    world.commit("t9", append)
    found = only(diff(world, first, world.backup()))
    assert (found.status, found.old_name, found.rows.after) == ("RENAMED", "db.t", 120)
    assert any(change.aspect == "snapshot" for change in found.changes)


def test_databases_come_go_and_change_their_properties(world: World) -> None:
    world.add("t")
    world.set_namespace("sales", {"owner": "ada"})
    world.set_namespace("hr", {})
    first = world.backup()
    world.set_namespace("sales", {"owner": "eve"})
    world.set_namespace("ops", {})
    world.drop_namespace("hr")
    report = diff(world, first, world.backup())
    assert [(item.type, item.name, item.status) for item in report.objects] == [
        ("database", "hr", "DELETED"),
        ("database", "ops", "NEW"),
        ("database", "sales", "CHANGED"),
    ]
    assert report.objects[2].changes == (Change("property", "changed", "owner", "ada", "eve"),)
    only_hr = diff(world, first, world.backup(), databases=("hr",))
    assert [item.name for item in only_hr.objects] == ["hr"]


def test_the_sql_of_a_view_is_compared(world: World) -> None:
    world.add("t")
    world.set_view("v", "SELECT 1")
    first = world.backup()
    world.set_view("v", "SELECT 2")
    found = only(diff(world, first, world.backup()))
    assert (found.type, found.status, found.rows) == ("view", "CHANGED", Span())
    assert Change("sql", "changed", "spark", "SELECT 1", "SELECT 2") in found.changes


def test_metadata_that_was_only_written_again_is_told_as_such(world: World) -> None:
    world.add("t")
    first = world.backup()
    world.commit("t", lambda document: document.update({"last-updated-ms": 1800000000000}))
    found = only(diff(world, first, world.backup()))
    assert found.changes == (Change("metadata", "rewritten"),)


def test_another_history_is_a_change_of_coverage(world: World) -> None:
    world.add("t")
    first = world.backup()
    second = world.backup(history=History.parse("current"))
    found = only(diff(world, first, second))
    assert Change("coverage", "changed", None, "all", "current") in found.changes


def test_patterns_choose_by_either_name(world: World) -> None:
    for name in ("a1", "a2", "b1"):
        world.add(name)
    first = world.backup()
    world.rename("b1", "db", "c1")
    world.commit("a1", append)
    second = world.backup()
    names = lambda **chosen: [  # noqa: E731
        item.name for item in diff(world, first, second, **chosen).objects
    ]
    assert names(tables=("a*",)) == ["a1"]
    assert names(tables=("db.b1",)) == ["c1"]
    assert names(tables=("c?",)) == ["c1"]
    assert names(databases=("d*",)) == ["a1", "c1"]
    assert diff(world, first, second, tables=("a*",)).unchanged == 1


def test_a_name_that_nothing_has_is_told_with_the_nearest(world: World) -> None:
    world.add("orders")
    pit = world.backup()
    with pytest.raises(NoSuchTableError, match=r"did you mean 'db\.orders'"):
        diff(world, pit, pit, tables=("ordres",))
    with pytest.raises(NoSuchNamespaceError, match="did you mean 'db'"):
        diff(world, pit, pit, databases=("dbb",))


def test_a_table_that_failed_is_a_warning_not_a_change(world: World) -> None:
    table = world.add("t")
    world.add("other")
    first = world.backup()
    table = world.commit("t", append)
    table.path("metadata/snap-2.avro").unlink()
    report = diff(world, first, world.backup())
    assert report.objects == ()
    assert "db.t could not be backed up" in report.warnings[0]
    assert str(first) in report.warnings[0]


@pytest.mark.parametrize("victim", ["entry", "metadata", "layer"])
@pytest.mark.parametrize(
    "damage",
    [
        Path.unlink,
        lambda path: path.write_bytes(b"{}"),
        lambda path: path.write_bytes(path.read_bytes() + b"\n"),  # as good JSON as before
    ],
)
def test_a_damaged_document_hides_only_what_it_says(
    world: World, victim: str, damage: Callable[[Path], object]
) -> None:
    world.add("t")
    world.add("other")
    first = world.backup()
    world.commit("t", append)
    world.commit("other", append)
    second = world.backup()
    record = next(item for item in world.pit(second).objects if item.table.name == "t")
    entry = world.repository.load_entry(record.entry)
    key = {
        "entry": record.entry.key,
        "metadata": entry.metadata_key,
        "layer": entry.layers[-1].parts[0].key,
    }[victim]
    damage(Path(world.repository.spec.location, key))
    report = diff(world, first, second)
    other, hurt = report.objects
    assert (hurt.name, hurt.status, report.problems) == ("t", "CHANGED", 1)
    assert key in str(hurt.problem)
    assert (other.problem, other.rows.after) == (None, 120)


def test_the_object_that_programs_get_is_plain_json(world: World) -> None:
    world.add("t")
    first = world.backup()
    world.commit("t", append)
    document = json.loads(json.dumps(diff(world, first, world.backup()).as_json()))
    assert document["objects"][0]["rows"] == {"before": None, "after": 120}
    assert document["objects"][0]["changes"][0]["action"] == "added"
    assert document["summary"]["changed"] == 1
