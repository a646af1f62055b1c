"""Copying one file: one pass of read, hash and write. Runs in executors."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, field

from bcn.storage.protocol import CHUNK_BYTES, Reader, Storage


@dataclass
class Pace:
    """Holds a task back to a rate; without one it never waits."""

    bytes_per_second: float | None = None
    _started: float = field(default_factory=time.monotonic)
    _bytes: int = 0

    def spend(self, size_bytes: int) -> None:
        """Wait until so many more bytes are due."""
        if self.bytes_per_second is None:
            return
        self._bytes += size_bytes
        ahead = self._bytes / self.bytes_per_second - (time.monotonic() - self._started)
        if ahead > 0:
            time.sleep(ahead)


class Transfer:
    """Copies and hashes files with one buffer, at one pace."""

    def __init__(self, pace: Pace | None = None) -> None:
        self._pace = pace or Pace()
        self._buffer = memoryview(bytearray(CHUNK_BYTES))

    def copy(self, source: Storage, source_key: str, target: Storage, target_key: str) -> Copied:
        """Copy a file to a key that must be free. Raises MissingKeyError, KeyExistsError."""
        digest, size_bytes = hashlib.sha256(), 0
        with source.open_reader(source_key) as reader, target.open_writer(target_key) as writer:
            while count := self._fill(reader):
                piece = self._buffer[:count]
                digest.update(piece)
                writer.write(piece)
                size_bytes += count
            writer.commit()
        return Copied(size_bytes, digest.digest())

    def hash(self, storage: Storage, key: str) -> Copied:
        """Size and digest of a file. Raises MissingKeyError."""
        digest, size_bytes = hashlib.sha256(), 0
        with storage.open_reader(key) as reader:
            while count := self._fill(reader):
                digest.update(self._buffer[:count])
                size_bytes += count
        return Copied(size_bytes, digest.digest())

    def _fill(self, reader: Reader) -> int:
        count = reader.readinto(self._buffer)
        self._pace.spend(count)
        return count


@dataclass(frozen=True, slots=True)
class Copied:
    """What went through."""

    size_bytes: int
    sha256: bytes
