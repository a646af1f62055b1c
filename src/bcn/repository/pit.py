"""The PIT: one write-once document that names every object and, through entries, every file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bcn.errors import DamagedRepositoryError
from bcn.model import Json, PitId, TableId, iso, join_names
from bcn.repository.document import VERSION, check_checksum, parse_document, with_checksum
from bcn.repository.entry import ALL

CHECKSUM_FIELD = "manifest_checksum"


@dataclass(frozen=True, slots=True)
class EntryRef:
    """Where an entry is stored and what its bytes hash to."""

    key: str
    sha256: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class ObjectRecord:
    """One table or view. `metadata_*` repeat the entry: an unchanged table costs no read."""

    object_id: str
    type: str
    table: TableId
    status: str
    entry: EntryRef
    metadata_location: str
    metadata_version: str
    metadata_sha256: str
    files: int
    size_bytes: int
    snapshots: int
    files_new: int = 0
    bytes_new: int = 0
    damaged: int = 0
    coverage: str = ALL  # how much history was asked for when its entry was made


@dataclass(frozen=True, slots=True)
class DeletedObject:
    """A table or view that an earlier PIT holds and the source has no more."""

    object_id: str
    table: TableId
    deleted_at: str
    last_pit_included: PitId
    type: str = "table"


@dataclass(frozen=True, slots=True)
class RenamedObject:
    """A table that the parent PIT knows under another name."""

    object_id: str
    old: TableId
    new: TableId


@dataclass(frozen=True, slots=True)
class FailedObject:
    """A table that could not be backed up; `kept_pit` is whose version this PIT holds instead."""

    object_id: str
    table: TableId
    error_class: str
    message: str
    kept_pit: PitId | None
    hint: str = field(default="", compare=False)  # for whoever is told at once; never stored


@dataclass(frozen=True, slots=True)
class Namespace:
    """A database and its properties."""

    levels: tuple[str, ...]
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PitManifest:
    """A point in time as a value."""

    pit: PitId
    pit_uuid: str
    parent: PitId | None
    captured_at: str
    repository: Mapping[str, Any]
    consistency: Mapping[str, Any]
    bcn_version: str
    objects: tuple[ObjectRecord, ...]
    namespaces: tuple[Namespace, ...] = ()
    deleted: tuple[DeletedObject, ...] = ()
    deleted_namespaces: tuple[str, ...] = ()
    renamed: tuple[RenamedObject, ...] = ()
    failed: tuple[FailedObject, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    history: str = ALL  # how much was asked for by this backup: the next one's default

    @property
    def summary(self) -> Json:
        """Counts and bytes over all objects."""
        by_status: dict[str, int] = defaultdict(int)
        for item in self.objects:
            by_status[item.status.lower()] += 1
        return {
            "databases": len(self.namespaces),
            "tables": sum(item.type == "table" for item in self.objects),
            "views": sum(item.type == "view" for item in self.objects),
            "snapshots": sum(item.snapshots for item in self.objects),
            **{status: by_status[status] for status in ("new", "changed", "unchanged", "renamed")},
            "deleted": len(self.deleted),
            "failed": len(self.failed),
            "files_new": sum(item.files_new for item in self.objects),
            "bytes_new": sum(item.bytes_new for item in self.objects),
            "files_total": sum(item.files for item in self.objects),
            "bytes_total": sum(item.size_bytes for item in self.objects),
        }


def render_pit(pit: PitManifest) -> Json:
    """The stored form, docs/format.md 4.3, with its checksum."""
    unchanged = [item for item in pit.objects if item.status == "UNCHANGED"]
    document: Json = {
        "version": VERSION,
        "pit": str(pit.pit),
        "pit_timestamp": iso(pit.pit.moment),
        "pit_uuid": pit.pit_uuid,
        "parent_pit": str(pit.parent) if pit.parent else None,
        "captured_at": pit.captured_at,
        "repository": dict(pit.repository),
        "consistency": dict(pit.consistency),
        "bcn_version": pit.bcn_version,
        "summary": pit.summary,
        "labels": dict(pit.labels),
        "history": pit.history,
        "included_objects": {
            "databases": [join_names(namespace.levels) for namespace in pit.namespaces],
            "tables": _names_by_database(pit, "table"),
            "views": _names_by_database(pit, "view"),
        },
        "deleted_in_source": {
            "tables": [str(item.table) for item in pit.deleted],
            "databases": list(pit.deleted_namespaces),
        },
        "unchanged_objects": {
            "tables": [str(item.table) for item in unchanged],
            "checksums": {str(item.table): item.metadata_sha256 for item in unchanged},
        },
        "deleted_objects": [_render_deleted(item) for item in pit.deleted],
        "renamed_objects": [
            {"object_id": item.object_id, "old_name": str(item.old), "new_name": str(item.new)}
            for item in pit.renamed
        ],
        "failed_objects": [_render_failed(item) for item in pit.failed],
        "namespaces": [
            {
                "name": join_names(namespace.levels),
                "levels": list(namespace.levels),
                "properties": dict(namespace.properties),
            }
            for namespace in pit.namespaces
        ],
        "objects": [_render_object(item) for item in pit.objects],
    }
    return with_checksum(document, CHECKSUM_FIELD)


def _names_by_database(pit: PitManifest, kind: str) -> dict[str, list[str]]:
    names: dict[str, list[str]] = defaultdict(list)
    for item in pit.objects:
        if item.type == kind:
            names[item.table.database].append(item.table.name)
    return dict(names)


def _render_object(item: ObjectRecord) -> Json:
    return {
        "object_id": item.object_id,
        "type": item.type,
        "name": str(item.table),
        "namespace": list(item.table.namespace),
        "table": item.table.name,
        "status": item.status,
        "metadata_location": item.metadata_location,
        "metadata_version": item.metadata_version,
        "metadata_sha256": item.metadata_sha256,
        "entry": {
            "key": item.entry.key,
            "sha256": item.entry.sha256,
            "size_bytes": item.entry.size_bytes,
        },
        "totals": {
            "files": item.files,
            "bytes": item.size_bytes,
            "snapshots": item.snapshots,
            "files_new": item.files_new,
            "bytes_new": item.bytes_new,
        },
        "damaged_snapshots": item.damaged,
        "coverage": item.coverage,
    }


def _render_deleted(item: DeletedObject) -> Json:
    return {
        "object_id": item.object_id,
        "type": item.type,
        "name": str(item.table),
        "namespace": list(item.table.namespace),
        "table": item.table.name,
        "deleted_at": item.deleted_at,
        "last_pit_included": str(item.last_pit_included),
    }


def _render_failed(item: FailedObject) -> Json:
    return {
        "object_id": item.object_id,
        "name": str(item.table),
        "namespace": list(item.table.namespace),
        "table": item.table.name,
        "class": item.error_class,
        "message": item.message,
        "kept_pit": str(item.kept_pit) if item.kept_pit else None,
    }


def is_abandoned(document: Json) -> bool:
    """Whether a document at a PIT's key only says that its writer lost the lease.

    Whatever has a checksum is a PIT, so no edit of a PIT can make it look like a marker.
    """
    return document.get("abandoned") is True and CHECKSUM_FIELD not in document


def parse_pit(data: bytes, key: str) -> PitManifest | None:
    """From the stored form; None for an abandoned marker. Raises DamagedRepositoryError."""
    document = parse_document(data, key)
    if is_abandoned(document):
        return None
    check_checksum(document, CHECKSUM_FIELD, key)
    try:
        return _read_pit(document)
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedRepositoryError(f"{key} is not a whole PIT manifest: {error!r}") from error


def _read_pit(document: Json) -> PitManifest:
    return PitManifest(
        pit=PitId(document["pit"]),
        pit_uuid=document["pit_uuid"],
        parent=PitId(document["parent_pit"]) if document["parent_pit"] else None,
        captured_at=document["captured_at"],
        repository=document["repository"],
        consistency=document["consistency"],
        bcn_version=document["bcn_version"],
        objects=tuple(_read_object(item) for item in document["objects"]),
        namespaces=tuple(
            Namespace(tuple(item["levels"]), item["properties"]) for item in document["namespaces"]
        ),
        deleted=tuple(_read_deleted(item) for item in document["deleted_objects"]),
        deleted_namespaces=tuple(document["deleted_in_source"]["databases"]),
        renamed=tuple(
            RenamedObject(
                item["object_id"], TableId.parse(item["old_name"]), TableId.parse(item["new_name"])
            )
            for item in document["renamed_objects"]
        ),
        failed=tuple(_read_failed(item) for item in document["failed_objects"]),
        labels=document["labels"],
        history=document.get("history", ALL),
    )


def _read_table(item: Json) -> TableId:
    return TableId(tuple(item["namespace"]), item["table"])


def read_item(item: Json) -> ObjectRecord | DeletedObject | FailedObject | None:
    """One item of a PIT's lists of objects, by the keys it has; None if it is none of them."""
    if item.keys() >= {"entry", "totals", "status"}:
        return _read_object(item)
    if "deleted_at" in item:
        return _read_deleted(item)
    return _read_failed(item) if item.keys() >= {"class", "kept_pit"} else None


def _read_deleted(item: Json) -> DeletedObject:
    last = PitId(item["last_pit_included"])
    kind = item.get("type", "table")
    return DeletedObject(item["object_id"], _read_table(item), item["deleted_at"], last, kind)


def _read_failed(item: Json) -> FailedObject:
    kept = PitId(item["kept_pit"]) if item["kept_pit"] else None
    return FailedObject(item["object_id"], _read_table(item), item["class"], item["message"], kept)


def _read_object(item: Json) -> ObjectRecord:
    entry, totals = item["entry"], item["totals"]
    return ObjectRecord(
        object_id=item["object_id"],
        type=item["type"],
        table=_read_table(item),
        status=item["status"],
        entry=EntryRef(entry["key"], entry["sha256"], entry["size_bytes"]),
        metadata_location=item["metadata_location"],
        metadata_version=item["metadata_version"],
        metadata_sha256=item["metadata_sha256"],
        files=totals["files"],
        size_bytes=totals["bytes"],
        snapshots=totals["snapshots"],
        files_new=totals["files_new"],
        bytes_new=totals["bytes_new"],
        damaged=item["damaged_snapshots"],
        coverage=item.get("coverage", ALL),
    )
