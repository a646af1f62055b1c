"""All shapes built once, backed up twice, the source moved away, everything restored elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from bcn.backup.report import BackupReport
from bcn.repository.repository import Scope
from bcn.restore.report import RestoredTable, RestoreReport
from tests.support.compare import jvm_rows, local_path, pyiceberg_rows, spark_rows
from tests.support.product import Product, digest_tree, hadoop_settings, sql_settings
from tests.support.shapes import SHAPES, Shape, World, build_all, open_world
from tests.support.shapes.model import HADOOP, SQL
from tests.support.spark import add_sql_catalog


@dataclass
class Facts:
    """What a shape's readers said before the source was moved away."""

    metadata_location: str
    spark: dict[str, Any] | None = None
    pyiceberg: dict[str, Any] | None = None
    jvm: dict[str, Any] | None = None


@dataclass
class Journey:
    """The whole way of all shapes, for tests to look at."""

    world: World
    away: Path
    product: Product
    hadoop_product: Product
    first: BackupReport
    second: BackupReport
    restored: RestoreReport
    untouched: bool
    facts: dict[str, Facts] = field(default_factory=dict)
    restored_hadoop: RestoreReport | None = None

    def source_path(self, location: str) -> Path:
        """Where a file of the source is, now that the source has moved away."""
        return self.away / local_path(location).relative_to(self.world.folder)

    def table(self, shape: Shape) -> RestoredTable:
        report = self.restored if shape.catalog == SQL else self.restored_hadoop
        assert report is not None
        source = self.world.name(shape.table).split(".", 1)[1]
        return next(
            table
            for table in report.tables
            if ".".join(f"`{level}`" for level in (*table.source.namespace, table.source.name))
            == source
        )

    def spark_name(self, shape: Shape) -> str:
        table = self.table(shape).table
        return ".".join(f"`{level}`" for level in ("dst", *table.namespace, table.name))


def read_facts(world: World, shape: Shape) -> Facts:
    facts = Facts(shape.metadata_location(world))
    if shape.spark:
        facts.spark = spark_rows(
            world.spark, shape.name(world), lineage=shape.lineage, history=shape.history
        )
    else:
        facts.jvm = jvm_rows(world.spark, facts.metadata_location)
    if shape.pyiceberg:
        facts.pyiceberg = pyiceberg_rows(facts.metadata_location)
    return facts


@pytest.fixture(scope="session")
def journey(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Journey:
    folder = tmp_path_factory.mktemp("shapes")
    world = open_world(spark, folder / "source")
    build_all(world)
    facts = {shape.id: read_facts(world, shape) for shape in SHAPES}
    destination = sql_settings("dst", folder / "dst.db", folder / "target")
    product = Product(
        folder / "repository",
        {SQL: sql_settings(SQL, world.db_path, world.warehouse), "dst": destination},
    )
    hadoop_product = Product(
        folder / "hadoop-repository",
        {HADOOP: hadoop_settings(HADOOP, world.hadoop_warehouse), "dst": destination},
    )
    before = digest_tree(world.folder)
    first, second = product.backup(Scope(SQL)), product.backup()
    hadoop_product.backup(Scope(HADOOP))
    untouched = digest_tree(world.folder) == before
    away = folder / "moved-away"
    world.folder.rename(away)
    restored = product.restore(target_catalog="dst")
    restored_hadoop = hadoop_product.restore(target_catalog="dst", target_database=("from_hadoop",))
    add_sql_catalog(spark, "dst", folder / "dst.db", folder / "target")
    return Journey(
        world,
        away,
        product,
        hadoop_product,
        first,
        second,
        restored,
        untouched,
        facts,
        restored_hadoop,
    )
