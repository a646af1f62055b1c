"""S3 and what speaks it: objects go by wire, what is asked of the service by botocore."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from html import escape, unescape
from typing import Any
from urllib.parse import unquote_plus

from isal import isal_zlib

from bcn.storage.bucket import Buffer, Facts, Listed, Origin, Piece, Range, UnfinishedUpload
from bcn.storage.fault import Fault, Kind, fault_by_answer
from bcn.storage.s3_conditions import Conditions
from bcn.storage.s3_connection import SLOW_SECONDS, Request, S3Connection
from bcn.storage.s3_copy import MARK_HEADER, S3Copying
from bcn.storage.s3_settings import S3Settings
from bcn.storage.wire import Answer

_SLASHES = re.compile(r"[/\\]+")
# What some servers normalise, and XML cannot spell.
_ODD = re.compile(r"\A\Z|//|\A/|/\Z|(?:\A|/)\.\.?(?:/|\Z)|[\x00-\x1f\x7f\\]")
_UPLOAD_ID = re.compile(r"<UploadId>\s*([^<\s]+)\s*</UploadId>")
_STREAM_BYTES = 1 << 20
_PARTIAL = 206
_CHECKSUM = "x-amz-checksum-crc32"


class S3Bucket:
    """One bucket, by one set of properties. Connections are kept; any thread may use it."""

    scheme = "s3"
    whole_bytes = 64 << 20  # in place of four requests

    def __init__(self, name: str, properties: Mapping[str, str]) -> None:
        self.name = name
        settings = S3Settings(name, properties)
        self.service = settings.service
        self.connection = S3Connection(settings)
        self._ask, self._send = self.connection.ask, self.connection.send
        self._copying = S3Copying(self, self.connection)
        self.conditions = Conditions(self, is_known=settings.endpoint is None)

    # reading

    def open(self, name: str, start: int = 0, tag: str | None = None) -> S3Body:
        """An object from a byte on."""
        headers = {} if start == 0 else {"range": f"bytes={start}-"}
        if tag is not None:
            headers["if-match"] = tag
        try:
            answer = self.connection.open(name, headers)
        except Fault as fault:
            raise _changed(fault) from None
        if start and answer.status != _PARTIAL:
            answer.close()
            raise Fault(Kind.WHOLE_ONLY)
        return S3Body(answer)

    def get(self, name: str) -> memoryview:
        """All bytes."""
        return memoryview(self._send("get", Request("GET", name)).data)

    def get_range(self, name: str, span: Range) -> Piece:
        """Some bytes."""
        headers = {"range": f"bytes={span.start}-{span.end - 1}"}
        if span.tag is not None:
            headers["if-match"] = span.tag
        try:
            reply = self._send("get", Request("GET", name, headers))
        except Fault as fault:
            raise _changed(fault) from None
        total = reply.headers.get("content-range", "").rpartition("/")[2]
        if reply.status != _PARTIAL or not total.isdigit():
            raise Fault(Kind.WHOLE_ONLY)
        facts = _facts(int(total), reply.headers)
        tag = reply.headers.get("etag", "")
        return Piece(memoryview(reply.data), facts.size_bytes, tag, facts.version)

    def stream(self, name: str) -> Iterator[memoryview]:
        """All bytes, one after the other."""
        body = self.open(name)
        try:
            while True:
                buffer = memoryview(bytearray(_STREAM_BYTES))
                count = body.readinto(buffer)
                if count == 0:
                    return
                yield buffer[:count]
        finally:
            body.close()

    def find(self, name: str) -> Facts | None:
        """What is there; the bucket's absence is no answer."""
        try:
            headers = self._send("head", Request("HEAD", name)).headers
        except Fault as fault:
            if fault.kind is Kind.MISSING:
                self._see_bucket(name)
                return None
            if fault.kind in {Kind.DENIED, Kind.REGION, Kind.OTHER}:
                self._explain(name)  # an answer to HEAD has no words
            raise
        return _facts(int(headers.get("content-length", 0)), headers)

    def _see_bucket(self, name: str) -> None:
        """Raises Fault NO_BUCKET."""
        if not self.connection.is_seen:
            self._explain(name)
            self.connection.is_seen = True

    def _explain(self, name: str) -> None:
        """Ask for a byte of an object, for the words of the refusal. Raises Fault."""
        try:
            self._send("get", Request("GET", name, {"range": "bytes=0-0"}))
        except Fault as fault:
            if fault.kind not in {Kind.MISSING, Kind.RANGE}:
                raise

    def find_mark(self, name: str) -> str | None:
        """The mark of the write that made an object."""
        try:
            return self._send("head", Request("HEAD", name)).headers.get(MARK_HEADER)
        except Fault as fault:
            if fault.kind is Kind.MISSING:
                return None
            raise

    def list(self, prefix: str, limit: int | None = None) -> Iterator[Listed]:
        """Objects whose names begin with the prefix; pages are fetched as they are needed."""
        more: dict[str, Any] = {} if limit is None else {"MaxKeys": limit}
        while True:
            answer = self._ask("list", "list_objects_v2", Prefix=prefix, **more)
            for item in answer.get("Contents", ()):
                yield Listed(item["Key"], item["Size"], item["LastModified"].timestamp())
            if limit is not None or not answer.get("IsTruncated"):
                return
            more["ContinuationToken"] = answer["NextContinuationToken"]

    def list_folder(self, prefix: str) -> Iterator[str]:
        """What is directly under a prefix."""
        more: dict[str, Any] = {}
        while True:
            answer = self._ask("list", "list_objects_v2", Prefix=prefix, Delimiter="/", **more)
            yield from (item["Key"] for item in answer.get("Contents", ()))
            yield from (item["Prefix"] for item in answer.get("CommonPrefixes", ()))
            if not answer.get("IsTruncated"):
                return
            more["ContinuationToken"] = answer["NextContinuationToken"]

    # writing

    def is_exclusive(self, name: str) -> bool:
        """Whether the server itself lets only one of many make an object."""
        return self.conditions.are_heeded(name)

    def put(self, name: str, data: Buffer, mark: str, *, create_only: bool) -> None:
        """Store an object."""
        if create_only:
            self.conditions.create(name, mark, partial(self.put_raw, name, data, mark))
        else:
            self.put_raw(name, data, mark, create_only=False)

    def put_raw(self, name: str, data: Buffer, mark: str, *, create_only: bool) -> None:
        """Store an object, with a condition that the server may ignore."""
        headers = {MARK_HEADER: mark, _CHECKSUM: _checksum(data)}
        if create_only:
            headers["if-none-match"] = "*"
        self._send("put", Request("PUT", name, headers, data))
        if _is_odd(name):
            self._check_spelling(name, len(data), mark)

    def _check_spelling(self, name: str, size_bytes: int, mark: str) -> None:
        """Some servers take `a//b` and store `a/b`: Fault KEY, and what they stored is removed."""
        other = _SLASHES.sub("/", name).strip("/")
        listed = any(
            (item.name, item.size_bytes) == (name, size_bytes) for item in self.list(name, limit=1)
        )
        if listed and (other in {"", name} or self.find_mark(other) != mark):
            return
        self._delete_one(name)
        raise Fault(Kind.KEY, "it would store it under another name")

    def delete(self, names: Sequence[str]) -> None:
        """Remove objects, a thousand a request where the server can; XML cannot spell odd names."""
        plain = [name for name in names if not _is_odd(name)]
        if len(plain) > 1:
            self._delete_many(plain)
        for name in names:
            if len(plain) == 1 or _is_odd(name):
                self._delete_one(name)

    def _delete_one(self, name: str) -> None:
        try:
            self._send("delete", Request("DELETE", name))
        except Fault as fault:
            if fault.kind is not Kind.MISSING:
                raise

    def _delete_many(self, names: Sequence[str]) -> None:
        keys = {"Objects": [{"Key": name} for name in names], "Quiet": True}
        try:
            answer = self._ask("delete", "delete_objects", Delete=keys)
        except Fault as fault:
            if fault.kind is not Kind.UNSUPPORTED:
                raise
            for name in names:
                self._delete_one(name)
            return
        for failed in answer.get("Errors", ()):
            raise fault_by_answer(None, failed.get("Code", ""), failed.get("Message", ""))

    def may_copy_from(self, origin: Origin) -> bool:
        """Whether both are of one server, and it has not refused to copy of there."""
        return self._copying.may_copy_from(origin)

    def copy_from(self, origin: Origin, name: str, mark: str) -> bytes | None:
        """A copy by the server, if it is the same and this bucket's credentials read the origin."""
        return self._copying.copy_from(origin, name, mark)

    # parts

    def begin_upload(self, name: str, mark: str) -> S3Upload:
        """Begin an object in parts."""
        headers = {MARK_HEADER: mark, "x-amz-checksum-algorithm": "CRC32"}
        reply = self._send("upload", Request("POST", name, headers, query={"uploads": ""}))
        found = _UPLOAD_ID.search(reply.data.decode(errors="replace"))
        if found is None:
            raise Fault(Kind.PROTOCOL, "it began an upload and does not say which")
        return S3Upload(self, name, unescape(found[1]), mark)

    def iter_uploads(self, prefix: str) -> Iterator[UnfinishedUpload]:
        """Uploads that were begun and not ended; none where they are not told."""
        more: dict[str, Any] = {}
        while True:
            try:
                answer = self._ask(
                    "list", "list_multipart_uploads", Prefix=prefix, EncodingType="url", **more
                )
            except Fault as fault:
                if fault.kind not in {Kind.NO_UPLOAD, Kind.UNSUPPORTED, Kind.DENIED}:
                    raise
                return
            for item in answer.get("Uploads", ()):
                started = item["Initiated"].timestamp()
                yield UnfinishedUpload(unquote_plus(item["Key"]), item["UploadId"], started)
            if not answer.get("IsTruncated"):
                return
            more["KeyMarker"] = answer["NextKeyMarker"]
            more["UploadIdMarker"] = answer["NextUploadIdMarker"]

    def find_upload(self, name: str, upload_id: str) -> int | None:
        """Bytes of the parts of an unfinished upload."""
        size_bytes = 0
        more: dict[str, Any] = {}
        try:
            while True:
                answer = self._ask("list", "list_parts", Key=name, UploadId=upload_id, **more)
                size_bytes += sum(int(part["Size"]) for part in answer.get("Parts", ()))
                if not answer.get("IsTruncated"):
                    return size_bytes
                more = {"PartNumberMarker": answer["NextPartNumberMarker"]}
        except Fault as fault:
            if fault.kind in {Kind.NO_UPLOAD, Kind.MISSING}:
                return None
            raise

    def abort_upload(self, name: str, upload_id: str) -> None:
        """Remove an unfinished upload."""
        try:
            self._send("upload", Request("DELETE", name, query={"uploadId": upload_id}))
        except Fault as fault:
            if fault.kind not in {Kind.NO_UPLOAD, Kind.MISSING}:
                raise


class S3Upload:
    """A large object on its way in parts."""

    def __init__(self, bucket: S3Bucket, name: str, upload_id: str, mark: str) -> None:
        self._bucket = bucket
        self._name = name
        self._id = upload_id
        self._mark = mark
        self._parts: dict[int, tuple[str, str]] = {}

    def send(self, number: int, data: Buffer) -> None:
        """Store a part."""
        checksum = _checksum(data)
        query = {"partNumber": str(number), "uploadId": self._id}
        request = Request("PUT", self._name, {_CHECKSUM: checksum}, data, query)
        reply = self._bucket.connection.send("put", request)
        self._parts[number] = reply.headers.get("etag", ""), checksum

    def finish(self, *, create_only: bool) -> None:
        """Make the object appear."""
        if create_only:
            conditions = self._bucket.conditions
            conditions.create(self._name, self._mark, self._finish)
        else:
            self._finish(create_only=False)

    def _finish(self, *, create_only: bool) -> None:
        headers = {"content-type": "application/xml"}
        if create_only:
            headers["if-none-match"] = "*"
        query = {"uploadId": self._id}
        request = Request("POST", self._name, headers, self._list_parts(), query, SLOW_SECONDS)
        self._bucket.connection.send("upload", request)

    def _list_parts(self) -> bytes:
        parts = "".join(
            f"<Part><PartNumber>{number}</PartNumber><ETag>{escape(tag)}</ETag>"
            f"<ChecksumCRC32>{checksum}</ChecksumCRC32></Part>"
            for number, (tag, checksum) in sorted(self._parts.items())
        )
        space = "http://s3.amazonaws.com/doc/2006-03-01/"
        text = f'<CompleteMultipartUpload xmlns="{space}">{parts}</CompleteMultipartUpload>'
        return text.encode()

    def abort(self) -> None:
        """Remove all parts."""
        self._bucket.abort_upload(self._name, self._id)


class S3Body:
    """An object on its way."""

    def __init__(self, answer: Answer) -> None:
        headers = answer.headers
        if "content-length" not in headers:
            answer.close()
            raise Fault(Kind.PROTOCOL, "it does not tell how long an object is")
        total = headers.get("content-range", "").rpartition("/")[2]
        self.size_bytes = int(total) if total.isdigit() else answer.left
        self.tag = headers.get("etag", "")
        self.version = _facts(self.size_bytes, headers).version
        self.readinto, self.close = answer.readinto, answer.close


def _changed(fault: Fault) -> Fault:
    return Fault(Kind.CHANGED) if fault.kind is Kind.EXISTS else fault


def _is_odd(name: str) -> bool:
    return _ODD.search(name) is not None


def _checksum(data: Buffer) -> str:
    return b64encode(isal_zlib.crc32(data).to_bytes(4, "big")).decode()


def _facts(size_bytes: int, headers: Mapping[str, str]) -> Facts:
    """The tag is a digest of the bytes for most writers, and new with every write for the rest."""
    tag, version = headers.get("etag", "").strip('"'), headers.get("x-amz-version-id")
    words = (tag, str(size_bytes), version if version != "null" else None)
    return Facts(size_bytes, "-".join(word for word in words if word))
