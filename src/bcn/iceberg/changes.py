"""What differs between two metadata documents of one table or view. Pure: no file is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bcn.errors import MalformedFileError
from bcn.iceberg.columns import Change, Column, by_name, compare_columns, read_columns
from bcn.iceberg.metadata import TableFacts, read_facts
from bcn.model import Json, join_names

_SHAPE_ERRORS = (KeyError, TypeError, AttributeError, ValueError, RecursionError)
_RETENTION = ("min-snapshots-to-keep", "max-snapshot-age-ms", "max-ref-age-ms")


@dataclass(frozen=True, slots=True)
class RowCount:
    """What a table's own summary counts: rows in its data files, and marks that delete some."""

    rows: int | None
    deletes: int | None


def count_rows(document: Json) -> RowCount:
    """Of the current snapshot, None where its summary does not say; no snapshot has no rows."""
    try:
        current = document.get("current-snapshot-id")
        if current in {None, -1}:
            return RowCount(0, 0)
        found = [one for one in document["snapshots"] if one["snapshot-id"] == current]
        summary = (found[0].get("summary") or {}) if found else {}
        deletes = [
            _count(summary.get(f"total-{kind}-deletes", "0")) for kind in ("position", "equality")
        ]
        known = [count for count in deletes if count is not None]
        rows = _count(summary.get("total-records"))
        return RowCount(rows, sum(known) if rows is not None and len(known) == 2 else None)
    except _SHAPE_ERRORS:
        return RowCount(None, None)


def _count(text: object) -> int | None:
    return int(text) if isinstance(text, str) and text.isascii() and text.isdigit() else None


def compare_tables(old: Json, new: Json) -> tuple[Change, ...]:
    """All that a person would name, in a fixed order. Raises MalformedFileError."""
    return _compared(_iter_table_changes, old, new)


def compare_views(old: Json, new: Json) -> tuple[Change, ...]:
    """The SQL, its columns, properties. Raises MalformedFileError."""
    return _compared(_iter_view_changes, old, new)


def _compared(
    compare: Callable[[Json, Json], Iterator[Change]], old: Json, new: Json
) -> tuple[Change, ...]:
    try:
        return tuple(compare(old, new))
    except _SHAPE_ERRORS as error:
        raise MalformedFileError(f"metadata that cannot be compared: {error!r}") from error


# tables


def _iter_table_changes(old: Json, new: Json) -> Iterator[Change]:
    facts = _facts(old), _facts(new)
    schemas = find_schema(old), find_schema(new)
    columns = read_columns(schemas[0]), read_columns(schemas[1])
    yield from _compare_snapshots(old, new)
    yield from compare_columns(*columns)
    pairs = zip(schemas, columns, strict=True)
    yield from _differ("identifier fields", *(_identifiers(*pair) for pair in pairs))
    specs = find_spec(facts[0], old), find_spec(facts[1], new)
    if _spec_identity(specs[0]) != _spec_identity(specs[1]):
        texts = (spec_text(*pair) for pair in zip(specs, columns, strict=True))
        yield Change("partitioning", "changed", None, *texts)
    orders = find_order(old), find_order(new)
    if orders[0].get("fields", []) != orders[1].get("fields", []):
        texts = (order_text(*pair) for pair in zip(orders, columns, strict=True))
        yield Change("sort order", "changed", None, *texts)
    yield from _differ("format version", str(facts[0].format_version), str(facts[1].format_version))
    yield from _differ("location", facts[0].location, facts[1].location)
    yield from compare_properties(facts[0].properties, facts[1].properties)
    yield from _compare_refs(facts[0].refs, facts[1].refs)


def _facts(document: Json) -> TableFacts:
    """All but the snapshots, of which a table may have thousands; those are compared as found."""
    return read_facts({**document, "snapshots": None})


def _differ(aspect: str, before: str | None, after: str | None) -> Iterator[Change]:
    if before != after:
        yield Change(aspect, "changed", None, before, after)


def compare_properties(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[Change]:
    """Properties that were set, changed or removed, by name."""
    for name in sorted(old.keys() | new.keys()):
        before, after = old.get(name), new.get(name)
        if before != after:
            action = "set" if before is None else "removed" if after is None else "changed"
            yield Change("property", action, name, before, after)


def _compare_snapshots(old: Json, new: Json) -> Iterator[Change]:
    before, after = _operations(old), _operations(new)
    for number, operation in after.items():
        if number not in before:
            yield Change("snapshot", "added", str(number), None, operation)
    for number, operation in before.items():
        if number not in after:
            yield Change("snapshot", "expired", str(number), operation)


def _operations(document: Json) -> dict[int, str]:
    return {
        one["snapshot-id"]: str((one.get("summary") or {}).get("operation", "unknown"))
        for one in document.get("snapshots") or ()
    }


def _compare_refs(old: Json, new: Json) -> Iterator[Change]:
    for name in sorted(old.keys() | new.keys()):
        before, after = old.get(name), new.get(name)
        texts = (_ref_text(before), _ref_text(after))
        if before is None or after is None:
            yield Change("ref", "made" if before is None else "dropped", name, *texts)
        elif texts[0] != texts[1]:
            yield Change("ref", "moved", name, *texts)
        if before and after and _retention(before) != _retention(after):
            yield Change("ref", "retention", name, _retention(before), _retention(after))


def _ref_text(ref: Json | None) -> str | None:
    return None if ref is None else f"{ref.get('type', 'branch')} at {ref['snapshot-id']}"


def _retention(ref: Json) -> str:
    kept = [f"{key}={ref[key]}" for key in _RETENTION if ref.get(key) is not None]
    return ", ".join(kept) or "as the table"


# parts of a table


def find_schema(document: Json) -> Json:
    """The current schema; that of the oldest tables stands alone."""
    current = document.get("current-schema-id")
    for schema in document.get("schemas") or ():
        if schema.get("schema-id", 0) == current:
            return dict(schema)
    return dict(document.get("schema") or {})


def _identifiers(schema: Json, columns: Mapping[int, Column]) -> str | None:
    names = [_path(columns, number) for number in schema.get("identifier-field-ids") or ()]
    return ", ".join(sorted(names)) or None


def find_spec(facts: TableFacts, document: Json) -> Json:
    """The partition spec that new files get."""
    default = document.get("default-spec-id", 0)
    return next((spec for spec in facts.specs if spec.get("spec-id") == default), {})


def _spec_identity(spec: Json) -> list[tuple[str, str, str]]:
    """A field that is void partitions nothing any more."""
    return [
        (str(_sources(field)), str(field.get("transform")), str(field.get("name")))
        for field in spec.get("fields", ())
        if field.get("transform") != "void"
    ]


def _sources(field: Json) -> list[int]:
    return list(field.get("source-ids") or [field.get("source-id")])


def spec_text(spec: Json, columns: Mapping[int, Column]) -> str | None:
    """`day(at), bucket(16, id)`; None for a table without partitions."""
    fields = [field for field in spec.get("fields", ()) if field.get("transform") != "void"]
    return ", ".join(_transform_text(field, columns) for field in fields) or None


def _transform_text(field: Json, columns: Mapping[int, Column]) -> str:
    names = ", ".join(_path(columns, number) for number in _sources(field))
    name, _, argument = str(field.get("transform")).partition("[")
    if name == "identity":
        return names
    return f"{name}({argument[:-1]}, {names})" if argument else f"{name}({names})"


def _path(columns: Mapping[int, Column], number: Any) -> str:
    return columns[number].path if number in columns else f"field {number}"


def find_order(document: Json) -> Json:
    """The sort order that writers are asked for."""
    default = document.get("default-sort-order-id", 0)
    orders = document.get("sort-orders") or ()
    return next((dict(order) for order in orders if order.get("order-id") == default), {})


def order_text(order: Json, columns: Mapping[int, Column]) -> str | None:
    """`at desc nulls-last`; None for a table without an order."""
    return (
        ", ".join(
            f"{_transform_text(field, columns)} {field.get('direction')} {field.get('null-order')}"
            for field in order.get("fields", ())
        )
        or None
    )


# views


def _iter_view_changes(old: Json, new: Json) -> Iterator[Change]:
    versions = _find_version(old), _find_version(new)
    before, after = _statements(versions[0]), _statements(versions[1])
    for dialect in sorted(before.keys() | after.keys()):
        if before.get(dialect) != after.get(dialect):
            yield Change("sql", "changed", dialect, before.get(dialect), after.get(dialect))
    columns = [
        read_columns(_view_schema(document, version))
        for document, version in zip((old, new), versions, strict=True)
    ]
    yield from compare_columns(*by_name(columns[0], columns[1]))
    yield from _differ("default namespace", *(_namespace(version) for version in versions))
    yield from _differ("location", old.get("location"), new.get("location"))
    yield from compare_properties(old.get("properties") or {}, new.get("properties") or {})


def _find_version(document: Json) -> Json:
    current = document.get("current-version-id")
    versions = document.get("versions") or ()
    return next((dict(one) for one in versions if one.get("version-id") == current), {})


def _statements(version: Json) -> dict[str, str]:
    return {
        str(one.get("dialect")): str(one.get("sql")) for one in version.get("representations") or ()
    }


def _view_schema(document: Json, version: Json) -> Json:
    wanted = version.get("schema-id")
    schemas = document.get("schemas") or ()
    return next((dict(one) for one in schemas if one.get("schema-id") == wanted), {})


def _namespace(version: Json) -> str | None:
    catalog = version.get("default-catalog")
    levels = [*([catalog] if catalog else []), *(version.get("default-namespace") or ())]
    return join_names(levels) or None
