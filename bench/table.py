"""Tables to back up: real metadata of format version 2, written without Spark, kept between runs.

A table is a folder `warehouse/db/t` of a Hadoop catalog. Data files hold random bytes, other ones
in each file so that nothing can be stored once for two, or are sparse.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import fastavro
import numpy as np

from bcn.catalog.protocol import CatalogSettings
from bench.walker import entry_schema, field

CACHE = Path(__file__).resolve().parent.parent / ".cache" / "bench"
CATALOG = "bench"

_EPOCH_MS = 1_700_000_000_000
_SNAPSHOT_ID = 6_000_000_000_000_000_001
_FILES_A_FOLDER = 1_000
_ENTRIES_A_MANIFEST = 5_000
_ROWS_A_FILE = 1_000


@contextmanager
def scratch(prefix: str) -> Iterator[Path]:
    """A new folder on the disk of the tables; gone afterwards."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(
        prefix=prefix, dir=CACHE, ignore_cleanup_errors=True
    ) as folder:
        yield Path(folder)


class Content(Enum):
    """What data files hold."""

    RANDOM = "random"
    SPARSE = "sparse"


@dataclass(frozen=True)
class BenchTable:
    """How large a table is."""

    files: int
    file_bytes: int
    content: Content = Content.RANDOM
    bucket: str = ""  # where its files say that they are, if that is not this disk

    @property
    def folder(self) -> Path:
        name = f"{self.files}-files-of-{self.file_bytes}-{self.content.value}"
        return CACHE / (f"{name}-in-{self.bucket}" if self.bucket else name)

    @property
    def warehouse(self) -> Path:
        return self.folder / "warehouse"

    @property
    def location(self) -> Path:
        return self.warehouse / "db" / "t"

    @property
    def size_bytes(self) -> int:
        return self.files * self.file_bytes

    @property
    def catalog(self) -> CatalogSettings:
        return CatalogSettings(CATALOG, "hadoop", {"warehouse": str(self.warehouse)})

    def spell(self, path: Path) -> str:
        """A path under the warehouse as the table's metadata says it."""
        if not self.bucket:
            return str(path)
        return f"s3://{self.bucket}/{path.relative_to(self.warehouse)}"

    def data_path(self, number: int) -> Path:
        folder, name = divmod(number, _FILES_A_FOLDER)
        return self.location / "data" / f"part={folder:04d}" / f"{name:05d}-0-{number:012x}.parquet"


def make_table(table: BenchTable) -> BenchTable:
    """Write what is not there yet; a table that is there as a whole costs nothing."""
    finished = table.folder / "finished"
    if not finished.exists():
        _write_data(table)
        shutil.rmtree(table.location / "metadata", ignore_errors=True)
        _write_metadata(table)
        finished.touch()
        os.sync()
    return table


def _write_data(table: BenchTable) -> None:
    """Data files, a folder at a time: a folder whose last file is there is not written again."""
    for start in range(0, table.files, _FILES_A_FOLDER):
        numbers = range(start, min(start + _FILES_A_FOLDER, table.files))
        if not _is_whole(table, table.data_path(numbers[-1])):
            table.data_path(start).parent.mkdir(parents=True, exist_ok=True)
            for number in numbers:
                _write_file(table, number)


def _is_whole(table: BenchTable, path: Path) -> bool:
    return path.exists() and path.stat().st_size == table.file_bytes


def _write_file(table: BenchTable, number: int) -> None:
    with table.data_path(number).open("wb") as file:
        if table.content is Content.SPARSE:
            file.truncate(table.file_bytes)
        else:
            file.write(np.random.default_rng(number).bytes(table.file_bytes))


# metadata


def _write_metadata(table: BenchTable) -> None:
    folder = table.location / "metadata"
    folder.mkdir(parents=True)
    manifests = [
        _write_manifest(table, folder, range(start, min(start + _ENTRIES_A_MANIFEST, table.files)))
        for start in range(0, table.files, _ENTRIES_A_MANIFEST)
    ]
    header = {"snapshot-id": str(_SNAPSHOT_ID), "sequence-number": "1", "format-version": "2"}
    manifest_list = folder / f"snap-{_SNAPSHOT_ID}-1.avro"
    _write_avro(manifest_list, _list_schema(), iter(manifests), header)
    (folder / "v1.metadata.json").write_text(json.dumps(_document(table, manifest_list)))
    (folder / "version-hint.text").write_text("1")


def _write_manifest(table: BenchTable, folder: Path, numbers: range) -> dict[str, Any]:
    path = folder / f"{numbers.start:09d}-m0.avro"
    header = {
        "schema": json.dumps(_SCHEMA),
        "partition-spec": json.dumps(_SPEC["fields"]),
        "partition-spec-id": "0",
        "format-version": "2",
        "content": "data",
    }
    _write_avro(path, entry_schema(), _iter_entries(table, numbers), header)
    counts = dict.fromkeys(_LIST_COUNTS, 0)
    return {
        **counts,
        "manifest_path": table.spell(path),
        "manifest_length": path.stat().st_size,
        "partition_spec_id": 0,
        "content": 0,
        "sequence_number": 1,
        "min_sequence_number": 1,
        "added_snapshot_id": _SNAPSHOT_ID,
        "added_files_count": len(numbers),
        "added_rows_count": len(numbers) * _ROWS_A_FILE,
    }


def _iter_entries(table: BenchTable, numbers: range) -> Iterator[dict[str, Any]]:
    ids = range(1, 3)
    low, high = (1).to_bytes(8, "little"), (_ROWS_A_FILE).to_bytes(8, "little")
    shared = {
        "content": 0,
        "file_format": "PARQUET",
        "partition": {"day": 19_800},
        "record_count": _ROWS_A_FILE,
        "file_size_in_bytes": table.file_bytes,
        "column_sizes": [{"key": i, "value": table.file_bytes // 2} for i in ids],
        "value_counts": [{"key": i, "value": _ROWS_A_FILE} for i in ids],
        "null_value_counts": [{"key": i, "value": 0} for i in ids],
        "lower_bounds": [{"key": i, "value": low} for i in ids],
        "upper_bounds": [{"key": i, "value": high} for i in ids],
        "split_offsets": [4],
        "sort_order_id": 0,
    }
    for number in numbers:
        file = {**shared, "file_path": table.spell(table.data_path(number))}
        yield {"status": 1, "snapshot_id": _SNAPSHOT_ID, "data_file": file}


def _write_avro(
    path: Path, schema: dict[str, Any], records: Iterator[dict[str, Any]], header: dict[str, str]
) -> None:
    with path.open("wb") as file:
        fastavro.writer(
            file, fastavro.parse_schema(schema), records, codec="deflate", metadata=header
        )


_LIST_COUNTS = {
    "added_files_count": (504, "int"),
    "existing_files_count": (505, "int"),
    "deleted_files_count": (506, "int"),
    "added_rows_count": (512, "long"),
    "existing_rows_count": (513, "long"),
    "deleted_rows_count": (514, "long"),
}


def _list_schema() -> dict[str, Any]:
    fields = [
        field(500, "manifest_path", "string"),
        field(501, "manifest_length", "long"),
        field(502, "partition_spec_id", "int"),
        field(517, "content", "int"),
        field(515, "sequence_number", "long"),
        field(516, "min_sequence_number", "long"),
        field(503, "added_snapshot_id", "long"),
        *(field(number, name, kind) for name, (number, kind) in _LIST_COUNTS.items()),
    ]
    return {"type": "record", "name": "manifest_file", "fields": fields}


_SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": 1, "name": "id", "required": False, "type": "long"},
        {"id": 2, "name": "day", "required": False, "type": "date"},
    ],
}
_SPEC = {
    "spec-id": 0,
    "fields": [{"name": "day", "transform": "identity", "source-id": 2, "field-id": 1000}],
}


def _document(table: BenchTable, manifest_list: Path) -> dict[str, Any]:
    snapshot = {
        "sequence-number": 1,
        "snapshot-id": _SNAPSHOT_ID,
        "timestamp-ms": _EPOCH_MS,
        "summary": {"operation": "append"},
        "manifest-list": table.spell(manifest_list),
        "schema-id": 0,
    }
    return {
        "format-version": 2,
        "table-uuid": str(uuid.uuid5(uuid.NAMESPACE_URL, table.folder.name)),
        "location": table.spell(table.location),
        "last-sequence-number": 1,
        "last-updated-ms": _EPOCH_MS,
        "last-column-id": 2,
        "current-schema-id": 0,
        "schemas": [_SCHEMA],
        "default-spec-id": 0,
        "partition-specs": [_SPEC],
        "last-partition-id": 1000,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": {},
        "current-snapshot-id": _SNAPSHOT_ID,
        "refs": {"main": {"snapshot-id": _SNAPSHOT_ID, "type": "branch"}},
        "snapshots": [snapshot],
        "snapshot-log": [{"snapshot-id": _SNAPSHOT_ID, "timestamp-ms": _EPOCH_MS}],
        "metadata-log": [],
    }
