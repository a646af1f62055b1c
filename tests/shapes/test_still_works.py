"""G7: every restored shape that Spark can write is written, changed and cleaned in its place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from bcn.restore.report import RestoredTable
from tests.shapes.conftest import Journey
from tests.support.compare import check_still_works
from tests.support.product import Product, sql_settings
from tests.support.shapes import SHAPES, Shape
from tests.support.shapes.model import SQL
from tests.support.spark import add_sql_catalog

pytestmark = [pytest.mark.spark, pytest.mark.slow]

CATALOG = "written"
WRITABLE = [shape for shape in SHAPES if shape.spark]


@dataclass
class Copies:
    """All shapes once more, to be changed."""

    sql: dict[str, RestoredTable]
    hadoop: dict[str, RestoredTable]

    def table(self, journey: Journey, shape: Shape) -> RestoredTable:
        tables = self.sql if shape.catalog == SQL else self.hadoop
        return tables[str(journey.table(shape).source)]


@pytest.fixture(scope="module")
def copies(journey: Journey, spark: Any) -> Copies:
    folder = journey.product.location.parent
    settings = {CATALOG: sql_settings(CATALOG, folder / "written.db", folder / "written")}
    sql = Product(journey.product.location, settings, journey.product.engine)
    hadoop = Product(journey.hadoop_product.location, settings, journey.product.engine)
    first = sql.restore(target_catalog=CATALOG)
    second = hadoop.restore(target_catalog=CATALOG, target_database=("from_hadoop",))
    add_sql_catalog(spark, CATALOG, folder / "written.db", folder / "written")
    return Copies(
        {str(table.source): table for table in first.tables},
        {str(table.source): table for table in second.tables},
    )


@pytest.mark.parametrize("shape", WRITABLE, ids=[shape.id for shape in WRITABLE])
def test_a_restored_table_can_be_written(
    journey: Journey, copies: Copies, spark: Any, shape: Shape
) -> None:
    table = copies.table(journey, shape)
    levels = (CATALOG, *table.table.namespace, table.table.name)
    found = check_still_works(
        spark,
        ".".join(f"`{level}`" for level in levels),
        [move.new for move in table.roots],
        [str(journey.away), str(journey.product.location)],
        without=shape.cannot,
    )
    assert [str(item) for item in found] == []
