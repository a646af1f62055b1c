"""Every shape is what it says, its readers are those it names, and events do what they say."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.compare import (
    check_still_works,
    compare_tables,
    jvm_rows,
    pyiceberg_rows,
    spark_rows,
)
from tests.support.shapes import REFUSED_SHAPES, SHAPES, Shape, World, build_all, events, open_world
from tests.support.shapes.craft import edit_document
from tests.support.shapes.model import HADOOP
from tests.support.spark import start_spark

pytestmark = [pytest.mark.spark, pytest.mark.slow]  # building fails on a broken claim anyway
_WANTED = {f"T{number:02d}" for number in (*range(1, 48), 55, 57)}
_WANTED -= {"T48"}  # tests/support/shapes/synthetic.py


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("world")
    built = open_world(start_spark(folder / "spark"), folder / "tables")
    start = time.monotonic()
    build_all(built, SHAPES + REFUSED_SHAPES)
    print(f"all shapes: {time.monotonic() - start:.1f} s")  # noqa: T201  (seen with -s)
    return built


def test_every_row_of_the_matrix_has_a_shape_and_no_id_comes_twice() -> None:
    ids = [shape.id for shape in SHAPES + REFUSED_SHAPES]
    assert {shape_id.split("/")[0] for shape_id in ids} == _WANTED
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.id)
def test_the_named_readers_read_a_shape_and_agree(world: World, shape: Shape) -> None:
    location = shape.metadata_location(world)
    counts = [_counts(jvm_rows(world.spark, location))]
    if shape.spark:
        found = spark_rows(
            world.spark, shape.name(world), lineage=shape.lineage, history=shape.history
        )
        counts.append(_counts(found))
    if shape.pyiceberg:
        counts.append(_counts(pyiceberg_rows(location)))
    assert all(count == counts[0] for count in counts)


def _counts(rows: dict[str, tuple[int, str]]) -> dict[str, int]:
    return {at: count for at, (count, _) in rows.items() if at.startswith("snapshot:")}


@pytest.mark.parametrize(
    "shape", [s for s in SHAPES if not (s.spark and s.pyiceberg)], ids=lambda shape: shape.id
)
def test_readers_that_a_shape_does_not_name_cannot_read_it(world: World, shape: Shape) -> None:
    if not shape.spark:
        with pytest.raises(Exception, match=r".+"):
            spark_rows(world.spark, shape.name(world))
    if not shape.pyiceberg:
        with pytest.raises(Exception, match=r".+"):
            pyiceberg_rows(shape.metadata_location(world))


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.id)
def test_a_shape_equals_itself(world: World, shape: Shape) -> None:
    location = shape.metadata_location(world)
    found = compare_tables(location, location, [("/nowhere", "/elsewhere")])
    wanted = ["missing"] if shape.id == "T47" else []
    assert [difference.what.split()[-1] for difference in found] == wanted


@pytest.fixture
def table(world: World, request: pytest.FixtureRequest) -> str:
    """A table of its own for a test that changes it."""
    name = f"shapes.own_{abs(hash(request.node.name)):x}"
    events.build_history(world, name)
    return name


def _rows(world: World, table: str) -> Any:
    return spark_rows(world.spark, world.name(table))


def test_rows_that_differ_have_another_digest(world: World, table: str) -> None:
    before = _rows(world, table)
    name = world.name(table)
    world.sql(f"UPDATE {name} SET name = null WHERE id = 1")
    after = _rows(world, table)
    assert after["current"][0] == before["current"][0]
    assert after["current"][1] != before["current"][1]
    assert {at: after[at] for at in before if at.startswith("snapshot:")}.items() <= before.items()


def test_a_renamed_column_has_another_digest(world: World, table: str) -> None:
    before = _rows(world, table)["current"]
    world.sql(f"ALTER TABLE {world.name(table)} RENAME COLUMN name TO title")
    assert _rows(world, table)["current"] != before


def test_a_healthy_table_still_works(world: World, table: str) -> None:
    location = world.tree(table).document["location"]
    nowhere = str(world.folder / "nowhere")
    assert check_still_works(world.spark, world.name(table), location, [nowhere]) == []


def test_a_table_that_writes_to_its_old_place_is_reported(world: World, table: str) -> None:
    location = world.tree(table).document["location"]
    old = f"{location}_old_place"
    edit_document(world, table, lambda document: document.update(location=old))
    found = check_still_works(world.spark, world.name(table), location, [old])
    assert {difference.what for difference in found} == {"outside", "files came or went there"}


def test_a_renamed_table_keeps_its_uuid_and_files(world: World, table: str) -> None:
    before = world.metadata_location(table)
    events.rename(world, table, f"{table}_renamed")
    assert not world.has(table)
    assert world.metadata_location(f"{table}_renamed") == before


def test_lost_files_are_gone(world: World, table: str) -> None:
    tree = world.tree(table)
    for lose in (events.delete_live_file, events.delete_manifest, events.delete_manifest_list):
        location = lose(world, table)
        assert not tree.file(location).exists()


def test_a_writer_leaves_one_snapshot_and_takes_old_files_away(world: World, table: str) -> None:
    before = world.tree(table)
    with events.busy_writer(world, table, rounds=1) as first_done:
        assert first_done.wait(60)
    after = world.tree(table)
    assert len(after.snapshots) == 1
    assert not any(before.file(where).exists() for where in before.lists())


def test_a_table_made_again_reuses_paths_for_other_bytes(world: World) -> None:
    before = world.tree("shapes.t45", HADOOP)
    first = before.file(before.location).with_name("v1.metadata.json")
    bytes_before = first.read_bytes()
    events.drop_and_recreate(world, "shapes.t45")
    after = world.tree("shapes.t45", HADOOP)
    assert after.document["table-uuid"] != before.document["table-uuid"]
    assert first.read_bytes() != bytes_before


def test_damage_changes_one_bit_or_cuts_bytes(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abc")
    events.flip_bit(path)
    assert path.read_bytes() == b"acc"
    events.truncate(path)
    assert path.read_bytes() == b"ac"
