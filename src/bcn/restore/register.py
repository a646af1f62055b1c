"""The last steps of a restore: the metadata document, the catalog, and asking it again."""

from __future__ import annotations

import uuid

from bcn.catalog.protocol import TABLE, Catalog, Pointer, is_or_follows
from bcn.errors import (
    CatalogError,
    DamagedRepositoryError,
    MissingKeyError,
    TargetExistsError,
)
from bcn.iceberg.history import trim_metadata
from bcn.iceberg.metadata import (
    TableFacts,
    parse_metadata,
    read_facts,
    relocate_metadata,
    render_metadata,
)
from bcn.model import Json, sha256
from bcn.repository.entry import Entry
from bcn.repository.repository import Repository
from bcn.restore.plan import Target, UuidPolicy
from bcn.storage.open import Stores


def new_uuid(policy: UuidPolicy, target: Target) -> str | None:
    """The uuid the restored table gets; None keeps its own, as where a table was lost or hurt."""
    keep = policy is UuidPolicy.KEEP or (policy is UuidPolicy.AUTO and target.keeps_uuid)
    return None if keep else str(uuid.uuid4())


def build_metadata(document: Json, target: Target, new_id: str | None) -> Json:
    """The document of the restored table."""
    return relocate_metadata(document, target.moves, uuid=new_id)


def metadata_location(catalog: Catalog, target: Target) -> str:
    """Where the metadata file goes: the folder it was in, under the name the catalog needs."""
    folder, _, name = target.entry.metadata_location.rpartition("/")
    new_name = catalog.metadata_name(name)
    if catalog.fixes_locations:
        return f"{target.location}/metadata/{new_name}"
    return f"{target.moves.apply(folder)}/{new_name}"


def find_registered(catalog: Catalog, target: Target, replaced: str | None) -> Pointer | None:
    """What a restore to this very target has registered, if one has.

    Not the table that it was to replace, whose metadata may be in the same folder.
    """
    try:
        catalog.check_target(target.table, target.location)
    except TargetExistsError:
        pass
    else:
        return None
    folder = metadata_location(catalog, target).rpartition("/")[0]
    pointer = catalog.find_pointer(target.table)
    if pointer is None or pointer.kind != target.record.type:
        return None
    if pointer.metadata_location == replaced:
        return None
    return pointer if pointer.metadata_location.rpartition("/")[0] == folder else None


def save_metadata(stores: Stores, location: str, document: Json) -> None:
    """Write the metadata file: for a Hadoop catalog, this is when the table appears."""
    storage, key = stores.resolve(location)
    storage.write_once(key, render_metadata(document, name=location.rpartition("/")[2]))


def check_registered(
    stores: Stores, catalog: Catalog, target: Target, location: str, expected: Json
) -> None:
    """Ask the catalog again: every snapshot and ref must be there (some drop history silently).

    A table whose place was taken may have writers, and one of them has made a commit by now.
    """
    pointer = catalog.find_pointer(target.table)
    if pointer is None:
        raise CatalogError(f"{target.table} was registered, but {catalog.name} does not know it")
    storage, key = stores.resolve(pointer.metadata_location)
    document = parse_metadata(storage.read(key))
    found = pointer.metadata_location
    if found == location or not is_or_follows(found, document, location):
        _require_same(catalog, target, document, expected)
    check_given(catalog, target, pointer, document)


def check_given(catalog: Catalog, target: Target, pointer: Pointer, document: Json) -> None:
    """Where readers get the metadata from the catalog, and not from its file, both must agree."""
    if pointer.kind == TABLE and pointer.document is not None:
        _require_same(catalog, target, pointer.document, document)


def _require_same(catalog: Catalog, target: Target, found: Json, wanted: Json) -> None:
    if losses := _losses(read_facts(found), read_facts(wanted)):
        hint = "drop the table there, and restore into a catalog that keeps history"
        if target.replaces is not None:
            hint = f"the table that was there before is whole: {target.replaces}"
        raise CatalogError(
            f"{catalog.name} gives back {target.table} with another history: {'; '.join(losses)}",
            hint=hint,
        )


def _losses(found: TableFacts, wanted: TableFacts) -> list[str]:
    """What a catalog made of a table, in words."""
    losses = []
    if found.format_version != wanted.format_version:
        losses.append(f"format version {found.format_version}, not {wanted.format_version}")
    if wanted.uuid is not None and found.uuid != wanted.uuid:  # the oldest tables have none
        losses.append(f"uuid {found.uuid}, not {wanted.uuid}")
    ids = {one.snapshot_id for one in found.snapshots}
    kept = sum(one.snapshot_id in ids for one in wanted.snapshots)
    if (kept, len(found.snapshots)) != (len(wanted.snapshots),) * 2:
        losses.append(f"{kept} of {len(wanted.snapshots)} snapshots")
    lists = {(one.snapshot_id, one.manifest_list) for one in found.snapshots}
    moved = sum((one.snapshot_id, one.manifest_list) not in lists for one in wanted.snapshots)
    if kept == len(wanted.snapshots) and moved:
        losses.append(f"other manifest lists in {moved} snapshots")
    refs = [name for name, ref in wanted.refs.items() if not _same_ref(found.refs.get(name), ref)]
    refs += [name for name in found.refs if name not in wanted.refs]
    if refs:
        losses.append(f"other refs: {', '.join(sorted(refs))}")
    return losses


def _same_ref(found: Json | None, wanted: Json) -> bool:
    """Whether a ref is there with all that it says."""
    return found is not None and found.items() >= wanted.items()


def load_metadata(repository: Repository, entry: Entry) -> bytes:
    """The stored bytes of a table's metadata file. Raises DamagedRepositoryError."""
    try:
        data = repository.storage.read(entry.metadata_key)
    except MissingKeyError:
        raise DamagedRepositoryError(f"{entry.metadata_key} is missing") from None
    if sha256(data) != entry.metadata_sha256:
        raise DamagedRepositoryError(f"{entry.metadata_key} is damaged: SHA-256 does not match")
    return data


def load_document(data: bytes, target: Target) -> Json:
    """The stored document of a table, with the snapshots that its entry covers and no others.

    Raises DamagedRepositoryError.
    """
    covered = None if target.entry.covered is None else frozenset(target.entry.covered)
    document = trim_metadata(parse_metadata(data), covered)
    if not isinstance(document.get("location"), str):
        raise DamagedRepositoryError(f"the metadata of {target.record.table} has no location")
    return document
