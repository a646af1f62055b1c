"""Vaults whose tables and repositories are in buckets: the local stack and the one of AWS."""

from __future__ import annotations

import io
import itertools
import json
import time
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bcn.catalog.protocol import CatalogSettings
from bcn.cli.main import run
from bcn.model import TableId, sha256
from tests.support.command import Answer
from tests.support.compare import referenced_files, spark_rows
from tests.support.compare.rows import Rows
from tests.support.servers import S3Server
from tests.support.stacks import Stack, add_to_spark

Json = dict[str, Any]
ORDERS = TableId(("sales",), "orders")
PEOPLE = TableId(("sales",), "people")
TABLE = ("--catalog", "prod", "--database", "sales", "--table", "orders")
_numbers = itertools.count(1)
_COLUMNS = (
    "id BIGINT NOT NULL COMMENT 'the id', name STRING, price DECIMAL(9,2), at TIMESTAMP,"
    " tags ARRAY<STRING>, more MAP<STRING, INT>, s STRUCT<x: INT, y: DATE>"
)
_VALUES = (
    "id, concat('n', id), CAST(id AS DECIMAL(9,2)), TIMESTAMP '2026-01-01 00:00:00', array('a'),"
    " map('k', 1), named_struct('x', 1, 'y', DATE '2026-01-01')"
)


def next_prefix() -> str:
    """For catalogs' names, which Spark keeps for the whole session."""
    return f"cloud{next(_numbers)}_"


@dataclass
class CloudVault:
    """A repository in a bucket; `prod` is the source, `dr` where to restore to."""

    spark: Any
    folder: Path
    source: Stack
    target: Stack
    server: S3Server
    bucket: str

    # the source

    def make_table(self, table: TableId = ORDERS, version: int = 2) -> None:
        """Two snapshots, of which the second deletes by a delete file, and a tag on the first."""
        name = self.source.spark_name(table)
        self.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS `{self.source.catalog}`.sales")
        self.spark.sql(
            f"CREATE TABLE {name} ({_COLUMNS}) USING iceberg COMMENT 'Orders' TBLPROPERTIES"
            f" ('format-version' = '{version}', 'write.delete.mode' = 'merge-on-read')"
        )
        self.add_rows(table, 0, 6)
        self.spark.sql(f"ALTER TABLE {name} CREATE TAG month_end")
        self.spark.sql(f"DELETE FROM {name} WHERE id = 2")

    def add_rows(self, table: TableId, first: int, count: int) -> None:
        name = self.source.spark_name(table)
        rows = f"SELECT {_VALUES} FROM range({first}, {first + count}, 1, 1)"
        self.spark.sql(f"INSERT INTO {name} {rows}")

    def rows(self, stack: Stack, table: TableId = ORDERS) -> Rows:
        return spark_rows(self.spark, stack.spark_name(table))

    def ids(self, stack: Stack, table: TableId = ORDERS) -> list[int]:
        found = self.spark.sql(f"SELECT id FROM {stack.spark_name(table)}").collect()
        return sorted(row.id for row in found)

    def source_digests(self, metadata_location: str) -> set[str]:
        """SHA-256 of every file that a table of the source needs."""
        copy = self.folder / f"copy{next(_numbers)}"
        self.source.copy_to(copy)
        files = referenced_files(metadata_location, self.source.resolve_in(copy))
        return {sha256(file.read_bytes()) for file in files}

    # the command

    def bcn(self, *arguments: str) -> Answer:
        """Run a command: its exit code, its JSON and what it told people."""
        out, err, started = io.StringIO(), io.StringIO(), time.monotonic()
        config = ["--config", str(self.folder / "bcn.toml")]
        config += [] if "--repo" in arguments else ["--repo", "main"]
        with redirect_stdout(out), redirect_stderr(err):
            code = run([*arguments, *config, "--json", "--quiet"])
        report = json.loads(out.getvalue()) if out.getvalue().strip() else None
        return Answer(code, report, err.getvalue(), time.monotonic() - started)

    def done(self, *arguments: str) -> Json:
        """The report of a command that must succeed."""
        answer = self.bcn(*arguments)
        assert answer.code == 0, answer.stderr
        return dict(answer.report)

    def restore(self, *arguments: str) -> Json:
        return self.done("restore", "--target-catalog", "dr", *arguments)

    # what is stored

    def stored(self, under: str = "") -> dict[str, str]:
        """SHA-256 of all objects of the repository, by their keys."""
        client = self.server.client()
        pages = client.get_paginator("list_objects_v2").paginate(
            Bucket=self.bucket, Prefix=f"backups/{under}"
        )
        keys = [item["Key"] for page in pages for item in page.get("Contents", ())]
        return {
            key.removeprefix("backups/"): sha256(
                client.get_object(Bucket=self.bucket, Key=key)["Body"].read()
            )
            for key in keys
        }

    def document(self, key: str) -> Json:
        found = self.server.client().get_object(Bucket=self.bucket, Key=f"backups/{key}")
        return dict(json.loads(found["Body"].read()))


def open_cloud_vault(
    spark: Any,
    folder: Path,
    stacks: tuple[Stack, Stack],
    server: S3Server,
    properties: Mapping[str, str],
) -> CloudVault:
    """A vault with an empty bucket; `properties` open it."""
    source, target = stacks
    for stack in {stack.catalog: stack for stack in stacks}.values():
        add_to_spark(spark, stack)
    bucket = server.make_bucket()
    text = _section("catalogs.prod", _properties(source.settings))
    text += _section("catalogs.dr", _properties(target.settings))
    for name, place in (("main", "backups"), ("back", "back")):
        repository = {"location": f"s3://{bucket}/{place}", **properties}
        text += _section(f"repositories.{name}", repository)
    (folder / "bcn.toml").write_text(f'{text}[spark]\nmaster = "local[2]"\n')
    return CloudVault(spark, folder, source, target, server, bucket)


def _properties(settings: CatalogSettings) -> dict[str, str]:
    return {"type": settings.type, "name": settings.name, **settings.properties}


def _section(name: str, properties: Mapping[str, str]) -> str:
    lines = (f"{json.dumps(key)} = {json.dumps(value)}" for key, value in properties.items())
    return "\n".join((f"[{name}]", *lines, ""))
