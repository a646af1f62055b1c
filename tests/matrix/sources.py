"""The source of each stack: what Spark writes through its catalog, and what is known of it."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bcn.model import TableId
from bcn.repository.repository import Scope
from bcn.storage.protocol import StorageSpec
from tests.support.compare import pyiceberg_rows
from tests.support.compare.rows import Rows
from tests.support.s3 import CloudProduct
from tests.support.small import InProcess
from tests.support.stacks import (
    CATALOGS,
    MINIO,
    STORES,
    Servers,
    Stack,
    add_to_spark,
    current_metadata,
)

SparkRows = dict[str, list[tuple[Any, ...]]]
DATABASE = "shop"
VERSIONS = {"two": 2, "three": 3}
"""Tables by name: one with position deletes, one with deletion vectors."""

VIEW = "seen"
TEAM = {"team": "matrix"}  # a property of the database
_MERGE = ", ".join(f"'write.{what}.mode' = 'merge-on-read'" for what in ("delete", "update"))
_QUICK = "'write.distribution-mode' = 'none', 'write.spark.fanout.enabled' = 'true'"
# Rows of two partitions in a file each; rows of both go; one more commit on each of two branches.
_STORY = (
    "ALTER TABLE {0} CREATE TAG first",
    "DELETE FROM {0} WHERE id IN (1, 4, 7)",
    "ALTER TABLE {0} CREATE BRANCH side",
    "INSERT INTO {0} VALUES (20, 0, 'later'), (21, 1, 'later')",
    "INSERT INTO {0}.branch_side VALUES (30, 0, 'aside')",
)


@dataclass(frozen=True)
class Written:
    """What readers said of a table before it was removed."""

    metadata_location: str
    spark: SparkRows
    pyiceberg: Rows


@dataclass(frozen=True)
class Source:
    """A stack that is no more: what it held, a copy of its files, and its repository."""

    stack: Stack
    tables: Mapping[str, Written]
    away: Path
    repository: StorageSpec


@dataclass(frozen=True)
class World:
    """All stacks, empty again, and what was in them."""

    spark: Any
    stacks: Mapping[str, Stack]
    sources: Mapping[str, Source]

    def product(self, source: Source, engine: Any = None) -> CloudProduct:
        """bcn with the repository of one source and the catalogs of all."""
        settings = {stack.catalog: stack.settings for stack in self.stacks.values()}
        return CloudProduct(Path(), settings, engine or InProcess(), source.repository)


def build_world(spark: Any, servers: Servers) -> World:
    """Write all sources, back them up, remove them."""
    stacks = {
        stack.name: stack
        for stack in (servers.open(kind, store) for kind in CATALOGS for store in STORES)
    }
    for stack in stacks.values():
        add_to_spark(spark, stack)
    with ThreadPoolExecutor(2) as pool:
        written = list(pool.map(lambda stack: _write(spark, stack), stacks.values()))
    sources = {}
    world = World(spark, stacks, sources)
    for stack, tables in zip(stacks.values(), written, strict=True):
        source = Source(stack, tables, servers.folder / "away" / stack.name, _place(stack, servers))
        report = world.product(source).backup(Scope(stack.catalog))
        assert report.failed == ()
        assert len(report.objects) == len(VERSIONS) + stack.keeps_views
        sources[stack.name] = source
    for source in sources.values():
        source.stack.copy_to(source.away)
        source.stack.remove()
        if source.stack.kind != "hadoop":  # there, files are all there is
            assert list(world.product(source).open(source.stack.catalog).iter_pointers()) == []
    return world


def _place(stack: Stack, servers: Servers) -> StorageSpec:
    """Repositories of half of all catalogs are on the other store than their tables."""
    crossed = CATALOGS.index(stack.kind) % 2 == 1
    if (stack.store == MINIO) != crossed:
        location = f"s3://{servers.minio.make_bucket()}/repository"
        return StorageSpec(location, servers.minio.properties)
    return StorageSpec(str(servers.folder / "repositories" / stack.name))


def _write(spark: Any, stack: Stack) -> dict[str, Written]:
    _make_database(spark, stack)
    tables = {name: _write_table(spark, stack, name) for name in VERSIONS}
    if stack.keeps_views:
        name = stack.spark_name(TableId((DATABASE,), "two"))
        view = stack.spark_name(TableId((DATABASE,), VIEW))
        spark.sql(f"CREATE VIEW {view} AS SELECT id FROM {name}")
    return tables


def _make_database(spark: Any, stack: Stack) -> None:
    given = ", ".join(f"'{key}' = '{value}'" for key, value in TEAM.items())
    more = "" if stack.kind == "hadoop" else f" WITH DBPROPERTIES ({given})"
    spark.sql(f"CREATE NAMESPACE `{stack.catalog}`.`{DATABASE}`{more}")


def _write_table(spark: Any, stack: Stack, name: str) -> Written:
    table = TableId((DATABASE,), name)
    quoted = stack.spark_name(table)
    spark.sql(
        f"CREATE TABLE {quoted} USING iceberg PARTITIONED BY (part) TBLPROPERTIES"
        f" ('format-version' = '{VERSIONS[name]}', {_MERGE}, {_QUICK})"
        " AS SELECT id, CAST(id % 2 AS INT) AS part, concat('text ', id) AS text"
        " FROM range(0, 12, 1, 1)"
    )
    for statement in _STORY:
        spark.sql(statement.format(quoted))
    location = current_metadata(spark, quoted)
    return Written(location, read_all(spark, quoted), read_refs(stack, location))


def read_all(spark: Any, quoted: str) -> SparkRows:
    """What Spark reads at every snapshot and ref, and now, in one job without a shuffle."""
    ids = [row[0] for row in spark.sql(f"SELECT snapshot_id FROM {quoted}.snapshots").collect()]
    refs = [row[0] for row in spark.sql(f"SELECT name FROM {quoted}.refs").collect()]
    versions = {f"snapshot:{id_}": f"VERSION AS OF {id_}" for id_ in ids}
    versions |= {f"ref:{name}": f"VERSION AS OF '{name}'" for name in refs} | {"current": ""}
    queries = [f"SELECT '{at}', * FROM {quoted} {version}" for at, version in versions.items()]
    rows = sorted(tuple(row) for row in spark.sql(" UNION ALL ".join(queries)).collect())
    return {at: [row[1:] for row in rows if row[0] == at] for at in sorted(versions)}


def read_refs(stack: Stack, metadata_location: str) -> Rows:
    """What pyiceberg reads at every ref."""
    return pyiceberg_rows(metadata_location, refs_only=True, properties=stack.reading())
