"""What a restore must rewrite, and what it must keep: small tables there and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bcn.engine.spark import Engine, SparkSettings
from bcn.errors import OverlapError
from bcn.iceberg.relocate import Move
from bcn.restore.plan import UuidPolicy
from tests.support.compare import jvm_rows, pyiceberg_rows, unreferenced_files
from tests.support.compare.avro import AvroFile
from tests.support.small import SOURCE, SmallPlace, SmallTable, open_small


@pytest.fixture
def small(tmp_path: Path) -> SmallPlace:
    return open_small(tmp_path)


@pytest.mark.parametrize("version", [2, 3])
def test_a_small_table_differs_in_its_places_only(small: SmallPlace, version: int) -> None:
    """It has deletes of every kind, statistics, and a tombstone whose file is long gone."""
    table = small.add(version)
    small.backup()
    small.move_source_away()
    report = small.restore()
    assert small.differences(table, report) == []
    restored = report.tables[0].metadata_location
    assert unreferenced_files(restored, small.folder / "target") == []


@pytest.mark.spark
@pytest.mark.parametrize("version", [2, 3])
def test_java_reads_of_a_small_table_what_it_read_before(
    spark: Any, tmp_path: Path, version: int
) -> None:
    """Backed up and restored by Spark, and its deletes apply in every snapshot."""
    small = open_small(tmp_path, Engine(SparkSettings(master="local[2]")))
    table = small.add(version)
    rows = jvm_rows(spark, table.location)
    assert len({count for count, _ in rows.values()}) == 2
    small.backup()
    small.move_source_away()
    report = small.restore()
    assert jvm_rows(spark, report.tables[0].metadata_location) == rows
    assert small.differences(table, report) == []


def test_pyiceberg_reads_the_deletion_vectors_of_a_restored_table(small: SmallPlace) -> None:
    table = small.add(3)
    rows = pyiceberg_rows(table.location)
    small.backup()
    small.move_source_away()
    assert pyiceberg_rows(small.restore().tables[0].metadata_location) == rows


@pytest.mark.parametrize("folder", ["source/db/t_backup", "elsewhere", "source/db/tx/a/b"])
def test_files_of_other_places_come_along(small: SmallPlace, folder: str) -> None:
    """Also where a place begins like the table's own."""
    table = small.add(3)
    new = str(small.folder / folder / "f1.parquet")
    _move_data_file(table, "f1.parquet", new)
    small.backup()
    assert [root.spelling for root in small.entry().roots] == [table.root, new.rpartition("/")[0]]
    report = small.restore()
    assert small.differences(table, report) == []
    target = str(small.folder / "target" / "db" / "t")
    assert {move.new for move in report.tables[0].roots} == {target, f"{target}/_roots/r1"}


def _move_data_file(table: SmallTable, name: str, new: str) -> None:
    """A data file that lies elsewhere, as `add_files` leaves it."""

    def change(file: AvroFile) -> None:
        for record in file.records:
            if record["data_file"]["file_path"].endswith(f"/{name}"):
                record["data_file"]["file_path"] = new

    Path(new).parent.mkdir(parents=True, exist_ok=True)
    table.path(f"data/{name}").rename(new)
    table.edit_manifest(change)


def test_a_path_that_leads_out_of_its_root_is_not_followed_out_of_the_target(
    small: SmallPlace,
) -> None:
    table = small.add(2)
    outside = f"{table.root}/../../../outside"
    _move_data_file(table, "f1.parquet", f"{outside}/f1.parquet")
    small.backup()
    (small.folder / "outside").rename(small.folder / "gone")
    with pytest.raises(OverlapError, match="leads out of"):
        small.restore()
    assert not (small.folder / "outside").exists()
    assert small.find_restored() is None
    mapped = Move(outside, str(small.folder / "mapped"))
    small.restore(target_table="other", map_roots=(mapped,))
    assert (small.folder / "mapped" / "f1.parquet").exists()


def test_files_of_an_expired_snapshot_live_as_long_as_a_manifest_lists_them(
    small: SmallPlace,
) -> None:
    """The snapshot that added the data files is gone; all entries still carry its id."""
    table = small.add(2)

    def expire(document: dict[str, Any]) -> None:
        document["snapshots"] = document["snapshots"][1:]
        document["snapshot-log"] = document["snapshot-log"][1:]

    table.edit(expire)
    table.path("metadata/snap-0.avro").unlink()
    small.backup()
    assert {row["path"] for row in small.inventory() if row["kind"] == "data"} == {
        "data/f0.parquet",
        "data/f1.parquet",
    }
    small.move_source_away()
    report = small.restore()
    assert small.differences(table, report) == []


def test_existing_entries_are_live_too(small: SmallPlace) -> None:
    table = small.add(2)

    def carry_over(file: AvroFile) -> None:
        for record in file.records:
            record |= {"status": 0, "sequence_number": 1, "file_sequence_number": 1}

    table.edit_manifest(carry_over)
    small.backup()
    assert sum(row["kind"] == "data" for row in small.inventory()) == 2
    assert small.differences(table, small.restore()) == []


def test_explicit_and_null_sequence_numbers_stay_what_they_are(small: SmallPlace) -> None:
    """An added file with a number of its own is what a compaction beside a delete leaves."""
    table = small.add(2)

    def number_first(file: AvroFile) -> None:
        file.records[0]["sequence_number"] = 1

    table.edit_manifest(number_first)
    small.backup()
    assert small.differences(table, small.restore()) == []


def test_a_file_that_is_not_as_long_as_recorded_is_kept_as_it_is(small: SmallPlace) -> None:
    table = small.add(2)

    def lie(file: AvroFile) -> None:
        file.records[0]["data_file"]["file_size_in_bytes"] += 7

    table.edit_manifest(lie)
    small.backup()
    row = next(row for row in small.inventory() if row["path"] == "data/f0.parquet")
    assert row["recorded_size_bytes"] == row["size_bytes"] + 7
    assert small.differences(table, small.restore()) == []


def test_the_oldest_tables_keep_their_manifests_without_a_list(small: SmallPlace) -> None:
    table = small.add(2)

    def embed(document: dict[str, Any]) -> None:
        for snapshot, names in zip(document["snapshots"], (["m0"], ["m0", "m1"]), strict=True):
            del snapshot["manifest-list"]
            snapshot["manifests"] = [f"{table.root}/metadata/{name}.avro" for name in names]

    table.edit(embed)
    small.backup()
    assert small.differences(table, small.restore()) == []


@pytest.mark.parametrize("policy", list(UuidPolicy))
def test_a_copy_is_another_table_unless_told_otherwise(
    small: SmallPlace, policy: UuidPolicy
) -> None:
    uuid = small.add(2).document["table-uuid"]
    small.backup()
    report = small.restore(uuid=policy)
    assert (report.tables[0].uuid == uuid) == (policy is UuidPolicy.KEEP)
    written = json.loads(Path(report.tables[0].metadata_location).read_text())
    assert written["table-uuid"] == report.tables[0].uuid


def test_a_table_that_comes_back_to_its_place_is_the_same_table(small: SmallPlace) -> None:
    table = small.add(2)
    small.backup()
    small.drop()
    table.path("data/f0.parquet").unlink()
    report = small.restore(target_catalog=SOURCE)
    assert report.tables[0].uuid == table.document["table-uuid"]
    assert table.path("data/f0.parquet").exists()
    assert report.files_copied == 1
