"""The codecs of Avro blocks: bytes in, bytes out, under the names that `avro.codec` uses."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import cramjam
import deflate
import zstandard
from isal import igzip_lib

from bcn.errors import MalformedFileError

# Of isal's levels, on manifests (bench/walker.py): 0 writes a fifth more than 1, 2 and 3 at most
# one percent less. 1 writes about a tenth more than zlib's level 9, at many times its speed.
_DEFLATE_LEVEL = 1
_ZSTANDARD_LEVEL = 3
_BLOCK_BYTES = 96 << 10  # Java and its like end a block at 64,000 bytes
_MOST_PACKED = 4  # a larger block that is packed better than that is left to isal
_IsalError: type[Exception] = igzip_lib.IsalError  # type: ignore[assignment]  # its stub is wrong

_Inflate = Callable[[bytes | memoryview], bytes | bytearray]
_Deflate = Callable[[bytes | memoryview], bytes]


@dataclass(frozen=True, slots=True)
class Codec:
    """One way to pack blocks. `inflate` raises MalformedFileError for bytes not packed so."""

    inflate: _Inflate
    deflate: _Deflate


def find_codec(name: str) -> Codec:
    """The codec of that name. Raises MalformedFileError for one that Avro does not have."""
    codec = _CODECS.get(name)
    if codec is None:
        raise MalformedFileError(
            f"Avro codec {name!r} is not known", hint=f"known codecs: {', '.join(_CODECS)}"
        )
    return codec


def _checked(name: str, inflate: _Inflate) -> _Inflate:
    """Libraries raise what they like on bad bytes; callers get one class."""

    def checked(packed: bytes | memoryview) -> bytes | bytearray:
        try:
            return inflate(packed)
        except _PACKING_ERRORS as error:
            raise MalformedFileError(f"an Avro block is not valid {name}: {error}") from error

    return checked


# What follows the end of a deflate stream is ignored: fastavro leaves bytes of a checksum there.
def _inflate_deflate(packed: bytes | memoryview) -> bytes | bytearray:
    """By the fastest, which has to be told how long it may get; then by two that need not be."""
    with suppress(deflate.DeflateError):
        return deflate.deflate_decompress(packed, max(_BLOCK_BYTES, _MOST_PACKED * len(packed)))
    try:
        return igzip_lib.decompress(packed, flag=igzip_lib.DECOMP_DEFLATE)
    except (_IsalError, EOFError, ValueError):
        return zlib.decompress(packed, wbits=-15)  # a second opinion before calling it damaged


def _deflate_deflate(plain: bytes | memoryview) -> bytes:
    return igzip_lib.compress(plain, level=_DEFLATE_LEVEL, flag=igzip_lib.COMP_DEFLATE)


def _inflate_snappy(packed: bytes | memoryview) -> bytes:
    plain = bytes(cramjam.snappy.decompress_raw(packed[:-4]))
    if zlib.crc32(plain) != int.from_bytes(packed[-4:], "big"):
        raise ValueError("its checksum does not match")
    return plain


def _deflate_snappy(plain: bytes | memoryview) -> bytes:
    return bytes(cramjam.snappy.compress_raw(plain)) + zlib.crc32(plain).to_bytes(4, "big")


def _inflate_zstandard(packed: bytes | memoryview) -> bytes:
    """Streams may lack the size of their content, and may be several frames."""
    plain = []
    rest = bytes(packed)
    while rest:
        frame = zstandard.ZstdDecompressor().decompressobj()
        plain.append(frame.decompress(rest))
        if not frame.eof:
            raise ValueError("it ends too early")
        rest = frame.unused_data
    return b"".join(plain)


def _deflate_zstandard(plain: bytes | memoryview) -> bytes:
    return zstandard.ZstdCompressor(level=_ZSTANDARD_LEVEL).compress(plain)


_PACKING_ERRORS = (
    ValueError,
    OSError,
    EOFError,
    zlib.error,
    lzma.LZMAError,
    zstandard.ZstdError,
    cramjam.DecompressionError,
)
_CODECS = {
    "null": Codec(bytes, bytes),
    "deflate": Codec(_checked("deflate", _inflate_deflate), _deflate_deflate),
    "snappy": Codec(_checked("snappy", _inflate_snappy), _deflate_snappy),
    "zstandard": Codec(_checked("zstandard", _inflate_zstandard), _deflate_zstandard),
    "bzip2": Codec(_checked("bzip2", bz2.decompress), bz2.compress),
    "xz": Codec(_checked("xz", lzma.decompress), lzma.compress),
}
