"""Level 1 on the driver: the repository's documents, PITs, entries and leases."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from bcn.errors import (
    BcnError,
    DamagedRepositoryError,
    MissingKeyError,
    NewerVersionError,
    NoSuchNamespaceError,
    NoSuchTableError,
    UnknownPitError,
)
from bcn.maintenance.report import Finding, Findings, Severity
from bcn.model import PitId
from bcn.repository import layout
from bcn.repository.document import parse_document
from bcn.repository.entry import Entry
from bcn.repository.lease import parse_lease
from bcn.repository.pit import ObjectRecord, PitManifest
from bcn.repository.repository import Repository, open_repository, rebuild_repository
from bcn.storage.protocol import StorageSpec


@dataclass(frozen=True, slots=True)
class Selection:
    """What to look at: one PIT or all; tables and databases by name or pattern, or all."""

    pit: PitId | None = None
    tables: tuple[str, ...] = ()
    databases: tuple[str, ...] = ()

    def takes(self, record: ObjectRecord) -> bool:
        """Whether a record is asked for."""
        names = (record.table.name, str(record.table))
        return _matches(self.databases, (record.table.database,)) and _matches(self.tables, names)

    def check_used(self, pits: Sequence[PitManifest]) -> None:
        """Raises NoSuchTableError or NoSuchNamespaceError for a name that nothing matches."""
        tables = [record.table for pit in pits for record in pit.objects]
        for pattern in self.databases:
            if not any(_matches((pattern,), (table.database,)) for table in tables):
                raise NoSuchNamespaceError(f"no database {pattern!r} in any chosen point in time")
        for pattern in self.tables:
            if not any(_matches((pattern,), (table.name, str(table))) for table in tables):
                raise NoSuchTableError(f"no table {pattern!r} in any chosen point in time")


def _matches(patterns: Sequence[str], names: Sequence[str]) -> bool:
    return not patterns or any(
        name == pattern or fnmatchcase(name, pattern) for pattern in patterns for name in names
    )


@dataclass(frozen=True, slots=True)
class CheckedEntry:
    """An entry that is whole, with the checked PITs that name it and the newest one's record."""

    number: int
    pits: tuple[PitId, ...]
    record: ObjectRecord
    entry: Entry

    @property
    def pit(self) -> PitId:
        """The newest of its PITs."""
        return self.pits[-1]


@dataclass(frozen=True)
class Documents:
    """What the documents say, as far as they could be read."""

    repository: Repository
    pits: tuple[PitId, ...]
    entries: tuple[CheckedEntry, ...]


def check_documents(spec: StorageSpec, selection: Selection, findings: Findings) -> Documents:
    """Read all documents that the selection needs; whatever is wrong with one is a finding.

    Raises NoRepositoryError, NewerVersionError, UnknownPitError, NoSuchTableError.
    """
    return _Check(_open(spec, findings), selection, findings).run()


def _open(spec: StorageSpec, findings: Findings) -> Repository:
    key = layout.REPOSITORY_KEY
    try:
        repository = open_repository(spec)
    except NewerVersionError:
        raise
    except DamagedRepositoryError as error:
        findings.add(Finding(1, Severity.ERROR, None, None, key, str(error)))
        return rebuild_repository(spec)
    if repository.storage.find_stat(key) is None:
        text = f"{key} is missing; everything it says is in the points in time as well"
        findings.add(Finding(1, Severity.WARNING, None, None, key, text))
    return repository


class _Check:
    def __init__(self, repository: Repository, selection: Selection, findings: Findings) -> None:
        self._repository = repository
        self._storage = repository.storage
        self._selection = selection
        self._findings = findings

    def run(self) -> Documents:
        """All documents, in the order in which one leads to another."""
        self._check_leases()
        self._check_derived()
        ids = self._chosen_ids()
        pits = [pit for pit in map(self._load_pit, ids) if pit is not None]
        self._selection.check_used(pits)
        return Documents(
            self._repository, tuple(pit.pit for pit in pits), tuple(self._entries(pits))
        )

    def _find(
        self,
        key: str,
        message: str,
        record: tuple[PitId, ObjectRecord | None] | None = None,
        severity: Severity = Severity.ERROR,
    ) -> None:
        pit, item = record or (None, None)
        name = str(item.table) if item else None
        self._findings.add(Finding(1, severity, str(pit) if pit else None, name, key, message))

    def _check_leases(self) -> None:
        for key in self._storage.iter_keys(layout.LEASES_PREFIX):
            if layout.parse_lease_key(key) is not None:
                try:
                    parse_lease(self._storage.read(key), key)
                except BcnError as error:
                    self._find(key, str(error))

    def _check_derived(self) -> None:
        for key in self._storage.iter_keys(layout.CATALOGS_PREFIX):
            if layout.is_derived_key(key):
                try:
                    parse_document(self._storage.read(key), key)
                except BcnError as error:
                    self._find(key, f"{error}; it only repeats others", severity=Severity.WARNING)
        if self._repository.scope is not None:
            self._check_index(layout.pits_index_key(self._repository.scope.catalog))

    def _check_index(self, key: str) -> None:
        try:
            lines = self._storage.read(key).decode().splitlines()
            known = {json.loads(line)["pit"] for line in lines}
        except MissingKeyError:
            return
        except (ValueError, KeyError, TypeError) as error:
            text = f"{key} cannot be read: {error!r}; it only repeats the points in time"
            self._find(key, text, severity=Severity.WARNING)
            return
        gone = sorted(known - {str(pit) for pit in self._repository.pit_ids()})
        if gone:
            text = f"{key} lists points in time that are not there: {', '.join(gone)}"
            self._find(key, text, severity=Severity.WARNING)

    # points in time

    def _chosen_ids(self) -> list[PitId]:
        ids = self._repository.pit_ids()
        if self._selection.pit is None:
            return ids
        if self._selection.pit not in ids:
            raise UnknownPitError(f"no point in time {self._selection.pit}")
        return [self._selection.pit]

    def _load_pit(self, pit: PitId) -> PitManifest | None:
        key = self._repository.pit_key(pit)
        try:
            manifest = self._repository.find_pit(pit)
        except BcnError as error:
            self._find(key, str(error), (pit, None))
            return None
        if manifest is not None and manifest.repository.get("id") != self._repository.id:
            text = f"{key} was written for another repository: {manifest.repository.get('id')}"
            self._find(key, text, (pit, None), Severity.WARNING)
        return manifest

    # entries

    def _entries(self, pits: Sequence[PitManifest]) -> Iterator[CheckedEntry]:
        """Every distinct entry once, oldest first, with all PITs that name it."""
        found: dict[tuple[str, str], CheckedEntry | None] = {}
        for pit in pits:
            for record in filter(self._selection.takes, pit.objects):
                identity = (record.entry.key, record.entry.sha256)
                if identity not in found:
                    found[identity] = self._load_entry(len(found), pit.pit, record)
                known = found[identity]
                if known is not None:
                    self._compare(known.entry, record, pit.pit)
                    found[identity] = replace(known, pits=(*known.pits, pit.pit), record=record)
        return (item for item in found.values() if item is not None)

    def _load_entry(self, number: int, pit: PitId, record: ObjectRecord) -> CheckedEntry | None:
        try:
            entry = self._repository.load_entry(record.entry)
        except BcnError as error:
            self._find(record.entry.key, str(error), (pit, record))
            return None
        kinds = [layer.kind for layer in entry.layers]
        if not kinds or kinds != ["full", *["delta"] * (len(kinds) - 1)]:
            text = f"entry {record.entry.key} does not begin with its only full layer: {kinds}"
            self._find(record.entry.key, text, (pit, record))
            return None
        return CheckedEntry(number, (), record, entry)

    def _compare(self, entry: Entry, record: ObjectRecord, pit: PitId) -> None:
        """What a PIT repeats of an entry is what the entry says."""
        pairs = {
            "object_id": (record.object_id, entry.object_id),
            "type": (record.type, entry.type),
            "metadata_location": (record.metadata_location, entry.metadata_location),
            "metadata_sha256": (record.metadata_sha256, entry.metadata_sha256),
            "files": (record.files, entry.files),
            "bytes": (record.size_bytes, entry.size_bytes),
        }
        for name, (said, written) in pairs.items():
            if said != written:
                text = f"{pit} says {name} {said}, its entry {record.entry.key} says {written}"
                self._find(record.entry.key, text, (pit, record))
