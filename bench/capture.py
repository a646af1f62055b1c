"""Capturing a catalog of 1,000 tables from a server, until two passes agree, without Spark.

The tables are those of `bench.many`; each server gets them registered anew, which is not measured.
A server that is to be measured has a line in `SERVERS`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bcn.backup.capture import capture
from bcn.catalog.open import open_catalog
from bcn.catalog.protocol import CatalogSettings
from bcn.repository.repository import Scope
from bcn.stack.hive import start_hive
from bcn.stack.rest import start_rest
from bench import many
from bench.table import CATALOG

TABLES = 1_000
TURNS = 3
BOUND_SECONDS = 15.0


@contextmanager
def _rest(folder: Path) -> Iterator[CatalogSettings]:
    server = start_rest(folder, f"file://{folder}/warehouse")
    try:
        yield CatalogSettings(CATALOG, "rest", {"uri": f"http://{server.address}"})
    finally:
        server.stop()


@contextmanager
def _hive(folder: Path) -> Iterator[CatalogSettings]:
    server = start_hive(folder, f"file://{folder}/warehouse")
    try:
        yield CatalogSettings(CATALOG, "hive", {"uri": f"thrift://{server.address}"})
    finally:
        server.stop()


SERVERS: dict[str, Callable[[Path], Any]] = {"REST": _rest, "Hive": _hive}


def _fill(settings: CatalogSettings) -> int:
    """Register all tables of the SQL catalog."""
    source = open_catalog(many.settings())
    target = open_catalog(settings)
    for namespace in source.iter_namespaces():
        target.create_namespace(namespace, {})
    with ThreadPoolExecutor(4) as pool:
        return len(
            list(
                pool.map(
                    lambda item: target.register(item.table, item.metadata_location),
                    source.iter_pointers(),
                )
            )
        )


def _measure(settings: CatalogSettings, tables: int) -> tuple[float, int]:
    started = time.perf_counter()
    found = capture(open_catalog(settings), Scope(CATALOG), lambda: datetime.now(UTC))
    seconds = time.perf_counter() - started
    located = [item for item in found.pointers if item.metadata_location]
    if len(located) != tables or not found.exact:
        raise RuntimeError(f"{len(located)} of {tables} tables were captured")
    return seconds, found.passes


def run(tables: int = TABLES, turns: int = TURNS) -> dict[str, Any]:
    """Seconds of whole captures, connections included; the first one finds a cold server."""
    many.make_catalog(tables)
    results = {}
    try:
        for name, start in SERVERS.items():
            with tempfile.TemporaryDirectory() as folder, start(Path(folder)) as settings:
                _fill(settings)
                seconds = [_measure(settings, tables)[0] for _ in range(turns)]
            results[name] = seconds
    finally:
        shutil.rmtree(many.PLACE, ignore_errors=True)
    return {
        "tables": tables,
        "seconds": results,
        "median_seconds": {name: statistics.median(spent) for name, spent in results.items()},
        "bound_seconds": BOUND_SECONDS,
        "holds": {name: max(spent) <= BOUND_SECONDS for name, spent in results.items()},
        "spark": "pyspark" in sys.modules,
        "load_average": os.getloadavg()[0],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--tables", type=int, default=TABLES, help="fewer, to try it")
    args = parser.parse_args()
    result = run(args.tables)
    if args.json:
        print(json.dumps(result, indent=2))
        return
    for name, seconds in result["median_seconds"].items():
        verdict = "holds" if result["holds"][name] else "DOES NOT HOLD"
        print(f"{name}: {result['tables']:,} tables captured in {seconds:.2f} s: {verdict}")


if __name__ == "__main__":
    main()
