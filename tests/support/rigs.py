"""Catalogs of every type for the contract suite: empty ones, and what each of them cannot hold."""

from __future__ import annotations

import json
import sqlite3
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from bcn.catalog.open import open_catalog
from bcn.catalog.protocol import Catalog, CatalogSettings
from bcn.errors import CatalogError
from bcn.model import TableId
from bcn.stack.process import free_port
from bcn.storage.open import Stores, open_storage
from tests.support.hive import HiveServer
from tests.support.rest import RestServer

V0_TABLES = """
CREATE TABLE iceberg_tables(catalog_name VARCHAR(255) NOT NULL,
  table_namespace VARCHAR(255) NOT NULL,
  table_name VARCHAR(255) NOT NULL, metadata_location VARCHAR(1000),
  previous_metadata_location VARCHAR(1000),
  PRIMARY KEY (catalog_name, table_namespace, table_name));
CREATE TABLE iceberg_namespace_properties(catalog_name VARCHAR(255) NOT NULL,
  namespace VARCHAR(255) NOT NULL, property_key VARCHAR(255), property_value VARCHAR(1000),
  PRIMARY KEY (catalog_name, namespace, property_key));
"""
ODD_NAMES = ("ünï", "with space", "100%25", "a+b", "UPPER", "_t", "-", "`q`", "metadata")
_SCHEMA: dict[str, Any] = {
    "type": "struct",
    "schema-id": 0,
    "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}],
}


@dataclass(frozen=True)
class Rig:
    """A catalog under test, empty at first, and what may be asked of it."""

    settings: CatalogSettings
    take_away: Callable[[], CatalogSettings]
    """Makes its disk or server disappear; the settings of what is left."""

    place: Path | None = None  # of a catalog that is made when something is registered
    has_views: bool = False
    nests: bool = True  # namespaces in namespaces
    given: frozenset[str] = frozenset()  # properties that it gives each namespace by itself
    max_name: int | None = 255
    odd_names: tuple[str, ...] = ODD_NAMES  # those that it can hold; the others are refused
    always: tuple[tuple[str, ...], ...] = ()  # namespaces that are there from the start
    swaps: bool = True  # another table can take a table's place
    new_types: bool = True  # columns of types that came with format version 3
    refused_names: tuple[str, ...] = field(default=())  # beyond those that no catalog can hold

    def open(self) -> Catalog:
        return open_catalog(self.settings)

    def write_metadata(self, table: TableId, kind: str = "table") -> str:
        """A whole metadata file where the catalog would have it."""
        catalog = self.open()
        place = catalog.default_location(table)
        location = f"{place}/metadata/{catalog.metadata_name('x.metadata.json')}"
        document = view_document(place) if kind == "view" else table_document(place)
        storage, key = Stores(catalog.access).resolve(location)
        storage.replace(key, json.dumps(document).encode())
        return location

    def add(self, table: TableId) -> str:
        """Registered, in its namespace."""
        catalog = self.open()
        catalog.create_namespace(table.namespace, {})
        location = self.write_metadata(table)
        catalog.register(table, location)
        return location

    def trace(self) -> object:
        """All that the catalog holds; None if it is not made yet."""
        if self.place is not None and not self.place.exists():
            return None
        catalog = self.open()
        try:
            return list(catalog.iter_namespaces()), list(catalog.iter_pointers())
        except CatalogError:
            return None  # made, but without its tables

    def namespaces(self) -> list[tuple[str, ...]]:
        """All namespaces less those that are always there."""
        return [found for found in self.open().iter_namespaces() if found not in self.always]

    def own(self, properties: Mapping[str, str]) -> dict[str, str]:
        """Properties of a namespace less those that the catalog gives it by itself."""
        return {key: value for key, value in properties.items() if key not in self.given}


def table_document(location: str) -> dict[str, Any]:
    """The metadata of an empty table."""
    return {
        "format-version": 2,
        "table-uuid": str(uuid.uuid4()),
        "location": location,
        "last-sequence-number": 0,
        "last-updated-ms": 1_700_000_000_000,
        "last-column-id": 1,
        "current-schema-id": 0,
        "schemas": [_SCHEMA],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "last-partition-id": 999,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": {},
        "current-snapshot-id": -1,
        "refs": {},
        "snapshots": [],
        "statistics": [],
        "partition-statistics": [],
        "snapshot-log": [],
        "metadata-log": [],
    }


def write_metadata(folder: Path, name: str = "00001-x") -> str:
    """The metadata file of an empty table."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.metadata.json"
    path.write_text(json.dumps(table_document(str(folder))))
    return str(path)


def view_document(location: str) -> dict[str, Any]:
    """The metadata of a view that needs no table."""
    version = {
        "version-id": 1,
        "timestamp-ms": 1_700_000_000_000,
        "schema-id": 0,
        "summary": {},
        "default-namespace": ["sales"],
        "representations": [{"type": "sql", "sql": "SELECT 1L AS id", "dialect": "spark"}],
    }
    return {
        "view-uuid": str(uuid.uuid4()),
        "format-version": 1,
        "location": location,
        "schemas": [_SCHEMA],
        "current-version-id": 1,
        "versions": [version],
        "version-log": [{"timestamp-ms": 1_700_000_000_000, "version-id": 1}],
        "properties": {},
    }


def _moved(place: Path, settings: CatalogSettings) -> Callable[[], CatalogSettings]:
    def take_away() -> CatalogSettings:
        place.rename(place.with_name("unmounted"))
        return settings

    return take_away


def _hadoop(_request: pytest.FixtureRequest, folder: Path) -> Rig:
    place = folder / "warehouse"
    settings = CatalogSettings("prod", "hadoop", {"warehouse": str(place)})
    return Rig(settings, _moved(place, settings), place, swaps=False)


def _hadoop_on_minio(request: pytest.FixtureRequest, _folder: Path) -> Rig:
    server = request.getfixturevalue("minio")
    warehouse = f"s3a://{server.make_bucket()}/warehouse"
    settings = CatalogSettings("prod", "hadoop", {"warehouse": warehouse, **server.properties})

    def take_away() -> CatalogSettings:
        open_storage(settings.access().spec(warehouse)).delete_all("")
        return settings

    return Rig(settings, take_away, swaps=False)


def _sql(_request: pytest.FixtureRequest, folder: Path) -> Rig:
    database = folder / "db" / "catalog.db"
    warehouse = str(folder / "warehouse")
    properties = {"uri": f"sqlite:///{database}", "warehouse": warehouse}
    settings = CatalogSettings("prod", "sql", properties)
    return Rig(settings, _moved(database, settings), database, has_views=True)


def _sql_v0(_request: pytest.FixtureRequest, folder: Path) -> Rig:
    database = folder / "db" / "catalog.db"
    database.parent.mkdir()
    with sqlite3.connect(database) as connection:
        connection.executescript(V0_TABLES)
    connection.close()
    properties = {"uri": f"sqlite:///{database}", "warehouse": str(folder / "warehouse")}
    settings = CatalogSettings("prod", "sql", properties)
    return Rig(settings, _moved(database, settings), database)


def _postgres(request: pytest.FixtureRequest, folder: Path) -> Rig:
    postgres = request.getfixturevalue("postgres")
    database = postgres.make_database()
    settings = postgres.settings("prod", database, folder / "warehouse")
    uri = postgres.uri(database, port=free_port())
    gone = CatalogSettings("prod", "sql", {**settings.properties, "uri": uri})
    return Rig(settings, lambda: gone, has_views=True)


def _glue(request: pytest.FixtureRequest, folder: Path) -> Rig:
    glue = request.getfixturevalue("glue")
    settings = glue.settings("prod", str(folder / "warehouse"))
    nobody = f"http://127.0.0.1:{free_port()}"
    gone = glue.settings("prod", str(folder / "warehouse"), **{"glue.endpoint": nobody})
    return Rig(
        settings,
        lambda: gone,
        nests=False,
        odd_names=tuple(name for name in ODD_NAMES if name != "UPPER"),
        refused_names=("UPPER",),
    )


def _rest(request: pytest.FixtureRequest, _folder: Path) -> Rig:
    server: RestServer = request.getfixturevalue("rest_catalog")
    return Rig(
        server.settings(),
        lambda: server.settings(uri=f"http://127.0.0.1:{free_port()}"),
        has_views=True,
        given=frozenset({"location"}),
        max_name=None,
        swaps=False,
        # Its web server takes no address with a per cent sign in a name.
        odd_names=tuple(name for name in ODD_NAMES if "%" not in name),
        refused_names=("a.b",),
    )


def _hive(request: pytest.FixtureRequest, folder: Path) -> Rig:
    server: HiveServer = request.getfixturevalue("hive_metastore")
    warehouse = folder / "warehouse"
    held = ("_t", "metadata")
    return Rig(
        server.settings("prod", warehouse),
        lambda: server.settings("prod", warehouse, uri=f"thrift://127.0.0.1:{free_port()}"),
        has_views=True,
        nests=False,
        given=frozenset({"hive.metastore.database.owner", "hive.metastore.database.owner-type"}),
        max_name=128,
        odd_names=held,
        always=(("default",),),
        new_types=False,
        refused_names=("a.b", "a-b"),
    )


# A server asks for its fixture by name (`request.getfixturevalue`), so that it starts when needed.
RIGS: dict[str, Callable[[pytest.FixtureRequest, Path], Rig]] = {
    "hadoop": _hadoop,
    "hadoop-on-minio": _hadoop_on_minio,
    "rest": _rest,
    "sql-v1": _sql,
    "sql-v0": _sql_v0,
    "postgres": _postgres,
    "glue": _glue,
    "hive": _hive,
}
