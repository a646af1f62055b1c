"""Which objects names and patterns pick, and what is said about those that pick none."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bcn.errors import NoSuchNamespaceError, NoSuchTableError, UsageError
from bcn.model import PitId, TableId
from bcn.repository.pit import DeletedObject, EntryRef, Namespace, ObjectRecord, PitManifest
from bcn.restore.choose import Choice, Filter, choose

PITS = [PitId.of(datetime(2026, 8, day, tzinfo=UTC) + timedelta(hours=1)) for day in (1, 2, 3)]


def record(table: TableId, object_id: str = "", kind: str = "table") -> ObjectRecord:
    entry = EntryRef("key", "0" * 64, 1)
    return ObjectRecord(
        object_id or f"id-{table}", kind, table, "NEW", entry, "/m", "1", "0" * 64, 1, 1, 1
    )


def gone(table: TableId, object_id: str, last: PitId = PITS[0]) -> DeletedObject:
    return DeletedObject(object_id, table, "2026-08-02T01:00:00.000000Z", last)


ORDERS, ITEMS, PEOPLE = map(TableId.parse, ("sales.orders", "sales.items", "hr.people"))
DOTTED = TableId(("a.b",), "orders")
NESTED = TableId(("a", "b"), "t")
BRACKETS = TableId(("hr",), "a[1]")
DASHED = TableId(("my-db",), "my-table")
PLAIN = TableId(("hr",), "a1")


def pit(*tables: TableId, **more: Any) -> PitManifest:
    levels = sorted({table.namespace for table in tables} | {("empty",)})
    return PitManifest(
        PITS[2],
        "uuid",
        None,
        "",
        {},
        {},
        "",
        tuple(record(table) for table in tables),
        tuple(Namespace(item, {}) for item in levels),
        **more,
    )


ALL = pit(ORDERS, ITEMS, PEOPLE, DOTTED, NESTED, BRACKETS, PLAIN, DASHED)


def names(choice: Choice) -> list[str]:
    return [str(item.table) for item in choice.items]


def pick(manifest: PitManifest = ALL, **wanted: Any) -> list[str]:
    return names(choose(manifest, Filter(**wanted)))


def test_all_is_chosen_where_nothing_is_asked_for_and_empty_databases_too() -> None:
    choice = choose(ALL, Filter())
    assert len(choice.items) == 8
    assert ("empty",) in [item.levels for item in choice.namespaces]


@pytest.mark.parametrize(
    ("pattern", "picked"),
    [
        ("sales", ["sales.items", "sales.orders"]),
        ("s*", ["sales.items", "sales.orders"]),
        ("a.b", ["a.b.t"]),  # levels come before a name with a dot
        ("`a.b`", ["`a.b`.orders"]),
        ("a*", ["a.b.t", "`a.b`.orders"]),
        ("my-db", ["`my-db`.`my-table`"]),
        ("`my-db`", ["`my-db`.`my-table`"]),
        ("my-*", ["`my-db`.`my-table`"]),
        ("empty", []),
    ],
)
def test_databases_are_picked_by_name_or_glob(pattern: str, picked: list[str]) -> None:
    assert pick(databases=(pattern,)) == picked


def test_a_name_with_a_dot_needs_no_quotes_where_it_can_mean_nothing_else() -> None:
    assert pick(pit(DOTTED, ORDERS), databases=("a.b",)) == ["`a.b`.orders"]


@pytest.mark.parametrize(
    ("pattern", "picked"),
    [
        ("orders", ["`a.b`.orders", "sales.orders"]),
        ("sales.orders", ["sales.orders"]),
        ("sales.*", ["sales.items", "sales.orders"]),
        ("*.orders", ["`a.b`.orders", "sales.orders"]),
        ("a[1]", ["hr.`a[1]`"]),  # its name, before it is a glob for a1
        ("a[0-9]", ["hr.a1"]),
        ("my-db.my-table", ["`my-db`.`my-table`"]),
        ("id-hr.people", ["hr.people"]),
        ("a.b.orders", ["`a.b`.orders"]),
    ],
)
def test_tables_are_picked_by_name_full_name_glob_or_id(pattern: str, picked: list[str]) -> None:
    assert pick(tables=(pattern,)) == picked


def test_an_id_is_no_text_for_globs() -> None:
    with pytest.raises(NoSuchTableError):
        pick(tables=("id-*",))


def test_a_named_table_brings_no_database_that_is_empty() -> None:
    assert choose(ALL, Filter(tables=("*",))).namespaces == ()


@pytest.mark.parametrize(
    ("pattern", "left"),
    [
        ("sales", ["hr.people"]),
        ("orders", ["hr.people", "sales.items"]),
        ("sales.orders", ["hr.people", "sales.items"]),
        ("*.i*", ["hr.people", "sales.orders"]),
        ("empty", ["hr.people", "sales.items", "sales.orders"]),
        ("id-sales.items", ["hr.people", "sales.orders"]),
    ],
)
def test_what_is_excluded_is_left_out(pattern: str, left: list[str]) -> None:
    assert pick(pit(ORDERS, ITEMS, PEOPLE), exclude=(pattern,)) == left


def test_one_word_excludes_databases_and_tables_of_that_name() -> None:
    tables = [TableId.parse(name) for name in ("tmp.a", "sales.tmp", "sales.tmp2")]
    assert pick(pit(*tables), exclude=("tmp",)) == ["sales.tmp2"]


def test_an_excluded_database_is_not_made_either() -> None:
    choice = choose(pit(ORDERS, PEOPLE), Filter(exclude=("hr", "empty")))
    assert [item.levels for item in choice.namespaces] == [("sales",)]


def test_an_exclusion_may_name_what_is_not_chosen_but_must_name_something() -> None:
    assert pick(databases=("hr",), exclude=("sales.*", "a1")) == ["hr.`a[1]`", "hr.people"]
    with pytest.raises(NoSuchTableError, match=r"no table or database 'ordrs' in .* 'orders'"):
        pick(exclude=("ordrs",))
    with pytest.raises(NoSuchTableError, match=r"nothing in .* matches 'zz\*'") as caught:
        pick(exclude=("zz*",))
    assert "--exclude" in caught.value.hint


def test_excluding_everything_is_a_mistake() -> None:
    with pytest.raises(UsageError, match="nothing"):
        pick(exclude=("*",))


@pytest.mark.parametrize(
    ("wanted", "error", "text"),
    [
        ({"databases": ("sale",)}, NoSuchNamespaceError, "no database 'sale' in .*mean 'sales'"),
        ({"databases": ("a*b*c",)}, NoSuchNamespaceError, "nothing in .* matches"),
        ({"databases": ("xyz",)}, NoSuchNamespaceError, "no database 'xyz' in [^,]*$"),
        ({"tables": ("peopel",)}, NoSuchTableError, "mean 'people'"),
        ({"tables": ("sales.order",)}, NoSuchTableError, "mean 'sales.orders'"),
        ({"databases": ("hr",), "tables": ("orders",)}, NoSuchTableError, "no table 'orders'"),
    ],
)
def test_the_nearest_name_is_suggested(wanted: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        pick(**wanted)


# what is gone

GONE = pit(ORDERS, deleted=(gone(ITEMS, "old-items"), gone(ORDERS, "old-orders", PITS[1])))


def test_what_is_gone_is_chosen_only_when_asked_for() -> None:
    assert pick(GONE) == ["sales.orders"]
    assert pick(GONE, include_deleted=True) == ["sales.items", "sales.orders", "sales.orders"]
    assert pick(GONE, include_deleted=True, exclude=("old-orders",)) == [
        "sales.items",
        "sales.orders",
    ]


def test_naming_what_is_gone_says_when_it_went_and_how_to_get_it() -> None:
    with pytest.raises(NoSuchTableError, match=r"'items' is not in .* any more") as caught:
        pick(GONE, tables=("items",))
    for word in ("2026-08-02T01:00:00", str(PITS[0]), "--include-deleted"):
        assert word in caught.value.hint
    with pytest.raises(NoSuchNamespaceError) as lost:
        pick(pit(ORDERS, deleted=(gone(PEOPLE, "p"),)), databases=("hr",))
    assert "--include-deleted" in lost.value.hint


def test_what_is_gone_from_another_database_is_not_meant() -> None:
    manifest = pit(ORDERS, PEOPLE, deleted=(gone(ITEMS, "i"),))
    with pytest.raises(NoSuchTableError, match="no table 'items'") as caught:
        pick(manifest, databases=("hr",), tables=("items",))
    assert "--include-deleted" not in caught.value.hint


def test_a_database_that_is_gone_comes_with_its_tables() -> None:
    manifest = pit(ORDERS, deleted=(gone(PEOPLE, "p"),))
    assert pick(manifest, databases=("hr",), include_deleted=True) == ["hr.people"]


def test_what_is_gone_may_be_excluded_though_nobody_asked_for_it() -> None:
    assert pick(GONE, exclude=("items",)) == ["sales.orders"]


def test_an_object_that_came_back_is_not_gone() -> None:
    back = pit(ORDERS, deleted=(gone(ORDERS, f"id-{ORDERS}"),))
    assert pick(back, include_deleted=True) == ["sales.orders"]
