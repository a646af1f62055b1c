"""Deletes that need the JVM's table API or a later clean-up: T08's bounds, T11 to T16."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from tests.support.compare.deletes import read_deletes
from tests.support.compare.manifests import path_bounds
from tests.support.compare.tree import EQUALITY_DELETES, Entry
from tests.support.shapes.basic import COLUMNS, live_deletes, numbered
from tests.support.shapes.craft import (
    column,
    expire_all_but_current,
    java_add_deletes,
    java_append,
    java_data_file,
    java_deletes,
    write_parquet,
    write_position_deletes,
)
from tests.support.shapes.model import Claim, Shape, World, create

ID, NAME = column("id", pa.int64(), 1), column("name", pa.string(), 2)
ADDED, EXISTING = 1, 0


def data_paths(world: World, table: str) -> list[str]:
    """Locations of live data files, in the order in which they came."""
    entries = (e for e in world.tree(table).iter_entries() if e.is_live and e.content == 0)
    by_age = sorted(entries, key=lambda entry: entry.record["sequence_number"] or 1 << 62)
    return list(dict.fromkeys(entry.path for entry in by_age))


def data_folder(world: World, table: str) -> Path:
    """Where the table's own data files are."""
    tree = world.tree(table)
    return tree.file(tree.document["location"]) / "data"


def _two_files(world: World, table: str) -> tuple[str, str]:
    """A v2 table of two data files with 6 rows each. Their locations."""
    name = create(world, table, COLUMNS, 2)
    world.sql(f"INSERT INTO {name} {numbered(1, 6)}")
    world.sql(f"INSERT INTO {name} {numbered(7, 12)}")
    first, second = data_paths(world, table)
    return first, second


def build_t08_bounds(world: World) -> None:
    """Older writers kept bounds of several data files, some cut to 16 characters."""
    first, second = sorted(_two_files(world, "shapes.t08_bounds"))
    table = world.java_table("shapes.t08_bounds")
    folder = data_folder(world, "shapes.t08_bounds")
    full = write_position_deletes(folder / "full.parquet", [(first, 1), (second, 1)])
    cut = write_position_deletes(folder / "cut.parquet", [(first, 3), (second, 3)])
    short = (first[:16], second[:15] + chr(ord(second[15]) + 1))
    java_add_deletes(
        table,
        java_deletes(world, table.spec(), full, rows=2, path_bounds=(first, second)),
        java_deletes(world, table.spec(), cut, rows=2, path_bounds=short),
    )


def claims_t08_bounds(world: World) -> Iterator[Claim]:
    bounds = [path_bounds(entry) for entry in live_deletes(world, "shapes.t08_bounds")]
    yield "two files with bounds that differ", [a != b for a, b in bounds] == [True, True]
    yield "bounds of one are cut", sorted(len(low or b"") for low, _ in bounds)[0] == 16


def build_t11(world: World) -> None:
    first, _ = _two_files(world, "shapes.t11")
    table = world.java_table("shapes.t11")
    path = write_position_deletes(
        data_folder(world, "shapes.t11") / "deletes.parquet", [(first, 0), (first, 4)]
    )
    deletes = java_deletes(world, table.spec(), path, rows=2, reference=first)
    java_add_deletes(table, deletes)


def claims_t11(world: World) -> Iterator[Claim]:
    (entry,) = live_deletes(world, "shapes.t11")
    yield "refers to a data file", entry.file["referenced_data_file"] is not None
    yield "no bounds", path_bounds(entry) == (None, None)


def build_t12(world: World) -> None:
    """The `row` column holds what was deleted; one of its strings looks like the table's root."""
    first, second = sorted(_two_files(world, "shapes.t12"))
    table = world.java_table("shapes.t12")
    row = pa.field(
        "row",
        pa.struct([ID, NAME]),
        nullable=True,
        metadata={"PARQUET:field_id": "2147483544"},
    )
    rows = [{"id": 2, "name": first}, {"id": 9, "name": None}]
    path = data_folder(world, "shapes.t12") / "deletes.parquet"
    write_position_deletes(path, [(first, 1), (second, 2)], (row, rows))
    java_add_deletes(table, java_deletes(world, table.spec(), path, rows=2))


def claims_t12(world: World) -> Iterator[Claim]:
    (entry,) = live_deletes(world, "shapes.t12")
    deletes = read_deletes(world.tree("shapes.t12").file(entry.path), "parquet")
    yield "column row with its id", "2147483544" in deletes.schema
    yield "rows in it", "'id': 2" in deletes.rows[0][2]


def build_t13(world: World) -> None:
    """Spec 0 has no partition, so deletes written with it apply to every partition."""
    name = create(world, "shapes.t13", f"{COLUMNS}, p int", 2)
    world.sql(f"ALTER TABLE {name} ADD PARTITION FIELD p")
    world.sql(f"INSERT INTO {name} SELECT *, id % 2 FROM ({numbered(1, 8)})")
    table = world.java_table("shapes.t13")
    folder = data_folder(world, "shapes.t13")
    ids = write_parquet(folder / "ids.parquet", [ID], [[1, 2]])
    names = write_parquet(folder / "names.parquet", [NAME], [["/warehouse/shapes/3"]])
    everywhere = java_deletes(world, table.specs().get(0), ids, rows=2, equality=[1])
    odd = java_deletes(world, table.spec(), names, rows=1, equality=[2], partition="p=1")
    java_add_deletes(table, everywhere, odd)
    world.sql(f"INSERT INTO {name} SELECT *, 0 FROM ({numbered(1, 2)})")


def equality_deletes(world: World, table: str) -> list[Entry]:
    entries = world.tree(table).iter_entries()
    return [entry for entry in entries if entry.is_live and entry.content == EQUALITY_DELETES]


def claims_t13(world: World) -> Iterator[Claim]:
    entries = equality_deletes(world, "shapes.t13")
    columns = sorted(entry.file["equality_ids"] for entry in entries)
    yield "two equality delete files", columns == [[1], [2]]
    specs = {world.tree("shapes.t13").avro(e.manifest).header["partition-spec-id"] for e in entries}
    yield "global and partitioned", specs == {b"0", b"1"}
    count = world.sql(f"SELECT count(*) AS n FROM {world.name('shapes.t13')}")[0].n
    yield "deletes apply to older rows only", count == 8 - 3 + 2


def build_t14(world: World) -> None:
    """A compaction that began before an equality delete was committed, and ends after it."""
    create(world, "shapes.t14", COLUMNS, 2)
    table = world.java_table("shapes.t14")
    folder = data_folder(world, "shapes.t14")
    halves = [_plain_data(folder / f"half{i}.parquet", i * 3) for i in (0, 1)]
    small = [java_data_file(world, table.spec(), str(path), path) for path in halves]
    java_append(table, *small)
    start = table.currentSnapshot()
    ids = write_parquet(folder / "ids.parquet", [ID], [[2]])
    java_add_deletes(table, java_deletes(world, table.spec(), ids, rows=1, equality=[1]))
    whole = _plain_data(folder / "whole.parquet", 0, 6)
    rewrite = table.newRewrite().validateFromSnapshot(start.snapshotId())
    for file in small:
        rewrite = rewrite.deleteFile(file)
    rewrite = rewrite.addFile(java_data_file(world, table.spec(), str(whole), whole))
    rewrite.dataSequenceNumber(start.sequenceNumber()).commit()


def _plain_data(path: Path, first: int, count: int = 3) -> Path:
    ids = range(first, first + count)
    return write_parquet(path, [ID, NAME], [ids, [f"name {i}" for i in ids]])


def claims_t14(world: World) -> Iterator[Claim]:
    entries = list(world.tree("shapes.t14").iter_entries())
    explicit = [
        entry.record["sequence_number"]
        for entry in entries
        if entry.record["status"] == ADDED and entry.path.endswith("whole.parquet")
    ]
    yield "an added entry with a number of its own", explicit == [1]
    count = world.sql(f"SELECT count(*) AS n FROM {world.name('shapes.t14')}")[0].n
    yield "the delete applies to the compacted file", count == 5


def build_t15(world: World) -> None:
    """One partition's deletes are rewritten; the tombstone stays beside the other's entry."""
    name = create(world, "shapes.t15", f"{COLUMNS}, p int", 2, partition="p")
    world.sql(f"INSERT INTO {name} SELECT *, id % 2 FROM ({numbered(1, 12)})")
    world.sql(f"DELETE FROM {name} WHERE id IN (2, 3)")
    world.sql(
        f"CALL {world.catalog}.system.rewrite_position_delete_files(table => 'shapes.t15',"
        " options => map('rewrite-all', 'true'), where => 'p = 0')"
    )
    world.sql(f"INSERT INTO {name} SELECT *, 0 FROM ({numbered(13, 14)})")
    expire_all_but_current(world.java_table("shapes.t15"))


def claims_t15(world: World) -> Iterator[Claim]:
    tree = world.tree("shapes.t15")
    gone = [e for e in tree.iter_entries() if not e.is_live and e.is_rewritten]
    yield "a tombstone of a delete file", len(gone) == 1
    yield "whose file is gone", not any(tree.file(entry.path).exists() for entry in gone)
    yield "two live delete files", len(live_deletes(world, "shapes.t15")) == 2


def build_t16(world: World) -> None:
    name = create(world, "shapes.t16", COLUMNS, 2)
    world.sql(f"INSERT INTO {name} {numbered(1, 3)}")
    world.sql(f"INSERT INTO {name} {numbered(4, 6)}")
    world.sql(f"CALL {world.catalog}.system.rewrite_manifests('shapes.t16')")
    expire_all_but_current(world.java_table("shapes.t16"))


def claims_t16(world: World) -> Iterator[Claim]:
    tree = world.tree("shapes.t16")
    kept = {snapshot["snapshot-id"] for snapshot in tree.snapshots}
    live = [entry for entry in tree.iter_entries() if entry.is_live]
    yield "one snapshot", len(kept) == 1
    yield "two live files", len(live) == 2
    yield "their snapshots are gone", all(e.record["snapshot_id"] not in kept for e in live)
    yield "existing entries", {entry.record["status"] for entry in live} == {EXISTING}


SHAPES = (
    Shape(
        "T08/bounds",
        "v2 position deletes, bounds that differ or are cut",
        "shapes.t08_bounds",
        build_t08_bounds,
        claims_t08_bounds,
    ),
    Shape("T11", "v2 deletes with referenced_data_file", "shapes.t11", build_t11, claims_t11),
    Shape("T12", "v2 deletes with the row column", "shapes.t12", build_t12, claims_t12),
    Shape("T13", "v2 equality deletes", "shapes.t13", build_t13, claims_t13, pyiceberg=False),
    Shape(
        "T14",
        "compaction across an equality delete",
        "shapes.t14",
        build_t14,
        claims_t14,
        pyiceberg=False,
    ),
    Shape("T15", "rewritten deletes, then expiry", "shapes.t15", build_t15, claims_t15),
    Shape("T16", "rewritten manifests, then expiry", "shapes.t16", build_t16, claims_t16),
)
