"""The Avro walker: take a container file apart, note wanted values, splice bytes, put it together.

Nothing is decoded that was not asked for. A rewritten file keeps its header and sync marker byte
for byte, its codec, its blocks and their records in order; between the splices every byte is as it
was. A file cut exactly between two blocks is a valid Avro file: only its length tells, and Iceberg
keeps that in the manifest list.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bcn.errors import MalformedFileError, UnknownRootError, UnsupportedTableError
from bcn.iceberg import kernel, splice
from bcn.iceberg.codec import find_codec
from bcn.iceberg.kernel import Bytes, Long, Longs
from bcn.iceberg.program import FixedForm, Program, Wanted, compile_program
from bcn.iceberg.relocate import Moves

_MAGIC = b"Obj\x01"
_ENCRYPTED_MAGIC = b"AGS1"
_SYNC_SIZE = 16
_DEEPEST_VALUE = 512  # arrays in arrays, records that hold themselves
_MOST_TEXT = 2**31 - 1  # what Arrow's string columns can hold

# A file in work takes several times its size. glibc hands freed memory back, to be fetched page by
# page for the next file (a third of the time), until it has seen a large block freed: from then on
# it keeps twice as much as that. This one has no pages yet, and is freed at once.
_KEPT_BYTES = 16 << 20
np.empty(_KEPT_BYTES, np.uint8)


@dataclass(frozen=True)
class Container:
    """An Avro file: its header, and where its blocks are (rows of: records, start, end)."""

    data: bytes
    header: Mapping[str, bytes]
    header_end: int
    frames: Longs

    @property
    def sync(self) -> bytes:
        """The marker behind every block."""
        return self.data[self.header_end - _SYNC_SIZE : self.header_end]

    @property
    def codec(self) -> str:
        """The name of the codec of all blocks."""
        return self.header.get("avro.codec", b"null").decode("utf-8", "replace")

    @property
    def schema(self) -> bytes:
        """The text of the schema. Raises MalformedFileError where there is none."""
        if "avro.schema" not in self.header:
            raise MalformedFileError("not a valid Avro file: its header has no schema")
        return self.header["avro.schema"]


@dataclass(frozen=True)
class Blocks:
    """Inflated blocks in one buffer (rows of: records, start, end)."""

    buffer: Bytes
    extents: Longs

    @property
    def record_count(self) -> int:
        """How many records the blocks say they hold."""
        return int(self.extents[:, 0].sum())


@dataclass(frozen=True)
class Walk:
    """Where wanted values lie: [record, slot] to start (-1 if null), end, value.

    The value of a number is itself, that of bytes their length.
    """

    blocks: Blocks
    spans: Longs
    wanted: tuple[Wanted, ...]

    def spans_of(self, want: Wanted) -> Longs:
        """Start, end and value of one wanted field in every record."""
        return self.spans[:, self.wanted.index(want)]

    def is_null(self, want: Wanted) -> NDArray[np.bool_]:
        """Which records have no such value."""
        return self.spans_of(want)[:, 0] < 0

    def numbers(self, want: Wanted) -> Longs:
        """The numbers of a field; 0 where there is none."""
        return np.where(self.is_null(want), 0, self.spans_of(want)[:, 2])

    def texts(self, want: Wanted) -> pa.StringArray:
        """The strings of a field, or null. Raises MalformedFileError where they are not UTF-8."""
        spans = self.spans_of(want)
        null = self.is_null(want)
        size_bytes = int(np.where(null, 0, spans[:, 2]).sum())
        if size_bytes > _MOST_TEXT:
            raise MalformedFileError(f"one Avro file has {size_bytes} bytes of text in one field")
        out = np.empty(size_bytes, np.uint8)
        offsets = np.empty(len(spans) + 1, np.int64)
        splice.gather(self.blocks.buffer, spans, out, offsets)
        return _text_array(out, offsets, null)


def _text_array(out: Bytes, offsets: Longs, null: NDArray[np.bool_]) -> pa.StringArray:
    validity = pa.py_buffer(np.packbits(~null, bitorder="little")) if null.any() else None
    starts = pa.py_buffer(offsets.astype(np.int32))
    array = pa.StringArray.from_buffers(len(null), starts, pa.py_buffer(out), validity)
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        raise MalformedFileError(f"a text is not UTF-8: {error}") from error
    return array


@dataclass(frozen=True)
class Edits:
    """Splices: rows of what is cut from the buffer (start, end) and what of the pool comes in."""

    rows: Longs
    pool: Bytes


def parse_container(data: bytes) -> Container:
    """Read the header and find the blocks. Raises MalformedFileError for bytes that are no Avro
    file, UnsupportedTableError for an encrypted one.
    """
    if data.startswith(_ENCRYPTED_MAGIC):
        raise UnsupportedTableError("the file is encrypted (AGS1), and bcn has no keys")
    if not data.startswith(_MAGIC):
        raise MalformedFileError(f"not an Avro file: it starts with {data[:4]!r}")
    buf = np.frombuffer(data, np.uint8)
    header, pos = _parse_header(data)
    if len(data) < pos + _SYNC_SIZE:
        raise MalformedFileError("not a whole Avro file: its header ends too early")
    pos += _SYNC_SIZE
    return Container(data, header, pos, _frame(buf, pos))


def _parse_header(data: bytes) -> tuple[dict[str, bytes], int]:
    header: dict[str, bytes] = {}
    pos = len(_MAGIC)
    while True:
        count, pos = _read_long(data, pos)
        if count == 0:
            return header, pos
        if count < 0:
            _, pos = _read_long(data, pos)
        for _ in range(abs(count)):
            key, pos = _read_bytes(data, pos)
            value, pos = _read_bytes(data, pos)
            header[_header_key(key)] = value


def _header_key(key: bytes) -> str:
    try:
        return key.decode()
    except UnicodeDecodeError as error:
        raise MalformedFileError(f"an Avro header key is not UTF-8: {key!r}") from error


def _read_long(data: bytes, pos: int) -> tuple[int, int]:
    value = 0
    for place, byte in enumerate(data[pos : pos + 10]):
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), pos + place + 1
    raise _malformed(kernel.TRUNCATED if len(data) - pos < 10 else kernel.BAD_VARINT)


def _read_bytes(data: bytes, pos: int) -> tuple[bytes, int]:
    size, pos = _read_long(data, pos)
    if not 0 <= size <= len(data) - pos:
        raise _malformed(kernel.BAD_LENGTH if size < 0 else kernel.TRUNCATED)
    return data[pos : pos + size], pos + size


def _require(status: Long) -> None:
    if status < 0:
        raise _malformed(int(status))


def _malformed(reason: int) -> MalformedFileError:
    return MalformedFileError(f"not a valid Avro file: {kernel.REASONS[reason]}")


def _frame(buf: Bytes, start: int) -> Longs:
    sync = buf[start - _SYNC_SIZE : start]
    count, status = kernel.frame_blocks(buf, start, sync, np.empty((0, 3), np.int64))
    _require(status)
    frames = np.empty((int(count), 3), np.int64)
    kernel.frame_blocks(buf, start, sync, frames)
    return frames


def inflate(container: Container) -> Blocks:
    """Unpack all blocks; without a codec the file itself is the buffer."""
    if container.codec == "null":
        return Blocks(np.frombuffer(container.data, np.uint8), container.frames)
    unpack = find_codec(container.codec).inflate
    view = memoryview(container.data)
    plain = [
        unpack(view[start:end]) if count else b""  # nothing says what a block of no records holds
        for count, start, end in container.frames.tolist()
    ]
    return _blocks(b"".join(plain), container.frames[:, 0], [len(part) for part in plain])


def _blocks(buffer: bytes, counts: Longs, sizes: Sequence[int]) -> Blocks:
    ends = np.cumsum(np.array(sizes, np.int64))
    extents = np.stack([counts, ends - np.array(sizes, np.int64), ends], axis=1)
    return Blocks(np.frombuffer(buffer, np.uint8), np.ascontiguousarray(extents))


def walk_file(container: Container, wanted: tuple[Wanted, ...]) -> Walk:
    """Note the wanted values of a file. Raises MalformedFileError."""
    return walk_inflated(container.schema, inflate(container), wanted)


def walk_inflated(schema: bytes, blocks: Blocks, wanted: tuple[Wanted, ...]) -> Walk:
    """Note the wanted values of inflated blocks. Raises MalformedFileError.

    Plain fixed values may have their length ahead of them. That every one of them begins with its
    own length, and all else still fits, does not happen by chance: so this form is tried first.
    """
    program = compile_program(schema, wanted)
    if program.has_plain_fixed:
        with suppress(MalformedFileError):
            return walk_blocks(blocks, compile_program(schema, wanted, FixedForm.PREFIXED))
    return walk_blocks(blocks, program)


def walk_blocks(blocks: Blocks, program: Program) -> Walk:
    """Run a program over inflated blocks. Raises MalformedFileError."""
    counts, sizes = blocks.extents[:, 0], blocks.extents[:, 2] - blocks.extents[:, 1]
    if (counts > sizes // max(program.smallest_record, 1)).any():
        raise _malformed(kernel.BAD_COUNT)
    spans = np.empty((blocks.record_count, len(program.wanted), 3), np.int64)
    stack = np.zeros(_DEEPEST_VALUE, np.int64)
    code, targets = program.code, program.targets
    status, _ = kernel.walk(blocks.buffer, blocks.extents, code, targets, spans, stack)
    _require(status)
    return Walk(blocks, spans, program.wanted)


def encode_long(value: int) -> bytes:
    """A number as Avro writes it."""
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def encode_bytes(value: bytes) -> bytes:
    """Bytes or a string as Avro writes them."""
    return encode_long(len(value)) + value


def path_edits(walk: Walk, want: Wanted, moves: Moves) -> Edits:
    """Give every path of a field its new root. Raises UnknownRootError for one without a root."""
    roots = [root.encode() for move in moves.moves for root in (move.old, move.new)]
    ends = np.cumsum([0, *(len(root) for root in roots)], dtype=np.int64)
    bounds = np.stack([ends[0:-1:2], ends[1::2], ends[1::2], ends[2::2]], axis=1)
    pool = np.empty((10 + max(map(len, roots), default=0)) * len(walk.spans), np.uint8)
    rows = np.empty((len(walk.spans), 4), np.int64)
    flat = np.frombuffer(b"".join(roots), np.uint8)
    spans = walk.spans_of(want)
    count, used, lost = splice.path_edits(walk.blocks.buffer, spans, flat, bounds, rows, pool)
    if lost >= 0:
        _, end, size = spans[lost].tolist()
        path = bytes(walk.blocks.buffer[end - size : end]).decode("utf-8", "replace")
        raise UnknownRootError(f"no known root for {path!r}")
    return Edits(rows[: int(count)], pool[: int(used)])


def make_edits(splices: Iterable[tuple[int, int, bytes]]) -> Edits:
    """Edits from (start, end, what comes in between)."""
    listed = list(splices)
    ends = np.cumsum([0, *(len(new) for _, _, new in listed)], dtype=np.int64)
    cuts = np.array([(start, end) for start, end, _ in listed], np.int64).reshape(-1, 2)
    rows = np.concatenate([cuts, ends[:-1, None], ends[1:, None]], axis=1)
    return Edits(rows, np.frombuffer(b"".join(new for _, _, new in listed), np.uint8))


def _join(edits: Sequence[Edits]) -> Edits:
    """All edits as one list, in the order of the bytes they change."""
    shifts = np.cumsum([0, *(len(each.pool) for each in edits)], dtype=np.int64)
    rows = np.concatenate([each.rows for each in edits])
    rows[:, 2:] += np.repeat(shifts[:-1], [len(each.rows) for each in edits])[:, None]
    pool = np.concatenate([each.pool for each in edits])
    return Edits(rows[np.argsort(rows[:, 0], kind="stable")], pool)


def splice_file(container: Container, blocks: Blocks, edits: Sequence[Edits]) -> bytes:
    """The file with the edits made: same header, codec and blocks. Edits must not overlap."""
    joined = _join(edits)
    kept = (blocks.extents[:, 2] - blocks.extents[:, 1]).sum()
    cut = (joined.rows[:, 1] - joined.rows[:, 0]).sum()
    out = np.empty(int(kept - cut) + len(joined.pool), np.uint8)
    moved = np.empty_like(blocks.extents)
    splice.splice(blocks.buffer, blocks.extents, joined.rows, joined.pool, out, moved)
    return _render(container, out.data, moved)


def _render(container: Container, plain: memoryview, extents: Longs) -> bytes:
    pack = find_codec(container.codec).deflate
    sync = container.sync
    original = memoryview(container.data)
    parts: list[bytes | memoryview] = [container.data[: container.header_end]]
    for (count, start, end), (_, old_start, old_end) in zip(
        extents.tolist(), container.frames.tolist(), strict=True
    ):
        payload = pack(plain[start:end]) if count else original[old_start:old_end]
        parts += (encode_long(count), encode_long(len(payload)), payload, sync)
    return b"".join(parts)
