"""Full backups between S3 servers and within one, beside rclone and s5cmd on the same objects.

Servers are MinIO, each with its own folder of one disk. s5cmd speaks to one server at a time:
between two it fetches everything to the disk and sends it from there. Every run has a target of its
own; large ones are deleted after each turn, all others are gone with the servers. What MinIO still
deletes then is paid by whoever runs next, and that is bcn. Spark is up, and its workers have just
run a small backup, before each clock of ours starts.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bcn.backup.run import BackupRequest, run_backup
from bcn.catalog.open import open_catalog
from bcn.catalog.protocol import Catalog, CatalogSettings
from bcn.engine.spark import Engine
from bcn.model import TableId
from bcn.repository.repository import Scope
from bcn.stack.minio import start_minio
from bcn.stack.process import Server
from bcn.storage.protocol import StorageSpec
from bench.backup import MANY_FILES, warm, warm_engine
from bench.table import CATALOG, BenchTable, make_table, scratch

TURNS = 5  # in the first one workers still import what S3 needs: of three it would count
BOUND = 0.8
_KEY, _SECRET = "bench-key", "bench-secret"
_SOURCE = "bench-source"
_LEFT_FREE_BYTES = 600 << 20
_PROGRAMS = Path(sys.executable).parent

TABLES = (BenchTable(32, 64_000_000, bucket=_SOURCE), BenchTable(10_000, 100_000, bucket=_SOURCE))
_NAMES = ("2 GB in 64 MB files", "10,000 objects of 100 KB")
_WAYS = {"two": "between two servers", "one": "within one server"}


@dataclass(frozen=True)
class Store:
    """A server, as each program has to be told of it."""

    server: Server

    @property
    def endpoint(self) -> str:
        return f"http://{self.server.address}"

    @property
    def properties(self) -> dict[str, str]:
        return {
            "s3.endpoint": self.endpoint,
            "s3.access-key-id": _KEY,
            "s3.secret-access-key": _SECRET,
            "s3.region": "us-east-1",
        }

    def s5cmd(self, *words: str) -> None:
        environ = {"AWS_ACCESS_KEY_ID": _KEY, "AWS_SECRET_ACCESS_KEY": _SECRET}
        command = [str(_PROGRAMS / "s5cmd"), "--endpoint-url", self.endpoint, "--log", "error"]
        subprocess.run([*command, *words], check=True, env=os.environ | environ)

    def remote(self, path: str) -> str:
        """A place as rclone spells it without a settings file."""
        place = f"provider=Minio,access_key_id={_KEY},secret_access_key={_SECRET}"
        return f":s3,{place},endpoint='{self.endpoint}',region=us-east-1:{path}"


@contextmanager
def _stores() -> Iterator[tuple[Store, Store]]:
    with ExitStack() as stack:
        folder = stack.enter_context(scratch("stores-"))
        stores = []
        for name in ("first", "second"):
            server = start_minio(folder / name, _KEY, _SECRET)
            stack.callback(server.stop)
            stores.append(Store(server))
            stores[-1].s5cmd("mb", "s3://targets")
        stores[0].s5cmd("mb", f"s3://{_SOURCE}")
        yield stores[0], stores[1]


# each one's way


def _catalog(table: BenchTable, store: Store, folder: Path) -> Catalog:
    """A catalog with just that table in it."""
    path = folder / "catalog.db"
    path.unlink(missing_ok=True)
    properties = {"uri": f"sqlite:///{path}", "warehouse": f"s3://{_SOURCE}", **store.properties}
    catalog = open_catalog(CatalogSettings(CATALOG, "sql", properties))
    catalog.create_namespace(("db",), {})
    metadata = table.spell(table.location / "metadata" / "v1.metadata.json")
    catalog.register(TableId(("db",), "t"), metadata)
    return catalog


def _run_bcn(
    engine: Engine, catalog: Catalog, table: BenchTable, target: StorageSpec
) -> dict[str, float]:
    request = BackupRequest(target, Scope(CATALOG))
    started = time.perf_counter()
    report = run_backup(request, lambda _: catalog, engine, lambda: datetime.now(UTC))
    seconds = time.perf_counter() - started
    if report.files_copied < table.files:
        raise RuntimeError(f"only {report.files_copied} of {table.files} files were copied")
    return {"total": seconds, **report.seconds}


def _run_rclone(source: Store, target: Store, name: str) -> float:
    started = time.perf_counter()
    subprocess.run(
        [
            *(str(_PROGRAMS / "rclone"), "copy", "--config", "", "--transfers", "16"),
            *("--checkers", "16", "--s3-no-check-bucket"),
            *(source.remote(f"{_SOURCE}/db/t"), target.remote(f"targets/{name}")),
        ],
        check=True,
    )
    return time.perf_counter() - started


def _run_s5cmd(source: Store, target: Store, name: str, folder: Path) -> float:
    started = time.perf_counter()
    place, goal = f"s3://{_SOURCE}/db/t/*", f"s3://targets/{name}/"
    if source == target:
        source.s5cmd("cp", place, goal)
        return time.perf_counter() - started
    between = folder / name
    source.s5cmd("cp", place, f"{between}/")
    target.s5cmd("cp", f"{between}/", goal)
    seconds = time.perf_counter() - started
    shutil.rmtree(between)
    return seconds


def _settle(folder: Path) -> None:
    """Everyone begins with the same: nothing to be written, all memory in the page cache's use.

    A virtual machine gives free memory back to its host, and gets it again at half a gigabyte a
    second: whoever happened to be given such memory was slower by seconds. Reading a file that has
    no blocks takes it all; what is read stays there, to be thrown out by who needs the room.
    """
    os.sync()
    size_bytes = _free_memory() - _LEFT_FREE_BYTES
    if size_bytes > 0:
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
            file.truncate(size_bytes)
            while file.read(1 << 20):
                continue


def _free_memory() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    found = next(line for line in lines if line.startswith("MemFree:"))
    return int(found.split()[1]) << 10


def _measure(
    engine: Engine, table: BenchTable, stores: tuple[Store, Store], folder: Path, turns: int
) -> dict[str, Any]:
    source, target = stores
    catalog = _catalog(table, source, folder)
    phases: list[dict[str, float]] = []
    seconds: dict[str, list[float]] = {"bcn": [], "rclone": [], "s5cmd": []}
    for turn in range(turns):
        stem = f"{table.files}-{source == target}-{turn}"
        spec = StorageSpec(f"s3://targets/bcn-{stem}", target.properties)
        runners: dict[str, Callable[[], float]] = {
            "rclone": lambda stem=stem: _run_rclone(source, target, f"rclone-{stem}"),
            "s5cmd": lambda stem=stem: _run_s5cmd(source, target, f"s5cmd-{stem}", folder),
        }
        _settle(folder)
        warm(engine, folder)
        phases.append(_run_bcn(engine, catalog, table, spec))
        seconds["bcn"].append(phases[-1]["total"])
        for name, run in runners.items():
            _settle(folder)
            seconds[name].append(run())
        if table.files < MANY_FILES:
            target.s5cmd("rm", "s3://targets/*")
    medians = {name: statistics.median(found) for name, found in seconds.items()}
    best = min(("rclone", "s5cmd"), key=lambda name: medians[name])
    ratios = [theirs / ours for ours, theirs in zip(seconds["bcn"], seconds[best], strict=True)]
    return {
        "seconds": seconds,
        "median_seconds": medians,
        "peer": best,
        "ratio": statistics.median(ratios),
        "bound": BOUND,
        "holds": statistics.median(ratios) >= BOUND,
        "phases": {name: statistics.median(found[name] for found in phases) for name in phases[0]},
    }


def run(turns: int = TURNS) -> list[dict[str, Any]]:
    """Results of all tables, both ways."""
    results = []
    with warm_engine() as engine, scratch("between-") as folder:
        for name, table in zip(_NAMES, TABLES, strict=True):
            make_table(table)
            with _stores() as (first, second):
                first.s5cmd("cp", f"{table.warehouse}/", f"s3://{_SOURCE}/")
                for way, stores in (("two", (first, second)), ("one", (first, first))):
                    result = _measure(engine, table, stores, folder, turns)
                    results.append({"name": f"{name}, {_WAYS[way]}", **result})
                    _tell(results[-1])
    return results


def _tell(result: dict[str, Any]) -> None:
    """The whole takes a quarter of an hour: somebody waits."""
    medians = ", ".join(f"{name} {found:.1f} s" for name, found in result["median_seconds"].items())
    sys.stderr.write(f"{result['name']}: {medians}; {result['ratio']:.2f} x {result['peer']}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=TURNS)
    print(json.dumps(run(parser.parse_args().turns), indent=2))


if __name__ == "__main__":
    main()
