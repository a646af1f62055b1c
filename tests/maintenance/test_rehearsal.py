"""Level 5: scratch restores that Spark and pyiceberg read, with the counts of the manifests."""

from __future__ import annotations

import json
import sqlite3
import uuid
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from bcn.maintenance.rehearsal import _disagreements
from bcn.maintenance.report import Severity
from bcn.maintenance.verify_tasks import SnapshotSum
from bcn.repository.repository import Scope
from tests.maintenance.made import Made, flip
from tests.support.product import Product, digest_tree, sql_settings
from tests.support.shapes import SHAPES, open_world
from tests.support.shapes.synthetic import DataFiles, SyntheticTable, write_synthetic
from tests.support.spark import add_sql_catalog

pytestmark = pytest.mark.spark


def test_every_snapshot_and_ref_of_a_whole_repository_is_read_by_both_readers(
    made: Made, tmp_path: Path, spark: Any
) -> None:
    before = digest_tree(made.location)
    report = made.verify(5, tables=("orders",), scratch=str(tmp_path))
    assert report.findings == ()
    newest = [item for item in report.readings if item.pit == str(made.second)]
    facts = made.entry().table_facts
    assert len(newest) == facts["snapshots"] + len(facts["refs"])
    assert {item.target for item in newest} >= {"opening", "main", facts["current_snapshot_id"]}
    rows = {item.target: item for item in newest}
    assert rows["opening"].rows == {"Spark": 3, "pyiceberg": 3}
    assert rows["main"].rows == {"Spark": 6, "pyiceberg": 6}
    assert (rows["main"].rows_recorded, rows["main"].delete_files) == (7, 1)
    assert list(tmp_path.iterdir()) == []
    assert digest_tree(made.location) == before


def test_a_table_that_cannot_be_restored_is_told_and_the_others_are_read(
    repository: Made,
) -> None:
    flip(repository.path(repository.keys("data", "sales.flat")[0]), 20)
    report = repository.verify(5, pit=repository.second)
    assert {(f.level, f.object) for f in report.findings} == {(3, "sales.flat"), (5, "sales.flat")}
    assert "cannot be restored" in report.findings[-1].message
    assert {item.object for item in report.readings} == {"sales.orders"}


def test_what_neither_spark_nor_pyiceberg_reads_is_read_by_icebergs_java_library(
    spark: Any, tmp_path: Path
) -> None:
    world = open_world(spark, tmp_path / "world", "java_src", "java_hadoop")
    (shape,) = (shape for shape in SHAPES if shape.id == "T22/geometry")
    shape.build(world)
    settings = sql_settings(world.catalog, world.db_path, world.warehouse)
    product = Product(tmp_path / "repository", {world.catalog: settings})
    pit = product.backup(Scope(world.catalog)).pit
    report = Made(product.location, pit, pit).verify(5)
    assert report.ok, report.findings
    assert {finding.severity for finding in report.findings} == {Severity.NOTE}
    counts = [item.rows for item in report.readings]
    assert counts
    assert all(rows.keys() == {"Iceberg's Java library"} for rows in counts)


def test_rows_that_do_not_add_up_are_told() -> None:
    plain, deleted = SnapshotSum(1, 10, 0, True), SnapshotSum(1, 10, 2, True)
    assert _disagreements("x", plain, {"Spark": 10, "pyiceberg": 10}) == []
    assert _disagreements("x", deleted, {"Spark": 8, "pyiceberg": 8}) == []
    assert len(_disagreements("x", plain, {"Spark": 9, "pyiceberg": 10})) == 2
    assert len(_disagreements("x", plain, {"Spark": 9})) == 1
    assert len(_disagreements("x", deleted, {"Spark": 11})) == 1
    assert len(_disagreements("x", deleted, {"Spark": 8, "pyiceberg": 9})) == 1


def test_snapshots_that_the_source_had_damaged_are_noted_and_not_read(
    spark: Any, tmp_path: Path
) -> None:
    add_sql_catalog(spark, "hurt_src", tmp_path / "catalog.db", tmp_path / "warehouse")
    spark.sql("CREATE NAMESPACE hurt_src.db")
    spark.sql("CREATE TABLE hurt_src.db.t (id BIGINT) USING iceberg")
    spark.sql("INSERT INTO hurt_src.db.t VALUES (1)")
    lost = next((tmp_path / "warehouse").glob("db/t/data/*.parquet"))
    spark.sql("INSERT OVERWRITE hurt_src.db.t VALUES (2)")
    lost.unlink()
    settings = sql_settings("hurt_src", tmp_path / "catalog.db", tmp_path / "warehouse")
    product = Product(tmp_path / "repository", {"hurt_src": settings})
    pit = product.backup(Scope("hurt_src"), skip_damaged=True).pit
    report = Made(product.location, pit, pit).verify(5)
    assert report.ok, report.findings
    assert [f.severity for f in report.findings] == [Severity.NOTE]
    assert "the source had lost files of it" in report.findings[0].message
    assert [item.rows["Spark"] for item in report.readings] == [1, 1]


def test_tables_that_nobody_can_load_and_views_are_told_but_are_no_damage(
    spark: Any, tmp_path: Path
) -> None:
    add_sql_catalog(spark, "odd_src", tmp_path / "catalog.db", tmp_path / "warehouse")
    spark.sql("CREATE NAMESPACE odd_src.db")
    spark.sql("CREATE TABLE odd_src.db.plain (id BIGINT) USING iceberg")
    table = SyntheticTable(str(tmp_path / "odd"), data=DataFiles.SPARSE, format_version=3)
    location = write_synthetic(table)
    document = json.loads(Path(location).read_text())
    document["schemas"][0]["fields"][0]["type"] = "no-such-type"
    Path(location).write_text(json.dumps(document))
    view = tmp_path / "warehouse" / "v.metadata.json"
    view.parent.mkdir(exist_ok=True)
    view.write_text(
        json.dumps(
            {"format-version": 1, "view-uuid": str(uuid.uuid4()), "location": str(view.parent)}
        )
    )
    with closing(sqlite3.connect(tmp_path / "catalog.db")) as db, db:
        for name, place, kind in (("odd", location, "TABLE"), ("v", str(view), "VIEW")):
            db.execute(
                "INSERT INTO iceberg_tables VALUES ('odd_src', 'db', ?, ?, NULL, ?)",
                (name, place, kind),
            )
    settings = sql_settings("odd_src", tmp_path / "catalog.db", tmp_path / "warehouse")
    product = Product(tmp_path / "repository", {"odd_src": settings})
    pit = product.backup(Scope("odd_src")).pit
    report = Made(product.location, pit, pit).verify(5)
    assert report.ok, report.findings
    told = {(f.object, f.severity) for f in report.findings}
    assert told == {
        ("db.odd", Severity.NOTE),
        ("db.odd", Severity.WARNING),
        ("db.v", Severity.NOTE),
    }
    assert report.readings == ()
