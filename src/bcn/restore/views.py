"""Views of a restore: their documents, the names that they lose, the catalog asked again."""

from __future__ import annotations

from collections.abc import Iterable

from bcn.catalog.protocol import VIEW, Catalog
from bcn.errors import CatalogError, DamagedRepositoryError, MalformedFileError
from bcn.iceberg.metadata import parse_metadata
from bcn.iceberg.view import Renaming, check_view, moved_references
from bcn.model import Json
from bcn.restore.plan import Target
from bcn.storage.open import Stores


def load_view(data: bytes, target: Target) -> Json:
    """The stored document of a view. Raises DamagedRepositoryError, UnsupportedTableError."""
    try:
        document = parse_metadata(data)
        check_view(document)
    except MalformedFileError as error:
        raise DamagedRepositoryError(
            f"the metadata of view {target.record.table} is not whole: {error}"
        ) from error
    return document


def renaming_of(old_catalog: str, new_catalog: str, targets: Iterable[Target]) -> Renaming:
    """What a restore calls things."""
    targets = tuple(targets)
    return Renaming(
        old_catalog,
        new_catalog,
        {target.record.table: target.table for target in targets},
        {target.record.table.namespace: target.table.namespace for target in targets},
    )


def note_references(document: Json, target: Target, renaming: Renaming) -> list[str]:
    """A line for everything that the view's SQL will not find under its new name."""
    return [
        f"the SQL of view {target.table} names {old}, which is"
        f" {renaming.new_catalog}.{new} now: it was left as it is"
        for old, new in sorted(moved_references(document, renaming).items())
    ]


def check_registered_view(stores: Stores, catalog: Catalog, target: Target, expected: Json) -> None:
    """Ask the catalog again: it must give back a view with this very document."""
    pointer = catalog.find_pointer(target.table)
    if pointer is None:
        raise CatalogError(f"{target.table} was registered, but {catalog.name} does not know it")
    if pointer.kind != VIEW:
        raise CatalogError(f"{catalog.name} gives back {target.table} as a {pointer.kind}")
    storage, key = stores.resolve(pointer.metadata_location)
    if parse_metadata(storage.read(key)) != expected:
        raise CatalogError(f"{catalog.name} gives back {target.table} with another definition")
