"""G7: a restored table can be written, changed and cleaned, and stays in its own place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.support.compare.paths import Difference, local_path, split_name
from tests.support.compare.tables import referenced_files

_ADDED = "added_by_check"


def check_still_works(
    spark: Any,
    table: str,
    location: str | Sequence[str],
    forbidden_roots: Sequence[str],
    *,
    expire: bool = True,
) -> list[Difference]:
    """Runs INSERT, DELETE, ADD COLUMN, rewrite_data_files and expire_snapshots; what went wrong.

    `table` is the quoted name with its catalog and has a column `id`. New files may land under
    `location` only (several for a table with paths of its own); under `forbidden_roots` nothing
    may change. A table with `gc.enabled=false` refuses expiry: `expire=False`.
    """
    allowed = [location] if isinstance(location, str) else list(location)
    known, elsewhere = _files(spark, table), _listing(forbidden_roots)
    rows, found = _count(spark, table), []
    for step, statement in _steps(spark, table, expire=expire):
        rows = _expected_rows(spark, table, step, rows)
        spark.sql(statement).collect()
        found += [Difference("G7", step, what) for what in _wrong(spark, table, step, rows)]
        new = _files(spark, table) - known
        known |= new
        found += [Difference("G7", f"{step}: {path}", "outside") for path in _outside(new, allowed)]
    if _listing(forbidden_roots) != elsewhere:
        found.append(Difference("G7", str(list(forbidden_roots)), "files came or went there"))
    return found


def _wrong(spark: Any, table: str, step: str, rows: int) -> Iterator[str]:
    """What a step should have done to the rows, or to the files, and did not."""
    if _count(spark, table) != rows:
        yield f"expected {rows} rows, found {_count(spark, table)}"
    if step == "delete" and _version(spark, table) > 1:
        summary = f"SELECT summary FROM {table}.snapshots ORDER BY committed_at DESC LIMIT 1"
        if "added-delete-files" not in spark.sql(summary).collect()[0].summary:
            yield "wrote no delete file"


def _steps(spark: Any, table: str, *, expire: bool) -> Iterator[tuple[str, str]]:
    catalog, *levels = split_name(table)
    name = ".".join(f"`{level}`" for level in levels).replace("'", "\\'")
    merge = "'write.delete.mode' = 'merge-on-read'"
    yield "insert", _insert(spark, table)
    if _version(spark, table) > 1:
        yield "merge-on-read", f"ALTER TABLE {table} SET TBLPROPERTIES ({merge})"
    yield "delete", f"DELETE FROM {table} WHERE id = {_largest(spark, table)}"
    yield "add column", f"ALTER TABLE {table} ADD COLUMN {_ADDED} string"
    rewrite = f"table => '{name}', options => map('rewrite-all', 'true')"
    yield "rewrite", f"CALL `{catalog}`.system.rewrite_data_files({rewrite})"
    if expire:
        keep = f"table => '{name}', older_than => TIMESTAMP '2999-01-01 00:00:00', retain_last => 1"
        yield "expire", f"CALL `{catalog}`.system.expire_snapshots({keep})"


def _insert(spark: Any, table: str) -> str:
    """All rows a second time, in one file where it can be; one row into an empty table."""
    if _count(spark, table):
        return f"INSERT INTO {table} SELECT /*+ COALESCE(1) */ * FROM {table}"
    fields = spark.table(table).schema.fields
    values = [
        "1L" if f.name == "id" else f"CAST(null AS {f.dataType.simpleString()})" for f in fields
    ]
    return f"INSERT INTO {table} SELECT {', '.join(values)}"


def _expected_rows(spark: Any, table: str, step: str, rows: int) -> int:
    """How many rows there are after a step, from how many there were."""
    if step == "insert":
        return 2 * rows or 1
    if step == "delete":
        return rows - _count(spark, f"{table} WHERE id = {_largest(spark, table)}")
    return rows


def _count(spark: Any, table: str) -> int:
    return int(spark.sql(f"SELECT count(*) AS n FROM {table}").collect()[0].n)


def _largest(spark: Any, table: str) -> int:
    return int(spark.sql(f"SELECT max(id) AS n FROM {table}").collect()[0].n)


def _version(spark: Any, table: str) -> int:
    rows = spark.sql(f"SHOW TBLPROPERTIES {table}").collect()
    return int(next(row.value for row in rows if row.key == "format-version"))


def _files(spark: Any, table: str) -> set[Path]:
    """The files that the table needs now."""
    log = (
        f"SELECT file FROM {table}.metadata_log_entries ORDER BY timestamp DESC, file DESC LIMIT 1"
    )
    return referenced_files(spark.sql(log).collect()[0].file)


def _outside(paths: set[Path], allowed: Sequence[str]) -> list[Path]:
    roots = [local_path(location).resolve() for location in allowed]
    return sorted(p for p in paths if not any(p.resolve().is_relative_to(r) for r in roots))


def _listing(roots: Sequence[str]) -> set[tuple[str, int]]:
    paths = (path for root in roots for path in local_path(root).rglob("*"))
    return {(str(path), path.stat().st_size) for path in paths if path.is_file()}
