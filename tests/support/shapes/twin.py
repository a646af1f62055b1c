"""Small whole tables that come out the same wherever they are written, but for their root.

Two of them are a source and its perfect restore: what the comparison is tested with.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa

from tests.support.compare.avro import plain_schema
from tests.support.compare.paths import local_path
from tests.support.shapes.avro_schemas import (
    entry_schema,
    list_header,
    list_schema,
    manifest_header,
)
from tests.support.shapes.craft import (
    column,
    container_bytes,
    encode,
    puffin_bytes,
    vector_blob,
    vector_entry,
    write_parquet,
    write_position_deletes,
)
from tests.support.shapes.synthetic import snapshot_id, table_schema

_PATH_COLUMN = 2147483546
_TIME_MS = 1_700_000_000_000
Json = dict[str, Any]


def write_twin(root: str, version: int) -> str:
    """A table of two snapshots: two data files, then deletes and a tombstone. Its metadata file.

    Version 2 has position deletes with equal bounds, ones for both files, and equality deletes;
    version 3 has two vectors in one Puffin file. Both have statistics.
    """
    folder = local_path(root)
    data = [_write_data(folder, root, number) for number in (0, 1)]
    deletes = _vectors(folder, root) if version == 3 else _position_deletes(folder, root)
    gone = f"{root}/data/gone-{deletes[0]['file_format']}"
    tombstone = {**deletes[0], "file_path": gone, "file_size_in_bytes": 999}
    snapshots = [_snapshot(root, number, version) for number in (0, 1)]
    first = _manifest(root, "m0", version, [(1, 0, file) for file in data])
    second = _manifest(root, "m1", version, [(2, 1, tombstone), *((1, 1, f) for f in deletes)])
    _write_list(version, snapshots[0], [first])
    _write_list(version, snapshots[1], [first, second])
    location = f"{root}/metadata/00002-twin.metadata.json"
    text = json.dumps(_document(root, version, snapshots, _statistics(folder, root)))
    local_path(location).write_text(text)
    return location


def _write_data(folder: Path, root: str, number: int) -> Json:
    path = folder / "data" / f"f{number}.parquet"
    ids = range(number * 10, number * 10 + 6)
    write_parquet(path, [column("id", pa.int64(), 1)], [ids])
    return _file(path, root, rows=6)


def _file(path: Path, root: str, rows: int, **more: Any) -> Json:
    return {
        "content": 0,
        "file_path": f"{root}/data/{path.name}",
        "file_format": "PARQUET",
        "partition": {},
        "record_count": rows,
        "file_size_in_bytes": path.stat().st_size,
        **more,
    }


def _position_deletes(folder: Path, root: str) -> list[Json]:
    names = [f"{root}/data/f0.parquet", f"{root}/data/f1.parquet"]
    one = write_position_deletes(folder / "data" / "one.parquet", [(names[0], 1), (names[0], 4)])
    both = write_position_deletes(folder / "data" / "both.parquet", [(n, 2) for n in names])
    equal = write_parquet(folder / "data" / "equal.parquet", [column("id", pa.int64(), 1)], [[3]])
    return [
        _file(
            one, root, 2, content=1, referenced_data_file=names[0], **_bounds(names[0], names[0])
        ),
        _file(both, root, 2, content=1, **_bounds(names[0], names[1])),
        _file(equal, root, 1, content=2, equality_ids=[1]),
    ]


def _bounds(low: str, high: str) -> Json:
    return {
        "lower_bounds": [{"key": _PATH_COLUMN, "value": low.encode()}],
        "upper_bounds": [{"key": _PATH_COLUMN, "value": high.encode()}],
    }


def _vectors(folder: Path, root: str) -> list[Json]:
    names = [f"{root}/data/f0.parquet", f"{root}/data/f1.parquet"]
    blobs = [vector_blob([1, 4]), vector_blob([2, 3])]
    path = folder / "data" / "vectors.puffin"
    path.write_bytes(
        puffin_bytes([(vector_entry(n, 2), b) for n, b in zip(names, blobs, strict=True)])
    )
    offsets = [4, 4 + len(blobs[0])]
    return [
        _file(
            path,
            root,
            2,
            content=1,
            file_format="PUFFIN",
            referenced_data_file=name,
            content_offset=offset,
            content_size_in_bytes=len(blob),
        )
        for name, offset, blob in zip(names, offsets, blobs, strict=True)
    ]


def _manifest(root: str, name: str, version: int, entries: list[tuple[int, int, Json]]) -> Json:
    """Writes a manifest of (status, snapshot, file). Its record in a list."""
    location = f"{root}/metadata/{name}.avro"
    deletes = any(file["content"] for _, _, file in entries)
    schema = fastavro.parse_schema(plain_schema(entry_schema(version)))
    records = [
        {
            "status": status,
            "snapshot_id": snapshot_id(number),
            "sequence_number": 1 if status == 2 else None,
            "file_sequence_number": 1 if status == 2 else None,
            "data_file": file,
        }
        for status, number, file in entries
    ]
    header = manifest_header(version, "deletes" if deletes else "data", table_schema(1))
    path = local_path(location)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(container_bytes(header, (len(records), encode(schema, records))))
    return _list_record(location, path.stat().st_size, entries, deletes=deletes)


def _list_record(
    location: str, size: int, entries: list[tuple[int, int, Json]], *, deletes: bool
) -> Json:
    number = entries[0][1]
    return {
        "manifest_path": location,
        "manifest_length": size,
        "partition_spec_id": 0,
        "content": int(deletes),
        "sequence_number": number + 1,
        "min_sequence_number": number + 1,
        "added_snapshot_id": snapshot_id(number),
        "added_files_count": sum(status == 1 for status, _, _ in entries),
        "existing_files_count": 0,
        "deleted_files_count": sum(status == 2 for status, _, _ in entries),
        "added_rows_count": sum(f["record_count"] for status, _, f in entries if status == 1),
        "existing_rows_count": 0,
        "deleted_rows_count": sum(f["record_count"] for status, _, f in entries if status == 2),
        "partitions": [],
        "key_metadata": None,
        "first_row_id": None if deletes else 0,
    }


def _snapshot(root: str, number: int, version: int) -> Json:
    found = {
        "sequence-number": number + 1,
        "snapshot-id": snapshot_id(number),
        "timestamp-ms": _TIME_MS + number,
        "summary": {"operation": "append" if number == 0 else "delete"},
        "manifest-list": f"{root}/metadata/snap-{number}.avro",
        "schema-id": 0,
    }
    if number:
        found["parent-snapshot-id"] = snapshot_id(number - 1)
    if version >= 3:
        found |= {"first-row-id": 12 * number, "added-rows": 0 if number else 12}
    return found


def _write_list(version: int, snapshot: Json, manifests: list[Json]) -> None:
    schema = fastavro.parse_schema(plain_schema(list_schema(version)))
    header = list_header(version, snapshot)
    block = (len(manifests), encode(schema, manifests))
    local_path(snapshot["manifest-list"]).write_bytes(container_bytes(header, block))


def _statistics(folder: Path, root: str) -> Json:
    kind = "apache-datasketches-theta-v1"
    entry = {"type": kind, "fields": [1], "snapshot-id": snapshot_id(1), "sequence-number": 2}
    path = folder / "metadata" / "twin.stats"
    path.write_bytes(puffin_bytes([(entry, b"sketch")]))
    return {
        "snapshot-id": snapshot_id(1),
        "statistics-path": f"{root}/metadata/{path.name}",
        "file-size-in-bytes": path.stat().st_size,
        "file-footer-size-in-bytes": path.stat().st_size - 10,
        "blob-metadata": [entry],
    }


def _document(root: str, version: int, snapshots: list[Json], statistics: Json) -> Json:
    last = snapshots[-1]
    found = {
        "format-version": version,
        "table-uuid": "00000000-0000-0000-0000-000000000001",
        "location": root,
        "last-sequence-number": 2,
        "last-updated-ms": _TIME_MS + 1,
        "last-column-id": 1,
        "current-schema-id": 0,
        "schemas": [table_schema(1)],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "last-partition-id": 999,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": {"write.data.path": f"{root}/data", "owner": "someone"},
        "current-snapshot-id": last["snapshot-id"],
        "refs": {"main": {"snapshot-id": last["snapshot-id"], "type": "branch"}},
        "snapshots": snapshots,
        "statistics": [statistics],
        "snapshot-log": [{k: s[k] for k in ("snapshot-id", "timestamp-ms")} for s in snapshots],
        "metadata-log": [],
        "unknown-key": {"kept": 0.10},
    }
    if version >= 3:
        found["next-row-id"] = 12
    return found
