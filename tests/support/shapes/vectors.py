"""Deletion vectors and row lineage: T18 to T21."""

from __future__ import annotations

from collections.abc import Iterator

from tests.support.compare.puffin import read_puffin
from tests.support.shapes.basic import COLUMNS, live_deletes, numbered
from tests.support.shapes.craft import (
    java_add_deletes,
    java_deletes,
    puffin_bytes,
    vector_blob,
    vector_entry,
)
from tests.support.shapes.deletes import data_folder, data_paths
from tests.support.shapes.model import Claim, Shape, World, create


def build_t18(world: World) -> None:
    """One task deletes from three files, so their vectors share a file; one is then replaced."""
    properties = {
        "write.delete.distribution-mode": "none",
        "read.split.adaptive-size.enabled": "false",
    }
    name = create(world, "shapes.t18", COLUMNS, 3, properties=properties)
    for first in (1, 11, 21):
        world.sql(f"INSERT INTO {name} {numbered(first, first + 5)}")
    world.sql(f"DELETE FROM {name} WHERE id IN (2, 12, 22, 23)")
    world.sql(f"DELETE FROM {name} WHERE id = 14")


def claims_t18(world: World) -> Iterator[Claim]:
    tree = world.tree("shapes.t18")
    entries = [entry for entry in tree.iter_entries() if entry.is_vector]
    shared = [e.path for e in entries if len(read_puffin(tree.file(e.path)).blobs) == 3]
    dead = [entry.path for entry in entries if not entry.is_live]
    yield "three vectors in a file", len(set(shared)) == 1
    yield "one of them is superseded", bool(dead) and dead[0] in shared


def _one_file(world: World, table: str) -> str:
    name = create(world, table, COLUMNS, 3)
    world.sql(f"INSERT INTO {name} {numbered(1, 6)}")
    return data_paths(world, table)[0]


def build_t19_lz4(world: World) -> None:
    data = _one_file(world, "shapes.t19_lz4")
    table, blob = world.java_table("shapes.t19_lz4"), vector_blob([1, 4])
    path = data_folder(world, "shapes.t19_lz4") / "vector.puffin"
    path.write_bytes(puffin_bytes([(vector_entry(data, 2), blob)], lz4=True))
    java_add_deletes(
        table,
        java_deletes(
            world,
            table.spec(),
            path,
            rows=2,
            file_format="puffin",
            reference=data,
            offset=4,
            length=len(blob),
        ),
    )


def claims_t19_lz4(world: World) -> Iterator[Claim]:
    tree = world.tree("shapes.t19_lz4")
    (entry,) = live_deletes(world, "shapes.t19_lz4")
    data = tree.file(entry.path).read_bytes()
    yield "the flag for LZ4", data[-8] == 1
    yield "no plain text in the footer", b'"blobs"' not in data[-60:]
    yield "a blob", len(read_puffin(tree.file(entry.path)).blobs) == 1


def build_t19_bare(world: World) -> None:
    """DuckDB writes a single vector without magic or footer."""
    data = _one_file(world, "shapes.t19_bare")
    table, blob = world.java_table("shapes.t19_bare"), vector_blob([0, 5])
    path = data_folder(world, "shapes.t19_bare") / "vector.puffin"
    path.write_bytes(blob)
    java_add_deletes(
        table,
        java_deletes(
            world,
            table.spec(),
            path,
            rows=2,
            file_format="puffin",
            reference=data,
            offset=0,
            length=len(blob),
        ),
    )


def claims_t19_bare(world: World) -> Iterator[Claim]:
    (entry,) = live_deletes(world, "shapes.t19_bare")
    footer = read_puffin(world.tree("shapes.t19_bare").file(entry.path)).footer
    yield "no footer", entry.is_vector and footer is None


def build_t20(world: World) -> None:
    name = create(world, "shapes.t20", COLUMNS, 2)
    world.sql(f"INSERT INTO {name} {numbered(1, 6)}")
    world.sql(f"DELETE FROM {name} WHERE id = 2")
    world.sql(f"INSERT INTO {name} {numbered(7, 12)}")
    world.sql(f"DELETE FROM {name} WHERE id = 8")
    world.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('format-version' = '3')")
    world.sql(f"DELETE FROM {name} WHERE id = 4")
    world.sql(f"INSERT INTO {name} {numbered(13, 18)}")
    world.sql(f"DELETE FROM {name} WHERE id = 14")


def claims_t20(world: World) -> Iterator[Claim]:
    tree = world.tree("shapes.t20")
    kinds = {entry.is_vector for entry in live_deletes(world, "shapes.t20")}
    rows = ["first-row-id" in snapshot for snapshot in tree.snapshots]
    yield "deletes of both kinds", kinds == {True, False}
    yield "older snapshots without a first row id", rows[:4] == [False] * 4
    yield "later ones with it", all(rows[4:])


def build_t21(world: World) -> None:
    name = create(world, "shapes.t21", COLUMNS, 2)
    world.sql(f"INSERT INTO {name} {numbered(1, 6)}")
    world.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('format-version' = '3')")
    world.sql(f"INSERT INTO {name} {numbered(7, 12)}")
    world.sql(f"UPDATE {name} SET name = 'changed' WHERE id IN (3, 9)")
    world.sql(
        f"CALL {world.catalog}.system.rewrite_data_files("
        "table => 'shapes.t21', options => map('rewrite-all', 'true'))"
    )
    world.sql(f"INSERT INTO {name} {numbered(13, 15)}")


def claims_t21(world: World) -> Iterator[Claim]:
    document = world.tree("shapes.t21").document
    yield "row ids were given", document["next-row-id"] > 12
    name = world.name("shapes.t21")
    query = f"SELECT id, _row_id AS row, _last_updated_sequence_number AS seq FROM {name}"
    rows = world.sql(query)
    yield "one id a row", len({row.row for row in rows}) == len(rows) == 15
    seen = {row.id: row.seq for row in rows}
    yield "updated rows are younger", seen[3] > seen[4] and seen[9] > seen[10]


SHAPES = (
    Shape("T18", "v3 vectors that share a file", "shapes.t18", build_t18, claims_t18),
    Shape(
        "T19/lz4",
        "v3 vector, LZ4 footer",
        "shapes.t19_lz4",
        build_t19_lz4,
        claims_t19_lz4,
        pyiceberg=False,
    ),
    Shape(
        "T19/bare",
        "v3 vector without a footer",
        "shapes.t19_bare",
        build_t19_bare,
        claims_t19_bare,
        pyiceberg=False,
    ),
    Shape("T20", "v2 deletes, upgraded, then vectors", "shapes.t20", build_t20, claims_t20),
    Shape("T21", "v3 row lineage", "shapes.t21", build_t21, claims_t21, lineage=True),
)
