"""Old tables and old spellings of metadata: T02, T03, T04, T31, T32."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from tests.support.compare.tree import Tree
from tests.support.shapes.basic import COLUMNS, live_deletes, numbered
from tests.support.shapes.craft import edit_document, write_avro
from tests.support.shapes.events import add_embedded_manifests
from tests.support.shapes.model import Claim, Shape, World, create

CODECS = ("null", "snappy", "zstandard", "deflate")


def _two_appends(world: World, table: str, version: int, **properties: str) -> str:
    name = create(world, table, COLUMNS, version, properties=properties)
    world.sql(f"INSERT INTO {name} {numbered(1, 3)}")
    world.sql(f"INSERT INTO {name} {numbered(4, 6)}")
    return name


def build_t02(world: World) -> None:
    """Spark always writes lists, so their paths are put into the snapshots by hand."""
    _two_appends(world, "shapes.t02", 1)
    add_embedded_manifests(world, "shapes.t02")


def claims_t02(world: World) -> Iterator[Claim]:
    snapshots = world.tree("shapes.t02").snapshots
    yield "no list", not any("manifest-list" in snapshot for snapshot in snapshots)
    yield "1 and 2 manifests", sorted(len(s["manifests"]) for s in snapshots) == [1, 2]


def build_t03(world: World) -> None:
    _two_appends(world, "shapes.t03", 1)
    edit_document(world, "shapes.t03", lambda document: document.pop("table-uuid") and None)


def claims_t03(world: World) -> Iterator[Claim]:
    yield "no uuid", "table-uuid" not in world.tree("shapes.t03").document


def build_t04(world: World) -> None:
    name = _two_appends(world, "shapes.t04", 1)
    world.sql(
        f"ALTER TABLE {name} SET TBLPROPERTIES"
        " ('format-version' = '2', 'write.delete.mode' = 'merge-on-read')"
    )
    world.sql(f"DELETE FROM {name} WHERE id = 2")
    world.sql(f"INSERT INTO {name} {numbered(7, 9)}")


def claims_t04(world: World) -> Iterator[Claim]:
    tree = world.tree("shapes.t04")
    versions = {tree.avro(m).header["format-version"] for m in tree.manifests()}
    yield "upgraded", tree.document["format-version"] == 2
    yield "manifests of both versions", versions == {b"1", b"2"}
    yield "position deletes", bool(live_deletes(world, "shapes.t04"))


def build_t31(world: World) -> None:
    _two_appends(world, "shapes.t31", 2, **{"write.metadata.compression-codec": "gzip"})


def build_t31_legacy(world: World) -> None:
    _two_appends(world, "shapes.t31_legacy", 2)
    edit_document(world, "shapes.t31_legacy", lambda document: None, ".metadata.json.gz")


def claims_t31(world: World, table: str, suffix: str) -> Iterator[Claim]:
    location = world.metadata_location(table)
    yield f"name ends in {suffix}", location.endswith(suffix)
    yield "gzip", world.tree(table).file(location).read_bytes()[:2] == b"\x1f\x8b"


def build_t32(world: World, codec: str) -> None:
    """Engines write deflate; the same records are stored again with another codec."""
    table = f"shapes.t32_{codec}"
    name = _two_appends(world, table, 2)
    world.sql(f"DELETE FROM {name} WHERE id IN (2, 5)")
    recode(world.tree(table), codec)


def recode(tree: Tree, codec: str) -> None:
    """Stores lists and manifests in place with a codec; lengths in the lists follow."""
    sizes = {m: write_avro(tree.file(m), tree.avro(m), codec) for m in tree.manifests()}
    for location in tree.lists():
        for record in tree.avro(location).records:
            record["manifest_length"] = sizes[record["manifest_path"]]
        write_avro(tree.file(location), tree.avro(location), codec)


def claims_t32(world: World, codec: str) -> Iterator[Claim]:
    tree = world.tree(f"shapes.t32_{codec}")
    codecs = {tree.avro(where).codec for where in [*tree.lists(), *tree.manifests()]}
    yield f"all {codec}", codecs == {codec}


def _t32(codec: str) -> Shape:
    build: Callable[[World], None] = partial(build_t32, codec=codec)
    claims = partial(claims_t32, codec=codec)
    return Shape(
        f"T32/{codec}",
        f"manifests in {codec}",
        f"shapes.t32_{codec}",
        build,
        claims,
        pyiceberg=codec != "snappy",
        notes="pyiceberg needs an extra library for snappy" if codec == "snappy" else "",
    )


SHAPES = (
    Shape(
        "T02",
        "v1, embedded manifests",
        "shapes.t02",
        build_t02,
        claims_t02,
        cannot=frozenset({"expire"}),
        notes="Spark's expiry asks every snapshot for a list",
        pyiceberg=False,
    ),
    Shape(
        "T03",
        "v1, no table-uuid",
        "shapes.t03",
        build_t03,
        claims_t03,
        spark=False,
        notes="Iceberg 1.12 in Spark asks every table for its uuid, and fails; its JVM API reads",
    ),
    Shape("T04", "v1 upgraded to v2, then deletes", "shapes.t04", build_t04, claims_t04),
    Shape(
        "T31",
        "gzip metadata, today's name",
        "shapes.t31",
        build_t31,
        partial(claims_t31, table="shapes.t31", suffix=".gz.metadata.json"),
    ),
    Shape(
        "T31/legacy",
        "gzip metadata, the old name",
        "shapes.t31_legacy",
        build_t31_legacy,
        partial(claims_t31, table="shapes.t31_legacy", suffix=".metadata.json.gz"),
        pyiceberg=False,
    ),
    *(_t32(codec) for codec in CODECS),
)
