"""Two versions of an object side by side: what their entries and metadata documents say."""

from __future__ import annotations

from dataclasses import dataclass, field

from bcn.errors import DamagedRepositoryError, MalformedFileError, MissingKeyError
from bcn.iceberg.changes import RowCount, compare_tables, compare_views, count_rows
from bcn.iceberg.columns import Change
from bcn.iceberg.metadata import parse_metadata
from bcn.model import Json, sha256
from bcn.repository.entry import Entry
from bcn.repository.pit import ObjectRecord
from bcn.repository.repository import Repository


@dataclass(frozen=True, slots=True)
class Version:
    """An object as of a PIT, with its metadata document."""

    record: ObjectRecord
    entry: Entry = field(repr=False)
    document: Json = field(repr=False)

    @property
    def rows(self) -> RowCount:
        """What its summary counts; a view has no rows of its own."""
        if self.record.type != "table":
            return RowCount(None, None)
        return count_rows(self.document)


def load_version(repository: Repository, record: ObjectRecord) -> Version:
    """Entry and document, their digests compared. Raises DamagedRepositoryError, StorageError."""
    entry = repository.load_entry(record.entry)
    try:
        data = repository.storage.read(entry.metadata_key)
    except MissingKeyError:
        raise DamagedRepositoryError(f"metadata {entry.metadata_key} is missing") from None
    if sha256(data) != entry.metadata_sha256:
        raise DamagedRepositoryError(
            f"metadata {entry.metadata_key} is damaged: its SHA-256 does not match"
        )
    try:
        return Version(record, entry, parse_metadata(data))
    except MalformedFileError as error:
        raise DamagedRepositoryError(f"metadata {entry.metadata_key}: {error}") from error


def compare_versions(old: Version, new: Version) -> tuple[Change, ...]:
    """What changed from one to the other, never nothing. Raises DamagedRepositoryError."""
    compare = compare_tables if new.record.type == "table" else compare_views
    try:
        changes = list(compare(old.document, new.document))
    except MalformedFileError as error:
        raise DamagedRepositoryError(f"metadata {new.entry.metadata_key}: {error}") from error
    pairs = {
        "coverage": (old.record.coverage, new.record.coverage),
        "damaged snapshots": (str(old.record.damaged), str(new.record.damaged)),
    }
    for aspect, (before, after) in pairs.items():
        if before != after:
            changes.append(Change(aspect, "changed", None, before, after))
    return tuple(changes) or (Change("metadata", "rewritten"),)
