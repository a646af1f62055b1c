"""A table's roots while a backup walks it: locations become (root, path), new roots are found."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bcn.repository.entry import Root

UNRESOLVED = -1

_SERVICE = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*:)?(?://[^/]*)?")


class Roots:
    """Roots of one object. The lowest id that matches wins, so that old splits never change."""

    def __init__(self, roots: Sequence[Root] = ()) -> None:
        self.roots = sorted(roots, key=lambda root: root.id)

    def add(self, spelling: str) -> None:
        """Give a root to locations under the spelling, unless one matches them already."""
        if self.find(spelling + "/x") is None:
            next_id = max((root.id for root in self.roots), default=-1) + 1
            self.roots.append(Root(next_id, spelling))

    def find(self, location: str) -> tuple[int, str] | None:
        """Root id and path of a location."""
        for root in self.roots:
            if location.startswith(root.spelling + "/"):
                return root.id, location[len(root.spelling) + 1 :]
        return None

    def split(self, location: str) -> tuple[int, str]:
        """Root id and path of a location; a root is added for it if none matches."""
        found = self.find(location)
        if found is None:
            for spelling in external_roots([location]):
                self.add(spelling)
            found = self.find(location)
        if found is None:
            raise ValueError(f"no root for {location!r}")
        return found

    def split_all(self, locations: pa.Array) -> tuple[NDArray[np.int32], pa.Array]:
        """Root ids and paths of many locations; UNRESOLVED and the location where none matches."""
        ids = np.full(len(locations), UNRESOLVED, dtype=np.int32)
        paths = locations
        for root in self.roots:
            prefix = root.spelling + "/"
            matches = np.asarray(pc.starts_with(locations, prefix)) & (ids == UNRESOLVED)
            if matches.any():
                ids[matches] = root.id
                cut = pc.utf8_slice_codeunits(locations, len(prefix))
                paths = pc.if_else(pa.array(matches), cut, paths)
        return ids, paths


def external_roots(locations: Iterable[str]) -> list[str]:
    """Folders for locations without a root: what those of a service and first folder share."""
    shared: dict[tuple[str, str], list[str]] = {}
    for location in locations:
        service = _SERVICE.match(location)
        start = service.end() if service else 0
        folders = location[start:].split("/")[:-1]
        group = (location[:start], folders[1] if len(folders) > 1 else "")
        known = shared.get(group)
        shared[group] = folders if known is None else _common(known, folders)
    return sorted(service + "/".join(folders) for (service, _), folders in shared.items())


def _common(first: list[str], second: list[str]) -> list[str]:
    length = 0
    while length < min(len(first), len(second)) and first[length] == second[length]:
        length += 1
    return first[:length]
