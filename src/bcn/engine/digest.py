"""SHA-256 of streams that go on side by side: a CPU may do several for the price of one.

A stream leaves its pieces lying and goes on. Who comes with a piece of the last stream that makes a
full group hashes those of all. What was not hashed so, its own stream hashes when it needs the
memory, or its digest, together with what else lies there.
"""

from __future__ import annotations

import ctypes
import hashlib
import threading
from collections import deque
from typing import Protocol

from bcn.engine import sha256
from bcn.engine.chunks import LARGE_FILE_BYTES, LARGE_IN_FLIGHT
from bcn.engine.sha256 import BLOCK_BYTES

# On so many bytes, the loops save about as much as it takes to compile them; by AVX2 on twice as
# many.
_COMPILED_AFTER_BYTES = 128 << 20
_PAIRED_BYTES = 32 << 10  # below that, finding another stream takes longer than it saves


class Digest(Protocol):
    """The SHA-256 of one stream, piece by piece, by one thread at a time; any may settle it."""

    leaves_pieces: bool
    """Whether bytes that were taken may lie where they are for a while."""

    def update(self, piece: memoryview) -> None:
        """Take the next bytes. They must stay as they are until `settle` or `value` is back."""

    def settle(self, memory: object = None) -> None:
        """Be done with all pieces so far; with `memory`, with those that lie there."""

    def value(self) -> bytes:
        """The digest of all pieces."""


class Digests:
    """Digests that take each other along. Any thread may begin one.

    Who knows how many bytes there will be in all says so: loops may be worth it from the first on.
    """

    def __init__(self, size_bytes: int = 0) -> None:
        self._size_bytes = size_bytes
        self._changed = threading.Condition()
        self._left: list[_Paired] = []  # that have pieces which nobody is hashing

    def begin(self, size_bytes: int) -> Digest:
        """A digest of no bytes yet, and of about so many in the end."""
        due_bytes = _Alone.hashed_bytes + self._size_bytes
        if size_bytes < _PAIRED_BYTES or due_bytes < _COMPILED_AFTER_BYTES:
            return _Alone()
        kernel = sha256.load()
        if kernel is None or not kernel.pays(size_bytes, self._beside(size_bytes)):
            return _Alone()
        return _Paired(kernel, self)

    def _beside(self, size_bytes: int) -> int:
        """About how many bytes go together where a stream of that size is among them."""
        if size_bytes < LARGE_FILE_BYTES:
            return 2 * size_bytes  # near, small files go by one and leave the last one lying
        return self._size_bytes or LARGE_IN_FLIGHT * size_bytes

    def leave(self, own: _Paired, piece: _Piece) -> None:
        """Hash pieces of a stream for as long as there are enough others to go with them."""
        with self._changed:
            own.pieces.append(piece)
            group = self._take_group(own, own.kernel.lanes)
        while group:
            self._hash(group)
            with self._changed:
                group = self._take_group(own, own.kernel.lanes)

    def settle(self, own: _Paired, memory: object) -> None:
        """Return when all pieces of a stream are hashed that lie somewhere."""
        while True:
            with self._changed:
                while own.is_in_work:
                    self._changed.wait()
                if own.is_broken:
                    raise RuntimeError("hashing was interrupted")
                if not own.lies_in(memory):
                    return
                group = self._take_group(own, 1)
            self._hash(group)

    def _take_group(self, own: _Paired, fewest: int) -> list[_Paired]:
        """A stream and others to hash it with; nothing, and it is left, where they are too few."""
        if own.is_in_work or not own.pieces:
            return []  # another thread has it by now and comes to all its pieces, or had it
        if own not in self._left:
            self._left.append(own)
        if len(self._left) < fewest:
            return []
        others = [other for other in self._left if other is not own]
        group = [own, *others[1 - own.kernel.lanes :]]
        for digest in group:
            self._take(digest)
        return group

    def _take(self, digest: _Paired) -> None:
        if digest.is_in_work:
            raise RuntimeError("two threads would hash one stream")
        self._left.remove(digest)
        digest.is_in_work = True

    def _hash(self, group: list[_Paired]) -> None:
        try:
            _hash_together(group)
        except BaseException:  # nobody knows how far it came
            for digest in group:
                digest.is_broken = True
            raise
        finally:
            with self._changed:
                for digest in group:
                    digest.is_in_work = False
                    if digest.pieces and not digest.is_broken:
                        self._left.append(digest)
                self._changed.notify_all()


def _hash_together(group: list[_Paired]) -> None:
    """Hash as much as all streams have left; of one alone, one piece: others may have come."""
    while all(digest.pieces for digest in group):
        blocks = min(digest.pieces[0].blocks for digest in group)
        group[0].kernel.take([digest.next_place for digest in group], blocks)
        for digest in group:
            digest.advance(blocks)
        if len(group) == 1:
            return


class _Piece:
    """Whole blocks, where they were read to."""

    __slots__ = ("blocks", "place", "view")

    def __init__(self, view: memoryview, blocks: int) -> None:
        self.view = view
        self.place = ctypes.addressof(_BYTE(view))
        self.blocks = blocks


_BYTE = ctypes.c_char.from_buffer


class _Paired:
    leaves_pieces = True

    def __init__(self, kernel: sha256.Kernel, digests: Digests) -> None:
        self.kernel = kernel
        self._digests = digests
        self._state = sha256.begin()
        self._size_bytes = 0
        self._begun = b""  # bytes of a block that is not whole yet
        self._value: bytes | None = None
        self.pieces: deque[_Piece] = deque()  # not hashed yet
        self.is_in_work = False
        self.is_broken = False

    def update(self, piece: memoryview) -> None:
        self._size_bytes += len(piece)
        if self._begun:
            piece = self._complete(piece)
        blocks, rest = divmod(len(piece), BLOCK_BYTES)
        if rest:
            self._begun = bytes(piece[-rest:])
        if blocks:
            self._digests.leave(self, _Piece(piece, blocks))

    def _complete(self, piece: memoryview) -> memoryview:
        missing = BLOCK_BYTES - len(self._begun)
        self._begun += piece[:missing]
        if len(self._begun) == BLOCK_BYTES:
            self.settle()
            self._hash_bytes(self._begun)
            self._begun = b""
        return piece[missing:]

    def settle(self, memory: object = None) -> None:
        self._digests.settle(self, memory)

    def lies_in(self, memory: object) -> bool:
        """Whether a piece is there that is not hashed yet; with None, anywhere."""
        return any(memory is None or piece.view.obj is memory for piece in self.pieces)

    def value(self) -> bytes:
        if self._value is None:
            self.settle()
            self._hash_bytes(self._begun + sha256.padding(self._size_bytes))
            self._value = sha256.finish(self._state)
        return self._value

    @property
    def next_place(self) -> tuple[sha256.State, int]:
        """What the kernel needs for the next blocks."""
        return self._state, self.pieces[0].place

    def advance(self, blocks: int) -> None:
        """So many blocks of the first piece are hashed."""
        piece = self.pieces[0]
        piece.place += blocks * BLOCK_BYTES
        piece.blocks -= blocks
        if not piece.blocks:
            self.pieces.popleft()

    def _hash_bytes(self, data: bytes) -> None:
        memory = ctypes.create_string_buffer(data, len(data))
        self.kernel.one(self._state, ctypes.addressof(memory), len(data) // BLOCK_BYTES)


class _Alone:
    """By OpenSSL, at once."""

    leaves_pieces = False
    hashed_bytes = 0  # by this process

    def __init__(self) -> None:
        self._digest = hashlib.sha256()

    def update(self, piece: memoryview) -> None:
        _Alone.hashed_bytes += len(piece)
        self._digest.update(piece)

    def settle(self, memory: object = None) -> None:
        """Nothing is left lying."""

    def value(self) -> bytes:
        return self._digest.digest()
