"""Partitions, schemas and types as they grow over time: T28, T29, T30."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from tests.support.shapes.basic import COLUMNS, numbered
from tests.support.shapes.craft import column, java_append, java_data_file, write_parquet
from tests.support.shapes.deletes import data_folder
from tests.support.shapes.model import Claim, Shape, World, create

_WIDE = "id bigint, name string, d double, f float, ts timestamp, day date"
_NUMBERS = (
    "VALUES (1L, 'a', double('NaN'), float('NaN'), timestamp'2024-02-29 23:59:59',"
    " date'2024-02-29'),"
    " (2L, 'b', -0.0D, -0.0F, timestamp'1969-12-31 23:00:00', date'1969-12-31'),"
    " (3L, 'c', 0.0D, 0.0F, timestamp'1970-01-01 00:00:00', date'1970-01-01'),"
    " (4L, null, null, null, null, null)"
)


def build_t28(world: World) -> None:
    """Three specs: identity of floats, then every transform, then a field dropped."""
    name = create(world, "shapes.t28", _WIDE, 2, partition="d, f")
    world.sql(f"INSERT INTO {name} {_NUMBERS}")
    for field in ("bucket(4, id)", "truncate(1, name)", "day", "hours(ts)"):
        world.sql(f"ALTER TABLE {name} ADD PARTITION FIELD {field}")
    world.sql(f"INSERT INTO {name} {_NUMBERS}")
    world.sql(f"ALTER TABLE {name} DROP PARTITION FIELD d")
    world.sql(f"ALTER TABLE {name} REPLACE PARTITION FIELD ts_hour WITH months(ts)")
    world.sql(f"ALTER TABLE {name} ADD PARTITION FIELD years(day)")
    world.sql(f"INSERT INTO {name} {_NUMBERS}")


def claims_t28(world: World) -> Iterator[Claim]:
    tree = world.tree("shapes.t28")
    specs = {tree.avro(m).header["partition-spec-id"] for m in tree.manifests()}
    fields = [f["transform"] for s in tree.document["partition-specs"] for f in s["fields"]]
    wanted = {"identity", "bucket[4]", "truncate[1]", "hour", "month", "year"}
    yield "three specs in use", len(specs) == 3
    yield "all transforms", wanted <= set(fields)
    values = [str(entry.file["partition"].get("d")) for entry in tree.iter_entries()]
    yield "NaN, -0.0, 0.0 and null", {"nan", "-0.0", "0.0", "None"} <= set(values)


def build_t28_void(world: World) -> None:
    """In v1 a dropped field stays in the spec, as void."""
    name = create(world, "shapes.t28_void", "id bigint, day date", 1, partition="days(day), id")
    world.sql(f"INSERT INTO {name} VALUES (1L, date'2024-01-01'), (2L, null)")
    world.sql(f"ALTER TABLE {name} DROP PARTITION FIELD id")
    world.sql(f"INSERT INTO {name} VALUES (3L, date'2024-01-02')")


def claims_t28_void(world: World) -> Iterator[Claim]:
    specs = world.tree("shapes.t28_void").document["partition-specs"]
    transforms = [[field["transform"] for field in spec["fields"]] for spec in specs]
    yield "day, identity, void", transforms == [["day", "identity"], ["day", "void"]]


def build_t29(world: World) -> None:
    columns = "id bigint, day date, amount decimal(38,10), raw binary, ts timestamp"
    name = create(world, "shapes.t29", columns, 2, partition="day, amount, raw, ts")
    world.sql(
        f"INSERT INTO {name} VALUES"
        " (1L, date'0001-01-01', -0.0000000001BD, X'00FF2F', timestamp'0001-01-01 00:00:00'),"
        " (2L, date'+12345-06-07', 1234567890123456789012345678.0123456789BD, X'',"
        "  timestamp'+12345-01-01 00:00:00.000001'),"
        " (3L, date'-0044-03-15', 0BD, X'80', timestamp'-0044-03-15 12:00:00'),"
        " (4L, date'9999-12-31', null, null, timestamp'9999-12-31 23:59:59.999999')"
    )


def claims_t29(world: World) -> Iterator[Claim]:
    tree = world.tree("shapes.t29")
    days = sorted(entry.file["partition"]["day"] for entry in tree.iter_entries())
    yield "before year 1, year 1, 9999 and later", days[0] < -719162 == days[1] < 2932896 < days[3]


_ODD = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": 1, "name": "id", "required": False, "type": "long"},
        {"id": 2, "name": "key", "required": False, "type": "uuid"},
        {"id": 3, "name": "at", "required": False, "type": "time"},
    ],
}
_KEY = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")


def build_t29_odd(world: World) -> None:
    """Types that Spark has no name for, as partition values: uuid and time.

    No fixed: Iceberg's Java writer stores it with a length that its own Avro schema denies.
    """
    table = java_create(world, "t29_odd", _ODD, ["key", "at"], {"format-version": "2"})
    fields = [
        column("id", pa.int64(), 1),
        column("key", pa.binary(16), 2),
        column("at", pa.time64("us"), 3),
    ]
    at = dt.time(23, 59, 59, 999999)
    path = data_folder(world, "shapes.t29_odd") / "odd.parquet"
    write_parquet(path, fields, [[1], [_KEY.bytes], [at]])
    jvm = world.spark._jvm
    partition = jvm.org.apache.iceberg.PartitionData(table.spec().partitionType())
    partition.set(0, jvm.java.util.UUID.fromString(str(_KEY)))
    partition.set(1, jvm.java.lang.Long.valueOf("86399999999"))
    java_append(table, java_data_file(world, table.spec(), str(path), path, values=partition))


def java_create(
    world: World,
    name: str,
    schema: dict[str, Any],
    identity: list[str],
    properties: dict[str, str],
) -> Any:
    """Creates a table with types that SQL cannot name. The JVM's table."""
    jvm = world.spark._jvm
    iceberg = jvm.org.apache.iceberg
    java_schema = iceberg.SchemaParser.fromJson(json.dumps(schema))
    builder = iceberg.PartitionSpec.builderFor(java_schema)
    for field in identity:
        builder = builder.identity(field)
    catalog = iceberg.spark.Spark3Util.loadIcebergCatalog(world.spark._jsparkSession, world.catalog)
    identifier = iceberg.catalog.TableIdentifier.parse(f"shapes.{name}")
    return catalog.createTable(identifier, java_schema, builder.build(), properties)


def claims_t29_odd(world: World) -> Iterator[Claim]:
    (entry,) = world.tree("shapes.t29_odd").iter_entries()
    partition = entry.file["partition"]
    yield "uuid", partition["key"] == _KEY.bytes
    yield "time", partition["at"] == 86399999999


def build_t30(world: World) -> None:
    columns = f"{COLUMNS}, n int, s struct<a: int, b: string>, m map<string, int>, l array<int>"
    name = create(world, "shapes.t30", columns, 2)
    tail = "1, named_struct('a', 1, 'b', 'x'), map('k', 1), array(1, null)"
    world.sql(f"INSERT INTO {name} SELECT *, {tail} FROM ({numbered(1, 3)})")
    for change in (
        "RENAME COLUMN name TO title",
        "ALTER COLUMN n TYPE bigint",
        "ADD COLUMN s.c double AFTER a",
        "RENAME COLUMN s.b TO bb",
        "DROP COLUMN l",
        "ALTER COLUMN n FIRST",
        "ADD COLUMN l string",
        "WRITE ORDERED BY id DESC, bucket(4, title)",
    ):
        world.sql(f"ALTER TABLE {name} {change}")
    new = "SELECT 5L, 10L, 't', named_struct('a', 2, 'c', 2.5D, 'bb', 'y'), map('j', 2), 'now text'"
    world.sql(f"INSERT INTO {name} {new}")


def claims_t30(world: World) -> Iterator[Claim]:
    document = world.tree("shapes.t30").document
    yield "many schemas", len(document["schemas"]) >= 7
    yield "a sort order", document["default-sort-order-id"] == 1
    ids = {f["id"] for s in document["schemas"] for f in s["fields"] if f["name"] == "l"}
    yield "one name, two ids", len(ids) == 2


def build_t30_imported(world: World) -> None:
    """A file without ids is read by the name mapping; an identifier field is set."""
    mapping = json.dumps(
        [{"field-id": 1, "names": ["id", "alt"]}, {"field-id": 2, "names": ["name"]}]
    )
    name = create(
        world,
        "shapes.t30_imported",
        "id bigint NOT NULL, name string",
        2,
        properties={"schema.name-mapping.default": mapping},
    )
    world.sql(f"ALTER TABLE {name} SET IDENTIFIER FIELDS id")
    table = world.java_table("shapes.t30_imported")
    fields = [column("alt", pa.int64(), None), column("name", pa.string(), None)]
    path = data_folder(world, "shapes.t30_imported") / "imported.parquet"
    write_parquet(path, fields, [[1, 2], ["a", "b"]])
    java_append(table, java_data_file(world, table.spec(), str(path), path))


def claims_t30_imported(world: World) -> Iterator[Claim]:
    document = world.tree("shapes.t30_imported").document
    yield "an identifier field", document["schemas"][-1].get("identifier-field-ids") == [1]
    rows = world.sql(f"SELECT id FROM {world.name('shapes.t30_imported')} ORDER BY id")
    yield "read by name", [row.id for row in rows] == [1, 2]


SHAPES = (
    Shape("T28", "partition evolution, all transforms", "shapes.t28", build_t28, claims_t28),
    Shape(
        "T28/void", "v1 void partition field", "shapes.t28_void", build_t28_void, claims_t28_void
    ),
    Shape("T29", "partition dates far off, decimals", "shapes.t29", build_t29, claims_t29),
    Shape(
        "T29/odd",
        "partitions of uuid and time",
        "shapes.t29_odd",
        build_t29_odd,
        claims_t29_odd,
        spark=False,
        notes="Spark SQL has no time of day; pyiceberg and the JVM read it",
    ),
    Shape("T30", "schema evolution, sort order", "shapes.t30", build_t30, claims_t30),
    Shape(
        "T30/imported",
        "name mapping, identifier field",
        "shapes.t30_imported",
        build_t30_imported,
        claims_t30_imported,
    ),
)
