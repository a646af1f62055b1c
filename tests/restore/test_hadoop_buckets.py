"""Hadoop catalogs on disks and in buckets: from one into the other, with the source gone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bcn.catalog.protocol import CatalogSettings
from bcn.catalog.spark_side import spark_side
from bcn.errors import TargetExistsError
from bcn.model import TableId
from bcn.repository.repository import Scope
from tests.support.compare import spark_rows
from tests.support.compare.paths import MIRRORS, local_path
from tests.support.product import Product, hadoop_settings
from tests.support.s3 import Mirrored, differences, mirrored
from tests.support.servers import S3Server
from tests.support.shapes.twin import write_twin
from tests.support.small import InProcess
from tests.support.spark import open_side


@pytest.fixture
def bucket(minio: S3Server, tmp_path: Path) -> Iterator[Mirrored]:
    """Its files are known by Hadoop's name for it, too."""
    with mirrored(minio, tmp_path / "mirror") as place:
        MIRRORS[f"s3a://{place.bucket}"] = place.folder
        yield place
        del MIRRORS[f"s3a://{place.bucket}"]


def cloud_settings(name: str, bucket: Mirrored) -> CatalogSettings:
    warehouse = f"s3a://{bucket.bucket}/{name}"
    return CatalogSettings(name, "hadoop", {"warehouse": warehouse, **bucket.server.properties})


def add_tables(product: Product, catalog: str, warehouse: str) -> dict[str, str]:
    """A version 2 and a version 3 table as Hadoop's folders have them."""
    opened = product.open(catalog)
    opened.create_namespace(("db", "inner"), {})
    found = {}
    for version, name in ((2, "two"), (3, "three")):
        written = local_path(write_twin(f"{warehouse}/db/inner/{name}", version))
        first = written.rename(written.with_name("v1.metadata.json"))
        text = first.read_text()
        first.write_text(text.replace("-000000000001", f"-00000000000{version}"))
        found[name] = f"{warehouse}/db/inner/{name}/metadata/v1.metadata.json"
        opened.register(TableId(("db", "inner"), name), found[name])
    return found


def test_tables_go_from_a_disk_to_a_bucket_and_back(bucket: Mirrored, tmp_path: Path) -> None:
    local = tmp_path / "local"
    catalogs = {
        "local": hadoop_settings("local", local),
        "cloud": cloud_settings("cloud", bucket),
        "again": hadoop_settings("again", tmp_path / "again"),
    }
    product = Product(tmp_path / "repository", catalogs, InProcess())
    product.open("local").create_namespace(("empty",), {})
    tables = add_tables(product, "local", str(local))
    assert product.backup(Scope("local")).failed == ()
    local.rename(tmp_path / "away")
    up = product.restore(target_catalog="cloud")
    bucket.download()
    (tmp_path / "away").rename(local)
    assert differences(tables, up) == []
    sources = {table.table.name: table.metadata_location for table in up.tables}
    assert sources == {
        name: f"s3a://{bucket.bucket}/cloud/db/inner/{name}/metadata/v1.metadata.json"
        for name in tables
    }
    assert list(product.open("cloud").iter_namespaces()) == [("db",), ("db", "inner"), ("empty",)]
    keys = bucket.keys()
    assert not [key for key in keys if "bcn-" in key]
    with pytest.raises(TargetExistsError):
        product.restore(target_catalog="cloud")

    second = Product(tmp_path / "second", catalogs, InProcess())
    first, later = second.backup(Scope("cloud")), second.backup(Scope("cloud"))
    assert (first.failed, later.failed, later.files_copied) == ((), (), 0)
    bucket.empty()
    down = second.restore(target_catalog="again")
    assert differences(sources, down) == []
    assert len(down.tables) == 2


@pytest.mark.spark
def test_spark_reads_and_goes_on_with_what_it_wrote_into_a_bucket(
    spark: Any, bucket: Mirrored, tmp_path: Path
) -> None:
    source, target = (cloud_settings(name, bucket) for name in ("s3a_from", "s3a_to"))
    product = Product(tmp_path / "repository", {source.name: source, target.name: target})
    old, new = (f"{settings.name}.sales.orders" for settings in (source, target))
    for settings in (source, target):
        open_side(spark, spark_side(settings))
    spark.sql(f"CREATE NAMESPACE {source.name}.sales")
    spark.sql(
        f"CREATE TABLE {old} (id BIGINT, name STRING) USING iceberg PARTITIONED BY (bucket(2, id))"
        " TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')"
    )
    for statement in (
        f"INSERT INTO {old} SELECT id, 'n' FROM range(6)",
        f"ALTER TABLE {old} CREATE TAG v1",
        f"DELETE FROM {old} WHERE id = 2",
    ):
        spark.sql(statement)
    before = spark_rows(spark, old)
    assert product.backup(Scope(source.name)).failed == ()
    bucket.empty()
    report = product.restore(target_catalog=target.name)
    assert report.tables[0].metadata_location.startswith(f"s3a://{bucket.bucket}/")
    assert spark_rows(spark, new) == before
    assert spark.sql(f"SELECT * FROM {new} VERSION AS OF 'v1'").count() == 6
    spark.sql(f"INSERT INTO {new} VALUES (9, 'new')")
    spark.sql(f"DELETE FROM {new} WHERE id = 0")
    rows = spark.sql(f"SELECT id FROM {new} ORDER BY id").collect()
    assert [row[0] for row in rows] == [1, 3, 4, 5, 9]
    [pointer] = product.open(target.name).iter_pointers()
    assert pointer.metadata_location.endswith("/v3.metadata.json")
