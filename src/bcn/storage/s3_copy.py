"""Copies by the S3 server itself: bytes that never leave it, and its own SHA-256 of them."""

from __future__ import annotations

import base64
import threading
from typing import Any

from bcn.storage.bucket import Origin
from bcn.storage.fault import Fault, Kind
from bcn.storage.s3_connection import S3Connection

MARK = "bcn-write"
_LARGEST_BYTES = 5 << 30  # one request copies no more; parts would have digests of parts only
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


def mark_of(answer: Any) -> str | None:
    """The mark of the write that made an object; some servers change the case of names."""
    found = {name.lower(): value for name, value in answer.get("Metadata", {}).items()}
    mark: str | None = found.get(MARK)
    return mark


class S3Copying:
    """Copies into one bucket; remembers of which buckets the server cannot copy."""

    def __init__(self, connection: S3Connection) -> None:
        self._connection = connection
        self._useless: set[str] = set()
        self._lock = threading.Lock()

    def copy_from(self, origin: Origin, name: str, mark: str) -> bytes | None:
        """As `Copying` promises. Two tenants of a server may each have a bucket of that name: the
        tag that the origin's own reader saw must fit.
        """
        if not self._may_try(origin):
            return None
        source = {"Bucket": origin.bucket.name, "Key": origin.name}
        try:
            self._connection.ask(
                "copy",
                "copy_object",
                Key=name,
                CopySource=source,
                CopySourceIfMatch=origin.tag,
                MetadataDirective="REPLACE",
                Metadata={MARK: mark},
                ChecksumAlgorithm="SHA256",
            )
        except Fault as fault:
            if fault.kind not in _CANNOT:
                raise
            if fault.kind not in _OF_THE_OBJECT:
                self._give_up(origin)
            return None
        return self._read_back(origin, name, mark)

    def _may_try(self, origin: Origin) -> bool:
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
        """The digest of what is there now, if it is our copy, whole; else nothing stays of it."""
        ask = self._connection.ask
        answer = ask("head", "head_object", Key=name, ChecksumMode="ENABLED")
        if mark_of(answer) != mark:
            raise Fault(Kind.EXISTS)
        digest = _find_digest(answer)
        if digest is not None and answer["ContentLength"] == origin.size_bytes:
            return digest
        self._give_up(origin)
        ask("delete", "delete_object", Key=name)
        return None


def _find_digest(answer: Any) -> bytes | None:
    """A SHA-256 of the whole object; one of parts' digests is none, and says so or ends in `-N`."""
    text = answer.get("ChecksumSHA256") or ""
    if answer.get("ChecksumType", "FULL_OBJECT") != "FULL_OBJECT" or "-" in text:
        return None
    try:
        digest = base64.b64decode(text, validate=True)
    except ValueError:
        return None
    return digest if len(digest) == _DIGEST_BYTES else None
