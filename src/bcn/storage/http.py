"""Requests to object stores by plain HTTP, for what obstore cannot do, and by obstore.

obstore reads most names; those that it would refuse or change go by HTTP, as listings do.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Generic, TypeVar

import requests
from obstore.exceptions import AlreadyExistsError, BaseError
from requests.adapters import HTTPAdapter
from urllib3.exceptions import HTTPError as Urllib3Error

from bcn.errors import StorageError
from bcn.storage.bucket import Buffer
from bcn.storage.fault import Fault, Kind, fault_by_text
from bcn.storage.requests import Patience

Answer = TypeVar("Answer")
Store = TypeVar("Store")
Sign = Callable[[requests.PreparedRequest], requests.PreparedRequest]

_CONNECT_SECONDS = 4
_FIRST_ANSWER_SECONDS = 8  # a port that speaks something else may never answer
_ANSWER_SECONDS = 60
_REQUEST_SECONDS = 600
_POOL = 32
_DELETES = 8
_SENT_BYTES = 1 << 20
_CA_VARIABLE = "SSL_CERT_FILE"
_QUERY = re.compile(r"\?[^\s\"']*")  # of an address in a text: it may hold a signature


@dataclass(frozen=True)
class Call:
    """One request. Its text form holds neither address nor headers."""

    kind: str  # as requests are counted
    method: str
    url: str = field(repr=False)
    params: Mapping[str, str] = field(default_factory=dict, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: Buffer | None = field(default=None, repr=False)
    is_signed: bool = True
    accepted: tuple[int, ...] = ()  # beside those that mean success


@dataclass(frozen=True)
class Reply:
    """What the server answered, and the body as it came."""

    status: int
    headers: Mapping[str, str]
    data: bytes


class HttpConnection(Generic[Store]):
    """Requests to one bucket, tried again where that helps. Any thread may use it."""

    def __init__(
        self,
        open_store: Callable[[Any], Store],
        sign: Sign,
        read_fault: Callable[[Reply], Fault],
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._open_store = open_store
        self._sign = sign
        self._read_fault = read_fault
        self._headers = dict(headers or {})
        self._patience = Patience()
        self._lock = threading.Lock()
        self._stores: dict[bool, Store] = {}
        self._sessions: list[requests.Session] = []
        self.is_seen = False  # whether the bucket was; a missing key may mean a missing bucket

    def move(self, kind: str, request: Callable[[Store], Answer]) -> Answer:
        """A request by obstore. Raises Fault, StorageError."""

        def attempt() -> Answer:
            try:
                return request(self._store())
            except AlreadyExistsError:
                raise Fault(Kind.EXISTS) from None
            except (BaseError, OSError) as error:
                raise fault_by_text(_QUERY.sub("", str(error))) from None

        return self._settled(kind, attempt)

    def ask(self, call: Call) -> Reply:
        """A request by HTTP. Raises Fault, StorageError."""
        return self._settled(call.kind, lambda: self.ask_once(call))

    def _settled(self, kind: str, attempt: Callable[[], Answer]) -> Answer:
        answer = self._patience.call(kind, attempt)
        self.is_seen = True
        return answer

    def ask_once(self, call: Call) -> Reply:
        """A request that the caller repeats itself. Raises Fault."""
        seconds = _ANSWER_SECONDS if self._patience.is_proven else _FIRST_ANSWER_SECONDS
        session = self._take_session()
        try:
            with session.request(
                call.method,
                call.url,
                params=call.params,
                headers={**self._headers, **call.headers},
                data=_sliced(call.body),
                auth=self._sign if call.is_signed else _leave,
                timeout=(_CONNECT_SECONDS, seconds),
                allow_redirects=False,
                stream=True,
            ) as answer:
                # Stored bytes are wanted, not what a Content-Encoding makes of them.
                data = answer.raw.read(decode_content=False)
                reply = Reply(answer.status_code, answer.headers, data)
        except (requests.RequestException, Urllib3Error, OSError) as error:
            session.close()
            raise _fault(error) from None
        self._give_back(session)
        if reply.status // 100 != 2 and reply.status not in call.accepted:
            raise self._read_fault(reply)
        return reply

    def ask_many(self, calls: Sequence[Call], but: Kind | None = None) -> None:
        """Requests whose answers nobody needs, some at a time; one kind of fault is none here."""

        def ask(call: Call) -> None:
            try:
                self.ask(call)
            except Fault as fault:
                if fault.kind is not but:
                    raise

        with ThreadPoolExecutor(min(_DELETES, len(calls) or 1)) as threads:
            for _ in threads.map(ask, calls):
                pass

    def _take_session(self) -> requests.Session:
        """One a request at a time: sessions are not made for many threads."""
        with self._lock:
            if self._sessions:
                return self._sessions.pop()
        session = requests.Session()
        session.mount("http://", HTTPAdapter(pool_maxsize=1))
        session.mount("https://", HTTPAdapter(pool_maxsize=1))
        session.headers["Accept-Encoding"] = "identity"
        session.verify = os.environ.get(_CA_VARIABLE) or True
        return session

    def _give_back(self, session: requests.Session) -> None:
        with self._lock:
            if len(self._sessions) < _POOL:
                self._sessions.append(session)

    def _store(self) -> Store:
        proven = self._patience.is_proven
        with self._lock:
            if proven not in self._stores:
                self._stores[proven] = self._open_store(self._options(proven=proven))
            return self._stores[proven]

    def _options(self, *, proven: bool) -> dict[str, Any]:
        seconds = _REQUEST_SECONDS if proven else _FIRST_ANSWER_SECONDS
        options: dict[str, Any] = {
            "allow_http": True,
            "connect_timeout": timedelta(seconds=_CONNECT_SECONDS),
            "timeout": timedelta(seconds=seconds),
            "read_timeout": timedelta(seconds=min(seconds, _ANSWER_SECONDS)),
            "default_headers": self._headers,
        }
        bundle = os.environ.get(_CA_VARIABLE)
        if bundle:
            options["root_certificate"] = _read_bundle(bundle)
        return options


def _sliced(body: Buffer | None) -> Any:
    return body if body is None or len(body) <= _SENT_BYTES else _Slices(body)


class _Slices:
    """A body that is sent bit by bit: each may take as long as connecting did, not all of it."""

    def __init__(self, body: Buffer) -> None:
        self._body = memoryview(body)

    def __len__(self) -> int:
        return len(self._body)

    def __iter__(self) -> Iterator[memoryview]:
        for start in range(0, len(self._body), _SENT_BYTES):
            yield self._body[start : start + _SENT_BYTES]


def _leave(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """No signature; without this, requests would look for one in ~/.netrc."""
    return request


def _read_bundle(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise StorageError(f"cannot read {_CA_VARIABLE} {path}: {error.strerror}") from None


def _fault(error: Exception) -> Fault:
    text = str(error)
    if isinstance(error, requests.exceptions.SSLError):
        is_plain = "WRONG_VERSION" in text or "record layer" in text
        return Fault(Kind.PROTOCOL, "it does not answer to https") if is_plain else Fault(Kind.TLS)
    if isinstance(error, requests.Timeout):
        return Fault(Kind.TIMEOUT)
    for words, kind, detail in (
        (("NameResolution", "Name or service", "getaddrinfo"), Kind.CONNECTION, "no such host"),
        (("Connection refused",), Kind.CONNECTION, "connection refused"),
        (("timed out",), Kind.TIMEOUT, ""),
        (("BadStatusLine", "LineTooLong", "UnknownProtocol"), Kind.PROTOCOL, ""),
        (("Connection aborted", "reset", "IncompleteRead"), Kind.CONNECTION, "it broke off"),
    ):
        if any(word in text for word in words):
            return Fault(kind, detail)
    return Fault(Kind.CONNECTION)
