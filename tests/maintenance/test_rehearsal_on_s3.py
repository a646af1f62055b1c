"""Level 5 of a repository in a bucket: the same readings as on a disk, the same damage told."""

from __future__ import annotations

from pathlib import Path

import pytest

from bcn.engine.spark import Engine, SparkSettings
from bcn.maintenance.report import VerifyReport
from bcn.maintenance.verify import VerifyRequest, run_verify
from bcn.storage.open import open_storage
from bcn.storage.protocol import StorageSpec
from tests.maintenance.made import MOMENT, Made
from tests.support.servers import SECRET_KEY, S3Server

pytestmark = pytest.mark.spark


def verify(spec: StorageSpec, made: Made, scratch: Path) -> VerifyReport:
    engine = Engine(SparkSettings(master="local[2]", iceberg=True))
    request = VerifyRequest(spec, level=5, pit=made.second, scratch=str(scratch))
    return run_verify(request, engine, lambda: MOMENT)


def test_a_repository_in_a_bucket_is_restored_and_read(
    made: Made, minio: S3Server, tmp_path: Path
) -> None:
    spec = StorageSpec(f"s3://{minio.make_bucket()}/repository", minio.properties)
    storage = open_storage(spec)
    for path in made.location.rglob("*"):
        if path.is_file():
            storage.write_once(str(path.relative_to(made.location)), path.read_bytes())
    here = made.verify(5, pit=made.second)
    there = verify(spec, made, tmp_path)
    assert here.findings == there.findings == ()
    assert there.readings == here.readings
    assert {item.object for item in there.readings} == {"sales.orders", "sales.flat"}
    assert all(len(item.rows) == 2 for item in there.readings)
    assert SECRET_KEY not in repr(there)
    assert list(tmp_path.iterdir()) == []

    key = made.keys("data", "sales.flat")[0]
    data = bytearray(storage.read(key))
    data[20] ^= 1
    storage.replace(key, bytes(data))
    report = verify(spec, made, tmp_path)
    assert {(f.level, f.object) for f in report.findings} == {(3, "sales.flat"), (5, "sales.flat")}
    assert {item.object for item in report.readings} == {"sales.orders"}
