"""Iceberg's Hadoop catalog on a disk or an object store: folders are namespaces, or tables.

A folder with versions in `metadata/` is a table. Its current metadata is the version that
`version-hint.text` names, or a later one: readers look for N+1, N+2 and so on. Without a usable
hint it is the highest version in the folder.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bcn.catalog.folders import NOT_NAMESPACES, Folders, join_path
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
from bcn.storage.open import canonical_location

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
        self._folders = Folders(self.access.spec(self._warehouse))

    def iter_namespaces(self) -> Iterator[tuple[str, ...]]:
        """All folders that are no tables, down to the tables."""
        self._require_warehouse()
        yield from (levels for levels, _listing in self._walk(()) if levels)

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
            listings = self._list([namespace])
        for levels, listing in listings:
            for name, metadata_name in listing.tables:
                yield self._pointer(TableId(levels, name), metadata_name)

    def find_pointer(self, table: TableId) -> Pointer | None:
        """The table in that folder."""
        self._require_warehouse()
        if not _is_visible(table.name) or not self._is_namespace(table.namespace):
            return None
        metadata_name = find_metadata(self._folders, join_path(*table.namespace, table.name))
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
        if find_metadata(self._folders, join_path(*folder)) is not None:
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
        self._folders.make(join_path(*namespace))

    def register(self, table: TableId, metadata_location: str) -> None:
        """Write the version hint, create-only; readers see a table by its first version too."""
        folder, metadata = self.default_location(table), _metadata_folder(table)
        name = metadata_location.rpartition("/")[2]
        given, only = map(canonical_location, (metadata_location, f"{folder}/metadata/{name}"))
        if name not in _FIRST_NAMES or given != only:
            raise UnsupportedCatalogError(
                f"a Hadoop catalog takes {table} only at {folder}/metadata/"
                f"{' or '.join(_FIRST_NAMES)}, not {metadata_location}"
            )
        if _probe(self._folders, metadata, 1) != name:
            raise CatalogError(f"{metadata_location} is missing or hidden by another first version")
        # A higher version left in the folder would become the table as soon as the hint is lost.
        if list(_versions(self._folders.file_names(metadata))) != [1]:
            raise TargetExistsError(f"versions of another table are in {folder}/metadata")
        try:
            self._folders.create(f"{metadata}/{_HINT}", b"1")
        except KeyExistsError:
            raise TargetExistsError(f"table {table} exists in catalog {self.name!r}") from None

    def register_view(self, view: TableId, metadata_location: str) -> None:
        """There are none."""
        raise UnsupportedCatalogError(f"a Hadoop catalog cannot hold the view {view}")

    def check_replace(self, table: TableId) -> tuple[str, ...]:
        """A folder is its table: nothing can be built beside it."""
        raise _no_swap(table)

    def replace(self, table: TableId, old: str, new: str) -> None:
        """Not in one step, so not at all."""
        raise _no_swap(table)

    def public_properties(self) -> dict[str, str]:
        """Type and warehouse."""
        return {"type": "hadoop", "warehouse": public_location(self._warehouse)}

    def warehouse_roots(self) -> tuple[str, ...]:
        """The warehouse."""
        return (self._warehouse,)

    def _pointer(self, table: TableId, metadata_name: str) -> Pointer:
        return Pointer(table, f"{self.default_location(table)}/metadata/{metadata_name}", TABLE)

    def _require_warehouse(self) -> None:
        if not self._folders.has(""):
            place = public_location(self._warehouse)
            raise CatalogError(
                f"catalog {self.name!r}: there is no warehouse at {place}",
                hint="check 'warehouse' in the catalog's settings, and that its disk is mounted",
            )

    def _require_namespace(self, namespace: tuple[str, ...]) -> None:
        self._require_warehouse()
        if not self._is_namespace(namespace):
            raise NoSuchNamespaceError(
                f"catalog {self.name!r} has no namespace {join_names(namespace)}"
            )

    def _is_namespace(self, namespace: tuple[str, ...]) -> bool:
        if not all(map(_is_visible, namespace)) or not self._folders.has(join_path(*namespace)):
            return False
        return self._find_table_above(namespace) is None

    def _check_parents(self, namespace: tuple[str, ...]) -> None:
        folder = self._find_table_above(namespace)
        if folder is not None:
            raise UnsupportedCatalogError(
                "a Hadoop catalog cannot hold tables inside the table at"
                f" {public_location(self._warehouse)}/{folder}"
            )

    def _find_table_above(self, namespace: tuple[str, ...]) -> str | None:
        """The folder of a table that a namespace is, or is inside of."""
        for depth in range(1, len(namespace) + 1):
            folder = join_path(*namespace[:depth])
            if _is_table(self._folders.file_names(f"{folder}/metadata")):
                return folder
        return None

    def _walk(self, levels: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], _Listing]]:
        """Namespaces from this one down, parents first, in the order of their names.

        All of one depth are asked for at once: a store takes long to answer, however little.
        """
        found: dict[tuple[str, ...], _Listing] = {}
        depth = [levels]
        while depth:
            listings = list(self._list(depth))
            found.update(listings)
            depth = [(*above, name) for above, listing in listings for name in listing.namespaces]
        return iter(sorted(found.items(), key=lambda item: item[0]))

    def _list(
        self, namespaces: list[tuple[str, ...]]
    ) -> Iterator[tuple[tuple[str, ...], _Listing]]:
        """What is directly in each of these namespaces."""
        names = self._folders.each(
            lambda levels: self._folders.folder_names(join_path(*levels)), namespaces
        )
        folders = [
            (above, name) for above, inner in zip(namespaces, names, strict=True) for name in inner
        ]
        looks = self._folders.each(
            lambda folder: _look_at(self._folders, join_path(*folder[0], folder[1])), folders
        )
        listings = {levels: _Listing([], []) for levels in namespaces}
        for (levels, name), look in zip(folders, looks, strict=True):
            if look.metadata_name is not None:
                listings[levels].tables.append((name, look.metadata_name))
            elif not look.is_table:
                listings[levels].namespaces.append(name)
        return iter(listings.items())


@dataclass(frozen=True, slots=True)
class _Listing:
    """One folder: tables with the name of their current metadata file, and inner namespaces."""

    tables: list[tuple[str, str]]
    namespaces: list[str]


@dataclass(frozen=True, slots=True)
class _Look:
    """A folder: the current metadata file of its table, if it has one.

    A table that is half written or another catalog's has none, and its folder is no namespace.
    """

    metadata_name: str | None = None
    is_table: bool = True


def find_metadata(folders: Folders, folder: str) -> str | None:
    """The name of a table's current metadata file; None if there is no version, and so no table.

    A hint at a version that is gone while others remain is believed, as Iceberg does: the table is
    damaged, and an older version must not pass for it.
    """
    return _look_at(folders, folder).metadata_name


def _no_swap(table: TableId) -> UnsupportedCatalogError:
    return UnsupportedCatalogError(
        f"a Hadoop catalog cannot put another table in the place of {table}",
        hint="restore it beside with --target-table, or move the folder of the old one away first",
    )


def _look_at(folders: Folders, folder: str) -> _Look:
    metadata = join_path(folder, "metadata")
    hint = _find_hint(folders, metadata)
    found = None if hint is None else _probe(folders, metadata, hint)
    if hint is not None and found is not None:
        return _Look(_last(folders, metadata, hint, found))
    names = folders.file_names(metadata)
    versions = _versions(names)
    if not versions:
        return _Look(is_table=_is_table(names))
    if hint:
        return _Look(f"v{hint}.metadata.json")
    highest = max(versions)
    return _Look(_last(folders, metadata, highest, versions[highest]))


def _last(folders: Folders, metadata: str, version: int, found: str) -> str:
    """The version that comes last of those that follow each other."""
    while (later := _probe(folders, metadata, version + 1)) is not None:
        version, found = version + 1, later
    return found


def _find_hint(folders: Folders, metadata: str) -> int | None:
    """Without one that can be read Iceberg lists the folder, and so do we."""
    data = folders.find_bytes(f"{metadata}/{_HINT}")
    if data is None:
        return None
    line = data.split(b"\n", 1)[0].removesuffix(b"\r")
    return int(line) if re.fullmatch(rb"\d{1,10}", line) else None


def _probe(folders: Folders, metadata: str, version: int) -> str | None:
    for end in _VERSION_ENDS:
        if folders.has_file(f"{metadata}/v{version}{end}"):
            return f"v{version}{end}"
    return None


def _versions(names: list[str]) -> dict[int, str]:
    """The versions among the files of a folder, and the file that Iceberg reads of each."""
    matches = (_VERSION.match(name) for name in names)
    numbers = sorted({int(match[1]) for match in matches if match is not None})
    spellings = ((number, f"v{number}{end}") for number in numbers for end in _VERSION_ENDS[::-1])
    return {number: name for number, name in spellings if name in names}


def _is_table(names: list[str]) -> bool:
    """Whether these files are a table's: then their folder is no namespace."""
    return any(name.endswith(_TABLE_FILE_ENDS) for name in names)


def _metadata_folder(table: TableId) -> str:
    return join_path(*table.namespace, table.name, "metadata")


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
        if (
            not _is_visible(level)
            or ":" in level
            or len(level.encode("utf-8", "surrogateescape")) > 255
        ):
            raise UnsupportedCatalogError(
                f"a Hadoop catalog cannot hold the name {level!r}",
                hint="choose another with --target-database or --target-table, or --exclude it",
            )
