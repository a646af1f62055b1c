"""Parquet parts: rows that travel between tasks through a storage."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from bcn.engine.parts import (
    identities,
    load_group,
    load_part,
    load_parts,
    look_up,
    save_part,
)
from bcn.errors import MissingKeyError
from bcn.storage.local import LocalStorage

ROWS = pa.table({"name": ["a", "b", "c", "d"], "size": [1, 2, 3, None]})


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(str(tmp_path))


def test_rows_come_back(storage: LocalStorage) -> None:
    save_part(storage, "x/part", ROWS)
    assert load_part(storage, "x/part").equals(ROWS)


def test_each_slice_is_a_row_group_of_its_own(storage: LocalStorage) -> None:
    save_part(storage, "part", ROWS, [1, 4])
    assert load_group(storage, "part", 0)["name"].to_pylist() == ["a"]
    assert load_group(storage, "part", 1)["name"].to_pylist() == ["b", "c", "d"]


def test_a_part_without_rows_can_be_saved(storage: LocalStorage) -> None:
    save_part(storage, "part", ROWS.slice(0, 0))
    assert load_part(storage, "part").num_rows == 0


def test_a_task_that_runs_again_replaces_what_it_left(storage: LocalStorage) -> None:
    save_part(storage, "part", ROWS)
    save_part(storage, "part", ROWS.slice(2))
    assert load_part(storage, "part")["name"].to_pylist() == ["c", "d"]


def test_two_attempts_of_one_task_that_end_together_leave_one_whole_part(tmp_path: Path) -> None:
    class Contended(LocalStorage):
        def delete(self, key: str) -> None:
            super().delete(key)
            save_part(LocalStorage(self.root), key, ROWS)  # the other attempt is quicker

    storage = Contended(str(tmp_path))
    save_part(storage, "part", ROWS.slice(1))
    assert load_part(storage, "part")["name"].to_pylist() == ["b", "c", "d"]
    assert list(storage.iter_keys("")) == ["part"]


def test_parts_under_a_prefix_come_in_the_order_of_their_keys(storage: LocalStorage) -> None:
    save_part(storage, "all/2", ROWS.slice(2))
    save_part(storage, "all/1", ROWS.slice(0, 2))
    assert load_parts(storage, "all/", ROWS.schema).equals(ROWS)
    assert load_parts(storage, "none/", ROWS.schema).num_rows == 0


def test_a_missing_part_is_missing(storage: LocalStorage) -> None:
    with pytest.raises(MissingKeyError):
        load_part(storage, "nothing")


def test_identities_tell_rows_apart_by_all_columns() -> None:
    rows = pa.table({"root": [1, 1, 11], "path": ["1/a", "/a", "/a"]})
    assert len(set(identities(rows, ["root", "path"]).to_pylist())) == 3
    assert identities(rows.slice(0, 0), ["root"]).to_pylist() == []


def test_looking_up_gives_null_where_nothing_matches() -> None:
    rows = pa.table({"name": ["d", "x", "b"]})
    found = look_up(rows, ROWS, ["name"], ["size", "name"])
    assert found.to_pydict() == {"size": [None, None, 2], "name": ["d", None, "b"]}
