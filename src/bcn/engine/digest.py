"""SHA-256 of streams that go on side by side, by two where a CPU does two for the price of one.

A stream leaves its pieces lying and goes on. Whoever comes next with a piece of another stream
hashes both together. What nobody came for, its own stream hashes when it needs the memory, or its
digest.
"""

from __future__ import annotations

import ctypes
import hashlib
import threading
from collections import deque
from typing import Protocol

from bcn.engine import sha256
from bcn.engine.sha256 import BLOCK_BYTES

# On so many bytes, two at a time save as much as it takes to compile the loops for that.
_COMPILED_AFTER_BYTES = 128 << 20
_PAIRED_BYTES = 32 << 10  # below that, finding another stream takes longer than it saves


class Digest(Protocol):
    """The SHA-256 of one stream, piece by piece, by one thread at a time."""

    def update(self, piece: memoryview) -> None:
        """Take the next bytes. They must stay as they are until `settle` or `value` is back."""

    def settle(self, memory: object = None) -> None:
        """Be done with all pieces so far; with `memory`, only if one of them lies there."""

    def value(self) -> bytes:
        """The digest of all pieces."""


class Digests:
    """Digests that take each other along. Any thread may begin one."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._left: list[_Paired] = []  # that have pieces which nobody is hashing

    def begin(self, size_bytes: int) -> Digest:
        """A digest of no bytes yet, and of about so many in the end."""
        if size_bytes < _PAIRED_BYTES or _Alone.hashed_bytes < _COMPILED_AFTER_BYTES:
            return _Alone()
        kernel = sha256.load()
        return _Alone() if kernel is None else _Paired(kernel, self)

    def leave(self, own: _Paired, piece: _Piece) -> None:
        """Hash pieces of a stream for as long as there are others to go with them."""
        with self._changed:
            own.pieces.append(piece)
            if own.is_in_work:
                return  # whoever hashes it comes to this piece too, or leaves it
            other = self._take_with(own)
        while other is not None:
            self._hash(own, other)
            with self._changed:
                other = self._take_with(own)

    def settle(self, own: _Paired) -> None:
        """Return when all pieces of a stream are hashed."""
        while True:
            with self._changed:
                while own.is_in_work:
                    self._changed.wait()
                if own.is_broken:
                    raise RuntimeError("hashing was interrupted")
                if not own.pieces:
                    return
                other = self._take_with(own)
                if other is None:
                    self._take(own)
            self._hash(own, other)

    def _take_with(self, own: _Paired) -> _Paired | None:
        """A stream to hash with; without one, this stream is left."""
        if own.is_in_work or not own.pieces:
            return None  # another thread has it by now, or had it
        if own not in self._left:
            self._left.append(own)
        if len(self._left) < 2:
            return None
        self._take(own)
        other = self._left[-1]
        self._take(other)
        return other

    def _take(self, digest: _Paired) -> None:
        if digest.is_in_work:
            raise RuntimeError("two threads would hash one stream")
        self._left.remove(digest)
        digest.is_in_work = True

    def _hash(self, own: _Paired, other: _Paired | None) -> None:
        taken = [own] if other is None else [own, other]
        try:
            own.hash_with(other)
        except BaseException:  # nobody knows how far it came
            for digest in taken:
                digest.is_broken = True
            raise
        finally:
            with self._changed:
                for digest in taken:
                    digest.is_in_work = False
                    if digest.pieces and not digest.is_broken:
                        self._left.append(digest)
                self._changed.notify_all()


class _Piece:
    """Whole blocks, where they were read to."""

    __slots__ = ("blocks", "place", "view")

    def __init__(self, view: memoryview, blocks: int) -> None:
        self.view = view
        self.place = ctypes.addressof(_BYTE(view))
        self.blocks = blocks


_BYTE = ctypes.c_char.from_buffer


class _Paired:
    def __init__(self, kernel: sha256.Kernel, digests: Digests) -> None:
        self._kernel = kernel
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
        if memory is None or any(piece.view.obj is memory for piece in tuple(self.pieces)):
            self._digests.settle(self)

    def value(self) -> bytes:
        if self._value is None:
            self.settle()
            self._hash_bytes(self._begun + sha256.padding(self._size_bytes))
            self._value = sha256.finish(self._state)
        return self._value

    def hash_with(self, other: _Paired | None) -> None:
        """Hash as much as both have left; without another, one piece."""
        if other is None:
            piece = self.pieces[0]
            self._kernel.one(self._state, piece.place, piece.blocks)
            self._advance(piece.blocks)
            return
        while self.pieces and other.pieces:
            mine, theirs = self.pieces[0], other.pieces[0]
            blocks = min(mine.blocks, theirs.blocks)
            self._kernel.two(self._state, mine.place, other._state, theirs.place, blocks)
            self._advance(blocks)
            other._advance(blocks)

    def _advance(self, blocks: int) -> None:
        piece = self.pieces[0]
        piece.place += blocks * BLOCK_BYTES
        piece.blocks -= blocks
        if not piece.blocks:
            self.pieces.popleft()

    def _hash_bytes(self, data: bytes) -> None:
        self._kernel.one(self._state, data, len(data) // BLOCK_BYTES)


class _Alone:
    """By OpenSSL, at once."""

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
