"""Settings that people have already: pyiceberg's, and variables of a Hive and MinIO stack."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyiceberg.utils.config import Config

from bcn.api.parts import find_repository
from bcn.catalog.protocol import CatalogSettings
from bcn.config.load import load_settings
from bcn.config.settings import RepositorySettings, Settings
from bcn.errors import SettingsError, UsageError

YAML = """
default-catalog: prod
catalog:
  Prod:
    uri: sqlite:////data/catalog.db
    warehouse: /data/warehouse
    S3.Endpoint: http://minio:9000
    something-of-theirs: 7
  lake:
    type: GLUE
    glue.region: eu-central-1
    glue.secret-access-key: hunter2
  odd:
    type: dynamodb
  nothing:
    warehouse: /x
"""


def load(folder: Path, **environ: str) -> Settings:
    return load_settings(None, {"HOME": str(folder / "nobody"), **environ}, folder)


def test_a_file_of_pyiceberg_works_as_it_is(tmp_path: Path) -> None:
    (tmp_path / ".pyiceberg.yaml").write_text(YAML)
    settings = load(tmp_path)
    prod = settings.catalog("prod")
    assert (prod.name, prod.type) == ("prod", "sql")
    assert prod.properties == {
        "uri": "sqlite:////data/catalog.db",
        "warehouse": "/data/warehouse",
        "s3.endpoint": "http://minio:9000",
        "something-of-theirs": "7",
    }
    assert settings.catalog("lake").type == "glue"


def test_names_and_values_are_those_that_pyiceberg_sees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".pyiceberg.yaml").write_text(YAML)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    monkeypatch.setenv("PYICEBERG_CATALOG__PROD__S3__ACCESS_KEY_ID", "AKIA")
    monkeypatch.setenv("PYICEBERG_CATALOG__MY_NEW__URI", "postgresql://h/d")
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__GLUE__REGION", "us-west-2")
    monkeypatch.setenv("PYICEBERG_MAX_WORKERS", "3")
    theirs, ours = Config(), load_settings(None, os.environ, tmp_path)
    assert set(theirs.get_known_catalogs()) == {*ours.catalogs, *ours.faults}
    for name in ours.catalogs:
        expected = dict(theirs.get_catalog_config(name) or {})
        expected.pop("type", None)
        assert ours.catalog(name).properties == expected
    assert ours.catalog("my-new").type == "sql"


def test_the_file_is_looked_for_where_pyiceberg_looks(tmp_path: Path) -> None:
    folders = {name: tmp_path / name for name in ("special", "home", "here")}
    for name, folder in folders.items():
        folder.mkdir()
        text = f"catalog:\n  {name}:\n    uri: sqlite:////x.db\n"
        (folder / ".pyiceberg.yaml").write_text(text)
    here, home = folders["here"], str(folders["home"])
    special = {"HOME": home, "PYICEBERG_HOME": str(folders["special"])}
    assert list(load_settings(None, special, here).catalogs) == ["special"]
    assert list(load_settings(None, {"HOME": home}, here).catalogs) == ["home"]
    assert list(load_settings(None, {}, here).catalogs) == ["here"]


def test_bcns_own_section_of_a_name_is_the_only_one(tmp_path: Path) -> None:
    (tmp_path / ".pyiceberg.yaml").write_text(YAML)
    own = '[catalogs.prod]\ntype = "hadoop"\nwarehouse = "/own"\n'
    (tmp_path / "bcn.toml").write_text(own)
    settings = load(tmp_path, PYICEBERG_CATALOG__PROD__S3__REGION="x")
    assert settings.catalog("prod") == CatalogSettings("prod", "hadoop", {"warehouse": "/own"})
    assert "lake" in settings.catalogs


def test_bcns_variables_change_catalogs_of_pyiceberg(tmp_path: Path) -> None:
    (tmp_path / ".pyiceberg.yaml").write_text(YAML)
    settings = load(tmp_path, BCN_CATALOGS__LAKE__GLUE__REGION="us-west-2")
    assert settings.catalog("lake").properties["glue.region"] == "us-west-2"


def test_what_bcn_cannot_use_is_told_when_it_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / ".pyiceberg.yaml").write_text(YAML)
    settings = load(tmp_path)
    with pytest.raises(SettingsError, match="unknown type of catalog") as caught:
        settings.catalog("odd")
    assert str(tmp_path / ".pyiceberg.yaml") in str(caught.value)
    with pytest.raises(SettingsError, match="has no 'type'"):
        settings.catalog("nothing")
    assert set(settings.catalogs) == {"prod", "lake"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("catalog:\n  a:\n    x: {b: c}\n    password: hunter2\n", "not the YAML.* at line 3"),
        ("catalog:\n  a:\n    token: hunter2\n    token: hunter2\n", "not the YAML"),
        ("catalog: hunter2\n", "must hold a name"),
        ("catalog:\n  a: hunter2\n", "must hold properties"),
    ],
)
def test_a_file_that_pyiceberg_could_not_read_is_named_without_its_values(
    tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / ".pyiceberg.yaml").write_text(text)
    with pytest.raises(SettingsError, match=message) as caught:
        load(tmp_path)
    assert str(caught.value).startswith(str(tmp_path / ".pyiceberg.yaml"))
    assert "hunter2" not in str(caught.value)
    assert caught.value.exit_code == 2


def test_a_file_without_catalogs_is_none(tmp_path: Path) -> None:
    for text in ("", "max-workers: 3\n", "catalog:\n"):
        (tmp_path / ".pyiceberg.yaml").write_text(text)
        assert load(tmp_path).catalogs == {}


# variables of a stack

STACK = {
    "S3_ENDPOINT": "http://minio:9000",
    "S3_ACCESS_KEY": "ada",
    "S3_SECRET_KEY": "hunter2",
    "HIVE_METASTORE_URI": "thrift://hms:9083",
    "BACKUP_BUCKET": "safe",
    "WAREHOUSE_BUCKET": "lake",
}
STORE = {
    "s3.endpoint": "http://minio:9000",
    "s3.access-key-id": "ada",
    "s3.secret-access-key": "hunter2",
    "s3.path-style-access": "true",
    "s3.region": "us-east-1",
}


def test_variables_of_the_stack_give_a_catalog_and_a_repository(tmp_path: Path) -> None:
    settings = load(tmp_path, **STACK)
    expected = {"uri": "thrift://hms:9083", "warehouse": "s3://lake", **STORE}
    assert settings.catalog("hive_catalog") == CatalogSettings("hive_catalog", "hive", expected)
    assert settings.repositories == {"backup": RepositorySettings("backup", "s3://safe/bcn", STORE)}
    assert find_repository(settings, None).name == "backup"


def test_variables_that_are_missing_have_the_defaults_of_the_stack(tmp_path: Path) -> None:
    settings = load(tmp_path, WAREHOUSE_BUCKET="lake", AWS_REGION="eu-west-1")
    found = settings.catalog("hive_catalog").properties
    assert (found["uri"], found["warehouse"]) == ("thrift://localhost:9083", "s3://lake")
    assert found["s3.endpoint"] == "http://localhost:9000"
    assert (found["s3.access-key-id"], found["s3.secret-access-key"]) == ("admin", "password")
    assert found["s3.region"] == "eu-west-1"
    assert settings.repository("backup").location == "s3://iceberg/bcn"


def test_variables_of_the_store_alone_say_nothing(tmp_path: Path) -> None:
    settings = load(tmp_path, S3_ENDPOINT="http://x", S3_ACCESS_KEY="a", S3_SECRET_KEY="b")
    assert (settings.catalogs, settings.faults, settings.repositories) == ({}, {}, {})


def test_sections_of_these_names_are_not_touched_by_variables(tmp_path: Path) -> None:
    (tmp_path / "bcn.toml").write_text(
        '[catalogs.hive_catalog]\ntype = "hadoop"\nwarehouse = "/w"\n'
        '[repositories.backup]\nlocation = "/r"\n'
    )
    settings = load(tmp_path, **STACK)
    assert settings.catalog("hive_catalog").type == "hadoop"
    assert settings.repository("backup") == RepositorySettings("backup", "/r")


def test_an_implied_repository_does_not_hide_the_only_configured_one(
    tmp_path: Path,
) -> None:
    (tmp_path / "bcn.toml").write_text('[repositories.nightly]\nlocation = "/r"\n')
    settings = load(tmp_path, **STACK)
    assert find_repository(settings, None).name == "nightly"
    assert find_repository(settings, "backup").location == "s3://safe/bcn"
    (tmp_path / "bcn.toml").write_text(
        '[repositories.a]\nlocation = "/a"\n[repositories.b]\nlocation = "/b"\n'
    )
    with pytest.raises(UsageError, match="which repository"):
        find_repository(load(tmp_path, **STACK), None)


def test_where_each_setting_comes_from_is_known(tmp_path: Path) -> None:
    (tmp_path / ".pyiceberg.yaml").write_text(YAML)
    (tmp_path / "bcn.toml").write_text('[repositories.r]\nlocation = "/r"\n')
    variables = {**STACK, "BCN_SPARK__MASTER": "yarn", "PYICEBERG_CATALOG__PROD__S3__REGION": "x"}
    found = {
        (item.section, item.name, item.key): item.source
        for item in load(tmp_path, **variables).sources
    }
    assert found["repositories", "r", "location"] == str(tmp_path / "bcn.toml")
    assert found["catalogs", "prod", "uri"] == str(tmp_path / ".pyiceberg.yaml")
    assert found["catalogs", "prod", "s3.region"] == "PYICEBERG_CATALOG__PROD__S3__REGION"
    assert found["catalogs", "hive_catalog", "uri"] == "HIVE_METASTORE_URI"
    assert found["catalogs", "hive_catalog", "s3.region"] == "default of AWS_REGION"
    assert found["spark", "", "master"] == "BCN_SPARK__MASTER"
