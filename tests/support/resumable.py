"""Google's resumable uploads by their documented rules, where fake-gcs-server keeps to others.

It looks at preconditions when the last byte has come, answers how far an upload is, and may keep
less than it was sent. Everything else goes on to the server behind it.
"""

from __future__ import annotations

import re
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

UNIT = 256 << 10


@dataclass
class Session:
    """One upload under way."""

    params: dict[str, list[str]]
    metadata: bytes
    path: str
    data: bytearray = field(default_factory=bytearray)
    is_done: bool = False


@dataclass
class Resumable:
    """What it saw, and what it does with each request that carries bytes (`keep`, `lose`, …)."""

    port: int = 0
    fate: Callable[[int], str] = lambda _: "keep"
    sessions: dict[str, Session] = field(default_factory=dict)
    puts: list[str] = field(default_factory=list)
    tokens: list[str | None] = field(default_factory=list)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def open_resumable(behind: str) -> Iterator[Resumable]:
    """A server before `host:port`."""
    front = Resumable()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            """Quiet."""

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            parts = urlsplit(self.path)
            params = parse_qs(parts.query)
            if "upload_id" in params:
                self._session(params["upload_id"][0], body)
            elif params.get("uploadType") == ["resumable"]:
                name = secrets.token_hex(8)
                front.sessions[name] = Session(params, body, parts.path)
                place = f"{front.endpoint}{parts.path}?uploadType=resumable&upload_id={name}"
                self._answer(200, {"Location": place}, b"")
            else:
                self._pass_on(self.path, body)

        def _session(self, name: str, body: bytes) -> None:
            front.tokens.append(self.headers.get("Authorization"))
            session = front.sessions.get(name)
            if session is None:
                self._answer(404, {}, b"")
            elif self.command == "DELETE":
                del front.sessions[name]
                self._answer(499, {}, b"")
            else:
                self._bytes(session, body)

        def _bytes(self, session: Session, body: bytes) -> None:
            span = self.headers["Content-Range"]
            front.puts.append(span)
            found = re.fullmatch(r"bytes (\*|(\d+)-(\d+))/(\*|\d+)", span)
            assert found is not None
            fate = front.fate(len(front.puts)) if body else "keep"
            if fate == "refuse":
                self._answer(503, {}, b"")
                return
            if body:
                start = int(found[2])
                assert start == len(session.data), "bytes that are stored already, or a gap"
                assert found[4] != "*" or len(body) % UNIT == 0
                session.data += body[:UNIT] if fate == "keep less" else body
            total = None if found[4] == "*" else int(found[4])
            if total is not None and len(session.data) == total:
                self._finish(session, is_lost=fate == "lose")
            elif fate == "lose":
                self.close_connection = True
            else:
                headers = {"Range": f"bytes=0-{len(session.data) - 1}"} if session.data else {}
                self._answer(308, headers, b"")

        def _finish(self, session: Session, *, is_lost: bool) -> None:
            """All bytes in one request that has the same preconditions."""
            edge = secrets.token_hex(16)
            body = (
                f"--{edge}\r\nContent-Type: application/json\r\n\r\n".encode()
                + session.metadata
                + f"\r\n--{edge}\r\nContent-Type: application/octet-stream\r\n\r\n".encode()
                + session.data
                + f"\r\n--{edge}--\r\n".encode()
            )
            condition = session.params.get("ifGenerationMatch")
            more = f"&ifGenerationMatch={condition[0]}" if condition else ""
            kind = {"Content-Type": f"multipart/related; boundary={edge}"}
            if session.is_done:
                self._answer(200, {}, b"{}")
                return
            status, headers, data = _ask(
                behind, "POST", f"{session.path}?uploadType=multipart{more}", kind, body
            )
            session.is_done = status == 200
            if is_lost:
                self.close_connection = True
            else:
                self._answer(status, headers, data)

        def _pass_on(self, path: str, body: bytes) -> None:
            headers = {k: v for k, v in self.headers.items() if k.lower() != "host"}
            self._answer(*_ask(behind, self.command, path, headers, body))

        def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
            self.send_response_only(status)
            for name, value in headers.items():
                if name.lower() not in {"content-length", "transfer-encoding", "connection"}:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_PUT = do_POST = do_DELETE = _serve  # noqa: N815  names of the base

    class Server(ThreadingHTTPServer):
        daemon_threads = True

    server = Server(("127.0.0.1", 0), Handler)
    front.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True)
    thread.start()
    try:
        yield front
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _ask(
    address: str, method: str, path: str, headers: dict[str, str], body: bytes
) -> tuple[int, dict[str, str], bytes]:
    connection = HTTPConnection(address, timeout=60)
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, dict(answer.getheaders()), content
