"""A world of its own for each test, with a repository and a catalog to restore into."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bcn.repository.repository import Scope
from bcn.restore.report import RestoreReport
from tests.support.compare import spark_rows
from tests.support.product import Product, hadoop_settings, sql_settings
from tests.support.shapes.model import World, open_world
from tests.support.spark import add_sql_catalog

_numbers = itertools.count(1)


@dataclass
class Place:
    """A source that changes, its repository, and a place to restore to."""

    world: World
    product: Product
    folder: Path
    target: str

    @property
    def scope(self) -> Scope:
        return Scope(self.world.catalog)

    def rows(self, table: str) -> dict[str, Any]:
        """What Spark reads from a table of the source, at every snapshot and ref."""
        return spark_rows(self.world.spark, self.world.name(table))

    def restored_rows(self, report: RestoreReport, number: int = 0) -> dict[str, Any]:
        table = report.tables[number].table
        name = ".".join(f"`{level}`" for level in (self.target, *table.namespace, table.name))
        return spark_rows(self.world.spark, name)

    def stored_files(self) -> set[str]:
        root = self.product.location
        return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def open_place(spark: Any, tmp_path: Path) -> Place:
    """A place in a folder; its catalogs have names that no other place of the session has."""
    number = next(_numbers)
    source, hadoop, target = f"source{number}", f"hadoop{number}", f"target{number}"
    world = open_world(spark, tmp_path / "source", source, hadoop)
    database, warehouse = tmp_path / "target.db", tmp_path / "target"
    catalogs = {
        source: sql_settings(source, world.db_path, world.warehouse),
        hadoop: hadoop_settings(hadoop, world.hadoop_warehouse),
        target: sql_settings(target, database, warehouse),
    }
    add_sql_catalog(spark, target, database, warehouse)
    return Place(world, Product(tmp_path / "repository", catalogs), tmp_path, target)
