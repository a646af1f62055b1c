"""Puffin footers: paths of deletion vectors move, blobs stay where they are."""

import json
import struct
from pathlib import Path

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bcn.errors import MalformedFileError, UnknownRootError
from bcn.iceberg.puffin import parse_footer, relocate_puffin
from bcn.iceberg.relocate import Move, Moves

REAL = (Path(__file__).parents[1] / "fixtures/deletes/spark.puffin").read_bytes()
MOVES = Moves([Move("/tmp/warehouse/db/puffin", "s3://other/d\u00e9p\u00f4t")])
BLOBS = bytes(range(200))


def puffin(footer, *, flags=0, blobs=BLOBS):
    payload = footer if isinstance(footer, bytes) else json.dumps(footer).encode()
    if flags & 1:
        payload = bytes(cramjam.lz4.compress(payload))
    return b"PFA1" + blobs + b"PFA1" + payload + struct.pack("<iI", len(payload), flags) + b"PFA1"


def vector(path, **more):
    properties = {"referenced-data-file": path, "cardinality": "3"}
    return {
        "type": "deletion-vector-v1",
        "offset": 4,
        "length": 9,
        "properties": properties,
        **more,
    }


def paths_of(data):
    blobs = parse_footer(data)["blobs"]
    return [blob["properties"]["referenced-data-file"] for blob in blobs]


def test_a_real_file_names_the_new_data_files_and_keeps_all_else():
    moved = relocate_puffin(REAL, MOVES)
    old = parse_footer(REAL)
    assert len(old["blobs"]) == 3
    assert paths_of(moved) == [MOVES.apply(path) for path in paths_of(REAL)]
    end = max(blob["offset"] + blob["length"] for blob in old["blobs"])
    assert moved[:end] == REAL[:end]
    assert b"/tmp/warehouse" not in moved
    for before, after in zip(old["blobs"], parse_footer(moved)["blobs"], strict=True):
        before["properties"].pop("referenced-data-file")
        after["properties"].pop("referenced-data-file")
        assert before == after


def test_a_real_file_comes_back_byte_for_byte():
    assert relocate_puffin(relocate_puffin(REAL, MOVES), MOVES.reversed()) == REAL


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abz"), inner, max_size=3),
    max_leaves=5,
)


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=4),
    JSON,
    st.binary(max_size=50),
    st.sampled_from([0, 1]),
)
def test_there_and_back_gives_the_same_footer_and_blobs(tails, unknown, blobs, flags):
    footer = {"x": unknown, "blobs": [vector(f"/a/{tail}", more=unknown) for tail in tails]}
    there = Moves([Move("/a", "gs://b/c")])
    data = puffin(footer, flags=flags, blobs=blobs)
    moved = relocate_puffin(data, there)
    assert paths_of(moved) == [f"gs://b/c/{tail}" for tail in tails]
    back = relocate_puffin(moved, there.reversed())
    assert list(parse_footer(back)) == ["x", "blobs"]
    assert parse_footer(back) == footer
    assert back[4 : 4 + len(blobs)] == blobs


def test_a_compressed_footer_is_read_and_written_plain():
    data = puffin({"blobs": [vector("/a/1")]}, flags=1)
    moved = relocate_puffin(data, Moves([Move("/a", "/b")]))
    assert parse_footer(data) == {"blobs": [vector("/a/1")]}
    assert b'"referenced-data-file":"/b/1"' in moved
    assert moved[-8:-4] == b"\0\0\0\0"
    assert moved[4 : 4 + len(BLOBS)] == BLOBS


def test_flags_other_than_compression_stay():
    data = puffin({"blobs": [vector("/a/1")]}, flags=0x0101)
    assert relocate_puffin(data, Moves([Move("/a", "/b")]))[-8:-4] == b"\0\1\0\0"


def test_numbers_that_bcn_does_not_know_keep_their_spelling():
    blob = json.dumps(vector("/a/1"))
    data = puffin(f'{{"blobs":[{blob}],"ndv":1.10,"x":1e400}}'.encode())
    assert b'"ndv":1.10,"x":1e400}' in relocate_puffin(data, Moves([Move("/a", "/b")]))


def test_a_bare_deletion_vector_is_left_alone():
    bare = b"\0\0\0\x10\xd1\xd3\x39\x64" + BLOBS
    assert relocate_puffin(bare, MOVES) is bare


@pytest.mark.parametrize(
    "blob",
    [
        {"type": "apache-datasketches-theta-v1", "properties": {"ndv": "7"}},
        {"type": "vendor"},
        {"type": "vendor", "properties": None},
    ],
)
@pytest.mark.parametrize("flags", [0, 1])
def test_statistics_are_left_alone(blob, flags):
    data = puffin({"blobs": [blob]}, flags=flags)
    assert relocate_puffin(data, MOVES) is data


def test_nothing_moves_without_a_move():
    data = puffin({"blobs": [vector("/a/1")]}, flags=1)
    assert relocate_puffin(data, Moves([Move("/a", "/a")])) is data


def test_an_unknown_root_is_an_error():
    with pytest.raises(UnknownRootError, match="/elsewhere/1"):
        relocate_puffin(puffin({"blobs": [vector("/elsewhere/1")]}), MOVES)


@pytest.mark.parametrize("length", range(4, len(REAL), 7))
def test_a_file_cut_short_is_malformed(length):
    with pytest.raises(MalformedFileError):
        relocate_puffin(REAL[:length], MOVES)


@pytest.mark.parametrize(
    "data",
    [
        puffin(b"not json"),
        puffin(b"[]"),
        puffin(b"{}"),
        puffin(b'{"blobs":{}}'),
        puffin(b'{"blobs":[1]}'),
        puffin(b'{"blobs":[{"properties":[]}]}'),
        puffin(b'{"blobs":[{"properties":{"referenced-data-file":7}}]}'),
        b"PFA1PFA1" + struct.pack("<iI", 1000, 0) + b"PFA1",
        b"PFA1PFA1" + struct.pack("<iI", -4, 0) + b"PFA1" + b"PFA1",
        b"PFA1PFA2{}" + struct.pack("<iI", 2, 0) + b"PFA1",
        b"PFA1PFA1{}" + struct.pack("<iI", 2, 1) + b"PFA1",
        b'PFA1{"blobs":[]}' + struct.pack("<iI", 12, 0) + b"PFA1",
        b"PFA1" + bytes(40),
    ],
)
def test_a_bad_footer_is_malformed(data):
    with pytest.raises(MalformedFileError):
        relocate_puffin(data, MOVES)
    with pytest.raises(MalformedFileError):
        parse_footer(data)


def test_a_file_without_magic_has_no_footer():
    with pytest.raises(MalformedFileError, match="no magic"):
        parse_footer(b"\0\0\0\x10\xd1\xd3\x39\x64")
