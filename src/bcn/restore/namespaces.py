"""Databases of a restore: which are made, with which of their properties."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from bcn.catalog.protocol import Catalog
from bcn.errors import CatalogError
from bcn.model import join_names
from bcn.repository.pit import PitManifest
from bcn.restore.plan import Target

_LOCATION = "location"


@dataclass(frozen=True, slots=True)
class NamespaceTarget:
    """A database that shall be there; `notes` say what of it cannot come along."""

    levels: tuple[str, ...]
    properties: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    is_there: bool = False

    def __str__(self) -> str:
        return join_names(self.levels)


@dataclass(frozen=True, slots=True)
class Origin:
    """A database of a PIT and what it becomes; `is_in_place` in its own catalog."""

    pit: PitManifest
    old: tuple[str, ...]
    new: tuple[str, ...]
    is_in_place: bool


def origin_of(target: Target, *, same_catalog: bool) -> Origin:
    """The database of a table or view."""
    old, new = target.record.table.namespace, target.table.namespace
    return Origin(target.source.pit, old, new, same_catalog and old == new)


def plan_namespaces(catalog: Catalog, origins: Iterable[Origin]) -> list[NamespaceTarget]:
    """One for each new name, the first that has it. Raises UnsupportedCatalogError."""
    planned: dict[tuple[str, ...], NamespaceTarget] = {}
    for origin in origins:
        if origin.new not in planned:
            planned[origin.new] = _plan(catalog, origin)
    return [planned[levels] for levels in sorted(planned)]


def _plan(catalog: Catalog, origin: Origin) -> NamespaceTarget:
    if not origin.new:  # tables of a Hadoop catalog may lie in the warehouse itself
        return NamespaceTarget((), is_there=True)
    catalog.check_namespace(origin.new)
    name = join_names(origin.new)
    if _is_there(catalog, origin.new):
        return NamespaceTarget(origin.new, is_there=True)
    known = {item.levels: item.properties for item in origin.pit.namespaces}
    properties, notes = dict(known.get(origin.old, {})), []
    if _LOCATION in properties and not origin.is_in_place:
        place = properties.pop(_LOCATION)
        notes.append(f"database {name} is made without its location {place}")
    if properties and not catalog.keeps_namespace_properties:
        names = ", ".join(sorted(properties))
        notes.append(f"{catalog.name} cannot hold properties of database {name}: {names}")
        properties = {}
    return NamespaceTarget(origin.new, properties, tuple(notes))


def _is_there(catalog: Catalog, levels: tuple[str, ...]) -> bool:
    try:
        catalog.load_namespace(levels)
    except CatalogError:  # nor may the catalog itself be: it is made when something is registered
        return False
    return True
