"""Which snapshots a history keeps, and documents without the others."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bcn.errors import UsageError
from bcn.iceberg.history import ALL_HISTORY, History, find_covered, trim_metadata
from bcn.iceberg.metadata import read_facts


def document(parents: dict[int, int | None], refs: dict[str, tuple[str, int]]) -> dict[str, Any]:
    """A table whose snapshot n was committed at n seconds."""
    return {
        "format-version": 2,
        "table-uuid": "u",
        "location": "s3://b/t",
        "current-snapshot-id": refs["main"][1],
        "snapshots": [
            {
                "snapshot-id": number,
                **({"parent-snapshot-id": parent} if parent else {}),
                "timestamp-ms": number * 1000,
                "manifest-list": f"s3://b/t/l{number}",
            }
            for number, parent in parents.items()
        ],
        "refs": {n: {"type": kind, "snapshot-id": number} for n, (kind, number) in refs.items()},
        "snapshot-log": [{"snapshot-id": n, "timestamp-ms": n * 1000} for n in (1, 2, 3, 4)],
        "statistics": [
            {"snapshot-id": n, "statistics-path": f"s3://b/t/s{n}", "file-size-in-bytes": 1}
            for n in (1, 4)
        ],
        "unknown": {"kept": True},
    }


FIRST = datetime(1970, 1, 3)  # noqa: DTZ001  hypothesis adds the zones

# main: 1 2 3 4; side: 1 2 5; a tag on 1 and one on 3.
TABLE = document(
    {1: None, 2: 1, 3: 2, 4: 3, 5: 2},
    {"main": ("branch", 4), "side": ("branch", 5), "old": ("tag", 1), "new": ("tag", 3)},
)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("all", None),
        ("current", {4, 5}),
        ("last:1", {4, 5}),
        ("last:2", {3, 4, 2, 5}),
        ("last:4", None),
        ("last:3", {2, 3, 4, 1, 5}),
        ("since:1970-01-01T00:00:03", {3, 4, 2, 5}),
        ("since:1970-01-01T00:00:03.500Z", {3, 4, 2, 5}),
        ("since:1970-01-01T01:00:04+01:00", {4, 2, 5}),
        ("since:1969-01-01", None),
        ("since:2030-01-01", {4, 5}),
    ],
)
def test_a_history_keeps_the_newest_of_every_branch(text: str, kept: set[int] | None) -> None:
    expected = None if kept == {1, 2, 3, 4, 5} else kept
    assert find_covered(TABLE, History.parse(text)) == expected


def test_a_trimmed_document_is_one_whose_other_snapshots_were_expired() -> None:
    trimmed = trim_metadata(TABLE, {3, 4, 2, 5})
    assert [item["snapshot-id"] for item in trimmed["snapshots"]] == [2, 3, 4, 5]
    assert list(trimmed["refs"]) == ["main", "side", "new"]
    assert [item["snapshot-id"] for item in trimmed["snapshot-log"]] == [2, 3, 4]
    assert [item["snapshot-id"] for item in trimmed["statistics"]] == [4]
    assert trimmed["unknown"] == {"kept": True}
    assert trimmed["current-snapshot-id"] == 4
    assert len(TABLE["snapshots"]) == 5, "the input was changed"


def test_what_lies_before_a_gap_leaves_the_log() -> None:
    log = trim_metadata(TABLE, {1, 2, 4})["snapshot-log"]
    assert [item["snapshot-id"] for item in log] == [4]


def test_a_document_that_is_covered_whole_is_the_same() -> None:
    assert trim_metadata(TABLE, None) is TABLE


def test_a_table_without_snapshots_has_all_of_them() -> None:
    empty = {"format-version": 1, "location": "x", "current-snapshot-id": -1}
    assert find_covered(empty, History(count=1)) is None
    assert read_facts(trim_metadata(empty, frozenset())).snapshots == ()


def test_a_circle_of_parents_ends() -> None:
    circle = document({1: 2, 2: 1}, {"main": ("branch", 2)})
    assert find_covered(circle, History(count=9)) is None


@pytest.mark.parametrize(
    "text", ["", "last", "last:0", "last:-1", "last:x", "since:", "since:now", "ALL", "some"]
)
def test_what_is_no_history_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        History.parse(text)


@given(
    st.one_of(
        st.just(ALL_HISTORY),
        st.integers(1, 10**9 - 1).map(lambda count: History(count=count)),
        st.datetimes(FIRST, timezones=st.timezones()).map(lambda moment: History(since=moment)),
    )
)
def test_a_history_is_read_as_it_is_written(history: History) -> None:
    assert str(History.parse(str(history))) == str(history)
