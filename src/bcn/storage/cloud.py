"""Object stores as storages: keys appear whole and only where they are free."""

from __future__ import annotations

import os
import re
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from typing import TypeVar

from bcn.errors import KeyExistsError, StorageError
from bcn.storage.bucket import Bucket, Buffer, Copying, Doubtful, Listed, Upload
from bcn.storage.claim import claim
from bcn.storage.cloud_stream import BodyReader, CloudReader, CloudWriter, open_stream
from bcn.storage.fault import Fault, Kind
from bcn.storage.local import TEMPORARY_PREFIX
from bcn.storage.protocol import Stat

Answer = TypeVar("Answer")

_UPLOAD = re.compile(r"(?s)(.*)\.bcn-upload-([0-9a-f]+)\Z")
_BEFORE_SLASH = re.compile(r"[\x00-.]")  # sorts before the slash, but not before a segment's end
_DELETED_AT_ONCE = 1000
_REFUSED = {Kind.CREDENTIALS, Kind.EXPIRED}


class CloudStorage:
    """A prefix of a bucket. Keys are joined to it and never normalised."""

    small_in_flight = 32

    def __init__(
        self, bucket: Bucket, root: str, renew: Callable[[], Bucket] | None = None
    ) -> None:
        self.bucket = bucket
        self._renew = renew  # opens it with newer credentials, where a catalog hands them out
        self._prefix = f"{root.rstrip('/')}/" if root.rstrip("/") else root

    def name_of(self, key: str) -> str:
        """What the store is sent. Raises StorageError for a key that no store can have."""
        try:
            key.encode()
        except UnicodeEncodeError:
            raise StorageError(
                f"{key!r} is not UTF-8: object stores have no such keys",
                hint="only local disks keep such names",
            ) from None
        return self._prefix + key

    def describe(self, name: str) -> str:
        """For messages."""
        bucket = self.bucket
        place = f"{bucket.scheme}://{bucket.name}/{name}"
        return f"{place if place.isprintable() else repr(place)} at {bucket.service}"

    def attempt(self, verb: str, name: str, work: Callable[[], Answer]) -> Answer:
        """What the work gives; a Fault becomes one of our errors."""
        try:
            try:
                return work()
            except Fault as fault:
                if self._renew is None or fault.kind not in _REFUSED:
                    raise
            self.bucket = self._renew()
            return work()
        except Fault as fault:
            raise fault.error(verb, self.describe(name)) from None

    # reading

    def read(self, key: str) -> bytes:
        """All bytes of a key."""
        name = self.name_of(key)
        return bytes(self.attempt("read", name, lambda: self.bucket.get(name)))

    def open_reader(self, key: str) -> CloudReader | BodyReader:
        """The bytes of a key as a stream: as they come, or large ones in ranges, some ahead."""
        name = self.name_of(key)
        place = self.describe(name)
        return self.attempt("read", name, lambda: open_stream(self.bucket, name, place))

    def find_stat(self, key: str) -> Stat | None:
        """Size, and the store's tag and version."""
        name = self.name_of(key)
        facts = self.attempt("look at", name, lambda: self.bucket.find(name))
        if facts is not None:
            return Stat(facts.size_bytes, facts.version)
        upload = _UPLOAD.match(name)
        if upload is None:
            return None
        owner, upload_id = upload[1], bytes.fromhex(upload[2]).decode()
        size_bytes = self.attempt(
            "look at", name, lambda: self.bucket.find_upload(owner, upload_id)
        )
        return None if size_bytes is None else Stat(size_bytes, upload[2])

    def iter_keys(self, prefix: str) -> Iterator[str]:
        """All keys under the prefix, without temporary ones and those that stand for folders."""
        return sort_by_segment(
            (item.name[len(self._prefix) :] for item in self._list(prefix) if _is_key(item)),
            len(prefix),
        )

    def iter_leftovers(self, prefix: str) -> Iterator[str]:
        """Temporary objects, and uploads in parts that nobody has ended."""
        name, skip = self.name_of(prefix), len(self._prefix)
        for item in self._list(prefix):
            if _is_temporary(item.name):
                yield item.name[skip:]
        uploads = self.bucket.iter_uploads(name)
        while True:
            upload = self.attempt("list", name, lambda: next(uploads, None))
            if upload is None:
                return
            yield f"{upload.name[skip:]}.bcn-upload-{upload.upload_id.encode().hex()}"

    def iter_children(self, prefix: str) -> Iterator[str]:
        """What is directly under a prefix, without temporary objects; its own marker is none."""
        name, skip = self.name_of(prefix), len(self._prefix)
        found = self.attempt("list", name, lambda: set(self.bucket.list_folder(name)))
        return iter(sorted(item[skip:] for item in found - {name} if not _is_temporary(item)))

    def has_folder(self, prefix: str) -> bool:
        """Whether any object is under a prefix, be it the one that stands for the folder."""
        name = self.name_of(prefix)
        found = self.attempt("list", name, lambda: next(self.bucket.list(name, limit=1), None))
        return found is not None

    def make_folder(self, prefix: str) -> None:
        """An empty object `folder/`, as Hadoop and web consoles make them."""
        name = self.name_of(prefix)
        if name and not self.has_folder(prefix):
            with suppress(KeyExistsError):
                self.create(name, b"")

    def _list(self, prefix: str) -> Iterator[Listed]:
        name = self.name_of(prefix)
        try:
            yield from self.bucket.list(name)
        except Fault as fault:
            raise fault.error("list", self.describe(name)) from None

    # writing

    def open_writer(self, key: str, size_bytes: int = 0) -> CloudWriter:
        """Begin a key: one request if it stays small, else parts that are sent meanwhile."""
        return CloudWriter(self, self.name_of(key), size_bytes)

    def copy_from(self, reader: object, key: str) -> bytes | None:
        """Ask the service; a condition on a copy is not trusted, so what is there is looked at."""
        origin = reader.origin if isinstance(reader, CloudReader | BodyReader) else None
        if origin is None or not isinstance(self.bucket, Copying):
            return None
        if not self.bucket.may_copy_from(origin):
            return None  # asked first: a server reads on for a while for a reader that lets go
        if isinstance(reader, BodyReader):
            reader.let_go()
        name, mark, copying = self.name_of(key), secrets.token_hex(16), self.bucket
        if self.attempt("look at", name, lambda: self.bucket.find(name)) is not None:
            raise KeyExistsError(f"{self.describe(name)} is there already")
        return self.attempt("write", name, lambda: copying.copy_from(origin, name, mark))

    def write_once(self, key: str, data: bytes) -> None:
        """Store `data`; what an object store has answered for is safe."""
        self.create(self.name_of(key), data)

    def claim(self, key: str, data: bytes) -> None:
        """By the store's word where it keeps it, else by claims and some seconds of waiting."""
        name = self.name_of(key)
        if self.attempt("write", name, lambda: self._is_exclusive(name)):
            self.create(name, data)
        else:
            mark = secrets.token_hex(16)
            self.attempt("write", name, lambda: claim(self.bucket, name, data, mark))

    def _is_exclusive(self, name: str) -> bool:
        return not isinstance(self.bucket, Doubtful) or self.bucket.is_exclusive(name)

    def caveats(self) -> tuple[str, ...]:
        """Whether the store heeds conditions."""
        name = self.name_of("")
        if self.attempt("write", name, lambda: self._is_exclusive(name)):
            return ()
        place = self.describe(name)
        told = f"{place} has no conditional writes: a lease takes some seconds there, and two"
        return (f"{told} writers are kept apart only while the server answers quickly",)

    def create(self, name: str, data: Buffer) -> None:
        """Store an object that must be new. Raises KeyExistsError."""
        mark = secrets.token_hex(16)

        def put() -> None:
            self.bucket.put(name, data, mark, create_only=True)

        self._settle(name, mark, put)

    def finish(self, name: str, mark: str, upload: Upload) -> None:
        """Let an upload appear as an object that must be new. Raises KeyExistsError."""
        self._settle(name, mark, lambda: upload.finish(create_only=True))

    def _settle(self, name: str, mark: str, create: Callable[[], None]) -> None:
        """Create; where something is there already, it may be ours: an answer may have been lost.

        Only the mark tells: another writer may have stored the very same bytes.
        """
        try:
            create()
        except Fault as fault:
            if fault.kind not in {Kind.EXISTS, Kind.NO_UPLOAD}:
                raise fault.error("write", self.describe(name)) from None
            if self.attempt("look at", name, lambda: self.bucket.find_mark(name)) != mark:
                raise self._taken(name, fault) from None

    def _taken(self, name: str, fault: Fault) -> StorageError:
        if fault.kind is Kind.EXISTS:
            return KeyExistsError(f"{self.describe(name)} is there already")
        return fault.error("write", self.describe(name))

    def replace(self, key: str, data: bytes) -> None:
        """Store `data` in place of what was there; a put is seen whole or not at all."""
        name, mark = self.name_of(key), secrets.token_hex(16)
        self.attempt("write", name, lambda: self.bucket.put(name, data, mark, create_only=False))

    # deleting

    def delete(self, key: str) -> None:
        """Remove an object, or an upload that was never ended."""
        name = self.name_of(key)
        upload = _UPLOAD.match(name)
        if upload is not None:
            owner, upload_id = upload[1], bytes.fromhex(upload[2]).decode()
            self.attempt("delete", name, lambda: self.bucket.abort_upload(owner, upload_id))
        self.attempt("delete", name, lambda: self.bucket.delete([name]))

    def delete_all(self, prefix: str) -> None:
        """Remove every object under a prefix, those that stand for folders too."""
        names = (item.name for item in self._list(prefix))
        while batch := list(islice(names, _DELETED_AT_ONCE)):
            self._delete(batch)

    def _delete(self, names: Sequence[str]) -> None:
        self.attempt("delete", names[0], lambda: self.bucket.delete(names))

    def delete_empty(self, prefix: str) -> None:
        """There are no folders."""

    def flush(self) -> None:
        """What was answered for is stored."""


def _is_temporary(name: str) -> bool:
    return name.rpartition("/")[2].startswith(TEMPORARY_PREFIX)


def _is_key(item: Listed) -> bool:
    """Hadoop and web consoles make empty objects `folder/` to show folders."""
    return not _is_temporary(item.name) and not (item.name.endswith("/") and item.size_bytes == 0)


def sort_by_segment(keys: Iterable[str], skip: int) -> Iterator[str]:
    """Keys in the order of their bytes, in the order of their segments; few are held at a time.

    `a-b` and `a.b` come before `a/b` in a listing, and after it here. So a key with such a sign is
    held until the listing has passed all that its beginning could be a folder of.
    """
    held: list[str] = []
    barrier = ""
    for key in chain(keys, (None,)):
        if held and (key is None or key >= barrier):
            yield from sorted(held, key=lambda name: name.split("/"))
            held, barrier = [], ""
        if key is None:
            return
        found = _BEFORE_SLASH.search(key, skip)
        held.append(key)
        if found is not None:
            barrier = max(barrier, key[: found.start()] + "0")


_opened: dict[tuple[object, ...], Bucket] = {}
_lock = threading.Lock()


def open_bucket(
    kind: Callable[[str, dict[str, str]], Bucket], name: str, properties: dict[str, str]
) -> Bucket:
    """One bucket object for one place in one process: its connections are worth keeping."""
    place = (os.getpid(), kind, name, *sorted(properties.items()))
    with _lock:
        if place not in _opened:
            _opened[place] = kind(name, properties)
        return _opened[place]
