"""Seed 003, group 5: objects that vanish, move, stay, evolve, lack an id, or are very large."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from bcn.errors import Interrupted
from bcn.model import sha256
from tests.seed003.places import Vault, hidden
from tests.seed003.stories import MOMENTS, Timeline
from tests.seed003.tables import (
    add_database,
    add_rows,
    add_table,
    arrow_rows_of,
    rename,
    rows_of,
    uuid_of,
)
from tests.support.compare import referenced_files
from tests.support.product import digest_tree
from tests.support.shapes.craft import edit_document
from tests.support.shapes.model import World

pytestmark = pytest.mark.spark

CATALOG = ("--catalog", "prod")


def test_deleted_table_tracking(vault: Vault, source: World) -> None:
    """Dropped, then made again under its name: the first one stays deleted, the second is new."""
    add_database(source, "sales")
    add_table(source, "sales.orders")
    add_table(source, "sales.kept")
    uuid, rows = uuid_of(source, "sales.orders"), rows_of(source, "sales.orders")
    first = vault.backup(*CATALOG)["pit"]
    source.sql(f"DROP TABLE {source.name('sales.orders')} PURGE")
    second = vault.backup()["pit"]
    add_table(source, "sales.orders", 9)
    third = vault.backup()["pit"]
    expected = {
        "name": "orders",
        "database": "sales",
        "deleted_at": vault.pit(second)["pit_timestamp"],
        "last_pit_included": first,
        "source_object_id": uuid,
    }
    assert vault.deleted_tables("sales") == [expected]
    for pit in (second, third):
        assert vault.pit(pit)["deleted_in_source"]["tables"] == ["sales.orders"]
    assert vault.record("sales.orders", third)["status"] == "NEW"
    assert vault.record("sales.orders", third)["object_id"] == uuid_of(source, "sales.orders")
    vault.restore("--pit", first, "--table", "orders", "--target-database", "old")
    assert vault.rows("old.orders") == rows


def test_deleted_database_tracking(past: Vault, timeline: Timeline) -> None:
    for pit in timeline.pits[1:]:
        assert past.pit(pit)["deleted_in_source"]["databases"] == ["temp"]
        assert "temp" not in past.pit(pit)["included_objects"]["databases"]
    key = "catalogs/prod/databases/.deleted_databases.json"
    [deleted] = past.document(key)["deleted_databases"]
    assert deleted["name"] == "temp"
    assert deleted["deleted_at"] == past.pit(timeline.pits[1])["pit_timestamp"]
    assert deleted["last_pit_included"] == timeline.pits[0]
    [table] = past.deleted_tables("temp")
    assert (table["name"], table["last_pit_included"]) == ("scratch", timeline.pits[0])
    assert table["source_object_id"] == timeline.uuids["temp.scratch"]
    listed = past.done("list", "--database", "temp")["objects"]
    assert [(item["name"], item["status"]) for item in listed] == [("scratch", "DELETED")]


def test_renamed_table_detection_with_object_id(vault: Vault, source: World) -> None:
    """Also into another database, and when it changed as well."""
    for name in ("sales", "archive"):
        add_database(source, name)
    add_table(source, "sales.orders")
    add_table(source, "sales.kept")
    uuid = uuid_of(source, "sales.orders")
    vault.backup(*CATALOG)
    stored = vault.stored_data()
    rename(source, "sales.orders", "archive.orders_2025")
    add_rows(source, "archive.orders_2025")
    vault.backup()
    pit, record = vault.pit(), vault.record("archive.orders_2025")
    assert (record["object_id"], record["status"]) == (uuid, "RENAMED")
    moved = {"old_name": "sales.orders", "new_name": "archive.orders_2025"}
    assert pit["renamed_objects"] == [{"object_id": uuid, **moved}]
    assert pit["deleted_in_source"] == {"tables": [], "databases": []}
    new = vault.stored_data() - stored
    assert len(new) == 4  # what the append wrote, and nothing again
    assert {name.split("/")[0] for name in new} == {uuid}
    rows = rows_of(source, "archive.orders_2025")
    with hidden(source):
        vault.restore("--table", "orders_2025")
        assert vault.rows("archive.orders_2025") == rows


def test_unnamed_table_without_object_id_treated_as_delete_create(
    vault: Vault, source: World
) -> None:
    """The oldest tables have no uuid: under another name they are another table."""
    add_database(source, "sales")
    add_table(source, "sales.kept")
    add_table(source, "sales.legacy", version=1)
    edit_document(source, "sales.legacy", lambda document: document.pop("table-uuid") and None)
    rows = arrow_rows_of(source, "sales.legacy")
    first = vault.backup(*CATALOG)["pit"]
    before = vault.record("sales.legacy")
    with closing(sqlite3.connect(source.db_path)) as database, database:
        database.execute("UPDATE iceberg_tables SET table_name='moved' WHERE table_name='legacy'")
    edit_document(source, "sales.moved", lambda document: document.update({"last-updated-ms": 1}))
    vault.backup()
    pit, after = vault.pit(), vault.record("sales.moved")
    assert before["object_id"].startswith("n-")
    assert after["object_id"].startswith("n-")
    assert after["object_id"] != before["object_id"]
    assert after["status"] == "NEW"
    assert pit["renamed_objects"] == []
    assert pit["deleted_in_source"]["tables"] == ["sales.legacy"]
    assert vault.deleted_tables("sales")[0]["source_object_id"] == before["object_id"]
    with hidden(source):
        vault.restore("--table", "moved")
        vault.restore("--pit", first, "--table", "legacy")
        assert vault.arrow_rows("sales.moved") == vault.arrow_rows("sales.legacy") == rows


def test_unchanged_object_in_manifest(past: Vault, timeline: Timeline) -> None:
    last, before = past.pit(timeline.pits[3]), past.pit(timeline.pits[2])
    assert last["unchanged_objects"]["tables"] == list(MOMENTS[3])
    assert last["included_objects"] == before["included_objects"]
    for item in last["objects"]:
        name, source = item["name"], timeline.source
        metadata = source.tree(name).file(source.metadata_location(name)).read_bytes()
        assert last["unchanged_objects"]["checksums"][name] == sha256(metadata)
        assert item["metadata_location"] == source.metadata_location(name)
        assert item["entry"] == past.record(name, timeline.pits[2])["entry"]
        assert item["totals"]["bytes_new"] == 0
    stable = [past.record("sales.stable", pit)["entry"]["key"] for pit in timeline.pits]
    assert stable == [stable[0]] * 4
    with hidden(timeline.source):
        past.restore("--pit", timeline.pits[3], "--table", "stable")
        assert past.rows("sales.stable") == timeline.rows[0]["sales.stable"]


def test_schema_evolution_tracking(past: Vault, timeline: Timeline) -> None:
    before, after = (past.entry("hr.people", pit) for pit in timeline.pits[1:3])
    assert (before["schemas"], before["current_schema_id"]) == ([0], 0)
    assert (after["schemas"], after["current_schema_id"]) == ([0, 1], 1)
    assert past.record("hr.people", timeline.pits[2])["status"] == "CHANGED"
    for number, columns in ((1, ["id", "word"]), (2, ["id", "word", "city"])):
        database = f"at{number}"
        past.restore(
            *("--pit", timeline.pits[number], "--table", "people"),
            *("--target-database", database),
        )
        with hidden(timeline.source):
            frame = past.target.spark.table(past.target.name(f"{database}.people"))
            assert frame.columns == columns
            assert past.rows(f"{database}.people") == timeline.rows[number]["hr.people"]


def test_table_format_change_detection(past: Vault, timeline: Timeline) -> None:
    before, after = (past.entry("hr.people", pit) for pit in timeline.pits[1:3])
    assert (before["format_version"], after["format_version"]) == (1, 2)
    assert "team" not in before["properties"]
    assert after["properties"]["team"] == "hr"
    assert before["partition_specs"] == after["partition_specs"] == [0]
    key = "catalogs/prod/databases/hr/people/table_manifest.json"
    assert past.document(key)["format_version"] == 2
    past.restore("--pit", timeline.pits[1], "--database", "hr", "--target-database", "v1")
    past.restore("--pit", timeline.pits[2], "--database", "hr", "--target-database", "v2")
    versions = [past.target.tree(f"v{n}.people").document["format-version"] for n in (1, 2)]
    assert versions == [1, 2]


def test_orphaned_data_detection(
    vault: Vault, source: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a run left that was stopped before its end is named, and used by the next one."""
    add_database(source, "sales")
    add_table(source, "sales.orders")
    vault.backup(*CATALOG)
    stored, rows = vault.stored_data(), rows_of(source, "sales.orders")
    assert vault.done("prune", "--dry-run")["items"] == []
    add_table(source, "sales.more")
    with monkeypatch.context() as patched:
        patched.setattr("bcn.backup.run.publish", stop)
        assert vault.bcn("backup").code == 130
    left = {f"data/{name}" for name in vault.stored_data() - stored}
    assert len(left) == 4
    before = digest_tree(vault.repository)
    report = vault.done("prune", "--dry-run")
    found = {item["key"]: item["bytes"] for item in report["items"]}
    assert {key for key in found if key.startswith("data/")} == left
    assert all((vault.repository / key).stat().st_size == found[key] for key in left)
    assert report["unneeded"]["bytes"] == sum(found.values())
    assert digest_tree(vault.repository) == before
    second = vault.backup()
    assert (second["files_copied"], second["files_adopted"]) == (0, 4)
    named = {item["key"] for item in vault.done("prune", "--dry-run")["items"]}
    assert not named & left
    with hidden(source):
        vault.restore("--table", "orders")
        assert vault.rows("sales.orders") == rows


def stop(*_: object) -> None:
    raise Interrupted(130)


def test_large_table_partial_backup(vault: Vault, source: World) -> None:
    """Only the newest snapshots of a long history are kept, and that is what comes back."""
    add_database(source, "sales")
    add_table(source, "sales.events")
    for day in range(1, 4):
        source.sql(f"INSERT OVERWRITE {source.name('sales.events')} SELECT {day}, 'day {day}'")
    report = vault.backup(
        *(*CATALOG, "--database", "sales", "--table", "events", "--history", "last:2")
    )
    snapshots = [str(item["snapshot-id"]) for item in source.tree("sales.events").snapshots]
    entry, record = vault.entry("sales.events"), vault.record("sales.events")
    assert sorted(entry["coverage"]["snapshots"]) == sorted(snapshots[-2:])
    assert entry["coverage"]["history"] == "last:2"
    assert record["totals"]["snapshots"] == 2
    needed = referenced_files(source.metadata_location("sales.events"))
    assert report["files_copied"] < len(needed)
    rows = rows_of(source, "sales.events")
    with hidden(source):
        vault.restore()
        kept = vault.rows("sales.events")
    assert kept == {at: rows[at] for at in rows if at.partition(":")[2] not in snapshots[:-2]}
    assert len([at for at in kept if at.startswith("snapshot:")]) == 2
    [listed] = vault.done("list", "--pit", "latest")["objects"]
    assert listed["coverage"] != "all"
