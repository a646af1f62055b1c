"""What a restore did, as people and programs are told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bcn.iceberg.relocate import Move
from bcn.model import Json, PitId, TableId


@dataclass(frozen=True, slots=True)
class RestoredTable:
    """One table that is back."""

    source: TableId
    table: TableId
    metadata_location: str
    uuid: str | None
    files: int
    size_bytes: int
    snapshots: int
    pit: PitId
    deleted_at: str | None = None
    damaged_snapshots: int = 0
    roots: tuple[Move, ...] = ()
    replaced: str | None = None
    """The metadata file of the table whose place it took."""

    @property
    def database(self) -> str:
        """The database it is in now."""
        return self.table.database

    @property
    def name(self) -> str:
        """Its name now."""
        return self.table.name

    def as_json(self) -> Json:
        """The documented object."""
        return {
            "database": self.database,
            "name": self.name,
            "source": str(self.source),
            "pit": str(self.pit),
            "deleted_at": self.deleted_at,
            "metadata_location": self.metadata_location,
            "uuid": self.uuid,
            "files": self.files,
            "bytes": self.size_bytes,
            "snapshots": self.snapshots,
            "damaged_snapshots": self.damaged_snapshots,
            "roots": [{"old": move.old, "new": move.new} for move in self.roots],
            "replaced": self.replaced,
        }


@dataclass(frozen=True, slots=True)
class RestoredView:
    """One view that is back."""

    source: TableId
    view: TableId
    metadata_location: str
    uuid: str | None
    versions: int
    pit: PitId
    deleted_at: str | None = None

    def as_json(self) -> Json:
        """The documented object."""
        return {
            "database": self.view.database,
            "name": self.view.name,
            "source": str(self.source),
            "pit": str(self.pit),
            "deleted_at": self.deleted_at,
            "metadata_location": self.metadata_location,
            "uuid": self.uuid,
            "versions": self.versions,
        }


@dataclass(frozen=True)
class RestoreReport:
    """The sum of a restore, or of its plan when `dry_run`; `namespaces` are those it made."""

    repository: str
    pit: PitId
    catalog: str
    tables: tuple[RestoredTable, ...]
    seconds: Mapping[str, float]
    views: tuple[RestoredView, ...] = ()
    namespaces: tuple[str, ...] = ()
    files_copied: int = 0
    bytes_copied: int = 0
    files_adopted: int = 0
    bytes_adopted: int = 0
    files_checked: int = 0
    requests: Mapping[str, int] = field(default_factory=dict)
    warnings: Sequence[str] = ()
    dry_run: bool = False

    def as_json(self) -> Json:
        """The documented object, docs/json-output.md."""
        return {
            "repository": self.repository,
            "pit": str(self.pit),
            "catalog": self.catalog,
            "dry_run": self.dry_run,
            "tables": [table.as_json() for table in self.tables],
            "views": [view.as_json() for view in self.views],
            "namespaces": list(self.namespaces),
            "files_copied": self.files_copied,
            "bytes_copied": self.bytes_copied,
            "files_adopted": self.files_adopted,
            "bytes_adopted": self.bytes_adopted,
            "files_checked": self.files_checked,
            "requests": dict(self.requests),
            "warnings": list(self.warnings),
            "seconds": dict(self.seconds),
        }
