"""The SQL catalog's rows: two schemas, pyiceberg beside us, and databases that fail."""

from __future__ import annotations

import os
import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog as PyicebergCatalog

from bcn.catalog import sql
from bcn.catalog.protocol import CatalogSettings, Pointer
from bcn.catalog.sql import SqlCatalog
from bcn.errors import CatalogError, SettingsError, TargetExistsError, UnsupportedCatalogError
from bcn.model import TableId

ORDERS = TableId(("sales",), "orders")


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "catalog.db"


def open_at(database: Path, name: str = "prod", **properties: str) -> SqlCatalog:
    known = {"uri": f"sqlite:///{database}", "warehouse": str(database.parent / "wh")}
    return SqlCatalog(CatalogSettings(name, "sql", {**known, **properties}))


def run_sql(database: Path, *statements: str) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    with closing(sqlite3.connect(database)) as connection, connection:
        for statement in statements:
            rows = connection.execute(statement).fetchall()
    return rows


@pytest.fixture
def pyiceberg(database: Path) -> Iterator[PyicebergCatalog]:
    warehouse = f"file://{database.parent}/wh"
    catalog = PyicebergCatalog("prod", uri=f"sqlite:///{database}", warehouse=warehouse)
    yield catalog
    catalog.close()


def test_what_pyiceberg_made_is_listed_as_it_lists_it(
    database: Path, pyiceberg: PyicebergCatalog
) -> None:
    pyiceberg.create_namespace("sales", {"owner": "ada"})
    pyiceberg.create_namespace("sales.eu")
    rows = pa.table({"id": [1, 2]})
    for name in ("sales.orders", "sales.eu.orders"):
        pyiceberg.create_table(name, rows.schema).append(rows)
    ours = open_at(database)
    assert list(ours.iter_namespaces()) == [("sales",), ("sales", "eu")]
    assert ours.load_namespace(("sales",)) == {"owner": "ada"}
    assert ours.load_namespace(("sales", "eu")) == {}
    assert {str(pointer.table): pointer.metadata_location for pointer in ours.iter_pointers()} == {
        name: pyiceberg.load_table(name).metadata_location
        for name in ("sales.orders", "sales.eu.orders")
    }


def test_what_we_registered_pyiceberg_lists_and_loads(tmp_path: Path, database: Path) -> None:
    source = PyicebergCatalog(
        "src", uri=f"sqlite:///{tmp_path}/src.db", warehouse=f"file://{tmp_path}/w"
    )
    source.create_namespace("a")
    rows = pa.table({"id": [1, 2, 3]})
    made = source.create_table("a.t", rows.schema)
    made.append(rows)
    target = TableId(("sales", "eu"), "orders")
    open_at(database).create_namespace(target.namespace, {"owner": "ada"})
    open_at(database).register(target, made.metadata_location)

    reader = PyicebergCatalog("prod", uri=f"sqlite:///{database}")
    assert reader.list_tables("sales.eu") == [("sales", "eu", "orders")]
    assert reader.list_namespaces() == [("sales",)]
    assert reader.list_namespaces("sales") == [("sales", "eu")]
    assert reader.load_namespace_properties("sales.eu")["owner"] == "ada"
    assert reader.load_table("sales.eu.orders").scan().to_arrow().num_rows == 3
    reader.load_table("sales.eu.orders").append(rows)
    assert reader.load_table("sales.eu.orders").scan().to_arrow().num_rows == 6
    for catalog in (source, reader):
        catalog.close()


def test_a_new_database_gets_the_columns_that_pyiceberg_makes(tmp_path: Path) -> None:
    open_at(tmp_path / "ours.db").create_namespace(("a",), {})
    PyicebergCatalog("prod", uri=f"sqlite:///{tmp_path}/theirs.db").close()
    for table in ("iceberg_tables", "iceberg_namespace_properties"):
        ours = run_sql(tmp_path / "ours.db", f"PRAGMA table_info({table})")
        assert ours == run_sql(tmp_path / "theirs.db", f"PRAGMA table_info({table})")
        assert ours


def test_a_new_row_says_that_it_is_a_table(database: Path) -> None:
    open_at(database).register(ORDERS, "/wh/m.metadata.json")
    [row] = run_sql(database, "SELECT * FROM iceberg_tables")
    assert row == ("prod", "sales", "orders", "/wh/m.metadata.json", None, "TABLE")


def test_views_are_told_from_tables_and_take_a_name_too(database: Path) -> None:
    catalog = open_at(database)
    catalog.create_namespace(("sales",), {})
    run_sql(
        database,
        "INSERT INTO iceberg_tables VALUES ('prod', 'sales', 'orders', '/view', NULL, 'VIEW')",
        "INSERT INTO iceberg_tables VALUES ('prod', 'sales', 'old', '/old', NULL, NULL)",
        "INSERT INTO iceberg_tables VALUES ('prod', 'sales', 'lost', NULL, NULL, 'TABLE')",
    )
    assert list(catalog.iter_pointers()) == [
        Pointer(TableId(("sales",), "lost"), "", "table"),
        Pointer(TableId(("sales",), "old"), "/old", "table"),
        Pointer(ORDERS, "/view", "view"),
    ]
    with pytest.raises(TargetExistsError, match="table or view"):
        catalog.check_target(ORDERS, "/wh/sales/orders")
    with pytest.raises(TargetExistsError):
        catalog.register(ORDERS, "/new.metadata.json")


def test_namespaces_that_only_tables_name_exist_with_their_parents(database: Path) -> None:
    open_at(database).register(TableId(("a", "b", "c"), "t"), "/m.metadata.json")
    catalog = open_at(database)
    assert list(catalog.iter_namespaces()) == [("a",), ("a", "b"), ("a", "b", "c")]
    assert catalog.load_namespace(("a", "b")) == {}
    assert list(catalog.iter_pointers(("a",))) == []


def test_a_namespace_is_marked_as_both_libraries_do_and_the_mark_is_not_shown(
    database: Path,
) -> None:
    catalog = open_at(database)
    catalog.create_namespace(("a", "b"), {"location": "/x"})
    rows = run_sql(database, "SELECT * FROM iceberg_namespace_properties ORDER BY 2, 3")
    assert rows == [
        ("prod", "a", "exists", "true"),
        ("prod", "a.b", "exists", "true"),
        ("prod", "a.b", "location", "/x"),
    ]
    assert catalog.load_namespace(("a", "b")) == {"location": "/x"}


def test_catalogs_of_other_names_in_the_same_database_are_not_mixed_in(database: Path) -> None:
    open_at(database, "one").register(ORDERS, "/one.metadata.json")
    open_at(database, "two").register(ORDERS, "/two.metadata.json")
    assert [p.metadata_location for p in open_at(database, "two").iter_pointers()] == [
        "/two.metadata.json"
    ]


def test_a_wrong_catalog_name_does_not_look_like_an_empty_catalog(database: Path) -> None:
    open_at(database, "spark_prod").register(ORDERS, "/m.metadata.json")
    for read in (open_at(database).iter_pointers, open_at(database).iter_namespaces):
        with pytest.raises(CatalogError, match="no catalog 'prod', but 'spark_prod'") as caught:
            list(read())
        assert "'name'" in caught.value.hint


def test_an_empty_catalog_is_empty(database: Path, pyiceberg: PyicebergCatalog) -> None:
    assert pyiceberg.list_namespaces() == []
    assert list(open_at(database).iter_pointers()) == []
    assert list(open_at(database).iter_namespaces()) == []


def test_a_database_without_a_catalog_is_an_error_to_read_and_free_as_a_target(
    database: Path,
) -> None:
    run_sql(database, "CREATE TABLE other (x)")
    catalog = open_at(database)
    with pytest.raises(CatalogError, match="no such table") as caught:
        list(catalog.iter_pointers())
    assert "no Iceberg catalog" in caught.value.hint
    catalog.check_target(ORDERS, "/wh/sales/orders")
    assert run_sql(database, "SELECT name FROM sqlite_master") == [("other",)]


def test_a_file_that_is_no_database_is_one_line(database: Path) -> None:
    database.write_bytes(os.urandom(5000))
    with pytest.raises(CatalogError, match="not a database") as caught:
        list(open_at(database).iter_pointers())
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_locked_database_is_waited_for_and_then_one_line(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_at(database).create_namespace(("a",), {})
    monkeypatch.setattr(sql, "_BUSY_SECONDS", 0.1)
    with closing(sqlite3.connect(database, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        for use in (
            lambda: list(open_at(database).iter_pointers()),
            lambda: open_at(database).register(ORDERS, "/m.metadata.json"),
        ):
            with pytest.raises(CatalogError, match="locked") as caught:
                use()
            assert "\n" not in str(caught.value)
        other.execute("ROLLBACK")
    open_at(database).register(ORDERS, "/m.metadata.json")


def test_reading_changes_no_byte_and_works_on_a_write_ahead_log(database: Path) -> None:
    open_at(database).register(ORDERS, "/m.metadata.json")
    run_sql(database, "PRAGMA journal_mode=WAL")
    before = database.read_bytes()
    assert len(list(open_at(database).iter_pointers())) == 1
    assert database.read_bytes() == before


def test_odd_characters_may_be_in_the_path_of_the_file(tmp_path: Path) -> None:
    database = tmp_path / "a b#cü" / "catalog.db"
    catalog = open_at(database)
    catalog.register(ORDERS, "/m.metadata.json")
    assert database.exists()
    assert catalog.find_pointer(ORDERS) is not None


def test_levels_with_dots_are_refused_and_not_confused_with_nested_ones(database: Path) -> None:
    catalog = open_at(database)
    catalog.register(TableId(("a", "b"), "t.x"), "/m.metadata.json")
    dotted = TableId(("a.b",), "t.x")
    assert catalog.find_pointer(dotted) is None
    assert catalog.find_pointer(TableId(("a", "b"), "t.x")) is not None
    for use in (
        lambda: catalog.check_target(dotted, "/x"),
        lambda: catalog.register(dotted, "/m.metadata.json"),
        lambda: catalog.create_namespace(dotted.namespace, {}),
        lambda: catalog.check_target(TableId((), "t"), "/x"),
    ):
        with pytest.raises(UnsupportedCatalogError):
            use()


def test_a_target_location_must_be_absolute(database: Path) -> None:
    catalog = open_at(database)
    for location in ("/x", "file:/x", "s3://b/x"):
        catalog.check_target(ORDERS, location)
    for location in ("", "x/y", "./x"):
        with pytest.raises(UnsupportedCatalogError, match="absolute"):
            catalog.check_target(ORDERS, location)


def test_the_default_location_has_a_folder_for_each_level(database: Path) -> None:
    catalog = open_at(database, warehouse="s3://b/wh/")
    catalog.create_namespace(("a", "b"), {"location": "/elsewhere"})
    assert catalog.default_location(TableId(("a", "b"), "t")) == "s3://b/wh/a/b/t"


def test_a_catalog_without_a_warehouse_has_no_default_location(database: Path) -> None:
    catalog = open_at(database, warehouse="")
    assert catalog.warehouse_roots() == ()
    with pytest.raises(CatalogError, match="no warehouse") as caught:
        catalog.default_location(ORDERS)
    assert "--target-location" in caught.value.hint


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("00012-3f0c.metadata.json", "00012-{}.metadata.json"),
        ("123456-3f0c.gz.metadata.json", "123456-{}.gz.metadata.json"),
        ("00007-3f0c.metadata.json.gz", "00007-{}.gz.metadata.json"),
        ("v12.metadata.json", "00000-{}.metadata.json"),
        ("v12.gz.metadata.json", "00000-{}.gz.metadata.json"),
        ("x-1.metadata.json", "00000-{}.metadata.json"),
    ],
)
def test_a_metadata_name_keeps_the_number_of_the_source(
    database: Path, source: str, name: str
) -> None:
    fixed = uuid.UUID(int=7)
    settings = CatalogSettings("c", "sql", {"uri": f"sqlite:///{database}"})
    assert SqlCatalog(settings, new_uuid=lambda: fixed).metadata_name(source) == name.format(fixed)
    names = {open_at(database).metadata_name(source) for _ in range(3)}
    assert len(names) == 3


NO_DATABASES = [
    "no url",
    "sqlite://",
    "sqlite:///:memory:",
    "sqlite:///file:x?uri=true",
    "jdbc:sqlite:/x",
    "nodb://h/d",
]


@pytest.mark.parametrize("uri", NO_DATABASES)
def test_an_address_that_is_no_database_is_a_settings_error_that_does_not_repeat_it(
    uri: str,
) -> None:
    with pytest.raises(SettingsError, match="catalog 'c': 'uri'") as caught:
        SqlCatalog(CatalogSettings("c", "sql", {"uri": uri}))
    assert "sqlite:////" in caught.value.hint
    assert uri not in str(caught.value)


def test_a_missing_driver_is_named() -> None:
    with pytest.raises(SettingsError, match="not installed: MySQLdb") as caught:
        SqlCatalog(CatalogSettings("c", "sql", {"uri": "mysql://u:hunter2@h/d"}))
    assert "hunter2" not in str(caught.value) + caught.value.hint


def test_user_password_and_options_are_not_public(database: Path) -> None:
    uri = f"sqlite://ada:hunter2@/{database}?token=hunter2"
    settings = CatalogSettings(
        "c", "sql", {"uri": uri, "warehouse": "s3://k:hunter2@b/wh", "s3.key": "hunter2"}
    )
    catalog = SqlCatalog(settings)
    assert catalog.public_properties() == {
        "type": "sql",
        "uri": f"sqlite:///{database}",
        "warehouse": "s3://b/wh",
    }
    with pytest.raises(CatalogError) as caught:
        list(catalog.iter_pointers())
    assert "hunter2" not in str(caught.value) + caught.value.hint + repr(catalog)
