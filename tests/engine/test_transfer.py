"""Copying and hashing files, at a pace."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from bcn.engine import digest
from bcn.engine import transfer as transfer_module
from bcn.engine.chunks import LARGE_FILE_BYTES, LARGE_IN_FLIGHT, Chunk
from bcn.engine.transfer import Copied, Pace, Transfer, map_files, small_in_flight
from bcn.errors import KeyExistsError, MissingKeyError
from bcn.storage.local import LocalStorage
from bcn.storage.open import Stores
from bcn.storage.protocol import CHUNK_BYTES, Access, Writer


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(str(tmp_path))


@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES, 2 * CHUNK_BYTES + 7])
def test_a_copy_has_the_bytes_and_digest_of_its_source(storage: LocalStorage, size: int) -> None:
    data = os.urandom(size)
    storage.write_once("source", data)
    version = storage.find_stat("source").version
    expected = (size, hashlib.sha256(data).digest(), version)
    copied = Transfer().copy(storage, "source", storage, "folder/target")
    assert (copied.size_bytes, copied.sha256, copied.version) == expected
    assert storage.read("folder/target") == data
    assert Transfer().hash(storage, "source").is_same(copied)


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
        if not name.startswith("1"):
            meeting.wait(timeout=20)  # breaks unless as many are under way
        else:
            assert threading.current_thread() is threading.main_thread()
        return name

    sizes = [LARGE_FILE_BYTES] * (LARGE_IN_FLIGHT // 2)
    found = list(map_files(work, files_of, chunks_of(sizes[0], 10, *sizes[1:])))
    assert found[:4] == ["0a", "0b", "2a", "2b"]
    assert found[-2:] == ["1a", "1b"]


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


class _Lender(LocalStorage):
    """Lends its own memory, and writes over it when it is let go."""

    lent = 0

    @contextmanager
    def open_writer(self, key: str, size_bytes: int = 0) -> Iterator[_LendingWriter]:
        with super().open_writer(key, size_bytes) as writer:
            yield _LendingWriter(writer, self)


class _LendingWriter:
    def __init__(self, writer: Writer, lender: _Lender) -> None:
        self._writer = writer
        self._lender = lender
        self._part = memoryview(b"")
        self._filled = 0
        self._is_let_go = False

    def room(self, own: memoryview) -> memoryview:
        rest = self._part[self._filled :][:LENT_BYTES]
        self._lender.lent += bool(rest) and not self._filled
        return rest or own[:LENT_BYTES]

    def let_go(self, memory: bytearray) -> None:
        self._lender.lent -= 1
        if memory is self._part.obj:
            self._is_let_go = True
        else:
            memory[:] = bytes(len(memory))

    def write(self, data: memoryview) -> None:
        if data.obj is self._part.obj:
            self._filled += len(data)
            return
        self._send()
        self._writer.write(data)

    def _send(self) -> None:
        self._writer.write(bytes(self._part[: self._filled]))
        if self._is_let_go:
            self._part[:] = bytes(len(self._part))
        self._part = memoryview(bytearray(2 * LENT_BYTES))
        self._filled = 0

    def commit(self) -> None:
        self._send()
        self._writer.commit()


LENT_BYTES = 64 << 10


@pytest.mark.parametrize("size", [10, LENT_BYTES, 5 * LENT_BYTES, 7 * LENT_BYTES + 5])
@pytest.mark.parametrize("lying", [0, 1, 16])
@pytest.mark.usefixtures("_two_at_a_time")
def test_what_a_writer_lends_is_hashed_before_it_is_anothers(
    tmp_path: Path, size: int, lying: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer_module, "_LYING_BYTES", lying * 2 * LENT_BYTES)
    lender, data = _Lender(str(tmp_path)), os.urandom(size)
    LocalStorage(str(tmp_path)).write_once("source", data)
    transfer = Transfer()
    copied = [transfer.copy(lender, "source", lender, f"target-{n}") for n in range(3)]
    assert lender.lent <= lying
    transfer.settle()
    assert lender.lent == 0
    assert [lender.read(f"target-{n}") for n in range(3)] == [data] * 3
    assert [item.sha256 for item in copied] == [hashlib.sha256(data).digest()] * 3


def test_what_openssl_has_hashed_does_not_lie(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digest._Alone, "hashed_bytes", 0)  # whatever ran before in this process
    lender = _Lender(str(tmp_path))
    LocalStorage(str(tmp_path)).write_once("source", bytes(9 * LENT_BYTES))
    Transfer().copy(lender, "source", lender, "target")
    assert lender.lent == 0


@pytest.mark.usefixtures("_two_at_a_time")
def test_threads_settle_each_others_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer_module, "_LYING_BYTES", 3 * 2 * LENT_BYTES)
    lender = _Lender(str(tmp_path))
    files = {f"{n}": os.urandom((3 + n % 7) * LENT_BYTES + n) for n in range(60)}
    for name, data in files.items():
        LocalStorage(str(tmp_path)).write_once(name, data)
    transfer = Transfer()
    with ThreadPoolExecutor(10) as threads:
        copied = threads.map(lambda name: transfer.copy(lender, name, lender, f"to/{name}"), files)
        found = dict(zip(files, copied, strict=True))
    assert {name: item.sha256 for name, item in found.items()} == {
        name: hashlib.sha256(data).digest() for name, data in files.items()
    }


@pytest.fixture
def _two_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digest, "_COMPILED_AFTER_BYTES", 0)
    monkeypatch.setattr(digest, "_PAIRED_BYTES", 0)


@pytest.mark.usefixtures("_two_at_a_time")
def test_a_file_that_goes_alone_is_hashed_before_its_memory_is_read_to(
    storage: LocalStorage,
) -> None:
    data = os.urandom(3 * CHUNK_BYTES + 5)
    storage.write_once("source", data)
    assert Transfer().hash(storage, "source").sha256 == hashlib.sha256(data).digest()


@pytest.mark.usefixtures("_two_at_a_time")
def test_digests_that_nobody_asked_for_yet_outlive_their_memory(storage: LocalStorage) -> None:
    files = {f"{number}": os.urandom(number * 997) for number in range(9)}
    for name, data in files.items():
        storage.write_once(name, data)
    transfer = Transfer()
    copied = {name: transfer.copy(storage, name, storage, f"to/{name}") for name in files}
    hashed = {name: transfer.hash(storage, name) for name in files}
    expected = {name: hashlib.sha256(data).digest() for name, data in files.items()}
    assert {name: content.sha256 for name, content in copied.items()} == expected
    assert {name: content.sha256 for name, content in hashed.items()} == expected
    assert not copied["1"].is_same(copied["2"])


@pytest.mark.usefixtures("_two_at_a_time")
def test_files_that_are_copied_at_once_have_their_own_digests(storage: LocalStorage) -> None:
    sizes = [CHUNK_BYTES * number // 2 + number for number in range(8)]
    files = {f"{number}": os.urandom(size) for number, size in enumerate(sizes)}
    for name, data in files.items():
        storage.write_once(name, data)
    transfer = Transfer()

    def copy(name: str) -> tuple[str, Copied]:
        return name, transfer.copy(storage, name, storage, f"to/{name}")

    chunk = Chunk(0, 0, len(files), sum(sizes))
    for name, copied in map_files(copy, lambda _: list(files), [chunk]):
        assert copied.sha256 == hashlib.sha256(files[name]).digest()


def test_results_of_small_files_come_when_the_next_is_done() -> None:
    done: list[str] = []
    chunks = [Chunk(0, number, 2, 20) for number in range(2)]

    def work(name: str) -> str:
        done.append(name)
        return name

    seen = [(name, len(done)) for name in map_files(work, files_of, chunks)]
    assert seen == [("0a", 2), ("0b", 3), ("1a", 4), ("1b", 4)]
