"""The compiled loops under the Avro walker: find blocks, run a program over their records.

Bytes come from strangers. Every read is checked against the end of its block, every loop consumes
bytes or a bounded count, and what goes wrong comes back as a number below zero (see `REASONS`),
never as a crash. Each loop also runs uncompiled (NUMBA_DISABLE_JIT=1), so numbers are np.int64
wherever they could overflow.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bcn.compiled import kernel, step

Bytes = NDArray[np.uint8]
Longs = NDArray[np.int64]
Long = int | np.int64

TRUNCATED, BAD_VARINT, BAD_LENGTH, BAD_COUNT, BAD_BRANCH, TOO_DEEP, TRAILING, BAD_SYNC = range(
    -1, -9, -1
)
REASONS = {
    TRUNCATED: "the bytes end too early",
    BAD_VARINT: "a number takes more than ten bytes",
    BAD_LENGTH: "a length is negative",
    BAD_COUNT: "a count is out of range",
    BAD_BRANCH: "a union names a branch that its schema lacks",
    TOO_DEEP: "values are nested too deeply",
    TRAILING: "a block holds more bytes than its records",
    BAD_SYNC: "a block does not end in the sync marker",
}

# The instructions, one row each: operation, argument, second argument. Up to SKIP_FIXED_ARRAY they
# only move on, up to CLOSE_SPAN they also note something in a slot, the rest decides what is next.
SKIP_VARINTS, SKIP_FIXED, SKIP_BYTES = 0, 1, 2
SKIP_VARINT_ARRAY, SKIP_BYTES_ARRAY, SKIP_FIXED_ARRAY = 3, 4, 5
TAKE_VARINT, TAKE_BYTES, OPEN_SPAN, CLOSE_SPAN = 6, 7, 8, 9
UNION, JUMP, ENTER_ARRAY, NEXT_ITEM, CALL, RETURN, END = 10, 11, 12, 13, 14, 15, 16

_LOWEST = -(2**63)


@step
def read_long(buf: Bytes, pos: Long, end: Long) -> tuple[Long, Long]:
    """The zigzag number at `pos` and the position behind it, or (0, a reason)."""
    if pos < end and buf[np.uintp(pos)] < 0x80:
        byte = np.int64(buf[np.uintp(pos)])
        return (byte >> 1) ^ -(byte & 1), pos + 1
    value = np.int64(0)
    shift = 0
    while pos < end:
        byte = np.int64(buf[np.uintp(pos)])
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return ((value >> 1) & 0x7FFFFFFFFFFFFFFF) ^ -(value & 1), pos
        shift += 7
        if shift > 63:
            return np.int64(0), BAD_VARINT
    return np.int64(0), TRUNCATED


@step
def _skip_varints(buf: Bytes, pos: Long, end: Long, count: Long) -> Long:
    """Pass `count` numbers by counting their last bytes, in eights while that many are left."""
    while count >= 8 and end - pos >= 8:
        for i in range(8):
            count -= np.int64(buf[np.uintp(pos + i)] < 0x80)
        pos += 8
    while count > 0 and pos < end:
        count -= np.int64(buf[np.uintp(pos)] < 0x80)
        pos += 1
    return pos if count == 0 else TRUNCATED


@step
def _skip_fixed(pos: Long, end: Long, size: Long) -> Long:
    return pos + size if size <= end - pos else TRUNCATED


@step
def _skip_bytes(buf: Bytes, pos: Long, end: Long) -> Long:
    # One byte says the length, nearly always.
    if pos < end and buf[np.uintp(pos)] & 0x81 == 0:
        return _skip_fixed(pos + 1, end, np.int64(buf[np.uintp(pos)] >> 1))
    length, pos = read_long(buf, pos, end)
    if pos < 0:
        return pos
    if length < 0:
        return BAD_LENGTH
    return _skip_fixed(pos, end, length)


@step
def _open_block(buf: Bytes, pos: Long, end: Long) -> tuple[Long, Long]:
    """How many items the next block of an array or map has; a size follows a negative count."""
    count, pos = read_long(buf, pos, end)
    if count < 0 and pos >= 0:
        if count == _LOWEST:
            return np.int64(0), BAD_COUNT
        count = -count
        pos = _skip_varints(buf, pos, end, 1)
    return count, pos


@step
def _skip_keyed_bytes(buf: Bytes, pos: Long, end: Long, size: Long, count: Long) -> Long:
    """Pass `count` times `size` numbers and then bytes: the bounds of a wide table are many."""
    while count > 0:
        count -= 1
        if size == 1 and end - pos >= 2:  # a number of one byte and few bytes: nearly always
            key, length = np.int64(buf[np.uintp(pos)]), np.int64(buf[np.uintp(pos + 1)])
            if (key & 0x80) | (length & 0x81) == 0:
                pos += 2 + (length >> 1)
                continue
        pos = _skip_varints(buf, pos, end, size)
        pos = _skip_bytes(buf, pos, end) if pos >= 0 else pos
        if pos < 0:
            return pos
    return pos if pos <= end else TRUNCATED


@step
def _skip_items(buf: Bytes, pos: Long, end: Long, op: Long, size: Long, count: Long) -> Long:
    """Pass `count` items: each `size` numbers, or `size` numbers and bytes, or `size` bytes."""
    if op == SKIP_FIXED_ARRAY:
        return pos + size * count if size == 0 or count <= (end - pos) // size else TRUNCATED
    if count > end - pos:
        return TRUNCATED
    if op == SKIP_VARINT_ARRAY:
        return _skip_varints(buf, pos, end, size * count)
    return _skip_keyed_bytes(buf, pos, end, size, count)


@step
def _skip_array(buf: Bytes, pos: Long, end: Long, op: Long, size: Long) -> Long:
    while True:
        count, pos = _open_block(buf, pos, end)
        if pos < 0 or count == 0:
            return pos
        pos = _skip_items(buf, pos, end, op, size, count)
        if pos < 0:
            return pos


@step
def _skip(buf: Bytes, pos: Long, end: Long, op: Long, size: Long) -> Long:
    if op == SKIP_VARINTS:
        return _skip_varints(buf, pos, end, size)
    if op == SKIP_FIXED:
        return _skip_fixed(pos, end, size)
    if op == SKIP_BYTES:
        return _skip_bytes(buf, pos, end)
    return _skip_array(buf, pos, end, op, size)


@step
def _take(buf: Bytes, pos: Long, end: Long, op: Long, spans: Longs, at: tuple[Long, Long]) -> Long:
    """Note where a wanted value starts and ends, and its number or its length in bytes."""
    row, slot = at
    if op == OPEN_SPAN:
        spans[row, slot, 0] = pos
    elif op != CLOSE_SPAN:
        spans[row, slot, 0] = pos
        value, pos = read_long(buf, pos, end)
        spans[row, slot, 2] = value
        if op == TAKE_BYTES and pos >= 0:
            pos = _skip_fixed(pos, end, value) if value >= 0 else BAD_LENGTH
    spans[row, slot, 1] = pos
    return pos


@step
def _next_item(buf: Bytes, pos: Long, end: Long, left: Long, smallest: Long) -> tuple[Long, Long]:
    """How many items are left with this one, opening a block where none are; 0 at the end."""
    if left == 0:
        left, pos = _open_block(buf, pos, end)
        if pos >= 0 and left > (end - pos) // smallest:
            return left, TRUNCATED
    return left, pos


@step
def _run(  # noqa: C901, PLR0912, PLR0913, PLR0915, PLR0917  the machine: one switch, all of its state
    buf: Bytes,
    pos: Long,
    end: Long,
    code: Longs,
    targets: Longs,
    spans: Longs,
    row: Long,
    stack: Longs,
) -> Long:
    """Walk one record; gives the position behind it, or a reason."""
    pc = np.int64(0)
    depth = 0
    while pos >= 0:
        op, first, second = code[pc, 0], code[pc, 1], code[pc, 2]
        pc += 1
        if op <= SKIP_FIXED_ARRAY:
            pos = _skip(buf, pos, end, op, first)
        elif op <= CLOSE_SPAN:
            pos = _take(buf, pos, end, op, spans, (row, first))
        elif op == UNION:
            branch, pos = read_long(buf, pos, end)
            if branch < 0 or branch >= first:
                return BAD_BRANCH
            pc = targets[second + branch]
        elif op == JUMP:
            pc = first
        elif op == NEXT_ITEM:
            left, pos = _next_item(buf, pos, end, stack[depth - 1], second)
            stack[depth - 1] = left - 1
            if left == 0:
                depth -= 1
                pc = first
        elif op == RETURN:
            depth -= 1
            pc = stack[depth]
        elif op == END:
            return pos
        elif depth == stack.shape[0]:
            return TOO_DEEP
        elif op == ENTER_ARRAY:
            stack[depth] = 0
            depth += 1
        else:
            stack[depth] = pc
            depth += 1
            pc = first
            pos = pos if second <= end - pos else TRUNCATED
    return pos


@kernel
def walk(
    buf: Bytes, blocks: Longs, code: Longs, targets: Longs, spans: Longs, stack: Longs
) -> tuple[Long, Long]:
    """Fill `spans` (record, slot, [start, end, value]; start -1 for null) from all blocks in order.

    A row of `blocks` is: records, first byte, end. The length of `stack` is how deep values may be
    nested. Gives a reason or 0, and the record it was at.
    """
    row = 0
    for block in range(blocks.shape[0]):
        pos, end = blocks[block, 1], blocks[block, 2]
        for _ in range(blocks[block, 0]):
            for slot in range(spans.shape[1]):
                spans[row, slot, 0] = -1
            pos = _run(buf, pos, end, code, targets, spans, row, stack)
            if pos < 0:
                return pos, row
            row += 1
        if pos != end:
            return TRAILING, row
    return 0, row


@kernel
def frame_blocks(buf: Bytes, pos: Long, sync: Bytes, frames: Longs) -> tuple[Long, Long]:
    """Find the blocks of a container behind its header: records, first byte of payload, its end.

    Gives how many there are and 0, or a reason. Frames beyond the last row are counted, not noted.
    """
    found = 0
    end = buf.shape[0]
    while pos < end:
        count, pos = read_long(buf, pos, end)
        size, pos = read_long(buf, pos, end) if pos >= 0 else (np.int64(0), pos)
        if pos < 0:
            return found, pos
        if count < 0 or size < 0:
            return found, BAD_COUNT
        if size > end - pos - sync.shape[0]:
            return found, TRUNCATED
        if found < frames.shape[0]:
            frames[found, 0], frames[found, 1], frames[found, 2] = count, pos, pos + size
        pos += size
        for i in range(sync.shape[0]):
            if buf[pos + i] != sync[i]:
                return found, BAD_SYNC
        pos += sync.shape[0]
        found += 1
    return found, 0


@kernel
def list_items(buf: Bytes, spans: Longs, items: Longs) -> Long:
    """The items of one slot's maps of numbers to bytes: row, key, start, of its value start and
    first byte, end.

    Gives how many there are; those beyond the last row of `items` are counted, not noted. The walk
    has been over these bytes, so they hold whole items.
    """
    found = 0
    for row in range(spans.shape[0]):
        pos, end = spans[row, 0], spans[row, 1]
        left, pos = _open_block(buf, pos, end) if pos >= 0 else (np.int64(0), pos)
        while left > 0:
            key, value = read_long(buf, pos, end)
            length, content = read_long(buf, value, end)
            behind = content + length
            if found < items.shape[0]:
                items[found, 0], items[found, 1], items[found, 2] = row, key, pos
                items[found, 3], items[found, 4], items[found, 5] = value, content, behind
            found += 1
            left -= 1
            left, pos = _open_block(buf, behind, end) if left == 0 else (left, behind)
    return found
