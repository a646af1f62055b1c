"""What points in time need: the keys of their folded inventories, however these are made."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bcn.errors import DamagedRepositoryError
from bcn.maintenance import live as live_module
from bcn.maintenance.holdings import Holdings
from bcn.maintenance.live import KeySet, load_live
from bcn.model import PitId, TableId, sha256
from bcn.repository import layout
from bcn.repository.document import render_document
from bcn.repository.entry import Layer, LayerPart, render_entry
from bcn.repository.inventory import LAYER_SCHEMA, load_inventory, render_layer
from bcn.repository.pit import EntryRef, ObjectRecord
from tests.repository.test_derived import START, Life, make_entry, open_life

TABLE = TableId(("a",), "t")
KEYS = [f"data/x/r0/{number}" for number in range(12)]

# One layer: manifests and files it takes away, files it adds (path, manifest that lists it, key).
FILES = st.tuples(
    st.integers(0, 5), st.sampled_from([None, "m0", "m1", "m2"]), st.integers(0, len(KEYS) - 1)
)
LAYERS = st.tuples(
    st.lists(st.sampled_from(["m0", "m1", "m2"]), max_size=2),
    st.lists(st.integers(0, 5), max_size=2),
    st.lists(FILES, max_size=6),
)

SIX_FILES: Any = ([], [], [(number, "m0", number) for number in range(6)])


def row(change: str, kind: str, path: str, parent: str | None, key: str | None) -> dict[str, Any]:
    values = dict.fromkeys(LAYER_SCHEMA.names)
    listed = None if parent is None else f"r0/{parent}"
    known = {"change": change, "kind": kind, "root_id": 0, "path": path, "key": key}
    return {**values, **known, "parent_manifest": listed}


def rows_of(layer: Any, *, is_full: bool) -> list[dict[str, Any]]:
    manifests, files, added = layer
    removed = [row("removed", "manifest", name, None, None) for name in manifests]
    removed += [row("removed", "data", f"f{number}", None, None) for number in files]
    new = [row("added", "data", f"f{path}", parent, KEYS[key]) for path, parent, key in added]
    return new if is_full else [*removed, *new]


def save_layer(life: Life, number: int, layer: Any, *, is_full: bool) -> Layer:
    """In two parts, so that a layer is read as what its parts are together."""
    rows = rows_of(layer, is_full=is_full)
    parts = []
    for half, some in enumerate((rows[::2], rows[1::2])):
        data = render_layer(pa.Table.from_pylist(some, LAYER_SCHEMA))
        key = f"catalogs/prod/databases/a/t/deltas/{number}-{half}.parquet"
        life.repository.storage.write_once(key, data)
        parts.append(LayerPart(key, sha256(data), len(data), len(some)))
    return Layer("full" if is_full else "delta", PitId.of(START), tuple(parts))


def save_version(life: Life, number: int, layers: Sequence[Layer]) -> ObjectRecord:
    pit = PitId.of(START.replace(day=1 + number))
    entry = replace(make_entry("x", TABLE, pit, 1), layers=tuple(layers), metadata_key=f"m{number}")
    data = render_document(render_entry(entry))
    key = layout.entry_key("prod", TABLE, pit)
    life.repository.storage.write_once(key, data)
    ref = EntryRef(key, sha256(data), len(data))
    return ObjectRecord("x", "table", TABLE, "X", ref, "/m", "1", "0" * 64, 1, 1, 1)


@pytest.mark.long
@settings(max_examples=60)
@given(
    st.lists(st.tuples(LAYERS, st.booleans(), st.booleans()), min_size=1, max_size=6),
    st.integers(0, 3),
)
@example([(SIX_FILES, False, False), ((["m0"], [], []), False, True)], 1)
@example([(SIX_FILES, False, True), ((["m0"], [], []), False, True)], 1)
@example([(SIX_FILES, False, True), (([], [], [(0, None, 7)]), True, True)], 2)
def test_the_keys_of_every_folded_inventory_and_no_others_are_needed(
    steps: Sequence[tuple[Any, bool, bool]], rows_per_slot: int
) -> None:
    """Each step is a layer, maybe a full one that begins anew, and maybe without a PIT of it."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(live_module, "ROWS_PER_SLOT", rows_per_slot or 1_000_000)
        patch.setattr(live_module, "_BATCH", 2)
        life = open_life(Path(folder) / "repository")
        holdings, chain = Holdings(), []
        needed: set[str] = set()
        for number, (layer, is_full, has_pit) in enumerate(steps):
            is_first = is_full or not chain
            saved = save_layer(life, number, layer, is_full=is_first)
            chain = [saved] if is_first else [*chain, saved]
            if has_pit:
                record = save_version(life, number, chain)
                holdings.add(life_pit(life, record, number))
                rows = load_inventory(life.repository.storage, chain)
                needed |= {*rows["key"].to_pylist(), record.entry.key, f"m{number}"}
                needed |= {part.key for item in chain for part in item.parts}
        keys = [*KEYS, *life.repository.storage.iter_keys("catalogs/"), "m0", "m1", "m2", "m3"]
        found = load_live(life.repository, holdings).has(keys)
        assert [key for key, is_live in zip(keys, found, strict=True) if is_live] == [
            key for key in keys if key in needed
        ]


def life_pit(life: Life, record: ObjectRecord, number: int) -> Any:
    return replace(
        life.pits[0] if life.pits else life.backup(),
        pit=PitId.of(START.replace(day=1 + number)),
        objects=(record,),
    )


def test_a_layer_of_the_right_digest_that_is_no_inventory_is_damage(tmp_path: Path) -> None:
    life = open_life(tmp_path / "repository")
    good = save_layer(life, 0, ([], [], [(1, None, 1)]), is_full=True)
    for number, data in enumerate([b"junk", b"", parquet_without_key()], 1):
        key = f"catalogs/prod/databases/a/t/deltas/bad{number}.parquet"
        life.repository.storage.write_once(key, data)
        bad = Layer("delta", PitId.of(START), (LayerPart(key, sha256(data), len(data), 1),))
        holdings = Holdings()
        holdings.add(life_pit(life, save_version(life, number, [good, bad]), number))
        with pytest.raises(DamagedRepositoryError, match=f"bad{number}"):
            load_live(life.repository, holdings)


def parquet_without_key() -> bytes:
    rows = [row("added", "data", "f", None, None)]
    return render_layer(pa.Table.from_pylist(rows, LAYER_SCHEMA))


def test_a_set_of_keys_knows_its_own_and_no_others() -> None:
    keys = KeySet()
    assert list(keys.has(["a"])) == [False]
    keys.add(["a", "b"])
    keys.add(f"k{number}" for number in range(1000))
    assert list(keys.has(["a", "c", "k999", "k1000", "\udcff"])) == [
        True,
        False,
        True,
        False,
        False,
    ]
    keys.add(["\udcff"])
    assert list(keys.has(["\udcff", "a"])) == [True, True]
    assert len(keys.has([])) == 0
