"""Seed 003, group 7: Hive and MinIO, Glue and S3 as moto plays AWS, and from one to the other."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bcn.catalog.protocol import CatalogSettings
from tests.seed003.clouds import ORDERS, TABLE, CloudVault, next_prefix, open_cloud_vault
from tests.support.compare import pyiceberg_rows
from tests.support.compare.avro import read_avro
from tests.support.glue import ACCESS_KEY, SECRET_KEY, GlueServer
from tests.support.hive import HiveServer
from tests.support.servers import S3Server
from tests.support.stacks import MINIO, Servers, Stack, current_metadata

pytestmark = pytest.mark.spark

# All services of AWS by one set of keys; MinIO's are for S3 alone.
AWS = {
    "client.access-key-id": ACCESS_KEY,
    "client.secret-access-key": SECRET_KEY,
    "client.region": "eu-west-1",
}


@pytest.fixture
def local_stack(hive_s3: HiveServer, minio: S3Server, glue: GlueServer, tmp_path: Path) -> Stack:
    """Hive Metastore and MinIO, empty."""
    hive_s3.empty()
    servers = Servers(tmp_path, minio, {MINIO: hive_s3}, {}, {}, glue, next_prefix())
    return servers.open("hive", MINIO)


@pytest.fixture
def aws_s3(glue: GlueServer) -> S3Server:
    return S3Server(glue.server)


@pytest.fixture
def aws_stack(glue: GlueServer, aws_s3: S3Server, tmp_path: Path) -> Stack:
    """Glue and S3, empty."""
    stack = Servers(tmp_path, aws_s3, {}, {}, {}, glue, next_prefix()).open("glue", MINIO)
    own = {"warehouse": stack.place, "glue.endpoint": glue.endpoint, **_s3(glue)}
    return replace(stack, settings=CatalogSettings(stack.catalog, "glue", own))


def _s3(glue: GlueServer) -> dict[str, str]:
    return {"s3.endpoint": glue.endpoint, **AWS}


@pytest.fixture
def local(spark: Any, local_stack: Stack, minio: S3Server, tmp_path: Path) -> CloudVault:
    stacks = (local_stack, local_stack)
    return open_cloud_vault(spark, tmp_path, stacks, minio, minio.properties)


@pytest.fixture
def aws(
    spark: Any, aws_stack: Stack, aws_s3: S3Server, glue: GlueServer, tmp_path: Path
) -> CloudVault:
    return open_cloud_vault(spark, tmp_path, (aws_stack, aws_stack), aws_s3, _s3(glue))


@pytest.fixture
def local_to_aws(
    spark: Any, local_stack: Stack, aws_stack: Stack, minio: S3Server, tmp_path: Path
) -> CloudVault:
    stacks = (local_stack, aws_stack)
    return open_cloud_vault(spark, tmp_path, stacks, minio, minio.properties)


def location_of(vault: CloudVault, stack: Stack) -> str:
    return current_metadata(vault.spark, stack.spark_name(ORDERS))


def check_single_table(vault: CloudVault) -> None:
    """A first backup: what it says, the bytes it stored, and that they are enough."""
    vault.make_table()
    location, rows = location_of(vault, vault.source), vault.rows(vault.source)
    digests = vault.source_digests(location)
    report = vault.done("backup", *TABLE)
    manifest = vault.document("manifest.json")
    assert (manifest["granularity"], manifest["last_pit"]) == ("TABLE", report["pit"])
    pit = vault.document(f"catalogs/prod/pit_manifests/{report['pit']}/manifest.json")
    assert pit["included_objects"]["tables"] == {"sales": ["orders"]}
    assert set(vault.stored("data/").values()) == digests
    keys = vault.server.properties["s3.secret-access-key"], SECRET_KEY
    texts = json.dumps([vault.document(key) for key in vault.stored() if key.endswith(".json")])
    assert not any(key in texts for key in keys)
    vault.source.remove()
    assert vault.source.names() == {}
    vault.restore()
    assert vault.rows(vault.target) == rows
    assert vault.ids(vault.target) == [0, 1, 3, 4, 5]


def check_incremental(vault: CloudVault) -> None:
    """A second backup stores what is new and leaves alone what is there; each PIT comes back."""
    vault.make_table()
    first, before = vault.done("backup", *TABLE), vault.rows(vault.source)
    known = vault.stored("data/")
    vault.add_rows(ORDERS, 10, 3)
    second, after = vault.done("backup"), vault.rows(vault.source)
    stored = vault.stored("data/")
    new = sorted(key.rsplit(".", 1)[1] for key in stored.keys() - known.keys())
    assert new == ["avro", "avro", "json", "parquet"]  # list, manifest, metadata, data
    assert (second["files_copied"], second["manifests_decoded"]) == (len(new), 1)
    assert {key: stored[key] for key in known} == known
    third = vault.done("backup")
    assert [item["status"] for item in third["tables"]] == ["UNCHANGED"]
    assert (third["files_copied"], vault.stored("data/")) == (0, stored)
    vault.source.remove()
    for report, rows in ((first, before), (second, after)):
        name = f"at_{report['pit'][-5:-1]}"
        vault.restore("--pit", report["pit"], "--target-table", name)
        assert vault.rows(vault.target, replace(ORDERS, name=name)) == rows


# local stack


def test_local_minio_backup_single_table(local: CloudVault) -> None:
    check_single_table(local)


def test_local_minio_incremental_backup(local: CloudVault) -> None:
    check_incremental(local)


def test_local_hive_metadata_restore(local: CloudVault, hive_s3: HiveServer) -> None:
    local.make_table()
    with hive_s3.client() as client:
        theirs = client.get_table("sales", "orders")
    rows = local.rows(local.source)
    local.done("backup", "--catalog", "prod")
    local.source.remove()
    report = local.restore()
    assert report["namespaces"] == ["sales"]
    with hive_s3.client() as client:
        ours = client.get_table("sales", "orders")
    assert ours.tableType == theirs.tableType == "EXTERNAL_TABLE"
    assert ours.sd.cols == theirs.sd.cols
    assert ours.sd.location == theirs.sd.location
    # What commits leave behind; a table that was just made has had none.
    changing = {"metadata_location", "previous_metadata_location", "transient_lastDdlTime"}
    changing |= {"DO_NOT_UPDATE_STATS"}
    kept = {key: value for key, value in theirs.parameters.items() if key not in changing}
    assert {key: ours.parameters.get(key) for key in kept} == kept
    assert ours.parameters["metadata_location"] == report["tables"][0]["metadata_location"]
    assert local.rows(local.target) == rows
    local.add_rows(ORDERS, 50, 1)
    assert local.ids(local.target) == [0, 1, 3, 4, 5, 50]


# AWS stack


def test_aws_s3_backup_single_table(aws: CloudVault) -> None:
    check_single_table(aws)


def test_aws_s3_incremental_backup(aws: CloudVault) -> None:
    check_incremental(aws)


def _glue_record(vault: CloudVault, glue: GlueServer) -> dict[str, Any]:
    return dict(glue.client("eu-west-1").get_table(DatabaseName="sales", Name="orders")["Table"])


def test_aws_glue_metadata_handling(aws: CloudVault, glue: GlueServer) -> None:
    aws.make_table()
    name = aws.source.spark_name(ORDERS)
    aws.spark.sql(f"ALTER TABLE {name} DROP COLUMN more")
    aws.spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('comment' = 'Orders of today')")
    theirs, rows = _glue_record(aws, glue), aws.rows(aws.source)
    aws.done("backup", "--catalog", "prod")
    aws.source.remove()
    report = aws.restore()
    ours = _glue_record(aws, glue)
    assert ours["Description"] == theirs["Description"] == "Orders of today"
    assert ours["TableType"] == theirs["TableType"]
    assert ours["StorageDescriptor"]["Columns"] == theirs["StorageDescriptor"]["Columns"]
    assert ours["StorageDescriptor"]["Location"] == theirs["StorageDescriptor"]["Location"]
    location = report["tables"][0]["metadata_location"]
    assert ours["Parameters"]["metadata_location"] == location
    assert aws.rows(aws.target) == rows
    aws.spark.sql(f"DELETE FROM {name} WHERE id = 0")
    assert aws.ids(aws.target) == [1, 3, 4, 5]


def test_aws_glue_vs_hive_compatibility(
    local_to_aws: CloudVault, hive_s3: HiveServer, glue: GlueServer
) -> None:
    """Both catalogs tell other engines the same columns, and the same table comes back again."""
    vault = local_to_aws
    vault.make_table(version=3)
    rows = vault.rows(vault.source)
    with hive_s3.client() as client:
        in_hive = client.get_table("sales", "orders")
    vault.done("backup", "--catalog", "prod")
    vault.source.remove()
    vault.restore()
    in_glue = _glue_record(vault, glue)
    columns = [
        (column["Name"], column["Type"]) for column in in_glue["StorageDescriptor"]["Columns"]
    ]
    expected = [(column.name, _glue_word(column.type)) for column in in_hive.sd.cols]
    assert columns == expected
    assert in_glue["TableType"] == in_hive.tableType
    assert vault.rows(vault.target) == rows

    vault.done("backup", "--catalog", "dr", "--repo", "back")
    vault.target.remove()
    vault.done("restore", "--target-catalog", "prod", "--repo", "back")
    assert vault.rows(vault.source) == rows
    with hive_s3.client() as client:
        assert client.get_table("sales", "orders").sd.cols == in_hive.sd.cols


def _glue_word(kind: str) -> str:
    """Hive's word for a type in Glue's; only instants have two names."""
    return kind.replace("timestamp with local time zone", "timestamp")


# across


def _inflated(path: Path) -> bytes:
    if path.suffix != ".avro":
        return path.read_bytes()
    file = read_avro(path)
    return b"".join([*file.header.values(), file.body])


def test_restore_from_local_to_aws(local_to_aws: CloudVault, glue: GlueServer) -> None:
    vault = local_to_aws
    vault.make_table()
    rows, location = vault.rows(vault.source), location_of(vault, vault.source)
    arrow = pyiceberg_rows(location, properties=vault.source.reading())
    vault.done("backup", "--catalog", "prod")
    vault.source.remove()
    report = vault.restore()
    [table] = report["tables"]
    assert table["metadata_location"].startswith(f"{vault.target.place}/sales.db/orders/metadata/")
    assert vault.rows(vault.target) == rows
    restored = pyiceberg_rows(table["metadata_location"], properties=vault.target.reading())
    assert restored == arrow
    old = vault.source.place
    assert old not in str(_glue_record(vault, glue))
    copy = vault.folder / "restored"
    vault.target.copy_to(copy)
    texts = [_inflated(path) for path in copy.rglob("*") if path.is_file()]
    assert len(texts) == 7  # metadata, a list and a manifest of each commit, data, deletes
    assert not any(old.encode() in text for text in texts)
    vault.spark.sql(f"DELETE FROM {vault.target.spark_name(ORDERS)} WHERE id = 5")
    assert vault.ids(vault.target) == [0, 1, 3, 4]
