"""What a shape is, and the world that shapes are built in."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.compare import Tree
from tests.support.compare.paths import split_name
from tests.support.spark import add_hadoop_catalog, add_sql_catalog

SQL, HADOOP = "src", "src_hadoop"
DATABASE = "shapes"


@dataclass(frozen=True)
class World:
    """A Spark session, a SQL catalog, a Hadoop catalog, and folders for files outside of both."""

    spark: Any
    folder: Path
    catalog: str = SQL
    hadoop_catalog: str = HADOOP

    @property
    def db_path(self) -> Path:
        return self.folder / "catalog.db"

    @property
    def warehouse(self) -> Path:
        return self.folder / "warehouse"

    @property
    def hadoop_warehouse(self) -> Path:
        return self.folder / "hadoop"

    @property
    def external(self) -> Path:
        """Where shapes put files that lie outside of the warehouse."""
        return self.folder / "external"

    def sql(self, statement: str) -> list[Any]:
        return list(self.spark.sql(statement).collect())

    def name(self, table: str, catalog: str | None = None) -> str:
        """The table's name as Spark SQL takes it, every level quoted."""
        levels = [catalog or self.catalog, *split_name(table)]
        return ".".join(f"`{level}`" for level in levels)

    def java_table(self, table: str, catalog: str | None = None) -> Any:
        """The JVM's `org.apache.iceberg.Table`."""
        jvm = self.spark._jvm
        name = self.name(table, catalog)
        return jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(
            self.spark._jsparkSession, name
        )

    def metadata_location(self, table: str, catalog: str | None = None) -> str:
        """The current metadata file, from the catalog's own record."""
        if catalog == self.hadoop_catalog:
            return _hadoop_pointer(self.hadoop_warehouse.joinpath(*split_name(table)))
        row = self._row(table)
        if row is None:
            raise LookupError(f"no table {table} in {self.db_path}")
        return row

    def has(self, table: str) -> bool:
        """Whether the SQL catalog has a table of this name."""
        return self._row(table) is not None

    def _row(self, table: str) -> str | None:
        *levels, name = split_name(table)
        query = (
            "SELECT metadata_location FROM iceberg_tables"
            " WHERE catalog_name = ? AND table_namespace = ? AND table_name = ?"
        )
        with closing(sqlite3.connect(self.db_path)) as db:
            row = db.execute(query, (self.catalog, ".".join(levels), name)).fetchone()
        return None if row is None else str(row[0])

    def tree(self, table: str, catalog: str | None = None) -> Tree:
        return Tree(self.metadata_location(table, catalog))

    def point_at(self, table: str, metadata_location: str) -> None:
        """Makes a metadata file the table's current one, in the catalog's own record."""
        *levels, name = split_name(table)
        change = (
            "INSERT OR REPLACE INTO iceberg_tables (catalog_name, table_namespace, table_name,"
            " metadata_location, previous_metadata_location, iceberg_type)"
            " VALUES (?, ?, ?, ?, NULL, 'TABLE')"
        )
        with closing(sqlite3.connect(self.db_path, timeout=30)) as db, db:
            db.execute(change, (self.catalog, ".".join(levels), name, metadata_location))


def open_world(spark: Any, folder: Path, catalog: str = SQL, hadoop_catalog: str = HADOOP) -> World:
    """A world with empty catalogs; every shape's database exists.

    Spark keeps a catalog under its name for the whole session: another world needs other names.
    """
    world = World(spark, folder, catalog, hadoop_catalog)
    for path in (world.warehouse, world.hadoop_warehouse, world.external):
        path.mkdir(parents=True)
    add_sql_catalog(spark, world.catalog, world.db_path, world.warehouse)
    add_hadoop_catalog(spark, world.hadoop_catalog, world.hadoop_warehouse)
    for catalog in (world.catalog, world.hadoop_catalog):
        world.sql(f"CREATE NAMESPACE `{catalog}`.`{DATABASE}`")
    return world


def _hadoop_pointer(folder: Path) -> str:
    version = (folder / "metadata" / "version-hint.text").read_text().strip()
    names = (f"v{version}.metadata.json", f"v{version}.gz.metadata.json")
    return str(next(p for name in names if (p := folder / "metadata" / name).is_file()))


Claim = tuple[str, bool]


@dataclass(frozen=True)
class Shape:
    """One row of the matrix as a real table.

    `pyiceberg` and `spark` say who can load and scan it. `claims` looks at the built files and says
    what makes the table this shape and no other. `lineage` and `history` ask for row ids and for
    reads by timestamp in the comparison; `cannot` are the steps of `check_still_works` that the
    engine cannot do on the source either.
    """

    id: str
    title: str
    table: str
    build: Callable[[World], None]
    claims: Callable[[World], Iterable[Claim]]
    pyiceberg: bool = True
    spark: bool = True
    catalog: str = SQL
    lineage: bool = False
    history: bool = False
    notes: str = ""
    kept_properties: frozenset[str] = frozenset()
    cannot: frozenset[str] = frozenset()

    def broken_claims(self, world: World) -> list[str]:
        """What the table should be and is not."""
        return [text for text, holds in self.claims(world) if not holds]

    def name(self, world: World) -> str:
        return world.name(self.table, self.catalog)

    def metadata_location(self, world: World) -> str:
        return world.metadata_location(self.table, self.catalog)

    def tree(self, world: World) -> Tree:
        return world.tree(self.table, self.catalog)


def create(world: World, table: str, columns: str, version: int, **more: Any) -> str:
    """Creates an empty table; `properties`, `partition` and `location` are optional. Its name."""
    name = world.name(table)
    properties: Mapping[str, str] = {
        "format-version": str(version),
        "write.delete.mode": "merge-on-read",
        "write.update.mode": "merge-on-read",
        "write.merge.mode": "merge-on-read",
        **more.get("properties", {}),
    }
    if version == 1:
        properties = {k: v for k, v in properties.items() if not k.endswith(".mode")}
    text = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
    partition = f"PARTITIONED BY ({more['partition']})" if "partition" in more else ""
    location = f"LOCATION '{more['location']}'" if "location" in more else ""
    world.sql(
        f"CREATE TABLE {name} ({columns}) USING iceberg {partition} {location}"
        f" TBLPROPERTIES ({text})"
    )
    return name
