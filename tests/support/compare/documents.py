"""G2: a restored metadata.json says what the source's said, with every location moved."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.compare.paths import Difference, Moves

Json = Any
_PATH_PROPERTIES = (
    "write.data.path",
    "write.metadata.path",
    "write.object-storage.path",
    "write.folder-storage.path",
)
_PATH_KEYS = ("manifest-list", "statistics-path")
_ABSENT = "<absent>"


@dataclass(frozen=True)
class Policy:
    """What a restore may do on purpose: properties it adds, and ones whose old paths it keeps."""

    added_properties: frozenset[str] = frozenset()
    kept_properties: frozenset[str] = frozenset()
    same_uuid: bool = False


def load_document(path: Path) -> Json:
    """The JSON of a metadata file, gzip or not; numbers with a point stay text, digit by digit."""
    data = path.read_bytes()
    text = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    return json.loads(text, parse_float=str)


def check_document(source: Json, restored: Json, moves: Moves, policy: Policy) -> list[Difference]:
    """Every key, in order, with its value; `table-uuid` and `metadata-log` are policy."""
    expected = dict(source) if policy.same_uuid else _without(source, "table-uuid")
    found = dict(restored) if policy.same_uuid else _without(restored, "table-uuid")
    expected, found = _without(expected, "metadata-log"), _without(found, "metadata-log")
    expected = _moved(expected, moves)
    found = {**found, "properties": _judged_properties(expected, found, policy)}
    if "properties" not in restored:
        found.pop("properties")
    uuid = _uuid_difference(source, restored)
    return [*uuid, *(Difference("G2", where, what) for where, what in _diff("", expected, found))]


def _without(document: Json, key: str) -> Json:
    return {name: value for name, value in document.items() if name != key}


def _uuid_difference(source: Json, restored: Json) -> list[Difference]:
    """A table without a uuid does not get one by being restored (T03)."""
    if ("table-uuid" in source) == ("table-uuid" in restored):
        return []
    return [Difference("G2", "table-uuid", "there on one side only")]


def _judged_properties(expected: Json, found: Json, policy: Policy) -> Json:
    wanted = expected.get("properties", {})
    properties = found.get("properties", {})
    return {
        key: value
        for key, value in properties.items()
        if key in wanted or key not in policy.added_properties
    }


def _moved(document: Json, moves: Moves) -> Json:
    """The source's document as a right restore would have written it."""
    moved = _move_keys({**document, "properties": None}, moves)
    if "location" in moved:
        moved["location"] = moves.apply(moved["location"])
    if "properties" not in document:
        return _without(moved, "properties")
    properties = {
        key: moves.apply(value) if key in _PATH_PROPERTIES else value
        for key, value in document["properties"].items()
    }
    return {**moved, "properties": properties}


def _move_keys(value: Json, moves: Moves) -> Json:
    if isinstance(value, list):
        return [_move_keys(item, moves) for item in value]
    if not isinstance(value, dict):
        return value
    return {key: _move_value(key, item, moves) for key, item in value.items()}


def _move_value(key: str, value: Json, moves: Moves) -> Json:
    if key in _PATH_KEYS and isinstance(value, str):
        return moves.apply(value)
    if key == "manifests" and isinstance(value, list):
        return [moves.apply(item) for item in value]
    return _move_keys(value, moves)


def _diff(where: str, expected: Json, found: Json) -> Iterator[tuple[str, str]]:
    if isinstance(expected, dict) and isinstance(found, dict):
        yield from _diff_objects(where, expected, found)
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for index, (left, right) in enumerate(zip(expected, found, strict=True)):
            yield from _diff(f"{where}[{index}]", left, right)
    elif expected != found or type(expected) is not type(found):
        yield where, f"expected {_short(expected)}, found {_short(found)}"


def _diff_objects(where: str, expected: Json, found: Json) -> Iterator[tuple[str, str]]:
    for key in {**expected, **found}:
        if key not in expected or key not in found:
            left, right = expected.get(key, _ABSENT), found.get(key, _ABSENT)
            yield f"{where}/{key}", f"expected {_short(left)}, found {_short(right)}"
        else:
            yield from _diff(f"{where}/{key}", expected[key], found[key])
    if list(expected) != list(found) and set(expected) == set(found):
        yield where, "the keys are in another order"


def _short(value: Json) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}…"
