"""Partitions of type fixed: Java writes a length ahead of them that the schema does not name."""

from __future__ import annotations

import io
from pathlib import Path

import fastavro
import pytest

from bcn.errors import MalformedFileError
from bcn.iceberg.avro import parse_container, walk_file
from bcn.iceberg.manifest import decode_manifest, relocate_manifest
from bcn.iceberg.program import Shape, Step, Wanted
from bcn.iceberg.relocate import Move, Moves

JAVA = Path(__file__).parent.parent / "fixtures/manifests/java-fixed-partition.avro"
NUMBER = Wanted((Step(2, ("n",)),), Shape.NUMBER)


def avro(*values: tuple[bytes, int], bytes_as: str = "fixed") -> bytes:
    """Records of a fixed and a number; `bytes` writes what a prefixed fixed looks like."""
    fixed = {"type": "fixed", "name": "f4", "size": 4}
    schema = {
        "type": "record",
        "name": "r",
        "fields": [
            {"name": "f", "type": fixed if bytes_as == "fixed" else "bytes", "field-id": 1},
            {"name": "n", "type": "long", "field-id": 2},
        ],
    }
    out = io.BytesIO()
    fastavro.writer(out, schema, [{"f": value, "n": number} for value, number in values])
    return out.getvalue()


def claim_fixed(data: bytes) -> bytes:
    """Bytes in a file whose schema says that they are fixed."""
    old, new = b'"type": "bytes"', b'"type": {"type": "fixed", "name": "f4", "size": 4}'
    container = parse_container(data)
    schema = container.schema
    changed = schema.replace(old, new)
    assert changed != schema
    start = data.index(schema)
    head = data[: start - 2 if len(schema) > 63 else start - 1]
    return head + _length(len(changed)) + changed + data[start + len(schema) :]


def _length(value: int) -> bytes:
    value <<= 1
    return bytes([value & 0x7F | 0x80, value >> 7])


def numbers(data: bytes) -> list[int]:
    return walk_file(parse_container(data), (NUMBER,)).numbers(NUMBER).tolist()


def test_a_manifest_of_javas_writer_is_read_and_moved() -> None:
    data = JAVA.read_bytes()
    entries = decode_manifest(data)
    assert entries.record_count.tolist() == [10, 11, 12, 13, 14]
    assert entries.file_size_bytes.tolist() == [100, 101, 102, 103, 104]
    moved = relocate_manifest(data, Moves([Move("/tmp/fx/w/fixedtable", "/elsewhere")]), {})
    assert decode_manifest(moved).file_path[0].as_py() == "/elsewhere/data/a10.parquet"
    assert decode_manifest(moved).record_count.tolist() == [10, 11, 12, 13, 14]


def test_fixed_values_as_avro_writes_them_are_read() -> None:
    assert numbers(avro((b"\x01\x02\x03\x04", 7), (b"\xff\xff\xff\xff", 8))) == [7, 8]


def test_fixed_values_with_their_length_ahead_are_read() -> None:
    data = claim_fixed(avro((b"\x01\x02\x03\x04", 7), (b"\xff\xff\xff\xff", 8), bytes_as="bytes"))
    assert numbers(data) == [7, 8]


def test_a_length_ahead_of_one_value_only_is_data() -> None:
    values = ((b"\x08\x01\x02\x03", 7), (b"\x01\x02\x03\x04", 8))
    assert numbers(avro(*values)) == [7, 8]


def test_a_file_that_fits_neither_way_is_malformed() -> None:
    whole = avro((b"\x01\x02\x03\x04", 7))
    damaged = bytearray(whole)
    damaged[-17] = 0x80  # the number never ends
    with pytest.raises(MalformedFileError):
        numbers(bytes(damaged))


def test_items_without_bytes_are_read_as_avro_says() -> None:
    items = {"type": "array", "items": {"type": "fixed", "name": "f0", "size": 0}}
    fields = [
        {"name": "f", "type": items, "field-id": 1},
        {"name": "n", "type": "long", "field-id": 2},
    ]
    out = io.BytesIO()
    schema = {"type": "record", "name": "r", "fields": fields}
    fastavro.writer(out, schema, [{"f": [b"", b""], "n": 7}, {"f": [], "n": 8}])
    assert numbers(out.getvalue()) == [7, 8]
