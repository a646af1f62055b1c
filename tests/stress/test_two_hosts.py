"""Two hosts, each in a network of its own, with one repository on MinIO: one of them writes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from bcn.repository.repository import open_repository
from bcn.storage.protocol import StorageSpec
from tests.support.command import answer_of, open_desk, started
from tests.support.hosts import Host, open_hosts
from tests.support.proxy import open_proxy
from tests.support.servers import S3Server
from tests.support.toml import write_settings

pytestmark = pytest.mark.spark


@dataclass(frozen=True)
class Seat:
    """Where one host's bcn runs: its settings name MinIO as that host reaches it."""

    host: Host
    folder: Path

    def start(self, *words: str) -> subprocess.Popen[str]:
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("BCN_", "AWS_"))}
        return subprocess.Popen(
            [*self.host.command, sys.executable, "-m", "bcn", *words, "--json"],
            cwd=self.folder,
            env={**clean, "SPARK_LOCAL_IP": "127.0.0.1"},  # nobody knows the host's name
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )


@pytest.fixture
def seats(minio: S3Server, tmp_path: Path) -> Iterator[list[Seat]]:
    desk = open_desk(tmp_path / "desk")
    desk.add_table("large", snapshots=1, files=24, file_bytes=1 << 20)
    repository = f"s3://{minio.make_bucket()}/repository"
    catalog = {
        "type": "sql",
        "uri": f"sqlite:///{desk.root}/prod.db",
        "warehouse": f"{desk.root}/warehouse",
    }
    with open_hosts(2) as hosts, ExitStack() as stack:
        found = []
        for host in hosts:
            proxy = stack.enter_context(open_proxy(minio.server.address, host=host.gateway))
            properties = {**minio.properties, "s3.endpoint": proxy.endpoint}
            place = {"location": repository, **properties}
            folder = tmp_path / host.name
            folder.mkdir()
            sections = {"catalogs.prod": catalog, "repositories.nightly": place}
            write_settings(folder / "bcn.toml", sections)
            found.append(Seat(host, folder))
        yield found


def test_one_host_wins_the_other_exits_11_and_one_that_waits_goes_next(
    seats: list[Seat], minio: S3Server
) -> None:
    line = ("backup", "--catalog", "prod", "--limit-rate", "2M")
    with started(seat.start(*line) for seat in seats) as processes:
        end = time.monotonic() + 90
        while all(process.poll() is None for process in processes) and time.monotonic() < end:
            time.sleep(0.05)
        ended = [process.poll() is not None for process in processes]
        assert sorted(ended) == [False, True], "one was locked out while the other still worked"
        loser, winner = ended.index(True), ended.index(False)
        refused = answer_of(processes[loser])
        assert (refused.code, refused.error) == (11, "RepositoryLockedError"), refused
        assert f"@{seats[winner].host.name} " in refused.message
        assert "--lock-wait" in refused.hint
        assert processes[winner].poll() is None
        with started([seats[loser].start(*line, "--lock-wait", "2m")]) as (patient,):
            won, waited = answer_of(processes[winner]), answer_of(patient)
    assert (won.code, waited.code) == (0, 0), (won, waited)
    assert waited.report["parent_pit"] == won.report["pit"]
    assert won.report["files_copied"] > 24
    assert waited.report["files_copied"] == 0
    location = (seats[0].folder / "bcn.toml").read_text().partition('"location" = "')[2]
    spec = StorageSpec(location.partition('"')[0], minio.properties)
    pits = [str(pit) for pit in open_repository(spec).pit_ids()]
    assert pits == [won.report["pit"], waited.report["pit"]]
