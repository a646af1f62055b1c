"""What two metadata documents of one table or view differ in."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from bcn.errors import MalformedFileError
from bcn.iceberg.changes import RowCount, compare_tables, compare_views, count_rows
from bcn.iceberg.columns import Change, read_columns, type_text
from bcn.iceberg.metadata import parse_json

Json = dict[str, Any]
FIRST, SECOND, THIRD = 7001, 7002, 9_007_199_254_740_993


def field(number: int, name: str, kind: Any, **more: Any) -> Json:
    return {"id": number, "name": name, "required": False, "type": kind, **more}


def snapshot(number: int, operation: str | None, **summary: str) -> Json:
    said = {} if operation is None else {"summary": {"operation": operation, **summary}}
    return {"snapshot-id": number, "timestamp-ms": 1, "manifest-list": "/t/l.avro", **said}


def struct(*fields: Json) -> Json:
    return {"type": "struct", "fields": list(fields)}


def table() -> Json:
    address = struct(field(4, "street", "string"), field(5, "zip", "int"))
    phones = {"type": "list", "element-id": 7, "element": "string", "element-required": False}
    scores = {
        "type": "map",
        "key-id": 9,
        "key": "string",
        "value-id": 10,
        "value": struct(field(11, "points", "int")),
        "value-required": False,
    }
    return {
        "format-version": 2,
        "table-uuid": "0d4ce9d4-96a4-4bb7-9a36-7f2c1ad1f5a1",
        "location": "/t",
        "current-schema-id": 1,
        "schemas": [
            {"schema-id": 0, **struct(field(1, "old", "int"))},
            {
                "schema-id": 1,
                "identifier-field-ids": [1],
                **struct(
                    field(1, "id", "int", required=True),
                    field(2, "at", "timestamp"),
                    field(3, "address", address),
                    field(6, "phones", phones),
                    field(8, "scores", scores),
                ),
            },
        ],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": {"owner": "ada", "old": "1"},
        "current-snapshot-id": SECOND,
        "snapshots": [snapshot(FIRST, "append"), snapshot(SECOND, "append")],
        "refs": {"main": {"snapshot-id": SECOND, "type": "branch"}},
    }


def changed(*edits: Callable[[Json], object]) -> list[Change]:
    old, new = table(), table()
    for edit in edits:
        edit(new)
    return list(compare_tables(old, new))


def columns_of(document: Json) -> list[Json]:
    return list(document["schemas"][1]["fields"])


def with_columns(*edits: Callable[[list[Json]], object]) -> Callable[[Json], object]:
    def edit(document: Json) -> None:
        fields = columns_of(document)
        for change in edits:
            change(fields)
        document["schemas"].append({**document["schemas"][1], "schema-id": 2, "fields": fields})
        document["current-schema-id"] = 2

    return edit


# columns


def test_equal_documents_have_no_changes() -> None:
    assert changed() == []
    assert changed(with_columns()) == []


def test_a_column_that_comes_or_goes_takes_its_fields_along() -> None:
    size = struct(field(21, "w", "int"), field(22, "h", "decimal(9, 2)"))
    added = changed(with_columns(lambda fields: fields.append(field(20, "size", size))))
    assert added == [Change("column", "added", "size", None, "struct<w: int, h: decimal(9, 2)>")]
    dropped = changed(with_columns(lambda fields: fields.pop(2)))
    assert dropped == [Change("column", "dropped", "address", "struct<street: string, zip: int>")]


def test_a_nested_field_is_told_with_its_path() -> None:
    def grow(fields: list[Json]) -> None:
        fields[2]["type"]["fields"].append(field(20, "my city", "string"))

    assert changed(with_columns(grow)) == [
        Change("column", "added", "address.`my city`", None, "string")
    ]


def test_a_rename_is_known_by_the_field_id_and_told_once() -> None:
    def rename(fields: list[Json]) -> None:
        fields[2]["name"] = "place"

    assert changed(with_columns(rename)) == [
        Change("column", "renamed", "place", "address", "place")
    ]


def test_drop_and_add_under_one_name_is_no_rename() -> None:
    found = changed(with_columns(lambda fields: fields.__setitem__(1, field(30, "at", "date"))))
    assert found == [
        Change("column", "added", "at", None, "date"),
        Change("column", "dropped", "at", "timestamp"),
    ]


def test_type_nullability_doc_and_default_are_told_apart() -> None:
    def edit(fields: list[Json]) -> None:
        fields[0] |= {"type": "long", "required": False, "doc": "the key"}
        fields[4]["type"]["value"]["fields"][0] |= {"type": "long", "write-default": 3}

    found = changed(with_columns(edit))
    assert set(found) == {
        Change("column", "type", "id", "int", "long"),
        Change("column", "nullability", "id", "required", "optional"),
        Change("column", "doc", "id", None, "the key"),
        Change("column", "type", "scores.value.points", "int", "long"),
        Change("column", "default", "scores.value.points", None, "none then 3"),
    }


def test_the_element_of_a_list_is_a_field_too() -> None:
    def edit(fields: list[Json]) -> None:
        fields[3]["type"] |= {"element": "uuid", "element-required": True}

    assert set(changed(with_columns(edit))) == {
        Change("column", "type", "phones.element", "string", "uuid"),
        Change("column", "nullability", "phones.element", "optional", "required"),
    }


def test_another_order_of_columns_is_one_change() -> None:
    found = changed(with_columns(lambda fields: fields.insert(0, fields.pop(1))))
    assert found == [
        Change(
            "column order",
            "changed",
            None,
            "id, at, address, phones, scores",
            "at, id, address, phones, scores",
        )
    ]


def test_another_order_inside_a_struct_names_the_struct() -> None:
    found = changed(with_columns(lambda fields: fields[2]["type"]["fields"].reverse()))
    assert found == [Change("column order", "changed", "address", "street, zip", "zip, street")]


def test_types_are_spelled_as_people_do() -> None:
    nested = {"type": "list", "element": {"type": "map", "key": "int", "value": "date"}}
    assert type_text(nested) == "list<map<int, date>>"
    assert type_text({"type": "tensor", "shape": 3}) == "tensor"


def test_a_default_that_python_would_print_otherwise_stays_as_it_was() -> None:
    schema = parse_json(
        b'{"fields": [{"id": 1, "name": "x", "type": "double", "initial-default": 1.50}]}'
    )
    assert read_columns(schema)[1].default == "1.50 then none"


# the rest of a table


def test_snapshots_added_and_expired_are_told_with_their_operations() -> None:
    def edit(document: Json) -> None:
        document["snapshots"] = [snapshot(SECOND, "append"), snapshot(THIRD, "overwrite")]
        document["current-snapshot-id"] = THIRD
        document["refs"]["main"]["snapshot-id"] = THIRD

    assert changed(edit) == [
        Change("snapshot", "added", str(THIRD), None, "overwrite"),
        Change("snapshot", "expired", str(FIRST), "append"),
        Change("ref", "moved", "main", f"branch at {SECOND}", f"branch at {THIRD}"),
    ]


def test_refs_are_made_dropped_moved_and_kept_otherwise() -> None:
    old, new = table(), table()
    old["refs"]["q1"] = {"snapshot-id": FIRST, "type": "tag"}
    new["refs"]["audit"] = {"snapshot-id": FIRST, "type": "branch"}
    new["refs"]["main"] |= {"min-snapshots-to-keep": 3}
    assert list(compare_tables(old, new)) == [
        Change("ref", "made", "audit", None, f"branch at {FIRST}"),
        Change("ref", "retention", "main", "as the table", "min-snapshots-to-keep=3"),
        Change("ref", "dropped", "q1", f"tag at {FIRST}"),
    ]


def test_properties_are_set_removed_and_changed() -> None:
    def edit(document: Json) -> None:
        document["properties"] = {"owner": "eve", "fresh": "x"}

    assert changed(edit) == [
        Change("property", "set", "fresh", None, "x"),
        Change("property", "removed", "old", "1"),
        Change("property", "changed", "owner", "ada", "eve"),
    ]


def test_partitioning_is_told_in_transforms_of_columns() -> None:
    fields = [
        {"source-id": 2, "field-id": 1000, "name": "at_day", "transform": "day"},
        {"source-id": 1, "field-id": 1001, "name": "id_bucket", "transform": "bucket[16]"},
        {"source-ids": [4], "field-id": 1002, "name": "street", "transform": "identity"},
        {"source-id": 99, "field-id": 1003, "name": "gone", "transform": "truncate[4]"},
        {"source-id": 5, "field-id": 1004, "name": "zip", "transform": "void"},
    ]

    def edit(document: Json) -> None:
        document["partition-specs"].append({"spec-id": 1, "fields": fields})
        document["default-spec-id"] = 1

    assert changed(edit) == [
        Change(
            "partitioning",
            "changed",
            None,
            None,
            "day(at), bucket(16, id), address.street, truncate(4, field 99)",
        )
    ]


def test_a_spec_that_only_voids_is_no_partitioning_and_a_renamed_column_no_other_one() -> None:
    void = {"source-id": 2, "field-id": 1000, "name": "d", "transform": "void"}
    assert changed(lambda document: document["partition-specs"][0]["fields"].append(void)) == []
    by_day = [{"source-id": 2, "field-id": 1000, "name": "d", "transform": "day"}]
    old, new = table(), table()
    for document in (old, new):
        document["partition-specs"][0]["fields"] = by_day
    new["schemas"][1]["fields"][1]["name"] = "moment"
    assert [change.action for change in compare_tables(old, new)] == ["renamed"]


def test_sort_order_identifier_fields_version_and_location() -> None:
    order = {"source-id": 2, "transform": "day", "direction": "desc", "null-order": "nulls-last"}

    def edit(document: Json) -> None:
        document["sort-orders"].append({"order-id": 1, "fields": [order]})
        document["default-sort-order-id"] = 1
        document["schemas"][1]["identifier-field-ids"] = [5, 1]
        document |= {"format-version": 3, "location": "/elsewhere"}

    assert changed(edit) == [
        Change("identifier fields", "changed", None, "id", "address.zip, id"),
        Change("sort order", "changed", None, None, "day(at) desc nulls-last"),
        Change("format version", "changed", None, "2", "3"),
        Change("location", "changed", None, "/t", "/elsewhere"),
    ]


def test_the_oldest_tables_have_one_schema_one_spec_and_no_refs() -> None:
    old: Json = {
        "format-version": 1,
        "location": "/t",
        "schema": struct(field(1, "id", "int")),
        "partition-spec": [{"source-id": 1, "name": "id", "transform": "identity"}],
        "snapshots": [snapshot(FIRST, None)],
        "current-snapshot-id": FIRST,
    }
    new = copy.deepcopy(old) | {"snapshots": [], "current-snapshot-id": -1, "partition-spec": []}
    assert list(compare_tables(old, new)) == [
        Change("snapshot", "expired", str(FIRST), "unknown"),
        Change("partitioning", "changed", None, "id"),
        Change("ref", "dropped", "main", f"branch at {FIRST}"),
    ]


@pytest.mark.parametrize(
    "edit",
    [
        lambda document: document["schemas"][1]["fields"].append({"name": "x", "type": "int"}),
        lambda document: document.update({"schemas": [7]}),
        lambda document: document["partition-specs"][0].update({"fields": [3]}),
        lambda document: document.update({"snapshots": [{"id": "x"}]}),
    ],
)
def test_documents_of_another_shape_are_an_error_of_ours(edit: Callable[[Json], None]) -> None:
    with pytest.raises(MalformedFileError):
        changed(edit)


# rows


@pytest.mark.parametrize(
    ("summary", "expected"),
    [
        ({"total-records": "12"}, RowCount(12, 0)),
        ({"total-records": "12", "total-position-deletes": "3"}, RowCount(12, 3)),
        (
            {
                "total-records": "12",
                "total-position-deletes": "3",
                "total-equality-deletes": "2",
            },
            RowCount(12, 5),
        ),
        ({"total-records": "12", "total-position-deletes": "many"}, RowCount(12, None)),
        ({"total-records": "-1"}, RowCount(None, None)),
        ({}, RowCount(None, None)),
    ],
)
def test_rows_are_what_the_current_summary_counts(
    summary: dict[str, str], expected: RowCount
) -> None:
    document = table()
    document["snapshots"][1] = snapshot(SECOND, "append", **summary)
    assert count_rows(document) == expected


def test_a_table_without_snapshot_has_no_rows_and_one_without_summary_tells_none() -> None:
    assert count_rows({"format-version": 1}) == RowCount(0, 0)
    assert count_rows({"current-snapshot-id": -1}) == RowCount(0, 0)
    missing = {"current-snapshot-id": 5, "snapshots": []}
    assert count_rows(missing) == RowCount(None, None)
    without = {"current-snapshot-id": 5, "snapshots": [snapshot(5, None)]}
    assert count_rows(without) == RowCount(None, None)
    assert count_rows({"current-snapshot-id": [5]}) == RowCount(None, None)


# views


def view(sql: str, **version: Any) -> Json:
    return {
        "format-version": 1,
        "view-uuid": "u",
        "location": "/v",
        "current-version-id": 2,
        "versions": [
            {"version-id": 1, "representations": []},
            {
                "version-id": 2,
                "schema-id": 0,
                "representations": [{"type": "sql", "sql": sql, "dialect": "spark"}],
                "default-namespace": ["sales"],
                **version,
            },
        ],
        "schemas": [{"schema-id": 0, **struct(field(1, "n", "int"))}],
        "properties": {},
    }


def test_the_sql_of_a_view_is_told_by_dialect() -> None:
    old, new = view("SELECT 1"), view("SELECT 2")
    new["versions"][1]["representations"].append({"type": "sql", "sql": "1", "dialect": "trino"})
    assert list(compare_views(old, new)) == [
        Change("sql", "changed", "spark", "SELECT 1", "SELECT 2"),
        Change("sql", "changed", "trino", None, "1"),
    ]


def test_columns_namespace_properties_and_location_of_a_view() -> None:
    old = view("SELECT 1")
    new = view("SELECT 1", **{"default-namespace": ["hr"], "default-catalog": "lake"})
    new["schemas"][0]["fields"][0]["type"] = "long"
    new |= {"location": "/w", "properties": {"comment": "x"}}
    assert list(compare_views(old, new)) == [
        Change("column", "type", "n", "int", "long"),
        Change("default namespace", "changed", None, "sales", "lake.hr"),
        Change("location", "changed", None, "/v", "/w"),
        Change("property", "set", "comment", None, "x"),
    ]


def test_columns_of_a_view_are_known_by_their_names() -> None:
    place = struct(field(8, "street", "string"), field(9, "zip", "int"))
    old, new = view("SELECT 1"), view("SELECT 2")
    old["schemas"][0]["fields"] = [field(1, "a", "int"), field(2, "b", "int"), field(7, "p", place)]
    new["schemas"][0]["fields"] = [
        field(0, "b", "int"),
        field(1, "p", struct(field(2, "zip", "int"))),
    ]
    assert list(compare_views(old, new))[1:] == [
        Change("column", "dropped", "a", "int"),
        Change("column", "dropped", "p.street", "string"),
    ]


def test_a_view_without_its_version_or_schema_has_none() -> None:
    bare = {"versions": [], "location": "/v"}
    assert list(compare_views(bare, bare)) == []
    lost = view("SELECT 1", **{"schema-id": 9, "default-namespace": None})
    assert list(compare_views(lost, lost)) == []
