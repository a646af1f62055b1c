"""Files, bytes and stored metadata: each damage found at its own level and not before."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from bcn.engine.spark import Engine, SparkSettings
from bcn.maintenance.verify import VerifyRequest, run_verify
from bcn.model import Json, PitId
from bcn.repository.repository import create_repository
from bcn.storage.protocol import StorageSpec
from tests.maintenance.made import MOMENT, Made, edit_column, flip, only

pytestmark = pytest.mark.spark


# level 2


@pytest.mark.parametrize("kind", ["data", "manifest", "manifest_list", "metadata"])
def test_a_missing_file_is_found_at_level_2(repository: Made, kind: str) -> None:
    key = repository.keys(kind)[0]
    repository.path(key).unlink()
    assert repository.verify(1).findings == ()
    finding = only(repository.verify(2))
    assert (finding.level, finding.key, finding.object) == (2, key, "sales.orders")
    assert finding.message == f"stored file {key} is missing"
    needing = [
        pit for pit in (repository.first, repository.second) if key in _needed(repository, pit)
    ]
    assert finding.pits == tuple(str(pit) for pit in needing)


def _needed(repository: Made, pit: PitId) -> set[str]:
    return {row["key"] for row in repository.rows(pit=pit).to_pylist()}


def test_every_pit_that_needs_a_hurt_file_is_named(repository: Made) -> None:
    shared = sorted(_needed(repository, repository.first) & _needed(repository, repository.second))
    repository.path(shared[0]).unlink()
    report = repository.verify(2)
    both = (str(repository.first), str(repository.second))
    assert only(report).pits == both
    assert report.as_json()["findings"][0]["pits"] == list(both)


def test_every_pit_that_names_a_hurt_entry_is_named(repository: Made) -> None:
    assert repository.record("sales.flat").status == "UNCHANGED"
    repository.path(repository.entry("sales.flat").layers[0].parts[0].key).unlink()
    assert only(repository.verify(1)).pits == (str(repository.first), str(repository.second))


def test_a_file_of_the_wrong_size_is_found_at_level_2_and_not_hashed(repository: Made) -> None:
    key = repository.keys("data")[0]
    size = repository.path(key).stat().st_size
    os.truncate(repository.path(key), size - 1)
    assert repository.verify(1).findings == ()
    report = repository.verify(3)
    assert only(report).message == f"stored file {key} has {size - 1} bytes, not {size}"
    assert report.files_hashed == report.files_checked - 1


def test_damage_in_one_file_does_not_hide_another(repository: Made) -> None:
    first, second = repository.keys("data")[:2]
    repository.path(first).unlink()
    flip(repository.path(second))
    found = {(finding.level, finding.key) for finding in repository.verify(3).findings}
    assert found == {(2, first), (3, second)}


def test_more_findings_than_a_task_may_list_are_counted(
    repository: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bcn.maintenance.inspection.FINDINGS_PER_TASK", 1)
    keys = repository.keys("data")
    for key in keys:
        repository.path(key).unlink()
    report = repository.verify(2)
    assert (len(report.findings), report.omitted) == (1, len(keys) - 1)
    assert report.as_json()["findings_omitted"] == len(keys) - 1


# level 3


@pytest.mark.parametrize("kind", ["data", "position_deletes", "manifest", "metadata"])
def test_a_flipped_byte_is_found_at_level_3(repository: Made, kind: str) -> None:
    key = repository.keys(kind)[-1]
    flip(repository.path(key), 20)
    assert repository.verify(2).findings == ()
    finding = only(repository.verify(3))
    assert (finding.level, finding.key, finding.object) == (3, key, "sales.orders")
    assert "SHA-256" in finding.message


def test_a_rate_slows_hashing_down(made: Made) -> None:
    fast = made.verify(3)
    slow = made.verify(3, bytes_per_second=fast.bytes_hashed / 1.5)
    assert slow.seconds["bytes"] > fast.seconds["bytes"] + 0.5


# level 4


def _without_data_row(rows: pa.Table) -> pa.Table:
    path = next(
        row["path"] for row in rows.to_pylist() if (row["change"], row["kind"]) == ("added", "data")
    )
    return rows.filter(pc.not_equal(rows["path"], path))


def _fit_totals(repository: Made) -> None:
    """Makes the totals of entry and PIT say what the inventory holds."""
    rows = repository.rows()
    sizes = {row["key"]: row["size_bytes"] for row in rows.to_pylist()}
    totals = {"files": len(sizes), "bytes": sum(sizes.values())}
    repository.edit_entry(lambda entry: entry["totals"].update(totals))
    repository.edit_pit(
        repository.second,
        lambda pit: [
            item["totals"].update(totals)
            for item in pit["objects"]
            if item["name"] == "sales.orders"
        ],
    )


def test_a_live_file_that_the_inventory_lacks_is_found_at_level_4(repository: Made) -> None:
    before = {row["path"] for row in repository.rows().to_pylist()}
    repository.edit_layer(_without_data_row)
    _fit_totals(repository)
    (path,) = before - {row["path"] for row in repository.rows().to_pylist()}
    assert repository.verify(3).findings == ()
    finding = only(repository.verify(4))
    assert (finding.level, finding.object, finding.pit) == (
        4,
        "sales.orders",
        str(repository.second),
    )
    assert finding.key in repository.keys("manifest")
    assert f"/{path}: it is not in the inventory" in finding.message


def test_a_file_that_a_coverage_calls_damaged_may_be_missing(repository: Made) -> None:
    before = {row["path"]: row["root_id"] for row in repository.rows().to_pylist()}
    repository.edit_layer(_without_data_row)
    _fit_totals(repository)
    (path,) = before.keys() - {row["path"] for row in repository.rows().to_pylist()}
    location = f"{repository.entry().spelling(before[path])}/{path}"
    damaged = [{"snapshot_id": "1", "files": [location]}]
    repository.edit_entry(lambda entry: entry["coverage"].update(damaged=damaged))
    assert repository.verify(4).findings == ()


def test_a_count_of_records_that_is_not_the_manifests_is_found_at_level_4(
    repository: Made,
) -> None:
    repository.edit_layer(edit_column("record_count", 99))
    assert repository.verify(3).findings == ()
    assert "another kind, size or count of records" in only(repository.verify(4)).message


def test_a_file_that_no_manifest_lists_any_more_is_found_at_level_4(repository: Made) -> None:
    def add(rows: pa.Table) -> pa.Table:
        found = rows.to_pylist()
        row = next(r for r in found if (r["change"], r["kind"]) == ("added", "data"))
        ghost = {**row, "path": "data/ghost.parquet"}
        return pa.Table.from_pylist([*found, ghost], rows.schema)

    repository.edit_layer(add)
    assert repository.verify(3).findings == ()
    assert "does not list" in only(repository.verify(4)).message
    assert "data/ghost.parquet" in only(repository.verify(4)).message


@pytest.mark.parametrize("kind", ["manifest_list", "manifest"])
def test_metadata_that_names_a_file_the_inventory_lacks_is_found_at_level_4(
    repository: Made, kind: str
) -> None:
    def drop(rows: pa.Table) -> pa.Table:
        found = rows.to_pylist()
        row = next(r for r in found if (r["change"], r["kind"]) == ("added", kind))
        return pa.Table.from_pylist([r for r in found if r is not row], rows.schema)

    repository.edit_layer(drop)
    _fit_totals(repository)
    assert repository.verify(3).findings == ()
    report = repository.verify(4)
    assert any(
        f.message.startswith(kind) and "not in the inventory" in f.message for f in report.findings
    )
    assert {finding.level for finding in report.findings} == {4}


def test_a_file_that_nothing_names_is_warned_about(repository: Made) -> None:
    def add(rows: pa.Table) -> pa.Table:
        found = rows.to_pylist()
        row = next(r for r in found if (r["change"], r["kind"]) == ("added", "manifest_list"))
        return pa.Table.from_pylist([*found, {**row, "path": "metadata/odd.avro"}], rows.schema)

    repository.edit_layer(add)
    report = repository.verify(4)
    assert "nothing in the stored metadata names" in only(report).message
    assert report.ok


def test_a_recorded_length_that_is_not_the_lists_is_found_at_level_4(repository: Made) -> None:
    def lie(rows: pa.Table) -> pa.Table:
        found = rows.to_pylist()
        row = next(r for r in found if (r["change"], r["kind"]) == ("added", "manifest"))
        row["recorded_size_bytes"] += 1
        return pa.Table.from_pylist(found, rows.schema)

    repository.edit_layer(lie)
    assert "not what was recorded" in only(repository.verify(4)).message


def test_a_location_under_no_root_is_found_at_level_4(repository: Made) -> None:
    def move(entry: Json) -> None:
        entry["metadata_location"] = "s3://elsewhere/x.metadata.json"

    repository.edit_entry(move)
    repository.edit_pit(
        repository.second,
        lambda pit: [
            item.update(metadata_location="s3://elsewhere/x.metadata.json")
            for item in pit["objects"]
            if item["name"] == "sales.orders"
        ],
    )
    messages = [finding.message for finding in repository.verify(4).findings]
    assert any("has no root of the entry" in message for message in messages)


def test_large_repositories_are_checked_in_spark_tasks_and_in_slots(
    repository: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bcn.maintenance.verify.SMALL_ROWS", 0)
    monkeypatch.setattr("bcn.maintenance.verify.ROWS_PER_GROUP", 4)
    assert repository.verify(4).findings == ()
    missing = repository.keys("data")[0]
    repository.path(missing).unlink()
    assert only(repository.verify(4)).key == missing


def test_a_hurt_layer_of_a_large_table_is_told_once_for_each_pit(
    repository: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bcn.maintenance.verify.ROWS_PER_GROUP", 4)
    flip(repository.path(repository.entry().layers[0].parts[0].key))
    assert len(repository.verify(2).findings) == 2


def test_verify_of_a_repository_without_backups_is_clean(tmp_path: Path) -> None:
    spec = StorageSpec(str(tmp_path / "new"))
    create_repository(spec, None, MOMENT)
    report = run_verify(
        VerifyRequest(spec, level=4), Engine(SparkSettings(master="local[2]")), lambda: MOMENT
    )
    assert (report.findings, report.pits) == ((), ())
