"""Plain tables and deletes that Spark SQL writes: T01, T05 to T09, T17."""

from __future__ import annotations

from collections.abc import Iterator

from tests.support.compare.deletes import read_deletes
from tests.support.compare.manifests import path_bounds
from tests.support.compare.tree import Entry
from tests.support.shapes.model import Claim, Shape, World, create

_COLUMNS = "id bigint, name string"


def _numbered(first: int, last: int) -> str:
    """Rows from `first` to `last`, written as one file. `name` looks like a path, and is none."""
    return (
        f"SELECT /*+ COALESCE(1) */ id, concat('/warehouse/shapes/', id) AS name"
        f" FROM range({first}, {last + 1}, 1, 1)"
    )


def live_deletes(world: World, table: str) -> list[Entry]:
    """Live entries of position deletes and deletion vectors."""
    return [e for e in world.tree(table).iter_entries() if e.is_live and e.is_rewritten]


def build_t01(world: World) -> None:
    name = create(world, "shapes.t01", _COLUMNS, 1)
    world.sql(f"INSERT INTO {name} {_numbered(1, 4)}")
    world.sql(f"INSERT INTO {name} {_numbered(5, 6)}")


def claims_t01(world: World) -> Iterator[Claim]:
    document = world.tree("shapes.t01").document
    yield "format version 1", document["format-version"] == 1
    yield "keys of version 1", {"schema", "partition-spec"} <= set(document)
    yield "two snapshots", len(document["snapshots"]) == 2


def build_t07(world: World) -> None:
    name = create(world, "shapes.t07", _COLUMNS, 2)
    world.sql(f"INSERT INTO {name} {_numbered(1, 6)}")
    world.sql(f"INSERT INTO {name} {_numbered(7, 12)}")
    world.sql(f"DELETE FROM {name} WHERE id IN (2, 5, 8)")
    world.sql(f"DELETE FROM {name} WHERE id = 11")


def claims_t07(world: World) -> Iterator[Claim]:
    entries = live_deletes(world, "shapes.t07")
    bounds = [path_bounds(entry) for entry in entries]
    yield "position deletes in Parquet", {e.file["file_format"] for e in entries} == {"PARQUET"}
    yield "several delete files", len(entries) >= 3
    yield "equal bounds of the path", all(low is not None and low == high for low, high in bounds)
    for entry in entries:
        rows = read_deletes(world.tree("shapes.t07").file(entry.path), "parquet").rows
        yield f"{entry.path} names one data file", len({row[0] for row in rows}) == 1


def build_t17(world: World) -> None:
    name = create(world, "shapes.t17", _COLUMNS, 3)
    world.sql(f"INSERT INTO {name} {_numbered(1, 6)}")
    world.sql(f"DELETE FROM {name} WHERE id = 2")
    world.sql(f"INSERT INTO {name} {_numbered(7, 12)}")
    world.sql(f"DELETE FROM {name} WHERE id = 8")


def claims_t17(world: World) -> Iterator[Claim]:
    entries = live_deletes(world, "shapes.t17")
    yield "deletion vectors", bool(entries) and all(entry.is_vector for entry in entries)
    yield "one vector a file", len({e.path for e in entries}) == len(entries) == 2
    yield "each refers to a data file", all(e.file["referenced_data_file"] for e in entries)


SHAPES = (
    Shape("T01", "v1, Parquet, unpartitioned, appends", "shapes.t01", build_t01, claims_t01),
    Shape("T07", "v2 position deletes, one data file each", "shapes.t07", build_t07, claims_t07),
    Shape("T17", "v3 deletion vectors, one a file", "shapes.t17", build_t17, claims_t17),
)
