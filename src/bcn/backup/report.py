"""What a backup did, as people and programs are told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bcn.model import Json, PitId
from bcn.repository.entry import ALL
from bcn.repository.pit import DeletedObject, FailedObject, ObjectRecord


@dataclass(frozen=True)
class BackupReport:
    """The sum of a backup, or of its plan when `dry_run`."""

    repository: str
    pit: PitId
    parent: PitId | None
    objects: tuple[ObjectRecord, ...]
    deleted: tuple[DeletedObject, ...]
    failed: tuple[FailedObject, ...]
    seconds: Mapping[str, float]
    files_copied: int = 0
    bytes_copied: int = 0
    files_adopted: int = 0
    bytes_adopted: int = 0
    manifests_decoded: int = 0
    requests: Mapping[str, int] = field(default_factory=dict)
    consistency: Mapping[str, object] = field(default_factory=dict)
    warnings: Sequence[str] = ()
    dry_run: bool = False
    history: str = ALL

    def as_json(self) -> Json:
        """The documented object, docs/json-output.md."""
        failed = {item.object_id: item for item in self.failed}
        tables = [_table(item, failed.get(item.object_id)) for item in self.objects]
        known = {item.object_id for item in self.objects}
        tables += [_failed(item) for item in self.failed if item.object_id not in known]
        tables += [_gone(item) for item in self.deleted]
        return {
            "repository": self.repository,
            "pit": str(self.pit),
            "parent_pit": str(self.parent) if self.parent else None,
            "dry_run": self.dry_run,
            "history": self.history,
            "tables": tables,
            "files_copied": self.files_copied,
            "bytes_copied": self.bytes_copied,
            "files_adopted": self.files_adopted,
            "bytes_adopted": self.bytes_adopted,
            "manifests_decoded": self.manifests_decoded,
            "requests": dict(self.requests),
            "consistency": dict(self.consistency),
            "warnings": list(self.warnings),
            "seconds": dict(self.seconds),
        }


def _table(item: ObjectRecord, failed: FailedObject | None) -> Json:
    row = {
        "database": item.table.database,
        "name": item.table.name,
        "type": item.type,
        "status": item.status,
        "files_new": item.files_new,
        "bytes_new": item.bytes_new,
        "files_total": item.files,
        "bytes_total": item.size_bytes,
        "damaged_snapshots": item.damaged,
        "coverage": item.coverage,
    }
    return row if failed is None else {**row, **_reason(failed)}


def _empty(database: str, name: str, status: str) -> Json:
    return {
        "database": database,
        "name": name,
        "type": "table",
        "status": status,
        "files_new": 0,
        "bytes_new": 0,
        "files_total": 0,
        "bytes_total": 0,
        "damaged_snapshots": 0,
        "coverage": ALL,
    }


def _failed(item: FailedObject) -> Json:
    return {**_empty(item.table.database, item.table.name, "FAILED"), **_reason(item)}


def _reason(item: FailedObject) -> Json:
    kept = str(item.kept_pit) if item.kept_pit else None
    return {"class": item.error_class, "message": item.message, "kept_pit": kept}


def _gone(item: DeletedObject) -> Json:
    row = _empty(item.table.database, item.table.name, "DELETED")
    return {**row, "type": item.type, "last_pit_included": str(item.last_pit_included)}
