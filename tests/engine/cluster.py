"""A standalone Spark cluster of real processes, started from PySpark's own scripts."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Cluster:
    """A master and its workers, each one process with one core."""

    folder: Path
    port: int = field(default_factory=free_port)
    web_port: int = field(default_factory=free_port)
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def master(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    def start(self, workers: int) -> None:
        host = ("--host", "127.0.0.1")
        ports = ("--port", str(self.port), "--webui-port", str(self.web_port))
        self._spawn("master.Master", *host, *ports)
        for number in range(workers):
            place = ("--work-dir", str(self.folder / f"worker-{number}"), "--webui-port", "0")
            size = ("--cores", "1", "--memory", "600m")
            self._spawn("worker.Worker", *host, *size, *place, self.master)
        self._wait_for(workers)

    def _spawn(self, name: str, *arguments: str) -> None:
        import pyspark  # noqa: PLC0415  only where a cluster is asked for

        home = Path(pyspark.__file__).parent
        environment = {
            **os.environ,
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_DIRS": str(self.folder / "local"),
        }
        with (self.folder / f"{len(self.processes)}.log").open("wb") as log:
            process = subprocess.Popen(
                [home / "bin" / "spark-class", f"org.apache.spark.deploy.{name}", *arguments],
                env=environment,
                stdout=log,
                stderr=log,
            )
        self.processes.append(process)

    def _wait_for(self, workers: int) -> None:
        deadline = time.monotonic() + 90
        while self._alive_workers() != workers:
            assert time.monotonic() < deadline, "the cluster did not start"
            time.sleep(0.3)

    def _alive_workers(self) -> int:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.web_port}/json/") as answer:
                return int(json.load(answer)["aliveworkers"])
        except OSError:
            return 0

    def kill_worker(self) -> None:
        """Kills the newest worker, as a machine that loses power would end."""
        self.processes[-1].send_signal(signal.SIGKILL)

    def stop(self) -> None:
        for process in reversed(self.processes):
            process.kill()
            process.wait()


@contextmanager
def open_cluster(folder: Path, workers: int) -> Iterator[Cluster]:
    cluster = Cluster(folder)
    try:
        cluster.start(workers)
        yield cluster
    finally:
        cluster.stop()
