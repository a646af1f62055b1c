"""An HTTP proxy in front of a real server, to lose answers, refuse requests and change them."""

from __future__ import annotations

import http.client
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

SLOW_DOWN = (
    b'<?xml version="1.0" encoding="UTF-8"?><Error><Code>SlowDown</Code>'
    b"<Message>Please reduce your request rate.</Message></Error>"
)


@dataclass
class Request:
    """One request; a rule may change its headers."""

    number: int
    method: str
    path: str
    headers: dict[str, str]


class Lose(Exception):  # noqa: N818  a rule raises it
    """Let the server do its work, and lose its answer."""


class Refuse(Exception):  # noqa: N818  a rule raises it
    """Answer in the server's place."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(status)
        self.status = status
        self.body = body


@dataclass
class Proxy:
    """Where it listens, what it saw, and what it does to each request."""

    scheme: str
    port: int = 0
    rule: Callable[[Request], None] = lambda _: None
    host: str = "127.0.0.1"
    seen: list[Request] = field(default_factory=list)

    @property
    def endpoint(self) -> str:
        return f"{self.scheme}://{self.host}:{self.port}"


@contextmanager
def open_proxy(
    target: str, certificate: Path | None = None, host: str = "127.0.0.1"
) -> Iterator[Proxy]:
    """A proxy to `host:port`, by TLS if it has a certificate (a PEM file with its key)."""
    proxy, lock = Proxy("https" if certificate else "http", host=host), threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, *_: object) -> None:
            """Quiet."""

        def _forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {k: v for k, v in self.headers.items() if k.lower() != "expect"}
            with lock:
                request = Request(len(proxy.seen) + 1, self.command, self.path, headers)
                proxy.seen.append(request)
            lost = False
            try:
                proxy.rule(request)
            except Refuse as refusal:
                self._answer(refusal.status, [], refusal.body)
                return
            except Lose:
                lost = True
            with closing(http.client.HTTPConnection(target, timeout=60)) as connection:
                connection.putrequest(
                    self.command, self.path, skip_host=True, skip_accept_encoding=True
                )
                for name, value in request.headers.items():
                    connection.putheader(name, value)
                with suppress(BrokenPipeError, ConnectionResetError):  # it may answer at once
                    connection.endheaders(body)
                answer = connection.getresponse()
                content = answer.read()
            if lost:
                self.close_connection = True
                return
            self._answer(answer.status, answer.getheaders(), content)

        def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
            self.send_response_only(status)
            for name, value in headers:
                if name.lower() not in {"content-length", "transfer-encoding", "connection"}:
                    self.send_header(name, value)
            length = {name.lower(): value for name, value in headers}.get("content-length")
            is_head = self.command == "HEAD" and length is not None
            self.send_header("Content-Length", length if is_head else str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _forward  # noqa: N815  names of the base

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """A client that hangs up is what some tests want."""

    server = Server((host, 0), Handler)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    proxy.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def write_certificates(folder: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 with its key, and the authority's that vouches for it."""
    import datetime as dt  # noqa: PLC0415  only for this
    import ipaddress  # noqa: PLC0415

    from cryptography import x509  # noqa: PLC0415
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415
    from cryptography.x509.oid import NameOID  # noqa: PLC0415

    now, pem = dt.datetime.now(dt.UTC), serialization.Encoding.PEM
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
    names = [
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        for name in ("tests' authority", "127.0.0.1")
    ]
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    files = []
    for number, (key, name) in enumerate(zip(keys, names, strict=True)):
        built = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(names[0])
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=1))
            .not_valid_after(now + dt.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=number == 0, path_length=None), critical=True)
        )
        if number:
            built = built.add_extension(x509.SubjectAlternativeName([address]), critical=False)
        files.append(built.sign(keys[0], hashes.SHA256()).public_bytes(pem))
    private = keys[1].private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    authority, server = folder / "authority.pem", folder / "server.pem"
    authority.write_bytes(files[0])
    server.write_bytes(files[1] + private)
    return server, authority
