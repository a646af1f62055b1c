"""Seed 003, group 4: a repository stays locked to its scope, and its documents stay whole."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.seed003.places import Json, Vault
from tests.seed003.stories import Timeline
from tests.seed003.tables import add_database, add_rows, add_table, rows_of
from tests.support.command import answer_of, started, wait_until
from tests.support.product import digest_tree
from tests.support.shapes.model import World

pytestmark = pytest.mark.spark

CATALOG = ("--catalog", "prod")
SALES = (*CATALOG, "--database", "sales")
ORDERS = (*SALES, "--table", "orders")


def refused(vault: Vault, scope: tuple[str, ...], told: str) -> None:
    """The backup is refused, says what the repository is locked to, and writes nothing."""
    before = digest_tree(vault.repository)
    answer = vault.bcn("backup", *scope)
    assert (answer.code, answer.error) == (16, "ScopeMismatchError")
    assert told in answer.message
    assert digest_tree(vault.repository) == before


def test_repository_granularity_is_locked(database_vault: Vault, tmp_path: Path) -> None:
    """Neither other names nor an edited manifest.json change what a repository is for."""
    manifest = database_vault.manifest
    assert (manifest["granularity"], manifest["scope"]["database"]) == ("DATABASE", ["sales"])
    for other in (CATALOG, ORDERS, (*CATALOG, "--database", "hr")):
        refused(database_vault, other, "locked to DATABASE prod, database sales")
    scope = {"catalog": "prod", "database": None, "table": None}
    edited = {**manifest, "granularity": "CATALOG", "scope": scope}
    path = database_vault.repository / "manifest.json"
    kept = path.read_bytes()
    path.write_text(json.dumps(edited))
    try:
        answer = database_vault.bcn("backup")
        pits = database_vault.pits()
    finally:
        path.write_bytes(kept)
    assert (answer.code, answer.error) == (13, "DamagedRepositoryError")
    assert "database sales" in answer.message
    assert len(pits) == 1


def test_reject_broader_scope_on_existing_repo(shop_vault: Vault) -> None:
    shop_vault.backup(*ORDERS)
    for broader in (SALES, CATALOG):
        refused(shop_vault, broader, "locked to TABLE prod, database sales, table orders")
    assert shop_vault.pit()["included_objects"]["tables"] == {"sales": ["orders"]}


def test_reject_narrower_scope_on_existing_repo(catalog_vault: Vault) -> None:
    for narrower in (SALES, ORDERS):
        refused(catalog_vault, narrower, "locked to CATALOG prod")
    assert sorted(catalog_vault.pit()["included_objects"]["tables"]) == ["hr", "sales"]


def test_incremental_same_granularity_accepted(vault: Vault, source: World) -> None:
    add_database(source, "sales")
    add_table(source, "sales.orders")
    add_table(source, "sales.items")
    vault.backup(*SALES)
    add_rows(source, "sales.orders")
    vault.backup(*SALES)  # the same names again
    add_rows(source, "sales.items")
    vault.backup()  # or none: the repository knows them
    manifests = [vault.pit(pit) for pit in vault.pits()]
    assert [item["parent_pit"] for item in manifests] == [None, *vault.pits()[:2]]
    identities = [item["repository"] for item in manifests]
    assert identities[0]["scope"] == {"catalog": "prod", "database": ["sales"], "table": None}
    assert identities[0] == identities[1] == identities[2]
    rows = {name: rows_of(source, f"sales.{name}") for name in ("items", "orders")}
    source.folder.rename(source.folder.with_name("lost"))
    vault.restore()
    assert {name: vault.rows(f"sales.{name}") for name in rows} == rows


def checksum_of(document: Json) -> str:
    """As docs/format.md 4.1 defines it, without the product's own code."""
    content = {key: value for key, value in document.items() if key != "manifest_checksum"}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def check_stored(vault: Vault, key: str, sha256: str, size_bytes: int) -> bytes:
    data = (vault.repository / key).read_bytes()
    assert (hashlib.sha256(data).hexdigest(), len(data)) == (sha256, size_bytes)
    return data


def test_manifest_integrity_across_pits(past: Vault, timeline: Timeline) -> None:
    """Every PIT is covered by its checksum, through entries, down to the layers."""
    manifest, parent = past.manifest, None
    assert past.pits() == timeline.pits
    assert manifest["last_pit"] == timeline.pits[-1]
    for name in timeline.pits:
        pit = past.pit(name)
        assert (pit["pit"], pit["parent_pit"]) == (name, parent)
        assert pit["manifest_checksum"] == checksum_of(pit)
        identity = pit["repository"]
        assert identity["id"] == manifest["repository_id"]
        assert identity["scope"] == manifest["scope"]
        assert identity["granularity"] == manifest["granularity"] == "CATALOG"
        tables: dict[str, list[str]] = {}
        for item in pit["objects"]:
            tables.setdefault(item["namespace"][0], []).append(item["table"])
            check_entry(past, item)
        assert pit["included_objects"]["tables"] == tables
        parent = name


def check_entry(vault: Vault, item: Json) -> None:
    entry: dict[str, Any] = json.loads(check_stored(vault, **item["entry"]))
    assert entry["object_id"] == item["object_id"]
    assert entry["layers"][0]["kind"] == "full"
    for layer in entry["layers"]:
        for part in layer["parts"]:
            check_stored(vault, part["key"], part["sha256"], part["size_bytes"])


# The process holds the lease until a file appears.
WAIT_AT_THE_END = """
import bcn.backup.run, pathlib, time
real = bcn.backup.run.publish
def publish(*arguments):
    pathlib.Path({folder!r}, "waiting").touch()
    while not pathlib.Path({folder!r}, "go").exists(): time.sleep(0.01)
    return real(*arguments)
bcn.backup.run.publish = publish
"""


def test_concurrent_backup_prevention(vault: Vault, source: World) -> None:
    add_database(source, "sales")
    add_table(source, "sales.orders")
    first = vault.backup(*CATALOG)["pit"]
    hook = WAIT_AT_THE_END.format(folder=str(vault.folder))
    with started([vault.start("backup", hook=hook)]) as [other]:
        wait_until((vault.folder / "waiting").exists, other)
        marker = vault.document(".in_progress")
        answer = vault.bcn("backup")
        assert (answer.code, answer.error) == (11, "RepositoryLockedError")
        assert f"process {other.pid}" in answer.message
        assert marker["owner"]["pid"] == other.pid
        assert vault.pits() == [first]
        (vault.folder / "go").touch()
        second = answer_of(other)
    assert second.code == 0, second.stderr
    add_rows(source, "sales.orders")
    third = vault.backup()
    assert vault.pits() == [first, second.report["pit"], third["pit"]]
    assert third["parent_pit"] == second.report["pit"]
    assert not (vault.repository / ".in_progress").exists()
    vault.restore()
    assert vault.rows("sales.orders") == rows_of(source, "sales.orders")
