"""From recipes and locations to open storages."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from bcn.storage.local import LocalStorage, local_path
from bcn.storage.protocol import Access, Storage, StorageSpec


def open_storage(spec: StorageSpec) -> Storage:
    """The storage whose root is the spec's location. Raises UnsupportedSchemeError."""
    return LocalStorage(local_path(spec.location))


class Stores:
    """Storages for absolute locations of any kind, opened once each, in one process."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._opened: dict[str, Storage] = {}

    def resolve(self, location: str) -> tuple[Storage, str]:
        """The storage that holds a location, and the location's key there."""
        path = local_path(location)
        if "file:" not in self._opened:
            self._opened["file:"] = LocalStorage("/")
        return self._opened["file:"], path[1:]


def flush_places(locations: Iterable[str]) -> None:
    """Return when all that was written under these locations will survive a power cut."""
    mounts: dict[int, Path] = {}
    for path in (Path(local_path(location)) for location in locations):
        if path.is_dir():
            mounts.setdefault(path.stat().st_dev, path)
    for path in mounts.values():
        LocalStorage(str(path)).flush()


def canonical_location(location: str) -> str:
    """One spelling for one place, links followed, to compare places; never stored."""
    return os.path.realpath(local_path(location))


def overlaps(first: str, second: str) -> bool:
    """Whether one of two locations is the other or lies inside it."""
    one, two = canonical_location(first) + "/", canonical_location(second) + "/"
    return one.startswith(two) or two.startswith(one)
