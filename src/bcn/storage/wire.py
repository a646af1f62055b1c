"""HTTP/1.1 with little in between: kept connections, and bodies read into a caller's own memory.

A full HTTP client spends more time on 100 KB than the network and SHA-256 do. Here a request is one
string and an answer a few lines; connecting, with TLS and through proxies, is left to http.client.
"""

from __future__ import annotations

import os
import select
import socket
import ssl
import threading
import weakref
from base64 import b64encode
from collections.abc import Mapping
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from io import BufferedReader
from typing import NoReturn
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from bcn.errors import StorageError
from bcn.storage.bucket import Buffer
from bcn.storage.fault import Fault, Kind
from bcn.storage.shared_memory import find_file, leave_alone

_CONNECT_SECONDS = 4
_KEPT = 32
_SENT_BYTES = 1 << 20  # within the time that an answer may take
_LINE_BYTES = 64 << 10
_LINES = 200
_CHUNK_BYTES = 1 << 30  # nobody sends larger ones; a size may be anything
_END = b"\r\n\r\n"
_PORTS = {"http": 80, "https": 443}
_SUCCESS = 2
_NO_CONTENT, _NOT_MODIFIED = 204, 304


class Wire:
    """Connections to one server. Any thread may use it; an answer belongs to one thread."""

    def __init__(self, base: str, ca_bundle: str | None = None) -> None:
        self._base = urlsplit(base)
        self.host = self._base.netloc
        self._proxy = _find_proxy(self._base)
        self._context = _open_context(ca_bundle) if self._base.scheme == "https" else None
        self._idle: list[_Line] = []
        self._lock = threading.Lock()
        weakref.finalize(self, _close_all, self._idle)

    def send(
        self, method: str, target: str, headers: Mapping[str, str], body: Buffer, seconds: float
    ) -> Answer:
        """Send a request and read the head of its answer, whatever its status. Raises Fault."""
        if self._proxy is not None and self._context is None:
            target = f"http://{self.host}{target}"
            headers = {**headers, **_proxy_headers(self._proxy)}
        head = [f"{method} {target} HTTP/1.1\r\n"]
        head += [f"{name}: {value}\r\n" for name, value in headers.items()]
        if body or method in {"PUT", "POST"}:
            head.append(f"Content-Length: {len(body)}\r\n")
        head.append("\r\n")
        line: _Line | None = None
        try:
            line = self._take()
            line.socket.settimeout(seconds)
            line.send("".join(head).encode(), body)
            answer = Answer(self, line, method)
        except BaseException as error:
            leave_alone(body)
            if line is not None:
                line.close()
            if isinstance(error, OSError | HTTPException | ValueError):
                _refuse(error)
            raise
        if answer.status // 100 != _SUCCESS:
            leave_alone(body)  # a gateway may have passed it on and answer nevertheless
        return answer

    def _take(self) -> _Line:
        while True:
            with self._lock:
                line = self._idle.pop() if self._idle else None
            if line is None:
                return _Line(self._connect())
            if line.is_quiet():
                return line
            line.close()  # the server has ended it meanwhile

    def give_back(self, line: _Line) -> None:
        """Keep a connection whose answer was read to its end."""
        with self._lock:
            if len(self._idle) < _KEPT:
                self._idle.append(line)
                return
        line.close()

    def _connect(self) -> socket.socket:
        place = self._proxy or self._base
        host = place.hostname or ""
        port = place.port or _PORTS[place.scheme]
        connection: HTTPConnection
        if self._context is None:
            connection = HTTPConnection(host, port, timeout=_CONNECT_SECONDS)
        else:
            connection = HTTPSConnection(
                host, port, timeout=_CONNECT_SECONDS, context=self._context
            )
            if self._proxy is not None:
                goal = self._base.hostname or "", self._base.port or _PORTS["https"]
                connection.set_tunnel(*goal, headers=_proxy_headers(self._proxy))
        try:
            connection.connect()
        except BaseException:
            connection.close()
            raise
        return connection.sock


class _Line:
    """A connection and what was read ahead of it."""

    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected
        self.input = connected.makefile("rb")

    def send(self, head: bytes, body: Buffer) -> None:
        """A server that refuses may answer and hang up before it has heard all: no failure yet."""
        with suppress(BrokenPipeError, ConnectionResetError):
            self.socket.sendall(head)
            rest = memoryview(body)
            file = find_file(rest) if len(rest) >= _SENT_BYTES else None
            if file is not None and not isinstance(self.socket, ssl.SSLSocket):
                self._send_file(*file, len(rest))
                return
            for start in range(0, len(rest), _SENT_BYTES):
                self.socket.sendall(rest[start : start + _SENT_BYTES])

    def _send_file(self, descriptor: int, start: int, size_bytes: int) -> None:
        """As `sendall` of its bytes; the kernel makes no copy of them."""
        poll, end = select.poll(), start + size_bytes
        poll.register(self.socket, select.POLLOUT)
        milliseconds = int(1000 * (self.socket.gettimeout() or _CONNECT_SECONDS))
        while start < end:
            if not poll.poll(milliseconds):
                raise TimeoutError
            with suppress(BlockingIOError):
                sent = os.sendfile(self.socket.fileno(), descriptor, start, end - start)
                if not sent:
                    raise ValueError("its memory ends before the body does")
                start += sent

    def is_quiet(self) -> bool:
        """Whether nothing came since its last answer, not even its end."""
        poll = select.poll()
        poll.register(self.socket, select.POLLIN)
        return not poll.poll(0)

    def close(self) -> None:
        with suppress(OSError):
            self.input.close()
        with suppress(OSError):
            self.socket.close()


def _close_all(lines: list[_Line]) -> None:
    for line in lines:
        line.close()


class Answer:
    """Status and headers of an answer, their names in lower case; the body is still to be read."""

    def __init__(self, wire: Wire, line: _Line, method: str) -> None:
        self._wire = wire
        self._line: _Line | None = line
        self.status, self.headers = _read_head(line.input)
        self._is_kept = self.headers.get("connection", "").lower() != "close"
        self._is_chunked = "chunked" in self.headers.get("transfer-encoding", "").lower()
        has_body = method != "HEAD" and self.status not in {_NO_CONTENT, _NOT_MODIFIED}
        length = self.headers.get("content-length")
        self.left = int(length or 0) if has_body else 0  # bytes of the body that are to come
        if has_body and length is None:
            self._is_kept = self._is_kept and self._is_chunked
        elif not self.left:
            self._end()

    def readinto(self, buffer: memoryview) -> int:
        """Some bytes of a body of known length, 0 at its end. Raises Fault."""
        line = self._line
        if line is None or not self.left:
            return 0
        wanted = min(len(buffer), self.left)
        try:
            count = line.input.readinto(buffer[:wanted])
        except OSError as error:
            self.close()
            _refuse(error)
        self.left -= count
        if count == 0:
            self.close()
            raise Fault(Kind.CONNECTION, "it broke off")
        if not self.left:
            self._end()
        return count

    def read(self) -> bytearray:
        """All that is left of the body. Raises Fault."""
        if self._line is None:
            return bytearray()
        if "content-length" not in self.headers:
            return self._read_unmeasured(self._line.input)
        data = bytearray(self.left)
        rest = memoryview(data)
        while rest:
            rest = rest[self.readinto(rest) :]
        return data

    def _read_unmeasured(self, source: BufferedReader) -> bytearray:
        try:
            data = _read_chunks(source) if self._is_chunked else bytearray(source.read())
        except (OSError, ValueError) as error:
            self.close()
            _refuse(error)
        self._end()
        return data

    def _end(self) -> None:
        """The connection is free for the next request."""
        line, self._line = self._line, None
        if line is None:
            return
        if self._is_kept:
            self._wire.give_back(line)
        else:
            line.close()

    def close(self) -> None:
        """Do not read the rest: that ends the connection."""
        if self._line is not None:
            self._line.close()
            self._line = None


def _read_head(source: BufferedReader) -> tuple[int, dict[str, str]]:
    while True:
        lines = _read_lines(source)
        words = lines[0].split(None, 2)
        if len(words) < 2 or not words[0].startswith("HTTP/"):
            raise ValueError(words)
        status = int(words[1])
        if status // 100 != 1:  # what a server says before its answer
            break
    headers = {}
    for line in lines[1:]:
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    return status, headers


def _read_lines(source: BufferedReader) -> list[str]:
    """Lines up to an empty one, which is not among them; mostly all of them came at once."""
    head = source.peek()
    end = head.find(_END)
    if end >= 0:
        return source.read(end + len(_END))[:end].decode("latin-1").split("\r\n")
    lines: list[str] = []
    while len(lines) < _LINES:
        line = source.readline(_LINE_BYTES)
        if not line:
            raise ConnectionResetError
        if line in {b"\r\n", b"\n"}:
            return lines or [""]
        lines.append(line.decode("latin-1").rstrip("\r\n"))
    raise ValueError("the head of an answer has no end")


def _read_chunks(source: BufferedReader) -> bytearray:
    data = bytearray()
    while True:
        line = source.readline(_LINE_BYTES)
        if not line:
            raise ConnectionResetError
        size_bytes = int(line.partition(b";")[0], 16)
        if not 0 <= size_bytes <= _CHUNK_BYTES:
            raise ValueError(line)
        if size_bytes == 0:
            _read_lines(source)
            return data
        data += source.read(size_bytes)  # fewer only where no line follows
        line = source.readline(_LINE_BYTES)
        if line.endswith(b"\n") and line not in {b"\r\n", b"\n"}:
            raise ValueError("a chunk is longer than it says")


def _open_context(ca_bundle: str | None) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=ca_bundle)
    except (OSError, ssl.SSLError) as error:
        words = getattr(error, "strerror", None) or "it holds no certificates"
        raise StorageError(f"cannot read AWS_CA_BUNDLE {ca_bundle}: {words}") from None
    context.set_alpn_protocols(["http/1.1"])
    return context


def _find_proxy(base: SplitResult) -> SplitResult | None:
    """The proxy that the environment asks for, by the variables that most programs know."""
    found = getproxies().get(base.scheme)
    if not found or proxy_bypass(base.netloc):
        return None
    return urlsplit(found if "://" in found else f"http://{found}")


def _proxy_headers(proxy: SplitResult) -> dict[str, str]:
    if proxy.username is None:
        return {}
    secret = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"Proxy-Authorization": f"Basic {b64encode(secret.encode()).decode()}"}


def _refuse(error: Exception) -> NoReturn:
    raise _fault(error) from None


def _fault(error: Exception) -> Fault:
    for kinds, kind, detail in (
        ((ssl.SSLCertVerificationError,), Kind.TLS, ""),
        ((ssl.SSLEOFError,), Kind.CONNECTION, "it broke off"),
        ((ssl.SSLError,), Kind.PROTOCOL, "it does not answer to https"),
        ((TimeoutError,), Kind.TIMEOUT, ""),
        ((socket.gaierror,), Kind.CONNECTION, "no such host"),
        ((ConnectionRefusedError,), Kind.CONNECTION, "connection refused"),
        ((ValueError, HTTPException), Kind.PROTOCOL, ""),
        ((ConnectionError,), Kind.CONNECTION, "it broke off"),
    ):
        if isinstance(error, kinds):
            return Fault(kind, detail)
    return Fault(Kind.CONNECTION, getattr(error, "strerror", None) or "")
