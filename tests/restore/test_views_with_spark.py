"""Views that Spark made, restored without their source, and read by Spark."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from bcn.iceberg.metadata import parse_metadata
from bcn.model import TableId
from tests.support.place import Place
from tests.support.product import hadoop_settings

pytestmark = pytest.mark.spark


def rows(place: Place, query: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in place.world.spark.sql(query).collect())


def run(place: Place, *statements: str) -> None:
    """Statements in the source; names without a catalog are looked up there."""
    spark = place.world.spark
    before = spark.sql("SELECT current_catalog(), current_database()").collect()[0]
    spark.sql(f"USE {place.world.catalog}")
    try:
        for statement in statements:
            spark.sql(statement)
    finally:
        spark.sql(f"USE {before[0]}.{before[1]}")


def build(place: Place) -> None:
    run(
        place,
        "CREATE NAMESPACE sales",
        "CREATE NAMESPACE hr WITH DBPROPERTIES ('team' = 'people')",
        "CREATE TABLE sales.orders (id INT, total DOUBLE)",
        "INSERT INTO sales.orders VALUES (1, 10.0), (2, 20.5), (3, 30.0)",
        "USE sales",
        "CREATE VIEW large AS SELECT id FROM orders WHERE total > 15",
        "CREATE VIEW full AS SELECT count(*) AS n FROM sales.orders",
        f"CREATE VIEW named AS SELECT id FROM {place.world.catalog}.sales.orders",
        "ALTER VIEW large SET TBLPROPERTIES ('note' = 'it''s')",
    )


def document(place: Place, catalog: str, name: str) -> Any:
    pointer = place.product.open(catalog).find_pointer(TableId.parse(name))
    assert pointer is not None
    return parse_metadata(Path(pointer.metadata_location).read_bytes())


def test_views_come_back_without_their_source_and_are_read(place: Place) -> None:
    build(place)
    place.product.backup(place.scope)
    away, target = place.folder / "away", place.target
    place.world.folder.rename(away)
    report = place.product.restore(target_catalog=target)
    assert [str(view.view) for view in report.views] == ["sales.full", "sales.large", "sales.named"]
    assert rows(place, f"SELECT * FROM {target}.sales.large") == [(2,), (3,)]
    assert rows(place, f"SELECT * FROM {target}.sales.full") == [(3,)]
    assert str(place.world.folder) not in json.dumps(document(place, target, "sales.large"))
    assert len(report.warnings) == 1
    assert "view sales.named names sales.orders" in report.warnings[0]
    # An empty database too, with its properties; and a view goes on as any other.
    assert place.product.open(target).load_namespace(("hr",))["team"] == "people"
    spark = place.world.spark
    spark.sql(f"CREATE OR REPLACE VIEW {target}.sales.large AS SELECT 7 AS seven")
    assert rows(place, f"SELECT * FROM {target}.sales.large") == [(7,)]
    assert len(document(place, target, "sales.large")["versions"]) == 2


def test_a_view_follows_its_tables_into_a_database_of_another_name(place: Place) -> None:
    build(place)
    place.product.backup(place.scope)
    place.world.folder.rename(place.folder / "away")
    report = place.product.restore(
        target_catalog=place.target, databases=("sales",), target_database=("sales_2026",)
    )
    assert rows(place, f"SELECT * FROM {place.target}.sales_2026.large") == [(2,), (3,)]
    sql = document(place, place.target, "sales_2026.full")["versions"][0]["representations"]
    assert sql[0]["sql"] == "SELECT count(*) AS n FROM sales.orders"
    told = [text.split(" names ")[0] for text in report.warnings]
    assert told == ["the SQL of view sales_2026.full", "the SQL of view sales_2026.named"]


def test_a_lost_view_comes_back_in_its_place_with_its_uuid(place: Place) -> None:
    build(place)
    place.product.backup(place.scope)
    before = document(place, place.world.catalog, "sales.large")
    run(place, "DROP VIEW sales.large")
    shutil.rmtree(place.world.warehouse / "sales" / "large")
    report = place.product.restore(tables=("large",))
    assert report.tables == ()
    assert report.views[0].uuid == before["view-uuid"]
    assert document(place, place.world.catalog, "sales.large") == before
    assert rows(place, f"SELECT * FROM {place.world.catalog}.sales.large") == [(2,), (3,)]


def test_a_deleted_table_and_view_are_read_again(place: Place) -> None:
    build(place)
    first = place.product.backup(place.scope).pit
    before = place.rows("sales.orders")
    run(place, "DROP VIEW sales.large", "DROP TABLE sales.orders PURGE")
    place.product.backup(place.scope)
    report = place.product.restore(tables=("sales.orders", "large"), include_deleted=True)
    assert {item.pit for item in (*report.tables, *report.views)} == {first}
    assert place.rows("sales.orders") == before
    assert rows(place, f"SELECT * FROM {place.world.catalog}.sales.large") == [(2,), (3,)]


def test_a_template_gives_every_table_its_place_and_name(place: Place) -> None:
    build(place)
    run(place, "CREATE TABLE hr.people AS SELECT 'ada' AS name")
    place.product.backup(place.scope)
    expected = {name: place.rows(name) for name in ("sales.orders", "hr.people")}
    place.world.folder.rename(place.folder / "away")
    report = place.product.restore(
        target_catalog=place.target,
        exclude=("large", "full", "named"),
        target_database=("back",),
        target_table="{database}_{table}",
        target_location=f"{place.folder}/lake/{{catalog}}/{{database}}/{{table}}",
    )
    assert [item.name for item in report.tables] == ["hr_people", "sales_orders"]
    assert place.restored_rows(report, 0) == expected["hr.people"]
    assert place.restored_rows(report, 1) == expected["sales.orders"]
    lake = place.folder / "lake" / place.target / "back"
    assert sorted(path.name for path in lake.iterdir()) == ["hr_people", "sales_orders"]


def test_a_hadoop_catalog_gets_the_tables_and_says_that_views_stay_behind(place: Place) -> None:
    build(place)
    place.product.backup(place.scope)
    name, warehouse = f"{place.target}_hadoop", place.folder / "hadoop-target"
    place.product.catalogs = {**place.product.catalogs, name: hadoop_settings(name, warehouse)}
    report = place.product.restore(target_catalog=name)
    assert [item.name for item in report.tables] == ["orders"]
    assert report.views == ()
    assert any("sales.full, sales.large, sales.named" in text for text in report.warnings)
    assert any("properties of database hr" in text for text in report.warnings)
    assert sorted(path.name for path in warehouse.iterdir()) == ["hr", "sales", "shapes"]
    only_views = place.product.restore(target_catalog=name, tables=("large",))
    assert (only_views.tables, only_views.views) == ((), ())
