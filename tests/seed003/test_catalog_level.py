"""Seed 003, group 3: backups and restores of a whole catalog."""

from __future__ import annotations

import pytest

from tests.seed003.places import Vault, hidden
from tests.seed003.stories import SHOP, Timeline
from tests.seed003.tables import all_rows, rows_of
from tests.support.compare import referenced_files
from tests.support.shapes.model import World

pytestmark = pytest.mark.spark


def test_backup_entire_catalog(catalog_vault: Vault, shop: World) -> None:
    manifest, pit = catalog_vault.manifest, catalog_vault.pit()
    assert manifest["granularity"] == "CATALOG"
    assert manifest["scope"] == {"catalog": "prod", "database": None, "table": None}
    included = pit["included_objects"]
    assert included["databases"] == ["archive", "hr", "sales"]
    assert included["tables"] == {
        "hr": ["people", "teams"],
        "sales": ["customers", "items", "orders"],
    }
    known = catalog_vault.document("catalogs/prod/catalog_metadata.json")
    assert known["properties"]["type"] == "sql"
    for table in SHOP:
        files = referenced_files(shop.metadata_location(table))
        assert catalog_vault.record(table)["totals"]["files"] == len(files)
    sizes = [
        path.stat().st_size
        for table in SHOP
        for path in referenced_files(shop.metadata_location(table))
    ]
    assert pit["summary"]["bytes_total"] == sum(sizes)


def test_incremental_catalog_backup(past: Vault, timeline: Timeline) -> None:
    first, second = timeline.pits[:2]
    pit = past.pit(second)
    assert pit["parent_pit"] == first
    assert {item["name"]: item["status"] for item in pit["objects"]} == {
        "hr.people": "UNCHANGED",
        "sales.fresh": "NEW",
        "sales.goods": "RENAMED",
        "sales.orders": "CHANGED",
        "sales.stable": "UNCHANGED",
        "web.visits": "NEW",
    }
    assert pit["unchanged_objects"]["tables"] == ["hr.people", "sales.stable"]
    past.restore("--pit", first, "--table", "orders", "--target-database", "before")
    past.restore("--pit", second, "--table", "orders", "--target-database", "after")
    with hidden(timeline.source):
        assert past.rows("before.orders") == timeline.rows[0]["sales.orders"]
        assert past.rows("after.orders") == timeline.rows[1]["sales.orders"]


def test_incremental_catalog_with_new_database(past: Vault, timeline: Timeline) -> None:
    first, second = (past.pit(pit)["included_objects"] for pit in timeline.pits[:2])
    assert first["databases"] == ["hr", "sales", "temp"]
    assert second["databases"] == ["hr", "sales", "web"]
    assert second["tables"]["web"] == ["visits"]
    document = past.document("catalogs/prod/databases/web/database_metadata.json")
    assert document["name"] == "web"
    past.restore("--pit", timeline.pits[1], "--database", "web")
    assert past.tables() == ["web.visits"]
    with hidden(timeline.source):
        assert past.rows("web.visits") == timeline.rows[1]["web.visits"]


def test_incremental_catalog_with_deleted_database(past: Vault, timeline: Timeline) -> None:
    first, second = timeline.pits[:2]
    gone = past.pit(second)["deleted_in_source"]
    assert gone == {"tables": ["sales.old", "temp.scratch"], "databases": ["temp"]}
    listed = past.document("catalogs/prod/databases/.deleted_databases.json")["deleted_databases"]
    assert [item["name"] for item in listed] == ["temp"]
    answer = past.bcn("restore", "--database", "temp", "--target-catalog", "dr")
    assert answer.code == 14
    past.restore("--pit", first, "--database", "temp")
    with hidden(timeline.source):
        assert past.rows("temp.scratch") == timeline.rows[0]["temp.scratch"]


def test_restore_full_catalog(catalog_vault: Vault, shop: World) -> None:
    expected = all_rows(shop, *SHOP)
    with hidden(shop):
        report = catalog_vault.restore()
        assert [f"{t['database']}.{t['name']}" for t in report["tables"]] == list(SHOP)
        assert catalog_vault.tables() == list(SHOP)
        assert all_rows(catalog_vault.target, *SHOP) == expected
        for table in ("sales.orders", "sales.customers"):
            assert catalog_vault.arrow_rows(table)
    target = catalog_vault.target
    text = target.sql(f"DESCRIBE NAMESPACE EXTENDED {target.catalog}.sales")
    assert any("what is sold" in str(row) for row in text)
    databases = [row.namespace for row in target.sql(f"SHOW NAMESPACES IN {target.catalog}")]
    assert sorted(databases) == ["archive", "hr", "sales"]


def test_restore_catalog_subset_to_new_location(catalog_vault: Vault, shop: World) -> None:
    report = catalog_vault.restore("--database", "hr", "--target-database", "hr_copy")
    assert [item["name"] for item in report["tables"]] == ["people", "teams"]
    assert catalog_vault.tables() == ["hr_copy.people", "hr_copy.teams"]
    expected = {name: rows_of(shop, f"hr.{name}") for name in ("people", "teams")}
    with hidden(shop):
        for name, rows in expected.items():
            assert catalog_vault.rows(f"hr_copy.{name}") == rows
    place = catalog_vault.target.warehouse / "hr_copy"
    for name in expected:
        files = referenced_files(catalog_vault.target.metadata_location(f"hr_copy.{name}"))
        assert all(file.is_relative_to(place / name) for file in files)
