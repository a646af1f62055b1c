"""What a storage needs of an object store: requests on objects by their exact names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

Buffer = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class Range:
    """Bytes of an object from `start` on, `end` excluded; the object's tag if it must still fit."""

    start: int
    end: int
    tag: str | None = None


@dataclass(frozen=True, slots=True)
class Piece:
    """What came of an object: bytes, and what the whole of it is."""

    data: memoryview
    size_bytes: int
    tag: str
    version: str  # as Facts has it


@dataclass(frozen=True, slots=True)
class Listed:
    """An object in a listing."""

    name: str
    size_bytes: int
    modified_at: float


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of an object without reading it."""

    size_bytes: int
    version: str


@dataclass(frozen=True, slots=True)
class UnfinishedUpload:
    """Parts that nobody has put together."""

    name: str
    upload_id: str
    started_at: float


@dataclass(frozen=True, slots=True)
class Origin:
    """An object that is being read, as its own reader found it."""

    bucket: Bucket
    name: str
    size_bytes: int
    tag: str


class Upload(Protocol):
    """A large object on its way in parts."""

    def send(self, number: int, data: Buffer) -> None:
        """Store a part; parts count from 1 and may be sent at the same time."""

    def finish(self, *, create_only: bool) -> None:
        """Make the object appear. Fault EXISTS if it must not."""

    def abort(self) -> None:
        """Remove all parts."""


class Body(Protocol):
    """An object that is being read, and what the whole of it is."""

    size_bytes: int
    tag: str
    version: str

    def readinto(self, buffer: memoryview) -> int:
        """Some bytes, 0 after the last one. Raises Fault."""

    def close(self) -> None:
        """Leave the rest."""


@runtime_checkable
class Streaming(Protocol):
    """A bucket whose objects are read as they come, into the reader's own memory."""

    def open(self, name: str, start: int = 0, tag: str | None = None) -> Body:
        """An object from a byte on, if it still has the tag. Faults MISSING, CHANGED."""


@runtime_checkable
class Doubtful(Protocol):
    """A bucket of a service that some speak without all of its promises."""

    def is_exclusive(self, name: str) -> bool:
        """Whether only one of many that make an object at once is told that it did."""


@runtime_checkable
class Copying(Protocol):
    """A bucket whose service copies objects, most of them telling their SHA-256."""

    def may_copy_from(self, origin: Origin) -> bool:
        """Whether it is worth asking; no request is sent."""

    def copy_from(self, origin: Origin, name: str, mark: str) -> bytes | None:
        """Copy an object here, over what is there: its SHA-256, by the service or, where that
        tells none, of copy and origin as read.

        Only for an origin that `may_copy_from` said yes to. None if it cannot, or they differ;
        nothing is there then.
        """


class Bucket(Protocol):
    """Objects of one bucket. A name is what the store is sent, byte for byte; failures are Faults.

    `mark` is kept with an object, so that a write whose answer was lost knows its own work.
    """

    scheme: str
    name: str
    service: str
    whole_bytes: int  # up to that, an object of known size is put by one request, not in parts

    def get(self, name: str) -> memoryview:
        """All bytes. Fault MISSING."""

    def get_range(self, name: str, span: Range) -> Piece:
        """Some bytes. Faults MISSING, RANGE (an empty object has none), WHOLE_ONLY, CHANGED."""

    def stream(self, name: str) -> Iterator[memoryview]:
        """All bytes, one after the other."""

    def put(self, name: str, data: Buffer, mark: str, *, create_only: bool) -> None:
        """Store an object. Fault EXISTS if it must be new and is not."""

    def find(self, name: str) -> Facts | None:
        """What is there; None if nothing is."""

    def find_mark(self, name: str) -> str | None:
        """The mark of the write that made an object; None if it has none or is not there."""

    def list(self, prefix: str, limit: int | None = None) -> Iterator[Listed]:
        """Objects whose names begin with the prefix, in the order of their bytes."""

    def list_folder(self, prefix: str) -> Iterator[str]:
        """Names of objects directly under a prefix; names up to the next slash for all others."""

    def delete(self, names: Sequence[str]) -> None:
        """Remove objects, whether they are there or not."""

    def begin_upload(self, name: str, mark: str) -> Upload:
        """Begin an object in parts."""

    def iter_uploads(self, prefix: str) -> Iterator[UnfinishedUpload]:
        """Uploads that were begun and not ended."""

    def find_upload(self, name: str, upload_id: str) -> int | None:
        """Bytes of the parts of an unfinished upload; None if there is no such upload."""

    def abort_upload(self, name: str, upload_id: str) -> None:
        """Remove an unfinished upload."""
