"""The bounds of position delete files: which data files they may hold deletes of.

Readers skip a delete file whose bounds leave a data file out, so a bound that names the old place
brings deleted rows back. A bound that cannot be known for sure is dropped: then readers look.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from bcn.iceberg import kernel
from bcn.iceberg.avro import Walk, encode_bytes, encode_long
from bcn.iceberg.kernel import Longs
from bcn.iceberg.program import Wanted

FILE_PATH_ID = 2147483546  # the column of position delete files that names the data file


class PathBound(NamedTuple):
    """One map of column ids to bounds that has one of locations, and the bytes of its items."""

    start: int
    end: int
    item_count: int
    before: bytes
    key: bytes
    path: bytes
    after: bytes

    def with_path(self, path: bytes | None) -> tuple[int, int, bytes]:
        """The splice that gives the bound of locations another value, or takes it away."""
        item = b"" if path is None else self.key + encode_bytes(path)
        count = self.item_count - int(path is None)
        size = encode_long(count) if count else b""
        return self.start, self.end, size + self.before + item + self.after + b"\x00"


def parse_bounds(walk: Walk, want: Wanted, rows: Longs) -> Mapping[int, PathBound]:
    """The bounds of locations of those records that have one."""
    spans = walk.spans_of(want)[rows]
    buffer = walk.blocks.buffer.tobytes()
    numbers, places = rows.tolist(), spans.tolist()
    bounds = {}
    for place, items in groupby(_list_items(walk, spans).tolist(), itemgetter(0)):
        found = _path_bound(buffer, places[place], items)
        if found is not None:
            bounds[numbers[place]] = found
    return bounds


def _path_bound(
    buffer: bytes, span: tuple[int, int, int], items: Iterable[tuple[int, ...]]
) -> PathBound | None:
    before, written, path, after = b"", b"", None, b""
    count = 0
    for _, key, start, middle, content, end in items:
        count += 1
        if key == FILE_PATH_ID:
            written, path = buffer[start:middle], buffer[content:end]
        elif path is None:
            before += buffer[start:end]
        else:
            after += buffer[start:end]
    if path is None:
        return None
    return PathBound(span[0], span[1], count, before, written, path, after)


def _list_items(walk: Walk, spans: Longs) -> Longs:
    none = np.empty((0, 6), np.int64)
    items = np.empty((int(kernel.list_items(walk.blocks.buffer, spans, none)), 6), np.int64)
    kernel.list_items(walk.blocks.buffer, spans, items)
    return items
