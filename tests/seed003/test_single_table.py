"""Seed 003, group 1: backups and restores of a single table."""

from __future__ import annotations

import shutil
from datetime import datetime

import pytest

from bcn.model import sha256
from tests.seed003.places import Vault, hidden
from tests.seed003.tables import (
    add_database,
    add_evolved,
    add_rows,
    add_table,
    arrow_rows_of,
    drop,
    rows_of,
    uuid_of,
)
from tests.support.compare import referenced_files
from tests.support.shapes.model import World

pytestmark = pytest.mark.spark

ORDERS = ("--catalog", "prod", "--database", "sales", "--table", "orders")


def test_backup_single_table_first_time(shop_vault: Vault, shop: World) -> None:
    report = shop_vault.backup(*ORDERS)
    manifest, pit = shop_vault.manifest, shop_vault.pit()
    assert (manifest["version"], manifest["granularity"]) == ("1", "TABLE")
    assert manifest["scope"] == {"catalog": "prod", "database": ["sales"], "table": "orders"}
    assert manifest["last_pit"] == report["pit"]
    assert datetime.fromisoformat(manifest["created_at"]).tzinfo is not None
    assert pit["parent_pit"] is None
    assert pit["included_objects"]["databases"] == ["sales"]
    assert pit["included_objects"]["tables"] == {"sales": ["orders"]}
    stored = {sha256(path.read_bytes()) for path in (shop_vault.repository / "data").rglob("*.*")}
    files = referenced_files(shop.metadata_location("sales.orders"))
    assert stored == {sha256(file.read_bytes()) for file in files}


def test_incremental_backup_single_table(vault: Vault, source: World) -> None:
    add_database(source, "sales")
    add_table(source, "sales.orders")
    first, before = vault.backup(*ORDERS), rows_of(source, "sales.orders")
    known = vault.stored_data()
    add_rows(source, "sales.orders")
    second, after = vault.backup(), rows_of(source, "sales.orders")
    assert [(item["name"], item["status"]) for item in second["tables"]] == [("orders", "CHANGED")]
    assert vault.pit()["parent_pit"] == first["pit"]
    new = sorted(name.rsplit(".", 1)[1] for name in vault.stored_data() - known)
    assert new == ["avro", "avro", "json", "parquet"]  # list, manifest, metadata, data
    assert second["files_copied"] == len(new)
    source.folder.rename(source.folder.with_name("lost"))
    for pit, rows in ((first["pit"], before), (second["pit"], after)):
        vault.restore("--pit", pit, "--target-table", f"at_{pit[-5:-1]}")
        assert vault.rows(f"sales.at_{pit[-5:-1]}") == rows


def test_incremental_backup_no_changes(shop_vault: Vault, shop: World) -> None:
    first = shop_vault.backup(*ORDERS)
    stored = shop_vault.stored_data()
    second = shop_vault.backup()
    pit, metadata = shop_vault.pit(), shop.metadata_location("sales.orders")
    digest = sha256(shop.tree("sales.orders").file(metadata).read_bytes())
    assert pit["unchanged_objects"]["tables"] == ["sales.orders"]
    assert pit["unchanged_objects"]["checksums"] == {"sales.orders": digest}
    assert pit["included_objects"]["tables"] == {"sales": ["orders"]}
    assert pit["deleted_in_source"] == {"tables": [], "databases": []}
    assert second["bytes_copied"] == 0
    assert shop_vault.stored_data() == stored
    entries = [shop_vault.record("sales.orders", item["pit"])["entry"] for item in (first, second)]
    assert entries[0] == entries[1]


def test_restore_single_table(vault: Vault, source: World) -> None:
    add_database(source, "sales")
    add_evolved(source, "sales.orders")
    rows, uuid = rows_of(source, "sales.orders"), uuid_of(source, "sales.orders")
    location = source.tree("sales.orders").document["location"]
    vault.backup(*ORDERS)
    drop(source, "sales.orders")
    shutil.rmtree(source.warehouse)
    report = vault.done("restore")
    assert [(item["database"], item["name"]) for item in report["tables"]] == [("sales", "orders")]
    assert rows_of(source, "sales.orders") == rows
    document = source.tree("sales.orders").document
    assert (document["table-uuid"], document["location"]) == (uuid, location)
    add_rows(source, "sales.orders")
    assert rows_of(source, "sales.orders")["current"][0] == rows["current"][0] + 3


def test_restore_single_table_to_different_location(shop_vault: Vault, shop: World) -> None:
    shop_vault.backup(*ORDERS)
    rows, arrow = rows_of(shop, "sales.orders"), arrow_rows_of(shop, "sales.orders")
    place = shop_vault.folder / "elsewhere/orders"
    shop_vault.restore("--target-database", "back", "--target-location", str(place))
    with hidden(shop):
        assert shop_vault.rows("back.orders") == rows
        assert shop_vault.arrow_rows("back.orders") == arrow
    restored = shop_vault.target.metadata_location("back.orders")
    assert all(str(file).startswith(str(place)) for file in referenced_files(restored))
    assert uuid_of(shop_vault.target, "back.orders") != uuid_of(shop, "sales.orders")


def test_backup_single_table_idempotent(shop_vault: Vault, shop: World) -> None:
    first = shop_vault.backup(*ORDERS)
    stored = shop_vault.stored_data()
    second = shop_vault.backup(*ORDERS)
    assert shop_vault.stored_data() == stored
    objects = [shop_vault.pit(item["pit"])["objects"][0] for item in (first, second)]
    assert [item["status"] for item in objects] == ["NEW", "UNCHANGED"]
    for key in ("object_id", "metadata_sha256", "entry"):
        assert objects[0][key] == objects[1][key]
    assert objects[0]["totals"]["files"] == objects[1]["totals"]["files"] == len(stored)
    rows = rows_of(shop, "sales.orders")
    for number, item in enumerate((first, second)):
        shop_vault.restore("--pit", item["pit"], "--target-table", f"try{number}")
        assert shop_vault.rows(f"sales.try{number}") == rows
