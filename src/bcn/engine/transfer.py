"""Copying one file: one pass of read, hash and write; and several at a time. Runs in executors."""

from __future__ import annotations

import hashlib
import mmap
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, islice
from math import ceil
from typing import TypeVar

from bcn.engine.chunks import LARGE_IN_FLIGHT, Chunk
from bcn.errors import BcnError
from bcn.storage.open import Stores
from bcn.storage.protocol import CHUNK_BYTES, Reader, Storage

Item = TypeVar("Item")
Result = TypeVar("Result")

# A small file between two stores takes this much of a core.
_CORE_SECONDS = 0.001
_TIMED, _FEWEST, _HANDFUL = 3, 4, 8


def map_files(
    work: Callable[[Item], Result],
    files: Callable[[Chunk], Iterable[Item]],
    chunks: Sequence[Chunk],
    small_in_flight: int = 1,
) -> Iterator[Result]:
    """`work` on every file of the chunks: several large files at once, small ones as is best."""
    large = chain.from_iterable(files(chunk) for chunk in chunks if chunk.is_large)
    yield from _map_in_flight(work, large, LARGE_IN_FLIGHT)
    small = chain.from_iterable(files(chunk) for chunk in chunks if not chunk.is_large)
    one_by_one = small_in_flight == 1
    yield from map(work, small) if one_by_one else _map_small(work, small, small_in_flight)


def small_in_flight(repository: Storage, stores: Stores, locations: Iterable[str]) -> int:
    """What the slowest to answer wants of the repository and the storages of some locations."""
    wanted = [repository.small_in_flight]
    for location in set(locations):
        with suppress(BcnError):  # what cannot be opened is told when a file of it is copied
            wanted.append(stores.resolve(location)[0].small_in_flight)
    return max(wanted)


def _map_small(
    work: Callable[[Item], Result], items: Iterable[Item], most: int
) -> Iterator[Result]:
    """The first few go one by one: how long each takes tells how many keep a core busy.

    Far away that is most of them. More than needed only fight for the core.
    """
    rest = iter(items)
    shortest = 1.0
    for item in islice(rest, _TIMED):
        started = time.perf_counter()
        result = work(item)
        shortest = min(shortest, time.perf_counter() - started)
        yield result
    in_flight = min(most, max(_FEWEST, ceil(shortest / _CORE_SECONDS)))
    if in_flight > _FEWEST:
        yield from _map_in_flight(work, rest, in_flight)
        return
    handfuls = iter(lambda: tuple(islice(rest, _HANDFUL)), ())
    for results in _map_in_flight(lambda handful: [*map(work, handful)], handfuls, in_flight):
        yield from results


def _map_in_flight(
    work: Callable[[Item], Result], items: Iterable[Item], in_flight: int
) -> Iterator[Result]:
    """`map` with some calls under way; after a failure those are awaited, none is begun."""
    with ThreadPoolExecutor(in_flight) as threads:
        waiting: deque[Future[Result]] = deque()
        try:
            for item in items:
                waiting.append(threads.submit(work, item))
                if len(waiting) == 2 * in_flight:  # so that a slow one holds nobody up
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


@dataclass
class Pace:
    """Holds a task back to a rate; without one it never waits."""

    bytes_per_second: float | None = None
    _started: float = field(default_factory=time.monotonic)
    _bytes: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def spend(self, size_bytes: int) -> None:
        """Wait until so many more bytes are due."""
        if self.bytes_per_second is None:
            return
        with self._lock:
            self._bytes += size_bytes
        ahead = self._bytes / self.bytes_per_second - (time.monotonic() - self._started)
        if ahead > 0:
            time.sleep(ahead)


class Transfer:
    """Copies and hashes files with one buffer a thread, at one pace for all."""

    def __init__(self, pace: Pace | None = None) -> None:
        self._pace = pace or Pace()
        self._threads = threading.local()

    @property
    def _buffer(self) -> memoryview:
        """Memory of its own pages, so that a storage may write it past the page cache."""
        if not hasattr(self._threads, "buffer"):
            self._threads.buffer = memoryview(mmap.mmap(-1, CHUNK_BYTES))
        buffer: memoryview = self._threads.buffer
        return buffer

    def copy(self, source: Storage, source_key: str, target: Storage, target_key: str) -> Copied:
        """Copy a file to a key that must be free. Raises MissingKeyError, KeyExistsError."""
        with source.open_reader(source_key) as reader:
            sha256 = target.copy_from(reader, target_key)
            if sha256 is None:
                return self._stream(reader, target, target_key)
        self._pace.spend(reader.stat.size_bytes)
        return Copied(reader.stat.size_bytes, sha256, reader.stat.version)

    def _stream(self, reader: Reader, target: Storage, target_key: str) -> Copied:
        digest, size_bytes = hashlib.sha256(), 0
        with target.open_writer(target_key) as writer:
            for piece in self._pieces(reader, writer.room):
                digest.update(piece)
                writer.write(piece)
                size_bytes += len(piece)
            writer.commit()
        return Copied(size_bytes, digest.digest(), reader.stat.version)

    def hash(self, storage: Storage, key: str) -> Copied:
        """Size and digest of a file. Raises MissingKeyError."""
        digest, size_bytes = hashlib.sha256(), 0
        with storage.open_reader(key) as reader:
            for piece in self._pieces(reader, lambda own: own):
                digest.update(piece)
                size_bytes += len(piece)
        return Copied(size_bytes, digest.digest(), reader.stat.version)

    def _pieces(
        self, reader: Reader, room: Callable[[memoryview], memoryview]
    ) -> Iterator[memoryview]:
        while True:
            buffer = room(self._buffer)
            count = reader.readinto(buffer)
            self._pace.spend(count)
            yield buffer[:count]
            if count < len(buffer):  # only at the end
                return


@dataclass(frozen=True, slots=True)
class Copied:
    """What went through, and the version it was read at, which no two storages share."""

    size_bytes: int
    sha256: bytes
    version: str = field(compare=False)
