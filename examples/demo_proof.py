"""The demo's proof: what two readers, Spark and pyiceberg, find in every version of a table."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from examples.demo_warehouse import AT_ONCE, DemoFailedError


@dataclass(frozen=True)
class Rows:
    """What one version of a table holds: how many rows, and a digest of all their values."""

    count: int
    digest: str


Reading = Mapping[str, Rows]
"""By version: `snapshot <id>`, `branch <name>`, `tag <name>`."""


@dataclass(frozen=True)
class Verdict:
    """How a restored table compares with its source; no difference means equal."""

    table: str
    source: Reading
    spark_differences: tuple[str, ...]
    pyiceberg_differences: tuple[str, ...]

    @property
    def is_equal(self) -> bool:
        """Whether both readers found what the source had."""
        return not (self.spark_differences or self.pyiceberg_differences)

    @property
    def snapshots(self) -> int:
        """How many snapshots were compared."""
        return sum(version.startswith("snapshot ") for version in self.source)

    @property
    def refs(self) -> str:
        """The branches and tags that were compared."""
        names = (version for version in self.source if not version.startswith("snapshot "))
        return ", ".join(sorted(names))

    @property
    def rows(self) -> int:
        """How many rows all compared versions have together."""
        return sum(rows.count for rows in self.source.values())


def judge(
    catalog: str,
    source: Mapping[str, Reading],
    restored: Mapping[str, Reading],
    counts: Mapping[str, Mapping[str, int]],
) -> list[Verdict]:
    """A verdict on each table; one that only some of them have differs in all of its versions."""
    return [
        _compare(
            f"{catalog}.{name}", source.get(name, {}), restored.get(name, {}), counts.get(name, {})
        )
        for name in sorted({*source, *restored, *counts})
    ]


def _compare(table: str, source: Reading, restored: Reading, counts: Mapping[str, int]) -> Verdict:
    """Hold what Spark and pyiceberg read after the restore against what Spark read before."""
    expected = {version: rows.count for version, rows in source.items()}
    return Verdict(
        table,
        source,
        tuple(_iter_differences(source, restored)),
        tuple(_iter_differences(expected, counts)),
    )


def _iter_differences(source: Mapping[str, Any], restored: Mapping[str, Any]) -> Iterator[str]:
    for version in sorted({*source, *restored}):
        before, after = source.get(version, "missing"), restored.get(version, "missing")
        if before != after:
            yield f"{version}: {before} before, {after} now"


def read_catalog(spark: Any, catalog: str) -> dict[str, Reading]:
    """Every table of a catalog, read by Spark. Raises DemoFailedError."""
    names = [
        f"{database.namespace}.{table.tableName}"
        for database in spark.sql(f"SHOW NAMESPACES IN {catalog}").collect()
        for table in spark.sql(f"SHOW TABLES IN {catalog}.{database.namespace}").collect()
    ]
    with ThreadPoolExecutor(AT_ONCE) as threads:
        readings = threads.map(lambda name: _read_table(spark, f"{catalog}.{name}"), sorted(names))
        return dict(zip(sorted(names), readings, strict=True))


def _read_table(spark: Any, name: str) -> Reading:
    """Every snapshot, branch and tag of a table, in one Spark job."""
    with _reading("Spark", name):
        frames = [_summarise(spark, name, version) for version in _iter_versions(spark, name)]
        union = functools.reduce(lambda left, right: left.union(right), frames)
        return {row.version: Rows(row["rows"], row.digest) for row in union.collect()}


@contextmanager
def _reading(reader: str, table: str) -> Iterator[None]:
    """Say in one line which table cannot be read; readers fail in all kinds of ways."""
    try:
        yield
    except Exception as error:
        causes = [line.strip() for line in str(error).splitlines() if "Caused by" in line]
        reason = causes[-1] if causes else str(error).split("\n", 1)[0]
        raise DemoFailedError(f"{reader} cannot read {table}: {reason}") from error


def _iter_versions(spark: Any, name: str) -> Iterator[str]:
    for row in spark.table(f"{name}.snapshots").collect():
        yield f"snapshot {row.snapshot_id}"
    for row in spark.table(f"{name}.refs").collect():
        yield f"{row.type.lower()} {row.name}"


def _summarise(spark: Any, name: str, version: str) -> Any:
    """One row: the version, its number of rows, the SHA-256 of all rows in sorted order."""
    from pyspark.sql import functions as f  # noqa: PLC0415  after the environment is set

    frame = spark.read.option("versionAsOf", version.split(" ", 1)[1]).table(name)
    row = f.to_json(f.struct("*"), {"ignoreNullFields": "false"})
    return frame.agg(
        f.lit(version).alias("version"),
        f.count(f.lit(1)).alias("rows"),
        f.sha2(f.array_join(f.array_sort(f.collect_list(row)), "\n"), 256).alias("digest"),
    )


def count_catalog(name: str, database: Path) -> dict[str, dict[str, int]]:
    """The number of rows in every version of every table of a SQLite catalog, by pyiceberg.

    Raises DemoFailedError.
    """
    from pyiceberg.catalog.sql import SqlCatalog  # noqa: PLC0415  slow to import

    catalog = SqlCatalog(name, uri=f"sqlite:///{database}", init_catalog_tables="false")
    try:
        return {
            ".".join(table): _count_table(catalog, table)
            for namespace in catalog.list_namespaces()
            for table in catalog.list_tables(namespace)
        }
    finally:
        catalog.close()


def _count_table(catalog: Any, name: tuple[str, ...]) -> dict[str, int]:
    with _reading("pyiceberg", ".".join(name)):
        table = catalog.load_table(name)
        versions = {f"snapshot {item.snapshot_id}": item.snapshot_id for item in table.snapshots()}
        for ref, target in table.refs().items():
            versions[f"{target.snapshot_ref_type.value} {ref}"] = target.snapshot_id
        return {key: table.scan(snapshot_id=number).count() for key, number in versions.items()}
