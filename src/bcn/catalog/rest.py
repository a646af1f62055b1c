"""REST catalogs: any server that speaks Iceberg's REST protocol.

Of each answer only what is needed is read: names, properties, `metadata-location`, credentials.
Tables are never read into a model, so odd ones pass. Nothing is ever dropped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar
from urllib.parse import quote
from uuid import UUID, uuid4

from bcn.catalog.protocol import (
    TABLE,
    VIEW,
    CatalogSettings,
    Pointer,
    changed_meanwhile,
    is_name,
    is_or_follows,
    join_location,
    note_types,
    public_location,
    strip_slashes,
    versioned_name,
)
from bcn.catalog.rest_client import (
    BUSY,
    EXPIRED,
    LIST_VIEWS,
    REGISTER_VIEW,
    RestClient,
    at_once,
    is_missing,
)
from bcn.catalog.rest_errors import RestError, cannot_hold
from bcn.catalog.rest_grants import Grants
from bcn.errors import (
    CatalogError,
    NoSuchNamespaceError,
    TargetExistsError,
    UnsupportedCatalogError,
)
from bcn.model import Json, TableId, join_names
from bcn.storage.protocol import Access

_ABSOLUTE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:/")
_FEW = {"snapshots": "refs"}  # of a table's history: the answer need not have all of it
_LOCATION = "location"
_OF_THE_SERVER = ("auth.", "header.", "rest.", "ssl.")  # properties that no store needs
_PATHS = {TABLE: "tables", VIEW: "views"}
_NO_OVERWRITE = {405, 406, 501}
_NO_CHILDREN = {405, 406, 501}  # how servers without nested namespaces answer to a parent
_Item = TypeVar("_Item")
_Found = TypeVar("_Found")


class RestCatalog:
    """Tables and views of one REST catalog."""

    fixes_locations = False
    keeps_namespace_properties = True

    def __init__(self, settings: CatalogSettings, new_uuid: Callable[[], UUID] = uuid4) -> None:
        self.name = settings.properties.get("name", settings.name)
        self._settings = settings
        self._client = RestClient(settings)
        self._grants = Grants(settings)
        self._new_uuid = new_uuid

    @property
    def access(self) -> Access:
        """The properties in force, and what the server granted for single tables so far."""
        properties = self._client.config.properties
        services = {
            key: value
            for key, value in properties.items()
            if "." in key and not key.startswith(_OF_THE_SERVER)
        }
        return Access(services, self._grants)

    def iter_namespaces(self) -> Iterator[tuple[str, ...]]:
        """Level by level, the namespaces of a level at once."""
        found: set[tuple[str, ...]] = set()
        level = self._children(())
        while level:
            found.update(level)
            level = [item for items in at_once(self._children, level) for item in items]
        yield from sorted(found)

    def load_namespace(self, namespace: tuple[str, ...]) -> dict[str, str]:
        """What the server says of it: many add a `location` by themselves."""
        properties = self._find_namespace(namespace)
        if properties is None:
            raise NoSuchNamespaceError(
                f"catalog {self.name!r} has no namespace {join_names(namespace)}"
            )
        return properties

    def iter_pointers(self, namespace: tuple[str, ...] | None = None) -> Iterator[Pointer]:
        """Listed, then loaded one by one, several at a time; those dropped meanwhile are left out.

        One that the server cannot load has no location, and says why.
        """
        if namespace is None:
            namespaces = list(self.iter_namespaces())
        else:
            self.load_namespace(namespace)
            namespaces = [namespace]
        kinds = [TABLE, VIEW] if self._client.can(LIST_VIEWS) else [TABLE]
        lists = [(levels, kind) for levels in namespaces for kind in kinds]
        listed = [item for items in at_once(self._list, lists) for item in items]
        found = [item for item in at_once(self._load_listed, listed) if item is not None]
        yield from sorted(found, key=lambda pointer: pointer.table)

    def find_pointer(self, table: TableId) -> Pointer | None:
        """The table of that name, else the view."""
        if not self._is_nameable(table.namespace) or not is_name(table.name):
            self._client.config  # noqa: B018  a server that is not there does not know
            return None
        found = self._find(table, TABLE, is_whole=True)
        if found is None and self._client.can(LIST_VIEWS):
            found = self._find(table, VIEW, is_whole=True)
        return found

    def default_location(self, table: TableId) -> str:
        """Under the `location` of its nearest namespace that has one, else under the warehouse."""
        for depth in range(len(table.namespace), 0, -1):
            above = table.namespace[:depth]
            properties = self._find_namespace(above) if self._is_nameable(above) else None
            if properties and properties.get(_LOCATION):
                return join_location(
                    properties[_LOCATION], TableId(table.namespace[depth:], table.name)
                )
        roots = self.warehouse_roots()
        if not roots:
            raise CatalogError(
                f"catalog {self.name!r} does not say where it puts {table}",
                hint="set 'warehouse' to a location in the catalog's settings,"
                " or say --target-location",
            )
        return join_location(roots[0], table)

    def check_target(self, table: TableId, location: str) -> None:
        """Free if the server has no table or view of that name."""
        self._check_holdable(table.namespace)
        _check_name(table.name, "--target-table")
        if not _ABSOLUTE.match(location):
            raise UnsupportedCatalogError(f"{location!r} is not an absolute location for {table}")
        try:
            taken = self.find_pointer(table)
        except RestError as error:
            raise cannot_hold(f"table {table}", error) from None
        if taken is not None:
            raise self._taken(table)

    def check_namespace(self, namespace: tuple[str, ...]) -> None:
        """Any whose name the server can be asked for."""
        self._check_holdable(namespace)
        try:
            self._find_namespace(namespace)
        except RestError as error:
            raise cannot_hold(f"namespace {join_names(namespace)}", error) from None

    def check_table(self, table: TableId, document: Json) -> tuple[str, ...]:
        """Any table, as far as is known before."""
        return note_types(table, document)

    def keeps_views(self) -> bool:
        """If the server says that it registers them."""
        return self._client.can(REGISTER_VIEW)

    def metadata_name(self, source_name: str) -> str:
        """Version, uuid: the number goes on counting where the source's name has one."""
        return versioned_name(source_name, self._new_uuid())

    def create_namespace(self, namespace: tuple[str, ...], properties: Mapping[str, str]) -> None:
        """Each level that is missing; what the server does not keep of its properties is told."""
        self._check_holdable(namespace)
        for depth in range(1, len(namespace)):
            self._make_namespace(namespace[:depth], {})
        if self._make_namespace(namespace, properties):
            lost = sorted(properties.keys() - self.load_namespace(namespace).keys())
            if lost:
                raise CatalogError(
                    f"catalog {self.name!r} made {join_names(namespace)}, but does not keep"
                    f" its properties {', '.join(lost)}"
                )

    def register(self, table: TableId, metadata_location: str) -> None:
        """One request; when its answer is lost, the catalog is asked what became of it."""
        self._register("register", table, metadata_location)

    def register_view(self, view: TableId, metadata_location: str) -> None:
        """The same, where the server has it."""
        if not self.keeps_views():
            raise UnsupportedCatalogError(
                f"catalog {self.name!r} cannot hold the view {view}: its server registers none",
                hint="--exclude it, or make the view again with an engine",
            )
        self._register("register-view", view, metadata_location)

    def check_replace(self, table: TableId) -> tuple[str, ...]:
        """Servers do not say whether they can; asking with a bad file might harm the table."""
        words = f"whether {self.name} can put another table in the place of {table} is known when"
        return (f"{words} it is asked to, after all files were copied",)

    def replace(self, table: TableId, old: str, new: str) -> None:
        """A request to register over what is there, right after a look that it is the old one."""
        if self._is_swapped(table, old, new):
            return
        path = f"{self._client.namespace_path(table.namespace)}/register"
        body = {"name": table.name, "metadata-location": new, "overwrite": True}
        try:
            if self._post(path, body, lambda: self._is_swapped(table, old, new)):
                return
        except RestError as error:
            if error.status not in _NO_OVERWRITE:
                raise
        raise UnsupportedCatalogError(
            f"catalog {self.name!r} does not put another table in the place of {table}, which is"
            " as it was",
            hint="drop it there, keeping its files, and run the same command again: finished files"
            " are not copied twice",
        )

    def public_properties(self) -> dict[str, str]:
        """Type, address without user and password, and warehouse."""
        properties = {"type": "rest", "uri": self._client.address}
        if warehouse := self._settings.properties.get("warehouse"):
            properties["warehouse"] = public_location(strip_slashes(warehouse))
        return properties

    def warehouse_roots(self) -> tuple[str, ...]:
        """The warehouse, where it is a location and not just a name that the server knows."""
        own = self._settings.properties.get("warehouse", "")
        if not _ABSOLUTE.match(own):
            own = self._client.config.properties.get("warehouse", "")
        return (strip_slashes(own),) if _ABSOLUTE.match(own) else ()

    # reading

    def _children(self, parent: tuple[str, ...]) -> list[tuple[str, ...]]:
        # A level joined to its parent goes through the query, which is encoded once more.
        params = {"parent": self._client.config.separator.join(parent)} if parent else {}
        try:
            listed = list(self._client.iter_pages("namespaces", "namespaces", params))
        except RestError as error:
            if parent and (is_missing(error) or error.status in _NO_CHILDREN):
                return []
            raise
        names = [tuple(map(str, item)) for item in listed]
        # Some servers leave the parent out of account and list the first level again.
        return [item for item in names if item[:-1] == parent]

    def _find_namespace(self, namespace: tuple[str, ...]) -> dict[str, str] | None:
        if not self._is_nameable(namespace):
            self._client.config  # noqa: B018  a server that is not there does not know
            return None
        try:
            answer = self._client.load(self._client.namespace_path(namespace))
        except RestError as error:
            if is_missing(error):
                return None
            raise
        properties = answer.get("properties") or {}
        return {str(key): str(value) for key, value in properties.items()}

    def _list(self, what: tuple[tuple[str, ...], str]) -> list[tuple[TableId, str]]:
        namespace, kind = what
        path = f"{self._client.namespace_path(namespace)}/{_PATHS[kind]}"
        try:
            listed = list(self._client.iter_pages(path, "identifiers"))
        except RestError as error:
            if is_missing(error):
                return []  # dropped since it was listed
            raise
        return [(TableId(namespace, str(item["name"])), kind) for item in listed]

    def _load_listed(self, item: tuple[TableId, str]) -> Pointer | None:
        try:
            return self._find(*item)
        except RestError as error:
            if error.status in EXPIRED | BUSY:
                raise  # nobody is let in any more: that is no fault of the table's
            return Pointer(item[0], "", item[1], fault=str(error))

    def _find(self, table: TableId, kind: str, *, is_whole: bool = False) -> Pointer | None:
        params = None if is_whole or kind == VIEW else _FEW
        try:
            answer = self._client.load(self._path(table, kind), params)
        except RestError as error:
            if is_missing(error):
                return None
            raise
        self._grants.note(table, answer)
        document = answer.get("metadata") if is_whole else None
        location = str(answer.get("metadata-location") or "")
        return Pointer(table, location, kind, document=document)

    def _path(self, table: TableId, kind: str) -> str:
        base = self._client.namespace_path(table.namespace)
        return f"{base}/{_PATHS[kind]}/{quote(table.name, safe='')}"

    # writing

    def _make_namespace(self, namespace: tuple[str, ...], properties: Mapping[str, str]) -> bool:
        """Whether this call made it."""
        if self._find_namespace(namespace) is not None:
            return False
        body = {"namespace": list(namespace), "properties": dict(properties)}
        return self._post("namespaces", body, lambda: self._find_namespace(namespace) is not None)

    def _register(self, endpoint: str, table: TableId, metadata_location: str) -> None:
        self._check_holdable(table.namespace)
        _check_name(table.name, "--target-table")
        self.load_namespace(table.namespace)
        path = f"{self._client.namespace_path(table.namespace)}/{endpoint}"
        body = {"name": table.name, "metadata-location": metadata_location}
        if not self._post(path, body, lambda: self._has(table, metadata_location)):
            raise self._taken(table)

    def _post(self, path: str, body: Json, is_done: Callable[[], bool]) -> bool:
        """Whether it was done by us; False if the name was taken.

        A request without an answer may have been done or not: it is looked for, and sent a second
        time if it was not.
        """
        for is_second in (False, True):
            try:
                self._client.post(path, body)
            except RestError as error:
                if error.status == 409:
                    return is_second and is_done()
                if error.status < 500:
                    raise
                failure: CatalogError = error
            except CatalogError as error:
                failure = error
            else:
                return True
            if is_done():
                return True
        raise failure

    def _has(self, table: TableId, metadata_location: str) -> bool:
        """Whether a request without an answer did register; the location is like no other."""
        found = self.find_pointer(table)
        return found is not None and found.metadata_location == metadata_location

    def _is_swapped(self, table: TableId, old: str, new: str) -> bool:
        """Whether a request was done. Raises TargetChangedError: it would undo others' commits."""
        found = self.find_pointer(table)
        if found is not None and is_or_follows(found.metadata_location, found.document, new):
            return True
        if found is None or found.metadata_location != old:
            raise changed_meanwhile(table, self.name)
        return False

    def _taken(self, table: TableId) -> TargetExistsError:
        return TargetExistsError(f"table or view {table} exists in catalog {self.name!r}")

    # names

    def _is_nameable(self, namespace: tuple[str, ...]) -> bool:
        """Whether an address can have it."""
        separator = self._client.config.separator
        return bool(namespace) and all(
            is_name(level) and separator not in level for level in namespace
        )

    def _check_holdable(self, namespace: tuple[str, ...]) -> None:
        if not namespace:
            raise UnsupportedCatalogError("a REST catalog has no tables outside of namespaces")
        for level in namespace:
            _check_name(level, "--target-database")
        if not self._is_nameable(namespace):
            raise UnsupportedCatalogError(
                f"catalog {self.name!r} cannot hold the namespace {join_names(namespace)}:"
                f" its server splits names at {self._client.config.separator!r}",
                hint="choose another with --target-database, or --exclude it",
            )


def _check_name(name: str, option: str) -> None:
    if not is_name(name):
        raise UnsupportedCatalogError(
            f"a REST catalog cannot hold the name {name!r}",
            hint=f"choose another with {option}, or --exclude it",
        )
