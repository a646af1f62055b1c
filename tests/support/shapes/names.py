"""Odd characters in partition values, columns, tables and databases: T36, T37, T38."""

from __future__ import annotations

from collections.abc import Iterator

from tests.support.shapes.basic import COLUMNS, numbered
from tests.support.shapes.craft import java_append, java_data_file, write_parquet
from tests.support.shapes.deletes import ID, NAME, data_folder
from tests.support.shapes.model import Claim, Shape, World, create

VALUES = (
    "a b",
    "#",
    "?",
    "%",
    "%20",
    "+",
    "&",
    ",",
    '"',
    "'",
    "line\nbreak",
    "/",
    "..",
    "=",
    "😀",
    "\u05e9\u05dc\u05d5\u05dd",
    "e\u0301",
    "\u00e9",
    "",
)
_PARTITION, _COLUMN = "größe #1", "a b/c?d.é"
NAMED = (
    ("T38/unicode", "shapes.Größe_表", "unicode"),
    ("T38/upper", "shapes.MixedCASE", "upper case"),
    ("T38/dots", "shapes.`we.ird name`", "a dot and a space"),
    ("T38/nested", "outer.inner.Ünder.t", "nested namespaces"),
)


def build_t36(world: World) -> None:
    """Java escapes some of these in paths; what it writes are the characters of the key."""
    name = create(world, "shapes.t36", "id bigint, p string", 2, partition="p")
    rows = world.spark.createDataFrame(
        [(index, value) for index, value in enumerate(VALUES)], "id bigint, p string"
    )
    rows.coalesce(1).sortWithinPartitions("p").writeTo(name).append()


def claims_t36(world: World) -> Iterator[Claim]:
    tree = world.tree("shapes.t36")
    partitions = {entry.file["partition"]["p"] for entry in tree.iter_entries()}
    yield "every value", partitions == set(VALUES)
    yield "escapes in paths", any("%25" in entry.path for entry in tree.iter_entries())
    yield "all files there", all(tree.file(entry.path).is_file() for entry in tree.iter_entries())


def build_t36_raw(world: World) -> None:
    """Other writers put such characters into keys as they are."""
    create(world, "shapes.t36_raw", COLUMNS, 2)
    table = world.java_table("shapes.t36_raw")
    files = []
    for index, value in enumerate(VALUES):
        part = value.replace("/", "").replace("\n", "").strip(".")
        path = data_folder(world, "shapes.t36_raw") / f"k{index}={part}" / "data.parquet"
        write_parquet(path, [ID, NAME], [[index], [value]])
        files.append(java_data_file(world, table.spec(), str(path), path))
    java_append(table, *files)


def claims_t36_raw(world: World) -> Iterator[Claim]:
    paths = "".join(entry.path for entry in world.tree("shapes.t36_raw").iter_entries())
    yield "raw characters", all(c in paths for c in " #?%+&,\"'=😀\u05e9\u00e9")


def build_t37(world: World) -> None:
    columns = f"id bigint, `{_COLUMN}` string, `{_PARTITION}` string"
    name = create(world, "shapes.t37", columns, 2, partition=f"`{_PARTITION}`")
    world.sql(f"INSERT INTO {name} VALUES (1L, 'x', 'p q'), (2L, 'y', 'r'), (3L, 'z', 'r')")
    world.sql(f"DELETE FROM {name} WHERE id = 2")


def claims_t37(world: World) -> Iterator[Claim]:
    tree = world.tree("shapes.t37")
    names = [field["name"] for field in tree.document["schemas"][0]["fields"]]
    yield "names as they are", names == ["id", _COLUMN, _PARTITION]
    header = tree.avro(tree.manifests()[0]).header["avro.schema"]
    yield "changed in the Avro schema", b"gr_x" in header or b"_x23" in header


def build_t38(world: World, table: str) -> None:
    levels = table.replace("`we.ird name`", "x").split(".")[:-1]
    for depth in range(1, len(levels) + 1):
        namespace = ".".join(f"`{level}`" for level in levels[:depth])
        world.sql(f"CREATE NAMESPACE IF NOT EXISTS `{world.catalog}`.{namespace}")
    name = create(world, table, COLUMNS, 2)
    world.sql(f"INSERT INTO {name} {numbered(1, 4)}")
    world.sql(f"DELETE FROM {name} WHERE id = 3")


def claims_t38(world: World, table: str) -> Iterator[Claim]:
    yield "in the catalog under its name", bool(world.metadata_location(table))


def _t38(shape_id: str, table: str, title: str) -> Shape:
    return Shape(
        shape_id,
        f"name with {title}",
        table,
        lambda world: build_t38(world, table),
        lambda world: claims_t38(world, table),
    )


SHAPES = (
    Shape("T36", "odd partition values", "shapes.t36", build_t36, claims_t36),
    Shape("T36/raw", "odd characters in keys", "shapes.t36_raw", build_t36_raw, claims_t36_raw),
    Shape("T37", "odd column names", "shapes.t37", build_t37, claims_t37),
    *(_t38(*named) for named in NAMED),
)
