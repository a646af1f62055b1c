"""Plain tables and deletes that Spark SQL writes: T01, T05 to T10, T17."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tests.support.compare.deletes import read_deletes
from tests.support.compare.manifests import path_bounds
from tests.support.compare.tree import DELETED, Entry
from tests.support.shapes.model import Claim, Shape, World, create

COLUMNS = "id bigint, name string"


def numbered(first: int, last: int) -> str:
    """Rows from `first` to `last`, written as one file. `name` looks like a path, and is none."""
    return (
        f"SELECT /*+ COALESCE(1) */ id, concat('/warehouse/shapes/', id) AS name"
        f" FROM range({first}, {last + 1}, 1, 1)"
    )


def live_deletes(world: World, table: str) -> list[Entry]:
    """Live entries of position deletes and deletion vectors."""
    return [e for e in world.tree(table).iter_entries() if e.is_live and e.is_rewritten]


def build_t01(world: World) -> None:
    name = create(world, "shapes.t01", COLUMNS, 1)
    world.sql(f"INSERT INTO {name} {numbered(1, 4)}")
    world.sql(f"INSERT INTO {name} {numbered(5, 6)}")


def claims_t01(world: World) -> Iterator[Claim]:
    document = world.tree("shapes.t01").document
    yield "format version 1", document["format-version"] == 1
    yield "keys of version 1", {"schema", "partition-spec"} <= set(document)
    yield "two snapshots", len(document["snapshots"]) == 2


def build_t05(world: World, version: int) -> None:
    create(world, f"shapes.t05_v{version}", COLUMNS, version)


def claims_t05(world: World, version: int) -> Iterator[Claim]:
    document = world.tree(f"shapes.t05_v{version}").document
    none = None if version == 3 else -1
    yield "no snapshot", not document.get("snapshots")
    yield f"current snapshot {none}", document["current-snapshot-id"] == none


def build_t06(world: World) -> None:
    modes = {f"write.{verb}.mode": "copy-on-write" for verb in ("delete", "update", "merge")}
    columns = f"{COLUMNS}, p int"
    name = create(world, "shapes.t06", columns, 2, partition="p", properties=modes)
    world.sql(f"INSERT INTO {name} SELECT *, id % 2 FROM ({numbered(1, 6)})")
    world.sql(f"UPDATE {name} SET name = 'changed' WHERE id = 3")
    rows = world.spark.sql("SELECT 20L AS id, 'new' AS name, 0 AS p")
    rows.writeTo(name).overwritePartitions()
    world.sql(f"DELETE FROM {name} WHERE id = 5")


def claims_t06(world: World) -> Iterator[Claim]:
    tree = world.tree("shapes.t06")
    statuses = [entry.record["status"] for entry in tree.iter_entries()]
    yield "tombstones", statuses.count(DELETED) >= 3
    yield "no deletes", all(entry.content == 0 for entry in tree.iter_entries())
    operations = [snapshot["summary"]["operation"] for snapshot in tree.snapshots]
    yield "overwrites", operations.count("overwrite") == 3


def build_t07(world: World, table: str = "shapes.t07", file_format: str = "parquet") -> None:
    formats = {"write.format.default": file_format, "write.delete.format.default": file_format}
    name = create(world, table, COLUMNS, 2, properties=formats)
    world.sql(f"INSERT INTO {name} {numbered(1, 6)}")
    world.sql(f"INSERT INTO {name} {numbered(7, 12)}")
    world.sql(f"DELETE FROM {name} WHERE id IN (2, 5, 8)")
    world.sql(f"DELETE FROM {name} WHERE id = 11")


def claims_t07(
    world: World, table: str = "shapes.t07", file_format: str = "parquet"
) -> Iterator[Claim]:
    entries = live_deletes(world, table)
    bounds = [path_bounds(entry) for entry in entries]
    formats = {entry.file["file_format"].lower() for entry in entries}
    yield f"position deletes in {file_format}", formats == {file_format}
    yield "several delete files", len(entries) >= 3
    if file_format == "avro":
        yield "no bounds", all(pair == (None, None) for pair in bounds)
    else:
        yield "equal bounds of the path", all(low and low == high for low, high in bounds)
    for entry in entries:
        rows = read_deletes(world.tree(table).file(entry.path), file_format).rows
        yield f"{entry.path} names one data file", len({row[0] for row in rows}) == 1


def build_t08(world: World) -> None:
    properties = {"write.delete.granularity": "partition"}
    columns = f"{COLUMNS}, p int"
    name = create(world, "shapes.t08", columns, 2, partition="p", properties=properties)
    world.sql(f"INSERT INTO {name} SELECT *, 0 FROM ({numbered(1, 6)})")
    world.sql(f"INSERT INTO {name} SELECT *, 0 FROM ({numbered(7, 12)})")
    world.sql(f"DELETE FROM {name} WHERE id IN (2, 4, 8)")


def claims_t08(world: World) -> Iterator[Claim]:
    entries = live_deletes(world, "shapes.t08")
    yield "one delete file", len(entries) == 1
    for entry in entries:
        deletes = read_deletes(world.tree("shapes.t08").file(entry.path), "parquet")
        yield "for two data files", len({row[0] for row in deletes.rows}) == 2
        yield "sorted", deletes.is_sorted
        yield "no bounds", path_bounds(entry) == (None, None)


def build_t17(world: World) -> None:
    name = create(world, "shapes.t17", COLUMNS, 3)
    world.sql(f"INSERT INTO {name} {numbered(1, 6)}")
    world.sql(f"DELETE FROM {name} WHERE id = 2")
    world.sql(f"INSERT INTO {name} {numbered(7, 12)}")
    world.sql(f"DELETE FROM {name} WHERE id = 8")


def claims_t17(world: World) -> Iterator[Claim]:
    entries = live_deletes(world, "shapes.t17")
    yield "deletion vectors", bool(entries) and all(entry.is_vector for entry in entries)
    yield "one vector a file", len({e.path for e in entries}) == len(entries) == 2
    yield "each refers to a data file", all(e.file["referenced_data_file"] for e in entries)


def _t05(version: int) -> Shape:
    build, claims = partial(build_t05, version=version), partial(claims_t05, version=version)
    return Shape(f"T05/v{version}", "empty, no snapshot", f"shapes.t05_v{version}", build, claims)


def _like_t07(number: str, file_format: str, *, pyiceberg: bool) -> Shape:
    table = f"shapes.{number.lower()}"
    build = partial(build_t07, table=table, file_format=file_format)
    claims = partial(claims_t07, table=table, file_format=file_format)
    title = f"T07 in {file_format}"
    return Shape(number, title, table, build, claims, pyiceberg=pyiceberg)


SHAPES = (
    Shape("T01", "v1, Parquet, unpartitioned, appends", "shapes.t01", build_t01, claims_t01),
    *(_t05(version) for version in (1, 2, 3)),
    Shape("T06", "v2 copy-on-write, dynamic overwrite", "shapes.t06", build_t06, claims_t06),
    Shape("T07", "v2 position deletes, one data file each", "shapes.t07", build_t07, claims_t07),
    Shape("T08", "v2 position deletes, several data files", "shapes.t08", build_t08, claims_t08),
    _like_t07("T09", "orc", pyiceberg=True),
    _like_t07("T10", "avro", pyiceberg=False),
    Shape("T17", "v3 deletion vectors, one a file", "shapes.t17", build_t17, claims_t17),
)
