"""Blocks of every size, packed well and badly, come back as they were."""

from __future__ import annotations

import random
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bcn.errors import MalformedFileError
from bcn.iceberg.codec import find_codec

DEFLATE = find_codec("deflate")
RANDOM = random.Random(5).randbytes(300_000)
BLOCKS = {
    "nothing": b"",
    "a byte": b"x",
    "most blocks": RANDOM[:40_000] + bytes(24_000),
    "as long as is expected": bytes(96 << 10),
    "longer by one": bytes((96 << 10) + 1),
    "random": RANDOM,
    "packed a thousandfold": bytes(5_000_000),
    "packed tenfold": RANDOM[:50_000] * 10,
}


def pack(plain: bytes, level: int) -> bytes:
    packer = zlib.compressobj(level, wbits=-15)
    return packer.compress(plain) + packer.flush()


@pytest.mark.parametrize("level", [0, 1, 9])
@pytest.mark.parametrize("block", BLOCKS)
def test_a_block_of_any_size_comes_back(block: str, level: int) -> None:
    plain = BLOCKS[block]
    assert DEFLATE.inflate(memoryview(pack(plain, level))) == plain
    assert DEFLATE.inflate(pack(plain, level) + b"rest") == plain
    assert DEFLATE.inflate(DEFLATE.deflate(plain)) == plain


@pytest.mark.parametrize("block", ["a byte", "most blocks", "random", "packed a thousandfold"])
def test_a_block_that_ends_early_is_damaged(block: str) -> None:
    packed = pack(BLOCKS[block], 9)
    for end in (0, 1, len(packed) // 2, len(packed) - 1):
        with pytest.raises(MalformedFileError, match="not valid deflate"):
            DEFLATE.inflate(packed[:end])


@given(st.binary(max_size=300))
def test_garbage_is_told_or_is_what_zlib_makes_of_it(garbage: bytes) -> None:
    reader = zlib.decompressobj(wbits=-15)
    try:
        expected = reader.decompress(garbage) + reader.flush()
    except zlib.error:
        expected = None
    if expected is None or not reader.eof:
        with pytest.raises(MalformedFileError):
            DEFLATE.inflate(garbage)
    else:
        assert DEFLATE.inflate(garbage) == expected
