"""Which types a format version has."""

from __future__ import annotations

from typing import Any

import pytest

from bcn.iceberg.types import odd_types


def schema(*types: Any) -> dict[str, Any]:
    fields = [
        {"id": number, "name": f"c{number}", "required": False, "type": found}
        for number, found in enumerate(types, 1)
    ]
    return {"type": "struct", "schema-id": 0, "fields": fields}


def nested(inner: Any) -> list[Any]:
    return [
        {"type": "list", "element-id": 9, "element": inner, "element-required": True},
        {"type": "map", "key-id": 8, "key": "string", "value-id": 9, "value": inner},
        {"type": "map", "key-id": 8, "key": inner, "value-id": 9, "value": "string"},
        schema(inner),
        {"type": "list", "element-id": 9, "element": schema(inner)},
    ]


OLD = ("boolean", "int", "long", "float", "double", "decimal(9, 2)", "date", "time", "timestamp",
       "timestamptz", "string", "uuid", "fixed[16]", "binary")  # fmt: skip
NEW = ("unknown", "timestamp_ns", "timestamptz_ns", "variant", "geometry(srid:3857)", "geography")


@pytest.mark.parametrize("version", [1, 2, 3])
def test_types_of_the_first_version_are_in_all(version: int) -> None:
    document = {"format-version": version, "schemas": [schema(*OLD, *nested("int"))]}
    assert odd_types(document) == []


def test_newer_types_are_odd_in_older_versions() -> None:
    assert odd_types({"format-version": 3, "schemas": [schema(*NEW)]}) == []
    assert odd_types({"format-version": 2, "schemas": [schema(*NEW)]}) == sorted(NEW)
    assert odd_types({"format-version": 1, "schema": schema("variant")}) == ["variant"]


@pytest.mark.parametrize("place", range(5))
def test_types_are_found_wherever_they_nest(place: int) -> None:
    document = {"format-version": 3, "schemas": [schema("int"), schema(nested("hologram")[place])]}
    assert odd_types(document) == ["hologram"]


def test_odd_documents_have_no_types() -> None:
    assert odd_types({"format-version": 2}) == []
    assert odd_types({"format-version": 2, "schemas": [{"fields": ["x", {"type": 7}]}]}) == []
