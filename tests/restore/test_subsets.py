"""Parts of a PIT, what was deleted before it, other names and places; on small tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from bcn.errors import (
    DamagedRepositoryError,
    NoSuchTableError,
    OverlapError,
    TargetExistsError,
)
from tests.support.shop import add, document_of, drop, names, registered, shop, uuid_of
from tests.support.small import SOURCE, SmallPlace, open_small


@pytest.fixture
def small(tmp_path: Path) -> SmallPlace:
    return open_small(tmp_path)


# leaving out


def test_what_is_excluded_does_not_appear(small: SmallPlace) -> None:
    shop(small)
    report = small.restore(exclude=("tmp_*",))
    assert names(report) == ["hr.people", "sales.orders"]
    assert registered(small) == ["hr.people", "sales.orders"]
    assert not (small.folder / "target/hr/tmp_1").exists()


# what was deleted


def test_a_deleted_table_comes_back_from_the_last_pit_that_held_it(small: SmallPlace) -> None:
    first, second = shop(small)
    with pytest.raises(NoSuchTableError) as caught:
        small.restore(tables=("sales.items",))
    assert str(first) in caught.value.hint
    assert "--include-deleted" in caught.value.hint
    report = small.restore(tables=("sales.*",), include_deleted=True)
    assert [(str(item.table), item.pit) for item in report.tables] == [
        ("sales.items", first),
        ("sales.orders", second),
    ]
    assert report.pit == second
    items, orders = report.as_json()["tables"]
    assert items["pit"] == str(first)
    assert items["deleted_at"].startswith("20")
    assert orders["deleted_at"] is None
    assert registered(small) == ["sales.items", "sales.orders"]


def test_a_deleted_table_comes_back_in_its_place_with_its_uuid(small: SmallPlace) -> None:
    shop(small)
    small.restore(target_catalog=SOURCE, tables=("sales.items",), include_deleted=True)
    document = document_of(small, "sales.items", SOURCE)
    assert document["table-uuid"] == uuid_of(2)
    assert document["location"] == str(small.warehouse / "sales/items-2")


def test_two_tables_of_one_name_are_never_mixed(small: SmallPlace) -> None:
    first, _ = shop(small)
    with pytest.raises(TargetExistsError, match=uuid_of(3)) as caught:
        small.restore(include_deleted=True)
    assert registered(small) == []
    assert not (small.folder / "target").exists()
    for part in (f"--exclude {uuid_of(3)}", f"--pit {first}", "--target-table"):
        assert part in caught.value.hint
    report = small.restore(include_deleted=True, exclude=(uuid_of(3),))
    assert names(report) == ["hr.people", "hr.tmp_1", "sales.items", "sales.orders"]
    small.restore(tables=(uuid_of(3),), include_deleted=True, target_table="people_old")
    pointers = (document_of(small, name)["location"] for name in ("hr.people", "hr.people_old"))
    assert [Path(location).name for location in pointers] == ["people", "people_old"]


def test_two_deleted_tables_of_one_name_need_two_names(small: SmallPlace) -> None:
    add(small, "db.keep", 1)
    for number in (2, 3):
        add(small, "db.t", number)
        small.backup()
        drop(small, "db.t")
        small.backup()
    with pytest.raises(TargetExistsError, match=f"{uuid_of(2)}.*{uuid_of(3)}"):
        small.restore(tables=("t",), include_deleted=True)
    for number in (2, 3):
        report = small.restore(
            tables=(uuid_of(number),), include_deleted=True, target_table=f"t{number}"
        )
        assert names(report) == [f"db.t{number}"]


@pytest.mark.parametrize("harm", ["damage", "remove"])
def test_a_deleted_table_whose_last_pit_is_lost_is_told_and_the_others_come(
    small: SmallPlace, harm: str
) -> None:
    first, _ = shop(small)
    (manifest,) = small.stored(f"pit_manifests/{first}/manifest.json")
    if harm == "remove":
        manifest.unlink()
    else:
        manifest.write_bytes(manifest.read_bytes().replace(b"bcn_version", b"bcn_versiom"))
    with pytest.raises(DamagedRepositoryError, match=rf"sales\.items.*{first}.*{harm}d") as caught:
        small.restore(tables=("sales.items",), include_deleted=True)
    assert "--pit" in caught.value.hint
    assert names(small.restore(tables=("sales.orders",), include_deleted=True)) == ["sales.orders"]


# what is still there


def test_all_that_is_still_there_is_named_in_one_error(small: SmallPlace) -> None:
    shop(small)
    drop(small, "sales.orders")
    with pytest.raises(TargetExistsError, match=r"hr\.people, hr\.tmp_1$") as caught:
        small.restore(target_catalog=SOURCE)
    assert "--exclude" in caught.value.hint
    assert "--target-database" in caught.value.hint
    assert "sales.orders" not in registered(small, SOURCE)
    report = small.restore(target_catalog=SOURCE, exclude=("hr",))
    assert names(report) == ["sales.orders"]
    assert document_of(small, "sales.orders", SOURCE)["table-uuid"] == uuid_of(1)


def test_one_of_many_that_is_still_there_is_named_with_the_same_hint(small: SmallPlace) -> None:
    shop(small)
    for name in ("sales.orders", "hr.tmp_1"):
        drop(small, name)
    with pytest.raises(TargetExistsError, match=r"hr\.people exists") as caught:
        small.restore(target_catalog=SOURCE)
    assert "--exclude" in caught.value.hint


def test_all_places_that_are_not_empty_are_named(small: SmallPlace) -> None:
    shop(small)
    for name in ("hr/people", "sales/orders"):
        (small.folder / "target" / name).mkdir(parents=True)
        (small.folder / "target" / name / "theirs").write_text("theirs")
    with pytest.raises(TargetExistsError, match=r"hr/people is not empty.*sales/orders is not"):
        small.restore()


# what is still there under another name


def test_a_table_that_was_renamed_since_is_not_registered_a_second_time(small: SmallPlace) -> None:
    """Its old name is free, but its files are the renamed table's."""
    add(small, "sales.orders", 1)
    add(small, "sales.items", 2)
    small.backup()
    small._write("UPDATE iceberg_tables SET table_name = ? WHERE table_name = ?", ("o2", "orders"))
    with pytest.raises(TargetExistsError, match=r"sales\.orders would go, is in use by sales\.o2"):
        small.restore(target_catalog=SOURCE, tables=("orders",))
    assert registered(small, SOURCE) == ["sales.items", "sales.o2"]
    report = small.restore(target_catalog=SOURCE, tables=("orders",), target_table="old")
    assert names(report) == ["sales.old"]


@pytest.mark.parametrize("place", ["items-2", "items-2/inner", "items-2/metadata", ""])
def test_a_copy_is_never_put_into_another_table_or_around_it(small: SmallPlace, place: str) -> None:
    add(small, "sales.orders", 1)
    small.backup()
    add(small, "sales.items", 2)
    drop(small, "sales.orders")
    target = small.warehouse / "sales" / place
    with pytest.raises((TargetExistsError, OverlapError)):
        small.restore(
            target_catalog=SOURCE, tables=("orders",), target_table="x", target_location=str(target)
        )
    beside = small.warehouse / "sales" / "items-22"
    small.restore(
        target_catalog=SOURCE, tables=("orders",), target_table="x", target_location=str(beside)
    )
    assert registered(small, SOURCE) == ["sales.items", "sales.x"]
