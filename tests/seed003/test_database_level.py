"""Seed 003, group 2: backups and restores of a database."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.seed003.places import Vault, hidden, open_catalogs, open_vault
from tests.seed003.tables import (
    add_database,
    add_table,
    all_rows,
    drop,
    rename,
    rows_of,
    uuid_of,
)
from tests.support.compare.rows import Rows
from tests.support.shapes.model import World

pytestmark = pytest.mark.spark

SALES = ("--catalog", "prod", "--database", "sales")


@dataclass
class Change:
    """A database before and after a day on which a table came, one went and one was renamed."""

    source: World
    repository: Path
    first: Any
    second: Any
    rows: dict[str, Rows]
    uuids: dict[str, str]
    copied: set[str]


@pytest.fixture(scope="module")
def change(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Change:
    folder = tmp_path_factory.mktemp("change")
    source = open_catalogs(spark, folder / "source")
    vault = open_vault(folder, source)
    for name in ("sales", "hr"):
        add_database(source, name)
    tables = ("sales.gone", "sales.kept", "sales.old_name")
    for table in (*tables, "hr.people"):
        add_table(source, table)
    rows, uuids = all_rows(source, *tables), {name: uuid_of(source, name) for name in tables}
    first = vault.backup(*SALES)
    stored = vault.stored_data()
    drop(source, "sales.gone", "hr.people")
    rename(source, "sales.old_name", "sales.new_name")
    add_table(source, "sales.new", 9)
    rows["sales.new"] = rows_of(source, "sales.new")
    second = vault.backup()
    copied = vault.stored_data() - stored
    return Change(source, vault.repository, first, second, rows, uuids, copied)


@pytest.fixture
def changed(change: Change, tmp_path: Path) -> Vault:
    """The repository of that day, with places to restore to of one test."""
    return open_vault(tmp_path, change.source, change.repository)


def test_backup_entire_database(database_vault: Vault, shop: World) -> None:
    manifest, pit = database_vault.manifest, database_vault.pit()
    names = ["customers", "items", "orders"]
    assert manifest["granularity"] == "DATABASE"
    assert manifest["scope"] == {"catalog": "prod", "database": ["sales"], "table": None}
    assert pit["included_objects"]["databases"] == ["sales"]
    assert pit["included_objects"]["tables"] == {"sales": names}
    [namespace] = pit["namespaces"]
    assert namespace["properties"]["comment"] == "what is sold"
    database_vault.restore()
    assert database_vault.tables() == [f"sales.{name}" for name in names]
    expected = all_rows(shop, *database_vault.tables())
    with hidden(shop):
        assert all_rows(database_vault.target, *expected) == expected


def test_incremental_database_with_new_tables(changed: Vault, change: Change) -> None:
    before, after = changed.pit(change.first["pit"]), changed.pit()
    assert before["included_objects"]["tables"] == {"sales": ["gone", "kept", "old_name"]}
    assert after["included_objects"]["tables"] == {"sales": ["kept", "new", "new_name"]}
    assert changed.record("sales.new")["status"] == "NEW"
    assert change.copied
    assert {name.split("/")[0] for name in change.copied} == {uuid_of(change.source, "sales.new")}
    with hidden(change.source):
        changed.restore("--table", "new")
        assert changed.rows("sales.new") == change.rows["sales.new"]


def test_incremental_database_with_deleted_tables(changed: Vault, change: Change) -> None:
    pit = changed.pit()
    assert changed.pit(change.first["pit"])["deleted_in_source"]["tables"] == []
    assert pit["deleted_in_source"] == {"tables": ["sales.gone"], "databases": []}
    [deleted] = changed.deleted_tables("sales")
    assert deleted == {
        "name": "gone",
        "database": "sales",
        "deleted_at": pit["pit_timestamp"],
        "last_pit_included": change.first["pit"],
        "source_object_id": change.uuids["sales.gone"],
    }
    with hidden(change.source):
        changed.restore("--pit", change.first["pit"], "--table", "gone")
        assert changed.rows("sales.gone") == change.rows["sales.gone"]


def test_incremental_database_with_renamed_tables(changed: Vault, change: Change) -> None:
    pit, uuid = changed.pit(), change.uuids["sales.old_name"]
    assert pit["renamed_objects"] == [
        {"object_id": uuid, "old_name": "sales.old_name", "new_name": "sales.new_name"}
    ]
    record = changed.record("sales.new_name")
    assert (record["object_id"], record["status"]) == (uuid, "RENAMED")
    assert record["totals"]["bytes_new"] == 0
    assert "sales.old_name" not in pit["deleted_in_source"]["tables"]
    with hidden(change.source):
        changed.restore("--table", "new_name")
        assert changed.rows("sales.new_name") == change.rows["sales.old_name"]


def test_restore_partial_database_subset(database_vault: Vault, shop: World) -> None:
    report = database_vault.restore("--table", "items", "--table", "cust*")
    assert [item["name"] for item in report["tables"]] == ["customers", "items"]
    assert database_vault.tables() == ["sales.customers", "sales.items"]
    expected = all_rows(shop, "sales.customers", "sales.items")
    with hidden(shop):
        assert all_rows(database_vault.target, *expected) == expected


def test_restore_database_to_different_catalog(database_vault: Vault, shop: World) -> None:
    """From a SQL catalog into one of plain folders, under another name."""
    report = database_vault.restore("--target-database", "copied", to="dr_lake")
    names = [item["name"] for item in report["tables"]]
    assert names == ["customers", "items", "orders"]
    expected = {name: rows_of(shop, f"sales.{name}") for name in names}
    with hidden(shop):
        for name in names:
            assert database_vault.rows(f"copied.{name}", "dr_lake") == expected[name]
    target = database_vault.target
    folders = {path.name for path in (target.hadoop_warehouse / "copied").iterdir()}
    assert folders == set(names)
    assert not target.db_path.exists()
