"""The list of seed 002: workflow, schema, several backups, and what is not there."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.seed002.conftest import Seed, backup_of, restore_to
from tests.support.servers import SECRET_KEY

pytestmark = pytest.mark.spark

_COLUMNS = """
    id BIGINT NOT NULL COMMENT 'the id', flag BOOLEAN, small INT, ratio FLOAT, exact DOUBLE,
    price DECIMAL(18, 4), day DATE, at TIMESTAMP, wall TIMESTAMP_NTZ, word STRING, raw BINARY,
    tags ARRAY<STRING>, counts MAP<STRING, INT>, place STRUCT<city: STRING, zip: INT>
"""


def document_of(seed: Seed, table: str) -> dict[str, Any]:
    """The table's metadata, where the metastore says that it is."""
    with seed.hive.client() as client:
        location = client.get_table("default", table).parameters["metadata_location"]
    bucket, _, key = location.removeprefix("s3://").partition("/")
    return dict(json.loads(seed.server.client().get_object(Bucket=bucket, Key=key)["Body"].read()))


def test_complete_backup_restore_workflow(seed: Seed) -> None:
    """As the seed has it, each command a process: table, backup, restore, the same rows."""
    seed.make_table("my_table")
    rows = seed.rows("my_table")
    assert rows == [(1, "Alice"), (2, "Bob")]
    first = seed.process(*backup_of("my_table"))
    assert first.returncode == 0, first.stderr
    seed.destroy("my_table")
    second = seed.process(*restore_to(seed.warehouse, "my_table_restored"))
    assert second.returncode == 0, second.stderr
    assert SECRET_KEY not in first.stdout + first.stderr + second.stdout + second.stderr
    assert seed.rows("my_table_restored") == rows
    seed.sql(f"INSERT INTO {seed.name('my_table_restored')} VALUES (3, 'Carol')")
    assert seed.rows("my_table_restored") == [*rows, (3, "Carol")]
    assert seed.keys(seed.warehouse, "default/my_table/") == []


def test_what_is_stored_needs_nothing_of_the_source(seed: Seed) -> None:
    """Paths are kept without the table's location; data files are kept, not only named."""
    seed.make_table("orders")
    seed.backup("orders")
    files = seed.keys(seed.warehouse, "default/orders/data/")
    stored = seed.keys(seed.backups, "bcn/data/")
    assert len(files) == 2
    for file in files:
        relative = file.removeprefix("default/orders/")
        assert [key for key in stored if key.endswith(f"/{relative}")] != []


def test_schema_is_preserved(seed: Seed) -> None:
    source = seed.name("wide")
    seed.sql(
        f"CREATE TABLE {source} ({_COLUMNS}) USING iceberg PARTITIONED BY (days(at), bucket(4, id))"
        f" LOCATION 's3://{seed.warehouse}/default/wide' TBLPROPERTIES ('team' = 'sales')"
    )
    seed.sql(f"ALTER TABLE {source} WRITE ORDERED BY id DESC")
    seed.sql(f"ALTER TABLE {source} SET IDENTIFIER FIELDS id")
    seed.sql(
        f"INSERT INTO {source} (id, at, word) VALUES (1, TIMESTAMP '2026-01-01 10:00:00', 'a')"
    )
    seed.sql(f"ALTER TABLE {source} RENAME COLUMN word TO text")
    seed.sql(f"ALTER TABLE {source} ADD COLUMN late STRING")
    described, rows = seed.sql(f"DESCRIBE {source}"), seed.rows("wide")
    before = document_of(seed, "wide")
    seed.backup("wide")
    seed.destroy("wide")
    seed.restore("wide_restored")
    assert seed.sql(f"DESCRIBE {seed.name('wide_restored')}") == described
    after = document_of(seed, "wide_restored")
    for key in ("schemas", "current-schema-id", "partition-specs", "sort-orders", "properties"):
        assert after[key] == before[key]
    assert len(after["schemas"]) > 2
    assert seed.rows("wide_restored") == rows


def test_several_backups(seed: Seed) -> None:
    seed.make_table("growing")
    expected = {}
    for number in range(3):
        seed.sql(f"INSERT INTO {seed.name('growing')} VALUES ({10 + number}, 'more')")
        expected[seed.backup("growing")["pit"]] = seed.rows("growing")
    assert [item["pit"] for item in seed.done("list")["pits"]] == list(expected)
    seed.destroy("growing")
    for number, (pit, rows) in enumerate(expected.items()):
        seed.restore(f"back_{number}", "--pit", pit)
        assert len(rows) == 3 + number
        assert seed.rows(f"back_{number}") == rows


def test_a_table_that_is_not_there(seed: Seed) -> None:
    answer = seed.bcn(*backup_of("nothing"))
    assert (answer.code, answer.error) == (14, "NoSuchTableError")
    assert "nothing" in answer.message
    assert answer.hint
    missing = ("backup", "--catalog", "hive_catalog", "--database", "nowhere", "--table", "t")
    assert seed.bcn(*missing).code == 14
    assert not [key for key in seed.keys(seed.backups) if "pit_manifests" in key]


def test_a_backup_that_is_not_there(seed: Seed) -> None:
    first = seed.bcn(*restore_to(seed.warehouse, "back"))
    assert (first.code, first.error) == (10, "NoRepositoryError")
    seed.make_table("known")
    seed.backup("known")
    second = seed.bcn(*restore_to(seed.warehouse, "back"), "--pit", "20200101T000000.000000Z")
    assert (second.code, second.error) == (2, "UnknownPitError")
    assert second.hint
    third = seed.bcn(*restore_to(seed.warehouse, "known"))
    assert (third.code, third.error) == (16, "TargetExistsError")
    assert seed.keys(seed.warehouse, "default/back/") == []
    assert seed.rows("known") == [(1, "Alice"), (2, "Bob")]


@pytest.mark.parametrize(
    ("variable", "scheme", "code"),
    [("HIVE_METASTORE_URI", "thrift", 14), ("S3_ENDPOINT", "http", 15)],
)
def test_a_service_that_is_not_there(
    seed: Seed,
    nobody: str,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    scheme: str,
    code: int,
) -> None:
    monkeypatch.setenv(variable, f"{scheme}://{nobody}")
    answer = seed.bcn(*backup_of("t"))
    assert answer.code == code
    assert nobody in answer.message + answer.hint
    assert answer.seconds < 15
    assert SECRET_KEY not in answer.stderr
