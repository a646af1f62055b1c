"""Objects as streams: read in ranges, written in parts, several under way at a time."""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING

from bcn.errors import StorageError
from bcn.storage.bucket import Bucket, Origin, Piece, Range, Upload
from bcn.storage.fault import Fault, Kind
from bcn.storage.protocol import Stat

if TYPE_CHECKING:  # a writer is the storage's own
    from bcn.storage.cloud import CloudStorage

FIRST_BYTES = 4 << 20  # is read before it is known whether the service can copy the object itself
COPIED_BYTES = 16 << 20  # smaller ones are through before the service has answered
RANGE_BYTES = 8 << 20
PART_BYTES = 8 << 20
IN_FLIGHT = 3
# A store takes 10,000 parts. Some want all of one size, which is kept up to 40 GB.
_LARGE_PART_BYTES = 128 << 20
_PARTS_BEFORE_LARGE = 5_000
_PARTS = 10_000


def open_stream(bucket: Bucket, name: str, place: str) -> CloudReader:
    """A reader of an object that is there. Raises Fault."""
    try:
        first = bucket.get_range(name, Range(0, FIRST_BYTES))
    except Fault as fault:
        if fault.kind is Kind.RANGE:  # an empty object has no first byte
            return CloudReader(iter(()), _find_stat(bucket, name), place)
        if fault.kind is Kind.WHOLE_ONLY:
            return CloudReader(bucket.stream(name), _find_stat(bucket, name), place)
        raise
    stat = Stat(first.size_bytes, first.version)
    if first.size_bytes == len(first.data):
        return CloudReader(iter((first.data,)), stat, place)
    origin = None
    if first.size_bytes >= COPIED_BYTES:
        origin = Origin(bucket, name, first.size_bytes, first.tag)
    return CloudReader(_read_ahead(bucket, name, first), stat, place, origin)


def _find_stat(bucket: Bucket, name: str) -> Stat:
    facts = bucket.find(name)
    if facts is None:
        raise Fault(Kind.MISSING)
    return Stat(facts.size_bytes, facts.version)


def _read_ahead(bucket: Bucket, name: str, first: Piece) -> Iterator[memoryview]:
    starts = range(len(first.data), first.size_bytes, RANGE_BYTES)
    with ThreadPoolExecutor(IN_FLIGHT) as threads:
        waiting: deque[Future[Piece]] = deque()
        spans = (
            Range(start, min(start + RANGE_BYTES, first.size_bytes), first.tag or None)
            for start in starts
        )
        try:
            for span in islice(spans, IN_FLIGHT):
                waiting.append(threads.submit(bucket.get_range, name, span))
            yield first.data
            while waiting:
                data = waiting.popleft().result().data
                for span in islice(spans, 1):
                    waiting.append(threads.submit(bucket.get_range, name, span))
                yield data
        finally:
            for future in waiting:
                future.cancel()


class CloudReader:
    """Bytes of one object from its start."""

    def __init__(
        self,
        pieces: Iterator[memoryview],
        stat: Stat,
        place: str,
        origin: Origin | None = None,
    ) -> None:
        self.stat = stat
        self.origin = origin  # None if it is too small for a request of its own
        self._pieces = pieces
        self._place = place
        self._rest = memoryview(b"")
        self._fetched = 0

    def __enter__(self) -> CloudReader:
        return self

    def __exit__(self, *_: object) -> None:
        close = getattr(self._pieces, "close", None)
        if close is not None:
            close()

    def readinto(self, buffer: memoryview) -> int:
        """Fill the buffer from the front."""
        filled = 0
        while filled < len(buffer):
            if not self._rest and not self._fetch():
                break
            count = min(len(self._rest), len(buffer) - filled)
            buffer[filled : filled + count] = self._rest[:count]
            self._rest = self._rest[count:]
            filled += count
        return filled

    def _fetch(self) -> bool:
        try:
            self._rest = next(self._pieces)
        except StopIteration:
            self._check_whole()
            return False
        except Fault as fault:
            raise fault.error("read", self._place) from None
        self._fetched += len(self._rest)
        return True

    def _check_whole(self) -> None:
        if self._fetched != self.stat.size_bytes:
            raise StorageError(
                f"cannot read {self._place}: {self._fetched} of {self.stat.size_bytes} bytes came"
            )


class CloudWriter:
    """A key in the making: one put if it stays small, else an upload in parts."""

    def __init__(self, storage: CloudStorage, name: str) -> None:
        self._storage = storage
        self._name = name
        self._mark = secrets.token_hex(16)
        self._buffer = bytearray()
        self._upload: Upload | None = None
        self._threads: ThreadPoolExecutor | None = None
        self._waiting: deque[Future[None]] = deque()
        self._parts = 0
        self._is_done = False

    def __enter__(self) -> CloudWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write(self, data: bytes | memoryview) -> None:
        """Append bytes; a full part is sent while the next one fills."""
        rest = memoryview(data)
        while rest:
            large = self._parts >= _PARTS_BEFORE_LARGE
            room = (_LARGE_PART_BYTES if large else PART_BYTES) - len(self._buffer)
            if room == 0:
                self._send()
                continue
            self._buffer += rest[:room]
            rest = rest[room:]

    def _send(self) -> None:
        upload, threads = self._begin()
        if self._parts == _PARTS:
            raise StorageError(f"{self._storage.describe(self._name)} is too large")
        if len(self._waiting) == IN_FLIGHT:
            self._await_oldest()
        self._parts += 1
        self._waiting.append(threads.submit(upload.send, self._parts, self._buffer))
        self._buffer = bytearray()

    def _begin(self) -> tuple[Upload, ThreadPoolExecutor]:
        if self._upload is None or self._threads is None:
            bucket = self._storage.bucket
            self._upload = self._storage.attempt(
                "write", self._name, lambda: bucket.begin_upload(self._name, self._mark)
            )
            self._threads = ThreadPoolExecutor(IN_FLIGHT)
        return self._upload, self._threads

    def _await_oldest(self) -> None:
        self._storage.attempt("write", self._name, self._waiting.popleft().result)

    def commit(self) -> None:
        """Make the key appear, if it is free."""
        if self._upload is None:
            self._storage.create(self._name, self._buffer)
        else:
            self._send()
            while self._waiting:
                self._await_oldest()
            self._storage.finish(self._name, self._mark, self._upload)
        self._is_done = True

    def close(self) -> None:
        """Wait for what is under way; leave nothing of a key that was not committed."""
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)
        if self._upload is not None and not self._is_done:
            try:
                self._upload.abort()
            except Fault:
                return  # what is left is found by `iter_leftovers`
