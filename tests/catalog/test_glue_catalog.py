"""Glue beyond the contract: pages, records, names, and everything that can go wrong on the wire."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from bcn.catalog.glue_table import glue_type, table_input
from bcn.catalog.open import open_catalog
from bcn.catalog.protocol import Catalog, CatalogSettings, Pointer
from bcn.config.load import load_settings
from bcn.errors import (
    BcnError,
    CatalogError,
    NoSuchNamespaceError,
    SettingsError,
    TargetExistsError,
    UnsupportedCatalogError,
)
from bcn.model import TableId
from bcn.stack.process import free_port
from tests.support.aws_front import AwsFront, open_front
from tests.support.glue import SECRET_KEY, GlueServer, start_glue
from tests.support.silent import silent_port

DOCS = Path(__file__).parents[2] / "docs"
ORDERS = TableId(("sales",), "orders")
TOKEN = "session-token-of-the-tests"


def write_metadata(folder: Path, **more: Any) -> str:
    path = folder / "00001-x.metadata.json"
    path.write_text(json.dumps({"format-version": 2, "location": str(folder), **more}))
    return str(path)


def through(front: AwsFront, glue: GlueServer, **more: str) -> Catalog:
    return open_catalog(glue.settings("prod", "/wh", **{"glue.endpoint": front.endpoint, **more}))


# records


def test_lists_are_read_to_their_last_page(glue: GlueServer, tmp_path: Path) -> None:
    location = write_metadata(tmp_path)
    catalog = open_catalog(glue.settings("prod", "/wh"))
    for database in ("a", "b", "c", "d", "e"):
        catalog.create_namespace((database,), {})
    for number in range(7):
        catalog.register(TableId(("c",), f"t{number}"), location)
    with open_front(glue.endpoint, page_size=2) as front:
        paged = through(front, glue)
        assert list(paged.iter_namespaces()) == [("a",), ("b",), ("c",), ("d",), ("e",)]
        assert list(paged.iter_pointers(("c",))) == list(catalog.iter_pointers(("c",)))
        assert front.calls.count("GetDatabases") == 3
        assert front.calls.count("GetTables") == 4
    assert len(list(catalog.iter_pointers())) == 7


def test_other_tables_of_glue_are_not_listed_but_their_names_are_taken(
    glue: GlueServer, tmp_path: Path
) -> None:
    catalog = open_catalog(glue.settings("prod", "/wh"))
    catalog.create_namespace(("sales",), {})
    glue.client().create_table(
        DatabaseName="sales", TableInput={"Name": "orders", "Parameters": {"classification": "csv"}}
    )
    assert list(catalog.iter_pointers()) == []
    assert catalog.find_pointer(ORDERS) is None
    with pytest.raises(TargetExistsError):
        catalog.check_target(ORDERS, "/wh/x")
    with pytest.raises(TargetExistsError):
        catalog.register(ORDERS, write_metadata(tmp_path))


def test_the_kind_of_a_table_is_read_in_any_case_and_a_missing_location_is_empty(
    glue: GlueServer,
) -> None:
    catalog = open_catalog(glue.settings("prod", "/wh"))
    catalog.create_namespace(("sales",), {})
    glue.client().create_table(
        DatabaseName="sales", TableInput={"Name": "orders", "Parameters": {"table_type": "iceberg"}}
    )
    assert catalog.find_pointer(ORDERS) == Pointer(ORDERS, "", "table")


def test_a_databases_location_and_description_are_its_properties(glue: GlueServer) -> None:
    catalog = open_catalog(glue.settings("prod", "s3://bucket/wh/"))
    properties = {"location": "s3://other/place", "comment": "Sales", "owner": "ada"}
    catalog.create_namespace(("sales",), properties)
    record = glue.client().get_database(Name="sales")["Database"]
    assert (record["LocationUri"], record["Description"]) == ("s3://other/place", "Sales")
    assert record["Parameters"] == {"owner": "ada"}
    assert catalog.load_namespace(("sales",)) == properties
    assert catalog.default_location(ORDERS) == "s3://other/place/orders"
    other = TableId(("hr",), "people")
    assert catalog.default_location(other) == "s3://bucket/wh/hr.db/people"


def test_without_a_warehouse_a_table_needs_a_location(glue: GlueServer) -> None:
    catalog = open_catalog(CatalogSettings("prod", "glue", glue.properties()))
    with pytest.raises(CatalogError, match="no warehouse") as caught:
        catalog.default_location(ORDERS)
    assert "--target-location" in caught.value.hint
    assert catalog.warehouse_roots() == ()


def test_a_swap_names_the_version_it_saw_and_keeps_what_others_said(
    glue: GlueServer, tmp_path: Path
) -> None:
    """moto does not compare versions: what is asked of Glue is looked at instead."""
    old = write_metadata(tmp_path)
    new = str(Path(old).with_name("00002-y.metadata.json"))
    Path(new).write_bytes(Path(old).read_bytes())
    catalog = open_catalog(glue.settings("prod", "/wh"))
    catalog.create_namespace(("sales",), {})
    catalog.register(ORDERS, old)
    made = glue.client().get_table(DatabaseName="sales", Name="orders")["Table"]
    kept = {"Name": "orders", "Owner": "ada", "Description": "all of them"}
    parameters = {**made["Parameters"], "classification": "secret"}
    changed = {**kept, "TableType": made["TableType"], "Parameters": parameters}
    glue.client().update_table(DatabaseName="sales", TableInput=changed)
    seen = glue.client().get_table(DatabaseName="sales", Name="orders")["Table"]["VersionId"]
    with open_front(glue.endpoint) as front:
        through(front, glue).replace(ORDERS, old, new)
        assert front.bodies[-1]["VersionId"] == seen
    found = glue.client().get_table(DatabaseName="sales", Name="orders")["Table"]
    assert {key: found.get(key) for key in kept} == kept
    assert found["Parameters"] == {
        **parameters,
        "metadata_location": new,
        "previous_metadata_location": old,
    }


def test_an_account_is_named_in_every_call(glue: GlueServer) -> None:
    with open_front(glue.endpoint) as front:
        list(through(front, glue, **{"glue.id": "210987654321"}).iter_pointers())
        assert {body["CatalogId"] for body in front.bodies} == {"210987654321"}
        list(through(front, glue).iter_namespaces())
        assert "CatalogId" not in front.bodies[-1]


def test_properties_for_all_of_aws_stand_in_for_glues_own(glue: GlueServer) -> None:
    properties = {
        key.replace("glue.", "client.") if "endpoint" not in key else key: value
        for key, value in glue.properties().items()
    }
    catalog = open_catalog(CatalogSettings("prod", "glue", properties))
    assert list(catalog.iter_namespaces()) == []


@pytest.mark.parametrize("name", ["UPPER", "ÄÖ", "a\nb", "x" * 256])
def test_names_that_glue_would_change_are_refused_before(glue: GlueServer, name: str) -> None:
    catalog = open_catalog(glue.settings("prod", "/wh"))
    with pytest.raises(UnsupportedCatalogError, match="cannot hold") as caught:
        catalog.check_target(TableId(("a",), name), "/wh/x")
    assert "--target-table" in caught.value.hint
    with pytest.raises(UnsupportedCatalogError, match="cannot hold") as caught:
        catalog.check_namespace((name,))
    assert "--target-database" in caught.value.hint


def test_names_that_icebergs_own_catalog_refuses_are_told(glue: GlueServer) -> None:
    catalog = open_catalog(glue.settings("prod", "/wh"))
    assert catalog.check_table(ORDERS, {"format-version": 2}) == ()
    [note] = catalog.check_table(TableId(("my-db",), "t"), {"format-version": 2})
    assert "glue.skip-name-validation" in note


# columns


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("long", "bigint"),
        ("int", "int"),
        ("uuid", "string"),
        ("time", "string"),
        ("timestamptz", "timestamp"),
        ("timestamp_ns", "timestamp_nano"),
        ("fixed[16]", "binary"),
        ("decimal(9, 2)", "decimal(9,2)"),
        ("variant", "variant"),
        ({"type": "list", "element": "long"}, "array<bigint>"),
        ({"type": "map", "key": "string", "value": "decimal(3,1)"}, "map<string,decimal(3,1)>"),
        ({"type": "struct", "fields": [{"name": "a", "type": "uuid"}]}, "struct<a:string>"),
    ],
)
def test_types_have_the_names_that_iceberg_gives_them_in_glue(kind: Any, expected: str) -> None:
    assert glue_type(kind) == expected


def test_what_glue_has_no_room_for_is_cut_or_left_out() -> None:
    fields = [
        {"id": 1, "name": "x" * 256, "required": False, "type": "int"},
        {"id": 2, "name": "kept", "required": True, "type": "int", "doc": "d" * 300},
    ]
    document = {
        "format-version": 1,
        "schema": {"type": "struct", "fields": fields},
        "properties": {"comment": "c" * 3000},
    }
    made = table_input("t", "/m.json", document)
    [column] = made["StorageDescriptor"]["Columns"]
    assert (column["Name"], len(column["Comment"]), len(made["Description"])) == ("kept", 255, 2048)
    assert column["Parameters"]["iceberg.field.current"] == "true"
    assert column["Parameters"]["iceberg.field.optional"] == "false"


# the wire


def test_throttling_is_waited_for(glue: GlueServer) -> None:
    slow = (400, "ThrottlingException", "Rate exceeded")
    with open_front(glue.endpoint, refusals=[slow] * 3) as front:
        assert list(through(front, glue).iter_namespaces()) == []
        assert len(front.calls) == 4


def test_a_server_that_fails_for_a_moment_is_asked_again(glue: GlueServer) -> None:
    broken = (500, "InternalServiceException", "oh")
    with open_front(glue.endpoint, refusals=[broken]) as front:
        assert list(through(front, glue).iter_namespaces()) == []


def test_a_lost_answer_to_a_registration_is_looked_up(glue: GlueServer, tmp_path: Path) -> None:
    location = write_metadata(tmp_path)
    open_catalog(glue.settings("prod", "/wh")).create_namespace(("sales",), {})
    with open_front(glue.endpoint, lost_answers=1) as front:
        catalog = through(front, glue)
        catalog.register(ORDERS, location)
        assert front.calls == ["CreateTable", "CreateTable", "GetTable"]
        assert catalog.find_pointer(ORDERS) == Pointer(ORDERS, location, "table")


def test_a_lost_answer_does_not_take_another_ones_table(glue: GlueServer, tmp_path: Path) -> None:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    for folder in (theirs, ours):
        folder.mkdir()
    catalog = open_catalog(glue.settings("prod", "/wh"))
    catalog.create_namespace(("sales",), {})
    catalog.register(ORDERS, write_metadata(theirs))
    with open_front(glue.endpoint, lost_answers=1) as front, pytest.raises(TargetExistsError):
        through(front, glue).register(ORDERS, write_metadata(ours))


def test_a_table_in_a_database_that_is_gone_is_refused(glue: GlueServer, tmp_path: Path) -> None:
    with pytest.raises(NoSuchNamespaceError, match="sales"):
        open_catalog(glue.settings("prod", "/wh")).register(ORDERS, write_metadata(tmp_path))


# what can be wrong


def failure(settings: CatalogSettings) -> BcnError:
    """One line, a hint, exit 14, within 15 s, without a secret."""
    start = time.monotonic()
    with pytest.raises(CatalogError) as caught:
        list(open_catalog(settings).iter_pointers())
    assert time.monotonic() - start < 15
    error = caught.value
    assert error.exit_code == 14
    assert error.hint
    for text in (str(error), error.hint):
        assert "\n" not in text
        assert SECRET_KEY not in text
        assert TOKEN not in text
    return error


def changed(glue: GlueServer, **changes: str) -> CatalogSettings:
    return glue.settings("prod", "/wh", **{key.replace("__", "."): v for key, v in changes.items()})


@pytest.mark.parametrize(
    ("code", "message", "reason", "hint"),
    [
        ("UnrecognizedClientException", "The security token is invalid", "refused", "access-key"),
        ("InvalidSignatureException", f"signed by {SECRET_KEY}\nmore", "refused", "access-key"),
        ("InvalidSignatureException", "Signature expired: 2026 is now", "refused", "clock"),
        ("ExpiredTokenException", f"{TOKEN} is expired", "expired", "session-token"),
        ("AccessDeniedException", "not authorized: glue:GetDatabases", "GetDatabases", "grant"),
        ("InvalidInputException", "odd", "InvalidInputException: odd", "Glue"),
    ],
)
def test_refusals_of_aws_are_told_in_plain_words(
    glue: GlueServer, code: str, message: str, reason: str, hint: str
) -> None:
    with open_front(always=(400, code, message)) as front:
        error = failure(
            changed(glue, glue__endpoint=front.endpoint, **{"glue.session-token": TOKEN})
        )
    assert reason in str(error)
    assert hint in error.hint


def test_a_key_that_nobody_gave_out_is_refused(tmp_path: Path) -> None:
    strict = start_glue(tmp_path, {"INITIAL_NO_AUTH_ACTION_COUNT": "0"})
    try:
        error = failure(strict.settings("prod", "/wh"))
    finally:
        strict.server.stop()
    assert "credentials are refused" in str(error)
    assert "glue.access-key-id" in error.hint


def test_nobody_at_the_endpoint(glue: GlueServer) -> None:
    endpoint = f"http://127.0.0.1:{free_port()}"
    error = failure(changed(glue, glue__endpoint=endpoint))
    assert endpoint in str(error)
    assert "glue.endpoint" in error.hint


def test_an_endpoint_without_a_name_in_the_network(glue: GlueServer) -> None:
    error = failure(changed(glue, glue__endpoint="http://no-such-host.invalid"))
    assert "no-such-host.invalid" in str(error)


def test_a_server_that_never_answers(glue: GlueServer) -> None:
    with silent_port() as port:
        error = failure(changed(glue, glue__endpoint=f"http://127.0.0.1:{port}"))
    assert "glue.endpoint" in error.hint


def test_a_server_of_another_kind_closes_the_connection(glue: GlueServer) -> None:
    with silent_port(answer=b"\x80\x01\x00\x03\x00\x00\x00") as port:
        error = failure(changed(glue, glue__endpoint=f"http://127.0.0.1:{port}"))
    assert "glue.endpoint" in error.hint


def test_a_web_page_is_not_glue(glue: GlueServer) -> None:
    page = b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\nConnection: close\r\n\r\n<html></html>"
    with silent_port(answer=page) as port:
        error = failure(changed(glue, glue__endpoint=f"http://127.0.0.1:{port}"))
    assert "not Glue's" in str(error)


def test_tls_asked_of_a_server_without(glue: GlueServer) -> None:
    address = glue.endpoint.replace("http://", "https://")
    assert "TLS" in failure(changed(glue, glue__endpoint=address)).hint


def test_no_region(glue: GlueServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    error = failure(changed(glue, glue__region=""))
    assert "no region" in str(error)
    assert "glue.region" in error.hint
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    assert list(open_catalog(changed(glue, glue__region="")).iter_namespaces()) == []


def test_no_credentials(glue: GlueServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/nonexistent")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    keys = {"glue.access-key-id": "", "glue.secret-access-key": ""}
    assert "no credentials" in str(failure(changed(glue, **keys)))
    half = failure(changed(glue, **{**keys, "glue.access-key-id": "AKIA"}))
    assert "profile" in half.hint


def test_an_unknown_profile(glue: GlueServer) -> None:
    error = failure(glue.settings("prod", "/wh", **{"glue.profile-name": "nobody-has-it"}))
    assert "nobody-has-it" in str(error)
    assert "glue.profile-name" in error.hint


def test_an_endpoint_must_be_an_address(glue: GlueServer) -> None:
    with pytest.raises(SettingsError, match="http"):
        open_catalog(changed(glue, glue__endpoint="127.0.0.1:5555"))


def test_the_example_of_the_documentation_works(glue: GlueServer, tmp_path: Path) -> None:
    text = (DOCS / "catalogs.md").read_text().partition("```toml glue\n")[2].partition("```")[0]
    (tmp_path / "bcn.toml").write_text(text)
    variables = {
        f"BCN_CATALOGS__LAKE__{key.upper().replace('.', '__').replace('-', '_')}": value
        for key, value in glue.properties("eu-central-1").items()
    }
    settings = load_settings(None, variables, tmp_path).catalog("lake")
    catalog = open_catalog(settings)
    catalog.create_namespace(("sales",), {})
    assert list(catalog.iter_namespaces()) == [("sales",)]
    assert catalog.default_location(ORDERS) == "s3://lake/warehouse/sales.db/orders"
    elsewhere = open_catalog(glue.settings("prod", "/wh"))
    assert list(elsewhere.iter_namespaces()) == []  # another region
