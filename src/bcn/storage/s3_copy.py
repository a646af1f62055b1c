"""Copies by the S3 server itself, with its own SHA-256; where it tells none, of what is read."""

from __future__ import annotations

import base64
import hashlib
import threading
from collections.abc import Mapping

from bcn.errors import StorageError
from bcn.storage.bucket import Bucket, Origin
from bcn.storage.cloud_stream import open_stream
from bcn.storage.fault import Fault, Kind
from bcn.storage.s3_connection import COPY_SOURCE, SLOW_SECONDS, Request, S3Connection
from bcn.storage.s3_signature import spell_path

MARK_HEADER = "x-amz-meta-bcn-write"
_WHOLE = "FULL_OBJECT"
_LARGEST_BYTES = 5 << 30  # one request copies no more; parts would have digests of parts only
_PIECE_BYTES = 1 << 20
_DIGEST_BYTES = 32
_OF_THE_OBJECT = {Kind.MISSING, Kind.EXISTS}  # it was removed or changed meanwhile
_CANNOT = _OF_THE_OBJECT | {
    Kind.DENIED,
    Kind.CREDENTIALS,
    Kind.EXPIRED,
    Kind.NO_BUCKET,
    Kind.REGION,
    Kind.UNSUPPORTED,
    Kind.OTHER,
}


class S3Copying:
    """Copies into one bucket; remembers of which buckets the server cannot copy."""

    def __init__(self, bucket: Bucket, connection: S3Connection) -> None:
        self._bucket = bucket
        self._connection = connection
        self._useless: set[str] = set()
        self._lock = threading.Lock()

    def copy_from(self, origin: Origin, name: str, mark: str) -> bytes | None:
        """As `Copying` promises. Two tenants of a server may each have a bucket of that name: the
        tag that the origin's own reader saw must fit.
        """
        headers = {
            COPY_SOURCE: f"{origin.bucket.name}/{spell_path(origin.name)}",
            f"{COPY_SOURCE}-if-match": origin.tag,
            "x-amz-metadata-directive": "REPLACE",
            MARK_HEADER: mark,
            "x-amz-checksum-algorithm": "SHA256",
        }
        try:
            self._connection.send("copy", Request("PUT", name, headers, seconds=SLOW_SECONDS))
        except Fault as fault:
            if fault.kind not in _CANNOT:
                raise
            if fault.kind not in _OF_THE_OBJECT:
                self._give_up(origin)
            return None
        return self._read_back(origin, name, mark)

    def may_copy_from(self, origin: Origin) -> bool:
        """Whether both are of one server, and it has not refused to copy of there."""
        other = getattr(origin.bucket, "connection", None)
        if not isinstance(other, S3Connection) or origin.size_bytes > _LARGEST_BYTES:
            return False
        mine, theirs = self._connection.settings, other.settings
        same = (mine.endpoint, mine.region) == (theirs.endpoint, theirs.region)
        return same and bool(origin.tag) and origin.bucket.name not in self._useless

    def _give_up(self, origin: Origin) -> None:
        with self._lock:
            self._useless.add(origin.bucket.name)

    def _read_back(self, origin: Origin, name: str, mark: str) -> bytes | None:
        """The digest of what is there now, if it is our copy, whole; else nothing stays of it.

        A whole copy is never deleted: another attempt of the same task, which one of the two does
        not know to be alive, may have found it good and told so.
        """
        send = self._connection.send
        found = send("head", Request("HEAD", name, {"x-amz-checksum-mode": "ENABLED"})).headers
        if found.get(MARK_HEADER) != mark:
            raise Fault(Kind.EXISTS)
        digest = None
        if found.get("content-length") == str(origin.size_bytes):
            digest = _find_digest(found) or self._compare(origin, name)
        if digest is None:
            self._give_up(origin)
            send("delete", Request("DELETE", name))
        return digest

    def _compare(self, origin: Origin, name: str) -> bytes | None:
        """The digest of copy and origin, read, since the server tells none; None if they differ."""
        self._give_up(origin)
        try:
            digest, _ = _read(self._bucket, name)
        except StorageError:
            raise Fault(Kind.EXISTS) from None  # for whoever asked to look at that, too
        again, tag = _read(origin.bucket, origin.name)
        if tag != origin.tag:
            raise Fault(Kind.CHANGED)
        return digest if digest == again else None


def _read(bucket: Bucket, name: str) -> tuple[bytes, str]:
    """The digest of a large object, and its tag. Raises MissingKeyError, StorageError."""
    place = f"s3://{bucket.name}/{name}"
    digest, buffer = hashlib.sha256(), memoryview(bytearray(_PIECE_BYTES))
    try:
        reader = open_stream(bucket, name, place)
    except Fault as fault:
        raise fault.error("read", place) from None
    with reader:
        while count := reader.readinto(buffer):
            digest.update(buffer[:count])
    return digest.digest(), reader.origin.tag if reader.origin else ""


def _find_digest(headers: Mapping[str, str]) -> bytes | None:
    """A SHA-256 of the whole object; one of parts' digests is none, and says so or ends in `-N`."""
    text = headers.get("x-amz-checksum-sha256", "")
    if headers.get("x-amz-checksum-type", _WHOLE) != _WHOLE or "-" in text:
        return None
    try:
        digest = base64.b64decode(text, validate=True)
    except ValueError:
        return None
    return digest if len(digest) == _DIGEST_BYTES else None
