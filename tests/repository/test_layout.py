"""Keys: built so that no two names share one and none leaves its prefix."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bcn.model import PitId, TableId
from bcn.repository import layout

PIT = PitId.of(datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC))
TABLE = TableId(("sales", "eu"), "orders")

odd_text = st.text(
    st.characters(exclude_categories=["Cs"]) | st.sampled_from("./%_-= \0\n\\"), max_size=30
)
paths = st.lists(odd_text.filter(lambda text: "/" not in text), max_size=5).map("/".join)
_SAFE_KEY = re.compile(r"[A-Za-z0-9._=%-]+(/[A-Za-z0-9._=%-]+)*")


def _is_safe(key: str) -> bool:
    segments = key.split("/")
    return (
        bool(_SAFE_KEY.fullmatch(key))
        and not {"", ".", ".."} & set(segments)
        and all(len(segment) <= 255 for segment in segments)
    )


@given(paths, paths, st.integers(0, 3), st.integers(0, 3))
def test_data_keys_are_injective(first: str, second: str, one: int, two: int) -> None:
    same = layout.data_key("id", one, first) == layout.data_key("id", two, second)
    assert same == ((one, first) == (two, second))


@given(
    st.lists(
        st.sampled_from(["a", "B", "0", ".", "/", "=", "-", "_", "%", " ", "é", "\n", "x" * 199]),
        max_size=8,
    )
)
def test_paths_without_escapes_go_by_the_same_rule(parts: list[str]) -> None:
    path = "".join(parts)
    assert layout._PLAIN.fullmatch(path) is None or layout._segments(path) == path


@given(paths)
def test_data_keys_never_leave_their_prefix(path: str) -> None:
    key = layout.data_key("id", 3, path)
    assert key.startswith("data/id/r3/")
    assert _is_safe(key)
    assert len(key) <= 900
    assert not any(segment.startswith(".") for segment in key.split("/"))


@given(paths)
def test_an_alternative_key_is_nobodys_first_key(path: str) -> None:
    key = layout.alternative_data_key(layout.data_key("id", 0, path), PIT)
    assert _is_safe(key)
    assert key != layout.data_key("id", 0, path)
    assert re.search(r"%%\d{8}T", key)


@given(odd_text, odd_text)
def test_name_segments_are_injective_and_safe(first: str, second: str) -> None:
    one, two = layout.name_segment(first), layout.name_segment(second)
    assert (one == two) == (first == second)
    assert _is_safe(one)
    assert "." not in one


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("data/a=1/x.parquet", "data/id/r0/data/a=1/x.parquet"),
        ("a b", "data/id/r0/a%20b"),
        ("50%", "data/id/r0/50%25"),
        ("é", "data/id/r0/%C3%A9"),
        (".hidden/x.y", "data/id/r0/%2Ehidden/x.y"),
        ("not utf-8 \udcff", "data/id/r0/not%20utf-8%20%FF"),
    ],
)
def test_keys_are_spelled_as_the_format_says(path: str, key: str) -> None:
    assert layout.data_key("id", 0, path) == key


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 201, "é" * 100])
def test_names_that_no_segment_can_spell_are_hashed(name: str) -> None:
    key = layout.data_key("id", 0, name)
    assert re.fullmatch(r"data/id/r0/%%[0-9a-f]{32}", key)


def test_a_segment_of_200_bytes_is_still_spelled() -> None:
    assert layout.data_key("id", 0, "x" * 200).endswith("x" * 200)


def test_a_key_of_more_than_900_bytes_is_hashed_as_a_whole() -> None:
    path = "/".join(["y" * 100] * 9)
    assert re.fullmatch(r"data/id/r0/%%[0-9a-f]{32}", layout.data_key("id", 0, path))
    assert layout.data_key("id", 0, path) != layout.data_key("id", 0, path + "z")


@pytest.mark.parametrize(
    ("uuid", "found"),
    [
        ("0AF3D7E2-0000-4000-8000-00000000000F", "0af3d7e2-0000-4000-8000-00000000000f"),
        ("0af3d7e2000040008000000000000000", None),
        ("../../../../etc", None),
        ("", None),
        (None, None),
    ],
)
def test_only_a_uuid_becomes_an_object_id(uuid: str | None, found: str | None) -> None:
    assert layout.find_uuid_id(uuid) == found


def test_a_named_id_depends_on_all_its_parts() -> None:
    ids = {
        layout.named_id("table", "c", TableId(("a", "b"), "t"), "/x"),
        layout.named_id("view", "c", TableId(("a", "b"), "t"), "/x"),
        layout.named_id("table", "d", TableId(("a", "b"), "t"), "/x"),
        layout.named_id("table", "c", TableId(("ab",), "t"), "/x"),
        layout.named_id("table", "c", TableId(("a", "b"), "u"), "/x"),
        layout.named_id("table", "c", TableId(("a", "b"), "t"), "/y"),
    }
    assert len(ids) == 6
    assert all(re.fullmatch(r"n-[0-9a-f]{16}", item) for item in ids)


def test_pit_keys_are_parsed_back_and_nothing_else_is() -> None:
    key = layout.pit_key("prod", PIT)
    assert layout.parse_pit_key(key) == PIT
    for other in (
        key + "x",
        "x" + key,
        key.replace("manifest.json", "other.json"),
        "catalogs/prod/pit_manifests/20261399T000000.000000Z/manifest.json",
        "catalogs/prod/pits.jsonl",
    ):
        assert layout.parse_pit_key(other) is None


def test_lease_keys_are_parsed_back_and_nothing_else_is() -> None:
    assert layout.parse_lease_key(layout.lease_key(12)) == 12
    assert layout.parse_lease_key(layout.heartbeat_key(12)) is None
    assert layout.parse_lease_key(layout.released_key(12)) is None
    assert layout.lease_key(12) == "leases/00000012.json"


def test_documents_of_a_table_stand_together() -> None:
    folder = "catalogs/prod/databases/sales%2Eeu/orders/"
    assert layout.table_prefix("prod", TABLE) == folder
    assert layout.entry_key("prod", TABLE, PIT) == f"{folder}entries/{PIT}.json"
    assert layout.layer_key("prod", TABLE, PIT, "full") == f"{folder}snapshots/{PIT}.parquet"
    assert (
        layout.layer_key("prod", TABLE, PIT, "delta", "-p2") == f"{folder}deltas/{PIT}-p2.parquet"
    )
    assert layout.table_manifest_key("prod", TABLE) == f"{folder}table_manifest.json"


def test_derived_documents_are_known_and_no_table_can_pose_as_one() -> None:
    derived = [
        layout.catalog_metadata_key("prod"),
        layout.database_metadata_key("prod", ("sales",)),
        layout.table_manifest_key("prod", TABLE),
        layout.deleted_tables_key("prod", ("sales",)),
        layout.deleted_databases_key("prod"),
    ]
    assert all(layout.is_derived_key(key) for key in derived)
    assert len(set(derived)) == len(derived)
    posing = TableId(("sales",), "table_manifest.json")
    assert not layout.is_derived_key(layout.table_prefix("prod", posing).rstrip("/"))
    assert not layout.is_derived_key(layout.entry_key("prod", TABLE, PIT))


def test_files_of_a_job_stand_in_its_folder() -> None:
    assert layout.job_key("a/b", "x/y") == "jobs/a%2Fb/x/y"
    assert layout.pits_index_key("prod") == "catalogs/prod/pits.jsonl"
