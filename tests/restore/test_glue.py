"""Tables into Glue and out of it; the source is gone before anything is read."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from bcn.errors import CatalogError, TargetExistsError, UnsupportedCatalogError
from bcn.model import TableId
from bcn.repository.repository import Scope
from bcn.stack.process import free_port
from bcn.storage.local import local_path
from bcn.storage.protocol import StorageSpec
from tests.support.compare import spark_rows
from tests.support.glue import ACCESS_KEY, SECRET_KEY, GlueServer
from tests.support.product import Product
from tests.support.s3 import CloudProduct, add_twins, differences, mirrored, sql_catalog
from tests.support.servers import S3Server
from tests.support.small import SOURCE, TARGET, InProcess, SmallPlace, open_small
from tests.support.spark import add_catalog

T = TableId(("db",), "t")
ORDERS = TableId(("sales",), "orders")


def place_with(folder: Path, **catalogs: Any) -> SmallPlace:
    place = open_small(folder)
    place.product.catalogs = {**place.product.catalogs, **catalogs}
    return place


def record(glue: GlueServer, table: TableId) -> Any:
    return glue.client().get_table(DatabaseName=table.namespace[0], Name=table.name)["Table"]


def current_schema(made: Any) -> Any:
    document = json.loads(Path(local_path(made["Parameters"]["metadata_location"])).read_bytes())
    wanted = document["current-schema-id"]
    return next(item for item in document["schemas"] if item["schema-id"] == wanted)


@pytest.mark.parametrize("version", [2, 3])
def test_from_sql_to_glue(glue: GlueServer, tmp_path: Path, version: int) -> None:
    place = place_with(tmp_path, target=glue.settings(TARGET, f"file://{tmp_path}/{TARGET}"))
    table = place.add(version)
    place.backup()
    place.move_source_away()
    report = place.restore()
    assert place.differences(table, report) == []
    made = record(glue, T)
    assert made["StorageDescriptor"]["Location"] == f"file://{tmp_path}/{TARGET}/db.db/t"
    names = [column["Name"] for column in made["StorageDescriptor"]["Columns"]]
    assert names == [field["name"] for field in current_schema(made)["fields"]]
    with pytest.raises(TargetExistsError):
        place.restore()


@pytest.mark.parametrize("version", [2, 3])
def test_from_glue_to_sql(glue: GlueServer, tmp_path: Path, version: int) -> None:
    place = place_with(tmp_path, source=glue.settings(SOURCE, str(tmp_path / SOURCE)))
    table = place.add(version)
    first = place.backup()
    assert (first.failed, place.backup().failed) == ((), ())
    made = record(glue, T)
    moved = table.metadata = table.metadata.rename(
        table.metadata.with_name("00009-moved.metadata.json")
    )
    fields = {key: made[key] for key in ("Name", "TableType", "StorageDescriptor")}
    parameters = {**made["Parameters"], "metadata_location": str(moved)}
    glue.client().update_table(DatabaseName="db", TableInput={**fields, "Parameters": parameters})
    place.backup()
    glue.empty()
    place.move_source_away()
    assert place.differences(table, place.restore()) == []


def test_what_glue_cannot_hold_is_refused_before_anything_is_copied(
    glue: GlueServer, tmp_path: Path
) -> None:
    place = place_with(tmp_path, target=glue.settings(TARGET, str(tmp_path / TARGET)))
    place.add(name="Upper")
    place.backup()
    with pytest.raises(UnsupportedCatalogError, match="lower case") as caught:
        place.restore()
    assert "--target-table" in caught.value.hint
    assert not (tmp_path / TARGET).exists()
    assert place.restore(target_table="lower").tables[0].name == "lower"


def test_a_restore_into_a_glue_that_is_not_there_ends_soon(
    glue: GlueServer, tmp_path: Path
) -> None:
    nobody = f"http://127.0.0.1:{free_port()}"
    settings = glue.settings(TARGET, str(tmp_path / TARGET), **{"glue.endpoint": nobody})
    place = place_with(tmp_path, target=settings)
    place.add()
    place.backup()
    start = time.monotonic()
    with pytest.raises(CatalogError, match="cannot be reached"):
        place.restore()
    assert time.monotonic() - start < 15
    assert not (tmp_path / TARGET).exists()


@pytest.mark.spark
def test_spark_reads_and_goes_on_with_a_table_restored_into_glue(
    glue: GlueServer, spark: Any, tmp_path: Path
) -> None:
    source, target = f"file://{tmp_path}/source", f"file://{tmp_path}/target"
    add_glue_catalog(spark, "gluesource", glue, source)
    add_glue_catalog(spark, "gluetarget", glue, target)
    spark.sql("CREATE NAMESPACE gluesource.sales COMMENT 'Sales' WITH DBPROPERTIES ('a' = 'b')")
    spark.sql(
        "CREATE TABLE gluesource.sales.orders (id BIGINT NOT NULL COMMENT 'the id', name STRING,"
        " at TIMESTAMP, tags ARRAY<STRING>, more MAP<STRING, DECIMAL(9,2)>, s STRUCT<x: INT>)"
        " USING iceberg TBLPROPERTIES ('comment' = 'Orders', 'write.delete.mode'='merge-on-read')"
    )
    for statement in (
        "INSERT INTO {0} SELECT id, 'n', NULL, NULL, NULL, NULL FROM range(5)",
        "ALTER TABLE {0} DROP COLUMN name",
        "ALTER TABLE {0} CREATE TAG v1",
        "DELETE FROM {0} WHERE id = 2",
    ):
        spark.sql(statement.format("gluesource.sales.orders"))
    before = spark_rows(spark, "gluesource.sales.orders")
    theirs = record(glue, ORDERS)

    product = Product(
        tmp_path / "repository",
        {
            "gluesource": glue.settings("gluesource", source),
            "gluetarget": glue.settings("gluetarget", target),
        },
    )
    properties = product.open("gluesource").load_namespace(("sales",))
    assert properties.items() > {"a": "b", "comment": "Sales"}.items()
    assert product.backup(Scope("gluesource")).failed == ()
    (tmp_path / "source").rename(tmp_path / "away")
    glue.empty()
    product.restore(target_catalog="gluetarget")
    assert spark_rows(spark, "gluetarget.sales.orders") == before
    assert product.open("gluetarget").load_namespace(("sales",)) == properties

    ours = record(glue, ORDERS)
    for kept in ("Name", "TableType", "Description"):
        assert ours[kept] == theirs[kept]
    assert ours["StorageDescriptor"]["Columns"] == theirs["StorageDescriptor"]["Columns"]
    # A commit adds the location before; a table that was just made has none.
    assert set(ours["Parameters"]) == set(theirs["Parameters"]) - {"previous_metadata_location"}

    spark.sql("INSERT INTO gluetarget.sales.orders SELECT 9, NULL, NULL, NULL, NULL")
    spark.sql("DELETE FROM gluetarget.sales.orders WHERE id = 0")
    rows = spark.sql("SELECT id FROM gluetarget.sales.orders ORDER BY id").collect()
    assert [row[0] for row in rows] == [1, 3, 4, 9]
    assert product.open("gluetarget").find_pointer(ORDERS) is not None


def add_glue_catalog(spark: Any, name: str, glue: GlueServer, warehouse: str) -> None:
    """Makes Glue known to Spark; keys of Glue's own are taken from Java's properties."""
    for key, value in {"accessKeyId": ACCESS_KEY, "secretAccessKey": SECRET_KEY}.items():
        spark._jvm.System.setProperty(f"aws.{key}", value)
    add_catalog(
        spark,
        name,
        {
            "type": "glue",
            "warehouse": warehouse,
            "glue.endpoint": glue.endpoint,
            "client.region": "us-east-1",
            "io-impl": "org.apache.iceberg.hadoop.HadoopFileIO",
        },
    )


def test_through_glue_with_a_warehouse_in_a_bucket(
    glue: GlueServer, minio: S3Server, tmp_path: Path
) -> None:
    with mirrored(minio, tmp_path / "mirror") as bucket:
        local, up = str(tmp_path / "local"), f"{bucket.location}/up"
        lake = glue.settings("lake", up, **minio.properties)
        product = CloudProduct(
            Path(),
            {"source": sql_catalog("source", tmp_path / "s.db", local, {}), "lake": lake},
            InProcess(),
            StorageSpec(f"{bucket.location}/first", minio.properties),
        )
        tables = add_twins(product, "source", local)
        product.backup(Scope("source"))
        (tmp_path / "local").rename(tmp_path / "away")
        first = product.restore(target_catalog="lake")
        bucket.download()
        (tmp_path / "away").rename(tmp_path / "local")
        assert differences(tables, first) == []
        assert record(glue, TableId(("db",), "two"))["StorageDescriptor"]["Location"].startswith(up)

        product.repository_spec = StorageSpec(str(tmp_path / "second"))
        product.catalogs = {
            "lake": lake,
            "again": glue.settings("again", f"{bucket.location}/again", **minio.properties),
        }
        product.backup(Scope("lake"))
        bucket.empty()
        glue.empty()
        second = product.restore(target_catalog="again")
        bucket.download()
        sources = {table.table.name: table.metadata_location for table in first.tables}
        assert differences(sources, second) == []
