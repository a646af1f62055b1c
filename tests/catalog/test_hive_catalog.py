"""Hive beyond the contract: records, columns, names, addresses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hive_metastore.ttypes import FieldSchema, SerDeInfo, StorageDescriptor, Table

from bcn.catalog import hive_swap
from bcn.catalog.hive import HiveCatalog
from bcn.catalog.hive_client import Metastore, parse_addresses
from bcn.catalog.hive_table import check_columns, hive_type, make_table, make_view
from bcn.catalog.open import CATALOG_TYPES, open_catalog
from bcn.catalog.protocol import CatalogSettings, Pointer
from bcn.config.load import load_settings
from bcn.errors import (
    CatalogError,
    NoSuchNamespaceError,
    SettingsError,
    TargetExistsError,
    UnsupportedCatalogError,
)
from bcn.model import TableId
from tests.support.hive import HiveServer
from tests.support.rigs import table_document, view_document, write_metadata

ORDERS = TableId(("sales",), "orders")
DOCS = Path(__file__).parents[2] / "docs"


def hive_table(database: str, name: str, **parameters: str) -> Table:
    """A record that Hive itself would write."""
    serde = SerDeInfo(serializationLib="org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe")
    columns = [FieldSchema("a", "int", None)]
    descriptor = StorageDescriptor(cols=columns, serdeInfo=serde, parameters={})
    return Table(tableName=name, dbName=database, sd=descriptor, parameters=parameters)


# records


def test_other_tables_of_hive_are_not_listed_but_their_names_are_taken(
    hive_metastore: HiveServer, tmp_path: Path
) -> None:
    catalog = open_catalog(hive_metastore.settings("prod", tmp_path))
    catalog.create_namespace(("sales",), {})
    with hive_metastore.client() as client:
        client.create_table(hive_table("sales", "orders"))
        client.create_table(hive_table("sales", "lost", table_type="iceberg"))
    lost = TableId(("sales",), "lost")
    assert list(catalog.iter_pointers()) == [Pointer(lost, "", "table")]
    assert catalog.find_pointer(ORDERS) is None
    assert catalog.find_pointer(lost) == Pointer(lost, "", "table")
    with pytest.raises(TargetExistsError):
        catalog.check_target(ORDERS, "/wh/x")
    with pytest.raises(TargetExistsError):
        catalog.register(ORDERS, write_metadata(tmp_path / "t"))


def test_a_locked_table_is_not_replaced(
    hive_metastore: HiveServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = hive_metastore.settings("prod", tmp_path)
    catalog = open_catalog(settings)
    catalog.create_namespace(("sales",), {})
    old, new = write_metadata(tmp_path / "t"), write_metadata(tmp_path / "t", "00002-y")
    catalog.register(ORDERS, old)
    monkeypatch.setattr(hive_swap, "WAIT_SECONDS", 1.0)
    with (
        hive_swap.locked(Metastore(settings), ORDERS),
        pytest.raises(CatalogError, match=r"sales\.orders is locked by another writer"),
    ):
        catalog.replace(ORDERS, old, new)
    assert catalog.find_pointer(ORDERS) == Pointer(ORDERS, old, "table")
    catalog.replace(ORDERS, old, new)
    with hive_metastore.client() as client:
        record = client.get_table("sales", "orders")
    assert record.parameters["metadata_location"] == new
    assert record.parameters["previous_metadata_location"] == old
    catalog.replace(ORDERS, new, old)


def test_a_table_of_other_columns_takes_the_place(
    hive_metastore: HiveServer, tmp_path: Path
) -> None:
    catalog = open_catalog(hive_metastore.settings("prod", tmp_path))
    catalog.create_namespace(("sales",), {})
    old, new = write_metadata(tmp_path / "t"), write_metadata(tmp_path / "t", "00002-y")
    names = {"name": "string", "id": "long", "day": "date"}
    document = json.loads(Path(new).read_text())
    document["schemas"][0]["fields"] = [
        {"id": number, "name": name, "required": False, "type": kind}
        for number, (name, kind) in enumerate(names.items(), 1)
    ]
    Path(new).write_text(json.dumps(document))
    catalog.register(ORDERS, old)
    catalog.replace(ORDERS, old, new)
    catalog.replace(ORDERS, new, old)
    catalog.replace(ORDERS, old, new)
    with hive_metastore.client() as client:
        record = client.get_table("sales", "orders")
    assert [column.name for column in record.sd.cols] == list(names)
    assert catalog.find_pointer(ORDERS) == Pointer(ORDERS, new, "table")


def test_what_makes_a_table_readable_in_hive_outlives_a_swap(
    hive_metastore: HiveServer, tmp_path: Path
) -> None:
    """An engine may be set to it by its own configuration: no property of the table says so."""
    catalog = open_catalog(hive_metastore.settings("prod", tmp_path))
    catalog.create_namespace(("sales",), {})
    old, new = write_metadata(tmp_path / "t"), write_metadata(tmp_path / "t", "00002-y")
    catalog.register(ORDERS, old)
    with hive_metastore.client() as client:
        record = client.get_table("sales", "orders")
        record.parameters["storage_handler"] = (
            "org.apache.iceberg.mr.hive.HiveIcebergStorageHandler"
        )
        record.sd.inputFormat = "org.apache.iceberg.mr.hive.HiveIcebergInputFormat"
        client.alter_table("sales", "orders", record)
    catalog.replace(ORDERS, old, new)
    with hive_metastore.client() as client:
        swapped = client.get_table("sales", "orders")
    assert swapped.parameters["storage_handler"] == record.parameters["storage_handler"]
    assert swapped.sd.inputFormat == record.sd.inputFormat
    assert swapped.parameters["metadata_location"] == new


def test_names_are_found_in_their_own_case_only(hive_metastore: HiveServer, tmp_path: Path) -> None:
    catalog = open_catalog(hive_metastore.settings("prod", tmp_path))
    catalog.create_namespace(("sales",), {})
    catalog.register(ORDERS, write_metadata(tmp_path / "t"))
    assert catalog.find_pointer(TableId(("sales",), "Orders")) is None
    assert catalog.find_pointer(TableId(("Sales",), "orders")) is None
    with pytest.raises(NoSuchNamespaceError):
        list(catalog.iter_pointers(("Sales",)))


def test_more_tables_than_one_answer_holds_are_all_read(
    hive_metastore: HiveServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bcn.catalog.hive._BATCH", 2)
    catalog = open_catalog(hive_metastore.settings("prod", tmp_path))
    catalog.create_namespace(("sales",), {})
    location = write_metadata(tmp_path / "t")
    for number in range(5):
        catalog.register(TableId(("sales",), f"t{number}"), location)
    assert [pointer.table.name for pointer in catalog.iter_pointers()] == [
        "t0", "t1", "t2", "t3", "t4",
    ]  # fmt: skip


def test_a_database_that_is_dropped_while_it_is_read_is_left_out(
    hive_metastore: HiveServer, tmp_path: Path
) -> None:
    catalog = HiveCatalog(hive_metastore.settings("prod", tmp_path))
    catalog.create_namespace(("sales",), {})
    catalog.register(ORDERS, write_metadata(tmp_path / "t"))
    read = catalog._load_records

    def drop_first(database: str, names: list[str]) -> list[Table]:
        hive_metastore.empty()
        return read(database, names)

    catalog._load_records = drop_first  # type: ignore[method-assign]
    assert list(catalog.iter_pointers()) == []


def test_registering_without_a_database_says_so(hive_metastore: HiveServer, tmp_path: Path) -> None:
    catalog = open_catalog(hive_metastore.settings("prod", tmp_path))
    with pytest.raises(NoSuchNamespaceError, match="no namespace sales"):
        catalog.register(ORDERS, write_metadata(tmp_path / "t"))


def test_a_new_table_goes_where_icebergs_own_catalog_would_put_it(
    hive_metastore: HiveServer, tmp_path: Path
) -> None:
    catalog = open_catalog(hive_metastore.settings("prod", f"{tmp_path}/wh/"))
    assert catalog.default_location(ORDERS) == f"{tmp_path}/wh/sales.db/orders"
    catalog.create_namespace(("sales",), {})
    assert catalog.default_location(ORDERS) == f"file:{tmp_path}/wh/sales.db/orders"
    assert "location" not in catalog.load_namespace(("sales",))
    catalog.create_namespace(("own",), {"location": f"{tmp_path}/else/where"})
    there = catalog.default_location(TableId(("own",), "t"))
    assert there == f"file:{tmp_path}/else/where/t"
    assert catalog.load_namespace(("own",))["location"] == f"file:{tmp_path}/else/where"


def test_without_a_warehouse_in_the_settings_it_is_the_metastores_own(
    hive_metastore: HiveServer,
) -> None:
    catalog = open_catalog(CatalogSettings("prod", "hive", {"uri": hive_metastore.uri}))
    own = f"file://{hive_metastore.server.folder}/warehouse"
    assert catalog.public_properties() == {"type": "hive", "uri": hive_metastore.uri}
    assert catalog.warehouse_roots() == (own,)
    assert catalog.default_location(ORDERS) == f"{own}/sales.db/orders"
    assert "location" not in catalog.load_namespace(("default",))


def test_the_user_is_the_settings_or_the_one_who_runs_bcn(
    hive_metastore: HiveServer, tmp_path: Path
) -> None:
    open_catalog(hive_metastore.settings("prod", tmp_path, ugi="ada:sales:hr")).create_namespace(
        ("hers",), {}
    )
    open_catalog(hive_metastore.settings("prod", tmp_path)).create_namespace(("ours",), {})
    with hive_metastore.client() as client:
        assert client.get_database("hers").ownerName == "ada"
        assert client.get_database("ours").ownerName == _whoami()


def _whoami() -> str:
    return subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()


def test_times_with_a_zone_are_told_as_hive_knows_them() -> None:
    document = table_document("/t")
    document["schemas"][0]["fields"][0] = {
        "id": 1, "name": "at", "required": False, "type": "timestamptz",
    }  # fmt: skip
    kinds = [
        make_table(ORDERS, "/t/m", document, "ada", zoned=zoned).sd.cols[0].type
        for zoned in (False, True)
    ]
    assert kinds == ["timestamp", "timestamp with local time zone"]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("long", "bigint"),
        ("time", "string"),
        ("uuid", "string"),
        ("fixed[16]", "binary"),
        ("decimal(9, 2)", "decimal(9,2)"),
        ("timestamptz", "timestamp"),
        ({"type": "list", "element": "int"}, "array<int>"),
        ({"type": "map", "key": "string", "value": "long"}, "map<string,bigint>"),
        (
            {"type": "struct", "fields": [{"name": "A", "type": "date"}]},
            "struct<A:date>",
        ),
    ],
)
def test_types_have_hives_names(kind: Any, expected: str) -> None:
    assert hive_type(kind) == expected


def with_columns(*columns: tuple[str, Any]) -> dict[str, Any]:
    fields = [
        {"id": number, "name": name, "required": False, "type": kind}
        for number, (name, kind) in enumerate(columns)
    ]
    return {**table_document("/t"), "schemas": [{"schema-id": 0, "fields": fields}]}


@pytest.mark.parametrize("kind", ["timestamp_ns", "unknown", "geometry(srid:1)", "variant"])
def test_columns_that_hive_has_no_word_for_are_refused(kind: str) -> None:
    deep = {"type": "list", "element": {"type": "map", "key": "int", "value": kind}}
    for found in (kind, deep):
        with pytest.raises(UnsupportedCatalogError, match=r"sales\.orders.*'c'.*which Hive lacks"):
            check_columns(ORDERS, with_columns(("c", found)), is_hive2=True)


def test_a_variant_is_taken_by_later_metastores_if_it_is_a_column() -> None:
    check_columns(ORDERS, with_columns(("c", "variant")), is_hive2=False)
    nested = with_columns(("c", {"type": "list", "element": "variant"}))
    with pytest.raises(UnsupportedCatalogError, match="variant"):
        check_columns(ORDERS, nested, is_hive2=False)


def test_columns_that_differ_in_case_only_are_refused_as_the_metastore_would(
    hive_metastore: HiveServer, tmp_path: Path
) -> None:
    catalog = open_catalog(hive_metastore.settings("prod", tmp_path))
    document = with_columns(("id", "int"), ("Id", "int"))
    with pytest.raises(UnsupportedCatalogError, match="differ in case only: id"):
        catalog.check_table(ORDERS, document)


def test_a_view_shows_hives_own_dialect_if_it_has_one() -> None:
    document = view_document("/v")
    representations = document["versions"][0]["representations"]
    assert make_view(ORDERS, "/v/m", document, "ada").viewOriginalText == "SELECT 1L AS id"
    representations.append({"type": "sql", "sql": "SELECT 1", "dialect": "Hive"})
    assert make_view(ORDERS, "/v/m", document, "ada").viewOriginalText == "SELECT 1"


def test_a_schema_too_long_to_show_is_left_out() -> None:
    document = with_columns(*((f"c{number}", "int") for number in range(1000)))
    assert "current-schema" not in make_table(ORDERS, "/t/m", document, "ada").parameters
    assert "current-schema" in make_table(ORDERS, "/t/m", with_columns(), "ada").parameters


# addresses


def test_addresses_have_a_port_unless_it_is_the_usual_one() -> None:
    found = parse_addresses("prod", "thrift://a , thrift://b:1234,thrift://[::1]:9083/")
    assert list(map(str, found)) == ["thrift://a:9083", "thrift://b:1234", "thrift://[::1]:9083"]


@pytest.mark.parametrize(
    "uri",
    [
        "http://host:9083",
        "host:9083",
        "thrift://host:port",
        "thrift://host:99999",
        "thrift://host:0",
        "thrift://",
        "thrift://a:9083,",
        "thrift:/host:9083",
        "thrift://host:9083/path",
        "thrift://ada:pa55word@host:9083",
    ],
)
def test_what_is_no_thrift_address_is_refused(uri: str) -> None:
    with pytest.raises(CatalogError, match="is not the address of a Hive Metastore") as caught:
        open_catalog(CatalogSettings("prod", "hive", {"uri": uri}))
    assert "thrift://host:9083" in caught.value.hint
    assert caught.value.exit_code == 14
    assert "pa55word" not in str(caught.value)


def test_kerberos_without_its_library_is_refused_with_the_packages_name() -> None:
    properties = {"uri": "thrift://host:9083", "hive.kerberos-authentication": "true"}
    with pytest.raises(SettingsError, match="'pure-sasl'") as caught:
        open_catalog(CatalogSettings("prod", "hive", properties))
    assert "pip install" in caught.value.hint


def test_the_example_of_the_documentation_works(hive_metastore: HiveServer, tmp_path: Path) -> None:
    text = (DOCS / "catalogs.md").read_text().partition("```toml hive\n")[2].partition("```")[0]
    (tmp_path / "bcn.toml").write_text(text)
    written = load_settings(None, {}, tmp_path).catalog("lake")
    assert open_catalog(written).public_properties() == {
        "type": "hive",
        "uri": "thrift://metastore-1:9083,thrift://metastore-2:9083",
        "warehouse": "s3://lake/warehouse",
    }
    variables = {"BCN_CATALOGS__LAKE__URI": f"thrift://127.0.0.1:1,{hive_metastore.uri}"}
    catalog = open_catalog(load_settings(None, variables, tmp_path).catalog("lake"))
    assert list(catalog.iter_namespaces()) == [("default",)]
    assert catalog.default_location(ORDERS) == "s3://lake/warehouse/sales.db/orders"


def test_every_key_is_documented() -> None:
    page = (
        (DOCS / "catalogs.md").read_text().partition("## Hive Metastore")[2].partition("\n## ")[0]
    )
    known = set(CATALOG_TYPES["hive"].known) - {"name"}
    assert [key for key in sorted(known) if f"`{key}`" not in page] == []


def test_hive_is_imported_only_when_it_is_picked() -> None:
    code = (
        "import sys; from bcn.catalog.open import CATALOG_TYPES, open_catalog;"
        " from bcn.catalog.protocol import CatalogSettings;"
        " open_catalog(CatalogSettings('c', 'hadoop', {'warehouse': '/x'}));"
        " sys.exit('thrift' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
