"""Changes in words a person uses."""

from __future__ import annotations

import pytest

from bcn.changes.words import shorten, tell_briefly, tell_each
from bcn.iceberg.columns import Change

MOVED = Change("ref", "moved", "main", "branch at 7", "branch at 8")
ADDED = Change("snapshot", "added", "8", None, "append")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (Change("column", "added", "a.b", None, "int"), "column a.b added, int"),
        (Change("column", "dropped", "a", "int"), "column a dropped, was int"),
        (Change("column", "renamed", "b", "a", "b"), "column a renamed to b"),
        (Change("column", "type", "a", "int", "long"), "column a is long now, was int"),
        (Change("column", "nullability", "a", "required", "optional"), "column a is optional now"),
        (Change("column", "doc", "a", None, "key"), "column a is described as 'key'"),
        (Change("column", "doc", "a", "key"), "column a has no description now"),
        (Change("column", "default", "a", "1", "2"), "default of column a: 1 to 2"),
        (Change("column order", "changed", "s", "a, b", "b, a"), "column order of s: a, b to b, a"),
        (Change("property", "set", "p", None, "1"), "property p set to '1'"),
        (Change("property", "removed", "p", "1"), "property p removed, was '1'"),
        (Change("property", "changed", "p", "1", "2"), "property p changed from '1' to '2'"),
        (Change("ref", "made", "q1", None, "tag at 7"), "tag q1 made at 7"),
        (Change("ref", "dropped", "q1", "tag at 7"), "tag q1 dropped at 7"),
        (MOVED, "branch main moved from 7 to 8"),
        (Change("ref", "retention", "r", "x", "y"), "ref r is kept otherwise: x to y"),
        (
            Change("partitioning", "changed", None, None, "day(at)"),
            "partitioning: unpartitioned to day(at)",
        ),
        (Change("sort order", "changed", None, "a asc", None), "sort order: a asc to unsorted"),
        (Change("identifier fields", "changed", None, None, "id"), "identifier fields: none to id"),
        (Change("format version", "changed", None, "2", "3"), "format version: 2 to 3"),
        (Change("sql", "changed", "spark", "SELECT\n 1", None), "sql of spark: SELECT 1 to none"),
        (
            Change("metadata", "rewritten"),
            "metadata written again, nothing that has a name here",
        ),
    ],
)
def test_a_change_is_a_sentence(change: Change, sentence: str) -> None:
    assert tell_each([change]) == [sentence]
    assert tell_briefly([change]) == sentence


def test_snapshots_are_told_together() -> None:
    added = [Change("snapshot", "added", str(n), None, "append") for n in range(7)]
    changes = [*added, Change("snapshot", "added", "9", None, "delete")]
    assert tell_each(changes) == [
        "8 snapshots added: append 0, append 1, append 2, append 3, append 4 and 3 more"
    ]
    assert tell_briefly(changes) == "8 snapshots added (7 append, 1 delete)"
    assert tell_briefly([Change("snapshot", "expired", "1", "append")]) == (
        "1 snapshot expired (append)"
    )


def test_a_branch_that_follows_its_new_snapshot_needs_no_word() -> None:
    assert tell_briefly([ADDED, MOVED]) == "1 snapshot added (append)"
    back = Change("ref", "moved", "main", "branch at 8", "branch at 7")
    assert tell_briefly([ADDED, back]).endswith("; branch main moved from 8 to 7")
    other = Change("ref", "moved", "audit", "branch at 7", "branch at 8")
    assert tell_briefly([ADDED, other]).endswith("; branch audit moved from 7 to 8")
    assert tell_each([ADDED, MOVED]) == ["1 snapshot added: append 8"]
    assert len(tell_each([ADDED, back])) == 2


def test_several_of_one_kind_are_told_together_only_in_one_line() -> None:
    changes = [
        Change("column", "added", "a", None, "int"),
        Change("property", "set", "x", None, "1"),
        Change("column", "added", "b", None, "int"),
        Change("property", "set", "y", None, "1"),
    ]
    assert tell_briefly(changes) == "2 columns added: a, b; 2 properties set: x, y"
    assert len(tell_each(changes)) == 4
    types = [Change("column", "type", name, "int", "long") for name in "abcdef"]
    assert tell_briefly(types) == "6 columns with another type: a, b, c, d, e and 1 more"


def test_nothing_is_told_as_nothing() -> None:
    assert tell_briefly([]) == "nothing that has a name here"


def test_long_texts_are_cut() -> None:
    assert shorten("x" * 60) == "x" * 60
    assert shorten("x" * 61) == "x" * 59 + "…"
