"""What Spark is told of a catalog: as a file and as a command line, secrets only when asked for."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from bcn import api
from bcn.catalog.protocol import CatalogSettings
from bcn.cli.main import run
from bcn.config.settings import Settings
from bcn.errors import UnknownCatalogError
from tests.cli.pages import differences, examples

SECRET = "hunter2"
TOML = f"""
[catalogs.monkeys]
type = "hadoop"
warehouse = "s3a://lake/wh"
"s3.endpoint" = "http://minio:9000"
"s3.access-key-id" = "{SECRET}"
"s3.secret-access-key" = "{SECRET}"

[catalogs.pg]
type = "sql"
uri = "postgresql://ada:{SECRET}@h/d?password={SECRET}"

[catalogs.glue]
type = "glue"
"glue.access-key-id" = "{SECRET}"
"glue.secret-access-key" = "{SECRET}"
"s3.role-arn" = "arn:aws:iam::1:role/r"

[catalogs.rest]
type = "rest"
uri = "https://h"
credential = "id:{SECRET}"
token = "{SECRET}"
"header.authorization" = "{SECRET}"
"""
NAMES = re.findall(r"\[catalogs\.(\w+)\]", TOML)


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "bcn.toml"
    path.write_text(TOML)
    return str(path)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("flags", [(), ("--command",), ("--json",)])
def test_secrets_are_printed_only_when_asked_for(
    config: str, capsys: pytest.CaptureFixture[str], name: str, flags: tuple[str, ...]
) -> None:
    line = ["--config", config, "config", "spark", name, *flags]
    assert run(line) == 0
    printed = capsys.readouterr()
    assert SECRET not in printed.out + printed.err
    assert f"spark.sql.catalog.{name}" in printed.out
    assert "***" in printed.out
    assert run([*line, "--show-secrets"]) == 0
    assert SECRET in capsys.readouterr().out


def test_a_catalog_whose_name_looks_secret_shows_what_is_none(
    config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run(["--config", config, "config", "spark", "monkeys"])
    assert "spark.sql.catalog.monkeys.warehouse s3a://lake/wh\n" in capsys.readouterr().out


def test_what_spark_is_not_told_is_told(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    run(["--config", config, "config", "spark", "glue"])
    printed = capsys.readouterr()
    assert "Spark is not told of s3.role-arn" in printed.err
    assert "# needs AWS_SECRET_ACCESS_KEY=***" in printed.out


def test_json_is_as_documented(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    for name in NAMES:
        run(["--config", config, "config", "spark", name, "--json"])
        printed = json.loads(capsys.readouterr().out)
        assert differences(printed, examples()["config spark"]) == []


def test_an_unknown_catalog_is_one_line(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--config", config, "config", "spark", "monkey"]) == 2
    assert "did you mean 'monkeys'?" in capsys.readouterr().err
    with pytest.raises(UnknownCatalogError):
        api.spark_config("x", settings=Settings())


def odd_settings() -> Settings:
    properties = {"warehouse": "/w h/back\\slash=#!'\"$x", "name": "a b:c=d"}
    return Settings({"odd": CatalogSettings("odd", "hadoop", properties)})


@pytest.mark.spark
def test_java_reads_the_lines_as_they_were_meant(spark: Any) -> None:
    report = api.spark_config("odd", settings=odd_settings())
    found = spark._jvm.java.util.Properties()
    found.load(spark._jvm.java.io.StringReader("\n".join(report.defaults_lines())))
    read = {str(key): str(found.getProperty(key)) for key in found.stringPropertyNames()}
    assert read == dict(report.settings)


def test_a_shell_reads_the_command_as_it_was_meant() -> None:
    report = api.spark_config("odd", settings=odd_settings())
    words = shlex.split(report.command_line().replace("\\\n", ""))
    settings = [f"{key}={value}" for key, value in report.settings.items()]
    assert words == ["spark-sql", *(word for item in settings for word in ("--conf", item))]
