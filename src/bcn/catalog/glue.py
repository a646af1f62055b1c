"""AWS Glue: databases and tables by its API, as Iceberg's GlueCatalog keeps them.

A table of Iceberg is a record with `table_type=ICEBERG` and the location of its metadata among its
parameters. Other tables of Glue are not listed, but their names are taken. Glue has no nested
databases and keeps names in lower case.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from uuid import UUID, uuid4

from bcn.catalog.glue_client import GlueAnswerError, GlueClient, check_properties
from bcn.catalog.glue_table import (
    METADATA_LOCATION,
    PREVIOUS_LOCATION,
    database_input,
    is_iceberg,
    namespace_properties,
    table_input,
)
from bcn.catalog.protocol import (
    TABLE,
    CatalogSettings,
    Pointer,
    changed_meanwhile,
    note_types,
    public_location,
    strip_slashes,
    versioned_name,
)
from bcn.errors import (
    BadNameError,
    CatalogError,
    NoSuchNamespaceError,
    TargetExistsError,
    UnsupportedCatalogError,
)
from bcn.iceberg.metadata import parse_metadata
from bcn.model import Json, TableId, check_name, join_names
from bcn.storage.open import Stores

_MAX_NAME = 255
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_PLAIN = re.compile(r"[a-z0-9_]+\Z")  # names that Iceberg's GlueCatalog takes without being told
_MISSING, _EXISTS = "EntityNotFoundException", "AlreadyExistsException"
_KEPT = ("Description", "Owner", "Retention")  # what others may have said of a table
_OUTDATED = {_MISSING, "ConcurrentModificationException", "VersionMismatchException"}


class GlueCatalog:
    """The databases and Iceberg tables of one account and region."""

    fixes_locations = False
    keeps_namespace_properties = True

    def __init__(self, settings: CatalogSettings, new_uuid: Callable[[], UUID] = uuid4) -> None:
        check_properties(settings.name, settings.properties)
        self.name = settings.properties.get("name", settings.name)
        self.access = settings.access()
        self._warehouse = strip_slashes(settings.properties.get("warehouse", ""))
        self._client = GlueClient(settings.name, settings.properties)
        self._new_uuid = new_uuid

    def iter_namespaces(self) -> Iterator[tuple[str, ...]]:
        """All databases."""
        yield from sorted((name,) for name in self._databases())

    def load_namespace(self, namespace: tuple[str, ...]) -> dict[str, str]:
        """Parameters, and `location` and `comment` if the database has them."""
        return namespace_properties(self._load_database(namespace))

    def iter_pointers(self, namespace: tuple[str, ...] | None = None) -> Iterator[Pointer]:
        """Tables of Iceberg; those of a database that goes away meanwhile are left out."""
        if namespace is not None:
            self._load_database(namespace)
            yield from self._pointers(namespace[0])
            return
        for name in sorted(self._databases()):
            try:
                yield from self._pointers(name)
            except NoSuchNamespaceError:
                continue

    def find_pointer(self, table: TableId) -> Pointer | None:
        """The record of that name, if it is a table of Iceberg."""
        record = self._find_record(table)
        return _pointer(table.namespace[0], record) if record and is_iceberg(record) else None

    def default_location(self, table: TableId) -> str:
        """In the database's own location, else in `<database>.db` of the warehouse."""
        database = join_names(table.namespace)
        if _is_holdable(table.namespace):
            database = table.namespace[0]
            record = self._find_database(database)
            if record and record.get("LocationUri"):
                return f"{strip_slashes(record['LocationUri'])}/{table.name}"
        if not self._warehouse:
            raise CatalogError(
                f"catalog {self.name!r} has no warehouse to put {table} in",
                hint="set 'warehouse' in the catalog's settings, or say --target-location",
            )
        return f"{self._warehouse}/{database}.db/{table.name}"

    def check_target(self, table: TableId, location: str) -> None:
        """Free if Glue has no table of that name, of whatever kind."""
        self.check_namespace(table.namespace)
        _check_holdable(table.name, "--target-table")
        if not re.match(r"/|[A-Za-z][A-Za-z0-9+.-]*:", location):
            raise UnsupportedCatalogError(f"{location!r} is not an absolute location for {table}")
        if self._find_record(table) is not None:
            raise self._taken(table)

    def check_namespace(self, namespace: tuple[str, ...]) -> None:
        """One level, in lower case."""
        if not namespace:
            raise UnsupportedCatalogError("Glue has no tables outside of databases")
        for level in namespace:
            _check_holdable(level, "--target-database")
        if len(namespace) > 1:
            raise UnsupportedCatalogError(
                f"Glue cannot hold the namespace {join_names(namespace)}: it has one level only",
                hint="choose another with --target-database, or --exclude it",
            )

    def check_table(self, table: TableId, document: Json) -> tuple[str, ...]:
        """Any table; some names are refused by Iceberg's own GlueCatalog unless it is told."""
        notes = note_types(table, document)
        if all(_PLAIN.match(word) for word in (*table.namespace, table.name)):
            return notes
        line = f"Iceberg's GlueCatalog opens {table} only with glue.skip-name-validation=true"
        return (*notes, line)

    def keeps_views(self) -> bool:
        """Iceberg keeps none in Glue."""
        return False

    def metadata_name(self, source_name: str) -> str:
        """Version, uuid: the number goes on counting where the source's name has one."""
        return versioned_name(source_name, self._new_uuid())

    def create_namespace(self, namespace: tuple[str, ...], properties: Mapping[str, str]) -> None:
        """One call; Glue decides a race."""
        self.check_namespace(namespace)
        try:
            self._client.call(
                "create_database", DatabaseInput=database_input(namespace[0], properties)
            )
        except GlueAnswerError as failure:
            if failure.code != _EXISTS:
                raise self._client.failed(failure) from None

    def register(self, table: TableId, metadata_location: str) -> None:
        """One call; Glue decides a race. Columns come from the metadata file."""
        self.check_namespace(table.namespace)
        _check_holdable(table.name, "--target-table")
        storage, key = Stores(self.access).resolve(metadata_location)
        made = table_input(table.name, metadata_location, parse_metadata(storage.read(key)))
        try:
            self._client.call("create_table", DatabaseName=table.namespace[0], TableInput=made)
        except GlueAnswerError as failure:
            if failure.code == _MISSING:
                raise self._no_namespace(table.namespace) from None
            if failure.code != _EXISTS:
                raise self._client.failed(failure) from None
            # The answer to an earlier try may have been lost on its way: then it is ours.
            if not failure.is_unsure or not self._is_at(table, metadata_location):
                raise self._taken(table) from None

    def register_view(self, view: TableId, metadata_location: str) -> None:
        """There are none."""
        raise UnsupportedCatalogError(f"a Glue catalog cannot hold the view {view}")

    def check_replace(self, table: TableId) -> tuple[str, ...]:
        """Glue counts the versions of a record."""
        return ()

    def replace(self, table: TableId, old: str, new: str) -> None:
        """One call, which Glue refuses if the record has another version by then."""
        record = self._find_record(table)
        if record is None or _place(record) != old:
            raise changed_meanwhile(table, self.name)
        storage, key = Stores(self.access).resolve(new)
        made = table_input(table.name, new, parse_metadata(storage.read(key)))
        made["Parameters"] = {
            **record["Parameters"],
            **made["Parameters"],
            PREVIOUS_LOCATION: old,
        }
        made = {key: record[key] for key in _KEPT if record.get(key)} | made
        version = {"VersionId": record["VersionId"]} if record.get("VersionId") else {}
        try:
            self._client.call(
                "update_table", DatabaseName=table.namespace[0], TableInput=made, **version
            )
        except GlueAnswerError as failure:
            if failure.is_unsure and self._is_at(table, new):
                return
            if failure.code in _OUTDATED:
                raise changed_meanwhile(table, self.name) from None
            raise self._client.failed(failure) from None

    def public_properties(self) -> dict[str, str]:
        """Type, warehouse, and the endpoint if it is not Amazon's own."""
        properties = {"type": "glue"}
        if self._client.endpoint:
            properties["uri"] = public_location(self._client.endpoint)
        if self._warehouse:
            properties["warehouse"] = public_location(self._warehouse)
        return properties

    def warehouse_roots(self) -> tuple[str, ...]:
        """The warehouse, if one is set."""
        return (self._warehouse,) if self._warehouse else ()

    # Glue's own records

    def _databases(self) -> list[str]:
        try:
            return [
                record["Name"] for record in self._client.pages("get_databases", "DatabaseList")
            ]
        except GlueAnswerError as failure:
            raise self._client.failed(failure) from None

    def _load_database(self, namespace: tuple[str, ...]) -> dict[str, Any]:
        record = self._find_database(namespace[0]) if _is_holdable(namespace) else None
        if record is None:
            raise self._no_namespace(namespace)
        return record

    def _find_database(self, name: str) -> dict[str, Any] | None:
        record = self._find("get_database", "Database", Name=name)
        return record if record and record["Name"] == name else None

    def _find_record(self, table: TableId) -> dict[str, Any] | None:
        if not _is_holdable(table.namespace) or not _is_holdable((table.name,)):
            return None
        record = self._find("get_table", "Table", DatabaseName=table.namespace[0], Name=table.name)
        return record if record and record["Name"] == table.name else None

    def _find(self, operation: str, item: str, **arguments: str) -> dict[str, Any] | None:
        try:
            return dict(self._client.part(self._client.call(operation, **arguments), item))
        except GlueAnswerError as failure:
            if failure.code == _MISSING:
                return None
            raise self._client.failed(failure) from None

    def _pointers(self, database: str) -> Iterator[Pointer]:
        try:
            records = list(self._client.pages("get_tables", "TableList", DatabaseName=database))
        except GlueAnswerError as failure:
            if failure.code == _MISSING:
                raise self._no_namespace((database,)) from None
            raise self._client.failed(failure) from None
        found = [_pointer(database, record) for record in records if is_iceberg(record)]
        yield from sorted(found, key=lambda pointer: pointer.table)

    def _is_at(self, table: TableId, metadata_location: str) -> bool:
        pointer = self.find_pointer(table)
        return pointer is not None and pointer.metadata_location == metadata_location

    def _no_namespace(self, namespace: tuple[str, ...]) -> NoSuchNamespaceError:
        return NoSuchNamespaceError(
            f"catalog {self.name!r} has no database {join_names(namespace)}"
        )

    def _taken(self, table: TableId) -> TargetExistsError:
        return TargetExistsError(f"table {table} exists in catalog {self.name!r}")


def _pointer(database: str, record: Mapping[str, Any]) -> Pointer:
    return Pointer(TableId((database,), record["Name"]), _place(record), TABLE)


def _place(record: Mapping[str, Any]) -> str:
    return str((record.get("Parameters") or {}).get(METADATA_LOCATION, ""))


def _is_holdable(levels: tuple[str, ...]) -> bool:
    """Whether Glue could have one thing of that name."""
    try:
        for level in levels:
            _check_holdable(level, "")
    except UnsupportedCatalogError:
        return False
    return len(levels) == 1


def _check_holdable(name: str, option: str) -> None:
    reason = _fault(name)
    if reason:
        raise UnsupportedCatalogError(
            f"Glue cannot hold the name {name!r}: {reason}",
            hint=f"choose another with {option}, or --exclude it",
        )


def _fault(name: str) -> str:
    try:
        check_name(name)
    except BadNameError:
        return "it is no name"
    if len(name) > _MAX_NAME:
        return f"it has {len(name)} characters, at most {_MAX_NAME} are taken"
    if name != name.lower():
        return "it would become lower case"
    return "it has control characters" if _CONTROL.search(name) else ""
