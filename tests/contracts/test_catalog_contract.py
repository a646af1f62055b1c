"""What every catalog promises, tried on each of them."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from bcn.catalog.open import open_catalog
from bcn.catalog.protocol import Catalog, CatalogSettings, Pointer
from bcn.errors import (
    BcnError,
    CatalogError,
    NoSuchNamespaceError,
    TargetChangedError,
    TargetExistsError,
    UnsupportedCatalogError,
)
from bcn.model import TableId
from tests.support.rigs import ODD_NAMES, RIGS, Rig

ORDERS = TableId(("sales",), "orders")


@pytest.fixture(params=list(RIGS))
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Rig:
    return RIGS[request.param](request, tmp_path)


def names(catalog: Catalog, namespace: tuple[str, ...] | None = None) -> list[str]:
    return [str(pointer.table) for pointer in catalog.iter_pointers(namespace)]


def test_a_registered_table_is_found_with_the_location_it_was_registered_at(rig: Rig) -> None:
    location = rig.add(ORDERS)
    assert rig.open().find_pointer(ORDERS) == Pointer(ORDERS, location, "table")
    assert list(rig.open().iter_pointers()) == [Pointer(ORDERS, location, "table")]


def test_what_is_not_there_is_not_found(rig: Rig) -> None:
    rig.add(ORDERS)
    catalog = rig.open()
    for missing in ("sales.order", "sale.orders", "sales.orders.x", "sales.x.orders"):
        assert catalog.find_pointer(TableId.parse(missing)) is None
    assert catalog.find_pointer(TableId(("sales", ".."), "sales")) is None
    assert catalog.find_pointer(TableId(("..",), "warehouse")) is None


def test_tables_are_listed_in_the_order_of_their_names(rig: Rig) -> None:
    flat = ["a._b", "a.b", "a.z", "b.t", "c.t"]
    nested = ["a._b", "a.b", "a.z", "a.inner.t", "b.t", "b.inner.deep.t", "c.t"]
    expected = nested if rig.nests else flat
    for name in reversed(expected):
        rig.add(TableId.parse(name))
    listed = [pointer.table for pointer in rig.open().iter_pointers()]
    assert listed == sorted(listed)
    assert [str(table) for table in listed] == expected


def test_names_that_differ_in_case_are_two_or_refused(rig: Rig) -> None:
    rig.add(TableId.parse("a.b"))
    if "UPPER" in rig.odd_names:
        rig.add(TableId.parse("a.B"))
        assert names(rig.open()) == ["a.B", "a.b"]
    else:
        with pytest.raises(BcnError):
            rig.open().check_target(TableId.parse("a.B"), "/elsewhere/a/B")


def test_a_namespace_lists_only_the_tables_directly_in_it(rig: Rig) -> None:
    for name in ("a.one", "ab.three", "a_.four", *(("a.inner.two",) if rig.nests else ())):
        rig.add(TableId.parse(name))
    assert names(rig.open(), ("a",)) == ["a.one"]
    if rig.nests:
        assert names(rig.open(), ("a", "inner")) == ["a.inner.two"]


def test_an_unknown_namespace_is_an_error_not_an_empty_list(rig: Rig) -> None:
    rig.add(ORDERS)
    catalog = rig.open()
    for namespace in [("sale",), ("sales", "inner"), ("sales", "orders"), ("..",), ("sales.x",)]:
        with pytest.raises(NoSuchNamespaceError):
            list(catalog.iter_pointers(namespace))
        with pytest.raises(NoSuchNamespaceError):
            catalog.load_namespace(namespace)


def test_namespaces_come_sorted_with_parents_before_children(rig: Rig) -> None:
    expected = [("a",), ("b",)]
    if rig.nests:
        expected += [("b", "c"), ("b", "x"), ("b", "x", "y")]
        rig.open().create_namespace(("b", "x", "y"), {})
    rig.open().create_namespace(("a",), {})
    rig.add(TableId(("b", "c") if rig.nests else ("b",), "t"))
    catalog = rig.open()
    assert list(catalog.iter_namespaces()) == sorted([*rig.always, *expected])
    assert all(rig.own(catalog.load_namespace(namespace)) == {} for namespace in expected)


def test_namespaces_in_namespaces_are_refused_where_there_are_none(rig: Rig) -> None:
    catalog = rig.open()
    if rig.nests:
        catalog.check_namespace(("a", "b"))
        return
    with pytest.raises(UnsupportedCatalogError, match="cannot hold"):
        catalog.check_namespace(("a", "b"))
    with pytest.raises(UnsupportedCatalogError, match="cannot hold"):
        catalog.create_namespace(("a", "b"), {})
    with pytest.raises(UnsupportedCatalogError, match="cannot hold"):
        catalog.check_target(TableId(("a", "b"), "t"), "/elsewhere/a/b/t")


def test_making_a_namespace_again_changes_nothing(rig: Rig) -> None:
    levels = ("a", "b") if rig.nests else ("a",)
    rig.open().create_namespace(levels, {})
    before = rig.trace()
    rig.open().create_namespace(levels, {})
    rig.open().create_namespace(("a",), {})
    assert rig.trace() == before


def test_properties_of_a_namespace_are_kept_or_refused_never_lost(rig: Rig) -> None:
    catalog = rig.open()
    properties = {"owner": "ada", "comment": 'it\'s "quoted" — ünïcode'}
    if catalog.keeps_namespace_properties:
        catalog.create_namespace(("a",), properties)
        catalog.create_namespace(("a",), {"owner": "eve"})
        assert rig.own(catalog.load_namespace(("a",))) == properties
    else:
        with pytest.raises(UnsupportedCatalogError, match="comment, owner"):
            catalog.create_namespace(("a",), properties)
        assert not rig.trace()


def test_a_taken_name_is_refused_before_anything_is_copied(rig: Rig) -> None:
    rig.add(ORDERS)
    catalog = rig.open()
    with pytest.raises(TargetExistsError, match=r"sales\.orders"):
        catalog.check_target(ORDERS, catalog.default_location(ORDERS))


def test_a_free_name_passes_and_the_check_leaves_no_trace(rig: Rig) -> None:
    before = rig.trace()
    catalog = rig.open()
    catalog.check_target(ORDERS, catalog.default_location(ORDERS))
    assert rig.trace() == before


def test_registering_a_taken_name_is_refused_and_keeps_the_first(rig: Rig) -> None:
    location = rig.add(ORDERS)
    with pytest.raises(TargetExistsError):
        rig.open().register(ORDERS, location)
    assert rig.open().find_pointer(ORDERS) == Pointer(ORDERS, location, "table")


def test_of_many_who_race_to_register_a_name_exactly_one_wins(rig: Rig) -> None:
    rig.open().create_namespace(("sales",), {})
    location = rig.write_metadata(ORDERS)
    start = threading.Barrier(6)
    outcomes: list[str] = []

    def register() -> None:
        start.wait()
        try:
            rig.open().register(ORDERS, location)
            outcomes.append("won")
        except TargetExistsError:
            outcomes.append("lost")

    threads = [threading.Thread(target=register) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["lost"] * 5 + ["won"]


def test_a_missing_disk_or_server_does_not_look_like_an_empty_catalog(rig: Rig) -> None:
    rig.add(ORDERS)
    catalog = open_catalog(rig.take_away())
    reads = (
        lambda: list(catalog.iter_pointers()),
        lambda: list(catalog.iter_namespaces()),
        lambda: catalog.find_pointer(ORDERS),
        lambda: catalog.load_namespace(("sales",)),
    )
    for read in reads:
        with pytest.raises(CatalogError, match=r"there is no|cannot be reached") as caught:
            read()
        assert "mounted" in caught.value.hint or "check" in caught.value.hint
        assert not isinstance(caught.value, NoSuchNamespaceError)
    assert rig.place is None or not rig.place.exists()


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\0b"])
def test_impossible_names_are_refused_as_targets(rig: Rig, name: str) -> None:
    catalog = rig.open()
    for table in (TableId(("a",), name), TableId((name,), "t")):
        with pytest.raises(BcnError):
            catalog.check_target(table, catalog.default_location(table))


@pytest.mark.parametrize("name", ODD_NAMES)
def test_unusual_names_come_back_as_they_were_or_are_refused(rig: Rig, name: str) -> None:
    table = TableId((name,), name)
    if name not in rig.odd_names:
        with pytest.raises(UnsupportedCatalogError, match="cannot hold"):
            rig.open().check_namespace((name,))
        with pytest.raises(UnsupportedCatalogError, match="cannot hold"):
            rig.open().check_target(TableId(("a",), name), "/elsewhere/a/t")
        return
    location = rig.add(table)
    assert rig.namespaces() == [(name,)]
    assert list(rig.open().iter_pointers((name,))) == [Pointer(table, location, "table")]


def test_a_metadata_name_says_gzip_when_the_source_did(rig: Rig) -> None:
    catalog = rig.open()
    assert not catalog.metadata_name("00003-abc.metadata.json").endswith(".gz.metadata.json")
    for source in ("v3.gz.metadata.json", "00003-abc.metadata.json.gz"):
        assert catalog.metadata_name(source).endswith(".gz.metadata.json")


def test_public_properties_name_the_type_and_the_warehouse(rig: Rig) -> None:
    catalog = rig.open()
    public = catalog.public_properties()
    assert public["type"] == rig.settings.type
    assert (public["warehouse"],) == catalog.warehouse_roots()
    assert set(public) <= {"type", "warehouse", "uri"}


def test_the_name_property_is_the_name_the_catalog_knows_itself_by(rig: Rig) -> None:
    settings = CatalogSettings(
        "alias", rig.settings.type, {**rig.settings.properties, "name": "prod"}
    )
    rig.add(ORDERS)
    catalog = open_catalog(settings)
    assert catalog.name == "prod"
    assert names(catalog) == ["sales.orders"]


# what is asked before a restore, and views


def test_a_namespace_that_can_be_made_passes_and_leaves_no_trace(rig: Rig) -> None:
    levels = ("a", "b") if rig.nests else ("a",)
    before = rig.trace()
    rig.open().check_namespace(levels)
    assert rig.trace() == before
    rig.open().create_namespace(levels, {})
    rig.open().check_namespace(levels)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\0b", "x" * 300])
def test_a_namespace_that_cannot_be_made_is_refused_before(rig: Rig, name: str) -> None:
    catalog = rig.open()
    if len(name) == 300 and rig.max_name is None:
        catalog.check_namespace((name,))
        return
    before = rig.trace()
    for levels in ((name,), ("a", name)):
        with pytest.raises(UnsupportedCatalogError, match="cannot hold"):
            catalog.check_namespace(levels)
        with pytest.raises(UnsupportedCatalogError):
            catalog.create_namespace(levels, {})
    assert rig.trace() == before


def test_names_that_only_this_type_of_catalog_cannot_hold_are_refused(rig: Rig) -> None:
    catalog = rig.open()
    for name in rig.refused_names:
        with pytest.raises(UnsupportedCatalogError, match="cannot hold"):
            catalog.check_namespace((name,))


def test_names_that_are_too_long_are_refused(rig: Rig) -> None:
    catalog = rig.open()
    length = rig.max_name or 255
    long = TableId(("a",), "x" * length)
    catalog.check_target(long, catalog.default_location(long))
    if rig.max_name is None:
        return
    longer = "x" * (length + 1)
    for table in (TableId(("a",), longer), TableId((longer,), "t")):
        with pytest.raises(UnsupportedCatalogError, match="cannot hold") as caught:
            catalog.check_target(table, catalog.default_location(table))
        assert "--target-" in caught.value.hint


def test_types_that_a_format_version_lacks_are_told(rig: Rig) -> None:
    field = {"id": 1, "name": "c", "required": False, "type": "variant"}
    document = {"format-version": 3, "schemas": [{"type": "struct", "fields": [field]}]}
    if not rig.new_types:
        with pytest.raises(UnsupportedCatalogError, match=r"cannot hold .* variant"):
            rig.open().check_table(ORDERS, document)
        return
    assert rig.open().check_table(ORDERS, document) == ()
    [note] = rig.open().check_table(ORDERS, {**document, "format-version": 2})
    assert "sales.orders has types that format version 2 lacks: variant" in note


def test_metadata_elsewhere_is_refused_where_the_catalog_could_not_find_it(rig: Rig) -> None:
    catalog = rig.open()
    document = {"format-version": 2, "properties": {"write.metadata.path": "/elsewhere"}}
    if catalog.fixes_locations:
        with pytest.raises(UnsupportedCatalogError, match=r"write\.metadata\.path"):
            catalog.check_table(ORDERS, document)
    else:
        assert catalog.check_table(ORDERS, document) == ()


def test_views_are_kept_as_views_or_refused_never_as_tables(rig: Rig) -> None:
    catalog = rig.open()
    keeps_views = catalog.keeps_views()
    catalog.create_namespace(("sales",), {})
    location = rig.write_metadata(ORDERS, "view" if keeps_views else "table")
    assert rig.open().keeps_views() == keeps_views == rig.has_views
    if keeps_views:
        catalog.register_view(ORDERS, location)
        assert rig.open().find_pointer(ORDERS) == Pointer(ORDERS, location, "view")
        with pytest.raises(TargetExistsError):
            catalog.register(ORDERS, rig.write_metadata(ORDERS))
        with pytest.raises(TargetExistsError):
            catalog.register_view(ORDERS, location)
        with pytest.raises(TargetExistsError):
            catalog.check_target(ORDERS, catalog.default_location(ORDERS))
    else:
        with pytest.raises(UnsupportedCatalogError, match="view"):
            catalog.register_view(ORDERS, location)


def test_another_table_takes_the_place_of_one_or_is_refused(rig: Rig) -> None:
    old = rig.add(ORDERS)
    catalog = rig.open()
    new = old if catalog.fixes_locations else rig.write_metadata(ORDERS)
    if not rig.swaps:
        with pytest.raises(UnsupportedCatalogError, match=r"in the place of sales\.orders"):
            catalog.replace(ORDERS, old, new)
        assert rig.open().find_pointer(ORDERS) == Pointer(ORDERS, old, "table")
        return
    catalog.check_replace(ORDERS)
    catalog.replace(ORDERS, old, new)
    assert rig.open().find_pointer(ORDERS) == Pointer(ORDERS, new, "table")
    assert list(rig.open().iter_pointers()) == [Pointer(ORDERS, new, "table")]


def test_only_what_was_seen_is_replaced(rig: Rig) -> None:
    old = rig.add(ORDERS)
    catalog = rig.open()
    if catalog.fixes_locations:
        with pytest.raises(UnsupportedCatalogError, match=r"in the place of sales\.orders"):
            catalog.check_replace(ORDERS)
        return
    new, other = rig.write_metadata(ORDERS), rig.write_metadata(ORDERS)
    with pytest.raises(TargetChangedError, match=r"sales\.orders"):
        catalog.replace(ORDERS, other, new)
    with pytest.raises(TargetChangedError, match=r"sales\.nobody"):
        catalog.replace(TableId(("sales",), "nobody"), old, new)
    assert rig.open().find_pointer(ORDERS) == Pointer(ORDERS, old, "table")


# moto does not look at the versions of Glue's records.
@pytest.mark.parametrize("rig", ["sql-v1", "sql-v0", "postgres", "hive"], indirect=True)
def test_of_many_that_would_take_a_place_one_does(rig: Rig) -> None:
    old = rig.add(ORDERS)
    files = [rig.write_metadata(ORDERS) for _ in range(6)]
    start, done = threading.Barrier(len(files)), list[str]()

    def swap(new: str) -> None:
        catalog = rig.open()
        start.wait()
        try:
            catalog.replace(ORDERS, old, new)
        except TargetChangedError:
            return
        done.append(new)

    threads = [threading.Thread(target=swap, args=(new,)) for new in files]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = rig.open().find_pointer(ORDERS)
    assert found is not None
    assert done == [found.metadata_location]
