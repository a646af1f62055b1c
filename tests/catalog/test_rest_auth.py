"""Who is let into a REST catalog: tokens, OAuth2, passwords, signatures.

Behind the gate of these tests (`tests/support/front.py`) is always Iceberg's own server.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from requests import Request

from bcn.catalog.open import open_catalog
from bcn.catalog.rest_auth import ClientCredentials
from bcn.errors import (
    CatalogError,
    SettingsError,
)
from bcn.model import TableId
from bcn.stack.process import free_port
from tests.support.front import TOKENS, Front, open_front
from tests.support.rest import RestServer
from tests.support.rest_desk import SECRET, add, catalog_at, failure, settings

ORDERS = TableId(("sales",), "orders")
DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def front(rest_catalog: RestServer) -> Iterator[Front]:
    with open_front(Front(rest_catalog.server.address)) as opened:
        yield opened


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


def test_a_client_gets_a_token_for_all_of_its_requests(
    front: Front, rest_catalog: RestServer
) -> None:
    add(rest_catalog)
    front.clients = {"me": SECRET}
    catalog = catalog_at(front.uri, credential=f"me:{SECRET}", scope="all", audience="lake")
    assert len(list(catalog.iter_pointers())) == 1
    assert front.issued == ["issued-0"]
    wanted = {"client_id": "me", "client_secret": SECRET, "grant_type": "client_credentials"}
    assert front.forms == [{**wanted, "scope": "all", "audience": "lake"}]
    assert front.refusals == 0


def test_a_token_is_renewed_before_it_ends() -> None:
    now, tokens = [0.0], iter("abc")
    auth = ClientCredentials(
        lambda *_args: {"access_token": next(tokens), "expires_in": 100},
        "http://x",
        {},
        clock=lambda: now[0],
    )
    sent = []
    for moment in (0, 79, 81, 160, 162):
        now[0] = moment
        sent.append(auth(Request("GET", "http://x").prepare()).headers["Authorization"])
    assert sent == ["Bearer a", "Bearer a", "Bearer b", "Bearer b", "Bearer c"]


def test_a_token_that_is_refused_is_replaced_once_by_all_threads(
    front: Front, rest_catalog: RestServer
) -> None:
    for number in range(20):
        add(rest_catalog, f"sales.t{number}")
    front.clients = {"me": SECRET}
    catalog = catalog_at(front.uri, credential=f"me:{SECRET}")
    assert len(list(catalog.iter_pointers())) == 20
    taken = threading.Event()

    def answer(_method: str, path: str) -> None:
        if "/tables/t" in path and not taken.is_set():
            taken.set()  # while several are on their way
            front.tokens.clear()

    front.answer = answer
    assert len(list(catalog.iter_pointers())) == 20
    assert front.issued == ["issued-0", "issued-1"]
    assert front.refusals > 0


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
