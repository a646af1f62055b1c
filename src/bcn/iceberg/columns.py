"""Columns of a schema by field id: their names, types and what two versions of them differ in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from bcn.model import Json, quote_name

_NESTED = ("struct", "list", "map")


@dataclass(frozen=True, slots=True)
class Change:
    """One difference. `before` and `after` are texts for people, None where there was nothing."""

    aspect: str
    action: str
    name: str | None = None
    before: str | None = None
    after: str | None = None


@dataclass(frozen=True, slots=True)
class Column:
    """A field at any depth. `own_name` is its last part; of a nested one, `kind` is no more."""

    id: int
    parent: int | None
    own_name: str
    path: str
    kind: str
    type: str
    is_required: bool
    doc: str | None
    default: str | None


def read_columns(schema: Json) -> dict[int, Column]:
    """All fields of a schema by their ids, nested ones after the one they lie in."""
    return {column.id: column for column in _iter_struct(schema, None, "")}


def _iter_struct(struct: Json, parent: int | None, prefix: str) -> Iterator[Column]:
    for field in struct.get("fields", ()):
        yield from _iter_field(field, parent, prefix)


def _iter_field(field: Json, parent: int | None, prefix: str) -> Iterator[Column]:
    path = prefix + quote_name(field["name"])
    kind = field["type"]
    defaults = [field.get(key) for key in ("initial-default", "write-default")]
    yield Column(
        id=field["id"],
        parent=parent,
        own_name=field["name"],
        path=path,
        kind=_kind(kind),
        type=type_text(kind),
        is_required=bool(field.get("required")),
        doc=field.get("doc"),
        default=None if defaults == [None, None] else " then ".join(map(_value, defaults)),
    )
    if isinstance(kind, dict):
        yield from _iter_children(kind, field["id"], f"{path}.")


def _iter_children(kind: Json, parent: int, prefix: str) -> Iterator[Column]:
    if kind.get("type") == "struct":
        yield from _iter_struct(kind, parent, prefix)
    parts = {"list": ("element",), "map": ("key", "value")}.get(str(kind.get("type")), ())
    for part in parts:
        required = kind.get(f"{part}-required", part == "key")
        field = {"id": kind[f"{part}-id"], "name": part, "type": kind[part], "required": required}
        yield from _iter_field(field, parent, prefix)


def _kind(kind: Any) -> str:
    if isinstance(kind, dict) and kind.get("type") in _NESTED:
        return str(kind["type"])
    return type_text(kind)


def type_text(kind: Any) -> str:
    """A type as people write it: `map<string, struct<a: int>>`."""
    if not isinstance(kind, dict):
        return str(kind)
    if kind.get("type") == "struct":
        fields = (f"{quote_name(one['name'])}: {type_text(one['type'])}" for one in kind["fields"])
        return f"struct<{', '.join(fields)}>"
    if kind.get("type") == "list":
        return f"list<{type_text(kind['element'])}>"
    if kind.get("type") == "map":
        return f"map<{type_text(kind['key'])}, {type_text(kind['value'])}>"
    return str(kind.get("type"))


def _value(value: Any) -> str:
    return "none" if value is None else str(getattr(value, "text", value))


def by_name(*schemas: Mapping[int, Column]) -> list[dict[int, Column]]:
    """Schemas of one view with ids that go by names: each version of a view counts anew."""
    names = sorted({column.path for schema in schemas for column in schema.values()})
    ids = {name: number for number, name in enumerate(names)}
    return [
        {
            ids[column.path]: replace(
                column,
                id=ids[column.path],
                parent=None if column.parent is None else ids[schema[column.parent].path],
            )
            for column in schema.values()
        }
        for schema in schemas
    ]


# two of them


def compare_columns(old: Mapping[int, Column], new: Mapping[int, Column]) -> Iterator[Change]:
    """What became of each column; one that came or went takes the fields inside it along."""
    for column in new.values():
        if column.id not in old and column.parent not in new.keys() - old.keys():
            yield Change("column", "added", column.path, None, column.type)
    for column in old.values():
        if column.id not in new and column.parent not in old.keys() - new.keys():
            yield Change("column", "dropped", column.path, column.type)
    for column in new.values():
        if column.id in old:
            yield from _compare(old[column.id], column)
    yield from _compare_order(old, new)


def _compare(old: Column, new: Column) -> Iterator[Change]:
    if old.own_name != new.own_name:
        yield Change("column", "renamed", new.path, old.path, new.path)
    values = {
        "type": (old.kind, new.kind),
        "nullability": (_nullability(old), _nullability(new)),
        "doc": (old.doc, new.doc),
        "default": (old.default, new.default),
    }
    for action, (before, after) in values.items():
        if before != after:
            yield Change("column", action, new.path, before, after)


def _nullability(column: Column) -> str:
    return "required" if column.is_required else "optional"


def _compare_order(old: Mapping[int, Column], new: Mapping[int, Column]) -> Iterator[Change]:
    """Columns that both have stand in another order, or in another struct."""
    common = old.keys() & new.keys()
    before = _order(old, common)
    after = _order(new, common)
    for parent in after:
        if before.get(parent) != after[parent]:
            name = None if parent is None else new[parent].path
            told = _names(old, before.get(parent, [])), _names(new, after[parent])
            yield Change("column order", "changed", name, *told)


def _names(columns: Mapping[int, Column], ids: Iterable[int]) -> str:
    return ", ".join(quote_name(columns[number].own_name) for number in ids)


def _order(columns: Mapping[int, Column], ids: set[int]) -> dict[int | None, list[int]]:
    order: dict[int | None, list[int]] = {}
    for column in columns.values():
        if column.id in ids:
            order.setdefault(column.parent, []).append(column.id)
    return order
