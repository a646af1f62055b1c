"""A backup in a process of its own: one process has one SparkContext. Prints what it did."""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime

from bcn.backup.run import BackupRequest, run_backup
from bcn.catalog.open import open_catalog
from bcn.catalog.protocol import CatalogSettings
from bcn.engine.spark import Engine, SparkSettings
from bcn.repository.repository import Scope
from bcn.storage.protocol import StorageSpec


def main(master: str, repository: str, db_path: str, bytes_per_second: float) -> None:
    conf = {"spark.driver.host": "127.0.0.1", "spark.executor.memory": "512m"}
    engine = Engine(SparkSettings(master=master, conf=conf))
    settings = CatalogSettings("prod", "sql", {"uri": f"sqlite:///{db_path}"})
    request = BackupRequest(
        StorageSpec(repository), Scope("prod"), bytes_per_second=bytes_per_second
    )
    report = run_backup(
        request, lambda _: open_catalog(settings), engine, lambda: datetime.now(UTC)
    )
    stats = {
        "driver": os.getpid(),
        "tasks": engine.stats.tasks,
        "retried": engine.stats.retried,
        "processes": sorted(pid for _, pid in engine.stats.processes),
        "maximum": engine.context.getConf().get("spark.task.maxFailures"),
    }
    engine.stop()
    sys.stdout.write(json.dumps({**report.as_json(), "stats": stats}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4]))
