"""Seed 003, group 6: restores of less than was backed up, of what is gone, of what evolved."""

from __future__ import annotations

import pytest

from tests.seed003.places import Vault, hidden
from tests.seed003.stories import Timeline
from tests.seed003.tables import add_database, add_evolved, all_rows, rows_of
from tests.support.shapes.model import World

pytestmark = pytest.mark.spark


def test_restore_subset_from_full_catalog_backup(catalog_vault: Vault, shop: World) -> None:
    """One table, then tables of several databases by a glob."""
    expected = all_rows(shop, "hr.people", "sales.customers", "sales.items")
    with hidden(shop):
        catalog_vault.restore("--database", "sales", "--table", "items")
        assert catalog_vault.tables() == ["sales.items"]
        catalog_vault.restore("--table", "people", "--table", "sales.cust*")
        assert catalog_vault.tables() == ["hr.people", "sales.customers", "sales.items"]
        assert all_rows(catalog_vault.target, *expected) == expected
    assert catalog_vault.manifest["granularity"] == "CATALOG"


def test_restore_subset_from_full_database_backup(database_vault: Vault, shop: World) -> None:
    rows = rows_of(shop, "sales.orders")
    with hidden(shop):
        database_vault.restore("--table", "orders", "--target-table", "orders_again")
        assert database_vault.tables() == ["sales.orders_again"]
        assert database_vault.rows("sales.orders_again") == rows
    assert database_vault.manifest["granularity"] == "DATABASE"


def test_restore_with_object_filters(catalog_vault: Vault, shop: World) -> None:
    """What to take and what to leave out, each as often as needed."""
    report = catalog_vault.restore(
        *("--database", "sales", "--database", "hr"),
        *("--exclude", "hr.teams", "--exclude", "*.o*", "--exclude", "archive"),
    )
    expected = all_rows(shop, "hr.people", "sales.customers", "sales.items")
    assert [f"{item['database']}.{item['name']}" for item in report["tables"]] == list(expected)
    assert catalog_vault.tables() == list(expected)
    with hidden(shop):
        assert all_rows(catalog_vault.target, *expected) == expected
    answer = catalog_vault.bcn("restore", "--exclude", "nothing", "--target-catalog", "dr")
    assert answer.code == 14
    assert catalog_vault.tables() == list(expected)


def test_restore_with_deleted_objects_included(past: Vault, timeline: Timeline) -> None:
    """The last version of each before it was deleted, beside what is still there."""
    report = past.restore("--include-deleted", "--database", "sales", "--database", "temp")
    gone = {item["name"]: item for item in report["tables"] if item["deleted_at"]}
    assert {name: item["pit"] for name, item in gone.items()} == {
        "old": timeline.pits[0],
        "scratch": timeline.pits[0],
    }
    expected = {
        "sales.fresh": timeline.rows[3]["sales.fresh"],
        "sales.goods": timeline.rows[3]["sales.goods"],
        "sales.old": timeline.rows[0]["sales.old"],
        "sales.orders": timeline.rows[3]["sales.orders"],
        "sales.stable": timeline.rows[3]["sales.stable"],
        "temp.scratch": timeline.rows[0]["temp.scratch"],
    }
    assert past.tables() == list(expected)
    with hidden(timeline.source):
        assert all_rows(past.target, *expected) == expected


def test_restore_with_deleted_objects_excluded(past: Vault, timeline: Timeline) -> None:
    """They are skipped unless asked for; asking for one alone says how."""
    past.restore("--database", "sales")
    there = ["sales.fresh", "sales.goods", "sales.orders", "sales.stable"]
    assert past.tables() == there
    with hidden(timeline.source):
        assert all_rows(past.target, *there) == {name: timeline.rows[3][name] for name in there}
    answer = past.bcn("restore", "--table", "old", "--target-catalog", "dr")
    assert (answer.code, answer.error) == (14, "NoSuchTableError")
    assert "--include-deleted" in answer.hint
    assert past.tables() == there


def test_restore_schema_validation_and_migration(vault: Vault, source: World) -> None:
    """What a target cannot hold is refused before a byte is copied; another takes it as it is."""
    add_database(source, "sales")
    add_evolved(source, "sales.orders")
    metadata = str(source.external / "metadata")
    change = f"ALTER TABLE {source.name('sales.orders')} SET TBLPROPERTIES"
    source.sql(f"{change} ('write.metadata.path' = '{metadata}')")
    vault.backup("--catalog", "prod")
    rows, schemas = rows_of(source, "sales.orders"), source.tree("sales.orders").document["schemas"]
    with hidden(source):
        answer = vault.bcn("restore", "--target-catalog", "dr_lake")
        assert (answer.code, answer.error) == (14, "UnsupportedCatalogError")
        assert "write.metadata.path" in answer.message
        assert list(vault.target.hadoop_warehouse.rglob("*")) == []
        vault.restore()
        assert vault.rows("sales.orders") == rows
        document = vault.target.tree("sales.orders").document
        assert document["schemas"] == schemas
        name, spark = vault.target.name("sales.orders"), vault.target.spark
        tagged = spark.sql(f"SELECT * FROM {name} VERSION AS OF 'month_end'").columns
        assert (tagged, spark.table(name).columns[-1]) == (["id", "word", "amount"], "cents")
        spark.sql(f"ALTER TABLE {name} ADD COLUMN note string")
        spark.sql(f"INSERT INTO {name} VALUES (99, 'new', 1, 'after the restore')")
        assert vault.rows("sales.orders")["current"][0] == rows["current"][0] + 1
