"""Texts that people give to options, and texts that they get."""

from __future__ import annotations

import pytest

from bcn.cli.options import parse_duration, parse_labels, parse_mappings, parse_rate
from bcn.cli.output import (
    clean,
    command_line,
    format_bytes,
    format_count,
    format_requests,
    format_seconds,
    format_table,
    redacted,
)
from bcn.errors import UsageError


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("800", 800),
        ("1K", 1024),
        ("50M", 50 << 20),
        ("50m", 50 << 20),
        ("1.5G", 3 << 29),
        ("2 MiB/s", 2 << 20),
        ("2MB", 2 << 20),
        ("1T", 1 << 40),
    ],
)
def test_a_rate_is_bytes_a_second(text: str, rate: float) -> None:
    assert parse_rate(text) == rate


@pytest.mark.parametrize("text", ["", "0", "0.2", "-5M", "M", "5X", "1e9", "inf", "nan", "\u0665M"])
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no rate"):
        parse_rate(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0), ("30", 30), ("30s", 30), ("5m", 300), ("1h", 3600), ("1.5h", 5400), ("2D", 172800)],
)
def test_a_duration_is_seconds(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "m", "-1", "5 weeks", "1h30m", "inf"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no duration"):
        parse_duration(text)


def test_labels_are_split_at_the_first_equals_sign() -> None:
    assert parse_labels(["a=1", "b=x=y", "c="]) == {"a": "1", "b": "x=y", "c": ""}


@pytest.mark.parametrize("texts", [["a"], ["=1"], [" =1"], ["a=1", "a=1"]])
def test_what_is_no_label_is_refused(texts: list[str]) -> None:
    with pytest.raises(UsageError):
        parse_labels(texts)


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        ("/old=/new", "/old", "/new"),
        ("s3://a/b=file:///c", "s3://a/b", "file:///c"),
        ("/old/dt=1=/new", "/old/dt=1", "/new"),
        ("/old=new", "/old", "new"),
        ("/old=~/new", "/old", "~/new"),
    ],
)
def test_a_root_is_mapped_to_a_place(text: str, old: str, new: str) -> None:
    assert parse_mappings([text]) == {old: new}


@pytest.mark.parametrize("texts", [["/a"], ["=/a"], ["/a="], ["/a=/b=/c"], ["/a=/b", "/a=/c"]])
def test_what_maps_no_root_is_refused(texts: list[str]) -> None:
    with pytest.raises(UsageError):
        parse_mappings(texts)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1023 << 10, "1.0 MiB"),
        (5 << 30, "5.0 GiB"),
        (1 << 60, "1024.0 PiB"),
    ],
)
def test_sizes_are_short(count: int, text: str) -> None:
    assert format_bytes(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.04, "0.0 s"), (59.9, "59.9 s"), (60, "0:01:00"), (3725, "1:02:05")]
)
def test_times_are_short(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


def test_one_is_not_many() -> None:
    assert format_count(1, "table") == "1 table"
    assert format_count(1200, "table") == "1,200 tables"


def test_numbers_stand_to_the_right() -> None:
    assert format_table(("NAME", "N"), [("a", "1"), ("bb", "10")]) == [
        "NAME   N",
        "a      1",
        "bb    10",
    ]


def test_a_table_without_rows_is_its_header() -> None:
    assert format_table(("A", "B"), []) == ["A  B"]


def test_control_characters_are_spelled_out() -> None:
    assert clean("a\x1b[1mb\nc\u202e") == "a\\x1b[1mb\\nc\\u202e"
    assert clean("größe") == "größe"


def test_words_to_type_are_quoted_and_those_without_value_left_out() -> None:
    line = command_line(["bcn", "--repo", "my place", "--pit", None, "--quiet"])
    assert line == "bcn --repo 'my place' --quiet"


def test_locations_stay_exact_and_passwords_do_not_stay() -> None:
    exact = "file:///lake/at=10:15/x@y.metadata.json"
    assert redacted({"metadata_location": exact}) == {"metadata_location": exact}
    shown = redacted({"error": {"message": "no sql://ada:pw@db"}, "roots": [{"old": "s3://a:b@c"}]})
    assert "pw" not in str(shown)
    assert "a:b" not in str(shown)
    assert redacted([1, None, True, {"a": ("b",)}]) == [1, None, True, {"a": ["b"]}]


def test_requests_are_told_by_kind_and_repeated_ones_last() -> None:
    counts = {"retry": 7, "put": 5, "get": 1234, "list": 5}
    assert format_requests(counts) == "1,234 get, 5 list, 5 put, 7 tried again"
