"""Entries: values that survive being stored."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bcn.errors import DamagedRepositoryError
from bcn.model import PitId, TableId
from bcn.repository.document import render_document
from bcn.repository.entry import (
    FACT_KEYS,
    Entry,
    Layer,
    LayerPart,
    Root,
    parse_entry,
    render_entry,
)

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
counts = st.integers(0, 2**62)
pits = st.datetimes().filter(lambda moment: moment.year >= 1000).map(PitId.of)
parts = st.lists(st.builds(LayerPart, text, text, counts, counts), max_size=3).map(tuple)
entries = st.builds(
    Entry,
    object_id=text,
    type=st.sampled_from(["table", "view"]),
    uuid=st.none() | text,
    table=st.builds(TableId, st.lists(text, min_size=1, max_size=2).map(tuple), text),
    pit=pits,
    metadata_location=text,
    metadata_key=text,
    metadata_sha256=text,
    metadata_version=text,
    roots=st.lists(st.builds(Root, counts, text), max_size=3).map(tuple),
    layers=st.lists(
        st.builds(Layer, st.sampled_from(["full", "delta"]), pits, parts), max_size=3
    ).map(tuple),
    files=counts,
    size_bytes=counts,
    damaged=st.lists(st.fixed_dictionaries({"snapshot_id": text}), max_size=2).map(tuple),
    table_facts=st.dictionaries(st.sampled_from(FACT_KEYS), text | counts | st.none()),
)


@given(entries)
def test_an_entry_survives_being_stored(entry: Entry) -> None:
    assert parse_entry(render_document(render_entry(entry)), "key") == entry


def _document(**more: Any) -> dict[str, Any]:
    entry = Entry(
        object_id="o",
        type="table",
        uuid=None,
        table=TableId(("db",), "t"),
        pit=PitId("20260102T030405.000006Z"),
        metadata_location="/t/m",
        metadata_key="data/m",
        metadata_sha256="s",
        metadata_version="1-2",
        roots=(Root(0, "/t"), Root(4, "s3://b/t")),
        layers=(Layer("full", PitId("20260102T030405.000006Z"), (LayerPart("k", "s", 1, 3),)),),
        files=1,
        size_bytes=2,
        damaged=(),
        table_facts={"snapshots": 1},
    )
    return {**render_entry(entry), **more}


def test_roots_are_found_by_their_ids() -> None:
    entry = parse_entry(render_document(_document()), "key")
    assert (entry.spelling(0), entry.spelling(4)) == ("/t", "s3://b/t")


def test_rows_of_a_layer_are_those_of_its_parts() -> None:
    parts = [{"key": "k", "sha256": "s", "size_bytes": 1, "rows": rows} for rows in (3, 4)]
    layers = [{"kind": "full", "pit": "20260102T030405.000006Z", "rows": 7, "parts": parts}]
    entry = parse_entry(render_document(_document(layers=layers)), "key")
    assert entry.layers[0].rows == 7
    assert render_entry(entry)["layers"] == layers


@pytest.mark.parametrize("key", ["object_id", "uuid", "roots", "layers", "totals", "coverage"])
def test_an_entry_that_lacks_a_key_is_damage(key: str) -> None:
    document = _document()
    del document[key]
    with pytest.raises(DamagedRepositoryError, match="the/key is not a whole entry"):
        parse_entry(render_document(document), "the/key")


@pytest.mark.parametrize("more", [{"roots": [7]}, {"layers": None}, {"totals": []}])
def test_an_entry_of_other_types_is_damage(more: dict[str, Any]) -> None:
    with pytest.raises(DamagedRepositoryError):
        parse_entry(render_document(_document(**more)), "key")
