"""Templates, databases, and what a catalog cannot hold; on small tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bcn.errors import (
    BadNameError,
    OverlapError,
    TargetExistsError,
    UnsupportedCatalogError,
    UsageError,
)
from bcn.model import TableId
from bcn.restore.template import fill_location, fill_name, is_template
from tests.support.product import hadoop_settings
from tests.support.shapes.twin import write_twin
from tests.support.shop import add, add_view, document_of, names, registered, shop
from tests.support.small import SOURCE, TARGET, SmallPlace, open_small

HADOOP = "hadoop"


@pytest.fixture
def small(tmp_path: Path) -> SmallPlace:
    made = open_small(tmp_path)
    hadoop = hadoop_settings(HADOOP, tmp_path / "hadoop")
    made.product.catalogs = {**made.product.catalogs, HADOOP: hadoop}
    return made


# templates


def test_templates_are_filled_with_names() -> None:
    table = TableId(("a", "b.c"), "t {x}")
    assert fill_name("{table}_of_{database}", table) == "t {x}_of_a_b.c"
    assert fill_name("plain", table) == "plain"
    assert fill_name("{{{table}}}", table) == "{t {x}}"
    assert fill_location("/p/{catalog}/{database}/{table}/", "dr", table) == "/p/dr/a/b.c/t {x}"
    assert [is_template(text) for text in ("x", "{table}", "{{table}}", "a{b}")] == [
        False,
        True,
        False,
        True,
    ]


@pytest.mark.parametrize("template", ["{tabel}", "{}", "{", "a}b", "{catalog}", "{{{x}}}"])
def test_an_unknown_placeholder_is_a_mistake(template: str) -> None:
    with pytest.raises(UsageError, match="unknown placeholder") as caught:
        fill_name(template, TableId(("a",), "t"))
    assert "{database}, {table}" in caught.value.hint


def test_a_name_that_comes_out_empty_is_a_mistake() -> None:
    with pytest.raises(BadNameError):
        fill_name("{database}", TableId((), "t"))


def test_every_table_gets_its_own_place_and_name(small: SmallPlace) -> None:
    shop(small)
    place = f"{small.folder}/lake/{{catalog}}/{{database}}-{{table}}"
    report = small.restore(target_table="{table}_back", target_location=place)
    assert names(report) == ["hr.people_back", "hr.tmp_1_back", "sales.orders_back"]
    assert sorted(path.name for path in (small.folder / "lake" / TARGET).iterdir()) == [
        "hr-people_back",
        "hr-tmp_1_back",
        "sales-orders_back",
    ]
    location = document_of(small, "sales.orders_back")["location"]
    assert location == f"{small.folder}/lake/target/sales-orders_back"


@pytest.mark.parametrize(
    ("more", "error", "text"),
    [
        ({"target_location": "/x/{database}"}, OverlapError, "inside"),
        ({"target_location": "/x/{schema}"}, UsageError, "unknown placeholder '{schema}'"),
        ({"target_location": "/x"}, UsageError, "'/x' is for one table, 3 are chosen"),
        ({"target_table": "x"}, UsageError, "'x' is for one table, 3 are chosen"),
        ({"target_table": "{database}"}, TargetExistsError, "hr.hr would be hr.people .* hr.tmp_1"),
        ({"target_table": "{t}"}, UsageError, "unknown placeholder"),
        ({"target_table": "{table}/x"}, BadNameError, "bad name"),
    ],
)
def test_templates_that_cannot_be_are_refused_before_anything_is_written(
    small: SmallPlace, more: dict[str, str], error: type[Exception], text: str
) -> None:
    shop(small)
    if "target_location" in more:
        more = {"target_location": f"{small.folder}{more['target_location']}"}
    with pytest.raises(error, match=text.replace("'/x'", "'.*/x'")):
        small.restore(**more)
    assert not (small.folder / "x").exists()
    assert registered(small) == []


def test_two_databases_merged_into_one_must_not_share_names(small: SmallPlace) -> None:
    add(small, "a.t", 1)
    add(small, "b.t", 2)
    small.backup()
    place = f"{small.folder}/{{table}}"
    with pytest.raises(TargetExistsError, match=r"c\.t would be a\.t .* and b\.t"):
        small.restore(target_database=("c",), target_location=place)
    report = small.restore(target_database=("c",), target_table="{database}_{table}")
    assert names(report) == ["c.a_t", "c.b_t"]


# databases


def test_empty_databases_come_back_with_their_properties(small: SmallPlace) -> None:
    add(small, "sales.orders", 1, owner="ada", location="/old/place")
    source = small.product.open(SOURCE)
    source.create_namespace(("empty", "inner"), {"team": "it's"})
    small.backup()
    report = small.restore()
    target = small.product.open(TARGET)
    assert list(target.iter_namespaces()) == [("empty",), ("empty", "inner"), ("sales",)]
    assert target.load_namespace(("empty", "inner")) == {"team": "it's"}
    assert target.load_namespace(("sales",)) == {"owner": "ada"}
    assert report.namespaces == ("empty", "empty.inner", "sales")
    assert report.warnings == ("database sales is made without its location /old/place",)


def test_a_database_that_holds_nothing_can_be_asked_for_and_renamed(small: SmallPlace) -> None:
    add(small, "sales.orders", 1)
    small.product.open(SOURCE).create_namespace(("empty",), {"team": "x"})
    small.backup()
    report = small.restore(databases=("empty",), target_database=("other",))
    assert (report.tables, report.namespaces) == ((), ("other",))
    assert small.product.open(TARGET).load_namespace(("other",)) == {"team": "x"}


def test_a_named_table_brings_no_other_database(small: SmallPlace) -> None:
    shop(small)
    small.restore(tables=("orders",))
    assert list(small.product.open(TARGET).iter_namespaces()) == [("sales",)]


def test_a_database_in_its_own_catalog_gets_its_location_again(small: SmallPlace) -> None:
    add(small, "sales.orders", 1, location="/the/place")
    small.backup()
    for table in ("iceberg_tables", "iceberg_namespace_properties"):
        small._write(f"DELETE FROM {table} WHERE catalog_name = ?", (SOURCE,))
    small.restore(target_catalog=SOURCE)
    assert small.product.open(SOURCE).load_namespace(("sales",)) == {"location": "/the/place"}


def test_a_database_that_is_there_is_left_as_it_is(small: SmallPlace) -> None:
    add(small, "sales.orders", 1, team="old")
    small.backup()
    small.product.open(TARGET).create_namespace(("sales",), {"team": "new"})
    report = small.restore()
    assert report.namespaces == ()
    assert small.product.open(TARGET).load_namespace(("sales",)) == {"team": "new"}


def test_a_dry_run_says_which_databases_and_makes_none(small: SmallPlace) -> None:
    add(small, "sales.orders", 1)
    add_view(small, "sales.v", "SELECT 1")
    small.backup()
    report = small.restore(dry_run=True)
    assert report.namespaces == ("sales",)
    assert [str(view.view) for view in report.views] == ["sales.v"]
    assert not (small.folder / "target.db").exists()
    assert not (small.folder / "target").exists()


def test_properties_that_a_catalog_cannot_hold_are_told_once(small: SmallPlace) -> None:
    add(small, "sales.orders", 1, team="x")
    add(small, "sales.items", 2)
    small.backup()
    report = small.restore(target_catalog=HADOOP)
    assert report.warnings == ("hadoop cannot hold properties of database sales: team",)


# what a catalog cannot hold


def test_a_database_with_a_dot_goes_where_it_can_and_is_refused_elsewhere(
    small: SmallPlace,
) -> None:
    """From a Hadoop catalog, where it is a folder like any other."""
    source = hadoop_settings(SOURCE, small.folder / "wh")
    small.product.catalogs = {**small.product.catalogs, SOURCE: source}
    _add_hadoop(small, TableId(("a.b",), "t"))
    small.backup()
    with pytest.raises(UnsupportedCatalogError, match=r"would split 'a\.b'") as caught:
        small.restore()
    assert "--target-database" in caught.value.hint
    assert not (small.folder / "target").exists()
    for database in ("a.b", "`a.b`", "a*"):
        report = small.restore(databases=(database,), target_database=("ab",), dry_run=True)
        assert names(report) == ["ab.t"]
    report = small.restore(databases=("a.b",), target_catalog=HADOOP)
    assert names(report) == ["`a.b`.t"]
    assert Path(report.tables[0].metadata_location).exists()


def test_an_empty_database_with_a_dot_is_refused_before_anything_is_copied(
    small: SmallPlace,
) -> None:
    source = hadoop_settings(SOURCE, small.folder / "wh")
    small.product.catalogs = {**small.product.catalogs, SOURCE: source}
    _add_hadoop(small, TableId(("sales",), "t"))
    small.product.open(SOURCE).create_namespace(("a.b",), {})
    small.backup()
    with pytest.raises(UnsupportedCatalogError, match=r"would split 'a\.b'") as caught:
        small.restore()
    assert "--exclude" in caught.value.hint
    assert not (small.folder / "target").exists()
    assert names(small.restore(exclude=("a.b",))) == ["sales.t"]


def _add_hadoop(small: SmallPlace, table: TableId) -> None:
    catalog = small.product.open(SOURCE)
    catalog.create_namespace(table.namespace, {})
    path = Path(write_twin(catalog.default_location(table), 2))
    catalog.register(table, str(path.rename(path.with_name("v1.metadata.json"))))


@pytest.mark.parametrize(
    ("catalog", "more"),
    [
        (TARGET, {"target_table": "x" * 256}),
        (TARGET, {"target_database": ("x" * 200, "y" * 55)}),
        (HADOOP, {"target_table": ".hidden"}),
        (HADOOP, {"target_database": ("a:b",)}),
        (HADOOP, {"target_location": "/free"}),
    ],
)
def test_names_and_places_that_a_catalog_cannot_hold_are_refused(
    small: SmallPlace, catalog: str, more: Any
) -> None:
    add(small, "sales.orders", 1)
    small.backup()
    with pytest.raises(UnsupportedCatalogError):
        small.restore(target_catalog=catalog, **more)
    assert not (small.folder / "target").exists()
    assert not (small.folder / "hadoop").exists()


def test_types_that_a_format_version_lacks_are_told(small: SmallPlace) -> None:
    table = add(small, "sales.orders", 1)
    field = {"id": 99, "name": "odd", "required": False, "type": "variant"}
    table.edit(lambda document: document["schemas"][0]["fields"].append(field))
    small.backup()
    [warning] = small.restore().warnings
    assert "format version 2 lacks: variant" in warning
