"""What REST catalogs answer: in pages, with less than asked for, or not at all.

Behind the gate of these tests (`tests/support/front.py`) is always Iceberg's own server.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bcn.catalog.open import open_catalog
from bcn.errors import (
    CatalogError,
    NoSuchNamespaceError,
    TargetExistsError,
    UnsupportedCatalogError,
)
from bcn.model import TableId
from tests.support.front import Front, open_front
from tests.support.rest import RestServer
from tests.support.rest_desk import add, catalog_at, write_metadata

ORDERS = TableId(("sales",), "orders")
DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def front(rest_catalog: RestServer) -> Iterator[Front]:
    with open_front(Front(rest_catalog.server.address)) as opened:
        yield opened


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
    front.edit = None
    with pytest.raises(TargetExistsError):
        catalog.register(ORDERS, location)


def test_a_registration_that_did_not_arrive_is_sent_again(
    front: Front, rest_catalog: RestServer
) -> None:
    location = write_metadata(rest_catalog, ORDERS)
    lost = iter([502, 0, 504, 0])
    front.answer = lambda method, _path: (
        (status, "text/html", b"") if method == "POST" and (status := next(lost, 0)) else None
    )
    catalog = catalog_at(front.uri)
    catalog.create_namespace(("sales",), {"owner": "ada"})
    catalog.register(ORDERS, location)
    assert catalog.load_namespace(("sales",))["owner"] == "ada"
    assert [method for method, _path in front.seen].count("POST") == 4


def test_one_that_arrived_late_and_is_sent_again_is_still_ours(
    front: Front, rest_catalog: RestServer
) -> None:
    open_catalog(rest_catalog.settings()).create_namespace(("sales",), {})
    location = write_metadata(rest_catalog, ORDERS)
    seen = 0

    def answer(method: str, path: str) -> tuple[int, str, bytes] | None:
        nonlocal seen
        if method != "POST":
            return None
        seen += 1
        if seen == 2:  # by now the first one has come through
            open_catalog(rest_catalog.settings()).register(ORDERS, location)
        return (504, "text/html", path.encode()) if seen == 1 else None

    front.answer = answer
    catalog_at(front.uri).register(ORDERS, location)
    assert seen == 2


def test_a_server_that_is_busy_with_every_table_is_given_up_soon(
    front: Front, rest_catalog: RestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        add(rest_catalog, f"sales.t{number}")
    monkeypatch.setattr("bcn.catalog.rest_client._PATIENCE_SECONDS", 3.0)
    front.answer = lambda _method, path: (503, "text/plain", b"") if "/tables/t" in path else None
    started = time.monotonic()
    with pytest.raises(CatalogError, match="503"):
        list(catalog_at(front.uri).iter_pointers())
    assert time.monotonic() - started < 5, "the patience for one, not for each"


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
