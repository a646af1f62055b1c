"""What executors are sent in a restore, and what they give back: plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from bcn.engine.chunks import Chunk
from bcn.engine.meter import MeterAddress
from bcn.errors import BcnError
from bcn.iceberg.relocate import Moves
from bcn.repository.entry import Layer, Root
from bcn.repository.inventory import Slot
from bcn.storage.protocol import Access, StorageSpec

# Files by what is done with them, in the order it must happen.
COPY, DELETES, MANIFESTS, LISTS = "copy", "deletes", "manifests", "lists"
STEPS = (COPY, DELETES, MANIFESTS, LISTS)
STEP_OF_KIND = {
    "position_deletes": DELETES,
    "deletion_vectors": DELETES,
    "manifest": MANIFESTS,
    "manifest_list": LISTS,
}

PLAN_SCHEMA = pa.schema(
    [
        ("table_no", pa.int32()),
        ("kind", pa.string()),
        ("location", pa.string()),
        ("target", pa.string()),
        ("format", pa.string()),
        ("key", pa.string()),
        ("size_bytes", pa.int64()),
        ("recorded_size_bytes", pa.int64()),
        ("sha256", pa.binary(32)),
    ]
)

# What became of a file that was rewritten.
REWRITTEN_SCHEMA = pa.schema(
    [
        ("table_no", pa.int32()),
        ("location", pa.string()),
        ("size_bytes", pa.int64()),
        ("lower", pa.string()),
        ("upper", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class RestoreRecipe:
    """What a task has to know of one table."""

    number: int
    roots: tuple[Root, ...]
    layers: tuple[Layer, ...]
    moves: Moves
    damaged: frozenset[str]

    def location(self, root_id: int, path: str) -> str:
        """Where a file was."""
        spelling = next(root.spelling for root in self.roots if root.id == root_id)
        return f"{spelling}/{path}"


@dataclass(frozen=True, slots=True)
class RestoreRun:
    """What all tasks share."""

    repository: StorageSpec
    scratch: StorageSpec
    access: Access


@dataclass(frozen=True, slots=True)
class PlanTask:
    """A share of files to sort by what must be done with them."""

    run: RestoreRun
    group: int
    units: tuple[tuple[int, Slot], ...]
    tables: Mapping[int, RestoreRecipe]


@dataclass(frozen=True, slots=True)
class PlanResult:
    """Chunks of work by step; files whose size is not what the table's metadata says, as found."""

    chunks: Mapping[str, tuple[Chunk, ...]]
    odd_sizes: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class StepTask:
    """Chunks of one step."""

    run: RestoreRun
    step: str
    number: int
    chunks: tuple[Chunk, ...]
    tables: Mapping[int, RestoreRecipe]
    odd_sizes: Mapping[str, int]
    bytes_per_second: float | None = None
    meter: MeterAddress | None = None


@dataclass(frozen=True, slots=True)
class StepResult:
    """Counts, and the error that ended the task, if one did."""

    files: int = 0
    size_bytes: int = 0
    files_adopted: int = 0
    bytes_adopted: int = 0
    error: BcnError | None = None
