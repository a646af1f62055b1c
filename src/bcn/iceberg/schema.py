"""Avro schemas as small trees: names resolved, wrappers gone, the smallest sizes known."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bcn.errors import MalformedFileError

VARINTS = frozenset({"int", "long", "enum"})
BYTES = frozenset({"string", "bytes"})
_FIXED = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_PRIMITIVES = frozenset({"int", "long"}) | BYTES | _FIXED.keys()
_DEEPEST = 60
INFINITE = 2**62  # the smallest size of a type that no finite bytes can hold


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a record; Iceberg gives it an id."""

    name: str
    field_id: int | None
    type: Node


@dataclass(slots=True)
class Node:
    """One type. `kind` is Avro's word for it, or `union`, or `reference` to the record `name`.

    A `fixed` is plain if it has bytes and no logical type says what they mean.
    """

    kind: str
    name: str = ""
    size_bytes: int = 0
    plain: bool = False
    parts: list[Node] = field(default_factory=list)  # branches, items or values
    fields: list[Field] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Schema:
    """A record at the top, every record by its full name, and the fewest bytes each can take."""

    top: Node
    records: Mapping[str, Node]
    smallest: Mapping[str, int]
    has_plain_fixed: bool

    def smallest_size(self, node: Node) -> int:
        """The fewest bytes a value can take. Zero means that it never takes any."""
        return _smallest(node, self.smallest)


def parse_schema(text: bytes) -> Schema:
    """Parse a file's schema. Raises MalformedFileError for a text that is no schema of records."""
    try:
        parser = _Parser()
        top = parser.parse(json.loads(text), "", 0)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise MalformedFileError(f"an Avro schema is not understood: {error!r}") from error
    if top.kind != "record":
        raise MalformedFileError(f"an Avro schema is of {top.kind}, not of records")
    plain = any(leaf.plain for leaf in parser.leaves.values())
    return Schema(top, parser.records, _smallest_sizes(parser.records), plain)


class _Parser:
    """Reads types in the order of the text; a name is known from the start of its definition."""

    def __init__(self) -> None:
        self.records: dict[str, Node] = {}
        self.leaves: dict[str, Node] = {}

    def parse(self, schema: Any, namespace: str, depth: int) -> Node:
        """One type, as found inside the namespace."""
        if depth > _DEEPEST:
            raise ValueError("types are nested too deeply")
        if isinstance(schema, str):
            return self.named(schema, namespace)
        if isinstance(schema, list):
            return Node("union", parts=[self.parse(part, namespace, depth + 1) for part in schema])
        kind = schema["type"]
        if kind in ("array", "map"):
            part = schema["items" if kind == "array" else "values"]
            return Node(kind, parts=[self.parse(part, namespace, depth + 1)])
        if kind in ("record", "error", "enum", "fixed"):
            return self.define(kind, schema, namespace, depth)
        return self.parse(kind, namespace, depth + 1)  # {"type": X}, perhaps with a logical type

    def named(self, name: str, namespace: str) -> Node:
        """A primitive, or what was defined under the name before."""
        if name in _PRIMITIVES:
            return Node(name, size_bytes=_FIXED.get(name, 0))
        for full in (_full_name(name, namespace), name):
            if full in self.leaves:
                return self.leaves[full]
            if full in self.records:
                return Node("reference", name=full)
        raise ValueError(f"no type has the name {name!r}")

    def define(self, kind: str, schema: Mapping[str, Any], namespace: str, depth: int) -> Node:
        """A record, an enum or a fixed; others may refer to it from now on."""
        full = _full_name(schema["name"], schema.get("namespace", namespace))
        if kind in ("enum", "fixed"):
            node = Node(kind, name=full, size_bytes=_size(schema) if kind == "fixed" else 0)
            node.plain = node.size_bytes > 0 and "logicalType" not in schema
            self.leaves[full] = node
            return node
        node = self.records[full] = Node("record", name=full)
        inner = full.rpartition(".")[0]
        for each in schema["fields"]:
            part = self.parse(each["type"], inner, depth + 1)
            node.fields.append(Field(each["name"], each.get("field-id"), part))
        return node


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _size(schema: Mapping[str, Any]) -> int:
    size = schema["size"]
    if not isinstance(size, int) or not 0 <= size < 2**31:
        raise ValueError(f"a fixed cannot have the size {size!r}")
    return size


def _smallest_sizes(records: Mapping[str, Node]) -> dict[str, int]:
    """Start from infinite and shrink until nothing changes: records may hold themselves."""
    sizes = dict.fromkeys(records, INFINITE)
    while True:
        better = {name: _smallest(record, sizes) for name, record in records.items()}
        if better == sizes:
            return sizes
        sizes = better


def _smallest(node: Node, sizes: Mapping[str, int]) -> int:
    if node.kind == "reference":
        return sizes[node.name]
    if node.kind == "record":
        return min(sum(_smallest(each.type, sizes) for each in node.fields), INFINITE)
    if node.kind == "union":
        return min([INFINITE, *(1 + _smallest(part, sizes) for part in node.parts)])
    if node.kind == "fixed" or node.kind in _FIXED:
        return node.size_bytes
    return 1
