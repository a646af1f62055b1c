"""Iceberg's Hadoop catalog on local disks: folders are namespaces, or tables.

A folder with versions in `metadata/` is a table. Its current metadata is the version that
`version-hint.text` names, or a later one: readers look for N+1, N+2 and so on. Without a usable
hint it is the highest version in the folder.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bcn.catalog.folders import (
    NOT_NAMESPACES,
    encode,
    exists,
    file_names,
    is_folder,
    make_folder,
    translated,
    visible_folders,
)
from bcn.catalog.protocol import (
    TABLE,
    CatalogSettings,
    Pointer,
    is_gzip_name,
    join_location,
    note_types,
    public_location,
    strip_slashes,
)
from bcn.errors import (
    BadNameError,
    CatalogError,
    KeyExistsError,
    NoSuchNamespaceError,
    TargetExistsError,
    UnsupportedCatalogError,
)
from bcn.model import Json, TableId, check_name, join_names
from bcn.storage.local import LocalStorage, local_path

_HINT = "version-hint.text"
_FIRST_NAMES = ("v1.metadata.json", "v1.gz.metadata.json")
_VERSION = re.compile(r"v(\d{1,10})(?:\.gz)?\.metadata\.json(?:\.gz)?\Z")
_VERSION_ENDS = (".metadata.json", ".gz.metadata.json", ".metadata.json.gz")  # in Iceberg's order
_TABLE_FILE_ENDS = (".metadata.json", ".metadata.json.gz", ".avro", _HINT)


class HadoopCatalog:
    """Tables under one warehouse folder."""

    fixes_locations = True
    keeps_namespace_properties = False

    def __init__(self, settings: CatalogSettings) -> None:
        self.name = settings.properties.get("name", settings.name)
        self.access = settings.access()
        self._warehouse = strip_slashes(settings.properties["warehouse"])
        self._root = local_path(settings.properties["warehouse"]).rstrip("/")

    def iter_namespaces(self) -> Iterator[tuple[str, ...]]:
        """All folders that are no tables, down to the tables."""
        self._require_warehouse()
        for levels, _listing in self._walk(()):
            if levels:
                yield levels

    def load_namespace(self, namespace: tuple[str, ...]) -> dict[str, str]:
        """Always empty: a folder has no properties."""
        self._require_namespace(namespace)
        if not namespace:
            raise NoSuchNamespaceError("the warehouse itself is no namespace")
        return {}

    def iter_pointers(self, namespace: tuple[str, ...] | None = None) -> Iterator[Pointer]:
        """All tables, those without a namespace included. There are no views."""
        if namespace is None:
            self._require_warehouse()
            listings = self._walk(())
        else:
            self._require_namespace(namespace)
            listings = iter([(namespace, self._list(namespace))])
        for levels, listing in listings:
            for name, metadata_name in listing.tables:
                yield self._pointer(TableId(levels, name), metadata_name)

    def find_pointer(self, table: TableId) -> Pointer | None:
        """The table in that folder."""
        self._require_warehouse()
        if not _is_visible(table.name) or not self._is_namespace(table.namespace):
            return None
        metadata_name = find_metadata(self._path((*table.namespace, table.name)))
        return None if metadata_name is None else self._pointer(table, metadata_name)

    def default_location(self, table: TableId) -> str:
        """The only place that a table of that name can have."""
        return join_location(self._warehouse, table)

    def check_target(self, table: TableId, location: str) -> None:
        """Free if no table is in the folder, above it or below it."""
        _check_holdable((*table.namespace, table.name))
        only = self.default_location(table)
        if location != only:
            raise UnsupportedCatalogError(
                f"a Hadoop catalog can have {table} at {only} only, not at {location}",
                hint="leave --target-location out, or restore into a catalog of another type",
            )
        self._check_parents(table.namespace)
        folder = (*table.namespace, table.name)
        if find_metadata(self._path(folder)) is not None:
            raise TargetExistsError(f"table {table} exists in catalog {self.name!r}")
        for levels, listing in self._walk(folder):
            for name, _metadata_name in listing.tables:
                held = TableId(levels, name)
                raise TargetExistsError(
                    f"{table} is a namespace of catalog {self.name!r}: it holds {held}"
                )

    def check_namespace(self, namespace: tuple[str, ...]) -> None:
        """Any folder outside of tables, if its name can be one."""
        _check_holdable(namespace)
        self._check_parents(namespace)

    def check_table(self, table: TableId, document: Json) -> tuple[str, ...]:
        """Not with its metadata elsewhere: the folder is all that is known of a table."""
        if (document.get("properties") or {}).get("write.metadata.path"):
            raise UnsupportedCatalogError(
                f"{table} has write.metadata.path, which a Hadoop catalog cannot have",
                hint="restore it into another type of catalog",
            )
        return note_types(table, document)

    def keeps_views(self) -> bool:
        """Folders are tables."""
        return False

    def metadata_name(self, source_name: str) -> str:
        """The first version."""
        return _FIRST_NAMES[is_gzip_name(source_name)]

    def create_namespace(self, namespace: tuple[str, ...], properties: Mapping[str, str]) -> None:
        """Make the folders, the warehouse's own too."""
        self.check_namespace(namespace)
        if properties:
            raise UnsupportedCatalogError(
                f"a Hadoop catalog cannot keep properties of {join_names(namespace)}:"
                f" {', '.join(sorted(properties))}"
            )
        with translated(self._path(namespace), "create"):
            make_folder(encode(self._path(namespace)))

    def register(self, table: TableId, metadata_location: str) -> None:
        """Write the version hint, create-only; readers see a table by its first version too."""
        metadata = f"{self._path((*table.namespace, table.name))}/metadata"
        name = metadata_location.rpartition("/")[2]
        if name not in _FIRST_NAMES or local_path(metadata_location) != f"{metadata}/{name}":
            raise UnsupportedCatalogError(
                f"a Hadoop catalog takes {table} only at {self.default_location(table)}/metadata/"
                f"{' or '.join(_FIRST_NAMES)}, not {metadata_location}"
            )
        if _probe(metadata, 1) != name:
            raise CatalogError(f"{metadata_location} is missing or hidden by another first version")
        # A higher version left in the folder would become the table as soon as the hint is lost.
        if _listed_versions(metadata) != [1]:
            raise TargetExistsError(f"versions of another table are in {metadata}")
        try:
            LocalStorage(metadata).write_once(_HINT, b"1")
        except KeyExistsError:
            raise TargetExistsError(f"table {table} exists in catalog {self.name!r}") from None

    def register_view(self, view: TableId, metadata_location: str) -> None:
        """There are none."""
        raise UnsupportedCatalogError(f"a Hadoop catalog cannot hold the view {view}")

    def public_properties(self) -> dict[str, str]:
        """Type and warehouse."""
        return {"type": "hadoop", "warehouse": public_location(self._warehouse)}

    def warehouse_roots(self) -> tuple[str, ...]:
        """The warehouse."""
        return (self._warehouse,)

    def _path(self, levels: tuple[str, ...]) -> str:
        return "/".join((self._root, *levels))

    def _pointer(self, table: TableId, metadata_name: str) -> Pointer:
        return Pointer(table, f"{self.default_location(table)}/metadata/{metadata_name}", TABLE)

    def _require_warehouse(self) -> None:
        if not is_folder(self._root or "/"):
            raise CatalogError(
                f"catalog {self.name!r}: there is no warehouse at {self._root or '/'}",
                hint="check 'warehouse' in the catalog's settings, and that its disk is mounted",
            )

    def _require_namespace(self, namespace: tuple[str, ...]) -> None:
        self._require_warehouse()
        if not self._is_namespace(namespace):
            raise NoSuchNamespaceError(
                f"catalog {self.name!r} has no namespace {join_names(namespace)}"
            )

    def _is_namespace(self, namespace: tuple[str, ...]) -> bool:
        if not all(map(_is_visible, namespace)) or not is_folder(self._path(namespace) or "/"):
            return False
        return not any(map(_is_table_folder, self._parents(namespace)))

    def _check_parents(self, namespace: tuple[str, ...]) -> None:
        for folder in self._parents(namespace):
            if _is_table_folder(folder):
                raise UnsupportedCatalogError(
                    f"a Hadoop catalog cannot hold tables inside the table at {folder}"
                )

    def _parents(self, namespace: tuple[str, ...]) -> Iterator[str]:
        return (self._path(namespace[:depth]) for depth in range(1, len(namespace) + 1))

    def _walk(self, levels: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], _Listing]]:
        """Namespaces from this one down; tables before inner namespaces is the order of TableId."""
        listing = self._list(levels)
        yield levels, listing
        for name in listing.namespaces:
            yield from self._walk((*levels, name))

    def _list(self, levels: tuple[str, ...]) -> _Listing:
        listing = _Listing([], [])
        for name in visible_folders(self._path(levels) or "/"):
            folder = self._path((*levels, name))
            metadata_name = find_metadata(folder)
            if metadata_name is not None:
                listing.tables.append((name, metadata_name))
            elif not _is_table_folder(folder):
                listing.namespaces.append(name)
        return listing


@dataclass(frozen=True, slots=True)
class _Listing:
    """One folder: tables with the name of their current metadata file, and inner namespaces."""

    tables: list[tuple[str, str]]
    namespaces: list[str]


def find_metadata(folder: str) -> str | None:
    """The name of a table's current metadata file; None if there is no version, and so no table.

    A hint at a version that is gone while others remain is believed, as Iceberg does: the table is
    damaged, and an older version must not pass for it.
    """
    metadata = f"{folder}/metadata"
    version = _read_hint(metadata)
    if version is None or _probe(metadata, version) is None:
        versions = _listed_versions(metadata)
        if not versions:
            return None
        if version:
            return f"v{version}.metadata.json"
        version = versions[-1]
    found = _probe(metadata, version)
    while (later := _probe(metadata, version + 1)) is not None:
        version, found = version + 1, later
    return found


def _read_hint(metadata: str) -> int | None:
    try:
        with open(encode(f"{metadata}/{_HINT}"), "rb") as file:  # noqa: PTH123  bytes path
            line = file.readline(32).removesuffix(b"\n").removesuffix(b"\r")
    except OSError:
        return None  # Iceberg lists the folder then, and so do we
    return int(line) if re.fullmatch(rb"\d{1,10}", line) else None


def _probe(metadata: str, version: int) -> str | None:
    for end in _VERSION_ENDS:
        if exists(f"{metadata}/v{version}{end}"):
            return f"v{version}{end}"
    return None


def _listed_versions(metadata: str) -> list[int]:
    matches = (_VERSION.match(name) for name in file_names(metadata))
    versions = {int(match[1]) for match in matches if match is not None}
    return sorted(version for version in versions if _probe(metadata, version) is not None)


def _is_table_folder(folder: str) -> bool:
    """Whether it is a table's, be it half written or another catalog's: then it is no namespace."""
    return any(name.endswith(_TABLE_FILE_ENDS) for name in file_names(f"{folder}/metadata"))


def _is_visible(level: str) -> bool:
    """Whether a folder of that name is looked at."""
    try:
        check_name(level)
    except BadNameError:
        return False
    return not level.startswith(".") and level not in NOT_NAMESPACES


def _check_holdable(levels: tuple[str, ...]) -> None:
    for level in levels:
        # Hadoop's Path reads what comes before a colon as a scheme.
        if not _is_visible(level) or ":" in level or len(encode(level)) > 255:
            raise UnsupportedCatalogError(
                f"a Hadoop catalog cannot hold the name {level!r}",
                hint="choose another with --target-database or --target-table, or --exclude it",
            )
