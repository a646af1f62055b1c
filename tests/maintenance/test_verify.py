"""Verification of a whole repository, and damage of its documents."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from bcn.engine.spark import Engine, SparkSettings
from bcn.errors import (
    NewerVersionError,
    NoRepositoryError,
    NoSuchNamespaceError,
    NoSuchTableError,
    UnknownPitError,
    UsageError,
)
from bcn.maintenance.report import LEVELS, Severity
from bcn.maintenance.verify import VerifyRequest, run_verify
from bcn.model import Json, PitId
from tests.maintenance.made import MOMENT, Made, edit_column, flip, only
from tests.support.product import digest_tree

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("level", [1, 2, 3, 4])
def test_a_whole_repository_has_no_findings(made: Made, level: int) -> None:
    before = digest_tree(made.location)
    report = made.verify(level)
    assert report.findings == ()
    assert report.ok
    assert report.pits == (made.first, made.second)
    assert report.objects == 2
    assert digest_tree(made.location) == before


def test_every_key_is_counted_and_hashed_once_although_two_pits_name_it(made: Made) -> None:
    sizes = {}
    for pit in (made.first, made.second):
        for table in ("sales.orders", "sales.flat"):
            rows = made.rows(table, pit).to_pylist()
            sizes |= {row["key"]: row["stored_size_bytes"] for row in rows}
    report = made.verify(3)
    assert (report.files_checked, report.bytes_checked) == (len(sizes), sum(sizes.values()))
    assert (report.files_hashed, report.bytes_hashed) == (len(sizes), sum(sizes.values()))


def test_every_manifest_is_decoded_once(made: Made) -> None:
    keys = {*made.keys("manifest"), *made.keys("manifest", "sales.flat")}
    assert made.verify(4).manifests_walked == len(keys)


def test_levels_1_and_2_need_no_spark(made: Made) -> None:
    script = (
        "import sys; from datetime import UTC, datetime;"
        "from bcn.engine.spark import Engine, SparkSettings;"
        "from bcn.maintenance.verify import VerifyRequest, run_verify;"
        "from bcn.storage.protocol import StorageSpec;"
        "request = VerifyRequest(StorageSpec(sys.argv[1]), level=2);"
        "report = run_verify(request, Engine(SparkSettings()), lambda: datetime.now(UTC));"
        "assert report.ok and report.files_checked, report;"
        "assert 'pyspark' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script, str(made.location)], check=True)


def test_the_report_says_what_its_level_proves(made: Made) -> None:
    shown = made.verify(2).as_json()
    assert shown["proves"] == [LEVELS[1], LEVELS[2]]
    assert shown["ok"] is True
    assert json.loads(json.dumps(shown)) == shown


def test_one_pit_and_one_table_can_be_chosen(made: Made) -> None:
    report = made.verify(2, pit=made.first, tables=("sales.fl*",))
    assert report.pits == (made.first,)
    assert report.objects == 1
    assert report.files_checked == made.entry("sales.flat").files


def test_a_database_can_be_chosen(made: Made) -> None:
    assert made.verify(1, databases=("sales",)).objects == 2


def test_names_that_match_nothing_are_refused(made: Made) -> None:
    with pytest.raises(NoSuchTableError, match="nowhere"):
        made.verify(1, tables=("nowhere",))
    with pytest.raises(NoSuchNamespaceError, match="nowhere"):
        made.verify(1, databases=("nowhere",))
    with pytest.raises(UnknownPitError):
        made.verify(1, pit=PitId("20200101T000000.000000Z"))


def test_levels_that_do_not_exist_and_places_without_a_repository_are_refused(
    made: Made, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="level 6"):
        made.verify(6)
    plain = Engine(SparkSettings(master="local[2]"))
    with pytest.raises(UsageError, match="lacks Iceberg"):
        run_verify(VerifyRequest(made.spec, level=5), plain, lambda: MOMENT)
    with pytest.raises(NoRepositoryError):
        Made(tmp_path, made.first, made.second).verify(1)


def test_a_read_only_repository_can_be_verified(repository: Made) -> None:
    mount = repository.location
    subprocess.run(["mount", "--bind", "-o", "ro", str(mount), str(mount)], check=True)
    try:
        with pytest.raises(OSError, match="Read-only"):
            (mount / "probe").touch()
        assert repository.verify(4).findings == ()
    finally:
        subprocess.run(["umount", str(mount)], check=True)


def test_the_scratch_folder_is_emptied(made: Made, tmp_path: Path) -> None:
    made.verify(4, scratch=str(tmp_path))
    assert list(tmp_path.iterdir()) == []


# level 1


def test_a_truncated_pit_is_found_and_the_other_one_is_still_checked(repository: Made) -> None:
    key = repository.pit_key(repository.second)
    path = repository.path(key)
    path.write_bytes(path.read_bytes()[:-100])
    report = repository.verify(2)
    finding = only(report)
    assert (finding.level, finding.severity) == (1, Severity.ERROR)
    assert (finding.pit, finding.key) == (str(repository.second), key)
    assert not report.ok
    assert report.pits == (repository.first,)
    assert report.files_checked > 0


def test_an_edited_pit_is_found(repository: Made) -> None:
    path = repository.path(repository.pit_key(repository.first))
    path.write_bytes(path.read_bytes().replace(b'"exact": true', b'"exact": false'))
    finding = only(repository.verify(1))
    assert finding.pit == str(repository.first)
    assert "manifest_checksum" in finding.message


def test_a_pit_that_was_made_to_look_abandoned_is_found(repository: Made) -> None:
    path = repository.path(repository.pit_key(repository.first))
    path.write_bytes(path.read_bytes().replace(b"{", b'{"abandoned": true,', 1))
    assert only(repository.verify(1)).pit == str(repository.first)


def test_a_pit_of_another_repository_is_told(repository: Made) -> None:
    repository.edit_pit(repository.second, lambda pit: pit["repository"].update(id="other"))
    report = repository.verify(1)
    assert only(report).severity is Severity.WARNING
    assert "another repository: other" in only(report).message
    assert report.ok


def test_a_pit_that_disagrees_with_its_entry_is_found(repository: Made) -> None:
    def lie(pit: Json) -> None:
        pit["objects"][0]["totals"]["files"] += 1

    repository.edit_pit(repository.second, lie)
    assert "says files" in only(repository.verify(1)).message


@pytest.mark.parametrize("damage", ["cut", "edit", "remove"])
def test_a_damaged_entry_is_found(repository: Made, damage: str) -> None:
    key = repository.record().entry.key
    path = repository.path(key)
    if damage == "remove":
        path.unlink()
    else:
        data = path.read_bytes()
        path.write_bytes(data[:-50] if damage == "cut" else data.replace(b"orders", b"0rders"))
    finding = only(repository.verify(2))
    assert (finding.level, finding.key, finding.object) == (1, key, "sales.orders")
    assert finding.pit == str(repository.second)


@pytest.mark.parametrize("damage", ["cut", "edit", "remove"])
def test_a_damaged_layer_is_found_for_every_pit_that_needs_it(
    repository: Made, damage: str
) -> None:
    key = repository.entry().layers[0].parts[0].key
    path = repository.path(key)
    if damage == "remove":
        path.unlink()
    elif damage == "cut":
        path.write_bytes(path.read_bytes()[:-10])
    else:
        flip(path, 100)
    report = repository.verify(4)
    assert {(f.level, f.key, f.object) for f in report.findings} == {(1, key, "sales.orders")}
    assert {f.pit for f in report.findings} == {str(repository.first), str(repository.second)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (edit_column("first_pit", None), "1 rows have no first_pit"),
        (edit_column("root_id", 77), "roots that the entry lacks: [77]"),
        (edit_column("size_bytes", 12345), "stored with another size"),
    ],
)
def test_a_layer_that_breaks_a_promise_of_the_format_is_found(
    repository: Made, change: Callable[[pa.Table], pa.Table], message: str
) -> None:
    repository.edit_layer(change)
    report = repository.verify(1)
    assert any(message in finding.message for finding in report.findings), report.findings
    assert {finding.pit for finding in report.findings} == {str(repository.second)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sha256": b"x" * 32}, "one key has two digests or sizes"),
        ({"key": "data/other"}, "one file was stored under two keys by one point in time"),
    ],
)
def test_a_file_with_two_digests_or_keys_is_found(
    repository: Made, change: Json, message: str
) -> None:
    def split(rows: pa.Table) -> pa.Table:
        found = rows.to_pylist()
        row = next(item for item in found if item["kind"] == "data")
        return pa.Table.from_pylist([*found, {**row, **change}], rows.schema)

    repository.edit_layer(split)
    messages = [finding.message for finding in repository.verify(1).findings]
    assert message in messages


def test_an_entry_whose_totals_are_wrong_is_found(repository: Made) -> None:
    repository.edit_entry(lambda entry: entry["totals"].update(bytes=1))
    repository.edit_pit(
        repository.second,
        lambda pit: [
            item["totals"].update(bytes=1)
            for item in pit["objects"]
            if item["name"] == "sales.orders"
        ],
    )
    assert "the entry says" in only(repository.verify(1)).message


def test_an_entry_whose_metadata_is_not_in_its_inventory_is_found(repository: Made) -> None:
    key = repository.edit_entry(lambda entry: entry.update(metadata_key="data/other"))
    finding = only(repository.verify(1))
    assert finding.key == key
    assert "data/other" in finding.message


def test_an_entry_whose_layers_are_in_the_wrong_order_is_found(repository: Made) -> None:
    repository.edit_entry(lambda entry: entry["layers"].reverse())
    assert "only full layer" in only(repository.verify(1)).message


def test_a_count_of_rows_that_is_wrong_is_found(repository: Made) -> None:
    def lie(entry: Json) -> None:
        entry["layers"][-1]["parts"][0]["rows"] += 1

    repository.edit_entry(lie)
    assert "its entry says" in only(repository.verify(1)).message


def test_removed_rows_in_a_full_layer_are_found(repository: Made) -> None:
    def lie(entry: Json) -> None:
        entry["layers"] = [{**entry["layers"][1], "kind": "full"}]

    repository.edit_entry(lie)
    assert any("has removed rows" in item.message for item in repository.verify(1).findings)


def test_a_broken_lease_is_found(repository: Made) -> None:
    path = repository.path("leases/00000001.json")
    path.write_text('{"version": "1"}')
    finding = only(repository.verify(1))
    assert finding.key == "leases/00000001.json"
    assert "not a whole lease" in finding.message


def test_a_broken_repository_document_is_found_and_the_rest_is_checked(repository: Made) -> None:
    repository.path("manifest.json").write_text('{"version": "1"}')
    report = repository.verify(2)
    assert only(report).key == "manifest.json"
    assert not report.ok
    assert report.files_checked > 0


def test_a_missing_repository_document_is_only_a_warning(repository: Made) -> None:
    repository.path("manifest.json").unlink()
    report = repository.verify(2)
    assert only(report).severity is Severity.WARNING
    assert report.ok


def test_a_repository_of_a_newer_version_is_refused(repository: Made) -> None:
    repository.path("manifest.json").write_text('{"version": "2"}')
    with pytest.raises(NewerVersionError):
        repository.verify(1)


@pytest.mark.parametrize("content", [b"\xff", b"[]\n", b'{"pit": 1'])
def test_broken_derived_files_are_only_warned_about(repository: Made, content: bytes) -> None:
    root = repository.location
    (derived,) = root.glob("catalogs/*/catalog_metadata.json")
    (index,) = root.glob("catalogs/*/pits.jsonl")
    derived.write_bytes(content)
    index.write_bytes(content)
    report = repository.verify(1)
    assert {finding.severity for finding in report.findings} == {Severity.WARNING}
    assert {Path(str(f.key)).name for f in report.findings} == {
        "catalog_metadata.json",
        "pits.jsonl",
    }
    assert report.ok


def test_a_pit_removed_by_hand_leaves_a_stale_index_and_nothing_else(repository: Made) -> None:
    path = repository.path(repository.pit_key(repository.first))
    path.unlink()
    path.parent.rmdir()
    report = repository.verify(4)
    assert only(report).severity is Severity.WARNING
    assert str(repository.first) in only(report).message
    (index,) = repository.location.glob("catalogs/*/pits.jsonl")
    index.unlink()
    assert repository.verify(1).findings == ()
