"""Whole backups and restores on S3 servers that are busy, killed halfway, or simple-minded."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from bcn.stack.minio import start_minio
from bcn.stack.process import free_port
from tests.stress.lakes import Lake, Restarts, Told, open_lake
from tests.support.proxy import SLOW_DOWN, Proxy, Refuse, Request, open_proxy
from tests.support.s3 import mirrored
from tests.support.servers import ACCESS_KEY, SECRET_KEY, S3Server, server_folder

pytestmark = pytest.mark.server


def through(server: S3Server, proxy: Proxy) -> dict[str, str]:
    return {**server.properties, "s3.endpoint": proxy.endpoint}


@pytest.mark.parametrize("name", ["minio", "seaweed"])
def test_every_tenth_request_is_asked_to_slow_down(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    server: S3Server = request.getfixturevalue(name)
    refused: list[Request] = []

    def refuse(asked: Request) -> None:
        if asked.number % 10 == 0:
            refused.append(asked)
            raise Refuse(503, SLOW_DOWN)

    with (
        mirrored(server, tmp_path / "mirror") as bucket,
        open_proxy(server.server.address) as proxy,
    ):
        proxy.rule = refuse
        lake = open_lake(bucket, tmp_path, through(server, proxy))
        backup = lake.backup()
        before = len(refused)
        restore = lake.restore()
        assert backup.failed == ()
        assert lake.differences(restore) == []
        # Not one of them went unnoticed, and each was sent again once.
        assert backup.as_json()["requests"]["retry"] == before > 5
        assert restore.as_json()["requests"]["retry"] == len(refused) - before > 5


# killed halfway


@pytest.fixture
def mortal() -> Iterator[tuple[S3Server, Restarts]]:
    """A MinIO of one's own that can be killed."""
    with server_folder() as folder:
        port = free_port()
        start = lambda: start_minio(folder, ACCESS_KEY, SECRET_KEY, port)  # noqa: E731  twice
        server = start()
        restarts = Restarts(server, start, 1.0)
        yield S3Server(server), restarts
        restarts.stop()


def test_a_server_that_is_killed_while_files_are_copied_is_waited_for(
    mortal: tuple[S3Server, Restarts], tmp_path: Path
) -> None:
    server, restarts = mortal
    lock, moved = threading.Lock(), []

    def count(word: str) -> None:
        def rule(asked: Request) -> None:
            with lock:
                if asked.method == "PUT" and word in asked.path:
                    moved.append(asked.path)
                    if len(moved) == 6:
                        restarts.kill()

        moved.clear()
        proxy.rule = rule

    with (
        mirrored(server, tmp_path / "mirror") as bucket,
        open_proxy(server.server.address) as proxy,
    ):
        lake = open_lake(bucket, tmp_path, through(server, proxy))
        count("/repository/data/")
        backup = lake.backup()
        assert (backup.failed, restarts.count) == ((), 1)
        assert backup.requests["retry"] > 0
        count("/back/db/")
        restore = lake.restore()
        assert restarts.count == 2
        assert restore.requests["retry"] > 0
        assert lake.differences(restore) == []
        assert lake.backup().files_copied == 0


def test_a_store_without_conditional_writes_is_told_once_and_serves(
    rclone: S3Server, tmp_path: Path
) -> None:
    with mirrored(rclone, tmp_path / "mirror") as bucket:
        lake: Lake = open_lake(bucket, tmp_path, rclone.properties)
        for copies in (True, False):
            told = Told()
            assert (lake.backup(told).files_copied > 0) == copies
            warnings = [line for line in told.messages if "no conditional writes" in line]
            assert len(warnings) == 1
        told = Told()
        assert lake.differences(lake.restore(told)) == []
        assert told.messages == []
