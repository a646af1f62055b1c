"""Copying and hashing files, at a pace."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from itertools import count
from pathlib import Path

import pytest

from bcn.engine.chunks import LARGE_FILE_BYTES, LARGE_IN_FLIGHT, Chunk
from bcn.engine.transfer import Copied, Pace, Transfer, map_files, small_in_flight
from bcn.errors import KeyExistsError, MissingKeyError
from bcn.storage.local import LocalStorage
from bcn.storage.open import Stores
from bcn.storage.protocol import CHUNK_BYTES, Access


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(str(tmp_path))


@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES, 2 * CHUNK_BYTES + 7])
def test_a_copy_has_the_bytes_and_digest_of_its_source(storage: LocalStorage, size: int) -> None:
    data = os.urandom(size)
    storage.write_once("source", data)
    version = storage.find_stat("source").version
    expected = Copied(size, hashlib.sha256(data).digest(), version)
    copied = Transfer().copy(storage, "source", storage, "folder/target")
    assert (copied, copied.version) == (expected, version)
    assert storage.read("folder/target") == data
    assert Transfer().hash(storage, "source") == expected


def test_a_copy_does_not_overwrite(storage: LocalStorage) -> None:
    storage.write_once("source", b"new")
    storage.write_once("target", b"old")
    with pytest.raises(KeyExistsError):
        Transfer().copy(storage, "source", storage, "target")
    assert storage.read("target") == b"old"


def test_without_a_source_there_is_no_target(storage: LocalStorage) -> None:
    with pytest.raises(MissingKeyError):
        Transfer().copy(storage, "nothing", storage, "target")
    with pytest.raises(MissingKeyError):
        Transfer().hash(storage, "nothing")
    assert list(storage.iter_keys("")) == []


def test_a_pace_holds_back_and_none_does_not(storage: LocalStorage) -> None:
    storage.write_once("source", b"x" * 300_000)
    started = time.monotonic()
    Transfer(Pace(1_000_000)).hash(storage, "source")
    assert time.monotonic() - started >= 0.25
    pace = Pace(1e12)
    pace.spend(10)
    assert Pace().bytes_per_second is None


def test_chunks_that_no_disk_takes_past_the_page_cache_are_written_all_the_same(
    storage: LocalStorage,
) -> None:
    data = os.urandom(CHUNK_BYTES + 1)
    with storage.open_writer("target") as writer:
        writer.write(memoryview(data)[1:])  # O_DIRECT wants memory at the start of a page
        writer.write(data[:5])
        writer.write(memoryview(data)[1:])
        writer.commit()
    assert storage.read("target") == data[1:] + data[:5] + data[1:]


def chunks_of(*sizes: int) -> list[Chunk]:
    return [Chunk(0, number, 2, 2 * size) for number, size in enumerate(sizes)]


def files_of(chunk: Chunk) -> list[str]:
    return [f"{chunk.row_group}a", f"{chunk.row_group}b"]


def test_large_files_are_worked_on_at_once_and_small_ones_one_by_one() -> None:
    meeting = threading.Barrier(LARGE_IN_FLIGHT)

    def work(name: str) -> str:
        if name.startswith(("0", "2")):
            meeting.wait(timeout=20)  # breaks unless as many are under way
        else:
            assert threading.current_thread() is threading.main_thread()
        return name

    found = list(map_files(work, files_of, chunks_of(LARGE_FILE_BYTES, 10, LARGE_FILE_BYTES)))
    assert found == ["0a", "0b", "2a", "2b", "1a", "1b"]


@pytest.mark.parametrize(("seconds", "together"), [(0.02, 6), (0.0, 4)], ids=["far", "near"])
def test_as_many_small_files_are_on_their_way_as_their_waiting_asks_for(
    seconds: float, together: int
) -> None:
    meeting = threading.Barrier(together)
    begun = count()

    def work(name: str) -> str:
        time.sleep(seconds)
        if next(begun) >= 3:  # those before were timed
            meeting.wait(timeout=20)  # breaks unless as many are under way
        return name

    chunks = [Chunk(0, number, 3, 3) for number in range(33)]
    names = list(map_files(work, lambda chunk: _three(chunk.row_group), chunks, 6))
    assert names == [name for number in range(33) for name in _three(number)]


def _three(number: int) -> list[str]:
    return [f"{number}{letter}" for letter in "abc"]


def test_the_storage_that_is_slowest_to_answer_says_how_many(tmp_path: Path) -> None:
    local, near = LocalStorage(str(tmp_path)), [str(tmp_path), f"file:{tmp_path}/x"]
    stores = Stores(Access({"s3.access-key-id": "k", "s3.secret-access-key": "s"}))
    assert small_in_flight(local, stores, [*near, "nothing://that/opens"]) == 1
    assert small_in_flight(local, stores, [*near, "s3://far/away"]) > 8


def test_after_a_failure_no_file_is_begun() -> None:
    begun: list[str] = []

    def work(name: str) -> str:
        begun.append(name)
        raise MissingKeyError(name)

    with pytest.raises(MissingKeyError, match="0a"):
        list(map_files(work, files_of, chunks_of(*[LARGE_FILE_BYTES] * 20)))
    assert len(begun) <= 2 * LARGE_IN_FLIGHT
