"""A repository of two tables and two points in time, made by real backups of real tables."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from bcn.repository.repository import Scope
from tests.maintenance.made import Made
from tests.support.product import Product, sql_settings
from tests.support.spark import add_sql_catalog

_CATALOG = "verify_src"


@pytest.fixture(scope="session")
def made(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("verify")
    add_sql_catalog(spark, _CATALOG, folder / "catalog.db", folder / "warehouse")
    _build(spark)
    settings = sql_settings(_CATALOG, folder / "catalog.db", folder / "warehouse")
    product = Product(folder / "repository", {_CATALOG: settings})
    first = product.backup(Scope(_CATALOG))
    spark.sql(f"INSERT INTO {_CATALOG}.sales.orders VALUES (7, 'g'), (8, 'h')")
    second = product.backup()
    return Made(product.location, first.pit, second.pit)


def _build(spark: Any) -> None:
    spark.sql(f"CREATE NAMESPACE {_CATALOG}.sales")
    orders = f"{_CATALOG}.sales.orders"
    spark.sql(
        f"CREATE TABLE {orders} (id BIGINT, name STRING) USING iceberg TBLPROPERTIES"
        " ('format-version'='2', 'write.delete.mode'='merge-on-read')"
    )
    spark.sql(f"INSERT INTO {orders} VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    spark.sql(f"ALTER TABLE {orders} CREATE TAG opening")
    spark.sql(f"INSERT INTO {orders} SELECT /*+ COALESCE(1) */ * FROM VALUES (4, 'd'), (5, 'e')")
    spark.sql(f"DELETE FROM {orders} WHERE id = 4")
    spark.sql(f"CREATE TABLE {_CATALOG}.sales.flat (id BIGINT) USING iceberg")
    spark.sql(f"INSERT INTO {_CATALOG}.sales.flat VALUES (1)")


@pytest.fixture
def repository(made: Made, tmp_path: Path) -> Made:
    """A copy to damage."""
    shutil.copytree(made.location, tmp_path / "repository")
    return Made(tmp_path / "repository", made.first, made.second)
