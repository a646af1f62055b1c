"""The SQL catalog: the two tables that pyiceberg's SqlCatalog and Iceberg's JdbcCatalog share.

Both schemas are known: V0 without and V1 with a column that tells views from tables. Levels of a
namespace are joined by dots there, so no level may have one. Statements are plain SQL; pyiceberg
is not needed for them.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote
from uuid import UUID, uuid4

from sqlalchemy import Connection, Engine, NullPool, RowMapping, create_engine, inspect
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from bcn.catalog.protocol import (
    TABLE,
    VIEW,
    CatalogSettings,
    Pointer,
    changed_meanwhile,
    join_location,
    note_types,
    public_location,
    strip_slashes,
    versioned_name,
)
from bcn.catalog.sql_address import (
    connect_arguments,
    driver_url,
    hint_for,
    is_lost,
    parse_url,
    public_address,
    reason_of,
    sqlite_file,
)
from bcn.catalog.sql_statements import (
    CREATE,
    INSERT_PROPERTY,
    INSERT_TABLE_V0,
    INSERT_TABLE_V1,
    SELECT_CATALOGS,
    SELECT_NAMESPACES,
    SELECT_PROPERTIES,
    SELECT_TABLE,
    SELECT_TABLES,
    SELECT_TABLES_IN,
    UPDATE_TABLE,
)
from bcn.errors import (
    BadNameError,
    CatalogError,
    NoSuchNamespaceError,
    TargetExistsError,
    UnsupportedCatalogError,
)
from bcn.model import Json, TableId, check_name, join_names

_BUSY_SECONDS = 10
_LOST_HINT = "check host and port in 'uri', that the server runs, and the network"
_MAX_NAME = 255  # what the columns of names hold; SQLite would take more, other readers would not
_EXISTS = "exists"  # the property by which both libraries remember a namespace that has no others


class SqlCatalog:
    """Rows of one catalog in a database that may hold several."""

    fixes_locations = False
    keeps_namespace_properties = True

    def __init__(self, settings: CatalogSettings, new_uuid: Callable[[], UUID] = uuid4) -> None:
        self.name = settings.properties.get("name", settings.name)
        self.access = settings.access()
        self._warehouse = strip_slashes(settings.properties.get("warehouse", ""))
        self._url = parse_url(settings)
        self._file = sqlite_file(settings, self._url)
        self._reading = self._engine("ro")
        self._writing = self._engine("rwc")
        self._new_uuid = new_uuid

    def iter_namespaces(self) -> Iterator[tuple[str, ...]]:
        """Those with properties, those that tables name, and their parents."""
        with self._connected(self._reading) as connection:
            names = {_split(row[0]) for row in connection.execute(SELECT_NAMESPACES, self._key())}
            if not names:
                self._refuse_wrong_name(connection)
        found = {name[:depth] for name in names for depth in range(1, len(name) + 1)}
        yield from sorted(found)

    def load_namespace(self, namespace: tuple[str, ...]) -> dict[str, str]:
        """Its rows, less the marker that it exists."""
        with self._connected(self._reading) as connection:
            properties = self._properties(connection, namespace)
        if not properties and namespace not in set(self.iter_namespaces()):
            raise NoSuchNamespaceError(
                f"catalog {self.name!r} has no namespace {join_names(namespace)}"
            )
        return {key: value for key, value in properties.items() if key != _EXISTS}

    def iter_pointers(self, namespace: tuple[str, ...] | None = None) -> Iterator[Pointer]:
        """All rows by one statement, ordered by name here: databases differ in how they sort."""
        if namespace is None:
            query, key = SELECT_TABLES, self._key()
        else:
            if namespace:
                self.load_namespace(namespace)
            query, key = SELECT_TABLES_IN, self._key(namespace=".".join(namespace))
        with self._connected(self._reading) as connection:
            found = [_pointer(row) for row in connection.execute(query, key).mappings()]
            if not found and namespace is None:
                self._refuse_wrong_name(connection)
        yield from sorted(found, key=lambda pointer: pointer.table)

    def find_pointer(self, table: TableId) -> Pointer | None:
        """The row of that name."""
        with self._connected(self._reading) as connection:
            return self._find(connection, table)

    def default_location(self, table: TableId) -> str:
        """A folder for each level under the warehouse, as Iceberg's JdbcCatalog has it.

        That one does not ask for a namespace's `location`; pyiceberg does, and keeps the dots.
        """
        if not self._warehouse:
            raise CatalogError(
                f"catalog {self.name!r} has no warehouse to put {table} in",
                hint="set 'warehouse' in the catalog's settings, or say --target-location",
            )
        return join_location(self._warehouse, table)

    def check_target(self, table: TableId, location: str) -> None:
        """Free if no row has the name; a database that is not there yet is free too."""
        _check_holdable(table.namespace)
        _check_holdable_name(table.name)
        if not re.match(r"/|[A-Za-z][A-Za-z0-9+.-]*:", location):
            raise UnsupportedCatalogError(f"{location!r} is not an absolute location for {table}")
        if self._file is not None and not self._file.exists():
            return
        with self._connected(self._reading) as connection:
            if _columns(connection) and self._find(connection, table) is not None:
                raise self._taken(table)

    def check_namespace(self, namespace: tuple[str, ...]) -> None:
        """Any levels that can be joined by dots and told apart again."""
        _check_holdable(namespace)

    def check_table(self, table: TableId, document: Json) -> tuple[str, ...]:
        """Any table: a row holds its place only."""
        return note_types(table, document)

    def keeps_views(self) -> bool:
        """Not in the older schema, whose rows cannot tell them from tables."""
        if self._file is not None and not self._file.exists():
            return True
        with self._connected(self._reading) as connection:
            columns = _columns(connection)
        return not columns or "iceberg_type" in columns

    def metadata_name(self, source_name: str) -> str:
        """Version, uuid: the number goes on counting where the source's name has one."""
        return versioned_name(source_name, self._new_uuid())

    def create_namespace(self, namespace: tuple[str, ...], properties: Mapping[str, str]) -> None:
        """Insert the rows of each level that has none."""
        _check_holdable(namespace)
        for depth in range(1, len(namespace)):
            self._insert_namespace(namespace[:depth], {})
        self._insert_namespace(namespace, properties)

    def register(self, table: TableId, metadata_location: str) -> None:
        """One INSERT; the primary key decides a race."""
        self._insert(table, metadata_location, TABLE)

    def register_view(self, view: TableId, metadata_location: str) -> None:
        """One INSERT too: views and tables share their names."""
        self._insert(view, metadata_location, VIEW)

    def _insert(self, table: TableId, metadata_location: str, kind: str) -> None:
        _check_holdable(table.namespace)
        _check_holdable_name(table.name)
        row = self._key(
            namespace=".".join(table.namespace), name=table.name, location=metadata_location
        )
        self._create_tables()
        try:
            with self._connected(self._writing) as connection:
                has_type = "iceberg_type" in _columns(connection)
                if not has_type and kind != TABLE:
                    raise UnsupportedCatalogError(
                        f"catalog {self.name!r} cannot hold the {kind} {table}:"
                        " its tables are of the older schema, V0"
                    )
                statement = INSERT_TABLE_V1 if has_type else INSERT_TABLE_V0
                connection.execute(statement, {**row, "kind": kind.upper()} if has_type else row)
        except IntegrityError:
            raise self._taken(table) from None

    def check_replace(self, table: TableId) -> tuple[str, ...]:
        """One row holds a table's place."""
        return ()

    def replace(self, table: TableId, old: str, new: str) -> None:
        """One UPDATE of a row that still has the old place."""
        key = self._key(namespace=".".join(table.namespace), name=table.name)
        with self._connected(self._writing) as connection:
            changed = connection.execute(UPDATE_TABLE, {**key, "old": old, "new": new}).rowcount
        if changed != 1:
            raise changed_meanwhile(table, self.name)

    def public_properties(self) -> dict[str, str]:
        """Type, warehouse, and the database's address without user, password and options."""
        properties = {"type": "sql", "uri": self._address()}
        if self._warehouse:
            properties["warehouse"] = public_location(self._warehouse)
        return properties

    def warehouse_roots(self) -> tuple[str, ...]:
        """The warehouse, if one is set."""
        return (self._warehouse,) if self._warehouse else ()

    def _key(self, **values: str) -> dict[str, str]:
        return {"catalog": self.name, **values}

    def _find(self, connection: Connection, table: TableId) -> Pointer | None:
        if any("." in level for level in table.namespace):
            return None  # joined, it would be another namespace
        key = self._key(namespace=".".join(table.namespace), name=table.name)
        row = connection.execute(SELECT_TABLE, key).mappings().first()
        return None if row is None else _pointer(row)

    def _properties(self, connection: Connection, namespace: tuple[str, ...]) -> dict[str, str]:
        if any("." in level for level in namespace):
            return {}
        rows = connection.execute(SELECT_PROPERTIES, self._key(namespace=".".join(namespace)))
        return {row[0]: row[1] or "" for row in rows}

    def _insert_namespace(self, namespace: tuple[str, ...], properties: Mapping[str, str]) -> None:
        self._create_tables()
        marked = {**properties, _EXISTS: "true"}
        key = self._key(namespace=".".join(namespace))
        try:
            with self._connected(self._writing) as connection:
                if not self._properties(connection, namespace):
                    rows = [{**key, "key": name, "value": value} for name, value in marked.items()]
                    connection.execute(INSERT_PROPERTY, rows)
        except IntegrityError:
            return  # another process made it meanwhile

    def _create_tables(self) -> None:
        if self._file is not None:
            _make_parent(self._file)
        try:
            with self._connected(self._writing) as connection:
                if not _columns(connection):
                    for statement in CREATE:
                        connection.execute(statement)
        except (IntegrityError, CatalogError):
            # Two may find none and both create them; databases differ in what the second is told.
            with self._connected(self._writing) as connection:
                if not _columns(connection):
                    raise

    def _refuse_wrong_name(self, connection: Connection) -> None:
        """A catalog of another name in the same database must not look like an empty one."""
        names = {str(row[0]) for row in connection.execute(SELECT_CATALOGS)}
        if names and self.name not in names:
            known = ", ".join(sorted(map(repr, names)))
            raise CatalogError(
                f"{self._address()} holds no catalog {self.name!r}, but {known}",
                hint="set 'name' in the catalog's settings to the name that its writers use",
            )

    def _taken(self, table: TableId) -> TargetExistsError:
        return TargetExistsError(f"table or view {table} exists in catalog {self.name!r}")

    def _address(self) -> str:
        return public_address(self._url)

    def _engine(self, mode: str) -> Engine:
        """An engine that keeps no connection between uses; on SQLite, `ro` never makes a file."""
        if self._file is None:
            return create_engine(
                driver_url(self._url),
                poolclass=NullPool,
                hide_parameters=True,
                connect_args=connect_arguments(self._url),
            )
        address = f"file:{quote(bytes(self._file))}?mode={mode}"

        def connect() -> sqlite3.Connection:
            return sqlite3.connect(address, timeout=_BUSY_SECONDS, uri=True)

        return create_engine("sqlite://", creator=connect, poolclass=NullPool, hide_parameters=True)

    @contextmanager
    def _connected(self, engine: Engine) -> Iterator[Connection]:
        """One transaction. IntegrityError passes; other errors of the database become one line."""
        if engine is self._reading and self._file is not None and not self._file.exists():
            raise CatalogError(
                f"catalog {self.name!r}: there is no database at {self._file}",
                hint="check 'uri' in the catalog's settings, and that its disk is mounted;"
                " only a restore into it makes a new one",
            )
        try:
            with engine.begin() as connection:
                yield connection
        except IntegrityError:
            raise
        except SQLAlchemyError as error:
            raise self._failed(error) from None

    def _failed(self, error: SQLAlchemyError) -> CatalogError:
        reason = reason_of(error, self._url)
        start = f"catalog {self.name!r} at {self._address()}"
        if is_lost(reason):
            return CatalogError(f"{start} cannot be reached: {reason}", hint=_LOST_HINT)
        return CatalogError(f"{start}: {reason}", hint=hint_for(reason))


def _columns(connection: Connection) -> set[str]:
    """Columns of the table of tables; none if it is not there."""
    inspector = inspect(connection)
    if not inspector.has_table("iceberg_tables"):
        return set()
    return {column["name"] for column in inspector.get_columns("iceberg_tables")}


def _pointer(row: RowMapping) -> Pointer:
    table = TableId(_split(row["table_namespace"] or ""), row["table_name"] or "")
    kind = (row.get("iceberg_type") or TABLE).lower()
    return Pointer(table, row["metadata_location"] or "", kind)


def _split(namespace: str) -> tuple[str, ...]:
    return tuple(namespace.split(".")) if namespace else ()


def _check_holdable(namespace: tuple[str, ...]) -> None:
    if not namespace:
        raise UnsupportedCatalogError("a SQL catalog has no tables outside of namespaces")
    _check_length(".".join(namespace), "--target-database")
    for level in namespace:
        _check_holdable_name(level)
        if "." in level:
            raise UnsupportedCatalogError(
                f"a SQL catalog cannot hold the namespace {join_names(namespace)}:"
                f" it would split {level!r}",
                hint="choose another with --target-database, or --exclude it",
            )


def _check_holdable_name(name: str) -> None:
    try:
        check_name(name)
    except BadNameError as error:
        raise UnsupportedCatalogError(f"a SQL catalog cannot hold the {error}") from None
    _check_length(name, "--target-table")


def _check_length(name: str, option: str) -> None:
    if len(name) > _MAX_NAME:
        raise UnsupportedCatalogError(
            f"a SQL catalog cannot hold the name {name!r}: it has {len(name)} characters,"
            f" its columns have {_MAX_NAME}",
            hint=f"choose another with {option}, or --exclude it",
        )


def _make_parent(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CatalogError(f"cannot create the folder of {path}: {error.strerror}") from error
