"""What is wrong with a table that was restored into another stack: G1 to G7, as lines."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bcn.restore.report import RestoredTable
from tests.matrix.sources import DATABASE, Source, read_all, read_refs
from tests.support.compare import Tree, compare_tables
from tests.support.compare.paths import MIRRORS
from tests.support.stacks import Stack, current_metadata

_SHIFT = 1000
_FIRST = set(range(12))  # ids that the tag has
_LATER = _FIRST - {1, 4, 7} | {20, 21}  # ids that main has


@contextmanager
def mirrored(stack: Stack, folder: Path) -> Iterator[Path | None]:
    """A folder that the comparison takes for the stack's place; None if that is local."""
    if stack.server is None:
        yield None
        return
    MIRRORS[stack.place] = folder
    try:
        yield folder
    finally:
        del MIRRORS[stack.place]


def check_files(source: Source, target: Stack, table: RestoredTable) -> list[str]:
    """G2 to G5: documents, manifests, sizes, bytes, and no location of the source anywhere."""
    found = compare_tables(
        source.tables[table.source.name].metadata_location,
        table.metadata_location,
        [(move.old, move.new) for move in table.roots],
        source.stack.resolve_in(source.away),
    )
    lines = [str(difference) for difference in found]
    old = [move.old for move in table.roots]
    record = target.record(table.table)
    lines += [f"G4 the catalog's record names {root}" for root in old if root in record]
    if source.stack.place != target.place:
        text = str(Tree(table.metadata_location).document) + record
        lines += [f"G4 still names {source.stack.place}"] * (source.stack.place in text)
    return lines


def check_rows(spark: Any, source: Source, target: Stack, table: RestoredTable) -> list[str]:
    """G1: every snapshot and ref by Spark through the catalog, every ref by pyiceberg."""
    quoted, written = target.spark_name(table.table), source.tables[table.source.name]
    lines = []
    if current_metadata(spark, quoted) != table.metadata_location:
        lines.append("G1 the catalog gives another metadata file")
    by_spark = read_all(spark, quoted)
    if by_spark != written.spark:
        lines.append(f"G1 Spark reads {by_spark}, the source gave {written.spark}")
    by_pyiceberg = read_refs(target, table.metadata_location)
    if by_pyiceberg != written.pyiceberg:
        lines.append(f"G1 pyiceberg reads {by_pyiceberg}, the source gave {written.pyiceberg}")
    return lines


def check_writes(spark: Any, target: Stack, table: RestoredTable) -> list[str]:
    """G7: append, delete, another column, compaction, expiry; all files in their own place."""
    quoted = target.spark_name(table.table)
    call = f"CALL `{target.catalog}`.system"
    name = f"table => '{'.'.join(table.table.namespace)}.{table.name}'"
    spark.sql(f"INSERT INTO {quoted} SELECT id + {_SHIFT}, part, text FROM {quoted}")
    spark.sql(f"DELETE FROM {quoted} WHERE id IN (2, {_SHIFT + 2}, {_SHIFT + 3})")
    summary = spark.sql(
        f"SELECT summary FROM {quoted}.snapshots ORDER BY committed_at DESC LIMIT 1"
    ).collect()[0][0]
    lines = [] if "added-delete-files" in summary else [f"G7 no delete file: {summary}"]
    spark.sql(f"ALTER TABLE {quoted} ADD COLUMN more STRING")
    spark.sql(f"{call}.rewrite_data_files({name}, options => map('rewrite-all', 'true'))")
    spark.sql(
        f"{call}.expire_snapshots({name}, older_than => TIMESTAMP '2999-01-01', retain_last => 1)"
    )
    return [*lines, *_wrong_ids(spark, quoted), *_wrong_files(spark, target, table)]


def _wrong_ids(spark: Any, quoted: str) -> list[str]:
    rows = spark.sql(
        f"SELECT 'main' AS at, id FROM {quoted}"
        f" UNION ALL SELECT 'first', id FROM {quoted} VERSION AS OF 'first'"
    ).collect()
    wanted = _LATER | {id_ + _SHIFT for id_ in _LATER}
    expected = {"main": sorted(wanted - {2, _SHIFT + 2, _SHIFT + 3}), "first": sorted(_FIRST)}
    found = {at: sorted(row.id for row in rows if row["at"] == at) for at in expected}
    return [f"G7 {at} has {found[at]}" for at in expected if found[at] != expected[at]]


def _wrong_files(spark: Any, target: Stack, table: RestoredTable) -> list[str]:
    """What the table names now lies in its own place, and is there."""
    location = current_metadata(spark, target.spark_name(table.table))
    root = min((move.new for move in table.roots), key=len)  # others spell places inside of it
    home = root.removeprefix(target.place).strip("/")
    sizes = target.names(home)
    with _copied(target, home) as resolve:
        tree = Tree(location, resolve)
        named = {location, *tree.lists(), *tree.manifests()}
        named |= {entry.path for entry in tree.iter_entries() if entry.is_live}
    lines = [f"G7 outside of {root}: {path}" for path in sorted(named) if not _lies_in(path, root)]
    held = {f"{home}{_bare(path).removeprefix(_bare(root))}" for path in named}
    return lines + [f"G7 missing: {path}" for path in sorted(held - set(sizes))]


def _bare(location: str) -> str:
    return location.removeprefix("file:").replace("///", "/", 1)


def _lies_in(location: str, root: str) -> bool:
    return _bare(location).startswith(f"{_bare(root)}/")


@contextmanager
def _copied(target: Stack, under: str) -> Iterator[Any]:
    """The files of one table as they are now."""
    with tempfile.TemporaryDirectory(prefix="bcn-matrix-") as folder:
        target.copy_to(Path(folder), under)
        yield target.resolve_in(Path(folder))


def is_gone(source: Source) -> bool:
    """G6: no file of the source is left where it was."""
    return not any(name.startswith(DATABASE) for name in source.stack.names())
