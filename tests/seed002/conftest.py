"""The stack of seed 002 as its users have it: variables, no settings file."""

from __future__ import annotations

import io
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bcn.cli.main import run
from bcn.stack.process import free_port
from tests.support.command import Answer
from tests.support.hive import HiveServer
from tests.support.servers import ACCESS_KEY, SECRET_KEY, S3Server
from tests.support.spark import add_catalog
from tests.support.stacks import s3_for_spark

_numbers = itertools.count(1)


@dataclass
class Seed:
    """Servers, buckets and variables; an empty folder to work in."""

    spark: Any
    server: S3Server
    hive: HiveServer
    catalog: str  # as Spark calls it
    variables: dict[str, str]
    folder: Path

    @property
    def warehouse(self) -> str:
        return self.variables["WAREHOUSE_BUCKET"]

    @property
    def backups(self) -> str:
        return self.variables["BACKUP_BUCKET"]

    # Spark

    def sql(self, statement: str) -> list[Any]:
        return list(self.spark.sql(statement).collect())

    def name(self, table: str) -> str:
        return f"{self.catalog}.default.{table}"

    def make_table(self, table: str) -> None:
        """The table of the seed's own test, with rows."""
        self.sql(
            f"CREATE TABLE {self.name(table)} (id INT, name STRING) USING iceberg"
            f" LOCATION 's3://{self.warehouse}/default/{table}'"
        )
        self.sql(f"INSERT INTO {self.name(table)} VALUES (1, 'Alice'), (2, 'Bob')")

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        return sorted(tuple(row) for row in self.sql(f"SELECT * FROM {self.name(table)}"))

    def destroy(self, table: str) -> None:
        """Out of the metastore, and every object of it."""
        with self.hive.client() as client:
            client.drop_table("default", table, False)
        client = self.server.client()
        for key in self.keys(self.warehouse, f"default/{table}/"):
            client.delete_object(Bucket=self.warehouse, Key=key)

    def keys(self, bucket: str, prefix: str = "") -> list[str]:
        listed = self.server.client().get_paginator("list_objects_v2")
        pages = listed.paginate(Bucket=bucket, Prefix=prefix)
        return [item["Key"] for page in pages for item in page.get("Contents", ())]

    # the command

    def bcn(self, *arguments: str) -> Answer:
        """In this process, on its Spark session."""
        out, err, started = io.StringIO(), io.StringIO(), time.monotonic()
        with redirect_stdout(out), redirect_stderr(err):
            code = run([*arguments, "--json", "--quiet"])
        report = json.loads(out.getvalue()) if out.getvalue().strip() else None
        return Answer(code, report, err.getvalue(), time.monotonic() - started)

    def done(self, *arguments: str) -> dict[str, Any]:
        answer = self.bcn(*arguments)
        assert answer.code == 0, answer.stderr
        return dict(answer.report)

    def process(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """As a user types it."""
        return subprocess.run(
            [sys.executable, "-m", "bcn", *arguments],
            cwd=self.folder,
            env=dict(os.environ),
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )

    def backup(self, table: str) -> dict[str, Any]:
        return self.done(*backup_of(table))

    def restore(self, table: str, *more: str) -> dict[str, Any]:
        return self.done(*restore_to(self.warehouse, table), *more)


def backup_of(table: str) -> tuple[str, ...]:
    return ("backup", "--catalog", "hive_catalog", "--database", "default", "--table", table)


def restore_to(bucket: str, table: str) -> tuple[str, ...]:
    place = f"s3://{bucket}/default/{table}"
    names = ("--target-database", "default", "--target-table", table)
    return ("restore", *names, "--target-location", place)


@pytest.fixture
def seed(
    spark: Any,
    hive_s3: HiveServer,
    minio: S3Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Seed]:
    hive_s3.empty()
    variables = {
        "S3_ENDPOINT": minio.endpoint,
        "S3_ACCESS_KEY": ACCESS_KEY,
        "S3_SECRET_KEY": SECRET_KEY,
        "HIVE_METASTORE_URI": hive_s3.uri,
        "BACKUP_BUCKET": minio.make_bucket(),
        "WAREHOUSE_BUCKET": minio.make_bucket(),
    }
    for name in [name for name in os.environ if name.startswith(("BCN_", "AWS_", "PYICEBERG_"))]:
        monkeypatch.delenv(name)
    for name, value in {**variables, "HOME": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    warehouse = f"s3://{variables['WAREHOUSE_BUCKET']}"
    catalog = f"seed002_{next(_numbers)}"
    properties = {"type": "hive", "uri": hive_s3.uri, "warehouse": warehouse}
    add_catalog(spark, catalog, {**properties, **s3_for_spark(minio)})
    yield Seed(spark, minio, hive_s3, catalog, variables, tmp_path)
    assert list(tmp_path.rglob("bcn.toml")) == []


@pytest.fixture
def nobody() -> str:
    """An address that nobody listens on."""
    return f"127.0.0.1:{free_port()}"
