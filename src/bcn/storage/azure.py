"""Azure Blob Storage: obstore reads and puts, its REST API does the rest.

The REST API lists names as they are, and lets an object of many blocks appear only if its name is
free, which obstore's way of sending parts cannot.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from email.utils import parsedate_to_datetime
from itertools import islice
from typing import Any
from urllib.parse import quote, unquote
from xml.etree import ElementTree as ET

import obstore
from obstore.store import AzureStore

from bcn.storage.azure_settings import AzureSettings
from bcn.storage.bucket import Buffer, Facts, Listed, Piece, Range, UnfinishedUpload
from bcn.storage.fault import Fault, Kind, fault_by_answer
from bcn.storage.http import Call, HttpConnection, Reply
from bcn.storage.through_obstore import is_odd, iter_chunks

_MARK = "bcn_write"  # names of metadata are names in C#
_API = {"x-ms-version": "2023-11-03"}
_FOLDER = "hdi_isfolder"  # Hadoop marks empty objects so that stand for folders
_NEW = {"If-None-Match": "*"}
_NAME_LENGTH, _SEGMENTS = 1024, 254
_FOLDERS = 20
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ufffe\uffff]")
_DOTS = re.compile(r"(?:\A|/)\.\.?(?:/|\Z)")
_END_DOT = re.compile(r"\.(?:/|\Z)")


class AzureBucket:
    """One container, by one set of properties. Connections are kept; any thread may use it."""

    scheme = "az"
    whole_bytes = 0

    def __init__(self, name: str, properties: Mapping[str, str]) -> None:
        self._settings = AzureSettings(name, properties)
        self.name = self._settings.container
        self.service = self._settings.endpoint
        self._credential = self._settings.credential
        self.connection: HttpConnection[AzureStore] = HttpConnection(
            self._open_store, self._credential.sign, _read_fault
        )
        self._ask, self._move = self.connection.ask, self.connection.move
        self._container = f"{self.service}/{quote(self.name, safe='$')}"

    def _open_store(self, options: Any) -> AzureStore:
        provided = self._credential.provide()
        config: Any = {
            "account_name": self._settings.account,
            "container_name": self.name,
            "endpoint": self.service,
            "skip_signature": provided is None,
            "use_emulator": False,
            "use_fabric_endpoint": False,
        }
        return AzureStore(
            config=config,
            client_options=options,
            retry_config={"max_retries": 0},  # Patience knows what to try again
            credential_provider=None if provided is None else self._provide,
        )

    def _provide(self) -> Any:
        return self._credential.provide()

    def address(self, name: str) -> str:
        """Of one object. Fault KEY for a name that would be taken for another one."""
        reason = (
            f"names have 1 to {_NAME_LENGTH} characters"
            if not 0 < len(name) <= _NAME_LENGTH
            else "Azure takes a back slash for a slash"
            if "\\" in name
            else "Azure has no segments that are dots"
            if _DOTS.search(name)
            else ""
        )
        if reason:
            raise Fault(Kind.KEY, reason)
        return f"{self._container}/{quote(name)}"

    # reading

    def get(self, name: str) -> memoryview:
        """All bytes."""
        address = self.address(name)
        if is_odd(name):
            return memoryview(self._ask(Call("get", "GET", address, headers=_API)).data)
        return self._move("get", lambda store: memoryview(obstore.get(store, name).bytes()))

    def get_range(self, name: str, span: Range) -> Piece:
        """Some bytes, of the same object if there is a tag."""
        address = self.address(name)
        try:
            if is_odd(name):
                return self._get_odd_range(address, span)
            return self._get_range(name, span)
        except Fault as fault:
            raise Fault(Kind.CHANGED) if fault.kind is Kind.EXISTS else fault from None

    def _get_range(self, name: str, span: Range) -> Piece:
        options: Any = {"range": (span.start, span.end)}
        if span.tag is not None:
            options["if_match"] = span.tag

        def get(store: AzureStore) -> Piece:
            answer = obstore.get(store, name, options=options)
            tag = answer.meta["e_tag"] or ""
            data = memoryview(answer.bytes())
            return Piece(data, answer.meta["size"], tag, _version(tag))

        return self._move("get", get)

    def _get_odd_range(self, address: str, span: Range) -> Piece:
        headers = {**_API, "Range": f"bytes={span.start}-{span.end - 1}"}
        if span.tag is not None:
            headers["If-Match"] = span.tag
        reply = self._ask(Call("get", "GET", address, headers=headers))
        if "Content-Range" not in reply.headers:
            raise Fault(Kind.WHOLE_ONLY)
        size_bytes = int(reply.headers["Content-Range"].rpartition("/")[2])
        tag = reply.headers["ETag"]
        return Piece(memoryview(reply.data), size_bytes, tag, _version(tag))

    def stream(self, name: str) -> Iterator[memoryview]:
        """All bytes, one after the other."""
        if is_odd(name):
            yield self.get(name)
            return
        yield from iter_chunks(self._move("get", lambda store: obstore.get(store, name)))

    def find(self, name: str) -> Facts | None:
        """What is there; a folder of Hadoop's is nothing, the container's absence is no answer."""
        found = self._look(name)
        if found is None or found.get(f"x-ms-meta-{_FOLDER}", "").lower() == "true":
            return None
        return Facts(int(found["Content-Length"]), _version(found["ETag"]))

    def find_mark(self, name: str) -> str | None:
        """The mark of the write that made an object."""
        found = self._look(name)
        return None if found is None else found.get(f"x-ms-meta-{_MARK}")

    def _look(self, name: str) -> Mapping[str, str] | None:
        if not name:
            return None
        try:
            return self._ask(Call("head", "HEAD", self.address(name), headers=_API)).headers
        except Fault as fault:
            if fault.kind is not Kind.MISSING:
                raise
            return None

    def list(self, prefix: str, limit: int | None = None) -> Iterator[Listed]:
        """Objects whose names begin with the prefix; pages are fetched as they are needed."""
        params = {"prefix": prefix, "include": "metadata"}
        if limit is not None:  # folders count for the server
            params["maxresults"] = str(limit + _FOLDERS)
        blobs = (
            _listed(blob)
            for page in self._pages(params)
            for blob in page.iterfind("./Blobs/Blob")
            if not _is_folder(blob)
        )
        return islice(blobs, limit)

    def list_folder(self, prefix: str) -> Iterator[str]:
        """Names of objects directly under a prefix; names up to the next slash for all others."""
        params = {"prefix": prefix, "include": "metadata", "delimiter": "/"}
        for page in self._pages(params):
            yield from (
                _name(blob) for blob in page.iterfind("./Blobs/Blob") if not _is_folder(blob)
            )
            yield from (_name(folder) for folder in page.iterfind("./Blobs/BlobPrefix"))

    def _pages(self, params: dict[str, str]) -> Iterator[ET.Element]:
        params = {"restype": "container", "comp": "list", **params}
        while True:
            call = Call("list", "GET", self._container, params, _API)
            page = _parse(self._ask(call))
            yield page
            marker = page.findtext("NextMarker")
            if not marker:
                return
            params["marker"] = marker

    # writing

    def put(self, name: str, data: Buffer, mark: str, *, create_only: bool) -> None:
        """Store an object."""
        address = self._address_of_new(name)
        if is_odd(name):
            headers = {**_API, "x-ms-blob-type": "BlockBlob", f"x-ms-meta-{_MARK}": mark}
            headers |= _NEW if create_only else {}
            self._ask(Call("put", "PUT", address, headers=headers, body=data))
            self._check_spelling(name, address)
            return
        self._move(
            "put",
            lambda store: obstore.put(
                store,
                name,
                data,
                attributes={_MARK: mark},
                use_multipart=False,
                mode="create" if create_only else "overwrite",
            ),
        )

    def _address_of_new(self, name: str) -> str:
        """Of an object to be. Fault KEY also for names that Azure advises against."""
        reason = (
            "no name has control characters"
            if _CONTROL.search(name)
            else "Azure drops dots at the end of a segment"
            if _END_DOT.search(name)
            else f"names have {_SEGMENTS} segments at most"
            if name.count("/") >= _SEGMENTS
            else ""
        )
        if reason:
            raise Fault(Kind.KEY, reason)
        return self.address(name)

    def _check_spelling(self, name: str, address: str) -> None:
        """Accounts with real folders take `a//b` for `a/b`: Fault KEY, and it is removed."""
        if any(item.name == name for item in self.list(name, limit=1)):
            return
        self._ask(Call("delete", "DELETE", address, headers=_API, accepted=(404,)))
        raise Fault(Kind.KEY, "it would store it under another name")

    def delete(self, names: Sequence[str]) -> None:
        """Remove objects and their snapshots, some at a time."""
        headers = {**_API, "x-ms-delete-snapshots": "include"}
        calls = [Call("delete", "DELETE", self.address(name), headers=headers) for name in names]
        self.connection.ask_many(calls, but=Kind.MISSING)

    # parts

    def begin_upload(self, name: str, mark: str) -> AzureUpload:
        """Begin an object in blocks; nothing is sent before the first of them."""
        return AzureUpload(self, name, self._address_of_new(name), mark)

    def iter_uploads(self, prefix: str) -> Iterator[UnfinishedUpload]:
        """None that could be removed: Azure drops blocks that nobody has named after a week."""
        return iter(())

    def find_upload(self, name: str, upload_id: str) -> int | None:
        """There is none to be found."""
        return None

    def abort_upload(self, name: str, upload_id: str) -> None:
        """There is none to be removed."""


class AzureUpload:
    """A large object: blocks in any order, then the list of them."""

    def __init__(self, bucket: AzureBucket, name: str, address: str, mark: str) -> None:
        self._bucket = bucket
        self._name = name
        self._address = address
        self._mark = mark
        self._blocks: dict[int, str] = {}

    def send(self, number: int, data: Buffer) -> None:
        """Store a block; its id is this writer's own, as others may write the same name."""
        block = base64.b64encode(f"{self._mark}-{number:06d}".encode()).decode()
        params = {"comp": "block", "blockid": block}
        self._bucket.connection.ask(Call("put", "PUT", self._address, params, _API, data))
        self._blocks[number] = block

    def finish(self, *, create_only: bool) -> None:
        """Make the object appear. Another's list drops our blocks: then the name is taken."""
        blocks = "".join(
            f"<Latest>{self._blocks[number]}</Latest>" for number in sorted(self._blocks)
        )
        body = f'<?xml version="1.0" encoding="utf-8"?><BlockList>{blocks}</BlockList>'
        headers = {
            **_API,
            **(_NEW if create_only else {}),
            f"x-ms-meta-{_MARK}": self._mark,
            "Content-Type": "application/xml",
            "x-ms-blob-content-type": "application/octet-stream",
        }
        call = Call("upload", "PUT", self._address, {"comp": "blocklist"}, headers, body.encode())
        try:
            self._bucket.connection.ask(call)
        except Fault as fault:
            if fault.kind is Kind.NO_UPLOAD and self._bucket.find(self._name) is not None:
                raise Fault(Kind.EXISTS) from None
            raise

    def abort(self) -> None:
        """Blocks cannot be removed; Azure drops them after a week, or when the name is written."""


def _version(tag: str) -> str:
    return tag.strip('"')


def _parse(reply: Reply) -> ET.Element:
    try:
        return ET.fromstring(reply.data.decode("utf-8-sig"))  # noqa: S314  without entities of its own
    except (ET.ParseError, UnicodeDecodeError):
        raise Fault(Kind.PROTOCOL) from None


def _name(item: ET.Element) -> str:
    """What XML cannot hold comes percent-encoded, and says so."""
    element = item.find("Name")
    text = "" if element is None else element.text or ""
    is_encoded = element is not None and element.get("Encoded") == "true"
    return unquote(text) if is_encoded else text


def _is_folder(blob: ET.Element) -> bool:
    """A folder of its own, or what Hadoop marks as one; names of metadata have any case."""
    marks = {item.tag.lower(): item.text or "" for item in blob.iterfind("Metadata/*")}
    is_marked = marks.get(_FOLDER, "").lower() == "true"
    return is_marked or blob.findtext("Properties/ResourceType") == "directory"


def _listed(blob: ET.Element) -> Listed:
    modified = blob.findtext("Properties/Last-Modified", "")
    size_bytes = int(blob.findtext("Properties/Content-Length", "0"))
    return Listed(_name(blob), size_bytes, parsedate_to_datetime(modified).timestamp())


_WORDS = re.compile(rb"<Message>([^<]*)")
_CODE = re.compile(rb"<Code>(\w+)</Code>")


def _read_fault(reply: Reply) -> Fault:
    """The first line of the message: the others name the request."""
    found, code = _WORDS.search(reply.data), _CODE.search(reply.data)
    words = found[1].decode(errors="replace").split("\n")[0].strip() if found else ""
    name = reply.headers.get("x-ms-error-code") or (code[1].decode() if code else "")
    return fault_by_answer(reply.status, name, words)
