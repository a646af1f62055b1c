"""G7: a restored table can be written, changed and cleaned, and stays in its own place."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.support.compare.paths import Difference, local_path, split_name
from tests.support.compare.tables import referenced_files

_ADDED = "added_by_check"
_SHIFT = 1_000_000


def check_still_works(
    spark: Any,
    table: str,
    location: str | Sequence[str],
    forbidden_roots: Sequence[str],
    *,
    without: Collection[str] = (),
) -> list[Difference]:
    """Runs INSERT, DELETE, ADD COLUMN, rewrite_data_files and expire_snapshots; what went wrong.

    `table` is the quoted name with its catalog; its column `id` is a bigint. New files may land
    under `location` only (several for a table with paths of its own); under `forbidden_roots`
    nothing may change. `without` names steps that the engine cannot do on the source either, as
    `expire` with `gc.enabled=false`.
    """
    allowed = [location] if isinstance(location, str) else list(location)
    known, elsewhere = _files(spark, table), _listing(forbidden_roots)
    rows, found = _count(spark, table), []
    for step, statement in _steps(spark, table, without):
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
    found = _count(spark, table)
    if found != rows:
        yield f"expected {rows} rows, found {found}"
    if step == "delete" and _version(spark, table) > 1 and not _merged_on_read(spark, table):
        yield "wrote data files again in place of a delete file"


def _merged_on_read(spark: Any, table: str) -> bool:
    """Whether the newest snapshot added deletes; one that drops whole files has no need to."""
    query = f"SELECT summary FROM {table}.snapshots ORDER BY committed_at DESC LIMIT 1"
    summary = spark.sql(query).collect()[0].summary
    dropped = "deleted-data-files" in summary and "added-data-files" not in summary
    return dropped or "added-delete-files" in summary


def _steps(spark: Any, table: str, without: Collection[str]) -> Iterator[tuple[str, str]]:
    """Statements by name; each is made when the one before is done."""
    catalog, *levels = split_name(table)
    name = ".".join(f"`{level}`" for level in levels).replace("'", "\\'")
    merge = "'write.delete.mode' = 'merge-on-read'"
    rewrite = f"table => '{name}', options => map('rewrite-all', 'true')"
    keep = f"table => '{name}', older_than => TIMESTAMP '2999-01-01 00:00:00', retain_last => 1"
    steps: dict[str, Callable[[], str]] = {
        "insert": lambda: _insert(spark, table),
        "merge-on-read": lambda: f"ALTER TABLE {table} SET TBLPROPERTIES ({merge})",
        "delete": lambda: f"DELETE FROM {table} WHERE id = {_largest(spark, table)}",
        "add column": lambda: f"ALTER TABLE {table} ADD COLUMN {_ADDED} string",
        "rewrite": lambda: f"CALL `{catalog}`.system.rewrite_data_files({rewrite})",
        "expire": lambda: f"CALL `{catalog}`.system.expire_snapshots({keep})",
    }
    if _version(spark, table) == 1:
        del steps["merge-on-read"]
    for step, statement in steps.items():
        if step not in without:
            yield step, statement()


def _insert(spark: Any, table: str) -> str:
    """Every row twice more, once with another id, so that a delete leaves a part of each file."""
    fields = spark.table(table).schema.fields
    names = [f"`{field.name.replace('`', '``')}`" for field in fields]
    if not _count(spark, table):
        values = [f"CAST(null AS {field.dataType.simpleString()})" for field in fields]
        rows = [", ".join([f"{i}L", *values[1:]]) for i in (1, 2)]
        return f"INSERT INTO {table} SELECT {rows[0]} UNION ALL SELECT {rows[1]}"
    shifted = ", ".join(f"id + {_SHIFT}" if name == "`id`" else name for name in names)
    both = f"SELECT * FROM {table} UNION ALL SELECT {shifted} FROM {table}"
    return f"INSERT INTO {table} SELECT /*+ COALESCE(1) */ * FROM ({both})"


def _expected_rows(spark: Any, table: str, step: str, rows: int) -> int:
    """How many rows there are after a step, from how many there were."""
    if step == "insert":
        return 3 * rows or 2
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
