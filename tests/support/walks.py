"""Short ways to schemas, files made by hand and walks over them."""

from __future__ import annotations

import json
from typing import Any

from bcn.iceberg import avro
from bcn.iceberg.program import Shape, Step, Wanted
from tests.support.avro_files import encode, write_avro

SYNC = bytes(range(16))


def want(field_id: int, name: str = "unnamed", shape: Shape = Shape.ANY) -> Wanted:
    return Wanted((Step(field_id, (name,)),), shape)


def record(*types: Any, name: str = "top") -> dict[str, Any]:
    fields = [
        {"name": f"f{place}", "type": kind, "field-id": place} for place, kind in enumerate(types)
    ]
    return {"type": "record", "name": name, "fields": fields}


LONGS = {"type": "array", "items": "long"}
FLOATS = {"type": "array", "items": "float"}
NESTED = {"type": "array", "items": {"type": "array", "items": ["null", "string"]}}
KEYED = {"type": "array", "items": record("int", "bytes", name="item")}


def container(schema: Any, payload: bytes, count: int = 1, codec: str = "null") -> bytes:
    """An Avro file with one block made by hand, for bytes that no writer would write."""
    header = {"avro.schema": json.dumps(schema).encode(), "avro.codec": codec.encode()}
    head = b"Obj\x01" + encode({"type": "map", "values": "bytes"}, header) + SYNC
    return head + encode("long", count) + encode("bytes", payload) + SYNC


def small_file(codec: str) -> bytes:
    """Two blocks of one record each."""
    schema = record("string", ["null", "long"], KEYED, {"type": "map", "values": "double"})
    row = {"f0": "path", "f1": 5, "f2": [{"f0": 1, "f1": b"b"}], "f3": {"k": 1.5}}
    return write_avro(schema, [row, row | {"f1": None}], codec, sync_interval=1)


def walk(data: bytes, *wanted: Wanted) -> avro.Walk:
    return avro.walk_file(avro.parse_container(data), wanted)
