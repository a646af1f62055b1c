"""The wire of a Hive Metastore: wrong ports, several servers, lost answers, restarts."""

from __future__ import annotations

import socket
import socketserver
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from bcn.catalog import hive_client
from bcn.catalog.hive import HiveCatalog
from bcn.catalog.open import open_catalog
from bcn.catalog.protocol import CatalogSettings, Pointer
from bcn.errors import CatalogError, TargetExistsError
from bcn.model import TableId
from bcn.stack.hive import start_hive
from bcn.stack.process import Server, free_port
from tests.support.hive import HiveServer
from tests.support.rigs import write_metadata
from tests.support.servers import server_folder

pytestmark = pytest.mark.server

ORDERS = TableId(("sales",), "orders")
LIMIT_SECONDS = 15


# what listens there


def refusal(uri: str) -> CatalogError:
    """How a catalog at that address fails, in time and in one line."""
    catalog = open_catalog(CatalogSettings("prod", "hive", {"uri": uri}))
    began = time.monotonic()
    with pytest.raises(CatalogError) as caught:
        list(catalog.iter_pointers())
    assert time.monotonic() - began < LIMIT_SECONDS
    assert "\n" not in str(caught.value)
    assert caught.value.hint
    assert caught.value.exit_code == 14
    return caught.value


def test_nobody_there() -> None:
    error = refusal(f"thrift://127.0.0.1:{free_port()}")
    assert "there is no metastore at thrift://127.0.0.1:" in str(error)
    assert "connection refused" in str(error)


def test_a_host_that_does_not_exist() -> None:
    assert "its host is unknown" in str(refusal("thrift://nowhere.invalid:9083"))


@contextmanager
def listening(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that does something with each connection; its address."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    threading.Thread(target=run, args=(connection,), daemon=True).start()

        def run(connection: socket.socket) -> None:
            with connection, suppress(OSError):
                answer(connection)

        threading.Thread(target=serve, daemon=True).start()
        yield f"thrift://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


def swallow(connection: socket.socket) -> None:
    while connection.recv(4096):
        pass


def test_an_http_server_that_answers_at_once() -> None:
    def answer(connection: socket.socket) -> None:
        connection.recv(4)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with listening(answer) as uri:
        assert "is an HTTP server" in str(refusal(uri))


def test_an_http_server_that_waits_for_the_end_of_a_line_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hive_client, "_CONTACT_SECONDS", 60.0)
    server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    server.RequestHandlerClass.log_message = lambda *_: None  # type: ignore[method-assign]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        error = refusal(f"thrift://127.0.0.1:{server.server_port}")
    finally:
        server.shutdown()
        server.server_close()
    assert "is an HTTP server" in str(error)
    assert "9083" in error.hint


def test_an_http_server_that_hangs_up_on_what_it_does_not_know() -> None:
    class Short(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            if self.request.recv(4) == b"OPTI":
                self.request.sendall(b"HTTP/1.0 200 OK\r\n\r\n")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Short) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        error = refusal(f"thrift://127.0.0.1:{server.server_address[1]}")
        server.shutdown()
    assert "is an HTTP server" in str(error)


def test_a_tls_port(tmp_path: Path) -> None:
    certificate = tmp_path / "all.pem"
    command = (
        *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"),
        *("-subj", "/CN=localhost", "-keyout", str(certificate), "-out", f"{certificate}.crt"),
    )
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{certificate}.crt", str(certificate))

    def answer(connection: socket.socket) -> None:
        with suppress(ssl.SSLError), context.wrap_socket(connection, server_side=True):
            pass

    with listening(answer) as uri:
        error = refusal(uri)
    assert "speaks TLS" in str(error)
    assert "plain thrift" in error.hint


def test_a_server_that_never_answers() -> None:
    with listening(swallow) as uri:
        error = refusal(uri)
    assert "no answer in time" in str(error)


def test_a_server_that_closes_the_connection() -> None:
    with listening(lambda connection: connection.close()) as uri:
        assert "does not answer as a Hive Metastore" in str(refusal(uri))


def test_several_that_never_answer_fail_together_in_time() -> None:
    with listening(swallow) as one, listening(swallow) as two, listening(swallow) as three:
        error = refusal(f"{one},{two},{three}")
    assert str(error).count("no answer in time") == 3


# several servers, and one that restarts


def test_of_several_addresses_the_first_may_be_dead(
    hive_metastore: HiveServer, tmp_path: Path
) -> None:
    dead = f"thrift://127.0.0.1:{free_port()}"
    with listening(swallow) as mute:
        uri = f"{dead}, {mute}, {hive_metastore.uri}"
        catalog = open_catalog(hive_metastore.settings("prod", tmp_path, uri=uri))
        catalog.create_namespace(("sales",), {})
        began = time.monotonic()
        catalog.register(ORDERS, write_metadata(tmp_path / "t"))
        assert catalog.find_pointer(ORDERS) is not None
        assert time.monotonic() - began < 3, "the one that answered last is asked first"


class Front:
    """A port in front of the metastore that can lose answers, and stop taking connections."""

    def __init__(self, port: int, own_port: int = 0) -> None:
        self._port = port
        self.lose_next = b""  # the answer to the next request with these bytes is lost
        self.hold_next = b""  # the next request with these bytes is done right before the one after
        self.slow_next = b""  # the answer to requests with these bytes takes 5 s
        self.lost = 0
        self.requests: list[bytes] = []
        self._held: tuple[socket.socket, bytes] | None = None
        self._server = socket.create_server(("127.0.0.1", own_port))
        self.own_port = self._server.getsockname()[1]
        self.uri = f"thrift://127.0.0.1:{self.own_port}"
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._server.accept()
                threading.Thread(target=self._relay, args=(connection,), daemon=True).start()

    def _relay(self, near: socket.socket) -> None:
        with near, suppress(OSError), socket.create_connection(("127.0.0.1", self._port)) as far:
            while request := near.recv(1 << 16):
                self.requests.append(request)
                if self.hold_next and self.hold_next in request:
                    if self._held is None:
                        self._held = far.dup(), request
                        return
                    self._release()
                far.sendall(request)
                answer = far.recv(1 << 16)
                if self.lose_next and self.lose_next in request:
                    self.lose_next = b""
                    self.lost += 1
                    return
                if self.slow_next and self.slow_next in request:
                    time.sleep(5)
                near.sendall(answer)

    def _release(self) -> None:
        assert self._held is not None
        far, request = self._held
        with far:
            far.sendall(request)
            far.recv(1 << 16)
        self.hold_next = b""


@pytest.fixture
def front(hive_metastore: HiveServer) -> Iterator[Front]:
    front = Front(hive_metastore.server.port)
    yield front
    front.close()


def test_a_register_whose_answer_is_lost_is_looked_up_and_not_done_twice(
    hive_metastore: HiveServer, front: Front, tmp_path: Path
) -> None:
    catalog = open_catalog(hive_metastore.settings("prod", tmp_path, uri=front.uri))
    catalog.create_namespace(("sales",), {})
    location = write_metadata(tmp_path / "t")
    front.lose_next = b"create_table"
    catalog.register(ORDERS, location)
    assert front.lost == 1
    assert sum(b"create_table" in request for request in front.requests) == 1
    assert catalog.find_pointer(ORDERS) == Pointer(ORDERS, location, "table")
    front.lose_next = b"create_table"
    with pytest.raises(TargetExistsError):
        catalog.register(ORDERS, write_metadata(tmp_path / "t", "00002-other"))
    assert front.lost == 2


def test_a_register_that_is_done_late_is_ours_and_not_anothers(
    hive_metastore: HiveServer, front: Front, tmp_path: Path
) -> None:
    catalog = open_catalog(hive_metastore.settings("prod", tmp_path, uri=front.uri))
    catalog.create_namespace(("sales",), {})
    location = write_metadata(tmp_path / "t")
    front.hold_next = b"create_table"
    catalog.register(ORDERS, location)
    assert sum(b"create_table" in request for request in front.requests) == 2
    assert catalog.find_pointer(ORDERS) == Pointer(ORDERS, location, "table")


def test_a_question_whose_answer_is_lost_is_asked_again(
    hive_metastore: HiveServer, front: Front, tmp_path: Path
) -> None:
    catalog = open_catalog(hive_metastore.settings("prod", tmp_path, uri=front.uri))
    for word, ask in (
        (b"create_database", lambda: catalog.create_namespace(("sales",), {})),
        (b"get_all_databases", lambda: list(catalog.iter_pointers())),
        (b"get_database", lambda: catalog.load_namespace(("sales",))),
    ):
        front.lose_next = word
        ask()
    assert front.lost == 3


def test_a_metastore_that_greeted_in_time_may_take_longer_to_answer(
    hive_metastore: HiveServer, front: Front, tmp_path: Path
) -> None:
    catalog = open_catalog(hive_metastore.settings("prod", tmp_path, uri=front.uri))
    front.slow_next = b"get_all_databases"
    assert list(catalog.iter_namespaces()) == [("default",)]
    assert sum(b"get_all_databases" in request for request in front.requests) == 1


def test_a_metastore_that_goes_away_for_good_is_waited_for_and_then_told(
    hive_metastore: HiveServer, front: Front, tmp_path: Path
) -> None:
    settings = hive_metastore.settings("prod", tmp_path, uri=front.uri)
    catalog = HiveCatalog(settings, patience_seconds=1.5)
    list(catalog.iter_namespaces())
    front.close()
    began = time.monotonic()
    with pytest.raises(CatalogError, match="there is no metastore at"):
        list(catalog.iter_namespaces())
    assert 1.5 <= time.monotonic() - began < 5


def test_a_register_while_the_metastore_is_away_is_sent_when_it_is_back(
    hive_metastore: HiveServer, front: Front, tmp_path: Path
) -> None:
    catalog = open_catalog(hive_metastore.settings("prod", tmp_path, uri=front.uri))
    catalog.create_namespace(("sales",), {})
    location = write_metadata(tmp_path / "t")
    front.close()
    back: list[Front] = []
    timer = threading.Timer(
        1, lambda: back.append(Front(hive_metastore.server.port, front.own_port))
    )
    timer.start()
    catalog.register(ORDERS, location)
    timer.join()
    assert catalog.find_pointer(ORDERS) == Pointer(ORDERS, location, "table")
    back[0].close()


@pytest.fixture
def own_hive() -> Iterator[tuple[Path, Server]]:
    """A metastore that a test may stop."""
    with server_folder() as folder:
        server = start_hive(folder, f"file://{folder}/warehouse")
        yield folder, server
        server.stop()


def test_a_restart_midway_is_waited_for(own_hive: tuple[Path, Server], tmp_path: Path) -> None:
    folder, server = own_hive
    properties = {"uri": f"thrift://{server.address}", "warehouse": str(tmp_path)}
    catalog = open_catalog(CatalogSettings("prod", "hive", properties))
    catalog.create_namespace(("sales",), {})
    location = write_metadata(tmp_path / "t")
    server.stop()
    with ThreadPoolExecutor() as pool:
        again = pool.submit(start_hive, folder, f"file://{folder}/warehouse", port=server.port)
        try:
            assert catalog.find_pointer(ORDERS) is None
            catalog.register(ORDERS, location)
            assert catalog.find_pointer(ORDERS) == Pointer(ORDERS, location, "table")
        finally:
            again.result().stop()
