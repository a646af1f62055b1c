"""The compiled loops that move bytes: gather texts, give paths another root, splice.

They run over places that a walk has noted, so nothing here can run out of bytes. Nothing compiled
is shared with kernel.py: numba's cache on disk looks at the file of the outermost loop only.
"""

from __future__ import annotations

from bcn.compiled import kernel, step
from bcn.iceberg.kernel import Bytes, Long, Longs


@step
def _copy(out: Bytes, at: Long, buf: Bytes, start: Long, end: Long) -> Long:
    """Copy bytes; gives the position behind them. Slices show the compiler that nothing wraps."""
    target, source = out[at : at + end - start], buf[start:end]
    for i in range(end - start):
        target[i] = source[i]
    return at + end - start


@step
def put_long(out: Bytes, pos: Long, value: Long) -> Long:
    """Write a number that is not negative; gives the position behind it."""
    rest = value << 1
    while rest > 0x7F:
        out[pos] = (rest & 0x7F) | 0x80
        pos += 1
        rest >>= 7
    out[pos] = rest
    return pos + 1


@kernel
def gather(buf: Bytes, spans: Longs, out: Bytes, offsets: Longs) -> None:
    """Copy the bytes that the spans of one slot hold one after the other; null gives nothing."""
    at: Long = 0
    for row in range(spans.shape[0]):
        offsets[row] = at
        if spans[row, 0] >= 0:
            at = _copy(out, at, buf, spans[row, 1] - spans[row, 2], spans[row, 1])
    offsets[spans.shape[0]] = at


@step
def _find_root(buf: Bytes, start: Long, end: Long, roots: Bytes, bounds: Longs) -> Long:
    """The first root that matches whole and ends at a slash or with the bytes, or -1."""
    for root in range(bounds.shape[0]):
        first, size = bounds[root, 0], bounds[root, 1] - bounds[root, 0]
        if size > end - start or (size < end - start and buf[start + size] != 0x2F):
            continue
        i = 0
        while i < size and buf[start + i] == roots[first + i]:
            i += 1
        if i == size:
            return root
    return -1


@kernel
def path_edits(
    buf: Bytes, spans: Longs, roots: Bytes, bounds: Longs, edits: Longs, pool: Bytes
) -> tuple[Long, Long, Long]:
    """Replace the root of every path of a slot: writes `edits` and the bytes they put in.

    A row of `bounds` is where an old root starts and ends in `roots`, then the same for the new;
    a row of `edits` is what is cut from `buf` and what of `pool` comes in. Gives how many edits
    there are, how many bytes of the pool they use, and the row of a path without a root, or -1.
    """
    count = 0
    used: Long = 0
    for row in range(spans.shape[0]):
        if spans[row, 0] < 0:
            continue
        start, end = spans[row, 1] - spans[row, 2], spans[row, 1]
        root = _find_root(buf, start, end, roots, bounds)
        if root < 0:
            return count, used, row
        kept = start + bounds[root, 1] - bounds[root, 0]
        edits[count, 0], edits[count, 1], edits[count, 2] = spans[row, 0], kept, used
        used = put_long(pool, used, end - kept + bounds[root, 3] - bounds[root, 2])
        used = _copy(pool, used, roots, bounds[root, 2], bounds[root, 3])
        edits[count, 3] = used
        count += 1
    return count, used, -1


@kernel
def splice(buf: Bytes, blocks: Longs, edits: Longs, pool: Bytes, out: Bytes, moved: Longs) -> None:
    """Copy all blocks, making the edits (in order, none overlapping); `moved` is where they are."""
    at: Long = 0
    edit = 0
    for block in range(blocks.shape[0]):
        pos, end = blocks[block, 1], blocks[block, 2]
        moved[block, 0], moved[block, 1] = blocks[block, 0], at
        while edit < edits.shape[0] and edits[edit, 0] < end:
            at = _copy(out, at, buf, pos, edits[edit, 0])
            at = _copy(out, at, pool, edits[edit, 2], edits[edit, 3])
            pos = edits[edit, 1]
            edit += 1
        at = _copy(out, at, buf, pos, end)
        moved[block, 2] = at
