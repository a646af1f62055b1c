"""G1: the rows of a table at every snapshot and every ref, as counts and digests.

A digest does not depend on the order of rows, and differs when a row, a value, a column's name or
the number of times that a row occurs differs.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyiceberg.manifest import clear_manifest_cache
from pyiceberg.table import StaticTable

Rows = dict[str, tuple[int, str]]
_LINEAGE = ("_row_id", "_last_updated_sequence_number")
_ROW_COUNT, _DIGEST = "row_count", "digest"


def spark_rows(spark: Any, table: str, *, lineage: bool = False, history: bool = False) -> Rows:
    """(count, digest) by `snapshot:<id>`, `ref:<name>` and `current`, in one Spark job.

    `table` is the quoted name with its catalog. With `lineage` the row ids and sequence numbers of
    a v3 table count as columns; with `history` each time of the snapshot log is read, as `at:<ms>`.
    """
    versions = [*_iter_versions(spark, table), *(_iter_times(spark, table) if history else ())]
    frames = [
        _digest_frame(spark.sql(f"SELECT * FROM {table} {version}"), at, lineage)
        for at, version in versions
    ]
    union = functools.reduce(lambda left, right: left.unionAll(right), frames)
    rows = {row["at"]: (row[_ROW_COUNT], row[_DIGEST]) for row in union.collect()}
    return dict(sorted(rows.items()))


def _iter_versions(spark: Any, table: str) -> Iterator[tuple[str, str]]:
    """Each version's key and how SQL asks for it."""
    yield "current", ""
    for row in spark.sql(f"SELECT snapshot_id FROM {table}.snapshots").collect():
        yield f"snapshot:{row.snapshot_id}", f"VERSION AS OF {row.snapshot_id}"
    for row in spark.sql(f"SELECT name FROM {table}.refs").collect():
        name = row.name.replace("\\", "\\\\").replace("'", "\\'")
        yield f"ref:{row.name}", f"VERSION AS OF '{name}'"


def _iter_times(spark: Any, table: str) -> Iterator[tuple[str, str]]:
    query = f"SELECT DISTINCT unix_millis(made_current_at) AS ms FROM {table}.history"
    for row in spark.sql(query).collect():
        yield f"at:{row.ms}", f"TIMESTAMP AS OF timestamp_millis({row.ms})"


def _digest_frame(frame: Any, at: str, lineage: bool) -> Any:
    from pyspark.sql import functions as f  # noqa: PLC0415  (after the session set the environment)

    names = [*frame.columns, *(_LINEAGE if lineage else ())]
    schema = {field.name: field.dataType for field in frame.schema.fields}
    parts = [part for name in names for part in _hash_parts(f, name, schema.get(name))]
    digest = f.sum(f.xxhash64(*parts).cast("decimal(20,0)")).cast("string")
    return frame.agg(
        f.lit(at).alias("at"),
        f.count(f.lit(1)).alias(_ROW_COUNT),
        f.coalesce(digest, f.lit("")).alias(_DIGEST),
    )


def _hash_parts(f: Any, name: str, kind: Any) -> list[Any]:
    """A column's name, whether it is null, its value: as text where Spark hashes no such type."""
    column = f.col("`{}`".format(name.replace("`", "``")))
    nested = kind is not None and kind.typeName() in ("map", "array", "struct", "variant")
    value = column.cast("string") if nested else column
    return [f.lit(name), column.isNull(), value]


def pyiceberg_rows(
    metadata_location: str,
    snapshots: Sequence[int] | None = None,
    *,
    refs_only: bool = False,
    properties: Mapping[str, str] | None = None,
) -> Rows:
    """(count, digest) by `snapshot:<id>` and `ref:<name>`, read by pyiceberg alone.

    With `refs_only` not the whole history. `properties` open files that are not local.
    """
    clear_manifest_cache()  # kept by path for the whole process; a path may have new bytes
    table = StaticTable.from_metadata(metadata_location, dict(properties or {}))
    known = [snapshot.snapshot_id for snapshot in table.metadata.snapshots]
    if refs_only:
        known = [ref.snapshot_id for ref in table.metadata.refs.values()]
    rows = {f"snapshot:{i}": _scan(table, i) for i in (known if snapshots is None else snapshots)}
    for name, ref in table.metadata.refs.items():
        if f"snapshot:{ref.snapshot_id}" in rows:
            rows[f"ref:{name}"] = rows[f"snapshot:{ref.snapshot_id}"]
    return dict(sorted(rows.items()))


def _scan(table: StaticTable, snapshot_id: int) -> tuple[int, str]:
    found = table.scan(snapshot_id=snapshot_id).to_arrow()
    return found.num_rows, _arrow_digest(found)


def _arrow_digest(table: pa.Table) -> str:
    columns = [_values(column) for column in table.columns]
    lines = sorted(repr(row) for row in zip(*columns, strict=True))
    text = "\n".join([repr(table.column_names), *lines])
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()


def _values(column: pa.ChunkedArray) -> list[Any]:
    """Values as Python has them; dates and times as the numbers they are stored as."""
    kind = column.type
    if pa.types.is_date32(kind):
        return list(column.cast(pa.int32()).to_pylist())
    if pa.types.is_timestamp(kind) or pa.types.is_time(kind):
        return list(column.cast(pa.int64()).to_pylist())
    return list(column.to_pylist())


def jvm_rows(spark: Any, metadata_location: str) -> Rows:
    """(count, digest) by `snapshot:<id>`, read by the JVM's own table API.

    It knows types that Spark SQL has no name for, and tables that have no uuid.
    """
    iceberg = spark._jvm.org.apache.iceberg
    table = _static_table(spark, metadata_location)
    ids = [snapshot.snapshotId() for snapshot in _each(table.snapshots())]
    return {
        f"snapshot:{i}": _generic_scan(iceberg.data.IcebergGenerics.read(table).useSnapshot(i))
        for i in sorted(ids)
    }


def _static_table(spark: Any, metadata_location: str) -> Any:
    iceberg = spark._jvm.org.apache.iceberg
    files = iceberg.hadoop.HadoopFileIO(spark._jsc.hadoopConfiguration())
    operations = iceberg.StaticTableOperations(metadata_location, files)
    return iceberg.BaseTable(operations, "static")


def _generic_scan(builder: Any) -> tuple[int, str]:
    records = builder.build()
    lines = sorted(record.toString() for record in _each(records))
    records.close()
    return len(lines), hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _each(iterable: Any) -> Iterator[Any]:
    """The items of a `java.lang.Iterable`, which py4j does not walk by itself."""
    items = iterable.iterator()
    while items.hasNext():
        yield items.next()
