"""No secret reaches a text form, an error or a report."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bcn.config.load import load_settings
from bcn.config.secrets import HIDDEN, is_secret, redact, redact_text
from bcn.config.settings import RepositorySettings
from bcn.errors import BcnError

SECRET = "hunter2"

TEXT = f"""
[catalogs.prod]
type = "sql"
uri = "postgresql://ada:{SECRET}@db/x?password={SECRET}"
warehouse = "s3://key:{SECRET}@bucket/wh"
s3.secret-access-key = "{SECRET}"
[repositories.nightly]
location = "s3://key:{SECRET}@bucket/repo"
s3.secret-access-key = "{SECRET}"
[spark]
"spark.hadoop.fs.s3a.secret.key" = "{SECRET}"
"""


def test_the_text_form_of_settings_holds_no_secret(tmp_path: Path) -> None:
    (tmp_path / "bcn.toml").write_text(TEXT)
    settings = load_settings(None, {}, tmp_path)
    for value in (settings, settings.catalog("prod"), settings.repository("nightly")):
        assert SECRET not in repr(value)
        assert SECRET not in str(value)
        assert SECRET not in f"{value}"
    assert settings.catalog("prod").properties["s3.secret-access-key"] == SECRET
    assert settings.spark["spark.hadoop.fs.s3a.secret.key"] == SECRET


@pytest.mark.parametrize(
    "text",
    [
        f'[catalogs.c]\ntype = "{SECRET}"',
        f'[catalogs.c]\ntype = "sql"\nuri = "x"\npasword = "{SECRET}"',
        f'[catalogs.c]\ntype = "sql"\nuri = "x"\ns3.token = ["{SECRET}"]',
        f'[catalogs.c]\ntype = "sql"\npassword = "{SECRET}"',
        f'[lease]\nttl-seconds = "{SECRET}"',
        f'[catalogs]\ntoken = "{SECRET}"',
        f'token = "{SECRET}"',
        f'[catalogs.c]\ns3.token = "{SECRET}',
        f"[catalogs.c]\ns3.token = {SECRET}",
        f'[catalogs.c]\ns3.token = "{SECRET}"\ns3.token = "{SECRET}"',
    ],
)
def test_no_error_about_settings_repeats_a_value(tmp_path: Path, text: str) -> None:
    (tmp_path / "bcn.toml").write_text(text)
    with pytest.raises(BcnError) as caught:
        load_settings(None, {}, tmp_path)
    assert SECRET not in str(caught.value) + caught.value.hint + repr(caught.value)


def test_no_error_about_the_environment_repeats_a_value(tmp_path: Path) -> None:
    for variable in ("BCN_LEASE__TTL_SECONDS", "BCN_CATALOGS__C__TYPE", "BCN_X__TOKEN"):
        with pytest.raises(BcnError) as caught:
            load_settings(None, {variable: SECRET}, tmp_path)
        assert SECRET not in str(caught.value) + caught.value.hint


@pytest.mark.parametrize(
    "key",
    [
        "s3.secret-access-key", "s3.access-key-id", "s3.session-token", "token", "credential",
        "header.X-Auth", "header.Authorization", "ugi",
        "PASSWORD", "jdbc.password", "adls.sas-token", "adls.account-key", "gcs.oauth2.token",
        "adls.connection-string", "spark.hadoop.fs.azure.sas.box", "db.pwd",
    ],
)  # fmt: skip
def test_names_that_speak_of_secrets_are_known(key: str) -> None:
    assert is_secret(key)
    assert redact({key: SECRET}) == {key: HIDDEN}


@pytest.mark.parametrize("key", ["warehouse", "uri", "type", "s3.endpoint", "s3.region", "name"])
def test_plain_names_are_shown(key: str) -> None:
    assert redact({key: "plain"}) == {key: "plain"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://ada:pw@db:5432/x", "postgresql://***@db:5432/x"),
        ("postgresql://ada:p@w/1@db/x", "postgresql://***@db/x"),
        ("mysql://h/x?user=a&password=pw&ssl=1", "mysql://h/x?user=a&password=***&ssl=1"),
        ("mssql:///?odbc=Driver=X;PWD=pw;Server=s", "mssql:///?odbc=Driver=X;PWD=***;Server=s"),
        ("sqlite:////a/b.db", "sqlite:////a/b.db"),
        (
            "abfs://box@account.dfs.core.windows.net/wh",
            "abfs://box@account.dfs.core.windows.net/wh",
        ),
        ("/plain/path:with@signs", "/plain/path:with@signs"),
    ],
)
def test_addresses_lose_their_passwords_and_nothing_else(text: str, shown: str) -> None:
    assert redact_text(text) == shown


@given(password=st.text(st.characters(exclude_categories=["Z", "C"]), min_size=6))
def test_no_password_survives_in_an_address(password: str) -> None:
    shown = repr(RepositorySettings("", f"s3://user:{password}@bucket/x"))
    assert shown == "RepositorySettings(name='', location='s3://***@bucket/x')"
