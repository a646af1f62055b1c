"""Copying one file: one pass of read, hash and write; and several at a time. Runs in executors."""

from __future__ import annotations

import mmap
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, islice
from math import ceil
from typing import Any, TypeVar

from bcn.engine.chunks import LARGE_IN_FLIGHT, Chunk
from bcn.engine.digest import Digest, Digests
from bcn.errors import BcnError
from bcn.storage.open import Stores
from bcn.storage.protocol import CHUNK_BYTES, Reader, Storage, Writer

Item = TypeVar("Item")
Result = TypeVar("Result")

# A small file between two stores takes this much of a core.
_CORE_SECONDS = 0.001
_TIMED, _FEWEST, _HANDFUL = 3, 4, 8
_LYING_BYTES = 128 << 20  # that are not hashed yet: the more, the more files go together


def map_files(
    work: Callable[[Item], Result],
    files: Callable[[Chunk], Iterable[Item]],
    chunks: Sequence[Chunk],
    small_in_flight: int = 1,
    work_on_many: Callable[[Iterable[Item]], Iterator[Result]] | None = None,
) -> Iterator[Result]:
    """`work` on every file of the chunks: several large files at once, small ones as is best.

    With `work_on_many`, that is given all small ones.
    """
    large = chain.from_iterable(files(chunk) for chunk in chunks if chunk.is_large)
    yield from _map_in_flight(work, large, LARGE_IN_FLIGHT)
    small = chain.from_iterable(files(chunk) for chunk in chunks if not chunk.is_large)
    if work_on_many is not None:
        yield from work_on_many(small)
    elif small_in_flight == 1:
        yield from _one_behind(map(work, small))
    else:
        yield from _map_small(work, small, small_in_flight)


def _one_behind(results: Iterator[Result]) -> Iterator[Result]:
    """Each when the next is there: whoever wants its digest finds it taken, with the next one's."""
    waiting: deque[Result] = deque()
    for result in results:
        waiting.append(result)
        if len(waiting) > 1:
            yield waiting.popleft()
    yield from waiting


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


class _Memory:
    """What a thread reads to: two pieces by turns, since a digest may leave the last one lying."""

    def __init__(self) -> None:
        # Of their own pages, so that a storage may write them past the page cache.
        self.next, self._later = (memoryview(mmap.mmap(-1, CHUNK_BYTES)) for _ in range(2))
        self._digests: tuple[Digest | None, Digest | None] = None, None

    def take(self, digest: Digest) -> None:
        """Let the next piece be a digest's, as soon as the one that had it is done with it."""
        last, other = self._digests
        if last is not None:
            last.settle(self.next.obj)
        self._digests = other, digest
        self.next, self._later = self._later, self.next


class Transfer:
    """Copies and hashes files, of so many bytes in all, at one pace for all."""

    def __init__(self, pace: Pace | None = None, size_bytes: int = 0) -> None:
        self._pace = pace or Pace()
        self._threads = threading.local()
        self._digests = Digests(size_bytes)
        self._lying: deque[tuple[Digest, Writer, object]] = deque()

    @property
    def _memory(self) -> _Memory:
        if not hasattr(self._threads, "memory"):
            self._threads.memory = _Memory()
        memory: _Memory = self._threads.memory
        return memory

    def copy(self, source: Storage, source_key: str, target: Storage, target_key: str) -> Copied:
        """Copy a file to a key that must be free. Raises MissingKeyError, KeyExistsError."""
        with source.open_reader(source_key) as reader:
            sha256 = target.copy_from(reader, target_key)
            if sha256 is None:
                return self._stream(reader, target, target_key)
        self._pace.spend(reader.stat.size_bytes)
        return Copied(reader.stat.size_bytes, sha256, reader.stat.version)

    def _stream(self, reader: Reader, target: Storage, target_key: str) -> Copied:
        digest, size_bytes = self._digests.begin(reader.stat.size_bytes), 0
        with target.open_writer(target_key, reader.stat.size_bytes) as writer:
            for piece in self._pieces(reader, digest, writer):
                writer.write(piece)
                size_bytes += len(piece)
            writer.commit()
        return Copied(size_bytes, digest, reader.stat.version)

    def hash(self, storage: Storage, key: str) -> Copied:
        """Size and digest of a file. Raises MissingKeyError."""
        size_bytes = 0
        with storage.open_reader(key) as reader:
            digest = self._digests.begin(reader.stat.size_bytes)
            for piece in self._pieces(reader, digest):
                size_bytes += len(piece)
        return Copied(size_bytes, digest, reader.stat.version)

    def _pieces(
        self, reader: Reader, digest: Digest, writer: Writer | None = None
    ) -> Iterator[memoryview]:
        """The pieces of a file, each of them hashed, or left for its digest to hash."""
        memory = self._memory
        lent: Any = None  # what the pieces of a writer's own memory are views of
        while True:
            buffer = memory.next if writer is None else writer.room(memory.next)
            if buffer.obj is memory.next.obj:
                memory.take(digest)
            elif buffer.obj is not lent:
                self._leave(digest, writer, lent)
                lent = buffer.obj
            count = reader.readinto(buffer)
            self._pace.spend(count)
            digest.update(buffer[:count])
            yield buffer[:count]
            if count < len(buffer):  # only at the end
                self._leave(digest, writer, lent)
                return

    def _leave(self, digest: Digest, writer: Writer | None, memory: Sized | None) -> None:
        """Leave what lies in memory of a writer's to be hashed with other files."""
        if writer is not None and memory is not None:
            self._lying.append((digest, writer, memory))
            self.settle(_LYING_BYTES // len(memory) if digest.leaves_pieces else 0)

    def settle(self, most: int = 0) -> None:
        """Have what lies in memory of writers hashed, but for the latest, and let go of it."""
        while len(self._lying) > most:
            try:
                digest, writer, memory = self._lying.popleft()
            except IndexError:  # another thread was quicker
                return
            digest.settle(memory)
            writer.let_go(memory)


@dataclass(frozen=True, slots=True)
class Copied:
    """What went through, and the version it was read at, which no two storages share."""

    size_bytes: int
    digest: Digest | bytes
    version: str

    @property
    def sha256(self) -> bytes:
        """Taken now, unless another file came along and took it with its own."""
        return self.digest if isinstance(self.digest, bytes) else self.digest.value()

    def is_same(self, other: Copied) -> bool:
        """Whether the bytes are the same."""
        return self.size_bytes == other.size_bytes and self.sha256 == other.sha256
