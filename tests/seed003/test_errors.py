"""Seed 003, group 10: what is refused, what is noticed, and that nothing is lost meanwhile."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.seed003.places import Vault, hidden, open_vault
from tests.seed003.stories import Timeline
from tests.seed003.tables import add_database, add_rows, add_table, rows_of
from tests.support.command import small_disk
from tests.support.product import digest_tree
from tests.support.shapes.events import flip_bit
from tests.support.shapes.model import World

pytestmark = pytest.mark.spark

MIB = 1 << 20


def test_reject_backup_narrower_than_previous(database_vault: Vault) -> None:
    before = digest_tree(database_vault.repository)
    scope = ("--catalog", "prod", "--database", "sales", "--table", "items")
    answer = database_vault.bcn("backup", *scope)
    assert (answer.code, answer.error) == (16, "ScopeMismatchError")
    assert "DATABASE prod, database sales" in answer.message
    assert "TABLE prod, database sales, table items" in answer.message
    assert digest_tree(database_vault.repository) == before


def test_reject_backup_broader_than_previous(database_vault: Vault) -> None:
    before = digest_tree(database_vault.repository)
    answer = database_vault.bcn("backup", "--catalog", "prod")
    assert (answer.code, answer.error) == (16, "ScopeMismatchError")
    assert answer.message.endswith("locked to DATABASE prod, database sales, not CATALOG prod")
    assert answer.hint
    assert digest_tree(database_vault.repository) == before


def test_invalid_catalog_name(shop_vault: Vault) -> None:
    """One that is not configured, and ones that cannot be."""
    answer = shop_vault.bcn("backup", "--catalog", "prodd")
    assert (answer.code, answer.error) == (2, "UnknownCatalogError")
    assert "did you mean 'prod'?" in answer.message
    for name in ("", "..", "a/b", "nul\0"):
        answer = shop_vault.bcn("backup", "--catalog", name)
        assert (answer.code, answer.error) == (2, "BadNameError")
        assert repr(name) in answer.message
    assert not shop_vault.repository.exists()
    shop_vault.backup("--catalog", "prod", "--database", "hr", "--table", "teams")
    answer = shop_vault.bcn("restore", "--target-catalog", "drr")
    assert (answer.code, answer.error) == (2, "UnknownCatalogError")
    assert not shop_vault.target.db_path.exists()


def test_invalid_database_name(shop_vault: Vault, catalog_vault: Vault) -> None:
    """A database that is not there is told before anything is made; the nearest one is named."""
    answer = shop_vault.bcn("backup", "--catalog", "prod", "--database", "sale")
    assert (answer.code, answer.error) == (14, "NoSuchNamespaceError")
    assert "sale" in answer.message
    answer = shop_vault.bcn("backup", "--catalog", "prod", "--database", "a..b")
    assert (answer.code, answer.error) == (2, "BadNameError")
    assert not shop_vault.repository.exists()
    answer = catalog_vault.bcn("list", "--database", "sale")
    assert (answer.code, answer.error) == (14, "NoSuchNamespaceError")
    assert "did you mean 'sales'?" in answer.message
    answer = catalog_vault.bcn("restore", "--database", "sale", "--target-catalog", "dr")
    assert (answer.code, answer.error) == (14, "NoSuchNamespaceError")
    assert not catalog_vault.target.db_path.exists()


def test_corrupted_pit_manifest_recovery(timeline: Timeline, tmp_path: Path) -> None:
    """A damaged PIT hides no other; what repeats PITs comes back; backups can go on."""
    copy = shutil.copytree(timeline.repository, tmp_path / "damaged")
    vault = open_vault(tmp_path, timeline.source, copy)
    folder = copy / "catalogs/prod"
    derived = [
        folder / "databases/sales/.deleted_tables.json",
        folder / "databases/.deleted_databases.json",
    ]
    kept = [path.read_bytes() for path in derived]
    flip_bit(folder / f"pit_manifests/{timeline.pits[3]}/manifest.json")
    for path in derived:
        path.unlink()
    listed = vault.bcn("list")
    damaged = [item["pit"] for item in listed.report["pits"] if item["damaged"]]
    assert (listed.code, damaged) == (0, [timeline.pits[3]])
    assert "warning" in listed.stderr
    answer = vault.bcn("restore", "--pit", timeline.pits[3], "--target-catalog", "dr")
    assert (answer.code, answer.error) == (13, "DamagedRepositoryError")
    assert not vault.target.db_path.exists()
    with hidden(timeline.source):
        vault.restore("--pit", timeline.pits[2], "--table", "people")
        assert vault.rows("hr.people") == timeline.rows[2]["hr.people"]
    repaired = vault.bcn("repair", "--quarantine", timeline.pits[3])
    assert repaired.report["quarantined"] == timeline.pits[3], repaired.stderr
    assert [path.read_bytes() for path in derived] == kept
    assert vault.manifest["last_pit"] == timeline.pits[2]
    assert vault.done("repair")["changes"] == []
    again = vault.backup()
    assert again["parent_pit"] == timeline.pits[2]
    assert {item["status"] for item in vault.pit()["objects"]} == {"UNCHANGED"}


def test_missing_referenced_data_error(
    catalog_repository: Path, shop: World, tmp_path: Path
) -> None:
    """A stored file is gone: it is named, nothing is registered, other tables still come back."""
    copy = tmp_path / "damaged"
    shutil.copytree(catalog_repository, copy)
    vault = open_vault(tmp_path, shop, copy)
    lost = next((copy / "data" / vault.record("sales.items")["object_id"]).rglob("*.parquet"))
    lost.unlink()
    answer = vault.bcn("restore", "--table", "items", "--target-catalog", "dr")
    assert (answer.code, answer.error) == (13, "DamagedRepositoryError")
    assert lost.name in answer.message
    assert not vault.target.db_path.exists()
    verified = vault.bcn("verify", "--level", "2")
    assert verified.code == 13
    found = [item for item in verified.report["findings"] if item["severity"] == "error"]
    assert [item["key"] for item in found] == [str(lost.relative_to(copy))]
    rows = rows_of(shop, "sales.customers")
    with hidden(shop):
        vault.restore("--table", "customers")
        assert vault.rows("sales.customers") == rows


def test_insufficient_storage_error(source: World, tmp_path: Path) -> None:
    """A full disk costs nothing that was finished, and more room completes the backup."""
    add_database(source, "sales")
    add_table(source, "sales.small")
    with small_disk(tmp_path / "disk", 4 * MIB) as disk:
        vault = open_vault(tmp_path, source, disk.folder / "repository")
        first, rows = vault.backup("--catalog", "prod"), rows_of(source, "sales.small")
        source.sql(
            f"CREATE TABLE {source.name('sales.large')} USING iceberg AS SELECT id,"
            " sha2(concat('x', id), 512) AS word FROM range(0, 100000, 1, 1)"
        )
        add_rows(source, "sales.small")
        answer = vault.bcn("backup")
        assert (answer.code, answer.error) == (15, "StorageFullError")
        assert answer.hint
        assert vault.pits() == [first["pit"]]
        vault.restore("--target-database", "kept")
        assert vault.rows("kept.small") == rows
        disk.resize(64 * MIB)
        second = vault.backup()
        assert second["parent_pit"] == first["pit"]
        expected = {name: rows_of(source, f"sales.{name}") for name in ("large", "small")}
        with hidden(source):
            vault.restore()
            assert {name: vault.rows(f"sales.{name}") for name in expected} == expected
