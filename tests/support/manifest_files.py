"""Manifests and manifest lists of all format versions, as Iceberg's writers shape them."""

from __future__ import annotations

from typing import Any

from tests.support.avro_files import write_avro

ROOT = "s3://b/t"
FILE_PATH_ID = 2147483546
POSITION_ID = 2147483545


def field(field_id: int, name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "field-id": field_id}


def optional(field_id: int, name: str, kind: Any, *, null_last: bool = False) -> dict[str, Any]:
    return field(field_id, name, [kind, "null"] if null_last else ["null", kind])


def id_map(field_id: int, name: str, key: int, value: int, kind: str, *, null_last: bool) -> Any:
    pair = [field(key, "key", "int"), field(value, "value", kind)]
    items = {"type": "record", "name": f"k{key}_v{value}", "fields": pair}
    array = {"type": "array", "items": items, "logicalType": "map"}
    return optional(field_id, name, array, null_last=null_last)


def partition_schema() -> dict[str, Any]:
    """One field of each type that partitions can have, names sanitised as Iceberg does."""
    decimal = {"type": "fixed", "name": "dec", "size": 4, "logicalType": "decimal"}
    uuid = {"type": "fixed", "name": "uuid_fixed", "size": 16, "logicalType": "uuid"}
    time = {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True}
    fields = [
        optional(1000, "day", {"type": "int", "logicalType": "date"}),
        optional(1001, "price", {**decimal, "precision": 9, "scale": 2}),
        optional(1002, "_x23id", uuid),
        optional(1003, "blob", "bytes"),
        optional(1004, "at", time),
        optional(1005, "flag", "boolean"),
        optional(1006, "ratio", "double"),
        optional(1007, "score", "float"),
        optional(1008, "text", "string"),
    ]
    return {"type": "record", "name": "r102", "fields": fields}


def entry_schema(
    version: int, *, null_last: bool = False, extra: tuple[Any, ...] = ()
) -> dict[str, Any]:
    """The schema of manifest entries; `extra` fields stand for those of a later version."""
    maps = [
        id_map(108, "column_sizes", 117, 118, "long", null_last=null_last),
        id_map(109, "value_counts", 119, 120, "long", null_last=null_last),
        id_map(110, "null_value_counts", 121, 122, "long", null_last=null_last),
        id_map(137, "nan_value_counts", 138, 139, "long", null_last=null_last),
        id_map(125, "lower_bounds", 126, 127, "bytes", null_last=null_last),
        id_map(128, "upper_bounds", 129, 130, "bytes", null_last=null_last),
    ]
    data_file = [
        *([field(134, "content", "int")] if version > 1 else []),
        field(100, "file_path", "string"),
        field(101, "file_format", "string"),
        field(102, "partition", partition_schema()),
        field(103, "record_count", "long"),
        field(104, "file_size_in_bytes", "long"),
        *([field(105, "block_size_in_bytes", "long")] if version == 1 else []),
        *maps,
        optional(131, "key_metadata", "bytes", null_last=null_last),
        optional(132, "split_offsets", {"type": "array", "items": "long", "element-id": 133}),
        optional(135, "equality_ids", {"type": "array", "items": "int", "element-id": 136}),
        optional(140, "sort_order_id", "int"),
    ]
    if version == 3:
        data_file += [
            optional(142, "first_row_id", "long", null_last=null_last),
            optional(144, "content_offset", "long"),
            optional(145, "content_size_in_bytes", "long"),
        ]
    if version > 1:
        data_file.append(optional(143, "referenced_data_file", "string", null_last=null_last))
    numbers = [
        optional(3, "sequence_number", "long", null_last=null_last),
        optional(4, "file_sequence_number", "long", null_last=null_last),
    ]
    fields = [
        field(0, "status", "int"),
        field(1, "snapshot_id", "long") if version == 1 else optional(1, "snapshot_id", "long"),
        *(numbers if version > 1 else []),
        field(2, "data_file", {"type": "record", "name": "r2", "fields": [*data_file, *extra]}),
    ]
    return {"type": "record", "name": "manifest_entry", "fields": fields}


PARTITION = {
    "day": -800_000,  # before year 1
    "price": b"\x00\x00\x30\x39",
    "_x23id": bytes(range(16)),
    "blob": b"\xff\x00",
    "at": 2**62,  # after year 9999
    "flag": True,
    "ratio": -0.0,
    "score": 1.5,
    "text": "s3://b/t/not a path",
}


def entry(path: str, status: int = 1, **values: Any) -> dict[str, Any]:
    """An entry with all that every version requires; `values` go where they belong."""
    top = {"snapshot_id": 5, "sequence_number": 3, "file_sequence_number": 2}
    data_file = {
        "content": 0,
        "file_path": path,
        "file_format": "PARQUET",
        "partition": PARTITION,
        "record_count": 10,
        "file_size_in_bytes": 1234,
        "block_size_in_bytes": 67108864,
        **{key: value for key, value in values.items() if key not in top},
    }
    return {"status": status, "data_file": data_file} | {
        key: values.get(key, default) for key, default in top.items()
    }


def pairs(values: dict[int, Any]) -> list[dict[str, Any]]:
    """A map with numbers as keys, as Avro has to write it."""
    return [{"key": key, "value": value} for key, value in values.items()]


def data_entries(version: int) -> list[dict[str, Any]]:
    """Entries with all that a data manifest can hold, null and explicit alike."""
    numbers = {i: i * 1000 for i in range(1, 30)}
    looks_like_a_path = pairs({1: b"s3://b/t/data/x", 2: b"\x00\xff", FILE_PATH_ID: b"s3://b/t/y"})
    entries = [
        entry(f"{ROOT}/data/00000.parquet"),
        entry(
            f"{ROOT}/data/p=1/emoji-\U0001f600 %20#?+.parquet",
            status=1,
            column_sizes=pairs(numbers),
            value_counts=pairs({}),
            null_value_counts=pairs({1: 0}),
            lower_bounds=looks_like_a_path,
            upper_bounds=looks_like_a_path,
            split_offsets=[4, 2**40],
            sort_order_id=0,
            sequence_number=-1,
        ),
        entry(f"{ROOT}", file_format="orc", record_count=2**62, file_size_in_bytes=0),
        entry(f"{ROOT}/data//tombstone.avro", status=2, file_format="Avro", snapshot_id=2**63 - 1),
    ]
    if version > 1:
        entries.append(
            entry(
                f"{ROOT}/data/inherits.parquet",
                snapshot_id=None,
                sequence_number=None,
                file_sequence_number=None,
            )
        )
        entries.append(entry(f"{ROOT}/data/added.parquet", sequence_number=7, first_row_id=100))
    return entries


HEADER = {
    "schema": '{"type":"struct","fields":[]}',
    "iceberg.schema": '{"type":"struct","schema-id":0,"fields":[]}',
    "partition-spec": "[]",
    "partition-spec-id": "0",
    "format-version": "2",
    "content": "data",
    "a key of no spec": "kept \u00e9",
}


def manifest(entries: list[Any], version: int = 2, codec: str = "deflate", **options: Any) -> bytes:
    """A manifest file; `content` in options sets the header's."""
    content = options.pop("content", "data")
    interval = options.pop("sync_interval", 16000)
    metadata = HEADER | {"content": content, "format-version": str(version)}
    schema = entry_schema(version, **options)
    return write_avro(schema, entries, codec, metadata=metadata, sync_interval=interval)


def list_schema(version: int) -> dict[str, Any]:
    """The schema of manifest list rows; counts have their older names in v1."""
    bounds = [
        field(509, "contains_null", "boolean"),
        optional(518, "contains_nan", "boolean"),
        optional(510, "lower_bound", "bytes"),
        optional(511, "upper_bound", "bytes"),
    ]
    summary = {"type": "record", "name": "r508", "fields": bounds}
    summaries = {"type": "array", "items": summary, "element-id": 508}
    word = "data_files" if version == 1 else "files"
    newer = [
        field(517, "content", "int"),
        field(515, "sequence_number", "long"),
        field(516, "min_sequence_number", "long"),
    ]
    count = optional if version == 1 else field
    fields = [
        field(500, "manifest_path", "string"),
        field(501, "manifest_length", "long"),
        field(502, "partition_spec_id", "int"),
        *(newer if version > 1 else []),
        optional(503, "added_snapshot_id", "long")
        if version == 1
        else field(503, "added_snapshot_id", "long"),
        count(504, f"added_{word}_count", "int"),
        count(505, f"existing_{word}_count", "int"),
        count(506, f"deleted_{word}_count", "int"),
        optional(507, "partitions", summaries),
        optional(519, "key_metadata", "bytes"),
        *([optional(520, "first_row_id", "long")] if version == 3 else []),
    ]
    return {"type": "record", "name": "manifest_file", "fields": fields}


def list_row(path: str, version: int = 2, **values: Any) -> dict[str, Any]:
    word = "data_files" if version == 1 else "files"
    summary = {"contains_null": False, "contains_nan": None, "lower_bound": b"s3://b/t"}
    return {
        "manifest_path": path,
        "manifest_length": 7000,
        "partition_spec_id": 1,
        "content": 0,
        "sequence_number": 9,
        "min_sequence_number": 2,
        "added_snapshot_id": 77,
        f"added_{word}_count": 4,
        f"existing_{word}_count": 5,
        f"deleted_{word}_count": 6,
        "partitions": [summary | {"upper_bound": b"s3://b/t"}],
        "first_row_id": None,
        **values,
    }


def manifest_list(rows: list[Any], version: int = 2, codec: str = "deflate") -> bytes:
    metadata = {"snapshot-id": "77", "parent-snapshot-id": "null", "format-version": str(version)}
    return write_avro(list_schema(version), rows, codec, metadata=metadata)
