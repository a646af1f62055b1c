"""What every catalog promises, and the settings it is opened from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol
from uuid import UUID

from bcn.errors import BadNameError, TargetChangedError
from bcn.iceberg.types import odd_types
from bcn.model import Json, TableId, check_name
from bcn.storage.protocol import Access

TABLE = "table"
VIEW = "view"


@dataclass(frozen=True, slots=True)
class CatalogSettings:
    """A `[catalogs.NAME]` section. Properties may hold secrets: its text form leaves them out."""

    name: str
    type: str
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    def access(self) -> Access:
        """How files of its tables are reached: by the properties of services, which have dots."""
        return Access({key: value for key, value in self.properties.items() if "." in key})


@dataclass(frozen=True, slots=True)
class Pointer:
    """A table or view and where its metadata is; empty if the catalog's record names none."""

    table: TableId
    metadata_location: str
    kind: str  # TABLE, VIEW, or another word that the catalog's own record uses, in lower case
    fault: str = field(default="", compare=False)  # why there is no location, if the catalog says
    document: Json | None = field(default=None, compare=False, repr=False)
    """The metadata, where a catalog gives it to readers by itself; only `find_pointer` has it."""


class Catalog(Protocol):
    """Tables and views of one catalog. Reading never writes; every failure is a BcnError."""

    name: str
    """The name the catalog knows itself by."""

    @property
    def access(self) -> Access:
        """How the files of its tables are reached."""

    fixes_locations: bool
    """Whether a table can only be where the catalog itself would put it."""

    keeps_namespace_properties: bool
    """Whether a namespace can have properties here; if not, `create_namespace` takes none."""

    def iter_namespaces(self) -> Iterator[tuple[str, ...]]:
        """All namespaces, nested ones too, sorted: parents come before their children."""

    def load_namespace(self, namespace: tuple[str, ...]) -> dict[str, str]:
        """Its stored properties. Raises NoSuchNamespaceError."""

    def iter_pointers(self, namespace: tuple[str, ...] | None = None) -> Iterator[Pointer]:
        """All tables and views, or those directly in a namespace, sorted by name.

        Raises NoSuchNamespaceError, and CatalogError where a missing disk or database would look
        like no tables.
        """

    def find_pointer(self, table: TableId) -> Pointer | None:
        """The table or view of that name, if there is one."""

    def default_location(self, table: TableId) -> str:
        """Where the catalog itself would put a new table."""

    def check_target(self, table: TableId, location: str) -> None:
        """Return if a new table of that name could be registered at that location; touches nothing.

        Raises TargetExistsError if the name is taken, UnsupportedCatalogError if the catalog cannot
        hold it there. A view needs the same.
        """

    def check_namespace(self, namespace: tuple[str, ...]) -> None:
        """Return if it is there or could be made. Raises UnsupportedCatalogError."""

    def check_table(self, table: TableId, document: Json) -> tuple[str, ...]:
        """What users of this catalog should know of a table with that metadata, a line each.

        Raises UnsupportedCatalogError if the catalog could not load it.
        """

    def keeps_views(self) -> bool:
        """Whether views can be registered here."""

    def metadata_name(self, source_name: str) -> str:
        """The name that a restored metadata file must have; says gzip if the source's name did."""

    def create_namespace(self, namespace: tuple[str, ...], properties: Mapping[str, str]) -> None:
        """Make it and its parents. One that is there is left as it is, properties and all."""

    def register(self, table: TableId, metadata_location: str) -> None:
        """Make a table appear, whole or not at all; its metadata file is in place already.

        Raises TargetExistsError if the name is taken, also when two race.
        """

    def register_view(self, view: TableId, metadata_location: str) -> None:
        """As `register`, a view. Raises UnsupportedCatalogError where there are none."""

    def check_replace(self, table: TableId) -> tuple[str, ...]:
        """What users should know before a table is put in the place of that one, a line each.

        Touches nothing. Raises UnsupportedCatalogError if the catalog cannot do it.
        """

    def replace(self, table: TableId, old: str, new: str) -> None:
        """Let the name of a table point from one metadata file to another, all at once.

        Nothing of the old table is removed. Raises TargetChangedError if the name does not point to
        the old file any more.
        """

    def public_properties(self) -> dict[str, str]:
        """What may be stored and shown: type, warehouse, address. Never a secret."""

    def warehouse_roots(self) -> tuple[str, ...]:
        """The places under which the catalog puts tables."""


def changed_meanwhile(table: TableId, catalog: str) -> TargetChangedError:
    """The error of a swap that came too late."""
    return TargetChangedError(f"{table} of catalog {catalog!r} was changed or dropped meanwhile")


def is_or_follows(location: str, document: Json | None, wanted: str) -> bool:
    """Whether a metadata file is the wanted one, or of a commit on top of it."""
    log = (document or {}).get("metadata-log") or ()
    return location == wanted or any(one.get("metadata-file") == wanted for one in log)


def strip_slashes(location: str) -> str:
    """A location without slashes at its end, unless they belong to its scheme."""
    stripped = location.rstrip("/")
    return location if stripped.endswith(":") else stripped


def join_location(root: str, table: TableId) -> str:
    """A folder for each level of the name, as Iceberg's own catalogs lay them out."""
    return "/".join((strip_slashes(root), *table.namespace, table.name))


def is_gzip_name(metadata_name: str) -> bool:
    """Whether a metadata file is compressed: its name decides, in new spelling or old."""
    return metadata_name.endswith((".gz.metadata.json", ".metadata.json.gz"))


def versioned_name(source_name: str, new_uuid: UUID) -> str:
    """A name for a metadata file: the number goes on counting where the source's name has one."""
    number = re.match(r"\d+(?=-)", source_name)
    end = ".gz.metadata.json" if is_gzip_name(source_name) else ".metadata.json"
    return f"{number[0] if number else '00000'}-{new_uuid}{end}"


def is_name(name: str) -> bool:
    """Whether anything could be called so."""
    try:
        check_name(name)
    except BadNameError:
        return False
    return True


def note_types(table: TableId, document: Json) -> tuple[str, ...]:
    """A line if a table has columns that its format version does not know; it is kept as it is."""
    types = ", ".join(odd_types(document))
    if not types:
        return ()
    version = document.get("format-version")
    return (f"{table} has types that format version {version} lacks: {types}; not all can read it",)


_USER_AND_PASSWORD = re.compile(r"\A([A-Za-z][A-Za-z0-9+.-]*://)[^/]*:[^/]*@")


def public_location(location: str) -> str:
    """A location without user and password (`abfs://container@account` has neither and stays)."""
    return _USER_AND_PASSWORD.sub(r"\1", location)
