"""Opening REST catalogs in tests, filling them, and failing to reach them."""

from __future__ import annotations

import json
import time

import pytest

from bcn.catalog.open import open_catalog
from bcn.catalog.protocol import Catalog, CatalogSettings
from bcn.errors import CatalogError
from bcn.model import TableId
from tests.support.rest import RestServer
from tests.support.rigs import table_document

SECRET = "s3cr3t-of-the-tests"


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
