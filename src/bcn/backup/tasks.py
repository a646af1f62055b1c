"""What executors are sent in a backup, and what they give back: plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from bcn.engine.chunks import Chunk
from bcn.engine.meter import MeterAddress
from bcn.model import PitId, TableId
from bcn.repository.entry import Layer, LayerPart, Root
from bcn.repository.inventory import Slot
from bcn.storage.protocol import Access, StorageSpec

# One row for each file that a table names, before anything is known of its bytes.
FILE_SCHEMA = pa.schema(
    [
        ("table_no", pa.int32()),
        ("kind", pa.string()),
        ("root_id", pa.int32()),
        ("path", pa.string()),
        ("parent_manifest", pa.string()),
        ("format", pa.string()),
        ("recorded_size_bytes", pa.int64()),
        ("record_count", pa.int64()),
        ("added_snapshot_id", pa.int64()),
    ]
)

# What became of one file that had to be copied.
COPIED_SCHEMA = pa.schema(
    [
        ("table_no", pa.int32()),
        ("root_id", pa.int32()),
        ("path", pa.string()),
        ("key", pa.string()),
        ("size_bytes", pa.int64()),
        ("sha256", pa.binary(32)),
        ("stored_size_bytes", pa.int64()),
        ("source_version", pa.string()),
        ("first_pit", pa.string()),
        ("copied", pa.bool_()),
    ]
)
KNOWN_COLUMNS = ("key", "size_bytes", "sha256", "stored_size_bytes", "source_version", "first_pit")
FILE_IDENTITY = ("table_no", "root_id", "path")
KNOWN_IDENTITY = (*FILE_IDENTITY, "recorded_size_bytes")  # another size: the path was used again


@dataclass(frozen=True, slots=True)
class Failure:
    """Something about one table that went wrong in a task."""

    table_no: int
    error_class: str
    message: str
    location: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class TableRecipe:
    """What a task has to know of one table."""

    number: int
    object_id: str
    table: TableId
    roots: tuple[Root, ...]
    groups: tuple[int, ...]
    parent_layers: tuple[Layer, ...] = ()
    layer_kind: str = "full"
    carries: bool = False  # whether rows of the parent stay; a damaged one only tells known files

    def location(self, root_id: int, path: str) -> str:
        """Where a file is, as the table spells it."""
        return f"{next(root.spelling for root in self.roots if root.id == root_id)}/{path}"


@dataclass(frozen=True, slots=True)
class Run:
    """What all tasks of one round share: where results and scratch go, and for which PIT."""

    repository: StorageSpec
    scratch: StorageSpec
    job: str
    pit: PitId
    catalog: str
    access: Access
    round: int = 1


@dataclass(frozen=True, slots=True)
class ListTask:
    """Manifest lists of one table to read."""

    run: Run
    table_no: int
    lists: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class ManifestRef:
    """A manifest as a manifest list names it."""

    location: str
    length: int | None
    added_snapshot_id: int | None
    live_files: int | None


@dataclass(frozen=True, slots=True)
class ListResult:
    """The manifests that some lists name, each once."""

    table_no: int
    manifests: tuple[ManifestRef, ...]
    failures: tuple[Failure, ...]


@dataclass(frozen=True, slots=True)
class WalkTask:
    """Manifests to decode: (table, location, its name in `parent_manifest`)."""

    run: Run
    number: int
    manifests: tuple[tuple[int, str, str], ...]
    tables: Mapping[int, TableRecipe]


@dataclass(frozen=True, slots=True)
class WalkResult:
    """Rows were written as parts; here is what the driver must know."""

    manifests: int
    rows: int
    externals: tuple[tuple[int, str], ...]
    failures: tuple[Failure, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """A share of files: small tables whole, large ones by slot."""

    number: int
    units: tuple[tuple[int, Slot], ...]


@dataclass(frozen=True, slots=True)
class GroupTask:
    """A group to plan or to seal. `removed` are rows that deltas take away, by table."""

    run: Run
    group: Group
    tables: Mapping[int, TableRecipe]
    removed: Mapping[int, tuple[tuple[str, int, str], ...]]
    hurt: frozenset[int] = frozenset()
    skip_damaged: bool = False


@dataclass(frozen=True, slots=True)
class PlanResult:
    """What a group has to copy, in chunks."""

    chunks: tuple[Chunk, ...]
    files: int
    size_bytes: int
    files_by_table: Mapping[int, tuple[int, int]]
    untouched: frozenset[int]  # tables of which nothing at all is stored yet


@dataclass(frozen=True, slots=True)
class CopyTask:
    """Chunks of files to copy into the repository."""

    run: Run
    number: int
    chunks: tuple[Chunk, ...]
    tables: Mapping[int, TableRecipe]
    untouched: frozenset[int]
    bytes_per_second: float | None
    meter: MeterAddress | None
    small_files: int  # of all tasks, for each slot


@dataclass(frozen=True, slots=True)
class CopyResult:
    """Counts of what was copied, and what could not be."""

    files: int
    size_bytes: int
    files_adopted: int
    bytes_adopted: int
    failures: tuple[Failure, ...]
    fatal: Failure | None = None


@dataclass(frozen=True, slots=True)
class SealedPart:
    """One layer part of one table, and the share of its totals that this slot holds."""

    table_no: int
    part: LayerPart
    files: int
    size_bytes: int
    files_new: int
    bytes_new: int
    odd_sizes: int
    metadata: tuple[str, str] | None  # key and SHA-256 of the metadata document, in one slot
