"""Two restores into one target: the catalog decides, and the other one is told what happened.

Files are only ever created, so neither hurts what the other has made. Who has registered a table
removes the working files there, and whoever still needed them stumbles over that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from bcn.catalog.protocol import Catalog
from bcn.errors import (
    BcnError,
    DamagedRepositoryError,
    MissingKeyError,
    StorageError,
    TargetChangedError,
    TargetExistsError,
)
from bcn.restore.prepare import Item
from bcn.restore.register import find_registered

_STUMBLES = (StorageError, DamagedRepositoryError, TargetExistsError, TargetChangedError)


@contextmanager
def told_of_others(catalog: Catalog, items: Sequence[Item]) -> Iterator[None]:
    """Work on items that are not registered yet, by this run.

    Raises TargetExistsError in the place of what went wrong if another restore has registered one
    of them meanwhile, or is at work on it.
    """
    try:
        yield
    except _STUMBLES as error:
        lost = next((item for item in items if _is_lost(catalog, item)), None)
        if lost is not None:
            lost.marker.abandon()
            raise _quicker(catalog, lost) from error
        if isinstance(error, TargetExistsError | MissingKeyError):
            _raise_rival(items, error)
        raise


def _is_lost(catalog: Catalog, item: Item) -> bool:
    """Whether another run has registered it: with a metadata file that this one did not write."""
    try:
        pointer = find_registered(catalog, item.target, item.target.replaces)
    except BcnError:
        return False  # what went wrong first is told
    return pointer is not None and pointer.metadata_location != item.metadata_location


def _quicker(catalog: Catalog, item: Item) -> TargetExistsError:
    return TargetExistsError(
        f"another restore was quicker: {item.target.table} of catalog {catalog.name!r} is at"
        f" {item.target.location} now, and was left as it is",
        hint="use that one, or restore another beside it with --target-table and --target-location",
    )


def _raise_rival(items: Sequence[Item], error: BcnError) -> None:
    for item in items:
        rival = item.marker.find_rival()
        if rival is not None:
            raise TargetExistsError(
                f"{error}: another restore, by {rival}, is at work on {item.target.table} at"
                f" {item.target.location}",
                hint="wait for it, or choose another --target-table and --target-location",
            ) from error
