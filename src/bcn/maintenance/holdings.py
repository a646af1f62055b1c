"""What points in time hold: each version of each object once, and what is damaged of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from bcn.errors import DamagedRepositoryError, NewerVersionError, StorageError
from bcn.model import PitId, TableId
from bcn.repository.entry import Entry, LayerPart
from bcn.repository.inventory import load_layer_bytes
from bcn.repository.pit import EntryRef, PitManifest
from bcn.repository.repository import Repository


@dataclass(slots=True)
class Version:
    """One entry, and the PITs that name it, oldest first."""

    ref: EntryRef
    object_id: str
    table: TableId
    pits: list[PitId] = field(default_factory=list)


class Holdings:
    """All versions that PITs name, which are added oldest first."""

    def __init__(self) -> None:
        self._versions: dict[tuple[str, str], Version] = {}

    def add(self, pit: PitManifest) -> None:
        """One more PIT."""
        for record in pit.objects:
            identity = (record.entry.key, record.entry.sha256)
            version = self._versions.get(identity)
            if version is None:
                version = Version(record.entry, record.object_id, record.table)
                self._versions[identity] = version
            version.table = record.table
            version.pits.append(pit.pit)

    def by_object(self) -> dict[str, list[Version]]:
        """The versions of each object, oldest first."""
        found: dict[str, list[Version]] = defaultdict(list)
        for version in self._versions.values():
            found[version.object_id].append(version)
        return found


@dataclass(frozen=True, slots=True)
class Damage:
    """An entry or a part of a layer that cannot be read, and a version that needs it."""

    what: str
    key: str
    message: str
    version: Version


class Reader:
    """Reads entries and layers, each layer once, and tells damage."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._parts: dict[tuple[str, str], str | None] = {}

    def find_damage(self, version: Version) -> Iterator[Damage]:
        """What of a version cannot be read."""
        try:
            entry = self._repository.load_entry(version.ref)
        except NewerVersionError:
            raise
        except (DamagedRepositoryError, StorageError) as error:
            yield Damage("entry", version.ref.key, str(error), version)
            return
        for part in _parts(entry):
            message = self._find_message(part)
            if message is not None:
                yield Damage("layer", part.key, message, version)

    def _find_message(self, part: LayerPart) -> str | None:
        identity = (part.key, part.sha256)
        if identity not in self._parts:
            self._parts[identity] = None
            try:
                load_layer_bytes(self._repository.storage, part)
            except (DamagedRepositoryError, StorageError) as error:
                self._parts[identity] = str(error)
        return self._parts[identity]


def _parts(entry: Entry) -> Iterator[LayerPart]:
    return (part for layer in entry.layers for part in layer.parts)
