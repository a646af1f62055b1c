"""Views' documents: what moves, what is renamed, what is only reported, what is refused."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from bcn.errors import MalformedFileError, UnsupportedTableError
from bcn.iceberg.relocate import Move, Moves
from bcn.iceberg.view import Renaming, check_view, moved_references, relocate_view
from bcn.model import TableId

MOVES = Moves([Move("/wh/sales/v", "/dr/back/v"), Move("/meta", "/dr/back/v/_roots/r1")])
ORDERS, ITEMS = TableId(("sales",), "orders"), TableId(("sales",), "items")
BACK = Renaming(
    "prod",
    "dr",
    {ORDERS: TableId(("back",), "orders"), ITEMS: TableId(("back",), "items_old")},
    {("sales",): ("back",)},
)
SAME = Renaming("prod", "prod", {ORDERS: ORDERS, ITEMS: ITEMS}, {("sales",): ("sales",)})


def view(sql: str = "SELECT 1", **version: Any) -> dict[str, Any]:
    current = {
        "version-id": 2,
        "schema-id": 1,
        "timestamp-ms": 2,
        "summary": {"engine-name": "spark"},
        "representations": [{"type": "sql", "sql": sql, "dialect": "spark"}],
        "default-namespace": ["sales"],
        **version,
    }
    older = {
        **current,
        "version-id": 1,
        "representations": [{"type": "sql", "sql": "SELECT * FROM sales.items"}],
    }
    return {
        "view-uuid": "11111111-2222-3333-4444-555555555555",
        "format-version": 1,
        "location": "/wh/sales/v",
        "schemas": [{"type": "struct", "schema-id": 1, "fields": []}],
        "current-version-id": 2,
        "versions": [older, current],
        "version-log": [{"timestamp-ms": 1, "version-id": 1}],
        "properties": {"comment": "/wh/sales/v is its place"},
        "from-the-future": {"location": "/wh/sales/v"},
    }


def test_only_place_uuid_and_names_of_defaults_change() -> None:
    source = view(**{"default-catalog": "prod"})
    before = copy.deepcopy(source)
    moved = relocate_view(source, MOVES, uuid="new", renaming=BACK)
    assert source == before
    assert moved["location"] == "/dr/back/v"
    assert moved["view-uuid"] == "new"
    for version in moved["versions"]:
        assert version["default-catalog"] == "dr"
        assert version["default-namespace"] == ["back"]
        version.update({"default-catalog": "prod", "default-namespace": ["sales"]})
    moved.update({"location": "/wh/sales/v", "view-uuid": source["view-uuid"]})
    assert moved == before
    assert list(moved) == list(before)


def test_in_place_nothing_changes_at_all() -> None:
    source = view(**{"default-catalog": "prod"})
    still = Moves([Move("/wh/sales/v", "/wh/sales/v")])
    assert relocate_view(source, still, uuid=None, renaming=SAME) == source


@pytest.mark.parametrize(
    ("version", "catalog", "namespace"),
    [
        ({}, "absent", ["back"]),
        ({"default-catalog": None}, None, ["back"]),
        ({"default-catalog": "elsewhere"}, "elsewhere", ["sales"]),
        ({"default-namespace": ["hr", "x"]}, "absent", ["hr", "x"]),
        ({"default-namespace": []}, "absent", []),
    ],
)
def test_defaults_are_mapped_where_the_restore_renames_them(
    version: Any, catalog: Any, namespace: list[str]
) -> None:
    moved = relocate_view(view(**version), MOVES, uuid=None, renaming=BACK)["versions"][1]
    assert moved.get("default-catalog", "absent") == catalog
    assert moved["default-namespace"] == namespace


def test_a_path_of_its_metadata_moves_if_its_place_does() -> None:
    source = view()
    source["properties"]["write.metadata.path"] = "/meta/v"
    moved = relocate_view(source, MOVES, uuid=None, renaming=BACK)
    assert moved["properties"]["write.metadata.path"] == "/dr/back/v/_roots/r1/v"
    source["properties"]["write.metadata.path"] = "/other"
    moved = relocate_view(source, MOVES, uuid=None, renaming=BACK)
    assert moved["properties"]["write.metadata.path"] == "/other"


# what the SQL names


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("SELECT * FROM sales.orders", [ORDERS]),
        ("SELECT * FROM `sales` . `orders` o JOIN SALES.x", [ORDERS]),
        ('SELECT * FROM "sales"."orders"', [ORDERS]),
        ("SELECT * FROM prod.sales.orders", [ORDERS]),
        ("SELECT * FROM dr.back.orders", []),
        ("SELECT * FROM orders", []),  # its default namespace follows
        ("SELECT * FROM items", [ITEMS]),  # but this one has another name now
        ("SELECT a FROM t -- sales.orders\nWHERE b = 'sales.orders' /* sales.items */", []),
        ("SELECT 'it''s', 'a\\'sales.orders' FROM sales.items", [ITEMS]),
        ("SELECT o.id, sales.orders.id FROM orders o", []),
        ("SELECT 1.5, x.y FROM unknown.sales", []),
        ("WITH q AS (SELECT 1) SELECT * FROM q, sales.items, prod.sales.orders", [ITEMS, ORDERS]),
    ],
)
def test_names_that_are_not_found_any_more_are_told(sql: str, found: list[TableId]) -> None:
    references = moved_references(view(sql), BACK)
    assert sorted(references) == found
    assert all(references[table] == BACK.tables[table] for table in found)


def test_names_that_are_looked_up_in_another_catalog_are_not_ours() -> None:
    text = "SELECT * FROM sales.orders JOIN prod.sales.items"
    elsewhere = view(text, **{"default-catalog": "spark_catalog"})
    assert list(moved_references(elsewhere, BACK)) == [ITEMS]


def test_where_nothing_is_renamed_nothing_is_told() -> None:
    text = "SELECT * FROM sales.orders JOIN prod.sales.items JOIN orders"
    assert moved_references(view(text), SAME) == {}


def test_another_catalog_alone_is_told_for_names_that_spell_it() -> None:
    other = Renaming("prod", "dr", {ORDERS: ORDERS, ITEMS: ITEMS})
    text = "SELECT * FROM sales.orders JOIN prod.sales.items"
    assert list(moved_references(view(text), other)) == [ITEMS]


# what is refused


def test_a_view_that_is_whole_passes() -> None:
    check_view(view())


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"format-version": 2}, UnsupportedTableError),
        ({"format-version": None}, UnsupportedTableError),
        ({"location": None}, MalformedFileError),
        ({"location": ""}, MalformedFileError),
        ({"current-version-id": 9}, MalformedFileError),
        ({"versions": None}, MalformedFileError),
        ({"versions": ["x"]}, MalformedFileError),
    ],
)
def test_what_is_no_view_that_bcn_knows_is_refused(change: Any, error: Any) -> None:
    with pytest.raises(error):
        check_view({**view(), **change})


def test_a_default_namespace_of_another_kind_is_refused() -> None:
    with pytest.raises(MalformedFileError, match="default-namespace"):
        relocate_view(view(**{"default-namespace": "a.b"}), MOVES, uuid=None, renaming=BACK)


def test_representations_that_are_no_sql_are_passed_over() -> None:
    odd = view(representations=[{"type": "plan"}, "x", {"type": "sql", "sql": 7}])
    assert moved_references(odd, BACK) == {}
