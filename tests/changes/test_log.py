"""When and how a table changed, out of real backups."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bcn.changes.log import LogReport, ObjectHistory, load_history
from bcn.errors import NoSuchTableError, UnknownPitError, UsageError
from bcn.model import PitId
from bcn.repository.repository import Scope
from tests.changes.places import World, append, open_world
from tests.cli.made import damage


@pytest.fixture
def world(tmp_path: Path) -> World:
    return open_world(tmp_path)


def log(world: World, name: str, limit: int | None = None) -> LogReport:
    return load_history(world.repository, name, limit)


def only(report: LogReport) -> ObjectHistory:
    assert len(report.objects) == 1, report.objects
    return report.objects[0]


def told(history: ObjectHistory) -> list[tuple[PitId, str, str]]:
    return [(event.pit, event.status, event.name) for event in history.events]


def test_every_change_is_told_newest_first_and_nothing_else(world: World) -> None:
    world.add("t")
    world.add("other")
    first = world.backup()
    world.commit("other", append)
    world.backup()
    world.commit("t", append)
    third = world.backup()
    world.backup()
    history = only(log(world, "db.t"))
    assert told(history) == [(third, "CHANGED", "db.t"), (first, "NEW", "db.t")]
    newest, oldest = history.events
    assert (newest.rows, newest.deletes, newest.snapshots) == (120, 7, 3)
    assert newest.what == "1 snapshot added (append)"
    assert (oldest.rows, oldest.snapshots, oldest.what) == (None, 2, "appears")
    assert history.object_id == world.pit(third).objects[1].object_id


def test_a_rename_is_followed_from_either_name(world: World) -> None:
    world.add("t")
    first = world.backup()
    world.rename("t", "db2", "t9")
    second = world.backup()
    world.commit("t9", append)
    third = world.backup()
    expected = [
        (third, "CHANGED", "db2.t9"),
        (second, "RENAMED", "db2.t9"),
        (first, "NEW", "db.t"),
    ]
    for name in ("db2.t9", "db.t", "t", "t9"):
        history = only(log(world, name))
        assert told(history) == expected
        assert history.name == "db2.t9"
    assert history.events[1].what == "renamed from db.t"


def test_a_rename_with_a_change_tells_both(world: World) -> None:
    world.add("t")
    world.backup()
    world.rename("t", "db", "t9")
    world.commit("t9", append)
    world.backup()
    assert only(log(world, "t9")).events[0].what == ("renamed from db.t; 1 snapshot added (append)")


def test_a_deleted_table_ends_with_the_moment(world: World) -> None:
    world.add("t")
    world.add("other")
    first = world.backup()
    world.drop("t")
    second = world.backup()
    world.backup()
    for name in ("db.t", "t"):
        history = only(log(world, name))
        assert told(history) == [(second, "DELETED", "db.t"), (first, "NEW", "db.t")]
        assert history.events[0].deleted_at == world.pit(second).deleted[0].deleted_at
        assert history.events[0].rows is None
        assert f"last in {first}" in history.events[0].what


def test_a_name_given_twice_tells_of_both_the_last_first(world: World) -> None:
    world.add("t")
    first = world.backup()
    world.drop("t")
    second = world.backup()
    world.add("t")
    third = world.backup()
    young, old = log(world, "db.t").objects
    assert told(young) == [(third, "NEW", "db.t")]
    assert told(old) == [(second, "DELETED", "db.t"), (first, "NEW", "db.t")]


def test_a_name_that_went_on_to_another_table_tells_of_both(world: World) -> None:
    world.add("t")
    first = world.backup()
    world.rename("t", "db", "old_t")
    world.add("t")
    second = world.backup()
    found = log(world, "db.t").objects
    assert [told(item) for item in found] == [
        [(second, "NEW", "db.t")],
        [(second, "RENAMED", "db.old_t"), (first, "NEW", "db.t")],
    ]


def test_a_table_that_came_back_is_told_as_such(world: World) -> None:
    table = world.add("t")
    world.backup()
    world.drop("t")
    world.backup()
    world.register("t", table)
    world.backup()
    history = only(log(world, "t"))
    assert [event.status for event in history.events] == ["NEW", "DELETED", "NEW"]
    assert history.events[0].what == "is back"


def test_where_older_points_in_time_are_gone_the_oldest_left_begins_it(world: World) -> None:
    world.add("t")
    first = world.backup()
    second = world.backup()
    path = Path(world.repository.spec.location, world.repository.pit_key(first))
    path.unlink()
    event = only(log(world, "t")).events[0]
    assert (event.pit, event.status) == (second, "NEW")
    assert "oldest point in time that is left" in event.what


def test_a_change_in_a_point_in_time_that_is_gone_is_told_in_the_next(world: World) -> None:
    world.add("t")
    world.backup()
    world.commit("t", append)
    second = world.backup()
    third = world.backup()
    Path(world.repository.spec.location, world.repository.pit_key(second)).unlink()
    assert told(only(log(world, "t")))[0] == (third, "CHANGED", "db.t")


def test_a_table_that_failed_is_told_with_the_reason(world: World) -> None:
    world.add("t")
    world.add("other")
    first = world.backup()
    world.commit("t", append).path("metadata/snap-2.avro").unlink()
    second = world.backup()
    history = only(log(world, "t"))
    assert told(history) == [(second, "FAILED", "db.t"), (first, "NEW", "db.t")]
    assert f"keeps its version of {first}" in history.events[0].what
    assert "snap-2.avro" in history.events[0].what
    assert history.events[0].snapshots == 2


def test_a_limit_leaves_older_changes_out_and_counts_them(world: World) -> None:
    world.add("t")
    world.backup()
    for _ in range(3):
        world.commit("t", _touch)
        newest = world.backup()
    history = only(log(world, "t", limit=2))
    assert len(history.events) == 2
    assert (history.events[0].pit, history.omitted) == (newest, 2)


def _touch(document: dict[str, Any]) -> None:
    document["properties"]["turn"] = document["properties"].get("turn", "") + "x"


def test_a_view_has_a_history_too(world: World) -> None:
    world.add("t")
    world.set_view("v", "SELECT 1")
    world.backup()
    world.set_view("v", "SELECT 2")
    world.backup()
    history = only(log(world, "v"))
    assert (history.type, [event.status for event in history.events]) == (
        "view",
        ["CHANGED", "NEW"],
    )
    assert history.events[0].what == "sql of spark: SELECT 1 to SELECT 2"


def test_a_bare_name_that_fits_several_is_refused_with_their_names(world: World) -> None:
    world.add("t")
    world.add("t", database="db2")
    world.backup()
    with pytest.raises(UsageError, match=r"db\.t, db2\.t"):
        log(world, "t")
    assert only(log(world, "db2.t")).name == "db2.t"


def test_a_table_that_is_there_is_meant_before_one_that_is_gone(world: World) -> None:
    world.add("t")
    world.add("t", database="db2")
    world.backup()
    world.drop("t")
    world.add("t", database="db2")
    world.backup()
    assert log(world, "t").name == "db2.t"


@pytest.mark.parametrize(("text", "near"), [("db.ordres", "db.orders"), ("odrers", "db.orders")])
def test_an_unknown_name_is_told_with_the_nearest(world: World, text: str, near: str) -> None:
    world.add("orders")
    world.backup()
    with pytest.raises(NoSuchTableError, match=f"did you mean '{near}'"):
        log(world, text)


def test_a_damaged_point_in_time_is_a_warning_and_hides_no_other(world: World) -> None:
    world.add("t")
    first = world.backup()
    world.commit("t", append)
    second = world.backup()
    world.commit("t", _touch)
    third = world.backup()
    damage(world.repository, third)
    report = log(world, "t")
    assert told(only(report)) == [(second, "CHANGED", "db.t"), (first, "NEW", "db.t")]
    assert len(report.warnings) == 1
    assert str(third) in report.warnings[0]


def test_a_damaged_metadata_document_hides_only_what_it_says(world: World) -> None:
    world.add("t")
    world.backup()
    world.commit("t", append)
    second = world.backup()
    entry = world.repository.load_entry(world.pit(second).objects[0].entry)
    Path(world.repository.spec.location, entry.metadata_key).write_bytes(b"{}")
    report = log(world, "t")
    newest, oldest = only(report).events
    assert (newest.status, newest.snapshots, report.problems) == ("CHANGED", 3, 1)
    assert entry.metadata_key in str(newest.problem)
    assert oldest.problem is None


def test_a_repository_without_backups_has_no_history(world: World) -> None:
    repository = world.repository.locked_to(Scope("source"))
    with pytest.raises(UnknownPitError, match="no point in time yet"):
        load_history(repository, "t")


def test_the_object_that_programs_get_is_plain_json(world: World) -> None:
    world.add("t")
    world.backup()
    world.commit("t", append)
    pit = world.backup()
    document = json.loads(json.dumps(log(world, "t").as_json()))
    assert document["objects"][0]["events"][0]["pit"] == str(pit)
    assert document["objects"][0]["events"][0]["changes"][0]["aspect"] == "snapshot"
