"""Cutting work into pieces of even size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

CHUNK_BYTES = 64 << 20
CHUNK_FILES = 256


@dataclass(frozen=True, slots=True)
class Chunk:
    """A run of files of one plan part: its row group there, and how much work it is."""

    group: int
    row_group: int
    files: int
    size_bytes: int


def chunk_ends(sizes: NDArray[np.int64]) -> list[int]:
    """Ends of runs that hold at most CHUNK_BYTES and CHUNK_FILES, or one large file."""
    ends: list[int] = []
    start, total = 0, 0
    for position, size in enumerate(sizes.tolist()):
        if position > start and (total + size > CHUNK_BYTES or position - start >= CHUNK_FILES):
            ends.append(position)
            start, total = position, 0
        total += size
    return [*ends, len(sizes)] if len(sizes) > start else ends


def bin_chunks(chunks: Sequence[Chunk], slots: int) -> list[tuple[Chunk, ...]]:
    """Chunks as tasks: enough for every slot to have several, large ones first."""
    ordered = sorted(chunks, key=lambda chunk: -chunk.size_bytes)
    tasks = max(1, min(len(ordered), slots * 16))
    return [tuple(ordered[number::tasks]) for number in range(tasks) if ordered[number::tasks]]
