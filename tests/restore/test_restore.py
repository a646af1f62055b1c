"""Restores into other names, places and catalogs; what is refused, and what is noticed in time."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from bcn.errors import (
    DamagedRepositoryError,
    NoSuchNamespaceError,
    NoSuchTableError,
    OverlapError,
    TargetExistsError,
    UnsupportedCatalogError,
    UnsupportedTableError,
    UsageError,
)
from bcn.iceberg.relocate import Move
from bcn.restore.plan import UuidPolicy
from tests.support.compare import check_still_works, compare_tables, spark_rows
from tests.support.place import Place
from tests.support.product import digest_tree, hadoop_settings
from tests.support.shapes import REFUSED_SHAPES, SHAPES, Shape, events
from tests.support.shapes.events import build_history
from tests.support.spark import add_hadoop_catalog

pytestmark = pytest.mark.spark

TABLE = "shapes.t"
BY_ID = {shape.id: shape for shape in SHAPES}


def backed_up(place: Place, *tables: str) -> None:
    for table in tables or (TABLE,):
        build_history(place.world, table)
    place.product.backup(place.scope)


def restored_files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_lost_table_comes_back_in_place_with_its_uuid(place: Place) -> None:
    backed_up(place)
    rows, uuid = place.rows(TABLE), place.world.tree(TABLE).document["table-uuid"]
    events.drop(place.world, TABLE)
    shutil.rmtree(place.world.warehouse / "shapes" / "t")
    report = place.product.restore()
    assert report.tables[0].uuid == uuid
    assert place.rows(TABLE) == rows
    assert place.world.tree(TABLE).document["location"] == str(place.world.warehouse / "shapes/t")


def test_what_is_still_in_place_is_not_copied_again(place: Place) -> None:
    backed_up(place)
    rows = place.rows(TABLE)
    events.drop(place.world, TABLE)  # the files stay
    report = place.product.restore()
    assert report.files_copied == 0
    assert report.files_adopted > 10
    assert place.rows(TABLE) == rows


def test_other_bytes_in_place_are_never_overwritten(place: Place) -> None:
    backed_up(place)
    events.drop(place.world, TABLE)
    data = next((place.world.warehouse / "shapes/t/data").glob("*.parquet"))
    data.write_bytes(b"somebody else's")
    with pytest.raises(TargetExistsError):
        place.product.restore()
    assert data.read_bytes() == b"somebody else's"
    with pytest.raises(TargetExistsError):
        place.product.restore()


def test_several_tables_are_restored_under_other_names(place: Place) -> None:
    backed_up(place, "shapes.one", "shapes.two")
    expected = {name: place.rows(f"shapes.{name}") for name in ("one", "two")}
    place.world.folder.rename(place.folder / "away")
    report = place.product.restore(target_catalog=place.target, target_database=("back", "again"))
    assert [str(item.table) for item in report.tables] == ["back.again.one", "back.again.two"]
    for number, name in enumerate(("one", "two")):
        assert place.restored_rows(report, number) == expected[name]


def test_globs_choose_tables_and_a_pattern_without_match_is_an_error(place: Place) -> None:
    backed_up(place, "shapes.one", "shapes.two")
    report = place.product.restore(tables=("t*",), target_catalog=place.target)
    assert [item.name for item in report.tables] == ["two"]
    with pytest.raises(NoSuchTableError):
        place.product.restore(tables=("three",), target_catalog=place.target)
    with pytest.raises(NoSuchNamespaceError):
        place.product.restore(databases=("shape",), target_catalog=place.target)
    with pytest.raises(UsageError):
        place.product.restore(target_table="one", target_catalog=place.target)


def test_a_name_or_a_place_that_is_taken_is_refused_and_left_alone(place: Place) -> None:
    backed_up(place)
    place.product.restore(target_catalog=place.target)
    before = digest_tree(place.folder / "target")
    with pytest.raises(TargetExistsError):
        place.product.restore(target_catalog=place.target)
    with pytest.raises(TargetExistsError):
        place.product.restore(
            target_catalog=place.target,
            target_table="other",
            target_location=str(place.folder / "target/shapes/t"),
        )
    assert digest_tree(place.folder / "target") == before


def test_a_target_inside_the_source_or_the_repository_is_refused(place: Place) -> None:
    backed_up(place)
    inside = (place.product.location / "x", place.world.warehouse / "shapes/t/copy", place.folder)
    for location in inside:
        with pytest.raises(OverlapError):
            place.product.restore(
                target_catalog=place.target,
                target_table="copy",
                target_location=str(location),
            )


@pytest.mark.parametrize("policy", [UuidPolicy.KEEP, UuidPolicy.NEW, UuidPolicy.AUTO])
def test_a_copy_gets_a_new_uuid_unless_told_to_keep_it(place: Place, policy: UuidPolicy) -> None:
    backed_up(place)
    uuid = place.world.tree(TABLE).document["table-uuid"]
    report = place.product.restore(target_catalog=place.target, uuid=policy)
    assert (report.tables[0].uuid == uuid) == (policy is UuidPolicy.KEEP)


def test_roots_go_where_they_are_mapped(place: Place) -> None:
    shape = BY_ID["T33"]
    shape.build(place.world)
    place.product.backup(place.scope)
    rows = place.rows(shape.table)
    location = place.world.metadata_location(shape.table)
    roots = place.product.repository.load_entry(
        place.product.repository.find_newest().objects[0].entry  # type: ignore[union-attr]
    ).roots
    mapped = tuple(Move(root.spelling, str(place.folder / f"m{root.id}")) for root in roots[1:])
    away = place.folder / "away"
    place.world.folder.rename(away)
    report = place.product.restore(target_catalog=place.target, map_roots=mapped)
    assert place.restored_rows(report) == rows
    assert all(restored_files(place.folder / f"m{root.id}") for root in roots[1:])
    assert not (place.folder / "target/shapes/t33/_roots").exists()
    differences = compare_tables(
        location,
        report.tables[0].metadata_location,
        [(move.old, move.new) for move in report.tables[0].roots],
        lambda place_: away / Path(place_).relative_to(place.world.folder),
    )
    assert differences == []


@pytest.mark.parametrize("shape_id", ["T01", "T07", "T17", "T31"])
def test_a_table_is_restored_into_a_hadoop_catalog(place: Place, spark: Any, shape_id: str) -> None:
    shape = BY_ID[shape_id]
    shape.build(place.world)
    place.product.backup(place.scope)
    rows = place.rows(shape.table)
    name, warehouse = f"{place.target}_hadoop", place.folder / "hadoop-target"
    place.product.catalogs = {**place.product.catalogs, name: hadoop_settings(name, warehouse)}
    warehouse.mkdir()
    place.world.folder.rename(place.folder / "away")
    report = place.product.restore(target_catalog=name)
    add_hadoop_catalog(spark, name, warehouse)
    table = f"{name}.{shape.table}"
    assert spark_rows(spark, table) == rows
    assert report.tables[0].metadata_location.rpartition("/")[2].startswith("v1.")
    spark.sql(f"INSERT INTO {table} SELECT * FROM {table} LIMIT 1").collect()
    assert spark_rows(spark, table)["current"][0] == rows["current"][0] + 1
    with pytest.raises(TargetExistsError):
        place.product.restore(target_catalog=name)


def test_a_hadoop_catalog_takes_no_free_location_and_no_metadata_path(place: Place) -> None:
    shape = BY_ID["T33"]
    shape.build(place.world)
    backed_up(place)
    name, warehouse = f"{place.target}_hadoop", place.folder / "hadoop-target"
    place.product.catalogs = {**place.product.catalogs, name: hadoop_settings(name, warehouse)}
    warehouse.mkdir()
    with pytest.raises(UnsupportedCatalogError):
        place.product.restore(
            tables=("t",), target_catalog=name, target_location=str(place.folder / "free")
        )
    with pytest.raises(UnsupportedCatalogError):
        place.product.restore(tables=("t33",), target_catalog=name)
    assert restored_files(warehouse) == []


@pytest.mark.parametrize("damage", ["flip", "truncate", "remove"])
@pytest.mark.parametrize("ending", [".parquet", "-m0.avro", ".metadata.json"])
def test_damage_in_the_repository_is_found_before_anything_is_registered(
    place: Place, damage: str, ending: str
) -> None:
    backed_up(place)
    stored = sorted((place.product.location / "data").rglob(f"*{ending}"))[0]
    {"flip": events.flip_bit, "truncate": events.truncate, "remove": Path.unlink}[damage](stored)
    with pytest.raises(DamagedRepositoryError, match=stored.name[:20]):
        place.product.restore(target_catalog=place.target)
    assert not (place.folder / "target.db").exists()
    with pytest.raises(DamagedRepositoryError):
        place.product.restore(target_catalog=place.target)


@pytest.mark.parametrize("kind", ["entries", "snapshots", "pit_manifests"])
def test_damaged_documents_are_found(place: Place, kind: str) -> None:
    backed_up(place)
    pit = place.product.repository.find_newest().pit  # type: ignore[union-attr]
    folder = next((place.product.location / "catalogs").rglob(kind))
    document = next(path for path in folder.rglob("*") if path.is_file())
    events.flip_bit(document)
    with pytest.raises(DamagedRepositoryError):
        place.product.restore(pit, target_catalog=place.target)
    assert not (place.folder / "target").exists() or restored_files(place.folder / "target") == [
        "shapes/t/.bcn-restore.json"
    ]


@pytest.mark.parametrize("shape", REFUSED_SHAPES, ids=[shape.id for shape in REFUSED_SHAPES])
def test_what_cannot_be_kept_exactly_is_refused_and_nothing_is_published(
    place: Place, shape: Shape
) -> None:
    shape.build(place.world)
    assert shape.broken_claims(place.world) == []
    with pytest.raises(UnsupportedTableError, match=r"encrypted|format version 4"):
        place.product.backup(place.scope)
    assert place.product.repository.pit_ids() == []


@pytest.mark.parametrize("shape_id", ["T07", "T20", "T33"])  # all: tests/shapes, slow
def test_a_restored_table_can_be_written_and_stays_in_its_place(
    place: Place, spark: Any, shape_id: str
) -> None:
    shape = BY_ID[shape_id]
    shape.build(place.world)
    place.product.backup(place.scope)
    away, repository = place.folder / "away", digest_tree(place.product.location)
    place.world.folder.rename(away)
    report = place.product.restore(target_catalog=place.target)
    table = report.tables[0].table
    name = ".".join(f"`{level}`" for level in (place.target, *table.namespace, table.name))
    new_roots = sorted({move.new for move in report.tables[0].roots})
    forbidden = [str(away), str(place.product.location)]
    assert check_still_works(spark, name, new_roots, forbidden) == []
    assert digest_tree(place.product.location) == repository


def test_notes_of_a_stopped_restore_are_not_believed(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stopped run of two tables numbers them otherwise than a run of one of them."""
    backed_up(place, "shapes.one", "shapes.two")
    rows = place.rows("shapes.two")
    with monkeypatch.context() as patched:
        patched.setattr("bcn.restore.run._Restore._check", _stop)
        with pytest.raises(KeyboardInterrupt):
            place.product.restore(tables=("t*", "o*"), target_catalog=place.target)
    scratch = place.folder / "target/shapes/one/.bcn-restore"
    assert list(scratch.glob("*/rewritten/**/*.parquet"))
    moved = place.folder / "target/shapes/two/.bcn-restore"
    scratch.rename(moved)
    report = place.product.restore(tables=("two",), target_catalog=place.target)
    assert place.restored_rows(report) == rows
    assert not moved.exists()


def _stop(_: object) -> None:
    raise KeyboardInterrupt
