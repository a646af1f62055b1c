"""Verifying a repository, level by level. It writes nothing but a scratch folder."""

from __future__ import annotations

import math
import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeVar

from bcn.engine.chunks import Chunk, bin_chunks
from bcn.engine.meter import listen
from bcn.engine.spark import Engine
from bcn.errors import UsageError
from bcn.maintenance.documents import CheckedEntry, Documents, Selection, check_documents
from bcn.maintenance.inspection import find_needs, hash_chunks, inspect_group
from bcn.maintenance.rehearsal import Rehearsal
from bcn.maintenance.report import LEVELS, Finding, Findings, Reading, Severity, VerifyReport
from bcn.maintenance.verify_tasks import (
    Chain,
    HashTask,
    InspectResult,
    InspectTask,
    MetadataTask,
    NeedTask,
    SnapshotSum,
    Unit,
    VerifyRun,
    WalkTask,
)
from bcn.maintenance.walk import follow_metadata, walk_manifests
from bcn.model import PitId
from bcn.repository.inventory import Slot
from bcn.storage.protocol import StorageSpec
from bcn.telemetry.progress import Progress, Silent, Stopwatch

Task = TypeVar("Task")
Result = TypeVar("Result")

ROWS_PER_GROUP = 200_000
SMALL_ROWS = 100_000
CHAINS_PER_TASK = 20


@dataclass(frozen=True, slots=True)
class VerifyRequest:
    """What to verify and how deeply. `scratch` is a folder on this machine, or one all share."""

    repository: StorageSpec
    pit: PitId | None = None
    tables: tuple[str, ...] = ()
    databases: tuple[str, ...] = ()
    level: int = 2
    bytes_per_second: float | None = None
    scratch: str | None = None


def run_verify(
    request: VerifyRequest,
    engine: Engine,
    now: Callable[[], datetime],
    progress: Progress | None = None,
) -> VerifyReport:
    """Check all levels up to the asked one; damage is told by findings, it stops nothing.

    Raises UsageError, NoRepositoryError, NewerVersionError, UnknownPitError, NoSuchTableError, and
    StorageError where the scratch folder cannot be written.
    """
    if request.level not in LEVELS:
        raise UsageError(f"there is no level {request.level}: levels are 1 to {max(LEVELS)}")
    if request.level >= 5 and not engine.settings.iceberg:
        raise UsageError("level 5 reads tables, which this Spark cannot: it lacks Iceberg")
    with tempfile.TemporaryDirectory(prefix="bcn-verify-", dir=request.scratch) as folder:
        return _Verify(request, engine, progress or Silent(), folder).run(now())


@dataclass
class _Counts:
    files: int = 0
    size_bytes: int = 0
    files_hashed: int = 0
    bytes_hashed: int = 0
    manifests: int = 0
    readings: list[Reading] = field(default_factory=list)


class _Verify:
    def __init__(
        self, request: VerifyRequest, engine: Engine, progress: Progress, folder: str
    ) -> None:
        self._request = request
        self._engine = engine
        self._progress = progress
        self._folder = folder
        self._run = VerifyRun(request.repository, StorageSpec(folder), request.level)
        self._watch = Stopwatch()
        self._findings = Findings()
        self._counts = _Counts()
        self._folded: set[int] = set()

    def run(self, started_at: datetime) -> VerifyReport:
        """All levels, each on what the one before found whole."""
        level = self._request.level
        with self._watch.phase("documents"):
            self._progress.phase("checking documents")
            selection = Selection(self._request.pit, self._request.tables, self._request.databases)
            documents = check_documents(self._request.repository, selection, self._findings)
        if level >= 3 and documents.entries:
            self._engine.warm_up()
        with self._watch.phase("inventory"):
            results = self._inspect(documents.entries)
        if level >= 3:
            with self._watch.phase("bytes"):
                self._hash([chunk for result in results for chunk in result.to_hash])
        if level >= 4:
            with self._watch.phase("metadata"):
                sums = self._walk([chunk for result in results for chunk in result.to_walk])
        if level >= 5:
            with self._watch.phase("reading"):
                self._read(documents, sums)
        findings = self._with_pits(documents.entries)
        return self._report(documents, started_at, findings)

    def _each(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        """Small work runs here, so that looking at a small repository needs no Spark."""
        if self._is_small:
            return [function(task) for task in tasks]
        return self._engine.run(function, tasks)

    # levels 1 and 2

    def _inspect(self, entries: Sequence[CheckedEntry]) -> list[InspectResult]:
        self._progress.phase("checking inventories and files")
        self._chains = [_chain(item) for item in entries]
        units, rows = _units(self._chains)
        self._is_small = rows <= SMALL_ROWS
        self._slots = max((unit.slot.count for unit in units), default=1)
        tasks = [
            InspectTask(self._run, number, group) for number, group in enumerate(_groups(units))
        ]
        self._groups = [task.units for task in tasks]
        results = self._each(inspect_group, tasks)
        for result in results:
            self._findings.merge(result.findings, result.omitted)
            self._counts.files += result.files
            self._counts.size_bytes += result.size_bytes
        self._check_totals(entries, results, units)
        return results

    def _check_totals(
        self,
        entries: Sequence[CheckedEntry],
        results: Sequence[InspectResult],
        units: Sequence[Unit],
    ) -> None:
        """Shares of an inventory add up to what its entry says; one file is the metadata."""
        found: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
        for result in results:
            for number, share in result.totals.items():
                found[number].append(share)
        slots = {unit.chains[0].object_id: unit.slot.count for unit in units}
        for item in entries:
            shares = found[item.number]
            if len(shares) != slots[item.entry.object_id]:
                continue  # a layer is hurt, which was told
            self._folded.add(item.number)
            files, size_bytes, metadata = (sum(column) for column in zip(*shares, strict=True))
            said = (item.entry.files, item.entry.size_bytes, 1)
            if (files, size_bytes, metadata) != said:
                text = (
                    f"the inventory has {files} files, {size_bytes} bytes and {metadata} metadata "
                    f"documents, the entry says {said[0]}, {said[1]} and {said[2]}"
                )
                self._find(item, text)

    def _find(self, item: CheckedEntry, text: str) -> None:
        name, key = str(item.record.table), item.record.entry.key
        self._findings.add(Finding(1, Severity.ERROR, str(item.pit), name, key, text))

    # level 3

    def _hash(self, chunks: Sequence[Chunk]) -> None:
        files, size_bytes = (sum(c.files for c in chunks), sum(c.size_bytes for c in chunks))
        self._progress.phase("hashing", files, size_bytes)
        if not chunks:
            return
        slots, rate = self._engine.slots, self._request.bytes_per_second
        with listen(self._engine.host, self._progress) as meter:
            tasks = [
                HashTask(self._run, number, bin_, rate / slots if rate else None, meter)
                for number, bin_ in enumerate(bin_chunks(chunks, slots))
            ]
            results = self._engine.run(hash_chunks, tasks)
        for result in results:
            self._findings.merge(result.findings, result.omitted)
            self._counts.files_hashed += result.files
            self._counts.bytes_hashed += result.size_bytes
        self._progress.update(self._counts.files_hashed, self._counts.bytes_hashed)

    # level 4

    def _walk(self, chunks: Sequence[Chunk]) -> dict[int, tuple[SnapshotSum, ...]]:
        self._progress.phase("walking metadata")
        roots = {chain.object_id: chain.roots for chain in self._chains}
        slots = self._engine.slots
        tasks = [
            WalkTask(self._run, number, bin_, roots)
            for number, bin_ in enumerate(bin_chunks(chunks, slots))
        ]
        hurt = {item.key for item in self._findings.items}
        for walked in self._each(walk_manifests, tasks):
            self._merge_unless(hurt, walked.findings, walked.omitted)
            self._counts.manifests += walked.manifests
        sums: dict[int, tuple[SnapshotSum, ...]] = {}
        for followed in self._each(follow_metadata, self._metadata_tasks()):
            self._merge_unless(hurt, followed.findings, followed.omitted)
            sums |= followed.snapshots
        return sums

    def _merge_unless(
        self, hurt: set[str | None], findings: Sequence[Finding], omitted: int
    ) -> None:
        """A file whose bytes are known to be hurt is not told again because it cannot be walked."""
        self._findings.merge(tuple(item for item in findings if item.key not in hurt), omitted)

    def _metadata_tasks(self) -> list[MetadataTask]:
        chains = [chain for chain in self._chains if chain.number in self._folded]
        return [
            MetadataTask(self._run, tuple(chains[start : start + CHAINS_PER_TASK]), self._slots)
            for start in range(0, len(chains), CHAINS_PER_TASK)
        ]

    # level 5

    def _read(self, documents: Documents, sums: Mapping[int, tuple[SnapshotSum, ...]]) -> None:
        self._progress.phase("reading a scratch restore")
        rehearsal = Rehearsal(
            self._request.repository, self._engine, self._folder, self._request.bytes_per_second
        )
        for item in documents.entries:
            if item.number not in self._folded:
                continue
            readings, findings = rehearsal.run(item, sums[item.number])
            self._counts.readings += readings
            self._findings.merge(tuple(findings), 0)
        rehearsal.close()

    # in the end

    def _with_pits(self, entries: Sequence[CheckedEntry]) -> list[Finding]:
        """All findings, each with every point in time that needs what is hurt."""
        pits = {item.number: item.pits for item in entries}
        by_entry = {(str(item.pit), str(item.record.table)): item.pits for item in entries}
        keys = frozenset(item.key for item in self._findings.items if item.key and item.level > 1)
        needs: dict[str, set[PitId]] = defaultdict(set)
        tasks = [NeedTask(self._run, units, keys) for units in self._groups] if keys else []
        for found in self._each(find_needs, tasks):
            for key, number in found:
                needs[key].update(pits[number])
        return [_with_pits(item, needs, by_entry) for item in self._findings.items]

    def _report(
        self, documents: Documents, started_at: datetime, findings: Sequence[Finding]
    ) -> VerifyReport:
        return VerifyReport(
            repository=self._request.repository.location,
            level=self._request.level,
            started_at=started_at,
            pits=documents.pits,
            objects=len({item.entry.object_id for item in documents.entries}),
            findings=tuple(sorted(findings, key=lambda item: item.level)),
            omitted=self._findings.omitted,
            files_checked=self._counts.files,
            bytes_checked=self._counts.size_bytes,
            files_hashed=self._counts.files_hashed,
            bytes_hashed=self._counts.bytes_hashed,
            manifests_walked=self._counts.manifests,
            readings=tuple(self._counts.readings),
            seconds=self._watch.seconds,
        )


def _with_pits(
    finding: Finding,
    needs: Mapping[str, set[PitId]],
    by_entry: Mapping[tuple[str, str], tuple[PitId, ...]],
) -> Finding:
    if finding.pit is None:
        return finding
    own = by_entry.get((finding.pit, finding.object or ""), (PitId(finding.pit),))
    concerned = sorted({*own, *needs.get(finding.key or "", ())})
    return replace(finding, pits=tuple(str(pit) for pit in concerned))


def _chain(item: CheckedEntry) -> Chain:
    entry = item.entry
    return Chain(
        number=item.number,
        pit=str(item.pit),
        object=str(item.record.table),
        type=entry.type,
        object_id=entry.object_id,
        entry_key=item.record.entry.key,
        metadata_location=entry.metadata_location,
        metadata_key=entry.metadata_key,
        metadata_sha256=entry.metadata_sha256,
        roots=entry.roots,
        layers=entry.layers,
        damaged=frozenset(path for snapshot in entry.damaged for path in snapshot["files"]),
        covered=entry.covered,
    )


def _units(chains: Sequence[Chain]) -> tuple[list[Unit], int]:
    """Chains by object, large ones in several slots; and the rows of all layers together."""
    by_object: dict[str, list[Chain]] = defaultdict(list)
    for chain in chains:
        by_object[chain.object_id].append(chain)
    units, total = [], 0
    for found in by_object.values():
        layers = {layer for chain in found for layer in chain.layers}
        total += sum(layer.rows for layer in layers)
        count = max(1, math.ceil(max(_rows(chain) for chain in found) / ROWS_PER_GROUP))
        units += [Unit(tuple(found), Slot(number, count)) for number in range(count)]
    return units, total


def _rows(chain: Chain) -> int:
    return sum(layer.rows for layer in chain.layers)


def _groups(units: Sequence[Unit]) -> list[tuple[Unit, ...]]:
    """Units that one task handles: as many small ones as fit."""
    groups: list[list[Unit]] = []
    room = 0
    for unit in units:
        rows = min(ROWS_PER_GROUP, max(_rows(chain) for chain in unit.chains))
        if not groups or rows > room:
            groups.append([])
            room = ROWS_PER_GROUP
        groups[-1].append(unit)
        room -= rows
    return [tuple(group) for group in groups]
