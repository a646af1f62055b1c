"""Avro container files read without logical types: any date, any number, any bytes in a string.

A second reader on purpose: it shares nothing with the one under test but the format.
"""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cramjam
import fastavro
import zstandard

_MAGIC = b"Obj\x01"
_HEADER = fastavro.parse_schema({"type": "map", "values": "bytes"})
_LONG = fastavro.parse_schema("long")


@dataclass(frozen=True)
class AvroFile:
    """A file's header keys, its records in order, and the bytes of its inflated blocks."""

    header: dict[str, bytes]
    records: list[dict[str, Any]]
    body: bytes

    @property
    def codec(self) -> str:
        return self.header.get("avro.codec", b"null").decode()

    def name_of(self, field_id: int) -> str | None:
        """What the writer called the field with this id, at any depth; None where it has none."""
        return _find_name(json.loads(self.header["avro.schema"]), field_id)


def read_avro(path: Path) -> AvroFile:
    """Reads a whole container file."""
    with path.open("rb") as file:
        if file.read(4) != _MAGIC:
            raise ValueError(f"not an Avro file: {path}")
        header = fastavro.schemaless_reader(file, _HEADER, None)
        sync = file.read(16)
        codec = header.get("avro.codec", b"null").decode()
        schema = fastavro.parse_schema(plain_schema(json.loads(header["avro.schema"])))
        blocks = list(_iter_blocks(file, codec, sync))
    records = [record for count, data in blocks for record in _records(schema, count, data)]
    return AvroFile(header, records, b"".join(data for _, data in blocks))


def _iter_blocks(file: Any, codec: str, sync: bytes) -> Iterator[tuple[int, bytes]]:
    while file.peek(1):
        count = fastavro.schemaless_reader(file, _LONG, None)
        size = fastavro.schemaless_reader(file, _LONG, None)
        data = file.read(size)
        if len(data) != size or file.read(16) != sync:
            raise ValueError(f"a block of {file.name} is cut short or its sync marker is wrong")
        yield count, decompress(codec, data)


def decompress(codec: str, data: bytes) -> bytes:
    """One block's bytes as they were before compression."""
    if codec == "deflate":
        return zlib.decompress(data, -15)
    if codec == "snappy":
        return bytes(cramjam.snappy.decompress_raw(data[:-4]))
    if codec == "zstandard":
        return zstandard.ZstdDecompressor().decompressobj().decompress(data)
    if codec == "null":
        return data
    raise ValueError(f"unknown Avro codec: {codec}")


def _records(schema: Any, count: int, data: bytes) -> Iterator[dict[str, Any]]:
    file = io.BytesIO(data)
    for _ in range(count):
        yield fastavro.schemaless_reader(
            file, schema, None, handle_unicode_errors="surrogateescape"
        )
    if file.tell() != len(data):
        raise ValueError("a block has bytes after its last record")


def plain_schema(schema: Any) -> Any:
    """The schema without logical types, so that values come out as they are stored."""
    if isinstance(schema, dict):
        return {key: plain_schema(value) for key, value in schema.items() if key != "logicalType"}
    if isinstance(schema, list):
        return [plain_schema(item) for item in schema]
    return schema


def _find_name(schema: Any, field_id: int) -> str | None:
    if isinstance(schema, list):
        found = (_find_name(item, field_id) for item in schema)
        return next((name for name in found if name), None)
    if not isinstance(schema, dict):
        return None
    for field in schema.get("fields", []):
        if field.get("field-id") == field_id:
            return str(field["name"])
    inner = [field["type"] for field in schema.get("fields", [])]
    return _find_name([*inner, schema.get("items"), schema.get("type")], field_id)
