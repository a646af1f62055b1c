"""A table's metadata as files on a disk: document, manifest lists, manifests, entries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.compare.avro import AvroFile, read_avro
from tests.support.compare.documents import load_document
from tests.support.compare.paths import Resolve, local_path

PATH_COLUMN = 2147483546
DELETED = 2
POSITION_DELETES, EQUALITY_DELETES = 1, 2


@dataclass(frozen=True)
class Entry:
    """One manifest entry: its status, its content file's record, and the manifest it is in."""

    manifest: str
    record: dict[str, Any]

    @property
    def file(self) -> dict[str, Any]:
        return self.record["data_file"]

    @property
    def path(self) -> str:
        return str(self.file["file_path"])

    @property
    def is_live(self) -> bool:
        return self.record["status"] != DELETED

    @property
    def content(self) -> int:
        return int(self.file.get("content") or 0)

    @property
    def is_rewritten(self) -> bool:
        """Position deletes and deletion vectors name data files, so a restore writes them anew."""
        return self.content == POSITION_DELETES

    @property
    def is_vector(self) -> bool:
        return str(self.file["file_format"]).lower() == "puffin"


@dataclass
class Tree:
    """Reads a table's files by location, each once."""

    location: str
    resolve: Resolve = local_path
    _avro: dict[str, AvroFile] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.document = load_document(self.resolve(self.location))

    def file(self, location: str) -> Path:
        return self.resolve(location)

    def avro(self, location: str) -> AvroFile:
        if location not in self._avro:
            self._avro[location] = read_avro(self.resolve(location))
        return self._avro[location]

    @property
    def snapshots(self) -> list[dict[str, Any]]:
        return list(self.document.get("snapshots") or [])

    def manifests_of(self, snapshot: dict[str, Any]) -> list[str]:
        """The manifests of a snapshot in order, from its list or embedded in it."""
        if "manifest-list" not in snapshot:
            return list(snapshot["manifests"])
        return [record["manifest_path"] for record in self.avro(snapshot["manifest-list"]).records]

    def manifests(self) -> list[str]:
        """Every manifest of every snapshot, once, in the order of first mention."""
        return list(dict.fromkeys(m for s in self.snapshots for m in self.manifests_of(s)))

    def iter_entries(self) -> Iterator[Entry]:
        """Every entry of every manifest, tombstones too."""
        for manifest in self.manifests():
            for record in self.avro(manifest).records:
                yield Entry(manifest, record)

    def lists(self) -> list[str]:
        found = (snapshot.get("manifest-list") for snapshot in self.snapshots)
        return list(dict.fromkeys(location for location in found if location))

    def statistics(self) -> list[dict[str, Any]]:
        """Entries of table and partition statistics."""
        document = self.document
        return [*(document.get("statistics") or []), *(document.get("partition-statistics") or [])]
