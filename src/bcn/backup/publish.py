"""From sealed layers to a PIT: entries, the flush, the PIT manifest."""

from __future__ import annotations

from collections.abc import Sequence

from bcn.backup.tasks import SealedPart
from bcn.backup.work import Work
from bcn.errors import DamagedRepositoryError
from bcn.model import Json, PitId, sha256
from bcn.repository import layout
from bcn.repository.document import render_document
from bcn.repository.entry import Entry, Layer, render_entry
from bcn.repository.lease import HeldLease
from bcn.repository.pit import EntryRef, ObjectRecord, PitManifest, render_pit
from bcn.repository.repository import Repository


def build_entry(
    work: Work, parts: Sequence[SealedPart], pit: PitId, damaged: Sequence[Json]
) -> Entry:
    """The entry of a table whose layer parts were written."""
    layer = Layer(work.layer_kind, pit, tuple(part.part for part in parts))
    earlier = work.parent.layers if work.parent and work.layer_kind == "delta" else ()
    metadata_key, _ = stored_metadata(work, parts)
    return Entry(
        object_id=work.object_id,
        type=work.source.pointer.kind,
        uuid=work.source.uuid,
        table=work.source.pointer.table,
        pit=pit,
        metadata_location=work.source.pointer.metadata_location,
        metadata_key=metadata_key,
        metadata_sha256=work.source.sha256,
        metadata_version=work.source.version,
        roots=tuple(work.roots.roots),
        layers=(*earlier, layer),
        files=sum(part.files for part in parts),
        size_bytes=sum(part.size_bytes for part in parts),
        damaged=tuple(damaged),
        table_facts=_table_facts(work),
        history=str(work.source.history),
        covered=None if work.source.covered is None else tuple(sorted(work.source.covered)),
    )


def stored_metadata(work: Work, parts: Sequence[SealedPart]) -> tuple[str, str]:
    """Key and SHA-256 of the metadata document that a round has stored."""
    found = next((part.metadata for part in parts if part.metadata), None)
    if found is None:
        raise DamagedRepositoryError(f"no metadata was stored for {work.table}")
    return found


def _table_facts(work: Work) -> Json:
    facts = work.source.facts
    if facts is None:
        return {"format_version": work.source.document.get("format-version")}
    current = facts.current_snapshot_id
    return {
        "format_version": facts.format_version,
        "schemas": list(facts.schema_ids),
        "current_schema_id": facts.current_schema_id,
        "partition_specs": [spec.get("spec-id") for spec in facts.specs],
        "sort_orders": list(facts.sort_order_ids),
        "current_snapshot_id": None if current is None else str(current),
        "refs": {name: _ref(ref) for name, ref in facts.refs.items()},
        "snapshots": len(facts.snapshots),
        "properties": dict(facts.properties),
    }


def _ref(ref: Json) -> Json:
    """A ref with snake_case keys and its snapshot id as text; values that are plain, no others."""
    renamed = {
        key.replace("-", "_"): value
        for key, value in ref.items()
        if value is None or isinstance(value, str | int)
    }
    return {**renamed, "snapshot_id": str(renamed.get("snapshot_id"))}


def save_entry(
    repository: Repository, catalog: str, entry: Entry, status: str, parts: Sequence[SealedPart]
) -> ObjectRecord:
    """Store an entry, not yet flushed, and give its record for the PIT."""
    key = layout.entry_key(catalog, entry.table, entry.pit)
    data = render_document(render_entry(entry))
    with repository.storage.open_writer(key) as writer:
        writer.write(data)
        writer.commit()
    return ObjectRecord(
        object_id=entry.object_id,
        type=entry.type,
        table=entry.table,
        status=status,
        entry=EntryRef(key, sha256(data), len(data)),
        metadata_location=entry.metadata_location,
        metadata_version=entry.metadata_version,
        metadata_sha256=entry.metadata_sha256,
        files=entry.files,
        size_bytes=entry.size_bytes,
        snapshots=entry.table_facts.get("snapshots", 0),
        files_new=sum(part.files_new for part in parts),
        bytes_new=sum(part.bytes_new for part in parts),
        damaged=len(entry.damaged),
        coverage=entry.history,
    )


def status_of(work: Work) -> str:
    """What became of an object since the parent PIT."""
    if work.parent_record is None:
        return "NEW"
    return "CHANGED" if work.parent_record.table == work.table else "RENAMED"


def planned_record(work: Work, new: tuple[int, int]) -> ObjectRecord:
    """What the record of a work would be; its entry does not exist."""
    facts, source = work.source.facts, work.source
    known = (work.parent.files, work.parent.size_bytes) if work.parent else (0, 0)
    return ObjectRecord(
        object_id=work.object_id,
        type=source.pointer.kind,
        table=work.table,
        status=status_of(work),
        entry=EntryRef("", "", 0),
        metadata_location=source.pointer.metadata_location,
        metadata_version=source.version,
        metadata_sha256=source.sha256,
        files=known[0] + new[0],
        size_bytes=known[1] + new[1],
        snapshots=len(facts.snapshots) if facts else 0,
        files_new=new[0],
        bytes_new=new[1],
        coverage=str(source.history),
    )


def publish(repository: Repository, lease: HeldLease, pit: PitManifest) -> None:
    """Flush all that the PIT needs, then create it. From here on the backup exists."""
    repository.storage.flush()
    lease.publish(render_document(render_pit(pit)))
