"""Every shape of the matrix, there and back: rows by every reader, documents, files, sizes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.shapes.conftest import Journey
from tests.support.compare import (
    Policy,
    compare_tables,
    jvm_rows,
    pyiceberg_rows,
    spark_rows,
    unreferenced_files,
)
from tests.support.compare.paths import local_path
from tests.support.shapes import SHAPES, Shape

pytestmark = pytest.mark.spark

each_shape = pytest.mark.parametrize("shape", SHAPES, ids=[shape.id for shape in SHAPES])


@each_shape
def test_nothing_but_locations_differs(journey: Journey, shape: Shape) -> None:
    restored = journey.table(shape)
    differences = compare_tables(
        journey.facts[shape.id].metadata_location,
        restored.metadata_location,
        [(move.old, move.new) for move in restored.roots],
        journey.source_path,
        policy=Policy(kept_properties=shape.kept_properties),
    )
    assert [str(item) for item in differences] == []


@each_shape
def test_every_snapshot_and_ref_gives_the_same_rows(
    journey: Journey, spark: Any, shape: Shape
) -> None:
    facts, restored = journey.facts[shape.id], journey.table(shape)
    assert not journey.world.folder.exists()
    if facts.spark is not None:
        found = spark_rows(
            spark, journey.spark_name(shape), lineage=shape.lineage, history=shape.history
        )
        assert found == facts.spark
    if facts.jvm is not None:
        assert jvm_rows(spark, restored.metadata_location) == facts.jvm
    if facts.pyiceberg is not None:
        assert pyiceberg_rows(restored.metadata_location) == facts.pyiceberg


@each_shape
def test_only_what_the_table_needs_is_restored(journey: Journey, shape: Shape) -> None:
    restored = journey.table(shape)
    home = min((move.new for move in restored.roots), key=len)
    assert unreferenced_files(restored.metadata_location, local_path(home)) == []


def test_a_second_backup_without_changes_copies_nothing(journey: Journey) -> None:
    assert {item.status for item in journey.second.objects} == {"UNCHANGED"}
    assert (journey.second.files_copied, journey.second.manifests_decoded) == (0, 0)
    assert len(journey.first.objects) == len(journey.second.objects) > 60


def test_a_backup_leaves_the_source_as_it_was(journey: Journey) -> None:
    assert journey.untouched
