"""A catalog of 1,000 small tables: its first backup, one of ten changes, one of none.

The tables are real, written by pyiceberg into a SQL catalog in ten databases, and kept between
runs; a run works on a copy.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

from bcn.backup.report import BackupReport
from bcn.backup.run import BackupRequest, run_backup
from bcn.catalog.open import open_catalog
from bcn.catalog.protocol import CatalogSettings
from bcn.engine.spark import Engine
from bcn.repository.repository import Scope
from bcn.storage.protocol import StorageSpec
from bench.backup import warm_engine
from bench.command import bcn
from bench.table import CACHE, CATALOG

TABLES = 1_000
CHANGED = 10
BOUNDS = {"first": 60.0, "changed": 10.0, "no-op": 3.0}
_DATABASES = 10
_SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])
PLACE = Path(tempfile.gettempdir()) / "bcn-bench-many"  # tables hold their own absolute places


def _properties() -> dict[str, str]:
    return {"uri": f"sqlite:///{PLACE}/catalog.db", "warehouse": f"file://{PLACE}/warehouse"}


def settings() -> CatalogSettings:
    """Of the catalog at its place."""
    return CatalogSettings(CATALOG, "sql", _properties())


def _rows(number: int) -> pa.Table:
    return pa.table({"id": range(number, number + 10), "text": ["x" * 20] * 10}, schema=_SCHEMA)


def _name(number: int) -> str:
    return f"db{number % _DATABASES}.t{number:04d}"


def make_catalog(tables: int) -> None:
    """The catalog at its place, from the kept copy if there is one."""
    kept = CACHE / f"{tables}-tables"
    shutil.rmtree(PLACE, ignore_errors=True)
    if not kept.exists():
        PLACE.mkdir()
        catalog = SqlCatalog(CATALOG, **_properties())
        for number in range(_DATABASES):
            catalog.create_namespace(f"db{number}")
        for number in range(tables):
            catalog.create_table(_name(number), _SCHEMA).append(_rows(number))
        shutil.copytree(PLACE, kept.with_suffix(".part"))
        kept.with_suffix(".part").rename(kept)
    else:
        shutil.copytree(kept, PLACE)


def _change(tables: int) -> None:
    catalog = SqlCatalog(CATALOG, **_properties())
    for number in range(0, tables, tables // CHANGED):
        catalog.load_table(_name(number)).append(_rows(number))


def _back_up(engine: Engine) -> tuple[float, BackupReport]:
    request = BackupRequest(StorageSpec(f"{PLACE}/repository"), Scope(CATALOG))
    started = time.perf_counter()
    report = run_backup(
        request, lambda _: open_catalog(settings()), engine, lambda: datetime.now(UTC)
    )
    return time.perf_counter() - started, report


def _back_up_in_process() -> tuple[float, bool]:
    """Seconds of a whole `bcn backup`, and whether java was ever among its children."""
    file = PLACE / "bcn.toml"
    catalog = "\n".join(f'{key} = "{value}"' for key, value in _properties().items())
    file.write_text(
        f'[catalogs.{CATALOG}]\ntype = "sql"\n{catalog}\n'
        f'[repositories.bench]\nlocation = "file://{PLACE}/repository"\n'
    )
    started = time.perf_counter()
    process = subprocess.Popen(bcn(file, "backup"), stdout=subprocess.DEVNULL)
    seen: set[str] = set()
    watcher = threading.Thread(target=_watch, args=(process, seen))
    watcher.start()
    code = process.wait()
    seconds = time.perf_counter() - started
    watcher.join()
    if code != 0:
        raise RuntimeError(f"the backup failed with {code}")
    return seconds, "java" in seen


def _watch(process: subprocess.Popen[bytes], seen: set[str]) -> None:
    while process.poll() is None:
        listed = subprocess.run(
            ["ps", "--ppid", str(process.pid), "-o", "comm="],
            capture_output=True,
            text=True,
            check=False,
        )
        seen.update(listed.stdout.split())
        time.sleep(0.05)


def run(tables: int = TABLES) -> dict[str, Any]:
    """Seconds of the three backups, and of their phases."""
    make_catalog(tables)
    try:
        with warm_engine() as engine:
            first, first_report = _back_up(engine)
            _change(tables)
            changed, changed_report = _back_up(engine)
        statuses = [item.status for item in changed_report.objects]
        if (len(statuses), statuses.count("CHANGED")) != (tables, CHANGED):
            raise RuntimeError(f"{statuses.count('CHANGED')} of {len(statuses)} tables changed")
        noop, has_java = _back_up_in_process()
    finally:
        shutil.rmtree(PLACE, ignore_errors=True)
    seconds = {"first": first, "changed": changed, "no-op": noop}
    return {
        "tables": tables,
        "seconds": seconds,
        "bounds": BOUNDS,
        "java_in_no_op": has_java,
        "holds": {
            name: spent <= BOUNDS[name] and not (name == "no-op" and has_java)
            for name, spent in seconds.items()
        },
        "phases": {
            "first": dict(first_report.seconds),
            "changed": dict(changed_report.seconds),
        },
        "load_average": os.getloadavg()[0],
    }


def show(result: dict[str, Any]) -> None:
    """The figures for people."""
    print(f"\n{result['tables']:,} tables")
    for name, spent in result["seconds"].items():
        verdict = "holds" if result["holds"][name] else "DOES NOT HOLD"
        print(f"  {name:8} {spent:6.2f} s  at most {result['bounds'][name]:g} s: {verdict}")
    for name, phases in result["phases"].items():
        print(f"  phases of {name}: {phases}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--tables", type=int, default=TABLES, help="fewer, to try it")
    args = parser.parse_args()
    result = run(args.tables)
    print(json.dumps(result, indent=2)) if args.json else show(result)


if __name__ == "__main__":
    main()
