"""The walker against fastavro: any schema, any codec, and splices."""

import os
import subprocess
import sys

import numpy as np
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bcn.iceberg import avro, kernel
from bcn.iceberg.program import Shape, Step, Wanted, compile_program
from tests.support.avro_files import CODECS, encode, read_avro, write_avro
from tests.support.walks import (
    FLOATS,
    KEYED,
    LONGS,
    NESTED,
    container,
    record,
    small_file,
    walk,
    want,
)

# Random schemas and values

PRIMITIVES = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "bytes": st.binary(max_size=200),
    "string": st.text(max_size=90),
}


def type_trees():
    """Types without names; `named` numbers those that need one."""
    leaves = st.one_of(
        st.sampled_from(sorted(PRIMITIVES)),
        st.integers(0, 20).map(lambda size: {"type": "fixed", "size": size}),
        st.integers(1, 70).map(
            lambda n: {"type": "enum", "symbols": [f"S{place}" for place in range(n)]}
        ),
    )

    def grow(inner):
        return st.one_of(
            inner.map(lambda part: {"type": "array", "items": part}),
            inner.map(lambda part: {"type": "map", "values": part}),
            st.lists(inner, max_size=4).map(lambda parts: record(*parts)),
            st.lists(inner, min_size=1, max_size=4).map(distinct),
        )

    return st.recursive(leaves, grow, max_leaves=12)


def distinct(parts):
    """A union: no unions in it, and one of each unnamed type."""
    found = {}
    for part in parts:
        if not isinstance(part, list):
            kind = part if isinstance(part, str) else part["type"]
            found.setdefault(kind if kind not in ("record", "fixed", "enum") else id(part), part)
    return list(found.values()) or ["null"]


def named(tree, numbers):
    if isinstance(tree, list):
        return [named(part, numbers) for part in tree]
    if isinstance(tree, str):
        return tree
    tree = {**tree, "name": f"n{next(numbers)}"}
    for part in ("items", "values"):
        if part in tree:
            tree[part] = named(tree[part], numbers)
    if "fields" in tree:
        tree["fields"] = [{**f, "type": named(f["type"], numbers)} for f in tree["fields"]]
    return tree


def values(schema):
    if isinstance(schema, list):
        return st.one_of([values(part) for part in schema])
    if isinstance(schema, str):
        return PRIMITIVES[schema]
    kind = schema["type"]
    if kind == "array":
        return st.lists(values(schema["items"]), max_size=12)
    if kind == "map":
        return st.dictionaries(st.text(max_size=5), values(schema["values"]), max_size=3)
    if kind == "fixed":
        return st.binary(min_size=schema["size"], max_size=schema["size"])
    if kind == "enum":
        return st.sampled_from(schema["symbols"])
    return st.fixed_dictionaries({f["name"]: values(f["type"]) for f in schema["fields"]})


@st.composite
def files(draw):
    parts = draw(st.lists(type_trees(), min_size=1, max_size=5))
    schema = named(record(*parts), iter(range(10**6)))
    sized = {**schema, "fields": [*schema["fields"], {"name": "last", "type": "string"}]}
    return sized, draw(st.lists(values(sized), max_size=4))


@pytest.mark.long
@settings(max_examples=150, suppress_health_check=list(HealthCheck))
@given(files(), st.sampled_from(CODECS), st.sampled_from([1, 16000]))
def test_every_field_of_any_schema_lies_where_fastavro_puts_it(file, codec, sync_interval):
    schema, records = file
    data = write_avro(schema, records, codec, sync_interval=sync_interval)
    fields = schema["fields"]
    wanted = tuple(want(place, field["name"]) for place, field in enumerate(fields))
    result = walk(data, *wanted)
    assert len(result.spans) == len(records)
    for row, each in enumerate(records):
        for field, asked in zip(fields, wanted, strict=True):
            expected = encode(field["type"], each[field["name"]])
            start, end, _ = result.spans_of(asked)[row].tolist()
            if isinstance(field["type"], list):
                branch, expected = expected[0] >> 1, expected[1:]
                if field["type"][branch] == "null":
                    assert start == -1
                    continue
            assert bytes(result.blocks.buffer[start:end]) == expected


@given(st.lists(st.tuples(PRIMITIVES["long"], PRIMITIVES["string"]), max_size=20))
def test_numbers_and_texts_are_what_was_written(pairs):
    schema = record(["long", "null"], "string")
    data = write_avro(schema, [{"f0": number, "f1": text} for number, text in pairs])
    number, text = want(0, shape=Shape.NUMBER), want(1, shape=Shape.BYTES)
    result = walk(data, number, text)
    assert result.numbers(number).tolist() == [pair[0] for pair in pairs]
    assert result.texts(text).to_pylist() == [pair[1] for pair in pairs]


def test_records_may_hold_themselves_and_refer_to_names_in_namespaces():
    tree = {
        "type": "record",
        "name": "a.b.tree",
        "fields": [
            {"name": "kind", "type": {"type": "enum", "name": "kind", "symbols": ["X", "Y"]}},
            {"name": "mark", "type": {"type": "fixed", "name": "c.mark", "size": 3}},
            {"name": "parts", "type": {"type": "array", "items": "tree"}},
            {"name": "next", "type": ["null", "a.b.tree"]},
            {"name": "kind2", "type": "kind"},
            {"name": "mark2", "type": "c.mark"},
        ],
    }
    leaf = {"kind": "X", "mark": b"123", "parts": [], "next": None, "kind2": "Y", "mark2": b"456"}
    value = leaf | {"parts": [leaf, leaf | {"next": leaf}], "next": leaf | {"parts": [leaf]}}
    schema = record(tree, ["string", "null"], "a.b.tree")
    data = write_avro(schema, [{"f0": value, "f1": "here", "f2": value}] * 3)
    text, last = want(1, shape=Shape.BYTES), want(2)
    result = walk(data, text, last)
    assert result.texts(text).to_pylist() == ["here"] * 3
    start, end, _ = result.spans_of(last)[2].tolist()
    assert bytes(result.blocks.buffer[start:end]) == encode(tree, value)


def test_a_wanted_record_may_be_named_before_it_is_used():
    inner = record("long", "string", name="inner")
    schema = record({"type": "map", "values": inner}, ["inner", "null"])
    wanted = Wanted((Step(1, ("x",)), Step(1, ("y",))), Shape.BYTES)
    data = write_avro(schema, [{"f0": {}, "f1": {"f0": 7, "f1": "deep"}}, {"f0": {}, "f1": None}])
    assert walk(data, wanted).texts(wanted).to_pylist() == ["deep", None]


def test_a_record_of_nothing_takes_no_bytes_wherever_it_is_named():
    schema = record(record("null", name="none"), "none", {"type": "array", "items": "none"}, "long")
    data = container(schema, b"\x0a\x00\x0e")
    asked = want(3, shape=Shape.NUMBER)
    assert walk(data, asked).numbers(asked).tolist() == [7]


def test_a_field_without_an_id_is_found_by_name_and_one_with_another_id_is_not():
    schema = record("long", "long")
    del schema["fields"][0]["field-id"]
    data = write_avro(schema, [{"f0": 5, "f1": 6}])
    by_name, other = want(77, "f0", Shape.NUMBER), want(78, "f1", Shape.NUMBER)
    result = walk(data, by_name, other)
    assert result.numbers(by_name).tolist() == [5]
    assert result.is_null(other).tolist() == [True]


ITEM = {"type": "array", "items": record("string", name="item")}


@pytest.mark.parametrize(
    ("kind", "items"),
    [
        (ITEM, [b"\x02a", b"\x04bc"]),
        (KEYED, [b"\x02\x04hi", b"\xac\x02\x00"]),
        (LONGS, [b"\x02", b"\xff\xff\x01"]),
        (FLOATS, [b"1234", b"5678"]),
        (NESTED, [b"\x00", b"\x04\x00\x02\x02x\x00"]),
        ({"type": "map", "values": "long"}, [b"\x02k\x04", b"\x02l\x06"]),
    ],
)
def test_array_blocks_may_say_their_size_in_bytes(kind, items):
    body = b"".join(items)
    sized = avro.encode_long(-2) + avro.encode_long(len(body)) + body
    plain = avro.encode_long(2) + body
    data = container(record(kind, "long"), sized + plain + b"\x00" + b"\x0e")
    asked = want(1, shape=Shape.NUMBER)
    assert walk(data, asked).numbers(asked).tolist() == [7]


# Splicing


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("sync_interval", [1, 16000])
def test_a_splice_keeps_header_blocks_and_all_other_bytes(codec, sync_interval):
    schema = record("string", "long", LONGS)
    records = [{"f0": "x" * place, "f1": place, "f2": [place] * 40} for place in range(50)]
    metadata = {"content": "data", "not-in-the-spec": "\u00e9"}
    data = write_avro(schema, records, codec, sync_interval=sync_interval, metadata=metadata)
    before = avro.parse_container(data)
    asked = want(1, shape=Shape.NUMBER)
    result = avro.walk_file(before, (asked,))
    edits = avro.make_edits(
        (start, end, avro.encode_long(-(10**12))) for start, end, _ in result.spans_of(asked)
    )
    out = avro.splice_file(before, result.blocks, [edits])
    after = avro.parse_container(out)
    assert out[: before.header_end] == data[: before.header_end]
    assert after.frames[:, 0].tolist() == before.frames[:, 0].tolist()
    assert read_avro(out) == [each | {"f1": -(10**12)} for each in records]


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_a_block_of_no_records_stays_as_it_is(codec):
    data = container(record("long"), b"", count=0, codec=codec)
    before = avro.parse_container(data)
    result = avro.walk_file(before, (want(0),))
    assert result.spans.shape == (0, 1, 3)
    assert avro.splice_file(before, result.blocks, [avro.make_edits([])]) == data


def test_zstandard_streams_may_lack_a_size_and_be_several_frames():
    packer = zstandard.ZstdCompressor(write_content_size=False)
    payload = packer.compress(b"\x02\x04") + packer.compress(b"\x06")
    asked = want(0, shape=Shape.NUMBER)
    data = container(record("long"), payload, count=3, codec="zstandard")
    assert walk(data, asked).numbers(asked).tolist() == [1, 2, 3]


def test_arrays_are_not_kept_after_a_walk():
    container_ = avro.parse_container(small_file("deflate"))
    blocks = avro.inflate(container_)
    program = compile_program(container_.schema, (want(0),))
    avro.walk_blocks(blocks, program)
    before = sys.getrefcount(blocks.buffer), sys.getrefcount(blocks.extents)
    for _ in range(50):
        avro.walk_blocks(blocks, program)
    assert (sys.getrefcount(blocks.buffer), sys.getrefcount(blocks.extents)) == before


def test_the_loops_run_uncompiled_too(tmp_path):
    file = tmp_path / "small.avro"
    file.write_bytes(small_file("deflate"))
    script = (
        "import sys, pathlib\n"
        "from bcn.iceberg import avro, kernel\n"
        "from bcn.iceberg.program import Shape, Step, Wanted\n"
        "assert not hasattr(kernel.walk, 'signatures')\n"
        "wanted = Wanted((Step(0, ('f0',)),), Shape.BYTES)\n"
        "data = pathlib.Path(sys.argv[1]).read_bytes()\n"
        "walk = avro.walk_file(avro.parse_container(data), (wanted,))\n"
        "print(walk.texts(wanted).to_pylist())\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script, str(file)],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "['path', 'path']\n"


def test_numbers_are_written_as_fastavro_writes_them():
    for value in (0, -1, 1, 63, 64, -64, -65, 2**31, -(2**31), 2**63 - 1, -(2**63)):
        assert avro.encode_long(value) == encode("long", value)
        assert kernel.read_long(np.frombuffer(encode("long", value), np.uint8), 0, 10)[0] == value
