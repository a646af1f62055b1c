"""A real backup on a standalone cluster of which one worker dies midway."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bcn.catalog.open import open_catalog
from bcn.catalog.protocol import CatalogSettings
from bcn.model import TableId
from bcn.repository.inventory import load_inventory
from bcn.repository.repository import open_repository
from bcn.storage.protocol import StorageSpec
from tests.engine.cluster import open_cluster
from tests.support.shapes.synthetic import SyntheticTable, write_synthetic

pytestmark = pytest.mark.spark

_FILES, _FILE_BYTES = 700, 4096
_SECONDS = 10.0  # how long the copy is made to take
_ROOT = Path(__file__).parents[2]


def _make_table(folder: Path) -> SyntheticTable:
    """A table of some hundred files, no two of them alike, in a SQL catalog."""
    table = SyntheticTable(str(folder / "warehouse" / "t"), entries=_FILES, manifests=7)
    write_synthetic(table)
    for number in range(_FILES):
        path = Path(table.data_location(number))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(_FILE_BYTES))
    uri = f"sqlite:///{folder}/catalog.db"
    catalog = open_catalog(
        CatalogSettings("prod", "sql", {"uri": uri, "warehouse": f"{folder}/warehouse"})
    )
    catalog.create_namespace(("db",), {})
    catalog.register(TableId(("db",), "t"), table.metadata_location)
    return table


def _start_backup(folder: Path, master: str) -> subprocess.Popen[str]:
    rate = _FILES * _FILE_BYTES / _SECONDS
    arguments = [master, str(folder / "repository"), str(folder / "catalog.db"), str(rate)]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.engine.cluster_backup", *arguments],
        cwd=_ROOT,
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
        stdout=subprocess.PIPE,
        text=True,
    )


def _wait_for_files(folder: Path, count: int, process: subprocess.Popen[str]) -> int:
    deadline = time.monotonic() + 120
    while True:
        found = sum(1 for path in (folder / "repository").glob("data/**/*") if path.is_file())
        if found >= count:
            return found
        assert process.poll() is None, "the backup ended before a worker could die"
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_backup_goes_on_when_a_worker_dies_and_stores_every_byte(tmp_path: Path) -> None:
    table = _make_table(tmp_path)
    with open_cluster(tmp_path, workers=2) as cluster:
        backup = _start_backup(tmp_path, cluster.master)
        stored = _wait_for_files(tmp_path, _FILES // 5, backup)
        assert stored < _FILES * 4 // 5, "too late: most was stored already"
        cluster.kill_worker()
        output, _ = backup.communicate(timeout=240)
    assert backup.returncode == 0
    report = json.loads(output.splitlines()[-1])
    stats = report["stats"]
    assert stats["driver"] not in stats["processes"]
    assert stats["retried"] >= 1
    assert stats["maximum"] is None  # Spark's own default
    assert [item["status"] for item in report["tables"]] == ["NEW"]
    _check_digests(tmp_path, table)


def _check_digests(folder: Path, table: SyntheticTable) -> None:
    """Every file of the source is stored once, with its own bytes and the digest of them."""
    repository = open_repository(StorageSpec(str(folder / "repository")))
    pit = repository.find_newest()
    assert pit is not None
    entry = repository.load_entry(pit.objects[0].entry)
    rows = load_inventory(repository.storage, entry.layers).to_pylist()
    data = {row["path"]: row for row in rows if row["kind"] == "data"}
    assert len(data) == _FILES
    assert {f"{table.root}/{path}" for path in data} == {
        table.data_location(number) for number in range(_FILES)
    }
    for row in rows:
        source = Path(f"{entry.spelling(row['root_id'])}/{row['path']}").read_bytes()
        assert repository.storage.read(row["key"]) == source
        assert row["sha256"] == hashlib.sha256(source).digest()
    leftovers = list(repository.storage.iter_keys("jobs/"))
    assert leftovers == []
