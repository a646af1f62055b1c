"""Seed 003, group 9: many tables, many PITs, and work at the same time."""

from __future__ import annotations

import hashlib
import os
import resource
import shutil
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bcn import api
from bcn.config.load import load_settings
from bcn.storage.local import LocalStorage
from tests.seed003.crowd import DATABASES, TABLES, add_crowd, names, repeat_newest
from tests.seed003.places import Vault, hidden, open_catalogs, open_vault
from tests.seed003.tables import add_database, add_rows, add_table, rows_of
from tests.support.command import answer_of, session_members, started
from tests.support.shapes.model import World
from tests.support.small import AtPhase

pytestmark = pytest.mark.spark

CATALOG = ("--catalog", "prod")


@pytest.fixture(scope="module")
def crowd(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> World:
    """A hundred tables; a test may change those of a database of its own."""
    world = open_catalogs(spark, tmp_path_factory.mktemp("crowd"))
    add_crowd(world)
    return world


@pytest.fixture(scope="module")
def crowd_repository(crowd: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One PIT of them; only read."""
    vault = open_vault(tmp_path_factory.mktemp("crowd_vault"), crowd)
    jobs = count_jobs(crowd)
    report = vault.backup(*CATALOG)
    assert len(report["tables"]) == TABLES
    assert count_jobs(crowd) - jobs < 20  # none for each table
    return vault.repository


def count_jobs(world: World) -> int:
    """Jobs that the session has run: they are numbered, and the oldest are forgotten."""
    return max(world.spark.sparkContext.statusTracker().getJobIdsForGroup(None), default=0)


def timed_process(vault: Vault, *arguments: str) -> tuple[Any, float, set[str]]:
    """A command as a process: its report, how long it worked, the programs seen to run.

    What it worked is the processor's time: a busy machine makes everything slow.
    """
    began, seen, before = time.monotonic(), set(), worked_seconds()
    with started([vault.start(*arguments)]) as [process]:
        while process.poll() is None and time.monotonic() - began < 60:
            seen |= {line.split()[0] for line in session_members(process.pid).values() if line}
            time.sleep(0.01)
        answer = answer_of(process)
    assert answer.code == 0, answer.stderr
    return answer.report, worked_seconds() - before, seen


def worked_seconds() -> float:
    """The processor's time of all processes that this one started and that ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_incremental_backup_performance_large_catalog(
    crowd: World, crowd_repository: Path, tmp_path: Path
) -> None:
    """Of nothing new: three seconds and no Java. Of a few tables: only those are read."""
    repository = shutil.copytree(crowd_repository, tmp_path / "repository")
    vault = open_vault(tmp_path, crowd, repository)
    tries = [timed_process(vault, "backup") for _ in range(2)]
    for report, _, programs in tries:
        assert Counter(item["status"] for item in report["tables"]) == {"UNCHANGED": TABLES}
        assert programs
        assert not any(Path(program).name == "java" for program in programs)
    assert min(seconds for _, seconds, _ in tries) < 3
    changed = [name for name in names() if name.startswith("db0.")][:3]
    for name in changed:
        crowd.sql(f"INSERT INTO {crowd.name(name)} VALUES (1000)")
    report = vault.backup()
    assert sum(report["seconds"].values()) < 20
    assert report["manifests_decoded"] == len(changed)
    objects = vault.pit()["objects"]
    assert [item["name"] for item in objects if item["status"] == "CHANGED"] == changed
    vault.restore("--table", changed[0])
    assert vault.rows(changed[0]) == rows_of(crowd, changed[0])


def test_restore_performance_large_dataset(
    crowd: World, crowd_repository: Path, tmp_path: Path
) -> None:
    """All tables at once, not one after the other; files at a pace that a disk would set."""
    vault = open_vault(tmp_path, crowd, crowd_repository)
    wanted = [name for name in names() if not name.startswith("db0.")]
    jobs = count_jobs(crowd)
    report = vault.restore(*(f"--database=db{number}" for number in range(1, DATABASES)))
    assert count_jobs(crowd) - jobs < 20
    assert sum(report["seconds"].values()) < 60
    assert vault.tables() == sorted(wanted)
    sample = wanted[:: len(wanted) // 3]
    expected = {name: rows_of(crowd, name) for name in sample}
    with hidden(crowd):
        assert {name: vault.rows(name) for name in sample} == expected
    large = open_vault(tmp_path, open_catalogs(crowd.spark, tmp_path / "large"))
    plain = write_large(large.source)
    large.backup(*CATALOG)
    restored = large.restore()
    assert restored["bytes_copied"] > 20_000_000
    assert sum(restored["seconds"].values()) < 20 * plain + 20
    assert large.rows("sales.large") == rows_of(large.source, "sales.large")


def write_large(world: World) -> float:
    """A table of some 30 MB; how long it takes to read, hash and write its files plainly."""
    add_database(world, "sales")
    world.sql(
        f"CREATE TABLE {world.name('sales.large')} USING iceberg TBLPROPERTIES"
        " ('write.parquet.compression-codec' = 'uncompressed') AS SELECT id,"
        " repeat(sha2(string(id), 512), 4) AS word FROM range(0, 60000, 1, 3)"
    )
    began = time.monotonic()
    for path in (world.warehouse / "sales/large/data").glob("*.parquet"):
        data = path.read_bytes()
        hashlib.sha256(data).digest()
        (world.folder / path.name).write_bytes(data)
    return time.monotonic() - began


def test_concurrent_read_during_backup(vault: Vault, source: World) -> None:
    """While a backup copies, PITs are listed and restored, and the source is read and written."""
    add_database(source, "sales")
    add_table(source, "sales.orders")
    first, before = vault.backup(*CATALOG)["pit"], rows_of(source, "sales.orders")
    add_rows(source, "sales.orders")
    captured = rows_of(source, "sales.orders")
    settings = load_settings(vault.folder / "bcn.toml", os.environ, vault.folder)
    copying, go, made = threading.Event(), threading.Event(), []

    def pause() -> None:
        copying.set()
        assert go.wait(60)

    def back_up() -> None:
        report = api.backup(
            str(vault.repository), settings=settings, progress=AtPhase("copying", pause)
        )
        made.append(str(report.pit))

    thread = threading.Thread(target=back_up)
    thread.start()
    try:
        assert copying.wait(60)
        assert [item["pit"] for item in vault.done("list")["pits"]] == [first]
        assert f"(process {os.getpid()})" in vault.done("describe")["lease"]["owner"]
        vault.restore("--target-database", "meanwhile")
        assert vault.rows("meanwhile.orders") == before
        assert rows_of(source, "sales.orders") == captured
        add_rows(source, "sales.orders", 500)
    finally:
        go.set()
        thread.join()
    assert vault.pits() == [first, *made]
    vault.restore("--pit", made[0], "--target-database", "after")
    assert vault.rows("after.orders") == captured
    assert rows_of(source, "sales.orders")["current"][0] == captured["current"][0] + 3


def test_pit_manifest_query_performance(
    crowd: World, crowd_repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One PIT among many is found and shown without reading the others."""
    repository = tmp_path / "repository"
    ignored = shutil.ignore_patterns("data")
    shutil.copytree(crowd_repository, repository, ignore=ignored)
    vault = open_vault(tmp_path, crowd, repository)
    made = repeat_newest(repository, 100)
    vault.backup()  # brings the index up to date
    read: list[str] = []
    real = LocalStorage.read

    def counted(self: LocalStorage, key: str, *more: Any) -> Any:
        read.append(key)
        return real(self, key, *more)

    monkeypatch.setattr(LocalStorage, "read", counted)
    report = vault.done("list", "--pit", made[50], "--database", "db1")
    monkeypatch.undo()
    pits = [key for key in read if "/pit_manifests/" in key]
    assert len(pits) == 1
    assert made[50] in pits[0]
    assert [item["name"] for item in report["objects"]] == [
        name.split(".")[1] for name in names() if name.startswith("db1.")
    ]
    quickest = min(timed_process(vault, "list", "--pit", made[50])[1] for _ in range(2))
    assert quickest < 0.7
