"""Sums of live files: order and duplicates aside, two lists of files are equal if their sums are.

Inventories and decoded manifests are compared manifest by manifest without bringing their files
together: each file becomes a number of 64 bits, and a manifest the sum of its numbers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bcn.engine.parts import save_part
from bcn.maintenance.verify_tasks import (
    SUM_SCHEMA,
    UNLISTED_SCHEMA,
    Chain,
    sums_prefix,
    unlisted_prefix,
)
from bcn.repository.inventory import LAYER_SCHEMA, Slot
from bcn.storage.protocol import Storage

SUMMED_COLUMNS = ("kind", "root_id", "path", "recorded_size_bytes", "record_count")
SUMMED_SCHEMA = pa.schema([*LAYER_SCHEMA, ("number", pa.uint64())])


def with_sums(rows: pa.Table, *, is_wanted: bool) -> pa.Table:
    """Rows of a layer with the number of each file; zeros where nobody asks."""
    zeros = np.zeros(rows.num_rows, np.uint64)
    return rows.append_column("number", pa.array(numbers_of(rows) if is_wanted else zeros))


def numbers_of(rows: pa.Table) -> NDArray[np.uint64]:
    """A number for each row, made of what a manifest says of a file."""
    columns = [pc.cast(rows[name], pa.string()) for name in SUMMED_COLUMNS]
    texts = pc.binary_join_element_wise(
        *columns, "\0", null_handling="replace", null_replacement="-"
    )
    digests = (hashlib.blake2b(text.encode(), digest_size=8).digest() for text in texts.to_pylist())
    return np.frombuffer(b"".join(digests), np.uint64)


def sum_by_name(names: Sequence[str] | pa.Array, numbers: NDArray[np.uint64]) -> pa.Table:
    """Count and sum of the numbers of each name."""
    encoded = pa.array(names, pa.string()).dictionary_encode()
    codes = np.asarray(encoded.indices)
    count = len(encoded.dictionary)
    sums = np.zeros(count, np.uint64)
    np.add.at(sums, codes, numbers)  # wraps around, which a sum may
    files = np.bincount(codes, minlength=count)
    return pa.table({"name": encoded.dictionary, "files": files, "sum": sums}).cast(SUM_SCHEMA)


def save_sums(scratch: Storage, chain: Chain, slot: Slot, rows: pa.Table) -> None:
    """Leave the sums of a folded inventory, and its files that no manifest lists, as parts."""
    listed = rows.filter(pc.is_valid(rows["parent_manifest"]))
    names = pa.concat_arrays([pa.array([], pa.string()), *listed["parent_manifest"].chunks])
    sums = sum_by_name(names, np.asarray(listed["number"], np.uint64))
    save_part(scratch, f"{sums_prefix(chain)}{slot.number:06d}.parquet", sums)
    unlisted = rows.filter(pc.is_null(rows["parent_manifest"]))
    unlisted = unlisted.select(UNLISTED_SCHEMA.names).cast(UNLISTED_SCHEMA)
    save_part(scratch, f"{unlisted_prefix(chain)}{slot.number:06d}.parquet", unlisted)
