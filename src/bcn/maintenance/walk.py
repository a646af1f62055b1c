"""Level 4 on executors: stored metadata followed to live files, held against inventories."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from bcn.backup.roots import Roots
from bcn.engine.parts import load_group, load_parts, save_part
from bcn.errors import BcnError, DamagedRepositoryError, MissingKeyError
from bcn.iceberg.history import trim_metadata
from bcn.iceberg.manifest import (
    ManifestEntries,
    decode_manifest,
    decode_manifest_list,
    file_kinds,
)
from bcn.iceberg.metadata import SnapshotFacts, TableFacts, parse_metadata, read_facts
from bcn.maintenance.report import Finding, Findings, Severity
from bcn.maintenance.sums import SUMMED_COLUMNS, numbers_of, sum_by_name
from bcn.maintenance.verify_tasks import (
    FINDINGS_PER_TASK,
    SUM_SCHEMA,
    UNLISTED_SCHEMA,
    WALKED_SCHEMA,
    Chain,
    MetadataResult,
    MetadataTask,
    SnapshotSum,
    WalkResult,
    WalkTask,
    manifests_key,
    sums_prefix,
    unlisted_prefix,
    walked_prefix,
)
from bcn.model import Json, sha256
from bcn.repository.inventory import Slot, load_inventory
from bcn.storage.open import open_storage
from bcn.storage.protocol import Storage

_DELETED = 2


def load_stored(repository: Storage, key: str, digest: str) -> bytes:
    """The bytes of a stored file, digest compared. Raises DamagedRepositoryError."""
    try:
        data = repository.read(key)
    except MissingKeyError:
        raise DamagedRepositoryError(f"stored file {key} is missing") from None
    if sha256(data) != digest:
        raise DamagedRepositoryError(f"stored file {key} is damaged: its SHA-256 does not match")
    return data


def live_rows(entries: ManifestEntries, roots: Roots) -> pa.Table:
    """What a manifest says of its live files, in the columns that are summed up."""
    live = pa.array(entries.status != _DELETED)
    ids, paths = roots.split_all(entries.file_path.filter(live))
    formats = pc.cast(pa.array(entries.file_format), pa.string()).filter(live)
    return pa.table(
        {
            "kind": file_kinds(pa.array(entries.file_content).filter(live), formats),
            "root_id": pa.array(ids, pa.int32()),
            "path": paths,
            "recorded_size_bytes": pa.array(entries.file_size_bytes).filter(live),
            "record_count": pa.array(entries.record_count).filter(live),
        }
    )


# manifests, each decoded once


def walk_manifests(task: WalkTask) -> WalkResult:
    """Decode some manifests; their sums are written as a part for each object."""
    repository, scratch = open_storage(task.run.repository), open_storage(task.run.scratch)
    findings, walked = Findings(FINDINGS_PER_TASK), defaultdict(list)
    roots = {object_id: Roots(known) for object_id, known in task.roots.items()}
    for chunk in task.chunks:
        for row in load_group(scratch, manifests_key(chunk.group), chunk.row_group).to_pylist():
            try:
                data = load_stored(repository, row["key"], row["sha256"].hex())
                sums = _sums(row, live_rows(decode_manifest(data), roots[row["object_id"]]))
            except BcnError as error:
                text = f"stored manifest {row['key']} cannot be walked: {error}"
                findings.add(
                    Finding(4, Severity.ERROR, row["pit"], row["object"], row["key"], text)
                )
                continue
            walked[row["object_id"]].append(sums)
    for object_id, tables in walked.items():
        key = f"{walked_prefix(object_id)}{task.number:06d}.parquet"
        save_part(scratch, key, pa.concat_tables(tables))
    count = sum(len(tables) for tables in walked.values())
    return WalkResult(tuple(findings.items), findings.omitted, count)


def _sums(row: Json, live: pa.Table) -> pa.Table:
    sums = sum_by_name([row["name"]] * live.num_rows, numbers_of(live))
    is_data = pc.equal(live["kind"], "data")
    return pa.table(
        {
            "name": [row["name"]],
            "files": [live.num_rows],
            "sum": pa.array(sums["sum"].to_pylist() or [0], pa.uint64()),
            "records": [pc.sum(live["record_count"].filter(is_data)).as_py() or 0],
            "delete_files": [live.num_rows - (pc.sum(is_data).as_py() or 0)],
            "key": [row["key"]],
        }
    ).cast(WALKED_SCHEMA)


# entries


def follow_metadata(task: MetadataTask) -> MetadataResult:
    """Follow the stored metadata of some entries and hold it against their inventories."""
    findings = Findings(FINDINGS_PER_TASK)
    snapshots = {}
    for chain in task.chains:
        follower = _Follower(task, chain, findings)
        snapshots[chain.number] = tuple(follower.follow())
    return MetadataResult(tuple(findings.items), findings.omitted, snapshots)


@dataclass
class _Named:
    """Files that the metadata names: (kind, root, path) to the recorded size."""

    files: dict[tuple[str, int, str], int | None] = field(default_factory=dict)
    by_snapshot: dict[int, list[str]] = field(default_factory=dict)
    hurt_snapshots: set[int] = field(default_factory=set)


class _Follower:
    """One entry's way from its metadata document down."""

    def __init__(self, task: MetadataTask, chain: Chain, findings: Findings) -> None:
        self._chain = chain
        self._slots = task.slots
        self._findings = findings
        self._repository = open_storage(task.run.repository)
        self._roots = Roots(chain.roots)
        scratch = open_storage(task.run.scratch)
        rows = load_parts(scratch, unlisted_prefix(chain), UNLISTED_SCHEMA).to_pylist()
        self._unlisted = {(row["kind"], row["root_id"], row["path"]): row for row in rows}
        self._sums = _by_name(load_parts(scratch, sums_prefix(chain), SUM_SCHEMA))
        walked = load_parts(scratch, walked_prefix(chain.object_id), WALKED_SCHEMA)
        self._walked = {(row["name"], row["key"]): row for row in walked.to_pylist()}
        self._named = _Named()

    def follow(self) -> Iterator[SnapshotSum]:
        """Check everything; what every snapshot holds."""
        chain = self._chain
        try:
            document = parse_metadata(
                load_stored(self._repository, chain.metadata_key, chain.metadata_sha256)
            )
            covered = None if chain.covered is None else frozenset(chain.covered)
            facts = None if chain.type == "view" else read_facts(trim_metadata(document, covered))
        except BcnError as error:
            self._find(chain.metadata_key, f"stored metadata cannot be followed: {error}")
            return
        self._name("metadata", chain.metadata_location)
        for snapshot in facts.snapshots if facts else ():
            self._name_snapshot(snapshot)
        for file in facts.statistics if facts else ():
            self._name(file.kind, file.location, file.size_bytes)
        self._check_unnamed()
        self._check_manifests()
        yield from self._snapshot_sums(facts)

    def _find(self, key: str, text: str, severity: Severity = Severity.ERROR) -> None:
        self._findings.add(Finding(4, severity, self._chain.pit, self._chain.object, key, text))

    # what the metadata names

    def _name(self, kind: str, location: str, size_bytes: int | None = None) -> Json | None:
        """The inventory's row for a file that the metadata names; a missing one is a finding."""
        place = self._roots.find(location)
        row = None if place is None else self._unlisted.get((kind, *place))
        if row is not None and place is not None:
            self._named.files[(kind, *place)] = size_bytes
            if size_bytes is not None and row["recorded_size_bytes"] != size_bytes:
                text = f"the metadata says {size_bytes} bytes for {location}, not what was recorded"
                self._find(row["key"], text)
        elif location not in self._chain.damaged:
            why = "has no root of the entry" if place is None else "is not in the inventory"
            self._find(self._chain.entry_key, f"{kind} {location} {why}")
        return row

    def _name_snapshot(self, snapshot: SnapshotFacts) -> None:
        manifests: list[tuple[str, int | None]] = [(path, None) for path in snapshot.manifests]
        if snapshot.manifest_list is not None:
            manifests += self._read_list(snapshot, snapshot.manifest_list)
        names = self._named.by_snapshot.setdefault(snapshot.snapshot_id, [])
        for location, length in manifests:
            row = self._name("manifest", location, length)
            if row is None:
                self._named.hurt_snapshots.add(snapshot.snapshot_id)
            else:
                names.append(f"r{row['root_id']}/{row['path']}")

    def _read_list(self, snapshot: SnapshotFacts, location: str) -> list[tuple[str, int | None]]:
        row = self._name("manifest_list", location)
        if row is None:
            self._named.hurt_snapshots.add(snapshot.snapshot_id)
            return []
        try:
            data = load_stored(self._repository, row["key"], row["sha256"].hex())
            rows = decode_manifest_list(data)
        except BcnError as error:
            self._find(row["key"], f"stored manifest list {row['key']} cannot be walked: {error}")
            self._named.hurt_snapshots.add(snapshot.snapshot_id)
            return []
        return list(zip(rows.manifest_path, rows.manifest_length, strict=True))

    def _check_unnamed(self) -> None:
        for place in self._unlisted.keys() - self._named.files.keys():
            kind, root_id, path = place
            text = f"nothing in the stored metadata names {kind} r{root_id}/{path}"
            self._find(self._unlisted[place]["key"], text, Severity.WARNING)

    # what the manifests list

    def _manifests(self) -> dict[str, str]:
        """Names and keys of the manifests that the metadata names."""
        rows = (self._unlisted[place] for place in self._named.files if place[0] == "manifest")
        return {f"r{row['root_id']}/{row['path']}": row["key"] for row in rows}

    def _check_manifests(self) -> None:
        manifests = self._manifests()
        for name in self._sums.keys() - manifests.keys():
            text = f"the inventory has files of manifest {name}, which the metadata does not name"
            self._find(self._chain.entry_key, text)
        odd = {
            name: key
            for name, key in manifests.items()
            if (name, key) in self._walked
            and self._sums.get(name, (0, 0)) != _sum_of(self._walked[name, key])
        }
        if odd:
            self._explain(odd)

    def _explain(self, manifests: Mapping[str, str]) -> None:
        """Name the files by which manifests and inventory differ."""
        known = self._inventory_rows(manifests)
        for name, key in manifests.items():
            data = self._repository.read(key)
            listed = Counter(_tuples(live_rows(decode_manifest(data), self._roots)))
            for row in listed - known[name]:
                location = self._location(row)
                if location not in self._chain.damaged:
                    self._find(
                        key, f"manifest {key} lists {location}: {self._lacking(row, known[name])}"
                    )
            for row in known[name] - listed:
                if not any(row[:3] == other[:3] for other in listed):
                    self._find(key, f"manifest {key} does not list {self._location(row)} any more")

    def _lacking(self, row: tuple[object, ...], known: Iterable[tuple[object, ...]]) -> str:
        if any(row[1:3] == other[1:3] for other in known):
            return "the inventory has another kind, size or count of records for it"
        return "it is not in the inventory"

    def _inventory_rows(
        self, manifests: Mapping[str, str]
    ) -> dict[str, Counter[tuple[object, ...]]]:
        found: dict[str, Counter[tuple[object, ...]]] = defaultdict(Counter)
        wanted = pa.array(list(manifests), pa.string())
        for number in range(self._slots):
            slot = Slot(number, self._slots)
            rows = load_inventory(self._repository, self._chain.layers, slot)
            rows = rows.filter(pc.is_in(rows["parent_manifest"], wanted))
            names = rows["parent_manifest"].to_pylist()
            for name, row in zip(names, _tuples(rows), strict=True):
                found[name][row] += 1
        return found

    def _location(self, row: tuple[object, ...]) -> str:
        spellings = {root.id: root.spelling for root in self._chain.roots}
        _, root_id, path = row[:3]
        return f"{spellings[root_id]}/{path}" if root_id in spellings else str(path)

    # what snapshots hold

    def _snapshot_sums(self, facts: TableFacts | None) -> Iterator[SnapshotSum]:
        keys = self._manifests()
        for snapshot in facts.snapshots if facts else ():
            names = self._named.by_snapshot[snapshot.snapshot_id]
            walked = [self._walked.get((name, keys[name])) for name in names]
            whole = [item for item in walked if item is not None]
            is_hurt = snapshot.snapshot_id in self._named.hurt_snapshots
            yield SnapshotSum(
                snapshot.snapshot_id,
                sum(item["records"] for item in whole),
                sum(item["delete_files"] for item in whole),
                len(whole) == len(walked) and not is_hurt,
            )


def _by_name(sums: pa.Table) -> dict[str, tuple[int, int]]:
    """Count and sum by name; shares of several slots are added up."""
    found: dict[str, tuple[int, int]] = {}
    for row in sums.to_pylist():
        files, total = found.get(row["name"], (0, 0))
        found[row["name"]] = (files + row["files"], (total + row["sum"]) % (1 << 64))
    return found


def _sum_of(walked: Json) -> tuple[int, int]:
    return walked["files"], walked["sum"]


def _tuples(rows: pa.Table) -> Iterator[tuple[object, ...]]:
    return zip(*(rows[name].to_pylist() for name in SUMMED_COLUMNS), strict=True)
