"""A server that ignores conditions: told once, looked at before and after, leases by claims."""

from __future__ import annotations

import threading
import time
import uuid
from pathlib import Path

import pytest

from bcn.errors import KeyExistsError
from bcn.repository.repository import Scope
from bcn.storage import claim
from bcn.storage.cloud_stream import PART_BYTES
from bcn.storage.open import open_storage
from bcn.storage.protocol import CHUNK_BYTES, Storage, StorageSpec
from tests.support.lease_race import race_for_lease
from tests.support.s3 import CloudProduct, add_twins, differences, mirrored, sql_catalog
from tests.support.servers import S3Server
from tests.support.small import InProcess


@pytest.fixture(scope="module")
def bucket(rclone: S3Server) -> str:
    return rclone.make_bucket()


@pytest.fixture
def spec(rclone: S3Server, bucket: str) -> StorageSpec:
    return StorageSpec(f"s3://{bucket}/{uuid.uuid4()}", rclone.properties)


@pytest.fixture
def storage(spec: StorageSpec) -> Storage:
    return open_storage(spec)


def test_it_is_found_out_and_said(storage: Storage, minio: S3Server) -> None:
    (line,) = storage.caveats()
    assert "no conditional writes" in line
    assert list(storage.iter_keys("")) == []
    assert list(storage.iter_leftovers("")) == []
    heeding = open_storage(StorageSpec(f"s3://{minio.make_bucket()}/x", minio.properties))
    assert heeding.caveats() == ()


def test_a_taken_key_keeps_its_bytes(storage: Storage) -> None:
    storage.write_once("folder/key", b"first")
    with pytest.raises(KeyExistsError):
        storage.write_once("folder/key", b"second")
    with pytest.raises(KeyExistsError):
        storage.claim("folder/key", b"third")
    with storage.open_writer("folder/key") as writer:
        writer.write(b"x" * 3 * PART_BYTES)
        with pytest.raises(KeyExistsError):
            writer.commit()
    assert storage.read("folder/key") == b"first"


def test_large_objects_go_there_and_back_without_ranges(storage: Storage) -> None:
    data = b"".join(bytes([number]) * CHUNK_BYTES for number in range(6)) + b"end"
    with storage.open_writer("large") as writer:
        writer.write(data)
        writer.commit()
    found, buffer = bytearray(), memoryview(bytearray(CHUNK_BYTES))
    with storage.open_reader("large") as reader:
        while count := reader.readinto(buffer):
            found += buffer[:count]
    assert found == data


def test_of_many_who_claim_one_wins(spec: StorageSpec) -> None:
    wins: list[int] = []
    barrier = threading.Barrier(5)

    def race(number: int) -> None:
        storage = open_storage(spec)
        barrier.wait(timeout=30)
        try:
            storage.claim("folder/prize", b"%d" % number)
        except KeyExistsError:
            return
        wins.append(number)

    threads = [threading.Thread(target=race, args=(number,)) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (winner,) = wins
    storage = open_storage(spec)
    assert storage.read("folder/prize") == b"%d" % winner
    assert list(storage.iter_keys("")) == ["folder/prize"]
    assert list(storage.iter_leftovers("")) == []


def test_the_claim_of_a_process_that_died_does_not_last(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim, "SETTLE_SECONDS", 0.3)
    monkeypatch.setattr(claim, "_STALE_SECONDS", 1.0)
    monkeypatch.setattr(claim.secrets, "token_hex", lambda _: "0")  # lower than any other

    def die(_: float) -> None:
        raise InterruptedError

    bucket = storage.bucket  # type: ignore[attr-defined]
    with monkeypatch.context() as patch:
        patch.setattr(claim.time, "sleep", die)
        patch.setattr(bucket, "delete", lambda _: None)  # killed: nothing is cleaned up
        with pytest.raises(InterruptedError):
            storage.claim("key", b"dead")
    assert len(list(storage.iter_leftovers(""))) == 1
    monkeypatch.undo()
    monkeypatch.setattr(claim, "SETTLE_SECONDS", 0.3)
    with pytest.raises(KeyExistsError):
        storage.claim("key", b"alive")  # it could be alive
    monkeypatch.setattr(claim, "_STALE_SECONDS", 0.2)
    time.sleep(1.0)
    storage.claim("key", b"alive")
    assert storage.read("key") == b"alive"


def test_of_processes_that_race_for_the_lease_one_wins(spec: StorageSpec) -> None:
    codes = race_for_lease(spec, 3)
    assert sorted(codes) == [0, 11, 11]
    found = [key for key in open_storage(spec).iter_keys("") if key.startswith("pit-")]
    assert found == [f"pit-{codes.index(0)}"]


def test_tables_come_back(rclone: S3Server, spec: StorageSpec, tmp_path: Path) -> None:
    with mirrored(rclone, tmp_path / "mirror") as warehouse:
        place = f"{warehouse.location}/warehouse"
        catalogs = {
            name: sql_catalog(name, tmp_path / f"{name}.db", root, rclone.properties)
            for name, root in (("source", place), ("target", f"{warehouse.location}/restored"))
        }
        product = CloudProduct(Path(), catalogs, InProcess(), spec)
        tables = add_twins(product, "source", place)
        warehouse.upload()
        product.backup(Scope("source"))
        warehouse.empty()
        report = product.restore(target_catalog="target")
        warehouse.download()
        assert differences(tables, report) == []
