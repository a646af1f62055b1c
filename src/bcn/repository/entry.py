"""A table or view as of a PIT: a write-once document, reused while the object is unchanged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bcn.errors import DamagedRepositoryError
from bcn.model import Json, PitId, TableId
from bcn.repository.document import VERSION, parse_document

ALL = "all"


@dataclass(frozen=True, slots=True)
class LayerPart:
    """One Parquet file of a layer."""

    key: str
    sha256: str
    size_bytes: int
    rows: int


@dataclass(frozen=True, slots=True)
class Layer:
    """One inventory of an object's files: full, or a delta against the layers before it."""

    kind: str
    pit: PitId
    parts: tuple[LayerPart, ...]

    @property
    def rows(self) -> int:
        """Rows of all parts."""
        return sum(part.rows for part in self.parts)


@dataclass(frozen=True, slots=True)
class Root:
    """A prefix of a table's locations, as spelled; its id is never given to another spelling."""

    id: int
    spelling: str


@dataclass(frozen=True, slots=True)
class Entry:
    """What a PIT says of one object. `table_facts` is for listing: versions, refs, properties."""

    object_id: str
    type: str
    uuid: str | None
    table: TableId
    pit: PitId
    metadata_location: str
    metadata_key: str
    metadata_sha256: str
    metadata_version: str
    roots: tuple[Root, ...]
    layers: tuple[Layer, ...]
    files: int
    size_bytes: int
    damaged: tuple[Mapping[str, Any], ...]
    table_facts: Mapping[str, Any]
    history: str = ALL
    covered: tuple[int, ...] | None = None  # ids of the snapshots that are kept; None for all

    def spelling(self, root_id: int) -> str:
        """The root with this id."""
        return next(root.spelling for root in self.roots if root.id == root_id)


def render_entry(entry: Entry) -> Json:
    """The stored form, docs/format.md 4.4."""
    return {
        "version": VERSION,
        "object_id": entry.object_id,
        "type": entry.type,
        "uuid": entry.uuid,
        "name": str(entry.table),
        "namespace": list(entry.table.namespace),
        "table": entry.table.name,
        "pit": str(entry.pit),
        "metadata_location": entry.metadata_location,
        "metadata_key": entry.metadata_key,
        "metadata_sha256": entry.metadata_sha256,
        "metadata_version": entry.metadata_version,
        **entry.table_facts,
        "roots": [{"id": root.id, "spelling": root.spelling} for root in entry.roots],
        "coverage": {
            "history": entry.history,
            "snapshots": ALL if entry.covered is None else [str(item) for item in entry.covered],
            "excluded": "none",
            "damaged": list(entry.damaged),
        },
        "layers": [_render_layer(layer) for layer in entry.layers],
        "totals": {"files": entry.files, "bytes": entry.size_bytes},
    }


def _render_layer(layer: Layer) -> Json:
    parts = [
        {"key": part.key, "sha256": part.sha256, "size_bytes": part.size_bytes, "rows": part.rows}
        for part in layer.parts
    ]
    return {"kind": layer.kind, "pit": str(layer.pit), "rows": layer.rows, "parts": parts}


FACT_KEYS = (
    "format_version",
    "schemas",
    "current_schema_id",
    "partition_specs",
    "sort_orders",
    "current_snapshot_id",
    "refs",
    "snapshots",
    "properties",
)


def parse_entry(data: bytes, key: str) -> Entry:
    """From the stored form. Raises DamagedRepositoryError."""
    document = parse_document(data, key)
    try:
        return _read_entry(document)
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedRepositoryError(f"{key} is not a whole entry: {error!r}") from error


def _read_entry(document: Json) -> Entry:
    return Entry(
        object_id=document["object_id"],
        type=document["type"],
        uuid=document["uuid"],
        table=TableId(tuple(document["namespace"]), document["table"]),
        pit=PitId(document["pit"]),
        metadata_location=document["metadata_location"],
        metadata_key=document["metadata_key"],
        metadata_sha256=document["metadata_sha256"],
        metadata_version=document["metadata_version"],
        roots=tuple(Root(root["id"], root["spelling"]) for root in document["roots"]),
        layers=tuple(_read_layer(layer) for layer in document["layers"]),
        files=document["totals"]["files"],
        size_bytes=document["totals"]["bytes"],
        damaged=tuple(document["coverage"]["damaged"]),
        table_facts={key: document[key] for key in FACT_KEYS if key in document},
        history=document["coverage"].get("history", ALL),
        covered=_read_covered(document["coverage"]["snapshots"]),
    )


def _read_covered(value: str | list[str]) -> tuple[int, ...] | None:
    return None if value == ALL else tuple(int(item) for item in value)


def _read_layer(document: Json) -> Layer:
    parts = tuple(
        LayerPart(part["key"], part["sha256"], part["size_bytes"], part["rows"])
        for part in document["parts"]
    )
    return Layer(document["kind"], PitId(document["pit"]), parts)
