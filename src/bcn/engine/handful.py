"""Small local files, copied by the handful: system calls in compiled loops, no Python in between.

From file to file, Python's own code and values have left a core's nearest cache: what takes 30 µs
by itself takes several times that beside the bytes of a file. Only the plain case is here. A file
that does not go through, for whatever reason, is left to the caller, whose ordinary way tells what
is wrong with it: nothing of it is at its target then.
"""

from __future__ import annotations

import ctypes
import hashlib
import mmap
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, TypeVar

import numba
import numpy as np
from numba import types
from numpy.typing import NDArray

from bcn.compiled import kernel, step
from bcn.engine import sha256
from bcn.engine.sha256 import BLOCK_BYTES
from bcn.engine.transfer import Copied
from bcn.storage.local import LocalStorage
from bcn.storage.protocol import Storage

Bytes = NDArray[np.uint8]
Longs = NDArray[np.int64]
Item = TypeVar("Item")

HANDFUL_FILES = 8
ROOM_BYTES = 1 << 20  # for all files of a handful: it stays in a core's cache from read to write
_WORTH_FILES = 2_000  # on so many, the loops save what it takes to load them
_LEFT = -1  # the size of a file that did not go through

_INT, _PLACE, _SIZE = types.intc, types.uintp, types.int64
_open: Any = types.ExternalFunction("open", _INT(_PLACE, _INT, _INT))
_close: Any = types.ExternalFunction("close", _INT(_INT))
_statx: Any = types.ExternalFunction("statx", _INT(_INT, _PLACE, _INT, types.uintc, _PLACE))
_read: Any = types.ExternalFunction("read", _SIZE(_INT, _PLACE, _SIZE))
_write: Any = types.ExternalFunction("write", _SIZE(_INT, _PLACE, _SIZE))
_linkat: Any = types.ExternalFunction("linkat", _INT(_INT, _PLACE, _INT, _PLACE, _INT))

_READING = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
_WRITING = os.O_WRONLY | os.O_CLOEXEC | getattr(os, "O_TMPFILE", 0)
_MODE = 0o644
_THIS_FOLDER, _FOLLOW, _FILE_ITSELF = -100, 0x400, 0x1000  # AT_FDCWD and flags of the *at calls
_BASIC_STATS = 0x7FF

# What statx(2) tells, as 64-bit words: alike on every architecture with the low byte first.
_MODE_WORD, _SIZE_WORD, _SECONDS_WORD, _NANOSECONDS_WORD, _STATUS_WORDS = 3, 5, 14, 15, 32
_KIND_BITS, _REGULAR = 0xF000, 0x8000
_OPEN_FILES = b"/proc/self/fd/"
_DIGITS_AT = len(_OPEN_FILES)

# The columns of what is known of a file: where its bytes are, how many, and its time of change.
_START, _BYTES, _SECONDS, _NANOSECONDS = range(4)


Pair = tuple[str, str]
NOWHERE = "", ""  # a pair of which nothing is copied


def find_handful(files: int) -> Handful | None:
    """For so many files that one process will copy, in all its tasks.

    None where they are too few to be worth it, or the system lacks a call.
    """
    return Handful() if files >= _WORTH_FILES and _is_possible() else None


def pair_of(source: Storage, source_key: str, target: Storage, target_key: str) -> Pair:
    """The paths of two keys, for `Handful.copy`; NOWHERE if there are none."""
    if isinstance(source, LocalStorage) and isinstance(target, LocalStorage):
        return source.path(source_key), target.path(target_key)
    return NOWHERE


def in_handfuls(files: Iterable[Item]) -> Iterator[tuple[Item, ...]]:
    """Files, as many at a time as are copied at a time."""
    rest = iter(files)
    return iter(lambda: tuple(islice(rest, HANDFUL_FILES)), ())


def _is_possible() -> bool:
    return (
        sys.platform == "linux"
        and sys.byteorder == "little"
        and hasattr(os, "O_TMPFILE")
        and hasattr(ctypes.CDLL(None), "statx")
        and not getattr(numba.config, "DISABLE_JIT", False)
    )


class Handful:
    """Copies files between local folders, a handful at a time."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, ROOM_BYTES)
        self._room: Bytes = np.frombuffer(self._memory, np.uint8)
        self._known: Longs = np.zeros((HANDFUL_FILES, 4), np.int64)
        self._status: Longs = np.zeros(_STATUS_WORDS, np.int64)
        self._open_file: Bytes = np.zeros(_DIGITS_AT + 20, np.uint8)
        self._open_file[:_DIGITS_AT] = np.frombuffer(_OPEN_FILES, np.uint8)
        self._folders: set[str] = set()
        self._kernel = sha256.load()
        self._is_in_vain = False  # where the target knows no unnamed files, say

    def copy(self, pairs: Sequence[Pair]) -> list[Copied | None]:
        """Copy from path to path; None for each file that has to go another way.

        A target that exists stays as it is, and its file is one of those.
        """
        done: list[Copied | None] = []
        while len(done) < len(pairs) and not self._is_in_vain:
            done += self._copy_some(pairs[len(done) : len(done) + HANDFUL_FILES])
        return done + [None] * (len(pairs) - len(done))

    def _copy_some(self, pairs: Sequence[Pair]) -> list[Copied | None]:
        """Copy the first ones, as many as there is room for."""
        sources, targets = zip(*pairs, strict=True)
        taken = read_files(_names(sources), len(sources), self._room, self._known, self._status)
        digests = self._digests(self._known[:taken])
        was_read = bool((self._known[:taken, _BYTES] != _LEFT).any())
        folders = [target.rpartition("/")[0] or "/" for target in targets[:taken]]
        self._make(folders)
        places = _names(folders), _names(targets[:taken])
        begun = write_files(*places, self._room, self._known[:taken], self._open_file)
        self._is_in_vain = was_read and begun == 0
        return [
            None if known[_BYTES] == _LEFT else _copied(known, digest)
            for known, digest in zip(self._known[:taken].tolist(), digests, strict=True)
        ]

    def _make(self, folders: Sequence[str]) -> None:
        """Make folders that were not seen yet; where that fails, so will files in them."""
        for folder in set(folders) - self._folders:
            with suppress(OSError, ValueError):
                os.makedirs(_encode(folder), exist_ok=True)  # noqa: PTH103  any byte in a name
            self._folders.add(folder)

    def _digests(self, known: Longs) -> list[bytes]:
        """The SHA-256 of each; of those that were left, of nothing."""
        spans = [(start, max(size, 0)) for start, size in known[:, : _BYTES + 1].tolist()]
        sizes = [size for _, size in spans]
        if self._kernel is None or not self._kernel.pays(max(sizes, default=0), sum(sizes)):
            view = memoryview(self._memory)
            return [hashlib.sha256(view[start : start + size]).digest() for start, size in spans]
        base = self._room.ctypes.data
        return self._kernel.digests([(base + at, sha256.blocks_of(size)) for at, size in spans])


def _copied(known: Sequence[int], digest: bytes) -> Copied:
    _, size, seconds, nanoseconds = known
    return Copied(size, digest, f"{size}-{seconds * 1_000_000_000 + nanoseconds}")


def _names(paths: Sequence[str]) -> Bytes:
    """Paths as C has them, one behind the other. One that C cannot have names no file."""
    encoded = (b"" if "\0" in path else _encode(path) for path in paths)
    return np.frombuffer(b"\0".join((*encoded, b"")), np.uint8)


def _encode(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")


# The loops. Places in memory are plain numbers here: each is inside an array that the caller holds.


@step
def _behind(names: Bytes, at: int) -> int:
    """Where the next name begins."""
    while names[at] != 0:
        at += 1
    return at + 1


@step
def _pad(room: Bytes, start: int, size: int, end: int) -> None:
    """What SHA-256 wants behind the last byte, up to the end of a block: see `sha256.padding`."""
    room[start + size] = 0x80
    for at in range(start + size + 1, end - 8):
        room[at] = 0
    for byte in range(8):
        room[end - 1 - byte] = (8 * size >> 8 * byte) & 0xFF


@step
def _read_all(descriptor: int, place: int, size: int) -> bool:
    got = 0
    while got < size:
        count = _read(descriptor, place + got, size - got)
        if count <= 0:
            return False
        got += count
    return True


@kernel
def read_files(names: Bytes, count: int, room: Bytes, known: Longs, status: Longs) -> int:
    """Read files one behind the other, padded for SHA-256; gives how many there was room for."""
    name = start = 0
    for number in range(count):
        known[number, _START] = 0
        known[number, _BYTES] = _LEFT
        descriptor = _open(names.ctypes.data + name, _READING, 0)
        name = _behind(names, name)
        if descriptor < 0:
            continue
        nothing = names.ctypes.data + name - 1  # the NUL of a name is one that is empty
        found = _statx(descriptor, nothing, _FILE_ITSELF, _BASIC_STATS, status.ctypes.data)
        kind, size = status[_MODE_WORD] >> 32 & _KIND_BITS, status[_SIZE_WORD]
        if found == 0 and kind == _REGULAR and size <= len(room) - 2 * BLOCK_BYTES:
            end = start + (size + 8) // BLOCK_BYTES * BLOCK_BYTES + BLOCK_BYTES
            if end > len(room):
                _close(descriptor)
                return number
            if _read_all(descriptor, room.ctypes.data + start, size):
                _pad(room, start, size, end)
                known[number, _START] = start
                known[number, _BYTES] = size
                known[number, _SECONDS] = status[_SECONDS_WORD]
                known[number, _NANOSECONDS] = status[_NANOSECONDS_WORD] & 0xFFFFFFFF
                start = end
        _close(descriptor)
    return count


@step
def _spell(open_file: Bytes, descriptor: int) -> None:
    """The descriptor as the last part of its path in /proc."""
    end = _DIGITS_AT + 1
    rest = descriptor
    while rest >= 10:
        rest //= 10
        end += 1
    open_file[end] = 0
    rest = descriptor
    for at in range(end - 1, _DIGITS_AT - 1, -1):
        open_file[at] = 48 + rest % 10
        rest //= 10


@step
def _write_all(descriptor: int, place: int, size: int) -> bool:
    sent = 0
    while sent < size:
        count = _write(descriptor, place + sent, size - sent)
        if count <= 0:
            return False
        sent += count
    return True


@kernel
def write_files(folders: Bytes, names: Bytes, room: Bytes, known: Longs, open_file: Bytes) -> int:
    """Write files that were read, each unnamed until it is whole; link(2) gives it its name.

    Gives how many could be begun.
    """
    folder = name = begun = 0
    for number in range(known.shape[0]):
        size = known[number, _BYTES]
        if size != _LEFT:
            known[number, _BYTES] = _LEFT
            descriptor = _open(folders.ctypes.data + folder, _WRITING, _MODE)
            if descriptor >= 0:
                begun += 1
                whole = _write_all(descriptor, room.ctypes.data + known[number, _START], size)
                _spell(open_file, descriptor)
                path, target = open_file.ctypes.data, names.ctypes.data + name
                if whole and _linkat(_THIS_FOLDER, path, _THIS_FOLDER, target, _FOLLOW) == 0:
                    known[number, _BYTES] = size
                if _close(descriptor) != 0:
                    known[number, _BYTES] = _LEFT
        folder = _behind(folders, folder)
        name = _behind(names, name)
    return begun
