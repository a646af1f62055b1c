"""REST catalogs: who is let in, what goes wrong on the way, answers that are lost or come in pages.

Behind the gate of these tests (`tests/support/front.py`) is always Iceberg's own server.
"""

from __future__ import annotations

import json
import pickle
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from bcn.catalog.open import CATALOG_TYPES, open_catalog
from bcn.catalog.protocol import Catalog, CatalogSettings
from bcn.errors import (
    CatalogError,
    NoSuchNamespaceError,
    SettingsError,
    TargetExistsError,
    UnsupportedCatalogError,
)
from bcn.model import TableId
from bcn.stack.process import free_port
from bcn.stack.rest import start_rest
from tests.support.front import TOKENS, Front, make_certificate, open_front
from tests.support.rest import RestServer
from tests.support.rigs import table_document

ORDERS = TableId(("sales",), "orders")
DOCS = Path(__file__).parents[2] / "docs"
SECRET = "s3cr3t-of-the-tests"


@pytest.fixture
def front(rest_catalog: RestServer) -> Iterator[Front]:
    with open_front(Front(rest_catalog.server.address)) as opened:
        yield opened


def settings(uri: str, **more: str) -> CatalogSettings:
    return CatalogSettings("prod", "rest", {"uri": uri, **more})


def catalog_at(uri: str, **more: str) -> Catalog:
    return open_catalog(settings(uri, **more))


def add(server: RestServer, name: str = "sales.orders") -> str:
    """A table in the real catalog, not by way of the gate."""
    table = TableId.parse(name)
    catalog = open_catalog(server.settings())
    catalog.create_namespace(table.namespace, {})
    location = write_metadata(server, table)
    catalog.register(table, location)
    return location


def write_metadata(server: RestServer, table: TableId) -> str:
    folder = server.warehouse.joinpath(*table.namespace, table.name)
    path = folder / "metadata" / "00000-x.metadata.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(table_document(str(folder))))
    return str(path)


def failure(uri: str, **more: str) -> CatalogError:
    """What a first look at a catalog ends in: within 15 s, one line, a hint, no secret."""
    started = time.monotonic()
    with pytest.raises(CatalogError) as caught:
        list(catalog_at(uri, **more).iter_pointers())
    assert time.monotonic() - started < 15
    text = f"{caught.value} {caught.value.hint}"
    assert "\n" not in text
    assert SECRET not in text
    assert caught.value.exit_code == 14
    assert caught.value.hint
    return caught.value


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


# what goes wrong


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


# who is let in


def test_a_token_opens_the_gate_and_a_wrong_one_does_not(
    front: Front, rest_catalog: RestServer
) -> None:
    add(rest_catalog)
    front.tokens = {SECRET}
    assert len(list(catalog_at(front.uri, token=SECRET).iter_pointers())) == 1
    front.tokens = {"another"}
    error = failure(front.uri, token=SECRET)
    assert "refuses the credentials: 401 not you: Bearer ***" in str(error)
    assert "token" in error.hint
    assert "401" in str(failure(front.uri))


def test_a_client_gets_tokens_and_renews_them_before_they_end(
    front: Front, rest_catalog: RestServer
) -> None:
    add(rest_catalog)
    front.clients, front.token_seconds = {"me": SECRET}, 1
    catalog = catalog_at(front.uri, credential=f"me:{SECRET}", scope="all", audience="lake")
    assert len(list(catalog.iter_pointers())) == 1
    assert front.issued == ["issued-0"]
    wanted = {"client_id": "me", "client_secret": SECRET, "grant_type": "client_credentials"}
    assert front.forms == [{**wanted, "scope": "all", "audience": "lake"}]
    time.sleep(0.9)
    assert len(list(catalog.iter_pointers())) == 1
    assert front.issued == ["issued-0", "issued-1"]


def test_a_token_that_is_refused_is_replaced_once_by_all_threads(
    front: Front, rest_catalog: RestServer
) -> None:
    for number in range(20):
        add(rest_catalog, f"sales.t{number}")
    front.clients = {"me": SECRET}
    catalog = catalog_at(front.uri, credential=f"me:{SECRET}")
    assert len(list(catalog.iter_pointers())) == 20
    front.tokens.clear()
    assert len(list(catalog.iter_pointers())) == 20
    assert front.issued == ["issued-0", "issued-1"]


def test_a_wrong_client_is_told_by_the_token_server_without_its_secret(front: Front) -> None:
    front.clients = {"me": "right"}
    error = failure(front.uri, credential=f"me:{SECRET}")
    assert f"the OAuth2 server at {front.uri}{TOKENS} refuses the credentials: 401" in str(error)
    assert "credential" in error.hint
    nowhere = f"http://127.0.0.1:{free_port()}/token"
    more = {"oauth2-server-uri": nowhere, "credential": f"me:{SECRET}"}
    assert f"the OAuth2 server at {nowhere} cannot be reached" in str(failure(front.uri, **more))


def test_a_token_server_that_gives_none(front: Front, rest_catalog: RestServer) -> None:
    more = {"oauth2-server-uri": f"{rest_catalog.uri}/v1/config", "credential": SECRET}
    assert "the OAuth2 server" in str(failure(front.uri, **more))
    front.answer = lambda _method, path: (
        (200, "application/json", b'{"token": "x"}') if path == TOKENS else None
    )
    with pytest.raises(CatalogError, match="gives no token: token"):
        list(catalog_at(front.uri, credential=f"me:{SECRET}").iter_namespaces())


def test_user_and_password_headers_and_classes_of_ones_own(front: Front) -> None:
    sent: list[Any] = []

    def check(request: BaseHTTPRequestHandler, _body: bytes) -> bool:
        sent.append(request.headers)
        return True

    front.check = check
    basic = {"auth.type": "basic", "auth.basic.username": "me", "auth.basic.password": "pw"}
    list(catalog_at(front.uri, **basic, **{"header.X-Team": "lake"}).iter_namespaces())
    assert sent[-1]["Authorization"] == "Basic bWU6cHc="
    assert sent[-1]["X-Team"] == "lake"
    assert sent[-1]["X-Iceberg-Access-Delegation"] == "vended-credentials"
    own = {"auth.type": "custom", "auth.impl": f"{__name__}.OwnAuth", "auth.custom.word": "hello"}
    list(catalog_at(front.uri, **own).iter_namespaces())
    assert sent[-1]["Authorization"] == "Own hello"
    with pytest.raises(SettingsError, match=r"auth\.basic\.password"):
        catalog_at(front.uri, **{"auth.type": "basic", "auth.basic.username": "me"})
    with pytest.raises(SettingsError, match="'magic' cannot be used"):
        catalog_at(front.uri, **{"auth.type": "magic"})


class OwnAuth:
    """What a user of pyiceberg may have written."""

    def __init__(self, word: str) -> None:
        self._word = word

    def auth_header(self) -> str:
        return f"Own {self._word}"


def test_requests_are_signed_as_aws_wants_it(front: Front, rest_catalog: RestServer) -> None:
    key = Credentials("AKIATEST", SECRET, "session")
    front.check = lambda request, body: _is_signed(front, request, body, key)
    more = {
        "rest.sigv4-enabled": "true",
        "rest.signing-region": "eu-west-1",
        "rest.signing-name": "glue",
        "client.access-key-id": "AKIATEST",
        "client.session-token": "session",
    }
    catalog = catalog_at(front.uri, **more, **{"client.secret-access-key": SECRET})
    catalog.create_namespace(("sales", "inner x"), {"owner": "ada"})
    assert list(catalog.iter_namespaces()) == [("sales",), ("sales", "inner x")]
    assert rest_catalog.warehouse
    assert "401" in str(failure(front.uri, **more, **{"client.secret-access-key": "wrong"}))


def _is_signed(
    front: Front, request: BaseHTTPRequestHandler, body: bytes, key: Credentials
) -> bool:
    """Signs what came once more, with the same time, and compares."""
    said = request.headers["Authorization"]
    names = said.partition("SignedHeaders=")[2].partition(",")[0].split(";")
    headers = {name: request.headers[name] for name in names if name in request.headers}
    again = AWSRequest(request.command, front.uri + request.path, headers, body)
    again.context["timestamp"] = headers["x-amz-date"]
    signer = SigV4Auth(key, "glue", "eu-west-1")
    wanted = signer.signature(signer.string_to_sign(again, signer.canonical_request(again)), again)
    return said.endswith(f"Signature={wanted}")


def test_secrets_are_in_no_text(front: Front) -> None:
    made = settings(front.uri, token=SECRET, **{"header.Authorization": SECRET, "s3.x": SECRET})
    catalog = open_catalog(made)
    shown = [repr(made), repr(catalog), repr(catalog.access), str(catalog.public_properties())]
    assert SECRET not in " ".join(shown)
    assert dict(catalog.access.properties) == {"s3.x": SECRET}
    user = catalog_at(front.uri.replace("//", f"//me:{SECRET}@"))
    assert user.public_properties() == {"type": "rest", "uri": front.uri}


# answers


def test_lists_come_in_pages(front: Front, rest_catalog: RestServer) -> None:
    names = [f"{space}.t{number}" for space in ("a", "b", "c") for number in range(5)]
    for name in names:
        add(rest_catalog, name)
    catalog = catalog_at(front.uri, **{"rest-page-size": "2"})
    assert [str(pointer.table) for pointer in catalog.iter_pointers()] == names
    assert front.asked("/namespaces/a/tables") == 3


def test_nothing_but_the_server_is_asked_what_it_can_do(front: Front) -> None:
    def edit(path: str, document: dict[str, Any]) -> None:
        if path.startswith("/v1/config"):
            document["endpoints"] = [e for e in document["endpoints"] if "view" not in e]

    front.edit = edit
    catalog = catalog_at(front.uri)
    catalog.create_namespace(("sales",), {})
    assert not catalog.keeps_views()
    with pytest.raises(UnsupportedCatalogError, match="its server registers none"):
        catalog.register_view(ORDERS, "/x.metadata.json")
    assert list(catalog.iter_pointers()) == []
    assert front.asked("/views") == 0


def test_a_server_without_namespaces_in_namespaces(front: Front, rest_catalog: RestServer) -> None:
    add(rest_catalog)
    front.answer = lambda _method, path: (
        (406, "application/json", b"{}") if "parent" in path else None
    )
    assert list(catalog_at(front.uri).iter_namespaces()) == [("sales",)]
    names = b'{"namespaces": [["sales"]]}'  # of a server that does not look at the parent
    front.answer = lambda _m, path: (200, "application/json", names) if "parent" in path else None
    assert list(catalog_at(front.uri).iter_namespaces()) == [("sales",)]
    front.answer = lambda _m, path: (500, "application/json", b"{}") if "parent" in path else None
    with pytest.raises(CatalogError, match="500"):
        list(catalog_at(front.uri).iter_namespaces())


def test_a_registration_whose_answer_is_lost_is_found(
    front: Front, rest_catalog: RestServer
) -> None:
    open_catalog(rest_catalog.settings()).create_namespace(("sales",), {})
    location = write_metadata(rest_catalog, ORDERS)
    catalog = catalog_at(front.uri)
    catalog.load_namespace(("sales",))

    def edit(path: str, _document: dict[str, Any]) -> None:
        if path.endswith("/register"):
            raise ConnectionError("the answer is lost on its way")

    front.edit = edit
    catalog.register(ORDERS, location)
    assert front.asked("/register") == 1
    with pytest.raises(TargetExistsError):
        catalog.register(ORDERS, location)


def test_a_registration_that_never_arrived_is_an_error(
    front: Front, rest_catalog: RestServer
) -> None:
    open_catalog(rest_catalog.settings()).create_namespace(("sales",), {})
    location = write_metadata(rest_catalog, ORDERS)
    front.answer = lambda _method, path: (
        (502, "text/html", b"") if path.endswith("/register") else None
    )
    catalog = catalog_at(front.uri)
    with pytest.raises(CatalogError, match="502"):
        catalog.register(ORDERS, location)
    assert catalog.find_pointer(ORDERS) is None


def test_registering_into_a_namespace_that_is_not_there(rest_catalog: RestServer) -> None:
    location = write_metadata(rest_catalog, ORDERS)
    with pytest.raises(NoSuchNamespaceError, match="sales"):
        open_catalog(rest_catalog.settings()).register(ORDERS, location)


def test_properties_that_the_server_does_not_keep_are_told(front: Front) -> None:
    def edit(_path: str, document: dict[str, Any]) -> None:
        document.get("properties", {}).pop("owner", None)

    front.edit = edit
    with pytest.raises(CatalogError, match="does not keep its properties owner"):
        catalog_at(front.uri).create_namespace(("a",), {"owner": "ada", "x": "1"})


def test_where_a_table_would_go(front: Front, rest_catalog: RestServer) -> None:
    catalog = catalog_at(front.uri)
    assert catalog.warehouse_roots() == ()
    with pytest.raises(CatalogError, match="does not say where") as caught:
        catalog.default_location(ORDERS)
    assert "--target-location" in caught.value.hint
    catalog.create_namespace(("sales",), {"location": "/far/away"})
    assert catalog.default_location(ORDERS) == "/far/away/orders"
    assert catalog.default_location(TableId(("sales", "new"), "t")) == "/far/away/new/t"
    named = catalog_at(front.uri, warehouse="lake")
    assert named.warehouse_roots() == ()
    assert named.public_properties()["warehouse"] == "lake"

    def edit(path: str, document: dict[str, Any]) -> None:
        if path.startswith("/v1/config"):
            document["defaults"]["warehouse"] = "s3://bucket/lake/"
            document["overrides"] |= {"s3.region": "eu-west-1", "prefix": ""}

    front.edit = edit
    told = catalog_at(front.uri, **{"s3.region": "mine", "s3.endpoint": "http://e"})
    assert told.warehouse_roots() == ("s3://bucket/lake",)
    assert dict(told.access.properties) == {"s3.region": "eu-west-1", "s3.endpoint": "http://e"}
    assert told.default_location(TableId(("new",), "t")) == "s3://bucket/lake/new/t"
    assert rest_catalog.warehouse


def test_its_access_travels_to_executors(front: Front) -> None:
    access = catalog_at(front.uri, **{"s3.endpoint": "http://e"}).access
    again = pickle.loads(pickle.dumps(access))
    assert dict(again.properties) == {"s3.endpoint": "http://e"}
