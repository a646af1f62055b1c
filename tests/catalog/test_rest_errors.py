"""What goes wrong on the way to a REST catalog: one line, in time, without secrets."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bcn.catalog.open import CATALOG_TYPES, open_catalog
from bcn.errors import (
    CatalogError,
    SettingsError,
)
from bcn.model import TableId
from bcn.stack.process import free_port
from bcn.stack.rest import start_rest
from tests.support.front import Front, make_certificate, open_front
from tests.support.rest import RestServer
from tests.support.rest_desk import SECRET, add, catalog_at, failure

pytestmark = pytest.mark.server

ORDERS = TableId(("sales",), "orders")
DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def front(rest_catalog: RestServer) -> Iterator[Front]:
    with open_front(Front(rest_catalog.server.address)) as opened:
        yield opened


@contextmanager
def listening(answer: bytes | None) -> Iterator[str]:
    """A port of another protocol: it answers so to whatever comes, or never."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        held: list[socket.socket] = []

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                held.append(connection)
                if answer is not None:
                    connection.recv(4096)
                    connection.sendall(answer)
                    connection.close()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}"
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()
            for connection in held:
                connection.close()


def test_no_server() -> None:
    error = failure(f"http://127.0.0.1:{free_port()}", token=SECRET)
    assert "cannot be reached: connection refused" in str(error)
    assert "port" in error.hint


def test_no_such_host() -> None:
    assert "its host is not known" in str(failure("http://no-such-host.invalid:8181"))


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "does not answer in time"),
        (b"\x80\x01\x00\x03\x00\x00\x00\x00", "cannot be reached"),
        (b"", "closes the connection without an answer"),
    ],
    ids=["silent", "thrift", "closed"],
)
def test_a_port_that_does_not_speak_http(answer: bytes | None, words: str) -> None:
    with listening(answer) as uri:
        assert words in str(failure(uri, token=SECRET))


def test_a_web_page_is_no_catalog(front: Front) -> None:
    front.answer = lambda _method, _path: (200, "text/html; charset=utf-8", b"<html>Welcome</html>")
    error = failure(front.uri)
    assert "is no Iceberg REST catalog: it answers 200 with text/html" in str(error)
    assert "/v1" in error.hint


@pytest.mark.parametrize("body", [b"[]", b"{}", b'"x"', b'{"defaults": 1, "overrides": {}}'])
def test_some_other_service_that_speaks_json_is_no_catalog(front: Front, body: bytes) -> None:
    front.answer = lambda _method, _path: (200, "application/json", body)
    assert "is no Iceberg REST catalog" in str(failure(front.uri))


def test_a_page_that_is_not_there_is_named_by_its_title(front: Front) -> None:
    page = b"<html><title>Nothing\n here</title></html>"
    front.answer = lambda _method, _path: (404, "text/html", page)
    assert "answers: 404 Nothing here" in str(failure(front.uri))


def test_an_unknown_warehouse(front: Front) -> None:
    problem = {"message": "no warehouse lake", "type": "NotFoundException", "code": 404}
    body = json.dumps({"error": problem}).encode()
    front.answer = lambda _method, path: (
        (404, "application/json", body) if path == "/v1/config?warehouse=lake" else None
    )
    error = failure(front.uri, warehouse="lake")
    assert "404 no warehouse lake" in str(error)
    assert "warehouse" in error.hint


def test_a_wrong_prefix(rest_catalog: RestServer) -> None:
    error = failure(rest_catalog.uri, prefix="lake")
    assert "No route for request: GET v1/lake/namespaces" in str(error)
    assert "prefix" in error.hint


def test_a_certificate_that_nobody_vouches_for(rest_catalog: RestServer, tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path)
    with open_front(Front(rest_catalog.server.address), certificate) as front:
        error = failure(front.uri, token=SECRET)
        assert "its certificate is refused: self-signed certificate" in str(error)
        assert "ssl.cabundle" in error.hint
        trusted = {"ssl.cabundle": str(tmp_path / "cert.pem")}
        assert list(catalog_at(front.uri, **trusted).iter_pointers()) == []
    with pytest.raises(SettingsError, match=r"no file .*, which 'ssl.cabundle' names"):
        catalog_at(front.uri, **{"ssl.cabundle": str(tmp_path / "gone.pem")})


def test_tls_to_a_server_without(rest_catalog: RestServer) -> None:
    error = failure(f"https://{rest_catalog.server.address}")
    assert "does not speak TLS" in str(error)
    assert "http://" in error.hint


@pytest.mark.parametrize("uri", ["thrift://host:9083", "host:8181", "http://", "http://h:x", "/v1"])
def test_what_is_no_address_is_told_when_the_catalog_is_opened(uri: str) -> None:
    with pytest.raises(SettingsError, match="'uri' is not the address of a REST catalog"):
        catalog_at(uri)


def test_a_busy_server_is_asked_again_and_in_the_end_believed(
    front: Front, rest_catalog: RestServer
) -> None:
    add(rest_catalog)
    busy = iter([503, 429, 502])
    front.answer = lambda _method, path: (
        (status, "text/plain", b"") if "sales" in path and (status := next(busy, 0)) else None
    )
    assert len(list(catalog_at(front.uri).iter_pointers())) == 1
    front.answer = lambda _method, path: (503, "text/plain", b"") if "sales" in path else None
    started = time.monotonic()
    with pytest.raises(CatalogError, match="503"):
        catalog_at(front.uri).load_namespace(("sales",))
    assert 5 < time.monotonic() - started < 15


def test_a_server_that_starts_again_is_waited_for(tmp_path: Path) -> None:
    port = free_port()
    server = RestServer(start_rest(tmp_path, f"file://{tmp_path}/warehouse", port=port))
    location = add(server)
    catalog = open_catalog(server.settings())
    assert [item.metadata_location for item in catalog.iter_pointers()] == [location]
    server.server.stop()
    started: list[Any] = []
    later = threading.Timer(
        1, lambda: started.append(start_rest(tmp_path, f"file://{tmp_path}/warehouse", port=port))
    )
    later.start()
    assert [item.metadata_location for item in catalog.iter_pointers()] == [location]
    later.join()
    started[0].stop()


def test_the_command_says_it_in_one_line_and_ends_with_14(tmp_path: Path) -> None:
    text = (DOCS / "catalogs.md").read_text().partition("```toml rest\n")[2].partition("```")[0]
    nowhere = f"http://127.0.0.1:{free_port()}"
    text = text.replace("https://catalog.example.com/api/catalog", nowhere)
    text = text.replace("client-secret", SECRET)
    (tmp_path / "bcn.toml").write_text(text)
    command = ["backup", "--catalog", "lake", "--repo", str(tmp_path / "repository")]
    done = subprocess.run(
        [sys.executable, "-m", "bcn", *command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 14
    said = done.stdout + done.stderr
    assert "cannot be reached: connection refused" in said
    assert SECRET not in said
    assert "Traceback" not in said


def test_every_key_is_documented() -> None:
    page = (DOCS / "catalogs.md").read_text()
    known = CATALOG_TYPES["rest"].known
    assert [key for key in known if f"`{key}`" not in page and key != "name"] == []
