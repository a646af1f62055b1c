"""Layers: rendered, parsed, and folded as docs/format.md says, beside a model in plain Python."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bcn.errors import DamagedRepositoryError
from bcn.model import PitId, sha256
from bcn.repository.entry import Layer, LayerPart
from bcn.repository.inventory import (
    ADDED,
    LAYER_SCHEMA,
    REMOVED,
    UNLISTED_COLUMNS,
    Slot,
    distinct_files,
    fold,
    load_inventory,
    load_unlisted,
    manifest_names,
    parse_layer,
    render_layer,
    slot_of,
    totals,
)
from bcn.storage.open import open_storage
from bcn.storage.protocol import Storage, StorageSpec

Row = dict[str, Any]

KINDS = ("metadata", "manifest_list", "manifest", "data", "position_deletes")
paths = st.sampled_from(["a", "a/b", "b", "é", "", "x/a", "with space"])
roots = st.integers(0, 2)


def _row(change: str, kind: str, root_id: int, path: str, parent: str | None) -> Row:
    row: Row = dict.fromkeys(LAYER_SCHEMA.names)
    row |= {"change": change, "kind": kind, "root_id": root_id, "path": path}
    if change == ADDED:
        key = f"data/{root_id}/{path}"
        row |= {"parent_manifest": parent, "key": key, "size_bytes": len(key)}
        row |= {"sha256": (key.encode() * 40)[:32], "stored_size_bytes": len(key)}
        row |= {"first_pit": "p", "record_count": 3}
    return row


parents = st.builds(lambda root, path: f"r{root}/{path}", roots, paths)
added = st.builds(_row, st.just(ADDED), st.sampled_from(KINDS), roots, paths, st.none() | parents)
removed = st.builds(_row, st.just(REMOVED), st.sampled_from(KINDS), roots, paths, st.none())
layers = st.lists(st.lists(st.lists(added | removed, max_size=6), max_size=3), max_size=4)


def _table(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, LAYER_SCHEMA)


def _model(stack: list[list[list[Row]]]) -> list[Row]:
    """Section 5 of the format, word for word."""
    state: list[Row] = []
    for parts in stack:
        rows = [row for part in parts for row in part]
        for gone in (row for row in rows if row["change"] == REMOVED):
            identity = (gone["kind"], gone["root_id"], gone["path"])
            state = [r for r in state if (r["kind"], r["root_id"], r["path"]) != identity]
            if gone["kind"] == "manifest":
                name = f"r{gone['root_id']}/{gone['path']}"
                state = [r for r in state if r["parent_manifest"] != name]
        state += [row for row in rows if row["change"] == ADDED]
    return state


def _counted(rows: list[Row]) -> Counter[tuple[object, ...]]:
    return Counter(tuple(row[name] for name in LAYER_SCHEMA.names) for row in rows)


@given(layers)
def test_folding_is_what_the_format_says(stack: list[list[list[Row]]]) -> None:
    folded = fold([[_table(part) for part in parts] for parts in stack])
    assert _counted(folded.to_pylist()) == _counted(_model(stack))


@given(layers, st.integers(1, 4))
def test_slots_share_a_folded_inventory_among_them(
    stack: list[list[list[Row]]], count: int
) -> None:
    tables = [[_table(part) for part in parts] for parts in stack]
    shares = [fold(tables, Slot(number, count)).to_pylist() for number in range(count)]
    together = [row for share in shares for row in share]
    assert _counted(together) == _counted(_model(stack))
    names = [{row["path"].rpartition("/")[2] for row in share} for share in shares]
    assert sum(len(share) for share in names) == len(set().union(*names))


@given(st.lists(added | removed, max_size=20))
def test_a_layer_survives_being_stored_and_is_sorted(rows: list[Row]) -> None:
    found = parse_layer(render_layer(_table(rows)), "key")
    assert found.schema == LAYER_SCHEMA
    assert _counted(found.to_pylist()) == _counted(rows)
    places = [(r["root_id"], r["path"]) for r in found.to_pylist()]
    assert places == sorted(places, key=lambda place: (place[0], place[1].encode()))


def test_equal_rows_give_equal_bytes() -> None:
    rows = [_row(ADDED, "data", 0, "a", None), _row(ADDED, "data", 0, "b", None)]
    assert render_layer(_table(rows)) == render_layer(_table(rows[::-1]))


@pytest.mark.parametrize("data", [b"", b"PAR1", b"not parquet at all"])
def test_what_is_not_parquet_is_damage(data: bytes) -> None:
    with pytest.raises(DamagedRepositoryError, match="the/key is not Parquet"):
        parse_layer(data, "the/key")


def test_a_layer_that_lacks_columns_is_damage() -> None:
    sink = io.BytesIO()
    pq.write_table(pa.table({"change": ["added"]}), sink)
    with pytest.raises(DamagedRepositoryError, match="lacks columns"):
        parse_layer(sink.getvalue(), "key")


def test_columns_that_nobody_knows_are_left_out() -> None:
    table = _table([_row(ADDED, "data", 0, "a", None)])
    sink = io.BytesIO()
    pq.write_table(table.append_column("later", pa.array([1])), sink)
    assert parse_layer(sink.getvalue(), "key").schema == LAYER_SCHEMA


def test_kinds_that_nobody_knows_are_kept() -> None:
    rows = [_row(ADDED, "something_new", 0, "a", None)]
    assert fold([[_table(rows)]]).to_pylist() == rows


def test_manifests_are_named_by_root_and_path() -> None:
    rows = _table([_row(ADDED, "manifest", 2, "m/x.avro", None)])
    assert manifest_names(rows).to_pylist() == ["r2/m/x.avro"]


@given(st.lists(added, max_size=20))
def test_every_key_is_counted_once(rows: list[Row]) -> None:
    sizes = {row["key"]: row["size_bytes"] for row in rows}
    assert totals(_table(rows)) == (len(sizes), sum(sizes.values()))
    kept = distinct_files(_table(rows)).to_pylist()
    assert kept == [row for at, row in enumerate(rows) if _is_first(rows, at)]


def _is_first(rows: list[Row], at: int) -> bool:
    return all(row["key"] != rows[at]["key"] for row in rows[:at])


def test_a_file_stays_in_its_slot_whatever_its_folder() -> None:
    first, second = (
        slot_of(pa.array([f"{folder}f{number}" for number in range(50)]), Slot(1, 3)).tolist()
        for folder in ("", "some/where/")
    )
    assert first == second
    assert slot_of(pa.array(["a", "b"]), Slot()).all()
    assert 5 < sum(first) < 30


# through a storage


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return open_storage(StorageSpec(str(tmp_path)))


def _stored(storage: Storage, stack: list[list[list[Row]]]) -> list[Layer]:
    found = []
    for number, parts in enumerate(stack):
        items = []
        for part, rows in enumerate(parts):
            data = render_layer(_table(rows))
            key = f"layer-{number}-{part}"
            storage.replace(key, data)
            items.append(LayerPart(key, sha256(data), len(data), len(rows)))
        kind = "delta" if number else "full"
        found.append(Layer(kind, PitId("20260102T030405.000006Z"), tuple(items)))
    return found


@settings(max_examples=25)
@given(layers)
def test_what_is_stored_is_loaded_and_folded(
    tmp_path_factory: pytest.TempPathFactory, stack: list[list[list[Row]]]
) -> None:
    storage = open_storage(StorageSpec(str(tmp_path_factory.mktemp("layers"))))
    stored = _stored(storage, stack)
    assert _counted(load_inventory(storage, stored).to_pylist()) == _counted(_model(stack))
    unlisted = load_unlisted(storage, stored)
    expected = [row for row in _model(stack) if row["parent_manifest"] is None]
    assert unlisted.column_names == list(UNLISTED_COLUMNS)
    assert Counter((r["kind"], r["root_id"], r["path"]) for r in unlisted.to_pylist()) == Counter(
        (r["kind"], r["root_id"], r["path"]) for r in expected
    )


def test_a_missing_part_is_damage(storage: Storage) -> None:
    stored = _stored(storage, [[[_row(ADDED, "data", 0, "a", None)]]])
    storage.delete("layer-0-0")
    with pytest.raises(DamagedRepositoryError, match="layer-0-0 is missing"):
        load_inventory(storage, stored)


@pytest.mark.parametrize("position", [4, 50, -9])
def test_a_part_with_a_flipped_byte_is_damage(storage: Storage, position: int) -> None:
    stored = _stored(storage, [[[_row(ADDED, "data", 0, "a", None)]]])
    data = bytearray(storage.read("layer-0-0"))
    data[position] ^= 1
    storage.replace("layer-0-0", bytes(data))
    for load in (load_inventory, load_unlisted):
        with pytest.raises(DamagedRepositoryError, match="SHA-256"):
            load(storage, stored)
