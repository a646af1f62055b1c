"""What executors are sent in a verification, and what they give back: plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from bcn.engine.chunks import Chunk
from bcn.engine.meter import MeterAddress
from bcn.maintenance.report import Finding
from bcn.repository.entry import Layer, Root
from bcn.repository.inventory import Slot
from bcn.storage.protocol import StorageSpec

FINDINGS_PER_TASK = 1000

# A stored file whose bytes are to be hashed, or a manifest that is to be decoded.
FILE_SCHEMA = pa.schema(
    [
        ("object_id", pa.string()),
        ("name", pa.string()),
        ("key", pa.string()),
        ("sha256", pa.binary(32)),
        ("size_bytes", pa.int64()),
        ("pit", pa.string()),
        ("object", pa.string()),
    ]
)

# Files that no manifest lists, of one entry.
UNLISTED_SCHEMA = pa.schema(
    [
        ("kind", pa.string()),
        ("root_id", pa.int32()),
        ("path", pa.string()),
        ("key", pa.string()),
        ("sha256", pa.binary(32)),
        ("recorded_size_bytes", pa.int64()),
    ]
)

# How many live files a manifest lists and what they sum up to: in an inventory, and as decoded.
SUM_SCHEMA = pa.schema([("name", pa.string()), ("files", pa.int64()), ("sum", pa.uint64())])
WALKED_SCHEMA = pa.schema(
    [*SUM_SCHEMA, ("records", pa.int64()), ("delete_files", pa.int64()), ("key", pa.string())]
)


@dataclass(frozen=True, slots=True)
class Chain:
    """One entry, as tasks have to know it."""

    number: int
    pit: str
    object: str
    type: str
    object_id: str
    entry_key: str
    metadata_location: str
    metadata_key: str
    metadata_sha256: str
    roots: tuple[Root, ...]
    layers: tuple[Layer, ...]
    damaged: frozenset[str]
    covered: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Unit:
    """All chains of one object, oldest first, and the share of their files to look at."""

    chains: tuple[Chain, ...]
    slot: Slot


@dataclass(frozen=True, slots=True)
class VerifyRun:
    """What all tasks share."""

    repository: StorageSpec
    scratch: StorageSpec
    level: int


@dataclass(frozen=True, slots=True)
class InspectTask:
    """Units whose inventories are to be folded and checked."""

    run: VerifyRun
    group: int
    units: tuple[Unit, ...]


@dataclass(frozen=True, slots=True)
class InspectResult:
    """Counts of distinct stored files; totals and metadata rows by chain; work for later levels."""

    findings: tuple[Finding, ...]
    omitted: int
    files: int
    size_bytes: int
    totals: Mapping[int, tuple[int, int, int]]
    to_hash: tuple[Chunk, ...]
    to_walk: tuple[Chunk, ...]


@dataclass(frozen=True, slots=True)
class NeedTask:
    """Keys that are hurt, and units that may need them."""

    run: VerifyRun
    units: tuple[Unit, ...]
    keys: frozenset[str]


@dataclass(frozen=True, slots=True)
class HashTask:
    """Chunks of files to hash."""

    run: VerifyRun
    number: int
    chunks: tuple[Chunk, ...]
    bytes_per_second: float | None
    meter: MeterAddress | None


@dataclass(frozen=True, slots=True)
class HashResult:
    """What was hashed."""

    findings: tuple[Finding, ...]
    omitted: int
    files: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class WalkTask:
    """Chunks of manifests to decode, with the roots of their objects."""

    run: VerifyRun
    number: int
    chunks: tuple[Chunk, ...]
    roots: Mapping[str, tuple[Root, ...]]


@dataclass(frozen=True, slots=True)
class WalkResult:
    """How many manifests were decoded; what they list was written as parts."""

    findings: tuple[Finding, ...]
    omitted: int
    manifests: int


@dataclass(frozen=True, slots=True)
class MetadataTask:
    """Entries whose stored metadata is to be followed; their files in so many slots."""

    run: VerifyRun
    chains: tuple[Chain, ...]
    slots: int


@dataclass(frozen=True, slots=True)
class SnapshotSum:
    """A snapshot as the stored manifests give it; not whole if a file of it was damaged."""

    snapshot_id: int
    records: int
    delete_files: int
    is_whole: bool


@dataclass(frozen=True, slots=True)
class MetadataResult:
    """What is wrong, and what every snapshot of every chain holds."""

    findings: tuple[Finding, ...]
    omitted: int
    snapshots: Mapping[int, tuple[SnapshotSum, ...]]


def hash_key(group: int) -> str:
    """Where the files of a group that are to be hashed stand."""
    return f"hash/{group:06d}.parquet"


def manifests_key(group: int) -> str:
    """Where the manifests of a group that are to be decoded stand."""
    return f"manifests/{group:06d}.parquet"


def unlisted_prefix(chain: Chain) -> str:
    """Where the files of an entry that no manifest lists stand, a part for each slot."""
    return f"unlisted/{chain.number:06d}/"


def sums_prefix(chain: Chain) -> str:
    """Where the sums of an entry's inventory stand, a part for each slot."""
    return f"sums/{chain.number:06d}/"


def walked_prefix(object_id: str) -> str:
    """Where the sums of an object's decoded manifests stand."""
    return f"walked/{object_id}/"
