"""Avro files written and read by fastavro: values as they are stored, in every codec."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from typing import Any
from unittest.mock import patch

import fastavro
import fastavro._read
import zstandard

CODECS = ("null", "deflate", "snappy", "zstandard", "bzip2", "xz")
_HEADER = fastavro.parse_schema({"type": "map", "values": "bytes"})


def write_avro(
    schema: Any,
    records: Iterable[Any],
    codec: str = "null",
    *,
    metadata: dict[str, str] | None = None,
    sync_interval: int = 16000,
) -> bytes:
    """A file with these records; a small interval makes a block of every record."""
    if codec == "zstandard":  # fastavro would want one more library
        plain = write_avro(schema, records, metadata=metadata, sync_interval=sync_interval)
        return _recode(plain, codec, zstandard.ZstdCompressor(write_content_size=False).compress)
    out = io.BytesIO()
    parsed = fastavro.parse_schema(schema)
    fastavro.writer(out, parsed, records, codec, sync_interval=sync_interval, metadata=metadata)
    return out.getvalue()


def read_avro(data: bytes) -> list[Any]:
    """All records, logical types left as the numbers and bytes that are stored."""
    if read_header(data)["avro.codec"] == b"zstandard":
        data = _recode(data, "null", _unpack)
    with patch.dict(fastavro._read.LOGICAL_READERS, clear=True):
        return list(fastavro.reader(io.BytesIO(data)))


def read_header(data: bytes) -> dict[str, bytes]:
    """What the header says, key by key."""
    return fastavro.schemaless_reader(io.BytesIO(data[4:]), _HEADER, None)


def encode(schema: Any, value: Any) -> bytes:
    """One value as fastavro writes it."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def change_blocks(data: bytes, old: bytes, new: bytes) -> bytes:
    """A file without a codec, some bytes of its blocks replaced; they have to be there once."""
    changed = _recode(data, "null", lambda payload: payload.replace(old, new))
    if len(changed) == len(data) or data.count(old) != 1:
        raise ValueError("nothing, or too much, to replace")
    return changed


def _unpack(packed: bytes) -> bytes:
    return zstandard.ZstdDecompressor().stream_reader(packed).read()


def _recode(data: bytes, codec: str, change: Callable[[bytes], bytes]) -> bytes:
    rest = io.BytesIO(data)
    magic = rest.read(4)
    header = fastavro.schemaless_reader(rest, _HEADER, None) | {"avro.codec": codec.encode()}
    sync = rest.read(16)
    parts = [magic, encode(_HEADER, header), sync]
    while rest.tell() < len(data):
        count = fastavro.schemaless_reader(rest, "long", None)
        payload = change(fastavro.schemaless_reader(rest, "bytes", None))
        parts += [encode("long", count), encode("bytes", payload), rest.read(16)]
    return b"".join(parts)
