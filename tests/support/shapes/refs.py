"""Refs, history and statistics: T25, T26, T27."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.support.compare.puffin import read_puffin
from tests.support.shapes.basic import COLUMNS, numbered
from tests.support.shapes.craft import puffin_bytes
from tests.support.shapes.model import Claim, Shape, World, create


def build_t25(world: World) -> None:
    properties = {"write.wap.enabled": "true"}
    name = create(world, "shapes.t25", COLUMNS, 2, properties=properties)
    world.sql(f"INSERT INTO {name} {numbered(1, 3)}")
    world.sql(f"ALTER TABLE {name} CREATE TAG `v1.0 / first` RETAIN 365 DAYS")
    world.sql(
        f"ALTER TABLE {name} CREATE BRANCH audit RETAIN 7 DAYS"
        " WITH SNAPSHOT RETENTION 2 SNAPSHOTS 3 DAYS"
    )
    world.sql(f"INSERT INTO {name}.branch_audit {numbered(100, 101)}")
    picked = _stage(world, name, "wap-1", 10)
    world.sql(f"INSERT INTO {name} {numbered(4, 6)}")
    world.sql(f"CALL {world.catalog}.system.cherrypick_snapshot('shapes.t25', {picked})")
    _stage(world, name, "wap-2", 20)


def _stage(world: World, name: str, wap_id: str, first: int) -> int:
    """Writes rows that no ref shows. The snapshot's id."""
    world.spark.conf.set("spark.wap.id", wap_id)
    try:
        world.sql(f"INSERT INTO {name} {numbered(first, first + 1)}")
    finally:
        world.spark.conf.unset("spark.wap.id")
    query = f"SELECT snapshot_id AS id FROM {name}.snapshots WHERE summary['wap.id'] = '{wap_id}'"
    return int(world.sql(query)[0].id)


def claims_t25(world: World) -> Iterator[Claim]:
    tree = world.tree("shapes.t25")
    refs = tree.document["refs"]
    yield "refs", set(refs) == {"main", "audit", "v1.0 / first"}
    limits = {"max-ref-age-ms", "max-snapshot-age-ms", "min-snapshots-to-keep"}
    yield "all limits of a branch", limits <= set(refs["audit"])
    summaries = [snapshot["summary"] for snapshot in tree.snapshots]
    yield "staged snapshots", sum("wap.id" in summary for summary in summaries) == 2
    yield "one was picked", any("published-wap-id" in summary for summary in summaries)


def build_t26(world: World) -> None:
    name = create(world, "shapes.t26", COLUMNS, 2)
    for first in (1, 11, 21):
        world.sql(f"INSERT INTO {name} {numbered(first, first + 2)}")
    ids = [snapshot["snapshot-id"] for snapshot in world.tree("shapes.t26").snapshots]
    call = f"CALL {world.catalog}.system"
    world.sql(f"{call}.rollback_to_snapshot('shapes.t26', {ids[0]})")
    world.sql(f"INSERT INTO {name} {numbered(31, 33)}")
    world.sql(f"{call}.set_current_snapshot('shapes.t26', {ids[2]})")


def claims_t26(world: World) -> Iterator[Claim]:
    document = world.tree("shapes.t26").document
    logged = [entry["snapshot-id"] for entry in document["snapshot-log"]]
    yield "snapshots come again in the log", len(logged) > len(set(logged))
    parents = [snapshot.get("parent-snapshot-id") for snapshot in document["snapshots"]]
    yield "two children of one parent", len(set(parents)) < len(parents)


def build_t27(world: World) -> None:
    """Sketches for one snapshot, a vendor's blob for the next, and statistics of partitions."""
    name = create(world, "shapes.t27", f"{COLUMNS}, p int", 2, partition="p")
    world.sql(f"INSERT INTO {name} SELECT *, id % 2 FROM ({numbered(1, 6)})")
    world.sql(f"CALL {world.catalog}.system.compute_table_stats('shapes.t27')")
    world.sql(f"INSERT INTO {name} SELECT *, id % 2 FROM ({numbered(7, 8)})")
    world.sql(f"CALL {world.catalog}.system.compute_partition_stats('shapes.t27')")
    _add_vendor_statistics(world, "shapes.t27")


def _add_vendor_statistics(world: World, table: str) -> None:
    java = world.java_table(table)
    snapshot = java.currentSnapshot()
    kind = "vendor-histogram-v7"
    entry: dict[str, Any] = {
        "type": kind,
        "fields": [1],
        "snapshot-id": snapshot.snapshotId(),
        "sequence-number": snapshot.sequenceNumber(),
    }
    tree = world.tree(table)
    path = tree.file(tree.document["location"]) / "metadata" / "vendor.stats"
    path.write_bytes(puffin_bytes([(entry, b"opaque bytes")]))
    footer = path.stat().st_size - 4 - len(b"opaque bytes")
    iceberg = world.spark._jvm.org.apache.iceberg
    blob = iceberg.GenericBlobMetadata(
        kind, snapshot.snapshotId(), snapshot.sequenceNumber(), [1], {"vendor": "x"}
    )
    file = iceberg.GenericStatisticsFile(
        snapshot.snapshotId(), str(path), path.stat().st_size, footer, [blob]
    )
    java.updateStatistics().setStatistics(file).commit()


def claims_t27(world: World) -> Iterator[Claim]:
    tree = world.tree("shapes.t27")
    statistics = tree.document["statistics"]
    kinds = {blob["type"] for file in statistics for blob in file["blob-metadata"]}
    yield "both blob types", kinds == {"apache-datasketches-theta-v1", "vendor-histogram-v7"}
    blobs = [read_puffin(tree.file(file["statistics-path"])).blobs for file in statistics]
    yield "blobs in the files", all(blobs)
    yield "partition statistics", len(tree.document["partition-statistics"]) == 1


SHAPES = (
    Shape("T25", "branches, tags, staged snapshots", "shapes.t25", build_t25, claims_t25),
    Shape("T26", "rolled back history", "shapes.t26", build_t26, claims_t26, history=True),
    Shape("T27", "statistics", "shapes.t27", build_t27, claims_t27, pyiceberg=False),
)
