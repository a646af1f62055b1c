"""Tables to which something happens between or during backups, and what happens: T43 to T47, T55.

A shape here is the table before the event; the functions are the events.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tests.support.shapes.basic import COLUMNS, numbered
from tests.support.shapes.craft import edit_document, expire_all_but_current
from tests.support.shapes.model import HADOOP, Claim, Shape, World, create

# What happens to a table


def append(world: World, table: str, first: int = 1001, last: int = 1003) -> None:
    """One more snapshot with one more file, for tables of `id` and `name`."""
    world.sql(f"INSERT INTO {world.name(table)} {numbered(first, last)}")


def delete_rows(world: World, table: str, condition: str) -> None:
    world.sql(f"DELETE FROM {world.name(table)} WHERE {condition}")


def compact(world: World, table: str) -> None:
    """Rewrites all data files into one."""
    world.sql(
        f"CALL {world.catalog}.system.rewrite_data_files("
        f"table => '{table}', options => map('rewrite-all', 'true'))"
    )


def expire(world: World, table: str) -> None:
    """Leaves the current snapshot only, and deletes what only older ones needed."""
    expire_all_but_current(world.java_table(table))


def rename(world: World, table: str, new: str) -> None:
    """Same uuid, same location, another name; the new one is taken within the catalog."""
    within = world.name(new).removeprefix(f"`{world.catalog}`.")
    world.sql(f"ALTER TABLE {world.name(table)} RENAME TO {within}")


def drop(world: World, table: str) -> None:
    """Out of the catalog; a SQL catalog leaves the files."""
    world.sql(f"DROP TABLE {world.name(table)}")


def drop_and_recreate(world: World, table: str, catalog: str = HADOOP) -> None:
    """Another table, with another uuid and other rows, where the first one was.

    A Hadoop catalog writes `v1.metadata.json` again, so the same path has other bytes.
    """
    name = world.name(table, catalog)
    purge = "" if catalog == HADOOP else " PURGE"
    world.sql(f"DROP TABLE {name}{purge}")
    _create_plain(world, table, catalog)
    world.sql(f"INSERT INTO {name} {numbered(501, 504)}")


def delete_live_file(world: World, table: str, *, newest: bool = True) -> str:
    """Deletes a live data file behind the table's back. Its location."""
    tree = world.tree(table)
    live = [e for e in tree.iter_entries() if e.is_live and e.content == 0]
    files = sorted(live, key=lambda entry: tree.file(entry.path).stat().st_mtime_ns)
    location = files[-1 if newest else 0].path
    tree.file(location).unlink()
    return location


def delete_manifest(world: World, table: str, *, newest: bool = True) -> str:
    """Deletes a manifest behind the table's back. Its location."""
    tree = world.tree(table)
    files = sorted(tree.manifests(), key=lambda where: tree.file(where).stat().st_mtime_ns)
    location = files[-1 if newest else 0]
    tree.file(location).unlink()
    return location


def delete_manifest_list(world: World, table: str, index: int = 0) -> str:
    """Deletes the list of the snapshot at `index`. Its location."""
    tree = world.tree(table)
    location = tree.lists()[index]
    tree.file(location).unlink()
    return location


def add_embedded_manifests(world: World, table: str) -> None:
    """Makes every snapshot of a v1 table name its manifests itself, without a list."""
    tree = world.tree(table)

    def embed(document: dict[str, list[dict[str, object]]]) -> None:
        for snapshot in document["snapshots"]:
            snapshot["manifests"] = tree.manifests_of(snapshot)
            del snapshot["manifest-list"]

    edit_document(world, table, embed)
    for location in tree.lists():
        tree.file(location).unlink()


def flip_bit(path: Path, position: int | None = None) -> None:
    """Damages one bit, in the middle unless told (T56)."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2 if position is None else position] ^= 1
    path.write_bytes(bytes(data))


def truncate(path: Path, lost_bytes: int = 1) -> None:
    """Cuts the last bytes off (T56)."""
    path.write_bytes(path.read_bytes()[:-lost_bytes])


@contextmanager
def busy_writer(world: World, table: str, rounds: int = 3) -> Iterator[threading.Event]:
    """Appends, compacts and expires again and again in another thread, until left (T44).

    Gives an event that is set once the first round is done. A writer that failed raises on leaving.
    """
    first_done, stop, failures = threading.Event(), threading.Event(), []

    def work() -> None:
        try:
            for turn in range(rounds):
                append(world, table, 10_000 + 10 * turn, 10_003 + 10 * turn)
                compact(world, table)
                expire(world, table)
                first_done.set()
                if stop.is_set():
                    return
        except Exception as error:  # noqa: BLE001  (handed to the test, which raises it)
            failures.append(error)
            first_done.set()

    thread = threading.Thread(target=work, name="busy-writer")
    thread.start()
    try:
        yield first_done
    finally:
        stop.set()
        thread.join()
    if failures:
        raise failures[0]


# The tables before


def _create_plain(world: World, table: str, catalog: str) -> None:
    name = world.name(table, catalog)
    properties = "'format-version' = '2', 'write.delete.mode' = 'merge-on-read'"
    world.sql(f"CREATE TABLE {name} ({COLUMNS}) USING iceberg TBLPROPERTIES ({properties})")


def build_history(world: World, table: str) -> None:
    """Three appends of one file each, and a delete."""
    name = create(world, table, COLUMNS, 2)
    for first in (1, 11, 21):
        world.sql(f"INSERT INTO {name} {numbered(first, first + 3)}")
    world.sql(f"DELETE FROM {name} WHERE id = 2")


def claims_history(world: World, table: str) -> Iterator[Claim]:
    tree = world.tree(table)
    yield "four snapshots", len(tree.snapshots) == 4
    files = {entry.path for entry in tree.iter_entries() if entry.is_live}
    yield "every live file is there", all(tree.file(path).is_file() for path in files)


def build_t45(world: World) -> None:
    _create_plain(world, "shapes.t45", HADOOP)
    name = world.name("shapes.t45", HADOOP)
    world.sql(f"INSERT INTO {name} {numbered(1, 6)}")
    world.sql(f"DELETE FROM {name} WHERE id = 2")


def claims_t45(world: World) -> Iterator[Claim]:
    location = world.metadata_location("shapes.t45", HADOOP)
    yield "a numbered metadata file", location.endswith("/v3.metadata.json")


def build_t47(world: World) -> None:
    """Old metadata files are deleted by the engine, and one that is still logged by hand."""
    properties = {
        "write.metadata.delete-after-commit.enabled": "true",
        "write.metadata.previous-versions-max": "3",
    }
    name = create(world, "shapes.t47", COLUMNS, 2, properties=properties)
    for first in (1, 11, 21, 31, 41):
        world.sql(f"INSERT INTO {name} {numbered(first, first + 1)}")
    tree = world.tree("shapes.t47")
    tree.file(tree.document["metadata-log"][0]["metadata-file"]).unlink()


def claims_t47(world: World) -> Iterator[Claim]:
    tree = world.tree("shapes.t47")
    there = [tree.file(e["metadata-file"]).is_file() for e in tree.document["metadata-log"]]
    yield "a log of three, the first one gone", there == [False, True, True]
    yield "five snapshots", len(tree.snapshots) == 5


def build_t57(world: World) -> None:
    name = create(world, "shapes.t57", COLUMNS, 2)
    world.sql(f"INSERT INTO {name} {numbered(1, 6)}")
    world.sql(f"DELETE FROM {name} WHERE id = 2")

    def add_properties(document: dict[str, object]) -> None:
        properties, location = document["properties"], document["location"]
        assert isinstance(properties, dict)
        properties.update(
            {
                "gc.enabled": "false",
                "nessie.commit.id": "0123456789abcdef",
                "write.object-storage.path": f"{location}/objects",
                "write.folder-storage.path": f"{location}/folders",
                "landing.zone": f"{location}/landing",
                "trino.stats.ndv.1.ndv": "6",
                "empty": "",
                "ключ": "значение",
            }
        )

    edit_document(world, "shapes.t57", add_properties)


def claims_t57(world: World) -> Iterator[Claim]:
    properties = world.tree("shapes.t57").document["properties"]
    yield "no garbage collection", properties["gc.enabled"] == "false"
    yield "a deprecated path", properties["write.object-storage.path"].endswith("/t57/objects")


def _history(shape_id: str, title: str, table: str) -> Shape:
    build, claims = partial(build_history, table=table), partial(claims_history, table=table)
    return Shape(shape_id, title, table, build, claims)


SHAPES = (
    _history("T43", "before files get lost", "shapes.t43"),
    _history("T44", "before writers come", "shapes.t44"),
    Shape("T45", "before it is dropped", "shapes.t45", build_t45, claims_t45, catalog=HADOOP),
    _history("T46", "before it is renamed", "shapes.t46"),
    Shape("T47", "a log longer than its files", "shapes.t47", build_t47, claims_t47),
    _history("T55/first", "one of several", "shapes.t55_first"),
    _history("T55/second", "another of several", "shapes.t55_second"),
    Shape(
        "T57",
        "properties of other owners",
        "shapes.t57",
        build_t57,
        claims_t57,
        kept_properties=frozenset({"landing.zone"}),
        cannot=frozenset({"insert", "delete", "rewrite", "expire"}),
        notes="Java refuses to write while write.object-storage.path is set",
    ),
)
