"""Work cut into pieces: nothing lost, nothing twice, nothing too large."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bcn.engine.chunks import (
    CHUNK_BYTES,
    CHUNK_FILES,
    LARGE_IN_FLIGHT,
    TASK_COST,
    Chunk,
    bin_chunks,
    chunk_ends,
)

sizes = st.lists(st.sampled_from([0, 1, 1000, CHUNK_BYTES // 2, CHUNK_BYTES, 3 * CHUNK_BYTES]))
chunks = st.lists(
    st.builds(
        Chunk, st.integers(0, 9), st.integers(0, 9), st.integers(1, 256), st.integers(0, 1 << 33)
    )
)


@given(sizes)
def test_chunks_cover_all_files_and_hold_no_more_than_they_may(found: list[int]) -> None:
    ends = chunk_ends(np.array(found, dtype=np.int64))
    assert ends == sorted(set(ends))
    assert (ends[-1] if ends else 0) == len(found)
    for start, end in zip([0, *ends], ends, strict=False):
        assert end - start <= CHUNK_FILES
        assert end - start == 1 or sum(found[start:end]) <= CHUNK_BYTES


def test_many_small_files_make_chunks_of_the_most_files_that_one_may_hold() -> None:
    ends = chunk_ends(np.ones(3 * CHUNK_FILES + 1, dtype=np.int64))
    assert ends == [CHUNK_FILES, 2 * CHUNK_FILES, 3 * CHUNK_FILES, 3 * CHUNK_FILES + 1]


@given(chunks, st.integers(1, 64))
def test_tasks_hold_every_chunk_once(found: list[Chunk], slots: int) -> None:
    tasks = bin_chunks(found, slots)
    assert all(tasks)
    together = [chunk for task in tasks for chunk in task]
    assert sorted(together, key=repr) == sorted(found, key=repr)
    assert all(len(task) == 1 or sum(c.cost for c in task) <= TASK_COST for task in tasks)


def test_every_slot_has_work_and_the_last_tasks_are_small() -> None:
    found = [Chunk(0, number, CHUNK_FILES, 1 << 20) for number in range(1000)]
    tasks = bin_chunks(found, 4)
    assert len(tasks) >= 8
    assert len(tasks[-1]) <= len(tasks[0]) / 10


def _files_of_tasks(files: int, slots: int, size_bytes: int = CHUNK_BYTES) -> list[int]:
    found = [Chunk(0, number, 1, size_bytes) for number in range(files)]
    return [len(task) for task in bin_chunks(found, slots)]


def test_tasks_of_large_files_hold_twice_as_many_as_go_at_once() -> None:
    assert _files_of_tasks(48, 2) == [16, 16, 16]
    assert min(_files_of_tasks(1_000, 3)[:-1]) == 2 * LARGE_IN_FLIGHT


def test_few_large_files_are_shared_by_all_slots() -> None:
    assert _files_of_tasks(8, 4) == [2, 2, 2, 2]
    assert _files_of_tasks(3, 64) == [1, 1, 1]


def test_very_large_files_are_tasks_of_their_own() -> None:
    assert _files_of_tasks(3, 1, 16 * CHUNK_BYTES) == [1, 1, 1]
