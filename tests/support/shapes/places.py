"""Files in other places than the table's own folder: T33, T34, T35, T39, T40, T41, T42."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pyarrow as pa

from tests.support.shapes.basic import COLUMNS, live_deletes, numbered
from tests.support.shapes.craft import (
    column,
    edit_document,
    java_add_deletes,
    java_append,
    java_data_file,
    java_deletes,
    write_parquet,
    write_position_deletes,
)
from tests.support.shapes.deletes import ID, NAME, data_folder, data_paths
from tests.support.shapes.model import Claim, Shape, World, create


def build_t33(world: World) -> None:
    data, metadata = world.external / "t33-data", world.external / "t33-metadata"
    properties = {"write.data.path": str(data), "write.metadata.path": str(metadata)}
    name = create(world, "shapes.t33", COLUMNS, 2, properties=properties)
    world.sql(f"INSERT INTO {name} {numbered(1, 6)}")
    world.sql(f"DELETE FROM {name} WHERE id = 2")


def claims_t33(world: World) -> Iterator[Claim]:
    tree = world.tree("shapes.t33")
    paths = [entry.path for entry in tree.iter_entries()]
    yield "data outside", all(path.startswith(str(world.external)) for path in paths)
    yield "metadata outside", tree.location.startswith(str(world.external / "t33-metadata"))
    yield "lists outside", all(str(world.external) in where for where in tree.lists())
    yield "location in the warehouse", str(world.warehouse) in tree.document["location"]


def build_t34(world: World) -> None:
    """Files of two other owners, one of them partitioned, beside files of the table's own."""
    name = create(world, "shapes.t34", f"{COLUMNS}, p int", 2, partition="p")
    world.sql(f"INSERT INTO {name} SELECT *, 0 FROM ({numbered(1, 3)})")
    fields = [column("id", pa.int64(), None), column("name", pa.string(), None)]
    for owner, first in (("t34-lake", 10), ("t34-other lake", 20)):
        folder = world.external / owner
        write_parquet(folder / "p=1" / "part.parquet", fields, [[first, first + 1], ["x", "y"]])
        world.sql(
            f"CALL {world.catalog}.system.add_files(table => 'shapes.t34',"
            f" source_table => '`parquet`.`{folder}`')"
        )
    world.sql(f"DELETE FROM {name} WHERE id = 10")


def claims_t34(world: World) -> Iterator[Claim]:
    tree = world.tree("shapes.t34")
    outside = {e.path for e in tree.iter_entries() if str(world.external) in e.path}
    yield "two files from elsewhere", len(outside) == 2
    yield "a name mapping", "schema.name-mapping.default" in tree.document["properties"]
    rows = world.sql(f"SELECT count(*) AS n FROM {world.name('shapes.t34')}")
    yield "rows of all", rows[0].n == 3 + 4 - 1


def build_t35(world: World, kind: str) -> None:
    properties = {"write.object-storage.enabled": "true"}
    if kind == "flat":
        properties["write.object-storage.partitioned-paths"] = "false"
    if kind == "outside":
        properties["write.data.path"] = str(world.external / "t35-bucket")
    columns = f"{COLUMNS}, p int"
    name = create(world, f"shapes.t35_{kind}", columns, 2, partition="p", properties=properties)
    world.sql(f"INSERT INTO {name} SELECT *, id % 2 FROM ({numbered(1, 6)})")
    world.sql(f"DELETE FROM {name} WHERE id = 3")


def claims_t35(world: World, kind: str) -> Iterator[Claim]:
    tree = world.tree(f"shapes.t35_{kind}")
    data = [entry.path for entry in tree.iter_entries() if entry.content == 0]
    hashed = [part for path in data for part in path.split("/") if set(part) <= {"0", "1"}]
    yield "folders of a hash", len(hashed) >= 3 * len(data)
    yield "partitions in paths", all(("/p=" in path) != (kind == "flat") for path in data)
    if kind == "outside":
        yield "name of the table in paths", all("/shapes/t35_outside/" in path for path in data)


def build_t39(world: World) -> None:
    """A sibling's root begins with this table's, and one file of the sibling is in this table."""
    build_t39_sibling(world)
    _build_with_deletes(world, "shapes.t39")
    table = world.java_table("shapes.t39")
    path = data_folder(world, "shapes.t39_backup") / "shared.parquet"
    write_parquet(path, [ID, NAME], [[7, 8, 9], ["a", "b", "c"]])
    java_append(table, java_data_file(world, table.spec(), str(path), path))
    deletes = write_position_deletes(
        data_folder(world, "shapes.t39") / "shared-deletes.parquet", [(str(path), 1)]
    )
    bounds = (str(path), str(path))
    java_add_deletes(table, java_deletes(world, table.spec(), deletes, rows=1, path_bounds=bounds))


def build_t39_sibling(world: World) -> None:
    """Built by whichever of the two comes first."""
    if not world.has("shapes.t39_backup"):
        _build_with_deletes(world, "shapes.t39_backup")


def _build_with_deletes(world: World, table: str) -> None:
    name = create(world, table, COLUMNS, 2)
    world.sql(f"INSERT INTO {name} {numbered(1, 6)}")
    world.sql(f"DELETE FROM {name} WHERE id = 2")


def claims_t39(world: World) -> Iterator[Claim]:
    tree = world.tree("shapes.t39")
    root = tree.document["location"]
    others = [e.path for e in tree.iter_entries() if not e.path.startswith(root + "/")]
    yield "a file of the sibling", len(others) == 1
    yield "whose root begins alike", others[0].startswith(root + "_backup/")


def claims_t39_backup(world: World) -> Iterator[Claim]:
    tree = world.tree("shapes.t39_backup")
    yield "a root of its own", tree.document["location"].endswith("/t39_backup")


_SPELLINGS = ("", "file:", "file://")


def build_t40(world: World) -> None:
    """One folder under three spellings; each data file has deletes that spell it alike."""
    create(world, "shapes.t40", COLUMNS, 2)
    table = world.java_table("shapes.t40")
    folder = data_folder(world, "shapes.t40")
    for index, scheme in enumerate(_SPELLINGS):
        path = folder / f"data{index}.parquet"
        write_parquet(path, [ID, NAME], [range(index * 10, index * 10 + 4), "abcd"])
        java_append(table, java_data_file(world, table.spec(), f"{scheme}{path}", path))
        name = f"{scheme}{path}"
        deletes = write_position_deletes(folder / f"deletes{index}.parquet", [(name, index)])
        location = f"{_SPELLINGS[index - 1]}{deletes}"
        file = java_deletes(
            world, table.spec(), deletes, rows=1, location=location, path_bounds=(name, name)
        )
        java_add_deletes(table, file)


def claims_t40(world: World) -> Iterator[Claim]:
    paths = data_paths(world, "shapes.t40")
    yield "three spellings", [path.partition("/")[0] for path in paths] == ["", "file:", "file:"]
    yield "one of them with three slashes", sum(p.startswith("file:///") for p in paths) == 1
    rows = world.sql(f"SELECT count(*) AS n FROM {world.name('shapes.t40')}")
    yield "all deletes apply", rows[0].n == 12 - 3


def build_t41(world: World) -> None:
    """Two slashes in keys, and one at the end of the location."""
    create(world, "shapes.t41", COLUMNS, 2)
    table = world.java_table("shapes.t41")
    folder = data_folder(world, "shapes.t41")
    path = folder / "deep" / "data.parquet"
    write_parquet(path, [ID, NAME], [range(4), "abcd"])
    odd = str(path).replace("/data/deep/", "//data//deep/")
    java_append(table, java_data_file(world, table.spec(), odd, path))
    deletes = write_position_deletes(folder / "deletes.parquet", [(odd, 2)])
    file = java_deletes(world, table.spec(), deletes, rows=1, path_bounds=(odd, odd))
    java_add_deletes(table, file)

    def end_with_slash(document: Any) -> None:
        document["location"] += "/"

    edit_document(world, "shapes.t41", end_with_slash)


def claims_t41(world: World) -> Iterator[Claim]:
    tree = world.tree("shapes.t41")
    yield "a slash at the end", tree.document["location"].endswith("/t41/")
    yield "two slashes", "/t41//data//deep/" in data_paths(world, "shapes.t41")[0]
    yield "deletes name it so", len(live_deletes(world, "shapes.t41")) == 1


def build_t42(world: World) -> None:
    """One file appended three times: three manifests name it, two snapshots hold it twice."""
    create(world, "shapes.t42", COLUMNS, 2)
    table = world.java_table("shapes.t42")
    path = data_folder(world, "shapes.t42") / "same.parquet"
    write_parquet(path, [ID, NAME], [[1, 2], ["a", "b"]])
    for _ in range(3):
        java_append(table, java_data_file(world, table.spec(), str(path), path))


def claims_t42(world: World) -> Iterator[Claim]:
    tree = world.tree("shapes.t42")
    yield "three manifests", len(tree.manifests()) == 3
    yield "one file", len({entry.path for entry in tree.iter_entries()}) == 1


def _t35(kind: str, title: str) -> Shape:
    build, claims = partial(build_t35, kind=kind), partial(claims_t35, kind=kind)
    return Shape(f"T35/{kind}", title, f"shapes.t35_{kind}", build, claims)


SHAPES = (
    Shape("T33", "data and metadata outside", "shapes.t33", build_t33, claims_t33),
    Shape("T34", "files imported from elsewhere", "shapes.t34", build_t34, claims_t34),
    _t35("deep", "object storage layout"),
    _t35("flat", "object storage layout, no partitions in paths"),
    _t35("outside", "object storage layout with the table's name"),
    Shape("T39", "a file of a sibling", "shapes.t39", build_t39, claims_t39),
    Shape(
        "T39/sibling",
        "a root that begins like another's",
        "shapes.t39_backup",
        build_t39_sibling,
        claims_t39_backup,
    ),
    Shape("T40", "one folder, three spellings", "shapes.t40", build_t40, claims_t40),
    Shape("T41", "slashes: two, and a last one", "shapes.t41", build_t41, claims_t41),
    Shape(
        "T42",
        "one file in many manifests",
        "shapes.t42",
        build_t42,
        claims_t42,
        cannot=frozenset({"rewrite"}),
        notes="no valid table: a rewrite counts the file once or thrice",
    ),
)
