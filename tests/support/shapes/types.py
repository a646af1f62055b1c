"""Types of v3 and how each reader gets at them: T22."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from tests.support.compare.rows import jvm_rows
from tests.support.shapes.craft import (
    column,
    edit_document,
    java_append,
    java_data_file,
    write_parquet,
)
from tests.support.shapes.deletes import data_folder
from tests.support.shapes.evolution import java_create
from tests.support.shapes.model import Claim, Shape, World, create

_V3 = {"format-version": "3"}


def build_t22_variant(world: World) -> None:
    name = create(world, "shapes.t22_variant", "id bigint, v variant", 3)
    world.sql(
        f"INSERT INTO {name} SELECT id, parse_json(text) FROM VALUES"
        """ (1L, '{"a": [1, 2.50, null], "b": "x"}'), (2L, 'true'), (3L, null) AS t(id, text)"""
    )
    world.sql(f"DELETE FROM {name} WHERE id = 2")


def claims_t22_variant(world: World) -> Iterator[Claim]:
    fields = world.tree("shapes.t22_variant").document["schemas"][0]["fields"]
    yield "a variant", [field["type"] for field in fields] == ["long", "variant"]


def _field(field_id: int, name: str, kind: str, **more: Any) -> dict[str, Any]:
    return {"id": field_id, "name": name, "required": False, "type": kind, **more}


def build_t22_nanoseconds(world: World) -> None:
    """Nanosecond timestamps with and without a zone, and a column of unknown type."""
    fields = [
        _field(1, "id", "long"),
        _field(2, "at", "timestamp_ns"),
        _field(3, "zoned", "timestamptz_ns"),
        _field(4, "nothing", "unknown"),
    ]
    schema = {"type": "struct", "schema-id": 0, "fields": fields}
    table = java_create(world, "t22_nanoseconds", schema, [], _V3)
    path = data_folder(world, "shapes.t22_nanoseconds") / "data.parquet"
    columns = [
        column("id", pa.int64(), 1),
        column("at", pa.timestamp("ns"), 2),
        column("zoned", pa.timestamp("ns", tz="UTC"), 3),
    ]
    write_parquet(path, columns, [[1, 2], [1, -1], [1700000000123456789, None]])
    java_append(table, java_data_file(world, table.spec(), str(path), path))


def claims_t22_nanoseconds(world: World) -> Iterator[Claim]:
    tree = world.tree("shapes.t22_nanoseconds")
    kinds = [field["type"] for field in tree.document["schemas"][0]["fields"]]
    yield "types", kinds == ["long", "timestamp_ns", "timestamptz_ns", "unknown"]
    rows = jvm_rows(world.spark, tree.location)
    yield "the JVM reads two rows", [count for count, _ in rows.values()] == [2]


def build_t22_geometry(world: World) -> None:
    """Well-known binary in a geometry and a geography column."""
    fields = [
        _field(1, "id", "long"),
        _field(2, "shape", "geometry(OGC:CRS84)"),
        _field(3, "place", "geography"),
    ]
    schema = {"type": "struct", "schema-id": 0, "fields": fields}
    table = java_create(world, "t22_geometry", schema, [], _V3)
    path = data_folder(world, "shapes.t22_geometry") / "data.parquet"
    point = bytes.fromhex("0101000000000000000000f03f0000000000000040")
    columns = [
        column("id", pa.int64(), 1),
        column("shape", pa.binary(), 2),
        column("place", pa.binary(), 3),
    ]
    write_parquet(path, columns, [[1], [point], [point]])
    java_append(table, java_data_file(world, table.spec(), str(path), path))


def claims_t22_geometry(world: World) -> Iterator[Claim]:
    fields = world.tree("shapes.t22_geometry").document["schemas"][0]["fields"]
    kinds = [field["type"] for field in fields]
    yield "types", kinds[1].startswith("geometry") and kinds[2].startswith("geography")


_DEFAULTS = [
    ("flag", "boolean", True),
    ("big", "long", 9223372036854775807),
    ("price", "decimal(38, 10)", "1234567890123456789012345678.0123456789"),
    ("ratio", "double", 0.1),
    ("text", "string", 'ü/€ \\ "quoted"'),
    ("day", "date", "2024-02-29"),
    ("raw", "binary", "00ff2f"),
]


def build_t22_defaults(world: World) -> None:
    """Columns added with defaults: rows written before them get the values on reading."""
    name = create(world, "shapes.t22_defaults", "id bigint", 3)
    world.sql(f"INSERT INTO {name} VALUES (1L), (2L)")

    def add_columns(document: Any) -> None:
        schema = document["schemas"][0]
        added = [
            _field(i, column_name, kind, **{"initial-default": value, "write-default": value})
            for i, (column_name, kind, value) in enumerate(_DEFAULTS, start=2)
        ]
        fields = [*schema["fields"], *added]
        document["schemas"].append({**schema, "schema-id": 1, "fields": fields})
        document["current-schema-id"] = 1
        document["last-column-id"] = len(fields)

    edit_document(world, "shapes.t22_defaults", add_columns)
    names = ", ".join(column_name for column_name, _, _ in _DEFAULTS)
    nulls = ", ".join("null" for _ in _DEFAULTS)
    world.sql(f"INSERT INTO {name} (id, {names}) VALUES (3L, {nulls})")


def claims_t22_defaults(world: World) -> Iterator[Claim]:
    fields = world.tree("shapes.t22_defaults").document["schemas"][-1]["fields"]
    yield "defaults", sum("initial-default" in field for field in fields) == len(_DEFAULTS)
    rows = world.sql(f"SELECT id, big FROM {world.name('shapes.t22_defaults')} ORDER BY id")
    yield "old rows have them", [row.big for row in rows] == [2**63 - 1, 2**63 - 1, None]


SHAPES = (
    Shape(
        "T22/variant",
        "v3 variant",
        "shapes.t22_variant",
        build_t22_variant,
        claims_t22_variant,
        pyiceberg=False,
    ),
    Shape(
        "T22/nanoseconds",
        "v3 timestamp_ns, timestamptz_ns, unknown",
        "shapes.t22_nanoseconds",
        build_t22_nanoseconds,
        claims_t22_nanoseconds,
        spark=False,
        notes="the JVM's table API reads it",
    ),
    Shape(
        "T22/geometry",
        "v3 geometry, geography",
        "shapes.t22_geometry",
        build_t22_geometry,
        claims_t22_geometry,
        spark=False,
        pyiceberg=False,
        notes="the JVM's table API reads it",
    ),
    Shape(
        "T22/defaults",
        "v3 column defaults",
        "shapes.t22_defaults",
        build_t22_defaults,
        claims_t22_defaults,
    ),
)
