"""A table's metadata document: parsed without loss, read for its facts, moved to other roots.

Documents are edited, never rebuilt: what this module does not know passes through as it was found.
"""

from __future__ import annotations

import gzip
import itertools
import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

from bcn.errors import MalformedFileError, UnsupportedTableError
from bcn.iceberg.relocate import Moves, lies_under
from bcn.model import Json

PATH_PROPERTIES = (
    "write.data.path",
    "write.metadata.path",
    "write.object-storage.path",
    "write.folder-storage.path",
)

_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_NAMES = (".gz.metadata.json", ".metadata.json.gz")
_MINUS_ZERO = re.compile(r"-0(?![.eE\d])")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")

_Change: TypeAlias = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class NumberText:
    """A number of a document that Python would print otherwise than it was written."""

    text: str


# JSON without loss


def parse_json(data: bytes) -> Any:
    """The value of JSON bytes; what is not an integer stays text. Raises MalformedFileError."""
    try:
        text = data.decode("utf-8-sig")
        return json.loads(
            text,
            parse_float=NumberText,
            parse_int=_parse_integer if _MINUS_ZERO.search(text) else None,
            parse_constant=_refuse_constant,
        )
    except (ValueError, RecursionError) as error:
        raise MalformedFileError(f"not JSON: {error}") from error


def _parse_integer(text: str) -> int | NumberText:
    # A double's default may be written -0, which the integer zero would lose.
    return NumberText(text) if text == "-0" else int(text)


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number in JSON")


def render_json(value: Any) -> bytes:
    """Compact JSON in UTF-8, each number spelled as it was parsed."""
    text = next(filter(None, (_render_with(f"number-{n}:", value) for n in itertools.count())))
    return _LONE_SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text).encode()


def _render_with(marker: str, value: Any) -> str | None:
    """The value as text, or None if one of its own strings holds the marker.

    The encoder cannot print a number as we spell it, so it prints a marked string, and the marks go
    afterwards.
    """
    marked = 0

    def mark(number: object) -> str:
        nonlocal marked
        if not isinstance(number, NumberText):
            raise TypeError(f"{type(number).__name__} has no place in a document")
        marked += 1
        return marker + number.text

    text = json.dumps(
        value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=mark
    )
    if not marked:
        return text
    text, unmarked = re.subn(f'"{marker}([^"]*)"', r"\1", text)
    return text if unmarked == marked else None


def parse_metadata(data: bytes) -> Json:
    """The document in a metadata file, compressed or not. Raises MalformedFileError."""
    document = parse_json(_decompress(data) if data.startswith(_GZIP_MAGIC) else data)
    if not isinstance(document, dict):
        raise MalformedFileError("table metadata is not a JSON object")
    version = document.get("format-version")
    if not isinstance(version, int) or isinstance(version, bool):
        raise MalformedFileError(f"table metadata has no format version, but {version!r}")
    return document


def _decompress(data: bytes) -> bytes:
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise MalformedFileError(f"table metadata is not whole gzip: {error}") from error


def render_metadata(document: Json, *, name: str) -> bytes:
    """The bytes of a metadata file of this name: readers take the compression from the name."""
    data = render_json(document)
    return gzip.compress(data, mtime=0) if name.endswith(_GZIP_NAMES) else data


# what a backup needs to know


def check_supported(document: Json) -> None:
    """Raises UnsupportedTableError for what cannot be kept exactly: other versions, encryption."""
    version = document["format-version"]
    if not 1 <= version <= 3:
        raise UnsupportedTableError(
            f"format version {version} is not one of 1, 2, 3: its files may name others in ways "
            "that bcn does not know, so nothing of this table is backed up"
        )
    mark = next(_iter_encryption_marks(document), None)
    if mark is not None:
        raise UnsupportedTableError(
            f"the table is encrypted ({mark}): its manifests are bound to keys that bcn does not "
            "hold and cannot be rewritten, so nothing of this table is backed up"
        )


def _iter_encryption_marks(document: Json) -> Iterator[str]:
    if document.get("encryption-keys"):
        yield "it has encryption-keys"
    if _properties(document).get("encryption.key-id"):
        yield "property encryption.key-id is set"
    for snapshot in _objects(document, "snapshots"):
        if snapshot.get("key-id") is not None:
            yield f"snapshot {snapshot.get('snapshot-id')} has a key-id"
    for key in ("statistics", "partition-statistics"):
        for file in _objects(document, key):
            if file.get("key-metadata") is not None:
                yield f"{key} of snapshot {file.get('snapshot-id')} have key-metadata"


@dataclass(frozen=True, slots=True)
class SnapshotFacts:
    """One snapshot; `manifests` is how the oldest tables did without a manifest list."""

    snapshot_id: int
    parent_id: int | None
    sequence_number: int | None
    timestamp_ms: int
    manifest_list: str | None
    manifests: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StatisticsFile:
    """A file of statistics; `kind` is `statistics` or `partition_statistics`."""

    location: str
    size_bytes: int | None
    kind: str
    snapshot_id: int


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What a backup needs from a document; locations are exactly as spelled."""

    format_version: int
    uuid: str | None
    location: str
    current_snapshot_id: int | None
    snapshots: tuple[SnapshotFacts, ...]
    refs: Json
    statistics: tuple[StatisticsFile, ...]
    schema_ids: tuple[int, ...]
    current_schema_id: int | None
    specs: tuple[Json, ...]
    sort_order_ids: tuple[int | None, ...]
    properties: Mapping[str, str]
    last_updated_ms: int | None

    @property
    def schema_count(self) -> int:
        """How many versions of the schema the table carries."""
        return len(self.schema_ids)


def read_facts(document: Json) -> TableFacts:
    """The facts of a parsed document. Raises MalformedFileError if one has the wrong type."""
    current = _find(document, "current-snapshot-id", int)
    current = None if current == -1 else current
    schemas = _objects(document, "schemas") or _single(document, "schema")
    return TableFacts(
        format_version=_require(document, "format-version", int),
        uuid=_find(document, "table-uuid", str),
        location=_require(document, "location", str),
        current_snapshot_id=current,
        snapshots=tuple(_read_snapshot(one) for one in _objects(document, "snapshots")),
        refs=_read_refs(document, current),
        statistics=_read_statistics(document),
        schema_ids=tuple(_find(schema, "schema-id", int) or 0 for schema in schemas),
        current_schema_id=_read_current_schema(document),
        specs=_read_specs(document),
        sort_order_ids=tuple(
            _find(order, "order-id", int) for order in _objects(document, "sort-orders")
        ),
        properties=_properties(document),
        last_updated_ms=_find(document, "last-updated-ms", int),
    )


def _read_snapshot(snapshot: Json) -> SnapshotFacts:
    if snapshot.get("manifest-list") == "":
        raise MalformedFileError("a snapshot's manifest-list is empty")
    return SnapshotFacts(
        snapshot_id=_require(snapshot, "snapshot-id", int),
        parent_id=_find(snapshot, "parent-snapshot-id", int),
        sequence_number=_find(snapshot, "sequence-number", int),
        timestamp_ms=_require(snapshot, "timestamp-ms", int),
        manifest_list=_find(snapshot, "manifest-list", str),
        manifests=tuple(_items(snapshot, "manifests", str)),
    )


def _read_refs(document: Json, current: int | None) -> Json:
    refs: Json | None = _find(document, "refs", dict)
    if refs is not None:
        for ref in _items({"refs": list(refs.values())}, "refs", dict):
            _require(ref, "snapshot-id", int)
        return refs
    return {} if current is None else {"main": {"snapshot-id": current, "type": "branch"}}


def _read_statistics(document: Json) -> tuple[StatisticsFile, ...]:
    return tuple(
        StatisticsFile(
            location=_require(file, "statistics-path", str),
            size_bytes=_find(file, "file-size-in-bytes", int),
            kind=key.replace("-", "_"),
            snapshot_id=_require(file, "snapshot-id", int),
        )
        for key in ("statistics", "partition-statistics")
        for file in _objects(document, key)
    )


def _read_current_schema(document: Json) -> int | None:
    current: int | None = _find(document, "current-schema-id", int)
    if current is not None:
        return current
    return next((_find(one, "schema-id", int) for one in _single(document, "schema")), None)


def _read_specs(document: Json) -> tuple[Json, ...]:
    """The partition specs as found; the one of a table from before there were several has id 0."""
    if document.get("partition-specs") is None and document.get("partition-spec") is not None:
        return ({"spec-id": 0, "fields": _items(document, "partition-spec", dict)},)
    specs = _objects(document, "partition-specs")
    for spec in specs:
        _find(spec, "spec-id", int)
    return tuple(specs)


# where its files may lie


def declared_roots(document: Json) -> tuple[str, ...]:
    """Where the table says it writes: its location, then path properties outside of it."""
    properties = _properties(document)
    declared = [_require(document, "location", str)]
    declared += [properties[key] for key in PATH_PROPERTIES if properties.get(key)]
    roots: list[str] = []
    for root in (location.rstrip("/") for location in declared):
        if not any(lies_under(root, earlier) for earlier in roots):
            roots.append(root)
    return tuple(roots)


def paths_in_other_properties(document: Json, roots: Iterable[str]) -> dict[str, str]:
    """Properties that no standard calls a path, but that hold a known root: only to be reported."""
    spellings = "|".join(re.escape(root) for root in roots if root)
    # A root ends where a name cannot go on: `t` is not in `t_backup`, nor in `t.old`.
    held = re.compile(rf"(?:{spellings})(?![\w.%+=~-])") if spellings else None
    return {
        key: value
        for key, value in _properties(document).items()
        if held and key not in PATH_PROPERTIES and held.search(value)
    }


def relocate_metadata(document: Json, moves: Moves, *, uuid: str | None) -> Json:
    """A document that differs in its paths only, and in its uuid if one is given and it has one.

    The log of older metadata files is emptied: they are not restored. Parts without paths are
    shared with the input, which is never changed. Raises UnknownRootError for a path without a
    move, MalformedFileError for a path that is no string.
    """
    read_facts(document)
    statistics = _each({"statistics-path": moves.apply})
    snapshot: dict[str, _Change] = {
        "manifest-list": moves.apply,
        "manifests": lambda paths: [moves.apply(path) for path in paths],
    }
    properties = dict.fromkeys(PATH_PROPERTIES, lambda path: _apply_to_property(path, moves))
    changes: dict[str, _Change] = {
        "location": moves.apply,
        "properties": lambda found: _edit(found, properties),
        "snapshots": _each(snapshot),
        "statistics": statistics,
        "partition-statistics": statistics,
        "metadata-log": lambda _: [],
        "table-uuid": lambda found: found if uuid is None else uuid,
    }
    return _edit(document, changes)


def _apply_to_property(value: Any, moves: Moves) -> Any:
    return moves.apply(value) if isinstance(value, str) and value else value


def _edit(document: Json, changes: Mapping[str, _Change]) -> Json:
    """The document with some values replaced, in the same order; absent and null stay so."""
    return {
        key: changes[key](value) if key in changes and value is not None else value
        for key, value in document.items()
    }


def _each(changes: Mapping[str, _Change]) -> _Change:
    return lambda documents: [_edit(document, changes) for document in documents]


# values of a document, absent and null alike


def _find(document: Json, key: str, kind: type) -> Any:
    value = document.get(key)
    if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
        raise MalformedFileError(f"{key} is {value!r}, not of type {kind.__name__}")
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        raise MalformedFileError(f"{key} is {value}, which 64 bits do not hold")
    return value


def _require(document: Json, key: str, kind: type) -> Any:
    value = _find(document, key, kind)
    if value is None or value == "":
        raise MalformedFileError(f"table metadata has no {key}")
    return value


def _items(document: Json, key: str, kind: type) -> list[Any]:
    items = _find(document, key, list) or []
    for item in items:
        if not isinstance(item, kind):
            raise MalformedFileError(f"{key} holds {item!r}, not of type {kind.__name__}")
    return items


def _objects(document: Json, key: str) -> list[Json]:
    return _items(document, key, dict)


def _single(document: Json, key: str) -> list[Json]:
    value = _find(document, key, dict)
    return [] if value is None else [value]


def _properties(document: Json) -> dict[str, str]:
    properties = _find(document, "properties", dict) or {}
    return {key: value for key, value in properties.items() if isinstance(value, str)}
