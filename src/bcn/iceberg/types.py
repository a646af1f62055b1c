"""Types of columns, and the format version from which on a table may have them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from bcn.model import Json

_SINCE = {
    **dict.fromkeys(
        (
            "boolean",
            "int",
            "long",
            "float",
            "double",
            "decimal",
            "date",
            "time",
            "timestamp",
            "timestamptz",
            "string",
            "uuid",
            "fixed",
            "binary",
            "struct",
            "list",
            "map",
        ),
        1,
    ),
    **dict.fromkeys(
        ("unknown", "timestamp_ns", "timestamptz_ns", "variant", "geometry", "geography"), 3
    ),
}
_WORD = re.compile(r"\w+")


def odd_types(document: Json) -> list[str]:
    """Types in a table's schemas that its format version does not have, sorted."""
    version = document.get("format-version")
    schemas = document.get("schemas") or [document.get("schema")]
    found = {name for schema in schemas for name in _iter_types(schema)}
    newest = version if isinstance(version, int) else 0
    return sorted(name for name in found if _since(name) > newest)


def _since(name: str) -> int:
    word = _WORD.match(name)
    return _SINCE.get(word[0] if word else name, 1 << 30)


def _iter_types(found: object) -> Iterator[str]:
    """Types by name, from the innermost out; a nested one is an object with a `type`."""
    if isinstance(found, str):
        yield found
    if not isinstance(found, dict):
        return
    yield from _iter_types(found.get("type"))
    for field in found.get("fields") or ():
        yield from _iter_types(field.get("type") if isinstance(field, dict) else None)
    for key in ("element", "key", "value"):
        yield from _iter_types(found.get(key))
