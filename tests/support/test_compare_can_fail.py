"""The comparison reports each way in which a restore can be wrong, and nothing on a right one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.compare import (
    Tree,
    compare_tables,
    local_path,
    pyiceberg_rows,
    unreferenced_files,
)
from tests.support.compare.damage import ANY, V2, V3, leftover_root_in_a_property, stale_footer
from tests.support.compare.paths import Moves, split_name
from tests.support.compare.twins import Twins, edit_document, edit_entry, make_twins
from tests.support.shapes.synthetic import DataFiles, SyntheticTable, write_synthetic

DAMAGES = [
    pytest.param(version, damage, checks, id=f"v{version}-{damage.__name__}")
    for version, damages in ((2, V2 | ANY), (3, V3 | ANY))
    for damage, checks in damages.items()
]


@pytest.mark.parametrize(("version", "damage", "checks"), DAMAGES)
def test_a_damaged_restore_is_reported_under_the_rules_it_breaks(
    tmp_path: Path, version: int, damage: Callable[[Twins], None], checks: str
) -> None:
    twins = make_twins(tmp_path, version)
    damage(twins)
    found = {difference.split(" ")[0] for difference in twins.differences()}
    assert set(checks.split()) <= found


@pytest.mark.parametrize("version", [2, 3])
def test_a_perfect_restore_has_no_difference(tmp_path: Path, version: int) -> None:
    assert make_twins(tmp_path, version).differences() == []


@pytest.mark.parametrize("where", ["source/t_restored", "source/t/restored", "x/source/t"])
@pytest.mark.parametrize("version", [2, 3])
def test_a_new_root_that_contains_the_old_one_is_no_leftover(
    tmp_path: Path, version: int, where: str
) -> None:
    twins = make_twins(tmp_path, version, str(tmp_path / where))
    assert twins.differences() == []


def test_a_leftover_root_is_found_beside_a_new_root_that_contains_it(tmp_path: Path) -> None:
    twins = make_twins(tmp_path, 2, str(tmp_path / "source" / "t_restored"))
    leftover_root_in_a_property(twins)
    assert any(difference.startswith("G4") for difference in twins.differences())


def test_a_source_that_was_moved_away_is_read_where_it_is_now(tmp_path: Path) -> None:
    twins = make_twins(tmp_path, 2)
    (tmp_path / "source").rename(tmp_path / "moved")

    def relocated(location: str) -> Path:
        return local_path(location.replace("/source/t", "/moved/t"))

    assert compare_tables(twins.source, twins.restored, [(twins.old, twins.new)], relocated) == []


def test_a_policy_allows_a_property_and_a_kept_path_and_nothing_else(tmp_path: Path) -> None:
    twins = make_twins(tmp_path, 2)
    edit_document(twins, lambda d: d["properties"].update({"origin": twins.old}))
    names = frozenset({"origin"})
    assert twins.differences(added_properties=names, kept_properties=names) == []
    assert len(twins.differences(added_properties=names)) == 1


def test_the_uuid_may_change_unless_the_policy_says_otherwise(tmp_path: Path) -> None:
    twins = make_twins(tmp_path, 2)
    edit_document(twins, lambda d: d.update({"table-uuid": "another"}))
    assert twins.differences() == []
    assert len(twins.differences(same_uuid=True)) == 1


def test_dropped_bounds_of_a_delete_file_for_several_data_files_are_right(tmp_path: Path) -> None:
    twins = make_twins(tmp_path, 2)
    edit_entry(
        twins, "both.parquet", lambda file: file.update(lower_bounds=None, upper_bounds=None)
    )
    assert twins.differences() == []


def test_pyiceberg_sees_rows_come_back_when_a_footer_is_stale(tmp_path: Path) -> None:
    twins = make_twins(tmp_path, 3)
    assert pyiceberg_rows(twins.restored) == pyiceberg_rows(twins.source)
    stale_footer(twins)
    assert pyiceberg_rows(twins.restored) != pyiceberg_rows(twins.source)


def test_files_that_a_table_does_not_need_are_listed(tmp_path: Path) -> None:
    twins = make_twins(tmp_path, 2)
    assert unreferenced_files(twins.restored, local_path(twins.new)) == []
    extra = twins.path("data/gone-PARQUET")
    extra.write_bytes(b"the file of a tombstone")
    assert unreferenced_files(twins.restored, local_path(twins.new)) == [extra]


@pytest.mark.parametrize("version", [2, 3])
def test_a_synthetic_table_is_whole_and_comes_out_the_same_elsewhere(
    tmp_path: Path, version: int
) -> None:
    roots = [str(tmp_path / name) for name in ("a", "elsewhere/b")]
    locations = [
        write_synthetic(
            SyntheticTable(
                root,
                format_version=version,
                snapshots=5,
                manifests=7,
                entries=300,
                manifests_per_list=4,
                data=DataFiles.SPARSE,
            )
        )
        for root in roots
    ]
    assert compare_tables(locations[0], locations[1], [(roots[0], roots[1])]) == []
    tree = Tree(locations[0])
    assert len({entry.path for entry in tree.iter_entries()}) == 300
    assert [len(tree.manifests_of(s)) for s in tree.snapshots] == [2, 3, 4, 4, 4]


def test_a_root_matches_at_a_slash_and_the_longest_wins() -> None:
    moves = Moves.of([("/wh/t", "/n/t"), ("/wh/t/data", "/d"), ("s3://b/t/", "/s/")])
    places = {
        "/wh/t": "/n/t",
        "/wh/t/": "/n/t/",
        "/wh/t/data/f": "/d/f",
        "/wh/t/database": "/n/t/database",
        "/wh/t_backup/f": "/wh/t_backup/f",
        "s3://b/t//f": "/s//f",
    }
    assert {place: moves.apply(place) for place in places} == places


@pytest.mark.parametrize("location", ["/x/y", "file:/x/y", "file:///x/y"])
def test_every_spelling_of_a_local_place_is_found(location: str) -> None:
    assert local_path(location) == Path("/x/y")


def test_a_name_is_split_at_dots_outside_of_back_ticks() -> None:
    assert split_name("`a.b`.c.`d e`") == ["a.b", "c", "d e"]
