"""Cutting work into pieces of even size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

CHUNK_BYTES = 64 << 20
CHUNK_FILES = 256
FILE_COST = 128 << 10
TASK_COST = 4 << 30  # what is lost when a machine dies in the middle of a task
LARGE_FILE_BYTES = 1 << 20
# Hashing keeps a core busy and writing keeps the disk busy: a few files at once do both.
LARGE_IN_FLIGHT = 8
# Twice as many as are under way: fewer leave a core or the disk idle at the end of each task.
_FULL_COST = 2 * LARGE_IN_FLIGHT * (CHUNK_BYTES + FILE_COST)


@dataclass(frozen=True, slots=True)
class Chunk:
    """A run of files of one plan part: its row group there, and how much work it is."""

    group: int
    row_group: int
    files: int
    size_bytes: int

    @property
    def cost(self) -> int:
        """Work, counted in bytes: creating a file takes as long as copying some."""
        return self.size_bytes + self.files * FILE_COST

    @property
    def is_large(self) -> bool:
        """Whether its files are mostly bytes: below that, threads only hinder each other."""
        return self.size_bytes >= self.files * LARGE_FILE_BYTES


def size_of(chunks: Sequence[Chunk]) -> int:
    """Bytes of all files of some chunks."""
    return sum(chunk.size_bytes for chunk in chunks)


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
    """Chunks as tasks, large ones first: few in all, and the last ones small.

    A task takes half of a slot's fair share of what is left, so that slots finish at the same time
    though nobody knows how fast each of them is; of large files twice as many as go at once.
    """
    ordered = sorted(chunks, key=lambda chunk: -chunk.cost)
    left = sum(chunk.cost for chunk in ordered)
    full = min(_FULL_COST, left / slots)
    tasks: list[tuple[Chunk, ...]] = []
    start = 0
    while start < len(ordered):
        fewest = full if ordered[start].is_large else 0
        limit = min(max(left / (2 * slots), fewest), TASK_COST)
        end, cost = start + 1, ordered[start].cost
        while end < len(ordered) and cost + ordered[end].cost <= limit:
            cost += ordered[end].cost
            end += 1
        tasks.append(tuple(ordered[start:end]))
        start, left = end, left - cost
    return tasks
