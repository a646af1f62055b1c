"""Seed 003, group 8: describe, list, and the flags of restore."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from tests.seed003.places import Json, Vault, hidden
from tests.seed003.stories import MOMENTS, Timeline
from tests.support.compare import referenced_files

pytestmark = pytest.mark.spark


def names(report: Json, status: str | None = None) -> list[str]:
    """Tables of a listing, all or those of one status."""
    return [
        f"{item['database']}.{item['name']}"
        for item in report["objects"]
        if status is None or item["status"] == status
    ]


def test_describe_shows_granularity(past: Vault, database_vault: Vault) -> None:
    catalog, database = past.done("describe"), database_vault.done("describe")
    assert catalog["granularity"] == "CATALOG"
    assert catalog["scope"] == {"catalog": "prod", "database": None, "table": None}
    assert database["granularity"] == "DATABASE"
    assert database["scope"] == {"catalog": "prod", "database": "sales", "table": None}
    assert catalog["repository_id"] == past.manifest["repository_id"]


def test_describe_shows_all_pits(past: Vault, timeline: Timeline) -> None:
    report = past.done("describe")
    assert [item["pit"] for item in report["pits"]] == timeline.pits
    parents = [item["parent_pit"] for item in report["pits"]]
    assert parents == [None, *timeline.pits[:-1]]
    for item, tables in zip(report["pits"], MOMENTS, strict=True):
        pit = past.pit(item["pit"])
        assert item["pit_timestamp"] == pit["pit_timestamp"]
        assert (item["databases"], item["tables"]) == (3, len(tables))
        assert item["snapshots"] == sum(one["totals"]["snapshots"] for one in pit["objects"])
        assert item["bytes_new"] == sum(one["totals"]["bytes_new"] for one in pit["objects"])
    assert [item["new"] for item in report["pits"]] == [6, 2, 0, 0]
    assert [item["unchanged"] for item in report["pits"]] == [0, 2, 5, 6]
    assert [(item["type"], item["database"], item["name"]) for item in report["deleted"]] == [
        ("database", "temp", "temp"),
        ("table", "sales", "old"),
        ("table", "temp", "scratch"),
    ]


def test_list_databases_for_pit(past: Vault, timeline: Timeline) -> None:
    for pit, tables in zip(timeline.pits, MOMENTS, strict=True):
        report = past.done("list", "--pit", pit)
        assert report["pit"] == pit
        there = [name for name in names(report) if name not in names(report, "DELETED")]
        assert there == list(tables)
        included = past.pit(pit)["included_objects"]["databases"]
        assert sorted({name.split(".")[0] for name in there}) == included


def test_list_tables_for_database_pit(past: Vault, timeline: Timeline) -> None:
    first, second = timeline.pits[:2]
    listed = past.done("list", "--pit", first, "--database", "sales")
    assert names(listed) == ["sales.items", "sales.old", "sales.orders", "sales.stable"]
    listed = past.done("list", "--pit", second, "--database", "web")
    assert names(listed) == ["web.visits"]
    [visits] = listed["objects"]
    record = past.record("web.visits", second)
    assert (visits["snapshots"], visits["bytes"]) == (1, record["totals"]["bytes"])
    answer = past.bcn("list", "--pit", first, "--database", "wbe")
    assert (answer.code, answer.error) == (14, "NoSuchNamespaceError")


def test_list_shows_object_status(past: Vault, timeline: Timeline) -> None:
    second, last = (past.done("list", "--pit", pit) for pit in timeline.pits[1::2])
    active = ["sales.fresh", "sales.goods", "sales.orders", "web.visits"]
    assert names(second, "ACTIVE") == active
    assert names(second, "UNCHANGED") == ["hr.people", "sales.stable"]
    assert names(second, "DELETED") == ["sales.old", "temp.scratch"]
    assert names(last, "ACTIVE") == []
    assert names(last, "UNCHANGED") == list(MOMENTS[3])
    assert names(last, "DELETED") == ["sales.old", "temp.scratch"]
    gone = next(item for item in last["objects"] if item["name"] == "old")
    assert gone["last_pit"] == timeline.pits[0]


def test_restore_with_pit_selection(past: Vault, timeline: Timeline) -> None:
    """By id, by how many back, and by time; each gives the rows of its own moment."""
    second = datetime.fromisoformat(past.pit(timeline.pits[2])["pit_timestamp"])
    before_third = (second - timedelta(microseconds=1)).isoformat()
    chosen = {timeline.pits[0]: 0, "latest~1": 2, before_third: 1}
    for number, (text, moment) in enumerate(chosen.items()):
        database = f"try{number}"
        report = past.restore("--pit", text, "--table", "people", "--target-database", database)
        assert report["pit"] == timeline.pits[moment]
        with hidden(timeline.source):
            assert past.rows(f"{database}.people") == timeline.rows[moment]["hr.people"]
    answer = past.bcn("restore", "--pit", "20", "--target-catalog", "dr")
    assert (answer.code, answer.error) == (2, "UnknownPitError")


def test_restore_with_database_filter(past: Vault, timeline: Timeline) -> None:
    past.restore("--database", "hr", "--database", "w*")
    assert past.tables() == ["hr.people", "web.visits"]
    with hidden(timeline.source):
        for table in past.tables():
            assert past.rows(table) == timeline.rows[3][table]


def test_restore_to_different_location(past: Vault, timeline: Timeline) -> None:
    """Another catalog, database, name and folder at once."""
    place = past.folder / "far away" / "orders"
    report = past.restore(
        *("--table", "orders", "--target-database", "copies.of_sales"),
        *("--target-table", "orders2", "--target-location", str(place)),
    )
    [table] = report["tables"]
    assert (table["database"], table["name"]) == ("copies.of_sales", "orders2")
    with hidden(timeline.source):
        assert past.rows("copies.of_sales.orders2") == timeline.rows[3]["sales.orders"]
    location = past.target.metadata_location("copies.of_sales.orders2")
    assert past.target.tree("copies.of_sales.orders2").document["location"] == str(place)
    assert all(file.is_relative_to(place) for file in referenced_files(location))
