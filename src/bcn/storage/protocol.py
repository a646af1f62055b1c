"""What every storage promises, and the recipe it is opened from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

# How much is read, hashed and written at a time.
CHUNK_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class StorageSpec:
    """How to open a storage: where its root is, and the properties of its service."""

    location: str
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)


class Grants(Protocol):
    """What a catalog hands out for the files of single tables. It travels inside tasks."""

    def find_scope(self, location: str) -> str | None:
        """The place that a location shares its grant with; None if nothing was granted for it."""

    def properties(self, location: str, *, refused: bool = False) -> Mapping[str, str]:
        """Properties that reach a location now; asked for anew near their end, or if refused."""

    def ends_at(self, location: str) -> float:
        """When what `properties` gave last ends, in seconds since 1970."""


@dataclass(frozen=True, slots=True)
class Access:
    """How the files of a catalog's tables are reached: properties of their services.

    It travels inside tasks and may hold secrets: its text form leaves them out.
    """

    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    grants: Grants | None = field(default=None, repr=False)

    def spec(self, location: str) -> StorageSpec:
        """The recipe of a storage at a location that this access reaches."""
        return StorageSpec(location, self.properties)


@dataclass(frozen=True, slots=True)
class Stat:
    """What a storage knows of a key without reading it. `version` changes when the bytes do."""

    size_bytes: int
    version: str


class Reader(Protocol):
    """Bytes of one key from its start, piece by piece."""

    stat: Stat
    """Size and version of what is read."""

    def readinto(self, buffer: memoryview) -> int:
        """Fill the buffer from the front; fewer bytes than it holds, or 0, only at the end."""


class Writer(Protocol):
    """A key in the making. It appears whole when `commit` is called, and never if it is not."""

    def room(self, own: memoryview) -> memoryview:
        """Where to read the next bytes to: the caller's own memory, or some that saves a copy.

        That keeps its bytes until `let_go` is called for it.
        """

    def let_go(self, memory: object) -> None:
        """Memory that views of `room` were of may hold other bytes when these are stored."""

    def write(self, data: bytes | memoryview) -> None:
        """Append bytes; those that were read into `room` are where they belong."""

    def commit(self) -> None:
        """Make the key appear. Raises KeyExistsError if it is taken, also when two writers race."""


class Storage(Protocol):
    """Bytes under keys. Every failure is a StorageError."""

    small_in_flight: int
    """How many small files may be on their way at once: many where each one mostly waits."""

    def read(self, key: str) -> bytes:
        """All bytes of a key. Raises MissingKeyError."""

    def open_reader(self, key: str) -> AbstractContextManager[Reader]:
        """The bytes of a key as a stream. Raises MissingKeyError."""

    def open_writer(self, key: str, size_bytes: int = 0) -> AbstractContextManager[Writer]:
        """Begin a key; leaving without `commit` leaves nothing behind.

        Who knows how large it will be says so: it may be written in a better way then.
        """

    def copy_from(self, reader: Reader, key: str) -> bytes | None:
        """Let the service itself copy what a reader has just opened: the SHA-256 of the copy.

        None, and nothing is there, where the bytes have to be read and written: another service,
        one that was found to tell no digests, small files. Raises KeyExistsError.
        """

    def write_once(self, key: str, data: bytes) -> None:
        """Store and flush `data`, whole or not at all. Raises KeyExistsError."""

    def claim(self, key: str, data: bytes) -> None:
        """As `write_once`, for keys that processes race for: one wins, on every kind of store.

        It may take some seconds where a store has no conditional writes; there, of two that write a
        key by `write_once` at the same moment, both may be told that it was theirs.
        """

    def caveats(self) -> tuple[str, ...]:
        """What somebody who writes here should know, a line each; the store may be tried out."""

    def replace(self, key: str, data: bytes) -> None:
        """Store `data` in place of what was there; readers see the old bytes or the new.

        Not flushed: for documents that can be made again.
        """

    def find_stat(self, key: str) -> Stat | None:
        """Size and version of a key, None if there is nothing."""

    def iter_keys(self, prefix: str) -> Iterator[str]:
        """All keys under the prefix, which is empty or ends in a slash; sorted by segment."""

    def iter_leftovers(self, prefix: str) -> Iterator[str]:
        """Keys of half-written files under the prefix: of writers that work now, or were killed.

        `iter_keys` does not name them; `find_stat` and `delete` know them.
        """

    def iter_children(self, prefix: str) -> Iterator[str]:
        """Keys directly under the prefix, which is empty or ends in a slash, and folders there.

        Sorted; folders end in a slash. Nothing if there is no such folder.
        """

    def has_folder(self, prefix: str) -> bool:
        """Whether keys are under the prefix, which is empty or ends in a slash, or it was made."""

    def make_folder(self, prefix: str) -> None:
        """Let a folder be there though nothing is in it; flushed. One that is there stays."""

    def delete(self, key: str) -> None:
        """Remove a key; nothing happens if it is not there."""

    def delete_all(self, prefix: str) -> None:
        """Remove every key under a prefix, which is empty or ends in a slash, and its folders."""

    def delete_empty(self, prefix: str) -> None:
        """Remove folders under a prefix, and its own, that have nothing in them; never a key."""

    def flush(self) -> None:
        """Return when everything written so far will survive a power cut."""
