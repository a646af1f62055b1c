"""The SQL catalog on PostgreSQL: drivers, sharing with pyiceberg, races, what can be wrong."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from urllib.parse import quote

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from bcn.catalog.open import open_catalog
from bcn.catalog.protocol import CatalogSettings, Pointer
from bcn.catalog.sql_address import driver_url, parse_url, reason_of
from bcn.config.load import load_settings
from bcn.errors import BcnError, CatalogError
from bcn.model import TableId
from bcn.stack.process import free_port
from tests.support.postgres import PASSWORD, PostgresServer
from tests.support.silent import silent_port

DOCS = Path(__file__).parents[2] / "docs"
ORDERS = TableId(("sales",), "orders")


@pytest.fixture
def database(postgres: PostgresServer) -> str:
    return postgres.make_database()


def settings_at(uri: str) -> CatalogSettings:
    return CatalogSettings("prod", "sql", {"uri": uri, "warehouse": "/wh"})


@pytest.mark.parametrize("scheme", ["postgresql", "postgresql+psycopg", "postgresql+psycopg2"])
def test_any_spelling_of_the_driver_connects(
    postgres: PostgresServer, database: str, scheme: str
) -> None:
    settings = settings_at(postgres.uri(database, scheme))
    catalog = open_catalog(settings)
    catalog.create_namespace(("sales",), {"owner": "ada"})
    assert catalog.load_namespace(("sales",)) == {"owner": "ada"}
    assert driver_url(parse_url(settings)).drivername == "postgresql+psycopg"
    address = f"{scheme}://127.0.0.1:{postgres.server.port}/{database}"
    assert catalog.public_properties() == {"type": "sql", "uri": address, "warehouse": "/wh"}


def test_a_socket_in_a_folder_connects(postgres: PostgresServer, database: str) -> None:
    user = f"bcn:{quote(PASSWORD, safe='')}@"
    place = f"host={quote(postgres.server.folder, safe='')}&port={postgres.server.port}"
    catalog = open_catalog(settings_at(f"postgresql://{user}/{database}?{place}"))
    catalog.create_namespace(("sales",), {})
    assert list(catalog.iter_namespaces()) == [("sales",)]


def test_pyiceberg_and_bcn_share_a_catalog(
    postgres: PostgresServer, database: str, tmp_path: Path
) -> None:
    uri = postgres.uri(database, "postgresql+psycopg")
    theirs = load_catalog("prod", type="sql", uri=uri, warehouse=f"file://{tmp_path}")
    theirs.create_namespace("sales", {"owner": "ada"})
    schema = Schema(NestedField(1, "id", LongType(), required=False))
    made = theirs.create_table("sales.orders", schema)
    ours = open_catalog(postgres.settings("prod", database, tmp_path))
    assert ours.load_namespace(("sales",)) == {"owner": "ada"}
    assert list(ours.iter_pointers()) == [Pointer(ORDERS, made.metadata_location, "table")]
    ours.create_namespace(("hr",), {})
    ours.register(TableId(("hr",), "people"), made.metadata_location)
    assert theirs.load_table("hr.people").metadata == made.metadata
    assert ("hr",) in theirs.list_namespaces()
    theirs.close()


@pytest.mark.parametrize("_again", range(4))  # it is a race
def test_many_who_make_the_first_tables_of_a_database_all_succeed(
    postgres: PostgresServer, database: str, _again: int
) -> None:
    start = threading.Barrier(6)
    faults: list[BaseException] = []

    def create(number: int) -> None:
        catalog = open_catalog(postgres.settings("prod", database, "/wh"))
        start.wait()
        try:
            catalog.create_namespace((f"n{number}",), {})
            catalog.create_namespace(("shared",), {"owner": "ada"})
        except BcnError as error:
            faults.append(error)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    catalog = open_catalog(postgres.settings("prod", database, "/wh"))
    assert len(list(catalog.iter_namespaces())) == 7
    assert catalog.load_namespace(("shared",)) == {"owner": "ada"}


def test_a_name_that_is_not_the_catalogs_own_is_told(
    postgres: PostgresServer, database: str
) -> None:
    open_catalog(postgres.settings("prod", database, "/wh")).create_namespace(("a",), {})
    with pytest.raises(CatalogError, match="holds no catalog 'other', but 'prod'"):
        list(open_catalog(postgres.settings("other", database, "/wh")).iter_pointers())


def test_a_value_that_the_database_has_no_room_for_is_one_line(
    postgres: PostgresServer, database: str
) -> None:
    catalog = open_catalog(postgres.settings("prod", database, "/wh"))
    catalog.create_namespace(("sales",), {})
    with pytest.raises(CatalogError, match="too long") as caught:
        catalog.register(ORDERS, "/" + "x" * 1000)
    assert "\n" not in str(caught.value)
    assert catalog.find_pointer(ORDERS) is None


# what can be wrong


def failure(uri: str) -> CatalogError:
    """One line, a hint, exit 14, within 15 s, without a secret."""
    start = time.monotonic()
    with pytest.raises(CatalogError) as caught:
        list(open_catalog(settings_at(uri)).iter_pointers())
    assert time.monotonic() - start < 15
    assert caught.value.exit_code == 14
    for text in (str(caught.value), caught.value.hint):
        assert text
        assert "\n" not in text
        assert PASSWORD not in text
        assert quote(PASSWORD, safe="") not in text
    return caught.value


def test_a_wrong_password(postgres: PostgresServer, database: str) -> None:
    error = failure(postgres.uri(database, password="wrong-hunter2"))
    assert "password authentication failed" in str(error)
    assert "password in 'uri'" in error.hint
    assert "hunter2" not in str(error)


def test_no_password(postgres: PostgresServer, database: str) -> None:
    assert "password in 'uri'" in failure(postgres.uri(database, password=None)).hint


def test_a_user_that_is_not_known(postgres: PostgresServer, database: str) -> None:
    assert "user" in failure(postgres.uri(database, username="nobody")).hint


def test_a_database_that_is_not_there(postgres: PostgresServer) -> None:
    error = failure(postgres.uri("no_such_database"))
    assert 'database "no_such_database" does not exist' in str(error)
    assert "bcn makes no databases" in error.hint


def test_a_database_without_a_catalog(postgres: PostgresServer, database: str) -> None:
    assert "holds no Iceberg catalog" in failure(postgres.uri(database)).hint


def test_no_server(postgres: PostgresServer, database: str) -> None:
    error = failure(postgres.uri(database, port=free_port()))
    assert "cannot be reached" in str(error)
    assert "host and port" in error.hint


def test_a_host_without_a_name_in_the_network(postgres: PostgresServer, database: str) -> None:
    error = failure(postgres.uri(database, host="no-such-host.invalid"))
    assert "cannot be reached" in str(error)


def test_a_server_that_says_nothing(postgres: PostgresServer, database: str) -> None:
    with silent_port() as port:
        error = failure(postgres.uri(database, port=port))
    assert "cannot be reached" in str(error)


def test_a_web_server_is_no_database(postgres: PostgresServer, database: str) -> None:
    with silent_port(b"HTTP/1.1 400 Bad Request\r\n\r\n") as port:
        assert "no PostgreSQL answers" in failure(postgres.uri(database, port=port)).hint


def test_of_several_addresses_that_fail_the_first_reason_is_told() -> None:
    text = (
        "Multiple connection attempts failed. All failures were:\n"
        "- host: 'db', port: 5432: connection failed: hunter2 refused\n"
        "- host: 'db', port: 5433: no"
    )
    url = parse_url(settings_at("postgresql://ada:hunter2@db/d"))
    assert reason_of(ValueError(text), url).endswith("connection failed: *** refused")


def test_the_example_of_the_documentation_works(
    postgres: PostgresServer, database: str, tmp_path: Path
) -> None:
    text = (DOCS / "catalogs.md").read_text().partition("```toml sql\n")[2].partition("```")[0]
    (tmp_path / "bcn.toml").write_text(text)
    assert load_settings(None, {}, tmp_path).catalog("prod").type == "sql"
    variables = {"BCN_CATALOGS__PROD__URI": postgres.uri(database)}
    catalog = open_catalog(load_settings(None, variables, tmp_path).catalog("prod"))
    catalog.create_namespace(("sales",), {})
    assert catalog.name == "spark_prod"
    assert list(catalog.iter_namespaces()) == [("sales",)]


def test_a_password_may_come_from_the_environment(
    postgres: PostgresServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    catalog = open_catalog(settings_at(postgres.uri(database, password=None)))
    catalog.create_namespace(("sales",), {})
    assert list(catalog.iter_namespaces()) == [("sales",)]
