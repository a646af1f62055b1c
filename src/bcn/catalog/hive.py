"""The Hive Metastore: databases and tables by its thrift API, as Iceberg's HiveCatalog keeps them.

A table or view of Iceberg is a record whose parameters say so and name its metadata file. Other
tables of Hive are not listed, but their names are taken. Hive has no nested databases and keeps
names in lower case.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import TypeVar
from uuid import UUID, uuid4

from hive_metastore.ThriftHiveMetastore import Client
from hive_metastore.ttypes import (
    AlreadyExistsException,
    Database,
    NoSuchObjectException,
    Table,
)
from thrift.Thrift import TApplicationException

from bcn.catalog.hive_client import (
    PATIENCE_SECONDS,
    LostAnswerError,
    Metastore,
    RefusalError,
    load_warehouse,
)
from bcn.catalog.hive_swap import swap
from bcn.catalog.hive_table import (
    LOCATION,
    METADATA_LOCATION,
    PREVIOUS_LOCATION,
    check_columns,
    find_pointer_of,
    has_variant,
    make_database,
    make_table,
    make_view,
    namespace_properties,
)
from bcn.catalog.protocol import (
    CatalogSettings,
    Pointer,
    changed_meanwhile,
    is_name,
    note_types,
    public_location,
    strip_slashes,
    versioned_name,
)
from bcn.errors import (
    CatalogError,
    NoSuchNamespaceError,
    TargetExistsError,
    UnsupportedCatalogError,
)
from bcn.iceberg.metadata import parse_metadata
from bcn.model import Json, TableId, join_names
from bcn.storage.open import Stores

_T = TypeVar("_T")
_BATCH = 100  # records an answer
_CONNECTIONS = 4  # a metastore asks its database many times a record: several go on at once
_ATTEMPTS = 3  # to register, where answers are lost
_MAX_NAME = 128
_NAME = re.compile(r"[a-z0-9_]+\Z")


class HiveCatalog:
    """The databases, and Iceberg's tables and views, of one metastore."""

    fixes_locations = False
    keeps_namespace_properties = True

    def __init__(
        self,
        settings: CatalogSettings,
        new_uuid: Callable[[], UUID] = uuid4,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self.name = settings.properties.get("name", settings.name)
        self.access = settings.access()
        self._configured = strip_slashes(settings.properties.get("warehouse", ""))
        self._metastore = Metastore(settings, patience_seconds)
        # Unless told, times with a zone are written as Hive 2 knows them: so does Spark.
        self._zoned = settings.properties.get("hive.hive2-compatible", "").lower() == "false"
        self._new_uuid = new_uuid

    def iter_namespaces(self) -> Iterator[tuple[str, ...]]:
        """All databases."""
        yield from sorted((name,) for name in self._metastore.read(Client.get_all_databases))

    def load_namespace(self, namespace: tuple[str, ...]) -> dict[str, str]:
        """Parameters and owner; `location` unless it is where the warehouse would have it."""
        database = self._load_database(namespace)
        properties = namespace_properties(database)
        usual = {_plain(self._usual_location(database.name))}
        if database.name == "default":
            usual.add(_plain(self._warehouse()))
        if _plain(properties.get(LOCATION, "")) in usual:
            del properties[LOCATION]
        return properties

    def iter_pointers(self, namespace: tuple[str, ...] | None = None) -> Iterator[Pointer]:
        """Records in batches, over a few connections at once, ordered here."""
        if namespace is not None:
            databases = [self._load_database(namespace).name]
        else:
            databases = self._metastore.read(Client.get_all_databases)
        with ThreadPoolExecutor(_CONNECTIONS) as pool:
            batches = [batch for found in pool.map(self._batches, databases) for batch in found]
            records = pool.map(lambda batch: self._load_records(*batch), batches)
            pointers = map(find_pointer_of, chain.from_iterable(records))
            found = [pointer for pointer in pointers if pointer is not None]
        yield from sorted(found, key=lambda pointer: pointer.table)

    def find_pointer(self, table: TableId) -> Pointer | None:
        """The record of exactly that name, if it is Iceberg's."""
        record = self._find_record(table)
        if record is None or (record.dbName, record.tableName) != (*table.namespace, table.name):
            return None
        return find_pointer_of(record)

    def default_location(self, table: TableId) -> str:
        """Under its database's own location; `DATABASE.db` in the warehouse if there is none."""
        try:
            home = self._load_database(table.namespace).locationUri
        except NoSuchNamespaceError:
            home = None
        return (
            f"{strip_slashes(home or self._usual_location('.'.join(table.namespace)))}/{table.name}"
        )

    def check_target(self, table: TableId, location: str) -> None:
        """Free if there is no record of that name, of Iceberg or not."""
        _check_holdable(table.namespace)
        _check_holdable_name(table.name, "--target-table")
        if not re.match(r"/|[A-Za-z][A-Za-z0-9+.-]*:", location):
            raise UnsupportedCatalogError(f"{location!r} is not an absolute location for {table}")
        if self._find_record(table) is not None:
            raise self._taken(table)

    def check_namespace(self, namespace: tuple[str, ...]) -> None:
        """One level, if Hive takes its name."""
        _check_holdable(namespace)

    def check_table(self, table: TableId, document: Json) -> tuple[str, ...]:
        """Not with columns that Hive has no word for: its metastore keeps them all."""
        is_hive2 = has_variant(document) and self._is_hive2()
        check_columns(table, document, is_hive2=is_hive2)
        return note_types(table, document)

    def keeps_views(self) -> bool:
        """As records that say so."""
        return True

    def metadata_name(self, source_name: str) -> str:
        """Version, uuid: the number goes on counting where the source's name has one."""
        return versioned_name(source_name, self._new_uuid())

    def create_namespace(self, namespace: tuple[str, ...], properties: Mapping[str, str]) -> None:
        """One call: the metastore decides a race, and asking again does no harm."""
        _check_holdable(namespace)
        [name] = namespace
        if self._find_database(namespace) is not None:
            return
        usual = self._usual_location(name)
        database = make_database(name, properties, usual, self._metastore.user)

        def create(client: Client) -> None:
            try:
                client.create_database(database)
            except AlreadyExistsException:
                return  # made by another process, or by the call whose answer was lost

        self._metastore.read(create)

    def register(self, table: TableId, metadata_location: str) -> None:
        """One call: the metastore decides a race."""
        self._register(table, metadata_location, make_table)

    def register_view(self, view: TableId, metadata_location: str) -> None:
        """One call too: views and tables share their names."""
        self._register(view, metadata_location, make_view)

    def check_replace(self, table: TableId) -> tuple[str, ...]:
        """By a lock that writers of Iceberg take unless they are told not to."""
        return ()

    def replace(self, table: TableId, old: str, new: str) -> None:
        """Look and change, under the table's lock."""
        record = self._record(table, new, make_table)
        record.parameters[PREVIOUS_LOCATION] = old
        try:
            is_done = swap(self._metastore, table, record, lambda: self._find_record(table))
        except RefusalError as error:
            raise CatalogError(
                f"catalog {self.name!r} cannot hold {table}: {error.reason}", hint=error.hint
            ) from None
        if not is_done:
            raise changed_meanwhile(table, self.name)

    def public_properties(self) -> dict[str, str]:
        """Type, addresses, and the warehouse if one is set."""
        addresses = ",".join(map(str, self._metastore.addresses))
        properties = {"type": "hive", "uri": addresses}
        if self._configured:
            properties["warehouse"] = public_location(self._configured)
        return properties

    def warehouse_roots(self) -> tuple[str, ...]:
        """The warehouse: the settings', or the metastore's own."""
        return (self._warehouse(),)

    # registering

    def _register(self, table: TableId, metadata_location: str, make: Callable[..., Table]) -> None:
        _check_holdable(table.namespace)
        _check_holdable_name(table.name, "--target-table")
        self._create_once(table, self._record(table, metadata_location, make))

    def _record(self, table: TableId, location: str, make: Callable[..., Table]) -> Table:
        """What the metastore is to hold of a metadata file."""
        storage, key = Stores(self.access).resolve(location)
        document = parse_metadata(storage.read(key))
        self.check_table(table, document)
        return make(table, location, document, self._metastore.user, zoned=self._zoned)

    def _create_once(self, table: TableId, record: Table) -> None:
        """Sent again only if its answer was lost and it is not there.

        A lost one may also be done while the next is under way: what is taken then is ours.
        """
        lost = False
        for number in range(_ATTEMPTS):
            try:
                return self._create(table, record)
            except LostAnswerError:
                if number + 1 == _ATTEMPTS:
                    raise
                lost = True
            except TargetExistsError:
                if not lost or not self._is_ours(table, record):
                    raise
                return None
            if self._is_ours(table, record):
                return None
        return None

    def _create(self, table: TableId, record: Table) -> None:
        try:
            self._metastore.write(lambda client: client.create_table(record))
        except RefusalError as error:
            if error.kind == "AlreadyExistsException":
                raise self._taken(table) from None
            if self._find_database(table.namespace) is None:
                raise self._no_namespace(table.namespace) from None
            raise CatalogError(
                f"catalog {self.name!r} cannot hold {table}: {error.reason}", hint=error.hint
            ) from None

    def _is_ours(self, table: TableId, record: Table) -> bool:
        """Whether a record of that name is the one we sent: no two name the same metadata file."""
        found = self._find_record(table)
        if found is None:
            return False
        wanted = record.parameters[METADATA_LOCATION]
        return bool((found.parameters or {}).get(METADATA_LOCATION) == wanted)

    # reading

    def _batches(self, database: str) -> list[tuple[str, list[str]]]:
        """Names of a database's tables, as many at a time as one answer shall hold."""
        names = self._read_unless_dropped(database, lambda client: client.get_all_tables(database))
        return [(database, names[start : start + _BATCH]) for start in range(0, len(names), _BATCH)]

    def _load_records(self, database: str, names: list[str]) -> list[Table]:
        """Those that are still there."""
        return self._read_unless_dropped(
            database, lambda client: client.get_table_objects_by_name(database, names)
        )

    def _read_unless_dropped(self, database: str, ask: Callable[[Client], list[_T]]) -> list[_T]:
        """An answer; nothing if the database was dropped since it was listed."""
        try:
            return self._metastore.read(ask)
        except RefusalError:
            if self._find_database((database,)) is not None:
                raise
            return []

    def _find_record(self, table: TableId) -> Table | None:
        """The record of that name, in whatever case; None if there is none."""
        if len(table.namespace) != 1 or not all(map(is_name, (*table.namespace, table.name))):
            return None

        def find(client: Client) -> Table | None:
            try:
                return client.get_table(table.namespace[0], table.name)
            except NoSuchObjectException:
                return None

        return self._metastore.read(find)

    def _find_database(self, namespace: tuple[str, ...]) -> Database | None:
        """The database of exactly that name."""
        if len(namespace) != 1 or not is_name(namespace[0]):
            return None

        def find(client: Client) -> Database | None:
            try:
                return client.get_database(namespace[0])
            except NoSuchObjectException:
                return None

        found = self._metastore.read(find)
        return found if found is not None and found.name == namespace[0] else None

    def _load_database(self, namespace: tuple[str, ...]) -> Database:
        found = self._find_database(namespace)
        if found is None:
            raise self._no_namespace(namespace)
        return found

    def _usual_location(self, database: str) -> str:
        return f"{self._warehouse()}/{database}.db"

    def _warehouse(self) -> str:
        """The settings', or the metastore's own, in the file system of its first database."""
        if not self._configured:
            self._configured = self._metastore.read(load_warehouse)
        return self._configured

    def _is_hive2(self) -> bool:
        def ask(client: Client) -> bool:
            try:
                client.get_metastore_db_uuid()
            except TApplicationException as error:
                return bool(error.type == TApplicationException.UNKNOWN_METHOD)
            return False

        return self._metastore.read(ask)

    def _taken(self, table: TableId) -> TargetExistsError:
        return TargetExistsError(f"table or view {table} exists in catalog {self.name!r}")

    def _no_namespace(self, namespace: tuple[str, ...]) -> NoSuchNamespaceError:
        return NoSuchNamespaceError(
            f"catalog {self.name!r} has no namespace {join_names(namespace)}"
        )


def _plain(location: str) -> str:
    """One spelling of a location, to compare: Hive writes `file:/x` for `/x` and `file:///x`."""
    return re.sub(r"\Afile:(//)?(?=/)", "", strip_slashes(location))


def _check_holdable(namespace: tuple[str, ...]) -> None:
    if len(namespace) != 1:
        what = f"the namespace {join_names(namespace)}" if namespace else "tables outside of them"
        raise UnsupportedCatalogError(
            f"a Hive Metastore cannot hold {what}: its databases have one level",
            hint="choose another with --target-database, or --exclude it",
        )
    _check_holdable_name(namespace[0], "--target-database")


def _check_holdable_name(name: str, option: str) -> None:
    reason = ""
    if not _NAME.match(name):
        reason = "names there have a to z, 0 to 9 and _ only"
    elif len(name) > _MAX_NAME:
        reason = f"it has {len(name)} characters, at most {_MAX_NAME} fit"
    if reason:
        raise UnsupportedCatalogError(
            f"a Hive Metastore cannot hold the name {name!r}: {reason}",
            hint=f"choose another with {option}, or --exclude it",
        )
