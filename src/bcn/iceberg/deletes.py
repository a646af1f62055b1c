"""Position delete files: every row names a data file, so all rows are rewritten when it moves.

The distinct paths are few however many rows there are: they are mapped one by one, the rows by
their number. Everything but the paths stays: other columns, field ids, required columns, the
file's own metadata, the codec.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import dataset, orc

from bcn.errors import MalformedFileError, UnsupportedTableError
from bcn.iceberg.avro import (
    Container,
    Walk,
    encode_long,
    parse_container,
    path_edits,
    splice_file,
    walk_file,
)
from bcn.iceberg.codec import find_codec
from bcn.iceberg.program import Shape, Step, Wanted
from bcn.iceberg.relocate import Moves

PATH_ID = 2147483546
POSITION_ID = 2147483545

_ROWS_AT_ONCE = 1 << 20
_ENCODED = pa.dictionary(pa.int32(), pa.string())


@dataclass(frozen=True, slots=True)
class RelocatedDeletes:
    """A delete file after the move, and the smallest and largest path in it; None without rows."""

    data: bytes
    lower: str | None
    upper: str | None


@dataclass(frozen=True, slots=True)
class _Paths:
    """The path of each row as a rank among the distinct new paths, which are sorted."""

    distinct: list[str]
    ranks: Any
    moved: bool
    ordered: bool

    def of(self, data: bytes) -> RelocatedDeletes:
        ends = (self.distinct[0], self.distinct[-1]) if self.distinct else (None, None)
        return RelocatedDeletes(data, *ends)


def relocate_position_deletes(data: bytes, file_format: str, moves: Moves) -> RelocatedDeletes:
    """The file with every path moved, sorted by path and position; the very bytes if none moves.

    Raises UnknownRootError for a path without a move, MalformedFileError for bytes that are not of
    the format, UnsupportedTableError for columns that cannot be kept exactly.
    """
    relocate = _FORMATS.get(file_format.lower())
    if relocate is None:
        raise UnsupportedTableError(f"position deletes in a format unknown to bcn: {file_format}")
    with _translated(file_format):
        return relocate(data, moves)


@contextmanager
def _translated(file_format: str) -> Iterator[None]:
    try:
        yield
    except pa.ArrowNotImplementedError as error:
        raise UnsupportedTableError(f"position deletes that cannot be kept: {error}") from error
    except MemoryError:  # pyarrow's is one of its own errors, too
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise MalformedFileError(f"not a whole {file_format} file: {error}") from error


# the rows


def _relocate_paths(column: pa.ChunkedArray, moves: Moves) -> _Paths:
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    if column.null_count or not _is_text(column.type.value_type):
        raise MalformedFileError("position deletes with rows that name no data file")
    chunks = column.unify_dictionaries().chunks
    if not chunks:
        return _Paths([], np.zeros(0, np.int32), moved=False, ordered=True)
    numbers = np.concatenate([chunk.indices.to_numpy() for chunk in chunks])
    return _rank_paths(chunks[0].dictionary, numbers, moves)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _rank_paths(dictionary: pa.Array, numbers: Any, moves: Moves) -> _Paths:
    """Rows that hold a number of the dictionary, which may have entries that no row uses."""
    used = np.flatnonzero(np.bincount(numbers, minlength=len(dictionary)))
    targets = {path: moves.apply(path) for path in dictionary.take(used).to_pylist()}
    distinct = sorted(set(targets.values()))
    rank_of = {path: rank for rank, path in enumerate(distinct)}
    lookup = np.zeros(len(dictionary), np.int32)
    lookup[used] = [rank_of[target] for target in targets.values()]
    in_old_order = [targets[path] for path in sorted(targets)]
    return _Paths(
        distinct,
        ranks=lookup[numbers],
        moved=any(old != new for old, new in targets.items()),
        # Roots that swap their order, or meet in one, leave the rows unsorted.
        ordered=all(one < other for one, other in pairwise(in_old_order)),
    )


def _replace_paths(table: pa.Table, index: int, paths: _Paths) -> pa.Table:
    """The table with its new paths as a dictionary, sorted again if need be."""
    values = pa.array(paths.distinct, pa.string())
    column = pa.DictionaryArray.from_arrays(paths.ranks, values)
    field = table.schema.field(index).with_type(column.type)
    table = table.set_column(index, field, column)
    if paths.ordered:
        return table
    positions = table.column(_find_column(table.schema, POSITION_ID, "pos"))
    if positions.null_count or not pa.types.is_integer(positions.type):
        raise MalformedFileError("position deletes with rows that have no position")
    return table.take(np.lexsort((positions.to_numpy(), paths.ranks)))


def _find_column(schema: pa.Schema, field_id: int, name: str) -> int:
    """The column by its field id, or by its name if it has none. Raises MalformedFileError."""
    ids = [_find_id(field) for field in schema]
    names = [
        field.name if found is None else None for field, found in zip(schema, ids, strict=True)
    ]
    if str(field_id).encode() in ids:
        return ids.index(str(field_id).encode())
    if name in names:
        return names.index(name)
    raise MalformedFileError(f"position deletes without the column {name}")


def _find_id(field: pa.Field) -> bytes | None:
    known = field.metadata or {}
    found: bytes | None = known.get(b"PARQUET:field_id", known.get(b"iceberg.id"))
    return found


def _check_same(old: object, new: object) -> None:
    if old != new:
        raise UnsupportedTableError(
            f"position deletes with columns that cannot be kept exactly: {old} would become {new}"
        )


# Parquet


def _relocate_parquet(data: bytes, moves: Moves) -> RelocatedDeletes:
    schema = pq.ParquetFile(pa.BufferReader(data)).schema_arrow
    index = _find_column(schema, PATH_ID, "file_path")
    names = [schema.field(index).name]
    file = pq.ParquetFile(pa.BufferReader(data), read_dictionary=names)
    table = file.read()
    paths = _relocate_paths(table.column(index), moves)
    if not paths.moved:
        return paths.of(data)
    written = _write_parquet(_replace_paths(table, index, paths), file)
    _check_same(_tree(file), _tree(pq.ParquetFile(pa.BufferReader(written))))
    return paths.of(written)


def _write_parquet(table: pa.Table, like: pq.ParquetFile) -> bytes:
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink,
        table.schema,
        compression=_find_codecs(like.metadata),
        store_schema=False,
        store_decimal_as_integer=_has_integer_decimals(like.schema),
        write_page_index=True,
    ) as writer:
        writer.write_table(table, row_group_size=_ROWS_AT_ONCE)
        writer.add_key_value_metadata(_own_metadata(like.metadata))
    return bytes(sink.getvalue())


def _own_metadata(metadata: pq.FileMetaData) -> dict[bytes, bytes]:
    """What the writer noted; but not pyarrow's description of types, which are others now."""
    noted = metadata.metadata or {}
    return {key: value for key, value in noted.items() if key != b"ARROW:schema"}


def _has_integer_decimals(schema: pq.ParquetSchema) -> bool:
    columns = (schema.column(index) for index in range(len(schema)))
    return any(
        column.logical_type.type == "DECIMAL" and column.physical_type in {"INT32", "INT64"}
        for column in columns
    )


def _find_codecs(metadata: pq.FileMetaData) -> dict[str, str]:
    group = metadata.row_group(0)
    chunks = [group.column(index) for index in range(group.num_columns)]
    return {
        chunk.path_in_schema: "none" if chunk.compression == "UNCOMPRESSED" else chunk.compression
        for chunk in chunks
    }


def _tree(file: pq.ParquetFile) -> str:
    """The columns with their types, ids and repetition; without the root, whose name is free."""
    return str(file.schema).split("{", 1)[1]


# ORC


def _relocate_orc(data: bytes, moves: Moves) -> RelocatedDeletes:
    file = orc.ORCFile(pa.BufferReader(data))
    index = _find_column(file.schema, PATH_ID, "file_path")
    if not file.nrows:
        return RelocatedDeletes(data, None, None)
    encoded = [_encode_paths(rows, index) for rows in _iter_orc_rows(data)]
    table = pa.Table.from_batches(encoded).unify_dictionaries()
    paths = _relocate_paths(table.column(index), moves)
    if not paths.moved:
        return paths.of(data)
    written = _write_orc(_replace_paths(table, index, paths), file)
    _check_same(_attributes(file), _attributes(orc.ORCFile(pa.BufferReader(written))))
    return paths.of(_append_user_metadata(written, file.metadata))


def _iter_orc_rows(data: bytes) -> Iterator[pa.RecordBatch]:
    """The rows in order and in parts: the paths of a whole stripe may take gigabytes."""
    fragment = dataset.OrcFileFormat().make_fragment(pa.BufferReader(data))
    batches: Iterator[pa.RecordBatch] = fragment.to_batches(
        batch_size=_ROWS_AT_ONCE, batch_readahead=1, fragment_readahead=1, use_threads=False
    )
    return batches


def _encode_paths(rows: pa.RecordBatch, index: int) -> pa.RecordBatch:
    column = rows.column(index).dictionary_encode()
    return rows.set_column(index, rows.schema.field(index).with_type(column.type), column)


def _write_orc(table: pa.Table, like: orc.ORCFile) -> bytes:
    plain = pa.schema([like.schema.field(name) for name in table.schema.names])
    sink = pa.BufferOutputStream()
    writer = orc.ORCWriter(
        sink,
        compression=like.compression,
        compression_block_size=like.compression_size,
        dictionary_key_size_threshold=0.8,
    )
    # ORC takes no dictionaries: the paths are spelled out for a part of the rows at a time.
    for start in range(0, len(table), _ROWS_AT_ONCE):
        writer.write(table.slice(start, _ROWS_AT_ONCE).cast(plain))
    writer.close()
    return bytes(sink.getvalue())


def _attributes(file: orc.ORCFile) -> str:
    return str(file.schema.to_string(show_schema_metadata=False, truncate_metadata=False))


def _append_user_metadata(data: bytes, noted: Mapping[bytes, bytes]) -> bytes:
    """The ORC file with what a writer noted in it: pyarrow reads that but does not write it.

    Footer and postscript are Protocol Buffers, where fields may be added at the end; the footer is
    a list of chunks if the file is compressed, and a chunk may be stored as it is.
    """
    items = b"".join(_render_user_metadata(key, value) for key, value in noted.items())
    file = orc.ORCFile(pa.BufferReader(data))
    if file.compression != "UNCOMPRESSED":
        items = b"".join(_iter_stored_chunks(items, file.compression_size))
    end = len(data) - 1 - file.file_postscript_length
    postscript = data[end:-1]
    length = b"\x08" + _varint(file.file_footer_length)
    if not postscript.startswith(length):
        raise MalformedFileError("an ORC postscript that does not start with the footer's length")
    grown = b"\x08" + _varint(file.file_footer_length + len(items)) + postscript[len(length) :]
    return data[:end] + items + grown + bytes([len(grown)])


def _render_user_metadata(key: bytes, value: bytes) -> bytes:
    item = b"\x0a" + _varint(len(key)) + key + b"\x12" + _varint(len(value)) + value
    return b"\x2a" + _varint(len(item)) + item


def _iter_stored_chunks(data: bytes, size: int) -> Iterator[bytes]:
    for start in range(0, len(data), size):
        chunk = data[start : start + size]
        yield (len(chunk) << 1 | 1).to_bytes(3, "little") + chunk


def _varint(number: int) -> bytes:
    head = bytearray()
    while number > 127:
        head.append(number & 127 | 128)
        number >>= 7
    return bytes([*head, number])


# Avro


_PATH = Wanted((Step(PATH_ID, ("file_path",)),), Shape.BYTES)
_POSITION = Wanted((Step(POSITION_ID, ("pos",)),), Shape.NUMBER)


def _relocate_avro(data: bytes, moves: Moves) -> RelocatedDeletes:
    container = parse_container(data)
    encoded = [
        walk_file(part, (_PATH,)).texts(_PATH).dictionary_encode()
        for part in _iter_parts(container)
    ]
    paths = _relocate_paths(pa.chunked_array(encoded, _ENCODED), moves)
    if not paths.moved:
        return paths.of(data)
    spliced = [_splice_paths(part, moves) for part in _iter_parts(container)]
    written = b"".join([data[: container.header_end], *spliced])
    return paths.of(written if paths.ordered else _sort_avro(written, paths))


def _iter_parts(container: Container) -> Iterator[Container]:
    """The file as files of some of its blocks: inflated, a small one may take gigabytes."""
    numbers = np.cumsum(container.frames[:, 0]) // _ROWS_AT_ONCE
    for number in np.unique(numbers):
        yield replace(container, frames=container.frames[numbers == number])


def _splice_paths(part: Container, moves: Moves) -> bytes:
    """The blocks, without the header, with their paths moved."""
    walk = walk_file(part, (_PATH,))
    return splice_file(part, walk.blocks, [path_edits(walk, _PATH, moves)])[part.header_end :]


def _sort_avro(data: bytes, paths: _Paths) -> bytes:
    """The file with its records sorted by path and position, in blocks of as many as before."""
    container = parse_container(data)
    walk = walk_file(container, (_PATH, _POSITION))
    if walk.is_null(_POSITION).any():
        raise MalformedFileError("position deletes with rows that have no position")
    order = np.lexsort((walk.numbers(_POSITION), paths.ranks))
    records = _cut_records(walk).take(pa.array(order * 2))
    _, offsets, plain = records.buffers()
    counts = container.frames[:, 0]
    ends = np.frombuffer(offsets, np.int64)[np.cumsum(counts)].tolist()
    parts = [data[: container.header_end]]
    for count, (start, end) in zip(counts.tolist(), pairwise([0, *ends]), strict=True):
        parts.append(_render_block(container, count, memoryview(plain)[start:end]))
    return b"".join(parts)


def _cut_records(walk: Walk) -> pa.LargeBinaryArray:
    """The bytes of the records, each followed by an item of what lies before the next one."""
    counts, first, last = walk.blocks.extents[walk.blocks.extents[:, 0] > 0].T
    starts = walk.spans_of(_PATH)[:, 0]
    ends = np.append(starts[1:], 0)
    ends[np.cumsum(counts) - 1] = last
    if (starts[np.cumsum(counts) - counts] != first).any():
        raise UnsupportedTableError(
            "position deletes whose rows have to be sorted but do not start with their path"
        )
    offsets = np.stack([starts, ends], axis=1).ravel()
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(walk.blocks.buffer)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)


def _render_block(container: Container, count: int, plain: memoryview) -> bytes:
    payload = find_codec(container.codec).deflate(plain)
    return b"".join([encode_long(count), encode_long(len(payload)), payload, container.sync])


_FORMATS = {"parquet": _relocate_parquet, "orc": _relocate_orc, "avro": _relocate_avro}
