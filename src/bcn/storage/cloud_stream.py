"""Objects as streams: read as they come or by ranges, written in parts, some of them under way."""

from __future__ import annotations

import os
import secrets
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from bcn.errors import StorageError
from bcn.storage.bucket import Body, Bucket, Origin, Piece, Range, Streaming, Upload
from bcn.storage.fault import Fault, Kind
from bcn.storage.protocol import Stat
from bcn.storage.shared_memory import is_doubtful, make_memory

if TYPE_CHECKING:  # a writer is the storage's own
    from bcn.storage.cloud import CloudStorage

FIRST_BYTES = 4 << 20  # is read before it is known whether the service can copy the object itself
COPIED_BYTES = 16 << 20  # smaller ones are through before the service has answered
RANGED_BYTES = 256 << 20  # is not left to one connection
RANGE_BYTES = 8 << 20
PART_BYTES = 32 << 20  # each costs a server a flush of its disk
IN_FLIGHT = 3
_PARTS_IN_FLIGHT = 2  # of an object that turns out large; of others one, beside other objects
_PARTS_OF_LARGE = 8
_ROOM_BYTES = 512 << 10  # stays in a core's cache until it is hashed
_REOPENED = 5  # times in a row, with no byte between them
# A store takes 10,000 parts. Some want all of one size, which is kept up to 160 GB.
_LARGE_PART_BYTES = 128 << 20
_PARTS_BEFORE_LARGE = 5_000
_PARTS = 10_000


def open_stream(bucket: Bucket, name: str, place: str) -> CloudReader | BodyReader:
    """A reader of an object that is there. Raises Fault."""
    if isinstance(bucket, Streaming):
        body = bucket.open(name)
        if body.size_bytes < RANGED_BYTES:
            origin = _origin(bucket, name, body.size_bytes, body.tag)
            return BodyReader(partial(bucket.open, name), body, place, origin)
        body.close()
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
    origin = _origin(bucket, name, first.size_bytes, first.tag)
    return CloudReader(_read_ahead(bucket, name, first), stat, place, origin)


def _origin(bucket: Bucket, name: str, size_bytes: int, tag: str) -> Origin | None:
    return Origin(bucket, name, size_bytes, tag) if size_bytes >= COPIED_BYTES else None


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


class BodyReader:
    """Bytes of one object from its start, by one request; by another one where that broke off."""

    def __init__(
        self, open_at: Callable[[int, str], Body], body: Body, place: str, origin: Origin | None
    ) -> None:
        self.stat = Stat(body.size_bytes, body.version)
        self.origin = origin
        self._open_at = open_at
        self._body = body
        self._place = place
        self._position = 0

    def __enter__(self) -> BodyReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.let_go()

    def let_go(self) -> None:
        """Hold no connection, and no lock of the server's; the next read asks again."""
        self._body.close()

    def readinto(self, buffer: memoryview) -> int:
        """Fill the buffer from the front."""
        wanted = min(len(buffer), self.stat.size_bytes - self._position)
        filled = 0
        while filled < wanted:
            filled += self._read(buffer[filled:wanted])
        return filled

    def _read(self, buffer: memoryview) -> int:
        """At least a byte."""
        for _ in range(_REOPENED):
            try:
                count = self._body.readinto(buffer)
            except Fault as fault:
                count, last = 0, fault
            else:
                last = Fault(Kind.CONNECTION, "it broke off")
            if count:
                self._position += count
                return count
            self._reopen()
        raise last.error("read", self._place)

    def _reopen(self) -> None:
        self._body.close()
        try:
            self._body = self._open_at(self._position, self._body.tag)
        except Fault as fault:
            raise fault.error("read", self._place) from None


class CloudWriter:
    """A key in the making: one put if it stays small, else an upload in parts."""

    def __init__(self, storage: CloudStorage, name: str, size_bytes: int = 0) -> None:
        self._storage = storage
        self._name = name
        whole_bytes = storage.bucket.whole_bytes
        self._part_bytes = whole_bytes if PART_BYTES < size_bytes <= whole_bytes else PART_BYTES
        self._mark = secrets.token_hex(16)
        self._part = _NO_PART
        self._filled = 0
        self._lent: dict[int, _Part] = {}
        self._upload: Upload | None = None
        self._threads: ThreadPoolExecutor | None = None
        self._waiting: deque[Future[None]] = deque()
        self._parts = 0
        self._is_done = False

    def __enter__(self) -> CloudWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def room(self, own: memoryview) -> memoryview:
        """The next bytes of a part; of one that nobody knows the need of yet, nothing."""
        rest = self._part.view[self._filled :]
        if not rest:
            return own[:_ROOM_BYTES]
        if id(rest.obj) not in self._lent:
            self._part.hold()
            self._lent[id(rest.obj)] = self._part
        return rest[:_ROOM_BYTES]

    def let_go(self, memory: object) -> None:
        """A part that was sent is used again when its bytes are not needed any more."""
        self._lent.pop(id(memory)).release()

    def write(self, data: bytes | memoryview) -> None:
        """Append bytes; a full part is sent while the next one fills."""
        rest = memoryview(data)
        if rest.obj is self._part.view.obj:
            self._filled += len(rest)
            return
        while rest:
            if self._filled == len(self._part.view):
                self._next_part()
            count = min(len(rest), len(self._part.view) - self._filled)
            self._part.view[self._filled : self._filled + count] = rest[:count]
            self._filled += count
            rest = rest[count:]

    def _next_part(self) -> None:
        if self._filled:
            self._send()
        is_large = self._parts >= _PARTS_BEFORE_LARGE
        self._part = _take_part(_LARGE_PART_BYTES if is_large else self._part_bytes)
        self._filled = 0

    def _send(self) -> None:
        upload, threads = self._begin()
        if self._parts == _PARTS:
            raise StorageError(f"{self._storage.describe(self._name)} is too large")
        if len(self._waiting) == (1 if self._parts < _PARTS_OF_LARGE else _PARTS_IN_FLIGHT):
            self._await_oldest()
        self._parts += 1
        part, self._part = self._part, _NO_PART  # from now on it is the sender's to release
        self._waiting.append(threads.submit(_send_part, upload, self._parts, part, self._filled))

    def _begin(self) -> tuple[Upload, ThreadPoolExecutor]:
        if self._upload is None or self._threads is None:
            bucket = self._storage.bucket
            self._upload = self._storage.attempt(
                "write", self._name, lambda: bucket.begin_upload(self._name, self._mark)
            )
            self._threads = ThreadPoolExecutor(_PARTS_IN_FLIGHT)
        return self._upload, self._threads

    def _await_oldest(self) -> None:
        self._storage.attempt("write", self._name, self._waiting.popleft().result)

    def commit(self) -> None:
        """Make the key appear, if it is free."""
        if self._upload is None:
            self._storage.create(self._name, self._part.view[: self._filled])
        else:
            self._send()
            while self._waiting:
                self._await_oldest()
            self._storage.finish(self._name, self._mark, self._upload)
        self._is_done = True

    def close(self) -> None:
        """Wait for what is under way; leave nothing of a key that was not committed."""
        self._part.release()
        self._part = _NO_PART
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)
        if self._upload is not None and not self._is_done:
            try:
                self._upload.abort()
            except Fault:
                return  # what is left is found by `iter_leftovers`


class _Part:
    """Memory of a part, held by who fills and sends it, and by who reads there what was written.

    It is used again when the last of them let go: the pages of new memory cost as much as sending
    them. What nobody lets go of after a failure is not used again.
    """

    def __init__(self, size_bytes: int) -> None:
        self.view = make_memory(size_bytes)
        self._lock = threading.Lock()
        self._holders = 1

    def hold(self) -> None:
        """One more needs its bytes."""
        with self._lock:
            self._holders += 1

    def release(self) -> None:
        """One less does."""
        with self._lock:
            self._holders -= 1
            is_free = self._holders == 0
        if is_free and len(self.view) < _LARGE_PART_BYTES and not is_doubtful(self.view):
            _keep_part(self)


def _send_part(upload: Upload, number: int, part: _Part, filled: int) -> None:
    upload.send(number, part.view[:filled])
    part.release()


_NO_PART = _Part(0)
_FREE_BYTES = 640 << 20
_free: defaultdict[int, deque[_Part]] = defaultdict(deque)  # by size
os.register_at_fork(after_in_child=_free.clear)  # the parent's memory, not a copy of it


def _keep_part(part: _Part) -> None:
    parts, size_bytes = _free[len(part.view)], len(part.view)
    if 0 < size_bytes * (len(parts) + 1) <= _FREE_BYTES:
        parts.append(part)


def _take_part(size_bytes: int) -> _Part:
    try:
        part = _free[size_bytes].pop()
    except IndexError:
        _drop_parts(size_bytes)
        return _Part(size_bytes)
    part.hold()
    return part


def _drop_parts(size_bytes: int) -> None:
    """New memory comes, of that size: as much of other sizes goes, if it is free."""
    gone_bytes = 0
    for parts in [*_free.values()]:
        with suppress(IndexError):
            while gone_bytes < size_bytes:
                gone_bytes += len(parts.pop().view)
