"""Comparing a capture with the parent PIT: what is unchanged, to be read, gone. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bcn.catalog.protocol import Pointer
from bcn.errors import MassDeletionError
from bcn.model import PitId, TableId, iso, join_names
from bcn.repository import layout
from bcn.repository.entry import ALL
from bcn.repository.pit import (
    DeletedObject,
    Namespace,
    ObjectRecord,
    PitManifest,
    RenamedObject,
)

_MANY = 10


@dataclass(frozen=True, slots=True)
class Comparison:
    """Pointers sorted by what they need."""

    unchanged: tuple[ObjectRecord, ...]
    renamed: tuple[tuple[ObjectRecord, Pointer], ...]
    to_read: tuple[Pointer, ...]


def compare(
    pointers: Sequence[Pointer],
    versions: Mapping[str, str | None],
    parent: PitManifest | None,
    history: str = ALL,
) -> Comparison:
    """Sort pointers by the parent's records; `versions` are store versions by metadata location.

    The same location and version mean the same table, under its old name or a new one. Tables that
    are damaged in the parent are read again: their damage may have been mended; so are those of
    which another part of the history is asked for.
    """
    by_name, by_location = _records(parent, history)
    names = {pointer.table for pointer in pointers}
    unchanged: list[ObjectRecord] = []
    renamed: list[tuple[ObjectRecord, Pointer]] = []
    to_read: list[Pointer] = []
    for pointer in pointers:
        version = versions[pointer.metadata_location]
        record = by_name.get(pointer.table)
        moved = by_location.get(pointer.metadata_location)
        if record is not None and _is_same(record, pointer, version):
            unchanged.append(record)
        elif moved and moved.table not in names and _is_same(moved, pointer, version):
            renamed.append((moved, pointer))
        else:
            to_read.append(pointer)
    return Comparison(tuple(unchanged), tuple(renamed), tuple(to_read))


def _records(
    parent: PitManifest | None, history: str
) -> tuple[dict[TableId, ObjectRecord], dict[str, ObjectRecord]]:
    records = [] if parent is None else list(parent.objects)
    good = [
        record
        for record in records
        if record.status != "FAILED" and (record.coverage == history or record.type != "table")
    ]
    return (
        {record.table: record for record in good},
        {record.metadata_location: record for record in good},
    )


def _is_same(record: ObjectRecord, pointer: Pointer, version: str | None) -> bool:
    return (
        version is not None
        and not record.damaged
        and record.type == pointer.kind
        and record.metadata_location == pointer.metadata_location
        and record.metadata_version == version
    )


def object_ids(
    tables: Sequence[tuple[Pointer, str | None, str]],
    taken: Mapping[str, TableId],
    parent: PitManifest | None,
    catalog: str,
) -> list[str]:
    """An object id for each (pointer, uuid, location).

    `taken` are ids that unchanged or renamed objects of this capture hold. Of several tables with
    one uuid, the name that had it in the parent keeps it; the others are known by name.
    """
    uuids = [layout.find_uuid_id(uuid) for _, uuid, _ in tables]
    counts = Counter(uuids)
    held = {record.object_id: record.table for record in (parent.objects if parent else ())}
    ids = []
    for (pointer, _, location), uuid in zip(tables, uuids, strict=True):
        unique = uuid is not None and counts[uuid] == 1 and uuid not in taken
        if uuid is not None and (unique or held.get(uuid) == pointer.table):
            ids.append(uuid)
        else:
            ids.append(layout.named_id(pointer.kind, catalog, pointer.table, location))
    return ids


def deletions(
    parent: PitManifest | None, present: set[str], pit: PitId
) -> tuple[DeletedObject, ...]:
    """All objects that are gone by now, with those of earlier PITs that did not come back."""
    if parent is None:
        return ()
    before = [item for item in parent.deleted if item.object_id not in present]
    now_gone = [
        DeletedObject(record.object_id, record.table, iso(pit.moment), parent.pit, record.type)
        for record in parent.objects
        if record.object_id not in present
    ]
    return (*before, *now_gone)


def deleted_namespaces(
    parent: PitManifest | None, namespaces: Sequence[Namespace]
) -> tuple[str, ...]:
    """All databases that are gone by now."""
    if parent is None:
        return ()
    present = {join_names(item.levels) for item in namespaces}
    known = [*parent.deleted_namespaces, *(join_names(item.levels) for item in parent.namespaces)]
    return tuple(sorted({name for name in known if name not in present}))


def renames(
    parent: PitManifest | None, objects: Sequence[ObjectRecord]
) -> tuple[RenamedObject, ...]:
    """Objects that the parent knows under another name."""
    held = {record.object_id: record.table for record in (parent.objects if parent else ())}
    return tuple(
        RenamedObject(item.object_id, held[item.object_id], item.table)
        for item in objects
        if item.object_id in held and held[item.object_id] != item.table
    )


def check_deletions(parent: PitManifest | None, gone: int) -> None:
    """Raises MassDeletionError if so much is gone that a wrong mount or alias is likelier."""
    known = len(parent.objects) if parent else 0
    if gone and (gone == known or (known >= _MANY and gone * 2 > known)):
        raise MassDeletionError(f"{gone} of {known} tables are gone from the source")
