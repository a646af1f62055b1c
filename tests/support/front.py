"""A gate before a real REST catalog: it asks for tokens, and can misbehave as servers do.

Iceberg's own server lets everybody in. This one forwards to it, byte for byte, what it lets pass.
"""

from __future__ import annotations

import json
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

Json = dict[str, Any]
TOKENS = "/v1/oauth/tokens"


@dataclass
class Front:
    """What is let pass, and what is done to it; tests change it while it serves."""

    backend: str = ""  # host:port
    tokens: set[str] = field(default_factory=set)  # those that are good; everybody if empty
    clients: dict[str, str] = field(default_factory=dict)  # id to secret
    token_seconds: float = 3600
    check: Callable[[BaseHTTPRequestHandler, bytes], bool] | None = None
    answer: Callable[[str, str], tuple[int, str, bytes] | None] | None = None
    edit: Callable[[str, Json], None] | None = None  # of answers with status 200
    rewrite: Callable[[str, bytes], bytes] | None = None  # bodies of requests on their way
    drop_answers: bool = False  # forward, then break the connection
    port: int = 0
    scheme: str = "http"
    issued: list[str] = field(default_factory=list)
    seen: list[tuple[str, str]] = field(default_factory=list)  # method and path
    forms: list[Json] = field(default_factory=list)
    ends: dict[str, float] = field(default_factory=dict)
    refusals: int = 0

    @property
    def uri(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def asked(self, end: str) -> int:
        """How many requests went to paths with that end."""
        return sum(path.partition("?")[0].endswith(end) for _method, path in self.seen)

    def issue(self, form: Json) -> tuple[int, Json]:
        self.forms.append(form)
        secret = self.clients.get(form.get("client_id", ""))
        if secret is None or secret != form.get("client_secret"):
            return 401, {"error": "invalid_client", "error_description": f"no client for {form}"}
        token = f"issued-{len(self.issued)}"
        self.issued.append(token)
        self.tokens.add(token)
        self.ends[token] = time.monotonic() + self.token_seconds
        return 200, {
            "access_token": token,
            "token_type": "bearer",
            "expires_in": self.token_seconds,
        }

    def is_good(self, header: str | None) -> bool:
        if not self.tokens and not self.clients:
            return True
        token = (header or "").removeprefix("Bearer ")
        return token in self.tokens and time.monotonic() < self.ends.get(token, float("inf"))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    front: Front

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def log_message(self, *_args: Any) -> None:
        """Nobody reads it."""

    def _serve(self) -> None:
        front = self.front
        front.seen.append((self.command, self.path))
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path == TOKENS and front.clients:
            form = {key: values[0] for key, values in parse_qs(body.decode()).items()}
            status, document = front.issue(form)
            return self._reply(status, "application/json", json.dumps(document).encode())
        ready = front.answer(self.command, self.path) if front.answer else None
        if ready is not None:
            return self._reply(*ready)
        header = self.headers.get("Authorization")
        if not front.is_good(header) or (front.check and not front.check(self, body)):
            front.refusals += 1
            error = {"message": f"not you: {header}", "type": "NotAuthorizedException", "code": 401}
            text = json.dumps({"error": error}).encode()
            return self._reply(401, "application/json", text)
        return self._forward(body)

    def _forward(self, body: bytes) -> None:
        if self.front.rewrite and body:
            body = self.front.rewrite(self.path, body)
        kind = {"Content-Type": "application/json"} if body else {}
        with closing(HTTPConnection(self.front.backend, timeout=30)) as connection:
            connection.request(self.command, self.path, body or None, kind)
            answer = connection.getresponse()
            data = answer.read()
        if self.front.drop_answers:
            self.close_connection = True
            return
        if self.front.edit and answer.status == 200:
            document = json.loads(data)
            self.front.edit(self.path, document)
            data = json.dumps(document).encode()
        self._reply(answer.status, answer.headers.get("Content-Type", ""), data)

    def _reply(self, status: int, kind: str, data: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_args: Any) -> None:
        """A client that refuses our certificate is no fault here."""


@contextmanager
def open_front(front: Front, certificate: Path | None = None) -> Iterator[Front]:
    """Serves on a free port; with a certificate (and its key in one file), by TLS."""
    handler = type("Handler", (_Handler,), {"front": front})
    with _Server(("127.0.0.1", 0), handler) as server:
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
            front.scheme = "https"
        front.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield front
        finally:
            server.shutdown()
            thread.join()


def make_certificate(folder: Path) -> Path:
    """A certificate for 127.0.0.1 that nobody vouches for, with its key, in one file."""
    path = folder / "server.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-keyout", str(path), "-out", str(folder / "cert.pem"), "-subj", "/CN=127.0.0.1"),
            *("-addext", "subjectAltName=IP:127.0.0.1"),
        ],
        check=True,
        capture_output=True,
    )
    path.write_bytes(path.read_bytes() + (folder / "cert.pem").read_bytes())
    return path
