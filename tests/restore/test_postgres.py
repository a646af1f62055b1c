"""Tables into PostgreSQL and out of it, with Spark's JdbcCatalog on the same rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bcn.repository.repository import Scope
from tests.support.compare import spark_rows
from tests.support.postgres import PASSWORD, USER, PostgresServer
from tests.support.product import Product
from tests.support.small import SOURCE, TARGET, open_small
from tests.support.spark import add_catalog


def test_from_postgresql_to_postgresql(postgres: PostgresServer, tmp_path: Path) -> None:
    place = open_small(tmp_path)
    place.product.catalogs = {
        name: postgres.settings(name, postgres.make_database(), tmp_path / name)
        for name in (SOURCE, TARGET)
    }
    table = place.add(3)
    place.backup()
    place.move_source_away()
    assert place.differences(table, place.restore()) == []


@pytest.mark.spark
def test_spark_reads_and_goes_on_with_a_table_restored_into_postgresql(
    postgres: PostgresServer, spark: Any, tmp_path: Path
) -> None:
    database = postgres.make_database()
    for name in ("pgsource", "pgtarget"):
        add_jdbc_catalog(spark, name, postgres, database, tmp_path / name)
    spark.sql("CREATE NAMESPACE pgsource.sales")
    spark.sql("CREATE TABLE pgsource.sales.orders (id BIGINT) USING iceberg")
    spark.sql("INSERT INTO pgsource.sales.orders VALUES (1), (2)")
    spark.sql("ALTER TABLE pgsource.sales.orders CREATE TAG v1")
    spark.sql("INSERT INTO pgsource.sales.orders VALUES (3)")
    before = spark_rows(spark, "pgsource.sales.orders")
    product = Product(
        tmp_path / "repository",
        {
            name: postgres.settings(name, database, tmp_path / name)
            for name in ("pgsource", "pgtarget")
        },
    )
    assert product.backup(Scope("pgsource")).failed == ()
    (tmp_path / "pgsource").rename(tmp_path / "away")
    product.restore(target_catalog="pgtarget")
    assert spark_rows(spark, "pgtarget.sales.orders") == before
    spark.sql("INSERT INTO pgtarget.sales.orders VALUES (4)")
    rows = spark.sql("SELECT id FROM pgtarget.sales.orders ORDER BY id").collect()
    assert [row[0] for row in rows] == [1, 2, 3, 4]


def add_jdbc_catalog(
    spark: Any, name: str, postgres: PostgresServer, database: str, warehouse: Path
) -> None:
    add_catalog(
        spark,
        name,
        {
            "type": "jdbc",
            "uri": f"jdbc:postgresql://127.0.0.1:{postgres.server.port}/{database}",
            "jdbc.user": USER,
            "jdbc.password": PASSWORD,
            "jdbc.schema-version": "V1",
            "warehouse": str(warehouse),
        },
    )
