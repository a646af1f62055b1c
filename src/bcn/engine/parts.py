"""Parquet parts: how rows travel between tasks without passing through the driver."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bcn.errors import KeyExistsError
from bcn.storage.protocol import Storage


def save_part(storage: Storage, key: str, table: pa.Table, group_ends: Sequence[int] = ()) -> None:
    """Store rows; with `group_ends`, each slice up to an end becomes a row group of its own."""
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, table.schema, compression="zstd") as writer:
        start = 0
        for end in group_ends or [table.num_rows]:
            writer.write_table(table.slice(start, end - start), row_group_size=max(1, end - start))
            start = end
    storage.delete(key)  # what an earlier attempt of the same task left
    try:
        with storage.open_writer(key) as output:
            output.write(sink.getbuffer())
            output.commit()
    except KeyExistsError:  # a task that was given up for lost still runs, and was quicker
        storage.replace(key, sink.getvalue())


def load_part(storage: Storage, key: str) -> pa.Table:
    """All rows of a part."""
    return pq.read_table(io.BytesIO(storage.read(key)))


class Part:
    """A part that is read once, for tasks that need several of its row groups."""

    def __init__(self, storage: Storage, key: str) -> None:
        self._file = pq.ParquetFile(pa.BufferReader(storage.read(key)))

    def load_group(self, number: int) -> pa.Table:
        """The rows of one row group."""
        return self._file.read_row_group(number, use_threads=False)


def load_group(storage: Storage, key: str, number: int) -> pa.Table:
    """The rows of one row group of a part."""
    return Part(storage, key).load_group(number)


def load_parts(storage: Storage, prefix: str, schema: pa.Schema) -> pa.Table:
    """The rows of all parts under a prefix, in the order of their keys."""
    tables = [load_part(storage, key) for key in storage.iter_keys(prefix)]
    return pa.concat_tables([schema.empty_table(), *tables])


def identities(table: pa.Table, columns: Sequence[str]) -> pa.Array:
    """One string a row that is equal where all the columns are equal or null (none holds NUL)."""
    if table.num_rows == 0:
        return pa.array([], pa.string())
    texts = [pc.fill_null(pc.cast(table[column], pa.string()), "") for column in columns]
    joined = pc.binary_join_element_wise(*texts, "\0")
    return pa.concat_arrays(joined.chunks) if isinstance(joined, pa.ChunkedArray) else joined


def look_up(rows: pa.Table, found: pa.Table, on: Sequence[str], columns: Sequence[str]) -> pa.Table:
    """The columns of `found` for each of the rows, null where there is no match."""
    where = pc.index_in(identities(rows, on), identities(found, on))
    return pa.table({name: found[name].combine_chunks().take(where) for name in columns})
