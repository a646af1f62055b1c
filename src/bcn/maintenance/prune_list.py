"""The list of what a prune may delete: written first, carried out later. docs/format.md 4.7"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from bcn.errors import DamagedRepositoryError, NewerVersionError, StorageError
from bcn.maintenance.orphans import KINDS, Orphan
from bcn.model import Json, PitId, iso, sha256
from bcn.repository import layout
from bcn.repository.document import VERSION, parse_document
from bcn.storage.protocol import Storage

_MOMENT = "%Y-%m-%dT%H:%M:%S.%fZ"


@dataclass(frozen=True)
class PruneList:
    """What one run listed, and when; `versions` by key."""

    run: PitId
    listed_at: datetime
    versions: dict[str, str]

    @property
    def key(self) -> str:
        """Where it is stored."""
        return layout.trash_key(self.run)


def render_list(
    run: PitId, listed_at: datetime, pits: Sequence[PitId], orphans: Iterable[Orphan]
) -> bytes:
    """The stored form, on few lines: there may be a million candidates."""
    found = list(orphans)
    candidates = {
        kind: [[item.key, item.size_bytes, item.version] for item in found if item.kind == kind]
        for kind in KINDS
    }
    names = "".join(f"{pit}\n" for pit in pits)
    document: Json = {
        "version": VERSION,
        "run": str(run),
        "listed_at": iso(listed_at),
        "pits": {"count": len(pits), "sha256": sha256(names.encode())},
        "candidates": candidates,
    }
    return (json.dumps(document) + "\n").encode()


def load_lists(storage: Storage) -> list[PruneList]:
    """The lists that are still to be carried out, oldest first; what is no whole list is none.

    Raises NewerVersionError.
    """
    found = (_find_list(storage, key) for key in storage.iter_keys(layout.TRASH_PREFIX))
    return sorted((item for item in found if item is not None), key=lambda item: item.run)


def _find_list(storage: Storage, key: str) -> PruneList | None:
    run = layout.parse_trash_key(key)
    if run is None:
        return None
    try:
        document = parse_document(storage.read(key), key)
        moment = datetime.strptime(document["listed_at"], _MOMENT).replace(tzinfo=UTC)
        rows = [row for rows in document["candidates"].values() for row in rows]
        return PruneList(run, moment, {str(name): str(version) for name, _, version in rows})
    except NewerVersionError:
        raise
    except (DamagedRepositoryError, StorageError, KeyError, TypeError, ValueError, AttributeError):
        return None  # an abandoned marker, or damage: nothing is deleted on its word
