"""Copying one file: one pass of read, hash and write; and several at a time. Runs in executors."""

from __future__ import annotations

import hashlib
import mmap
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain
from typing import TypeVar

from bcn.engine.chunks import Chunk
from bcn.storage.protocol import CHUNK_BYTES, Reader, Storage

Item = TypeVar("Item")
Result = TypeVar("Result")

# Hashing keeps a core busy and writing keeps the disk busy: a few files at once do both.
FILES_IN_FLIGHT = 4


def map_files(
    work: Callable[[Item], Result],
    files: Callable[[Chunk], Iterable[Item]],
    chunks: Sequence[Chunk],
) -> Iterator[Result]:
    """`work` on every file of the chunks: several large files at once, small ones one by one."""
    large = chain.from_iterable(files(chunk) for chunk in chunks if chunk.is_large)
    yield from _map_in_flight(work, large)
    small = chain.from_iterable(files(chunk) for chunk in chunks if not chunk.is_large)
    yield from map(work, small)


def _map_in_flight(work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """`map` with a few calls under way; after a failure those are awaited, none is begun."""
    with ThreadPoolExecutor(FILES_IN_FLIGHT) as threads:
        waiting: deque[Future[Result]] = deque()
        for item in items:
            waiting.append(threads.submit(work, item))
            if len(waiting) == FILES_IN_FLIGHT:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


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
        digest, size_bytes = hashlib.sha256(), 0
        with source.open_reader(source_key) as reader, target.open_writer(target_key) as writer:
            for piece in self._pieces(reader):
                digest.update(piece)
                writer.write(piece)
                size_bytes += len(piece)
            writer.commit()
        return Copied(size_bytes, digest.digest(), reader.stat.version)

    def hash(self, storage: Storage, key: str) -> Copied:
        """Size and digest of a file. Raises MissingKeyError."""
        digest, size_bytes = hashlib.sha256(), 0
        with storage.open_reader(key) as reader:
            for piece in self._pieces(reader):
                digest.update(piece)
                size_bytes += len(piece)
        return Copied(size_bytes, digest.digest(), reader.stat.version)

    def _pieces(self, reader: Reader) -> Iterator[memoryview]:
        buffer = self._buffer
        count = len(buffer)
        while count == len(buffer):  # fewer only at the end
            count = reader.readinto(buffer)
            self._pace.spend(count)
            yield buffer[:count]


@dataclass(frozen=True, slots=True)
class Copied:
    """What went through, and the version it was read at, which no two storages share."""

    size_bytes: int
    sha256: bytes
    version: str = field(compare=False)
