"""Tables and repositories in buckets: there and back, with the source gone."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bcn.backup.run import BackupRequest, run_backup
from bcn.engine.spark import Engine, SparkSettings
from bcn.errors import RepositoryLockedError, TargetExistsError
from bcn.model import TableId
from bcn.repository.repository import Scope, create_repository, open_repository
from bcn.restore.plan import RestoreRequest
from bcn.restore.report import RestoreReport
from bcn.restore.run import run_restore
from bcn.storage.open import open_storage
from bcn.storage.protocol import StorageSpec
from tests.support.lease_race import race_for_lease
from tests.support.s3 import (
    CloudProduct,
    Mirrored,
    add_twins,
    differences,
    mirrored,
    sql_catalog,
)
from tests.support.servers import SECRET_KEY, S3Server
from tests.support.small import AtPhase, InProcess

SCOPE = Scope("source")


@pytest.fixture
def warehouse(minio: S3Server, tmp_path: Path) -> Iterator[Mirrored]:
    with mirrored(minio, tmp_path / "mirror") as place:
        yield place


@pytest.fixture
def bucket(minio: S3Server) -> StorageSpec:
    """Where the repository is."""
    return StorageSpec(f"s3://{minio.make_bucket()}/backups/repository", minio.properties)


def _product(
    tmp_path: Path, source: str, target: str, repository: StorageSpec, server: S3Server
) -> CloudProduct:
    catalogs = {
        name: sql_catalog(name, tmp_path / f"{name}.db", place, server.properties)
        for name, place in (("source", source), ("target", target))
    }
    return CloudProduct(Path(), catalogs, InProcess(), repository)


def test_tables_come_back_from_another_bucket(
    warehouse: Mirrored, bucket: StorageSpec, minio: S3Server, tmp_path: Path
) -> None:
    place = f"{warehouse.location}/warehouse"
    product = _product(tmp_path, place, f"{warehouse.location}/restored", bucket, minio)
    tables = add_twins(product, "source", place)
    warehouse.upload()
    first, second = product.backup(SCOPE), product.backup()
    assert first.files_copied > 10
    assert second.files_copied == 0
    warehouse.empty()
    report = product.restore(target_catalog="target")
    assert {table.table for table in report.tables} == {
        TableId(("db",), "two"),
        TableId(("db",), "three"),
    }
    warehouse.download()
    assert differences(tables, report) == []
    keys = warehouse.keys()
    assert all(key.startswith("restored/db/") for key in keys)
    assert not any("bcn-restore" in key or "bcn-tmp" in key for key in keys)


@pytest.mark.parametrize("phase", ["copying", "rewriting manifest lists", "registering"])
def test_of_two_restores_to_one_bucket_one_is_told_that_the_other_was_quicker(
    warehouse: Mirrored, bucket: StorageSpec, minio: S3Server, tmp_path: Path, phase: str
) -> None:
    local = str(tmp_path / "local")
    product = _product(tmp_path, local, f"{warehouse.location}/restored", bucket, minio)
    tables = add_twins(product, "source", local)
    pit = product.backup(SCOPE).pit
    won: list[RestoreReport] = []
    other = AtPhase(phase, lambda: won.append(product.restore(target_catalog="target")))
    request = RestoreRequest(product.spec, pit, target_catalog="target")
    with pytest.raises(TargetExistsError, match="another restore was quicker"):
        run_restore(request, product.open, product.engine, other)
    warehouse.download()
    assert differences(tables, won[0]) == []
    keys = warehouse.keys()
    assert not any("bcn-restore" in key for key in keys)


def test_a_local_table_goes_to_a_bucket_and_back(
    warehouse: Mirrored, bucket: StorageSpec, minio: S3Server, tmp_path: Path
) -> None:
    local = str(tmp_path / "local")
    product = _product(tmp_path, local, f"{warehouse.location}/restored", bucket, minio)
    tables = add_twins(product, "source", local)
    product.backup(SCOPE)
    (tmp_path / "local").rename(tmp_path / "away")
    up = product.restore(target_catalog="target")
    warehouse.download()
    (tmp_path / "away").rename(tmp_path / "local")
    assert differences(tables, up) == []
    places = [table.metadata_location for table in up.tables]
    assert all(place.startswith(f"{warehouse.location}/restored/db/") for place in places)

    back = StorageSpec(str(tmp_path / "repository"))
    product = _product(tmp_path, local, str(tmp_path / "again"), back, minio)
    product.catalogs = {
        "source": sql_catalog("target", tmp_path / "target.db", "s3://x", minio.properties),
        "target": sql_catalog("target", tmp_path / "again.db", str(tmp_path / "again"), {}),
    }
    product.backup(Scope("source"))
    warehouse.empty()
    down = product.restore(target_catalog="target")
    sources = {table.table.name: table.metadata_location for table in up.tables}
    assert differences(sources, down) == []


def test_no_secret_is_stored(
    warehouse: Mirrored, bucket: StorageSpec, minio: S3Server, tmp_path: Path
) -> None:
    place = f"{warehouse.location}/warehouse"
    product = _product(tmp_path, place, place, bucket, minio)
    add_twins(product, "source", place)
    warehouse.upload()
    product.backup(SCOPE)
    storage = open_storage(bucket)
    keys = list(storage.iter_keys(""))
    assert len(keys) > 20
    assert not [key for key in keys if SECRET_KEY.encode() in storage.read(key)]
    assert SECRET_KEY not in repr((product.spec, product.open("source").access, product.catalogs))


def test_a_second_writer_is_locked_out_while_the_first_works(
    warehouse: Mirrored, bucket: StorageSpec, minio: S3Server, tmp_path: Path
) -> None:
    place = f"{warehouse.location}/warehouse"
    product = _product(tmp_path, place, place, bucket, minio)
    add_twins(product, "source", place)
    warehouse.upload()
    create_repository(bucket, None, datetime.now(UTC))
    refused: list[int] = []

    def intrude() -> None:
        with pytest.raises(RepositoryLockedError) as caught:
            product.backup(SCOPE)
        refused.append(caught.value.exit_code)

    request = BackupRequest(bucket, SCOPE)
    now = partial(datetime.now, UTC)
    run_backup(request, product.open, product.engine, now, AtPhase("copying", intrude))
    assert refused == [11]
    assert len(open_repository(bucket).pit_ids()) == 1


def test_of_processes_that_race_for_the_lease_one_wins(bucket: StorageSpec) -> None:
    codes = race_for_lease(bucket, 3)
    assert sorted(codes) == [0, 11, 11]
    found = [key for key in open_storage(bucket).iter_keys("") if key.startswith("pit-")]
    assert found == [f"pit-{codes.index(0)}"]


def _spark_settings(spark: Any) -> dict[str, str]:
    context = dict(spark.sparkContext.getConf().getAll())
    session = {row["key"]: row["value"] for row in spark.sql("SET").collect()}
    return {**context, **session, **dict(spark.sparkContext._conf.getAll())}


@pytest.mark.spark
def test_executors_get_credentials_in_their_tasks_and_spark_has_none(
    warehouse: Mirrored, bucket: StorageSpec, minio: S3Server, tmp_path: Path, spark: Any
) -> None:
    place = f"{warehouse.location}/warehouse"
    product = _product(tmp_path, place, f"{warehouse.location}/restored", bucket, minio)
    product.engine = Engine(SparkSettings(master="local[2]"))
    tables = add_twins(product, "source", place)
    warehouse.upload()
    before = _spark_settings(spark)
    backup = product.backup(SCOPE)
    assert backup.files_copied > 10
    warehouse.empty()
    report = product.restore(target_catalog="target")
    warehouse.download()
    assert differences(tables, report) == []
    # What executors asked of the store is counted too: they did all the copying.
    assert min(backup.requests["get"], backup.requests["put"]) >= backup.files_copied
    assert min(report.requests["get"], report.requests["put"]) >= report.files_copied
    after = _spark_settings(spark)
    assert after == before
    own = {key for key in after if not key.startswith("spark.sql.catalog.")}  # others are tests'
    assert not [key for key in own if SECRET_KEY in after[key]]
