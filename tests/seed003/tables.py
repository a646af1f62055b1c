"""Tables of the shops: how they are made, and what happens to them."""

from __future__ import annotations

from typing import Any

from tests.support.compare import pyiceberg_rows, spark_rows
from tests.support.compare.rows import Rows
from tests.support.shapes.model import World


def add_database(world: World, name: str, **properties: str) -> None:
    text = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
    given = f" WITH PROPERTIES ({text})" if text else ""
    world.sql(f"CREATE NAMESPACE {world.catalog}.{name}{given}")


def add_table(
    world: World, table: str, rows: int = 4, version: int = 2, location: str | None = None
) -> None:
    """A table of numbers and words, made and filled by one statement."""
    place = f"LOCATION '{location}'" if location else ""
    world.sql(
        f"CREATE TABLE {world.name(table)} USING iceberg {place} TBLPROPERTIES"
        f" ('format-version' = '{version}', 'write.delete.mode' = 'merge-on-read')"
        f" AS {_numbered(0, rows, table)}"
    )


def add_rows(world: World, table: str, first: int = 100, count: int = 3) -> None:
    """One more snapshot with one more file."""
    world.sql(f"INSERT INTO {world.name(table)} (id, word) {_numbered(first, count, table)}")


def _numbered(first: int, count: int, word: str) -> str:
    return (
        f"SELECT /*+ COALESCE(1) */ id, concat('{word} ', id) AS word"
        f" FROM range({first}, {first + count}, 1, 1)"
    )


def add_evolved(world: World, table: str) -> None:
    """A table with a past: columns added, renamed, widened, partitioned, rows deleted, a tag."""
    name = world.name(table)
    add_table(world, table, 6)
    world.sql(f"ALTER TABLE {name} ADD COLUMN amount int")
    world.sql(f"INSERT INTO {name} SELECT id + 10, word, 7 FROM {name} WHERE id < 3")
    world.sql(f"ALTER TABLE {name} ALTER COLUMN amount TYPE bigint")
    world.sql(f"ALTER TABLE {name} ADD PARTITION FIELD bucket(2, id)")
    world.sql(f"INSERT INTO {name} SELECT id + 20, word, 5000000000 FROM {name} WHERE id < 3")
    world.sql(f"ALTER TABLE {name} CREATE TAG month_end")
    world.sql(f"DELETE FROM {name} WHERE id IN (1, 11)")
    world.sql(f"ALTER TABLE {name} RENAME COLUMN amount TO cents")


def rename(world: World, table: str, new: str) -> None:
    world.sql(f"ALTER TABLE {world.name(table)} RENAME TO {new}")


def drop(world: World, *tables: str) -> None:
    """Out of the catalog; the files stay, as in every SQL catalog."""
    for table in tables:
        world.sql(f"DROP TABLE {world.name(table)}")


def drop_database(world: World, name: str) -> None:
    for row in world.sql(f"SHOW TABLES IN {world.catalog}.{name}"):
        drop(world, f"{name}.{row.tableName}")
    world.sql(f"DROP NAMESPACE {world.catalog}.{name}")


def rows_of(world: World, table: str, catalog: str | None = None) -> Rows:
    """What Spark reads at every snapshot and ref of a table of a source."""
    return spark_rows(world.spark, world.name(table, catalog))


def all_rows(world: World, *tables: str) -> dict[str, Rows]:
    return {table: rows_of(world, table) for table in tables}


def arrow_rows_of(world: World, table: str) -> Rows:
    """What pyiceberg reads of a table of a source."""
    return pyiceberg_rows(world.metadata_location(table))


def ids_of(world: World, table: str) -> list[Any]:
    """The ids that Spark reads now."""
    return sorted(row.id for row in world.sql(f"SELECT id FROM {world.name(table)}"))


def uuid_of(world: World, table: str) -> str:
    return str(world.tree(table).document["table-uuid"])
