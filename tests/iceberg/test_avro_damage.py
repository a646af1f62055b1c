"""The walker on bytes and schemas that are wrong: an error of ours, never a crash, never a hang."""

import json
import random

import pytest
import zstandard

from bcn.errors import BcnError, MalformedFileError, UnsupportedTableError
from bcn.iceberg import avro, kernel
from bcn.iceberg.program import Shape, compile_program
from tests.support.avro_files import CODECS
from tests.support.walks import (
    FLOATS,
    KEYED,
    LONGS,
    NESTED,
    SYNC,
    container,
    record,
    small_file,
    walk,
    want,
)


@pytest.mark.parametrize("codec", CODECS)
def test_a_file_cut_anywhere_but_between_blocks_is_malformed(codec):
    data = small_file(codec)
    whole = avro.parse_container(data)
    between = {whole.header_end, *(whole.frames[:, 2] + 16).tolist()}
    assert len(between) == 3
    for size in range(len(data)):
        if size in between:
            continue
        with pytest.raises(MalformedFileError):
            walk(data[:size], want(0))


@pytest.mark.parametrize("codec", CODECS)
def test_no_change_of_bytes_does_worse_than_an_error_of_ours(codec):
    data = small_file(codec)
    rng = random.Random(codec)
    wanted = (want(0, shape=Shape.BYTES), want(1, shape=Shape.NUMBER), want(2, shape=Shape.BOUNDS))
    refused = 0
    for _ in range(1500):
        damaged = bytearray(data)
        for _ in range(rng.randrange(1, 4)):
            damaged[rng.randrange(len(data))] = rng.randrange(256)
        try:
            walk(bytes(damaged), *wanted).texts(wanted[0])
        except BcnError:
            refused += 1
    assert refused > 300


HUGE = avro.encode_long(2**62)
LOWEST = b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
NULLS = {"type": "array", "items": "null"}
LOOP = record(["null", "top"])
CHAIN = [
    {"type": "record", "name": f"r{n}", "fields": [{"name": x, "type": f"r{n - 1}"} for x in "ab"]}
    for n in range(1, 80)
]
WIDE = record(record("long", name="r0"), *CHAIN)


@pytest.mark.parametrize(
    ("schema", "payload", "reason"),
    [
        (record(LONGS), HUGE, kernel.TRUNCATED),
        (record(KEYED), HUGE, kernel.TRUNCATED),
        (record(FLOATS), HUGE, kernel.TRUNCATED),
        (record(NESTED), HUGE, kernel.TRUNCATED),
        (record({"type": "map", "values": "null"}), HUGE, kernel.TRUNCATED),
        (record(LONGS), LOWEST, kernel.BAD_COUNT),
        (record(NESTED), LOWEST, kernel.BAD_COUNT),
        (record(NULLS), HUGE, kernel.TRUNCATED),
        (record(LONGS), avro.encode_long(-1), kernel.TRUNCATED),
        (record(KEYED), b"\x04\x02\x7ea", kernel.TRUNCATED),
        (record(KEYED), b"\x04\x02\x01a", kernel.BAD_LENGTH),
        (record(KEYED), b"\x04\x80\x01\x01a", kernel.BAD_LENGTH),
        (record("string"), b"\x01", kernel.BAD_LENGTH),
        (record("long", "string"), b"\x00\x01", kernel.BAD_LENGTH),
        (record("long", "string"), b"\x00" + HUGE, kernel.TRUNCATED),
        (record("long", "string"), b"\x00\x80", kernel.TRUNCATED),
        (record(KEYED), b"\x02\x02\x80", kernel.TRUNCATED),
        (record("long"), b"\x80" * 10 + b"\x00", kernel.BAD_VARINT),
        (record("long"), b"\x00\x00", kernel.TRAILING),
        (record(["null", "long"]), b"\x04", kernel.BAD_BRANCH),
        (record(["null", "long"]), b"\x01", kernel.BAD_BRANCH),
        (record([]), b"\x00", kernel.BAD_COUNT),
        (LOOP, b"\x02" * 2000, kernel.TOO_DEEP),
        (record("top"), b"\x02" * 2000, kernel.BAD_COUNT),
        (WIDE, b"\x00" * 2000, kernel.BAD_COUNT),
        (record("null"), b"", kernel.BAD_COUNT),
        (record({"type": "fixed", "name": "f", "size": 9}), b"12345678", kernel.BAD_COUNT),
    ],
)
def test_hostile_bytes_end_in_a_reason(schema, payload, reason):
    shape = Shape.BYTES if schema == record("string") else Shape.ANY
    if schema == record("long"):
        shape = Shape.NUMBER
    with pytest.raises(MalformedFileError, match=kernel.REASONS[reason]):
        walk(container(schema, payload), want(0, shape=shape))


def test_an_array_of_nothing_may_be_as_long_as_it_likes():
    data = container(record(NULLS, "long"), HUGE + b"\x00\x0e")
    asked = want(1, shape=Shape.NUMBER)
    assert walk(data, asked).numbers(asked).tolist() == [7]


@pytest.mark.parametrize("count", [2**62, -1])
def test_a_block_cannot_hold_more_records_than_bytes(count):
    with pytest.raises(MalformedFileError, match="count is out of range"):
        walk(container(record("long"), b"\x00", count=count), want(0))


def test_a_wrong_sync_marker_is_malformed():
    data = container(record("long"), b"\x00")
    with pytest.raises(MalformedFileError, match="sync marker"):
        walk(data[:-1] + b"?", want(0))


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"Obj",
        b"PAR1",
        b"Obj\x01",
        b"Obj\x01\x01\x80" + bytes(40),
        b"Obj\x01" + b"\xff" * 12,
        b"Obj\x01\x02\x01",
        b"Obj\x01\x02\x04\xff\xfe\x00\x00" + bytes(16),
        b"Obj\x01\x00" + bytes(15),
        b"Obj\x01\x00" + bytes(16),
    ],
)
def test_a_header_that_is_none_is_malformed(head):
    with pytest.raises(MalformedFileError):
        walk(head, want(0))


def test_a_header_may_say_its_size_in_bytes():
    data = container(record("long"), b"\x0e")
    pairs_end = data.index(SYNC) - 1
    sized = b"Obj\x01\x03" + avro.encode_long(pairs_end - 5) + data[5:]
    asked = want(0, shape=Shape.NUMBER)
    assert walk(sized, asked).numbers(asked).tolist() == [7]


def test_an_encrypted_file_is_refused():
    with pytest.raises(UnsupportedTableError, match="encrypted"):
        avro.parse_container(b"AGS1" + bytes(100))


def test_an_unknown_codec_is_named():
    with pytest.raises(MalformedFileError, match="'lzo'") as caught:
        walk(container(record("long"), b"\x00", codec="lzo"), want(0))
    assert "zstandard" in caught.value.hint


@pytest.mark.parametrize("codec", [codec for codec in CODECS if codec != "null"])
def test_a_block_that_its_codec_cannot_unpack_is_malformed(codec):
    for payload in (b"", b"\xff\xff\xff\xff\xff\xff", b"abc"):
        with pytest.raises(MalformedFileError):
            walk(container(record("long"), payload, codec=codec), want(0))


@pytest.mark.parametrize(
    "schema",
    [
        b"",
        b"{",
        b"\xff",
        b"17",
        b'"long"',
        b"[" * 100_000,
        b'{"type": "record"}',
        b'{"type": "record", "name": "a", "fields": [3]}',
        b'{"type": "record", "name": "a", "fields": [{"name": "b", "type": "c"}]}',
        b'{"type": "record", "name": "a", "fields": [{"name": "b", "type": null}]}',
        json.dumps(record({"type": "fixed", "name": "f", "size": -1})).encode(),
        json.dumps(record({"type": "fixed", "name": "f", "size": "1"})).encode(),
        b'{"type": "record", "name": "a", "fields": [{"name": "b", "type": '
        + b'{"type": "array", "items": ' * 70
        + b'"int"'
        + b"}" * 70
        + b"}]}",
    ],
)
def test_a_schema_that_is_none_is_malformed(schema):
    with pytest.raises(MalformedFileError, match="schema"):
        compile_program(schema, ())


@pytest.mark.parametrize(
    ("kind", "shape"),
    [
        ("string", Shape.NUMBER),
        ("long", Shape.BYTES),
        (["null", "long", "string"], Shape.NUMBER),
        ("long", Shape.BOUNDS),
        (LONGS, Shape.BOUNDS),
        ({"type": "array", "items": record("bytes", "int", name="i")}, Shape.BOUNDS),
        ({"type": "map", "values": "bytes"}, Shape.BOUNDS),
    ],
)
def test_a_wanted_field_of_another_shape_is_malformed(kind, shape):
    with pytest.raises(MalformedFileError, match=r"field 0 \(unnamed\) is not"):
        compile_program(json.dumps(record(kind)).encode(), (want(0, shape=shape),))


def test_a_wanted_field_that_is_there_twice_is_malformed():
    schema = record("long", "long")
    schema["fields"][1]["field-id"] = 0
    with pytest.raises(MalformedFileError, match="twice"):
        compile_program(json.dumps(schema).encode(), (want(0),))


def test_texts_must_be_utf_8_and_fit_a_column(monkeypatch):
    asked = want(0, shape=Shape.BYTES)
    with pytest.raises(MalformedFileError, match="UTF-8"):
        walk(container(record("bytes"), b"\x02\xff"), asked).texts(asked)
    monkeypatch.setattr(avro, "_MOST_TEXT", 3)
    with pytest.raises(MalformedFileError, match="4 bytes of text"):
        walk(container(record("bytes"), b"\x08abcd"), asked).texts(asked)


def test_a_zstandard_stream_that_is_cut_is_malformed():
    payload = zstandard.ZstdCompressor().compress(bytes(range(200)))
    with pytest.raises(MalformedFileError, match="it ends too early"):
        walk(container(record("long"), payload[:-5], codec="zstandard"), want(0))
