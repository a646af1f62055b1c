"""What a section is to Spark: a real session opens each type of catalog by it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from bcn.catalog.open import CATALOG_TYPES, open_catalog
from bcn.catalog.protocol import CatalogSettings
from bcn.catalog.spark_side import spark_side
from bcn.errors import SettingsError
from bcn.model import TableId
from tests.support.servers import SECRET_KEY, S3Server
from tests.support.spark import open_side

S3 = {
    "s3.endpoint": "http://host:9000",
    "s3.access-key-id": "me",
    "s3.secret-access-key": "hush",
    "s3.region": "eu-west-1",
}


def options(settings: CatalogSettings) -> dict[str, str]:
    """What Spark is told of the catalog itself."""
    side = spark_side(settings)
    prefix = f"spark.sql.catalog.{side.name}."
    return {
        key.removeprefix(prefix): value
        for key, value in side.settings.items()
        if key.startswith(prefix)
    }


def use(spark: Any, settings: CatalogSettings) -> None:
    """Spark makes a table, writes and reads it, and bcn sees the same table."""
    catalog = open_side(spark, spark_side(settings))
    table = f"`{catalog}`.side.t"
    spark.sql(f"CREATE NAMESPACE `{catalog}`.side")
    spark.sql(f"CREATE TABLE {table} (id BIGINT, name STRING) USING iceberg")
    spark.sql(f"INSERT INTO {table} SELECT id, 'n' FROM range(4)")
    spark.sql(f"DELETE FROM {table} WHERE id = 1")
    rows = spark.sql(f"SELECT id FROM {table} ORDER BY id").collect()
    assert [row[0] for row in rows] == [0, 2, 3]
    pointer = open_catalog(settings).find_pointer(TableId(("side",), "t"))
    assert pointer is not None
    files = spark.sql(f"SELECT file_path FROM {table}.files").collect()
    warehouse = settings.properties["warehouse"].removeprefix("file://")
    assert all(warehouse in row[0] for row in files)
    assert warehouse in pointer.metadata_location
    # Nothing that a server keeps stays for the next test.
    spark.sql(f"DROP TABLE {table}")
    spark.sql(f"DROP NAMESPACE `{catalog}`.side")


def in_bucket(server: S3Server, scheme: str = "s3") -> dict[str, str]:
    return {"warehouse": f"{scheme}://{server.make_bucket()}/wh", **server.properties}


@pytest.mark.spark
def test_spark_opens_hadoop_catalogs(spark: Any, tmp_path: Path, minio: S3Server) -> None:
    use(spark, CatalogSettings("side_hadoop", "hadoop", {"warehouse": str(tmp_path / "wh")}))
    use(spark, CatalogSettings("side_s3", "hadoop", in_bucket(minio)))
    use(spark, CatalogSettings("side_s3n", "hadoop", in_bucket(minio, "s3n")))


@pytest.mark.spark
def test_spark_opens_sql_catalogs(spark: Any, tmp_path: Path, minio: S3Server) -> None:
    uri = f"sqlite:///{tmp_path}/catalog.db"
    local = CatalogSettings("side-sql", "sql", {"uri": uri, "warehouse": str(tmp_path / "wh")})
    open_catalog(local).create_namespace(("made", "before"), {})
    use(spark, local)
    use(spark, CatalogSettings("x", "sql", {"uri": uri, "name": "side_sql3", **in_bucket(minio)}))


@pytest.mark.spark
def test_spark_opens_a_catalog_in_postgresql(spark: Any, tmp_path: Path, postgres: Any) -> None:
    use(spark, postgres.settings("side_pg", postgres.make_database(), tmp_path / "wh"))


@pytest.mark.spark
def test_spark_opens_rest_catalogs(spark: Any, rest_catalog: Any) -> None:
    use(spark, rest_catalog.settings("side_rest"))


@pytest.mark.spark
def test_spark_opens_a_hive_metastore(spark: Any, tmp_path: Path, hive_metastore: Any) -> None:
    use(spark, hive_metastore.settings("side_hive", f"file://{tmp_path}/wh"))


@pytest.mark.spark
def test_spark_opens_glue(spark: Any, tmp_path: Path, glue: Any, minio: S3Server) -> None:
    use(spark, glue.settings("side_glue", f"file://{tmp_path}/wh"))
    use(spark, glue.settings("side_glue3", **in_bucket(minio)))


# what needs no Spark


def test_every_type_of_catalog_has_a_side(tmp_path: Path) -> None:
    properties = {"uri": f"sqlite:///{tmp_path}/x.db", "warehouse": str(tmp_path)}
    for kind in CATALOG_TYPES:
        side = spark_side(CatalogSettings("prod", kind, properties))
        assert side.settings["spark.sql.catalog.prod"] == "org.apache.iceberg.spark.SparkCatalog"
        assert options(CatalogSettings("prod", kind, properties))["type"]
        assert side.packages[0].startswith("org.apache.iceberg:iceberg-spark-runtime-")
        assert not side.environment


def test_the_name_that_writers_use_is_the_name_in_spark(tmp_path: Path) -> None:
    properties = {"warehouse": str(tmp_path), "name": "prod"}
    assert spark_side(CatalogSettings("alias", "hadoop", properties)).name == "prod"
    with pytest.raises(SettingsError, match=r"'a\.b'"):
        spark_side(CatalogSettings("a.b", "hadoop", {"warehouse": "/w"}))


def test_user_and_password_are_no_part_of_an_address() -> None:
    uri = "postgresql+psycopg://ada:p%40ss%2Fw@db.example.org:5433/cat?sslmode=require"
    found = options(CatalogSettings("pg", "sql", {"uri": uri, "warehouse": "/w"}))
    assert found == {
        "type": "jdbc",
        "uri": "jdbc:postgresql://db.example.org:5433/cat?sslmode=require",
        "warehouse": "/w",
        "jdbc.user": "ada",
        "jdbc.password": "p@ss/w",
    }
    for wrong in ("nonsense", "mysql+pymysql://u:hush@h/d"):
        with pytest.raises(SettingsError) as caught:
            spark_side(CatalogSettings("pg", "sql", {"uri": wrong}))
        assert "hush" not in str(caught.value)


def test_an_old_database_is_not_altered_by_being_opened() -> None:
    found = options(CatalogSettings("c", "sql", {"uri": "sqlite:////x.db"}))
    assert "jdbc.schema-version" not in found


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, "true"),
        ({"s3.force-virtual-addressing": "true"}, None),
        ({"s3.path-style-access": "false"}, "false"),
        ({"s3.endpoint": ""}, None),
    ],
)
def test_other_services_than_aws_are_asked_by_path(
    more: dict[str, str], expected: str | None
) -> None:
    properties = {"uri": "thrift://h:9083", "warehouse": "s3://b/w", **S3, **more}
    found = options(CatalogSettings("c", "hive", properties))
    assert found.get("s3.path-style-access") == expected
    assert found["client.region"] == "eu-west-1"
    hadoop = options(CatalogSettings("c", "hadoop", {"warehouse": "s3a://b/w", **S3, **more}))
    assert hadoop.get("hadoop.fs.s3a.path.style.access") == expected


def test_local_tables_need_no_store(tmp_path: Path) -> None:
    found = options(CatalogSettings("c", "hive", {"uri": "thrift://h:1", "warehouse": "/w"}))
    assert found == {"type": "hive", "uri": "thrift://h:1", "warehouse": "/w"}
    hadoop = options(CatalogSettings("c", "hadoop", {"warehouse": str(tmp_path)}))
    assert hadoop == {"type": "hadoop", "warehouse": str(tmp_path)}


def test_a_rest_client_asks_for_grants_unless_it_has_keys() -> None:
    header = "header.X-Iceberg-Access-Delegation"
    properties = {"uri": "https://h", "credential": "a:b", "header.x": "y"}
    found = options(CatalogSettings("c", "rest", properties))
    assert (found[header], found["header.x"], found["credential"]) == (
        "vended-credentials",
        "y",
        "a:b",
    )
    assert header not in options(CatalogSettings("c", "rest", {**properties, **S3}))
    own = {**properties, header: "remote-signing"}
    assert options(CatalogSettings("c", "rest", own))[header] == "remote-signing"


def test_keys_of_glue_are_variables_and_no_settings() -> None:
    properties = {"glue.access-key-id": "me", "glue.secret-access-key": "hush"}
    side = spark_side(CatalogSettings("c", "glue", {**properties, "glue.region": "eu-west-1"}))
    assert side.environment == {"AWS_ACCESS_KEY_ID": "me", "AWS_SECRET_ACCESS_KEY": "hush"}
    assert "hush" not in side.settings.values()
    assert side.settings["spark.sql.catalog.c.client.region"] == "eu-west-1"


def test_no_secret_is_in_the_text_form(tmp_path: Path) -> None:
    properties = {"warehouse": "s3://b/w", **S3, "s3.secret-access-key": SECRET_KEY}
    assert SECRET_KEY not in repr(spark_side(CatalogSettings("c", "hadoop", properties)))


def test_versions_are_those_that_the_tests_run_with() -> None:
    text = (Path(__file__).parents[2] / "jars.xml").read_text()
    found = set(re.findall(r'org="(\S+)" name="(\S+)" rev="(\S+)"', text))
    sections = [
        CatalogSettings("c", "hadoop", {"warehouse": "s3a://b/w"}),
        CatalogSettings("c", "sql", {"uri": "sqlite:////x.db"}),
        CatalogSettings("c", "sql", {"uri": "postgresql://h/d"}),
    ]
    packages = {package for section in sections for package in spark_side(section).packages}
    assert packages == {":".join(parts) for parts in found}
