"""Backups of part of a history: what they store, keep to, and give back."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bcn.iceberg.history import ALL_HISTORY, History
from bcn.maintenance.verify import VerifyRequest, run_verify
from tests.support.small import SmallPlace, SmallTable, open_small

pytestmark = pytest.mark.long

CURRENT = History(count=1)


@pytest.fixture
def small(tmp_path: Path) -> SmallPlace:
    return open_small(tmp_path)


def _step_back(document: dict[str, Any]) -> None:
    """Main goes back to the first snapshot; the second, with its deletes, is still there."""
    document["current-snapshot-id"] = document["snapshots"][0]["snapshot-id"]
    document["refs"]["main"]["snapshot-id"] = document["current-snapshot-id"]


def _stepped_back(small: SmallPlace) -> SmallTable:
    table = small.add(2)
    small.commit(table, _step_back)
    return table


def _kinds(small: SmallPlace) -> list[str]:
    return sorted({row["kind"] for row in small.inventory()})


def _restored(report: Any) -> dict[str, Any]:
    return dict(json.loads(Path(report.tables[0].metadata_location).read_text()))


def test_only_what_the_kept_snapshots_need_is_stored(small: SmallPlace) -> None:
    table = _stepped_back(small)
    report = small.backup(history=CURRENT)
    first = table.document["snapshots"][0]["snapshot-id"]
    assert (small.entry().history, small.entry().covered) == ("current", (first,))
    assert _kinds(small) == ["data", "manifest", "manifest_list", "metadata"]
    assert report.objects[0].coverage == "current"
    assert report.objects[0].snapshots == 1
    assert small.stored("*equal.parquet*") == []


def test_what_is_restored_has_the_kept_snapshots_and_no_others(small: SmallPlace) -> None:
    first = _stepped_back(small).document["snapshots"][0]["snapshot-id"]
    small.backup(history=CURRENT)
    small.move_source_away()
    report = small.restore()
    document = _restored(report)
    assert [item["snapshot-id"] for item in document["snapshots"]] == [first]
    assert {name: ref["snapshot-id"] for name, ref in document["refs"].items()} == {"main": first}
    assert document["current-snapshot-id"] == first
    assert any("1 snapshots of its history" in text for text in report.warnings)


def test_the_next_backup_keeps_as_much_unless_told_otherwise(small: SmallPlace) -> None:
    table = _stepped_back(small)
    small.backup(history=CURRENT)
    again = small.backup()
    assert (again.objects[0].status, again.history) == ("UNCHANGED", "current")
    small.commit(table, lambda document: document["properties"].update(owner="x"))
    changed = small.backup()
    assert (changed.objects[0].status, changed.objects[0].coverage) == ("CHANGED", "current")
    assert "equality_deletes" not in _kinds(small)


def test_more_history_brings_what_was_left_out_and_less_lets_it_go(small: SmallPlace) -> None:
    table = _stepped_back(small)
    partial = small.backup(history=CURRENT)
    whole = small.backup(history=ALL_HISTORY)
    assert whole.objects[0].status == "CHANGED"
    assert 0 < whole.files_copied < partial.files_copied + whole.files_copied
    assert small.entry().covered is None
    assert "equality_deletes" in _kinds(small)
    small.backup(history=CURRENT)
    assert "equality_deletes" not in _kinds(small)
    small.move_source_away()
    pits = small.product.repository.pit_ids()
    assert small.differences(table, small.restore(pit=pits[1])) == []
    document = _restored(small.restore(pit=pits[2], target_table="part"))
    assert len(document["snapshots"]) == 1


@pytest.mark.parametrize("version", [2, 3])
def test_a_verification_follows_what_is_kept(small: SmallPlace, version: int) -> None:
    table = small.add(version)
    small.commit(table, _step_back)
    small.backup(history=CURRENT)
    request = VerifyRequest(small.product.spec, level=4)
    now = lambda: datetime.now(UTC)  # noqa: E731  a clock
    assert [str(item) for item in run_verify(request, small.product.engine, now).findings] == []
