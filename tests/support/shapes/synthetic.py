"""T48: tables of any size, written in seconds and without Spark.

The metadata is real and complete; data files are sparse, or not there at all. The same settings
always give the same bytes, but for the root.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import fastavro

from tests.support.compare.avro import plain_schema
from tests.support.compare.paths import local_path
from tests.support.shapes.avro_schemas import (
    entry_schema,
    list_header,
    list_schema,
    manifest_header,
)
from tests.support.shapes.craft import container_bytes, encode, zigzag

_EPOCH_MS = 1_700_000_000_000
_DATA_BYTES = 4096
_ROWS_A_FILE = 1000
_ENTRIES_A_BLOCK = 128


class DataFiles(Enum):
    """Whether the data files that manifests name are there, with the size recorded but no disk."""

    ABSENT = "absent"
    SPARSE = "sparse"


@dataclass(frozen=True)
class SyntheticTable:
    """How large a table is: `entries` data files spread evenly over `manifests`.

    A snapshot's list names the newest `manifests_per_list` manifests that came with it or before.
    """

    root: str
    snapshots: int = 3
    manifests: int = 3
    entries: int = 9
    columns: int = 4
    format_version: int = 2
    manifests_per_list: int = 100
    codec: str = "deflate"
    data: DataFiles = DataFiles.ABSENT
    _sizes: dict[int, int] = field(default_factory=dict, compare=False, repr=False)

    def snapshot_of(self, manifest: int) -> int:
        """The number of the snapshot that added a manifest."""
        return manifest * self.snapshots // self.manifests

    def entry_range(self, manifest: int) -> range:
        """The numbers of the data files that a manifest names."""
        each, rest = divmod(self.entries, self.manifests)
        first = manifest * each + min(manifest, rest)
        return range(first, first + each + (manifest < rest))

    def data_location(self, number: int) -> str:
        return f"{self.root}/data/{number % 4096:03x}/part-{number:010d}.parquet"

    def manifest_location(self, manifest: int) -> str:
        return f"{self.root}/metadata/{manifest:08d}-m0.avro"

    def list_location(self, snapshot: int) -> str:
        return f"{self.root}/metadata/snap-{snapshot:08d}.avro"

    @property
    def metadata_location(self) -> str:
        return f"{self.root}/metadata/{self.snapshots:05d}-synthetic.metadata.json"


def write_synthetic(table: SyntheticTable) -> str:
    """Writes all files of a table. The location of its metadata file."""
    folder = local_path(table.root) / "metadata"
    folder.mkdir(parents=True, exist_ok=True)
    for manifest in range(table.manifests):
        data = _manifest_bytes(table, manifest)
        table._sizes[manifest] = len(data)
        local_path(table.manifest_location(manifest)).write_bytes(data)
    for snapshot in range(table.snapshots):
        local_path(table.list_location(snapshot)).write_bytes(_list_bytes(table, snapshot))
    local_path(table.metadata_location).write_text(json.dumps(document(table)))
    if table.data is DataFiles.SPARSE:
        _write_sparse(table)
    return table.metadata_location


def _write_sparse(table: SyntheticTable) -> None:
    for number in range(min(table.entries, 4096)):
        local_path(table.data_location(number)).parent.mkdir(parents=True, exist_ok=True)
    for number in range(table.entries):
        with Path(local_path(table.data_location(number))).open("wb") as file:
            file.truncate(_DATA_BYTES)


def snapshot_id(number: int) -> int:
    """Ids are spread over 63 bits, as real ones are."""
    return (number + 1) * 0x9E3779B97F4A7C15 % (1 << 62) + 1


def document(table: SyntheticTable) -> dict[str, Any]:
    """The metadata file."""
    snapshots = [_snapshot(table, number) for number in range(table.snapshots)]
    times = [{k: s[k] for k in ("snapshot-id", "timestamp-ms")} for s in snapshots]
    last = snapshots[-1]
    found = {
        "format-version": table.format_version,
        "table-uuid": str(uuid.uuid5(uuid.NAMESPACE_URL, "synthetic")),
        "location": table.root,
        "last-sequence-number": last["sequence-number"],
        "last-updated-ms": last["timestamp-ms"],
        "last-column-id": table.columns,
        "current-schema-id": 0,
        "schemas": [table_schema(table.columns)],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "last-partition-id": 999,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": {},
        "current-snapshot-id": last["snapshot-id"],
        "refs": {"main": {"snapshot-id": last["snapshot-id"], "type": "branch"}},
        "snapshots": snapshots,
        "statistics": [],
        "partition-statistics": [],
        "snapshot-log": times,
        "metadata-log": [],
    }
    if table.format_version >= 3:
        found["next-row-id"] = table.entries * _ROWS_A_FILE
    return found


def table_schema(columns: int) -> dict[str, Any]:
    """Columns of longs; the first is `id`."""
    names = ["id", *(f"c{number}" for number in range(2, columns + 1))]
    fields = [
        {"id": number, "name": name, "required": False, "type": "long"}
        for number, name in enumerate(names, start=1)
    ]
    return {"type": "struct", "schema-id": 0, "fields": fields}


def _snapshot(table: SyntheticTable, number: int) -> dict[str, Any]:
    found: dict[str, Any] = {
        "sequence-number": number + 1,
        "snapshot-id": snapshot_id(number),
        "timestamp-ms": _EPOCH_MS + number,
        "summary": {"operation": "append", "engine-name": "synthetic"},
        "manifest-list": table.list_location(number),
        "schema-id": 0,
    }
    if number:
        found["parent-snapshot-id"] = snapshot_id(number - 1)
    if table.format_version >= 3:
        found |= _row_ids(table, number)
    return found


def _row_ids(table: SyntheticTable, number: int) -> dict[str, int]:
    """Where the ids of a snapshot's own rows begin, and how many it added."""
    before, upto = (
        table.entry_range(end - 1).stop if end else 0
        for end in (_end_of(table, number - 1), _end_of(table, number))
    )
    return {"first-row-id": before * _ROWS_A_FILE, "added-rows": (upto - before) * _ROWS_A_FILE}


def _end_of(table: SyntheticTable, snapshot: int) -> int:
    """How many manifests there are up to and with a snapshot."""
    return -(-(snapshot + 1) * table.manifests // table.snapshots)


def _manifests_of(table: SyntheticTable, snapshot: int) -> range:
    """The manifests up to a snapshot's own, the newest of them."""
    end = _end_of(table, snapshot)
    return range(max(0, end - table.manifests_per_list), end)


def _list_bytes(table: SyntheticTable, number: int) -> bytes:
    schema = fastavro.parse_schema(plain_schema(list_schema(table.format_version)))
    records = [_list_record(table, manifest) for manifest in _manifests_of(table, number)]
    header = list_header(table.format_version, _snapshot(table, number), table.codec)
    return container_bytes(header, (len(records), encode(schema, records)))


def _list_record(table: SyntheticTable, manifest: int) -> dict[str, Any]:
    files = table.entry_range(manifest)
    added_by = table.snapshot_of(manifest)
    return {
        "manifest_path": table.manifest_location(manifest),
        "manifest_length": table._sizes[manifest],
        "partition_spec_id": 0,
        "content": 0,
        "sequence_number": added_by + 1,
        "min_sequence_number": added_by + 1,
        "added_snapshot_id": snapshot_id(added_by),
        "added_files_count": len(files),
        "existing_files_count": 0,
        "deleted_files_count": 0,
        "added_rows_count": len(files) * _ROWS_A_FILE,
        "existing_rows_count": 0,
        "deleted_rows_count": 0,
        "partitions": [],
        "key_metadata": None,
        "first_row_id": files.start * _ROWS_A_FILE,
    }


def _manifest_bytes(table: SyntheticTable, manifest: int) -> bytes:
    """All entries are alike but for the path, so one is encoded and the others are cut from it."""
    schema = fastavro.parse_schema(plain_schema(entry_schema(table.format_version)))
    marker = "\x00here\x00"
    sample = encode(schema, [_entry(table, manifest, marker)])
    head, tail = sample.split(zigzag(len(marker)) + marker.encode())
    schema_of_rows = table_schema(table.columns)
    header = manifest_header(table.format_version, "data", schema_of_rows, table.codec)
    return container_bytes(header, *_iter_blocks(table, manifest, head, tail))


def _iter_blocks(
    table: SyntheticTable, manifest: int, head: bytes, tail: bytes
) -> Iterator[tuple[int, bytes]]:
    files = table.entry_range(manifest)
    for start in range(0, len(files), _ENTRIES_A_BLOCK):
        numbers = files[start : start + _ENTRIES_A_BLOCK]
        paths = (table.data_location(number).encode() for number in numbers)
        entries = (b"".join((head, zigzag(len(path)), path, tail)) for path in paths)
        yield len(numbers), b"".join(entries)


def _entry(table: SyntheticTable, manifest: int, path: str) -> dict[str, Any]:
    columns = range(1, table.columns + 1)
    low, high = (1).to_bytes(8, "little"), (_ROWS_A_FILE).to_bytes(8, "little")
    file = {
        "content": 0,
        "file_path": path,
        "file_format": "PARQUET",
        "partition": {},
        "record_count": _ROWS_A_FILE,
        "file_size_in_bytes": _DATA_BYTES,
        "column_sizes": [{"key": number, "value": 800} for number in columns],
        "value_counts": [{"key": number, "value": _ROWS_A_FILE} for number in columns],
        "null_value_counts": [{"key": number, "value": 0} for number in columns],
        "nan_value_counts": [],
        "lower_bounds": [{"key": number, "value": low} for number in columns],
        "upper_bounds": [{"key": number, "value": high} for number in columns],
        "split_offsets": [4],
        "sort_order_id": 0,
    }
    added_by = snapshot_id(table.snapshot_of(manifest))
    return {"status": 1, "snapshot_id": added_by, "data_file": file}
