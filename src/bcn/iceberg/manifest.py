"""Manifests and manifest lists: their columns, and the same files with paths under other roots.

Every entry is kept, tombstones too, in its order and with its explicit or null sequence numbers and
row ids, because readers let entries inherit by position. Only locations, bounds that hold
locations, sizes and lengths change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bcn.errors import MalformedFileError, UnknownLengthError, UnsupportedTableError
from bcn.iceberg.avro import (
    Container,
    Edits,
    Walk,
    encode_long,
    make_edits,
    parse_container,
    path_edits,
    splice_file,
    walk_file,
    walk_inflated,
)
from bcn.iceberg.bounds import parse_bounds
from bcn.iceberg.program import Shape, Step, Wanted
from bcn.iceberg.relocate import Moves


def _entry(field_id: int, name: str, shape: Shape) -> Wanted:
    return Wanted((Step(field_id, (name,)),), shape)


def _file(field_id: int, name: str, shape: Shape) -> Wanted:
    return Wanted((Step(2, ("data_file",)), Step(field_id, (name,))), shape)


def _row(field_id: int, *names: str, shape: Shape = Shape.NUMBER) -> Wanted:
    return Wanted((Step(field_id, names),), shape)


_STATUS = _entry(0, "status", Shape.NUMBER)
_SNAPSHOT_ID = _entry(1, "snapshot_id", Shape.NUMBER)
_SEQUENCE_NUMBER = _entry(3, "sequence_number", Shape.NUMBER)
_FILE_SEQUENCE_NUMBER = _entry(4, "file_sequence_number", Shape.NUMBER)
_CONTENT = _file(134, "content", Shape.NUMBER)
_FILE_PATH = _file(100, "file_path", Shape.BYTES)
_FILE_FORMAT = _file(101, "file_format", Shape.BYTES)
_RECORD_COUNT = _file(103, "record_count", Shape.NUMBER)
_FILE_SIZE = _file(104, "file_size_in_bytes", Shape.NUMBER)
_KEY_METADATA = _file(131, "key_metadata", Shape.ANY)
_LOWER_BOUNDS = _file(125, "lower_bounds", Shape.BOUNDS)
_UPPER_BOUNDS = _file(128, "upper_bounds", Shape.BOUNDS)
_FIRST_ROW_ID = _file(142, "first_row_id", Shape.NUMBER)
_REFERENCED_DATA_FILE = _file(143, "referenced_data_file", Shape.BYTES)
_CONTENT_OFFSET = _file(144, "content_offset", Shape.NUMBER)
_CONTENT_SIZE = _file(145, "content_size_in_bytes", Shape.NUMBER)

_REQUIRED = (_STATUS, _FILE_PATH, _FILE_FORMAT, _RECORD_COUNT, _FILE_SIZE)
_COLUMNS = (
    *_REQUIRED,
    _SNAPSHOT_ID,
    _SEQUENCE_NUMBER,
    _FILE_SEQUENCE_NUMBER,
    _CONTENT,
    _KEY_METADATA,
)
_REFERENCES = (_REFERENCED_DATA_FILE, _FIRST_ROW_ID, _CONTENT_OFFSET, _CONTENT_SIZE)
_MOVED = (_FILE_PATH, _FILE_SIZE, _REFERENCED_DATA_FILE, _CONTENT, _KEY_METADATA)
_MOVED_BOUNDS = (_LOWER_BOUNDS, _UPPER_BOUNDS)

_MANIFEST_PATH = _row(500, "manifest_path", shape=Shape.BYTES)
_MANIFEST_LENGTH = _row(501, "manifest_length")
_SPEC_ID = _row(502, "partition_spec_id")
_ADDED_SNAPSHOT_ID = _row(503, "added_snapshot_id")
_ADDED_COUNT = _row(504, "added_files_count", "added_data_files_count")
_EXISTING_COUNT = _row(505, "existing_files_count", "existing_data_files_count")
_LIST_SEQUENCE_NUMBER = _row(515, "sequence_number")
_LIST_CONTENT = _row(517, "content")
_LIST_KEY_METADATA = _row(519, "key_metadata", shape=Shape.ANY)
_LIST_COLUMNS = (
    _MANIFEST_PATH,
    _MANIFEST_LENGTH,
    _SPEC_ID,
    _ADDED_SNAPSHOT_ID,
    _ADDED_COUNT,
    _EXISTING_COUNT,
    _LIST_SEQUENCE_NUMBER,
    _LIST_CONTENT,
    _LIST_KEY_METADATA,
)

_CONTENTS = {b"data": 0, b"deletes": 1}
_POSITION_DELETES, _EQUALITY_DELETES = 1, 2


@dataclass(frozen=True)
class ManifestEntries:
    """The columns of one manifest in the order of the file; numbers are 0 where they are null."""

    header: Mapping[str, bytes]
    content: int
    status: NDArray[np.int32]
    snapshot_id: NDArray[np.int64]
    snapshot_id_null: NDArray[np.bool_]
    sequence_number: NDArray[np.int64]
    sequence_number_null: NDArray[np.bool_]
    file_sequence_number: NDArray[np.int64]
    file_sequence_number_null: NDArray[np.bool_]
    file_content: NDArray[np.int32]
    file_format: pa.DictionaryArray
    file_path: pa.StringArray
    record_count: NDArray[np.int64]
    file_size_bytes: NDArray[np.int64]


@dataclass(frozen=True)
class ReferenceColumns:
    """What delete files and row lineage add to an entry; numbers are 0 where they are null."""

    referenced_data_file: pa.StringArray
    first_row_id: NDArray[np.int64]
    first_row_id_null: NDArray[np.bool_]
    content_offset: NDArray[np.int64]
    content_offset_null: NDArray[np.bool_]
    content_size_bytes: NDArray[np.int64]
    content_size_bytes_null: NDArray[np.bool_]


@dataclass(frozen=True)
class ManifestListRows:
    """The rows of a manifest list in the order of the file; None where it does not say."""

    header: Mapping[str, bytes]
    manifest_path: list[str]
    manifest_length: list[int]
    content: list[int]
    partition_spec_id: list[int]
    added_snapshot_id: list[int | None]
    live_files_count: list[int | None]
    sequence_number: list[int]


@dataclass(frozen=True, slots=True)
class RewrittenDelete:
    """A delete file that was written again: its size, the first and last data file it names now."""

    size_bytes: int
    lower: str | None
    upper: str | None


def decode_manifest(data: bytes) -> ManifestEntries:
    """The columns of a manifest. Raises MalformedFileError; UnsupportedTableError if encrypted."""
    container = parse_container(data)
    walk = walk_file(container, _COLUMNS)
    _check(walk, _REQUIRED, _KEY_METADATA)
    return ManifestEntries(
        header=container.header,
        content=_header_content(container),
        status=walk.numbers(_STATUS).astype(np.int32),
        snapshot_id=walk.numbers(_SNAPSHOT_ID),
        snapshot_id_null=walk.is_null(_SNAPSHOT_ID),
        sequence_number=walk.numbers(_SEQUENCE_NUMBER),
        sequence_number_null=walk.is_null(_SEQUENCE_NUMBER),
        file_sequence_number=walk.numbers(_FILE_SEQUENCE_NUMBER),
        file_sequence_number_null=walk.is_null(_FILE_SEQUENCE_NUMBER),
        file_content=walk.numbers(_CONTENT).astype(np.int32),
        file_format=pc.utf8_lower(walk.texts(_FILE_FORMAT)).dictionary_encode(),
        file_path=walk.texts(_FILE_PATH),
        record_count=walk.numbers(_RECORD_COUNT),
        file_size_bytes=walk.numbers(_FILE_SIZE),
    )


def decode_references(data: bytes) -> ReferenceColumns:
    """The columns of a manifest that only some tables have. Raises as `decode_manifest` does."""
    walk = walk_file(parse_container(data), _REFERENCES)
    return ReferenceColumns(
        referenced_data_file=walk.texts(_REFERENCED_DATA_FILE),
        first_row_id=walk.numbers(_FIRST_ROW_ID),
        first_row_id_null=walk.is_null(_FIRST_ROW_ID),
        content_offset=walk.numbers(_CONTENT_OFFSET),
        content_offset_null=walk.is_null(_CONTENT_OFFSET),
        content_size_bytes=walk.numbers(_CONTENT_SIZE),
        content_size_bytes_null=walk.is_null(_CONTENT_SIZE),
    )


def decode_manifest_list(data: bytes) -> ManifestListRows:
    """The rows of a manifest list. Raises as `decode_manifest` does."""
    container = parse_container(data)
    walk = walk_file(container, _LIST_COLUMNS)
    _check(walk, (_MANIFEST_PATH, _MANIFEST_LENGTH, _SPEC_ID), _LIST_KEY_METADATA)
    counts = zip(_optional(walk, _ADDED_COUNT), _optional(walk, _EXISTING_COUNT), strict=True)
    return ManifestListRows(
        header=container.header,
        manifest_path=walk.texts(_MANIFEST_PATH).to_pylist(),
        manifest_length=walk.numbers(_MANIFEST_LENGTH).tolist(),
        content=walk.numbers(_LIST_CONTENT).tolist(),
        partition_spec_id=walk.numbers(_SPEC_ID).tolist(),
        added_snapshot_id=_optional(walk, _ADDED_SNAPSHOT_ID),
        live_files_count=[None if a is None or b is None else a + b for a, b in counts],
        sequence_number=walk.numbers(_LIST_SEQUENCE_NUMBER).tolist(),
    )


def relocate_manifest(data: bytes, moves: Moves, deletes: Mapping[str, RewrittenDelete]) -> bytes:
    """The manifest with every location under its new root, and what follows from the delete files
    that were written again (by their original location).

    Raises UnknownRootError for a location without a root, and as `decode_manifest` does.
    """
    if moves.is_identity and not deletes:
        return data
    container = parse_container(data)
    walk = walk_file(container, _MOVED)
    _check(walk, (_FILE_PATH, _FILE_SIZE), _KEY_METADATA)
    edits = [path_edits(walk, _FILE_PATH, moves), path_edits(walk, _REFERENCED_DATA_FILE, moves)]
    if walk.numbers(_CONTENT).any():
        edits += _delete_edits(container, walk, moves, deletes)
    return splice_file(container, walk.blocks, edits)


def relocate_manifest_list(data: bytes, moves: Moves, lengths: Mapping[str, int]) -> bytes:
    """The manifest list with every manifest under its new root and with its new length (by its
    original location).

    Raises UnknownLengthError for a manifest without a length, UnknownRootError for one without a
    root, and as `decode_manifest_list` does.
    """
    container = parse_container(data)
    walk = walk_file(container, _LIST_COLUMNS)
    _check(walk, (_MANIFEST_PATH, _MANIFEST_LENGTH, _SPEC_ID), _LIST_KEY_METADATA)
    changed = list(_length_splices(walk, lengths))
    if moves.is_identity and not changed:
        return data
    edits = [path_edits(walk, _MANIFEST_PATH, moves), make_edits(changed)]
    return splice_file(container, walk.blocks, edits)


def _check(walk: Walk, required: tuple[Wanted, ...], key_metadata: Wanted) -> None:
    """Refuse what cannot be read whole."""
    for want in required:
        if walk.is_null(want).any():
            raise MalformedFileError(f"a record has no {want}")
    if not walk.is_null(key_metadata).all():
        raise UnsupportedTableError("a record has key metadata: its file is encrypted")


def _header_content(container: Container) -> int:
    text = container.header.get("content", b"data")
    if text not in _CONTENTS:
        raise MalformedFileError(f"the header of a manifest says content {text!r}")
    return _CONTENTS[text]


def _optional(walk: Walk, want: Wanted) -> list[int | None]:
    pairs = zip(walk.numbers(want).tolist(), walk.is_null(want).tolist(), strict=True)
    return [None if null else value for value, null in pairs]


def _length_splices(walk: Walk, lengths: Mapping[str, int]) -> Iterator[tuple[int, int, bytes]]:
    paths = walk.texts(_MANIFEST_PATH).to_pylist()
    for path, (start, end, old) in zip(
        paths, walk.spans_of(_MANIFEST_LENGTH).tolist(), strict=True
    ):
        if path not in lengths:
            raise UnknownLengthError(f"no new length for manifest {path!r}")
        if lengths[path] != old:
            yield start, end, encode_long(lengths[path])


def _delete_edits(
    container: Container, walk: Walk, moves: Moves, deletes: Mapping[str, RewrittenDelete]
) -> list[Edits]:
    """New sizes of delete files, new bounds of position deletes."""
    rows = np.flatnonzero(walk.numbers(_CONTENT))
    paths = walk.texts(_FILE_PATH).take(pa.array(rows)).to_pylist()
    rewritten = {
        row: deletes[path]
        for row, path in zip(rows.tolist(), paths, strict=True)
        if path in deletes
    }
    sizes = walk.spans_of(_FILE_SIZE)
    splices = [
        (int(sizes[row, 0]), int(sizes[row, 1]), encode_long(delete.size_bytes))
        for row, delete in rewritten.items()
    ]
    bounds = walk_inflated(container.schema, walk.blocks, _MOVED_BOUNDS)
    positions = rows[walk.numbers(_CONTENT)[rows] == _POSITION_DELETES]
    return [make_edits(splices), make_edits(_bound_splices(bounds, positions, moves, rewritten))]


def _bound_splices(
    bounds: Walk, rows: NDArray[np.int64], moves: Moves, rewritten: Mapping[int, RewrittenDelete]
) -> Iterator[tuple[int, int, bytes]]:
    lowers = parse_bounds(bounds, _LOWER_BOUNDS, rows)
    uppers = parse_bounds(bounds, _UPPER_BOUNDS, rows)
    for row in sorted(lowers.keys() | uppers.keys()):
        if moves.is_identity and row not in rewritten:
            continue
        lower, upper = lowers.get(row), uppers.get(row)
        same = lower is not None and upper is not None and lower.path == upper.path
        only = lower.path if lower and same else None
        new = _new_bounds(rewritten.get(row), only, moves)
        if lower:
            yield lower.with_path(new[0])
        if upper:
            yield upper.with_path(new[1])


def _new_bounds(
    rewritten: RewrittenDelete | None, only: bytes | None, moves: Moves
) -> tuple[bytes | None, bytes | None]:
    """The bounds of a position delete file: those of the new file, or the one data file that the
    old one was about, or none.
    """
    if rewritten and rewritten.lower is not None and rewritten.upper is not None:
        return rewritten.lower.encode(), rewritten.upper.encode()
    moved = None if only is None else _moved(only, moves)
    return moved, moved


def _moved(location: bytes, moves: Moves) -> bytes | None:
    try:
        text = location.decode()
    except UnicodeDecodeError:
        return None
    move = moves.find(text)
    return None if move is None else (move.new + text[len(move.old) :]).encode()


def file_kinds(contents: pa.Array, formats: pa.Array) -> pa.Array:
    """What each listed file is, by its `content` and its format in lower case."""
    positions = pc.if_else(pc.equal(formats, "puffin"), "deletion_vectors", "position_deletes")
    kinds = pc.if_else(pc.equal(contents, _EQUALITY_DELETES), "equality_deletes", "data")
    return pc.if_else(pc.equal(contents, _POSITION_DELETES), positions, kinds)
