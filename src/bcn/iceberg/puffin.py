"""Puffin files: the footer of deletion vectors names the data file that each of them belongs to.

Layout: magic, blobs, magic, payload, payload size, flags, magic. Only the payload is ever changed,
so the blobs stay where manifests say they are.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import cramjam

from bcn.errors import MalformedFileError
from bcn.iceberg.metadata import parse_json, render_json
from bcn.iceberg.relocate import Moves
from bcn.model import Json

_MAGIC = b"PFA1"
_TAIL = struct.Struct("<iI4s")
_COMPRESSED = 1
_REFERENCED = "referenced-data-file"


@dataclass(frozen=True, slots=True)
class _Footer:
    position: int
    payload: bytes
    flags: int


def relocate_puffin(data: bytes, moves: Moves) -> bytes:
    """The file with its deletion vectors' data files moved; the very bytes if nothing moves.

    A file without the magic is a bare deletion vector, as DuckDB writes it: it names no file.
    Raises UnknownRootError for a data file without a move, MalformedFileError for a bad footer.
    """
    if not data.startswith(_MAGIC):
        return data
    footer = _read_footer(data)
    document = _parse_payload(footer.payload)
    moved = {**document, "blobs": [_relocate_blob(blob, moves) for blob in document["blobs"]]}
    if moved == document:
        return data
    payload = render_json(moved)
    tail = _TAIL.pack(len(payload), footer.flags & ~_COMPRESSED, _MAGIC)
    return data[: footer.position] + _MAGIC + payload + tail


def parse_footer(data: bytes) -> Json:
    """The footer's document. Raises MalformedFileError."""
    if not data.startswith(_MAGIC):
        raise MalformedFileError("not a Puffin file: no magic at its start")
    return _parse_payload(_read_footer(data).payload)


def _read_footer(data: bytes) -> _Footer:
    if len(data) < 2 * len(_MAGIC) + _TAIL.size:
        raise MalformedFileError(f"a Puffin file cannot have {len(data)} bytes")
    end = len(data) - _TAIL.size
    size, flags, magic = _TAIL.unpack_from(data, end)
    position = end - size - len(_MAGIC)
    if magic != _MAGIC or size < 0 or position < len(_MAGIC):
        raise MalformedFileError("a Puffin file without a whole footer")
    if not data.startswith(_MAGIC, position):
        raise MalformedFileError("a Puffin file without the magic before its footer")
    payload = data[end - size : end]
    return _Footer(position, _decompress(payload) if flags & _COMPRESSED else payload, flags)


def _decompress(payload: bytes) -> bytes:
    try:
        return bytes(cramjam.lz4.decompress(payload))
    except cramjam.DecompressionError as error:
        raise MalformedFileError(f"a Puffin footer that is not LZ4: {error}") from error


def _parse_payload(payload: bytes) -> Json:
    document: Json = parse_json(payload)
    blobs = document.get("blobs") if isinstance(document, dict) else None
    if not isinstance(blobs, list) or not all(_is_blob(blob) for blob in blobs):
        raise MalformedFileError("a Puffin footer that does not list its blobs")
    return document


def _is_blob(blob: object) -> bool:
    if not isinstance(blob, dict):
        return False
    properties = blob.get("properties", {})
    if properties is None:
        return True
    return isinstance(properties, dict) and isinstance(properties.get(_REFERENCED, ""), str)


def _relocate_blob(blob: Json, moves: Moves) -> Json:
    properties = blob.get("properties") or {}
    if _REFERENCED not in properties:
        return blob
    moved = {**properties, _REFERENCED: moves.apply(properties[_REFERENCED])}
    return {**blob, "properties": moved}
