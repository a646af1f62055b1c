"""Full backups beside `cp -r` with `sync`, and restic: the same files, the same disk, turn by turn.

Every run starts with a new target, after a `sync`, and with the source in the page cache. Spark is
up, and has run a small backup, before the first clock starts. Targets of many files are deleted
after the last turn: for minutes, ext4 looks at every inode that was freed lately before it takes
one, which makes files several times dearer for whoever creates many of them next.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bcn.backup.run import BackupRequest, run_backup
from bcn.catalog.open import open_catalog
from bcn.engine.spark import Engine, SparkSettings
from bcn.repository.repository import Scope
from bcn.storage.protocol import StorageSpec
from bench.peers import find_restic, run_cp, run_restic
from bench.table import CACHE, CATALOG, BenchTable, make_table, scratch

TURNS = 5
MANY_FILES = 1_000


@dataclass(frozen=True)
class Case:
    """A table to back up, and how fast that has to be: times the speed of each peer."""

    name: str
    table: BenchTable
    bounds: dict[str, float]


CASES = (
    Case("2 GB in 64 MB files", BenchTable(32, 64_000_000), {"cp": 0.8, "restic": 4.0}),
    Case("10,000 files of 100 KB", BenchTable(10_000, 100_000), {"cp": 0.6, "restic": 2.0}),
)
_WARM_UP = BenchTable(1_024, 1_000)  # enough for a task to each of some workers


def back_up(engine: Engine, table: BenchTable, target: Path) -> dict[str, float]:
    """Seconds of a full backup, and of its phases."""
    request = BackupRequest(StorageSpec(str(target)), Scope(CATALOG))
    started = time.perf_counter()
    report = run_backup(
        request, lambda _: open_catalog(table.catalog), engine, lambda: datetime.now(UTC)
    )
    seconds = time.perf_counter() - started
    if report.files_copied < table.files:
        raise RuntimeError(f"only {report.files_copied} of {table.files} files were copied")
    return {"total": seconds, **report.seconds}


@contextmanager
def warm_engine() -> Iterator[Engine]:
    """Spark, up and used once by its workers."""
    engine = Engine(SparkSettings())
    try:
        with scratch("targets-") as folder:
            warm(engine, folder)
        yield engine
    finally:
        engine.stop()


def warm(engine: Engine, folder: Path) -> None:
    """Have the workers up: Spark ends those that had nothing to do for a minute."""
    back_up(engine, make_table(_WARM_UP), Path(tempfile.mkdtemp(dir=folder)) / "warm-up")


def measure(engine: Engine, case: Case, turns: int) -> dict[str, Any]:
    """Seconds of everyone in every turn, and the median of the ratios within turns."""
    table = make_table(case.table)
    _read_once(table)
    runners = _runners(engine, table)
    phases: list[dict[str, float]] = []
    seconds: dict[str, list[float]] = {name: [] for name in runners}
    with scratch("targets-") as folder:
        for turn in range(turns):
            for name, run in runners.items():
                target = folder / f"{name}-{turn}"
                os.sync()
                _fetch_memory(folder, table.size_bytes * 5 // 4)
                found = run(target)
                _leave_cache(target)
                if table.files < MANY_FILES:
                    shutil.rmtree(target)
                if isinstance(found, dict):
                    phases.append(found)
                    found = found["total"]
                seconds[name].append(found)
    return _result(case, seconds, phases)


def _runners(
    engine: Engine, table: BenchTable
) -> dict[str, Callable[[Path], float | dict[str, float]]]:
    source, restic = table.location, find_restic()
    runners: dict[str, Callable[[Path], float | dict[str, float]]] = {
        "bcn": lambda target: back_up(engine, table, target),
        "cp": lambda target: run_cp(source, target),
    }
    if restic is not None:
        cache = CACHE / "restic-cache"
        runners["restic"] = lambda target: run_restic(restic, source, target, cache)
    return runners


def _result(
    case: Case, seconds: dict[str, list[float]], phases: list[dict[str, float]]
) -> dict[str, Any]:
    ratios = {
        peer: statistics.median(
            theirs / ours for ours, theirs in zip(seconds["bcn"], found, strict=True)
        )
        for peer, found in seconds.items()
        if peer != "bcn"
    }
    return {
        "name": case.name,
        "seconds": seconds,
        "median_seconds": {name: statistics.median(found) for name, found in seconds.items()},
        "megabytes_per_second": {
            name: case.table.size_bytes / 1e6 / statistics.median(found)
            for name, found in seconds.items()
        },
        "ratios": ratios,
        "bounds": case.bounds,
        "holds": {peer: ratio >= case.bounds[peer] for peer, ratio in ratios.items()},
        "phases": {name: statistics.median(found[name] for found in phases) for name in phases[0]},
    }


def _fetch_memory(folder: Path, size_bytes: int) -> None:
    """Fill the page cache and free it again, right before a run.

    Virtual machines give free memory back to their hosts. To get it costs several times what
    writing a page does, and would hit whoever runs first after a pause.
    """
    piece = bytes(1 << 20)
    with tempfile.TemporaryFile(dir=folder) as file:
        for _ in range(size_bytes // len(piece) + 1):
            file.write(piece)


def _leave_cache(target: Path) -> None:
    """Give the memory of what was written back: it would push the source out of the page cache."""
    os.sync()
    for path in target.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _read_once(table: BenchTable) -> None:
    """Bring the source into the page cache: the same start for everyone."""
    for number in range(table.files):
        table.data_path(number).read_bytes()


def run(turns: int = TURNS, cases: tuple[Case, ...] = CASES) -> list[dict[str, Any]]:
    """Results of all cases."""
    with warm_engine() as engine:
        return [measure(engine, case, turns) for case in cases]


def show(result: dict[str, Any]) -> None:
    """One case for people."""
    print(f"\n{result['name']}")
    for name, median in result["median_seconds"].items():
        rate = result["megabytes_per_second"][name]
        ratio, bound = result["ratios"].get(name), result["bounds"].get(name)
        beside = ""
        if ratio is not None:
            verdict = "holds" if result["holds"][name] else "DOES NOT HOLD"
            beside = f"bcn is {ratio:.2f} x as fast, at least {bound}: {verdict}"
        best = min(result["seconds"][name])
        print(f"  {name:8} median {median:6.2f} s  best {best:6.2f} s  {rate:7.0f} MB/s  {beside}")
    print("  phases of bcn, median seconds:", result["phases"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--case", type=int, choices=range(len(CASES)), help="only this one")
    args = parser.parse_args()
    cases = CASES if args.case is None else (CASES[args.case],)
    results = run(args.turns, cases)
    if args.json:
        print(json.dumps({"backups": results}, indent=2))
    else:
        for result in results:
            show(result)


if __name__ == "__main__":
    main()
