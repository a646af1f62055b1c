"""Google Cloud Storage: obstore reads, Google's JSON API does the rest.

The JSON API takes every name as it is, and a large object (a resumable upload) appears only if its
name is free, which obstore's way of sending parts cannot promise: it knows no preconditions.
"""

from __future__ import annotations

import json
import re
import secrets
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote

import obstore
from obstore.store import GCSStore

from bcn.errors import StorageError
from bcn.storage.bucket import Buffer, Facts, Listed, Piece, Range, UnfinishedUpload
from bcn.storage.fault import Fault, Kind, fault_by_answer
from bcn.storage.gcs_settings import GcsSettings
from bcn.storage.http import Call, HttpConnection, Reply
from bcn.storage.through_obstore import is_odd, iter_chunks

_MARK = "bcn-write"
_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")
_NEW = {"ifGenerationMatch": "0"}
_NAME_BYTES = 1024
_STORED = {"Accept-Encoding": "gzip"}  # else Google unpacks what is marked as packed
_LISTED = "items(name,size,updated),prefixes,nextPageToken"
_MORE = 308
_ENDED = (404, 410, 499)  # 499: a session that was called off
_TRIES, _WAIT_SECONDS = 8, 1.0  # for a part of which nothing is stored
_WORTH_ASKING = {Kind.CONNECTION, Kind.TIMEOUT, Kind.SERVER, Kind.BUSY}


class GcsBucket:
    """One bucket, by one set of properties. Connections are kept; any thread may use it."""

    scheme = "gs"
    whole_bytes = 0  # one request takes a copy of its own

    def __init__(self, name: str, properties: Mapping[str, str]) -> None:
        if not _BUCKET.fullmatch(name):
            raise StorageError(
                "a gs:// location names no bucket that Google could have",
                hint="it looks like gs://bucket/prefix",
            )
        self.name = name
        self._settings = GcsSettings(properties)
        self.service = self._settings.endpoint
        if not self._settings.is_anonymous:
            self._settings.tokens  # noqa: B018  what is wrong with them is told here
        self.connection: HttpConnection[GCSStore] = HttpConnection(
            self._open_store, self._settings.sign, _read_fault, self._settings.headers
        )
        self._ask, self._move = self.connection.ask, self.connection.move
        bucket = quote(name, safe="")
        self._objects = f"{self.service}/storage/v1/b/{bucket}/o"
        self.uploads = f"{self.service}/upload/storage/v1/b/{bucket}/o"

    def _open_store(self, options: Any) -> GCSStore:
        settings = self._settings
        options["default_headers"] = {**options["default_headers"], **_STORED}
        return GCSStore(
            self.name,
            config={"base_url": settings.endpoint, "skip_signature": settings.is_anonymous},
            client_options=options,
            retry_config={"max_retries": 0},  # Patience knows what to try again
            credential_provider=None if settings.is_anonymous else settings.provide,
        )

    def _address(self, name: str) -> str:
        """Of one object. Fault KEY for a name that Google has no objects of."""
        _check(name)
        return f"{self._objects}/{quote(name, safe='')}"

    # reading

    def get(self, name: str) -> memoryview:
        """All bytes."""
        if is_odd(name):
            return memoryview(self._get_odd(name, {}).data)
        return self._move("get", lambda store: memoryview(obstore.get(store, name).bytes()))

    def _get_odd(self, name: str, headers: dict[str, str], **more: str) -> Reply:
        params = {"alt": "media", **more}
        return self._ask(Call("get", "GET", self._address(name), params, {**_STORED, **headers}))

    def get_range(self, name: str, span: Range) -> Piece:
        """Some bytes, of one generation if there is a tag."""
        try:
            if is_odd(name):
                return self._get_odd_range(name, span)
            return self._get_range(name, span)
        except Fault as fault:
            if fault.kind is Kind.MISSING and span.tag is not None:
                raise Fault(Kind.CHANGED) from None
            raise

    def _get_range(self, name: str, span: Range) -> Piece:
        options: Any = {"range": (span.start, span.end)}
        if span.tag is not None:
            options["version"] = span.tag

        def get(store: GCSStore) -> Piece:
            answer = obstore.get(store, name, options=options)
            generation = answer.meta["version"] or ""
            data = memoryview(answer.bytes())
            return Piece(data, answer.meta["size"], generation, generation)

        return self._move("get", get)

    def _get_odd_range(self, name: str, span: Range) -> Piece:
        more = {} if span.tag is None else {"generation": span.tag}
        headers = {"Range": f"bytes={span.start}-{span.end - 1}"}
        reply = self._get_odd(name, headers, **more)
        if "Content-Range" not in reply.headers:
            raise Fault(Kind.WHOLE_ONLY)
        size_bytes = int(reply.headers["Content-Range"].rpartition("/")[2])
        generation = reply.headers["X-Goog-Generation"]
        return Piece(memoryview(reply.data), size_bytes, generation, generation)

    def stream(self, name: str) -> Iterator[memoryview]:
        """All bytes, one after the other."""
        if is_odd(name):
            yield self.get(name)
            return
        yield from iter_chunks(self._move("get", lambda store: obstore.get(store, name)))

    def find(self, name: str) -> Facts | None:
        """What is there; the bucket's absence is no answer."""
        found = self._describe(name, "size,generation")
        return None if found is None else Facts(int(found["size"]), str(found["generation"]))

    def find_mark(self, name: str) -> str | None:
        """The mark of the write that made an object."""
        found = self._describe(name, "metadata")
        mark: str | None = None if found is None else found.get("metadata", {}).get(_MARK)
        return mark

    def _describe(self, name: str, fields: str) -> Any:
        if not name:
            return None
        try:
            reply = self._ask(Call("head", "GET", self._address(name), {"fields": fields}))
        except Fault as fault:
            if fault.kind is not Kind.MISSING:
                raise
            self._see_bucket()
            return None
        return _parse(reply)

    def _see_bucket(self) -> None:
        """Raises Fault NO_BUCKET; who may not list may still read."""
        if self.connection.is_seen:
            return
        try:
            next(self.list("", limit=1), None)
        except Fault as fault:
            if fault.kind is not Kind.DENIED:
                raise
        self.connection.is_seen = True

    def list(self, prefix: str, limit: int | None = None) -> Iterator[Listed]:
        """Objects whose names begin with the prefix; pages are fetched as they are needed."""
        params = (
            {"prefix": prefix} if limit is None else {"prefix": prefix, "maxResults": f"{limit}"}
        )
        for page in self._pages(params, is_whole=limit is None):
            for item in page.get("items", ()):
                modified = datetime.fromisoformat(item["updated"]).timestamp()
                yield Listed(item["name"], int(item["size"]), modified)

    def list_folder(self, prefix: str) -> Iterator[str]:
        """Names of objects directly under a prefix; names up to the next slash for all others."""
        for page in self._pages({"prefix": prefix, "delimiter": "/"}, is_whole=True):
            yield from (item["name"] for item in page.get("items", ()))
            yield from page.get("prefixes", ())

    def _pages(self, params: dict[str, str], *, is_whole: bool) -> Iterator[Any]:
        params = {**params, "fields": _LISTED}
        while True:
            try:
                page = _parse(self._ask(Call("list", "GET", self._objects, params)))
            except Fault as fault:
                raise _no_bucket(fault) from None
            yield page
            if not is_whole or not page.get("nextPageToken"):
                return
            params["pageToken"] = page["nextPageToken"]

    # writing

    def put(self, name: str, data: Buffer, mark: str, *, create_only: bool) -> None:
        """Store an object: what it is called and its bytes in one request."""
        _check(name)
        edge = secrets.token_hex(16).encode()
        body = b"".join(
            (
                b"--%s\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n" % edge,
                _describe_new(name, mark),
                b"\r\n--%s\r\nContent-Type: application/octet-stream\r\n\r\n" % edge,
                data,
                b"\r\n--%s--\r\n" % edge,
            )
        )
        params = {"uploadType": "multipart", **(_NEW if create_only else {})}
        headers = {"Content-Type": f"multipart/related; boundary={edge.decode()}"}
        try:
            self._ask(Call("put", "POST", self.uploads, params, headers, body))
        except Fault as fault:
            raise _no_bucket(fault) from None

    def delete(self, names: Sequence[str]) -> None:
        """Remove objects, some at a time."""
        missing = (404,)
        self.connection.ask_many(
            [Call("delete", "DELETE", self._address(name), accepted=missing) for name in names]
        )

    # parts

    def begin_upload(self, name: str, mark: str) -> GcsUpload:
        """Begin an object that must be new; Google looks at that when its last byte has come."""
        _check(name)
        headers = {"Content-Type": "application/json; charset=UTF-8"}
        params = {"uploadType": "resumable", "name": name, **_NEW}
        call = Call("upload", "POST", self.uploads, params, headers, _describe_new(name, mark))
        try:
            reply = self._ask(call)
        except Fault as fault:
            raise _no_bucket(fault) from None
        return GcsUpload(self, reply.headers["Location"])

    def iter_uploads(self, prefix: str) -> Iterator[UnfinishedUpload]:
        """None that could be seen: Google removes what nobody has ended after a week, unpaid."""
        return iter(())

    def find_upload(self, name: str, upload_id: str) -> int | None:
        """There is none to be found."""
        return None

    def abort_upload(self, name: str, upload_id: str) -> None:
        """There is none to be removed."""


class GcsUpload:
    """A resumable upload: bytes go one after the other; the last ones let the object appear."""

    def __init__(self, bucket: GcsBucket, session: str) -> None:
        self._connection = bucket.connection
        self._session = session  # whoever knows it may write: it needs no token and is never shown
        self._turn = threading.Condition()
        self._next = 1
        self._sent = 0
        self._held: Buffer = b""  # only what is not the last part can be sent as such
        self._failed: Fault | None = None

    def send(self, number: int, data: Buffer) -> None:
        """Store the part before this one, when all before it are stored."""
        with self._turn:
            self._turn.wait_for(lambda: self._next == number or self._failed is not None)
            if self._failed is not None:
                raise self._failed
            try:
                self._store(self._held, is_last=False)
            except Fault as fault:
                self._failed = fault
                raise
            finally:
                self._turn.notify_all()
            self._held = bytes(data)  # its memory is the caller's again after this
            self._next += 1

    def finish(self, *, create_only: bool) -> None:
        """Make the object appear."""
        if not create_only:
            raise Fault(Kind.UNSUPPORTED, "a large object must be new")
        self._store(self._held, is_last=True)

    def _store(self, data: Buffer, *, is_last: bool) -> None:
        """Send bytes until they are stored: the server may keep fewer than it was sent."""
        end = self._sent + len(data)
        rest, tries = memoryview(data), 0
        while self._sent < end or is_last:
            span = f"{self._sent}-{end - 1}" if rest else "*"
            reply = self._put(f"bytes {span}/{end if is_last else '*'}", rest)
            if reply.status != _MORE:
                return
            stored = _stored_bytes(reply)
            tries = 0 if stored > self._sent else tries + 1
            if not self._sent <= stored <= end or tries == _TRIES:
                raise Fault(Kind.SERVER, f"it stored {stored} of {end} bytes")
            rest, self._sent = rest[stored - self._sent :], stored
            time.sleep(_WAIT_SECONDS * tries)

    def _put(self, span: str, data: Buffer) -> Reply:
        """One request; after one that failed the server is asked how far it came."""
        try:
            return self._connection.ask_once(self._call("put", span, data))
        except Fault as fault:
            if fault.kind not in _WORTH_ASKING:
                raise _no_upload(fault) from None
        total = span.rpartition("/")[2]
        try:
            return self._connection.ask(self._call("upload", f"bytes */{total}", b""))
        except Fault as fault:
            raise _no_upload(fault) from None

    def _call(self, kind: str, span: str, data: Buffer) -> Call:
        return Call(
            kind,
            "PUT",
            self._session,
            headers={"Content-Range": span},
            body=data,
            is_signed=False,
            accepted=(_MORE,),
        )

    def abort(self) -> None:
        """Call the session off."""
        call = Call("upload", "DELETE", self._session, is_signed=False, accepted=_ENDED)
        self._connection.ask(call)


def _check(name: str) -> None:
    reason = (
        "names have 1 to 1024 bytes"
        if not 0 < len(name.encode()) <= _NAME_BYTES
        else "no name has line ends"
        if "\n" in name or "\r" in name
        else "no object is called so"
        if name in {".", ".."}
        else ""
    )
    if reason:
        raise Fault(Kind.KEY, reason)


def _describe_new(name: str, mark: str) -> bytes:
    return json.dumps({"name": name, "metadata": {_MARK: mark}}).encode()


def _parse(reply: Reply) -> Any:
    try:
        found = json.loads(reply.data)
    except ValueError:
        raise Fault(Kind.PROTOCOL) from None
    if not isinstance(found, dict):
        raise Fault(Kind.PROTOCOL)
    return found


def _stored_bytes(reply: Reply) -> int:
    """`Range: bytes=0-99` are 100; nothing is stored where there is no such header."""
    return int(reply.headers.get("Range", "bytes=0--1").partition("-")[2]) + 1


def _read_fault(reply: Reply) -> Fault:
    try:
        error = json.loads(reply.data)["error"]
        message = str(error["message"])
    except (ValueError, TypeError, KeyError):
        message = ""
    if reply.status == 400 and message.startswith("Invalid bucket name"):
        return Fault(Kind.NO_BUCKET, message)
    if reply.status == 404 and "bucket does not exist" in message:
        return Fault(Kind.NO_BUCKET)
    return fault_by_answer(reply.status, "", message)


def _no_bucket(fault: Fault) -> Fault:
    """What is missing where no object is asked for."""
    return Fault(Kind.NO_BUCKET) if fault.kind is Kind.MISSING else fault


def _no_upload(fault: Fault) -> Fault:
    return Fault(Kind.NO_UPLOAD) if fault.kind is Kind.MISSING or fault.status == 410 else fault
