"""Avro schemas of manifests and manifest lists, as the Iceberg spec numbers their fields."""

from __future__ import annotations

import json
from typing import Any

Field = dict[str, Any]


def _required(field_id: int, name: str, kind: Any) -> Field:
    return {"name": name, "type": kind, "field-id": field_id}


def _optional(field_id: int, name: str, kind: Any) -> Field:
    return {"name": name, "type": ["null", kind], "default": None, "field-id": field_id}


def _map(key_id: int, value_id: int, value: str) -> dict[str, Any]:
    """A map with numbers for keys, which Avro has to write as an array of pairs."""
    pair = {
        "type": "record",
        "name": f"k{key_id}_v{value_id}",
        "fields": [_required(key_id, "key", "int"), _required(value_id, "value", value)],
    }
    return {"type": "array", "items": pair, "logicalType": "map"}


def _list(element_id: int, element: Any) -> dict[str, Any]:
    return {"type": "array", "items": element, "element-id": element_id}


def _data_file(version: int) -> dict[str, Any]:
    fields = [
        _required(134, "content", "int"),
        _required(100, "file_path", "string"),
        _required(101, "file_format", "string"),
        _required(102, "partition", {"type": "record", "name": "r102", "fields": []}),
        _required(103, "record_count", "long"),
        _required(104, "file_size_in_bytes", "long"),
        _optional(108, "column_sizes", _map(117, 118, "long")),
        _optional(109, "value_counts", _map(119, 120, "long")),
        _optional(110, "null_value_counts", _map(121, 122, "long")),
        _optional(137, "nan_value_counts", _map(138, 139, "long")),
        _optional(125, "lower_bounds", _map(126, 127, "bytes")),
        _optional(128, "upper_bounds", _map(129, 130, "bytes")),
        _optional(131, "key_metadata", "bytes"),
        _optional(132, "split_offsets", _list(133, "long")),
        _optional(135, "equality_ids", _list(136, "int")),
        _optional(140, "sort_order_id", "int"),
        _optional(143, "referenced_data_file", "string"),
    ]
    if version >= 3:
        fields.insert(-1, _optional(142, "first_row_id", "long"))
        fields.append(_optional(144, "content_offset", "long"))
        fields.append(_optional(145, "content_size_in_bytes", "long"))
    return {"type": "record", "name": "r2", "fields": fields}


def entry_schema(version: int) -> dict[str, Any]:
    """A manifest's entry, of an unpartitioned table."""
    fields = [
        _required(0, "status", "int"),
        _optional(1, "snapshot_id", "long"),
        _optional(3, "sequence_number", "long"),
        _optional(4, "file_sequence_number", "long"),
        _required(2, "data_file", _data_file(version)),
    ]
    return {"type": "record", "name": "manifest_entry", "fields": fields}


def list_schema(version: int) -> dict[str, Any]:
    """A manifest list's record."""
    summary = {
        "type": "record",
        "name": "r508",
        "fields": [
            _required(509, "contains_null", "boolean"),
            _optional(518, "contains_nan", "boolean"),
            _optional(510, "lower_bound", "bytes"),
            _optional(511, "upper_bound", "bytes"),
        ],
    }
    numbers = {515: "sequence_number", 516: "min_sequence_number", 503: "added_snapshot_id"}
    files = {504: "added_files_count", 505: "existing_files_count", 506: "deleted_files_count"}
    rows = {512: "added_rows_count", 513: "existing_rows_count", 514: "deleted_rows_count"}
    fields = [
        _required(500, "manifest_path", "string"),
        _required(501, "manifest_length", "long"),
        _required(502, "partition_spec_id", "int"),
        _required(517, "content", "int"),
        *(_required(field_id, name, "long") for field_id, name in numbers.items()),
        *(_required(field_id, name, "int") for field_id, name in files.items()),
        *(_required(field_id, name, "long") for field_id, name in rows.items()),
        _optional(507, "partitions", _list(508, summary)),
        _optional(519, "key_metadata", "bytes"),
    ]
    if version >= 3:
        fields.append(_optional(520, "first_row_id", "long"))
    return {"type": "record", "name": "manifest_file", "fields": fields}


def manifest_header(
    version: int, content: str, table_schema: dict[str, Any], codec: str = "deflate"
) -> dict[str, bytes]:
    """All header keys of a manifest of an unpartitioned table."""
    keys = {
        "schema": json.dumps(table_schema),
        "partition-spec": "[]",
        "partition-spec-id": "0",
        "format-version": str(version),
        "content": content,
        "avro.schema": json.dumps(entry_schema(version)),
        "avro.codec": codec,
    }
    return {key: value.encode() for key, value in keys.items()}


def list_header(version: int, snapshot: dict[str, Any], codec: str = "deflate") -> dict[str, bytes]:
    """All header keys of a snapshot's manifest list."""
    keys = {
        "snapshot-id": str(snapshot["snapshot-id"]),
        "parent-snapshot-id": str(snapshot.get("parent-snapshot-id", "null")),
        "sequence-number": str(snapshot["sequence-number"]),
        "format-version": str(version),
        "avro.schema": json.dumps(list_schema(version)),
        "avro.codec": codec,
    }
    if version >= 3:
        keys["first-row-id"] = str(snapshot["first-row-id"])
    return {key: value.encode() for key, value in keys.items()}
