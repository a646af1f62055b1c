"""Level 5: one table after the other restored into a scratch folder, read back, and removed."""

from __future__ import annotations

import glob
import secrets
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from bcn.catalog.open import open_catalog
from bcn.catalog.protocol import CatalogSettings
from bcn.catalog.spark_side import spark_side
from bcn.catalog.static import StaticReader
from bcn.engine.reading import SparkReader
from bcn.engine.spark import Engine
from bcn.errors import BcnError
from bcn.maintenance.documents import CheckedEntry
from bcn.maintenance.report import Finding, Reading, Severity
from bcn.maintenance.verify_tasks import SnapshotSum
from bcn.repository.entry import Entry
from bcn.restore.plan import RestoreRequest
from bcn.restore.run import run_restore
from bcn.storage.protocol import StorageSpec

_DATABASE = "scratch"

SPARK, PYICEBERG, JAVA = "Spark", "pyiceberg", "Iceberg's Java library"

# Rows of a snapshot id or ref, which stands for that snapshot id.
Count = Callable[[int | str, int], int]


@dataclass
class _Results:
    item: CheckedEntry
    readings: list[Reading] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def find(self, severity: Severity, text: str) -> None:
        key = self.item.entry.metadata_key
        name = str(self.item.record.table)
        self.findings.append(Finding(5, severity, str(self.item.pit), name, key, text))


class Rehearsal:
    """Restores tables to a folder, one after the other, reads them there and removes them."""

    def __init__(
        self, repository: StorageSpec, engine: Engine, folder: str, rate: float | None
    ) -> None:
        self._repository = repository
        self._engine = engine
        self._rate = rate
        self._warehouse = Path(folder) / "restored"
        db_path = f"{folder}/catalog.db"
        # Spark never forgets a catalog that it has opened, so the name is of this run alone.
        self._catalog = "bcn_verify_" + secrets.token_hex(4)
        self._settings = CatalogSettings(
            self._catalog,
            "sql",
            {"uri": f"sqlite:///{db_path}", "warehouse": str(self._warehouse)},
        )
        self._spark = SparkReader(engine, spark_side(self._settings))

    def close(self) -> None:
        """Nothing more will be read."""
        self._spark.close()

    def run(
        self, item: CheckedEntry, sums: Sequence[SnapshotSum]
    ) -> tuple[list[Reading], list[Finding]]:
        """What was read of one table as of its PIT, and what is wrong with it."""
        results = _Results(item)
        if item.entry.type != "table":
            results.find(Severity.NOTE, f"a {item.entry.type} is not restored, so not read")
            return results.readings, results.findings
        try:
            self._rehearse(results, sums)
        finally:
            shutil.rmtree(self._warehouse, ignore_errors=True)
        return results.readings, results.findings

    def _rehearse(self, results: _Results, sums: Sequence[SnapshotSum]) -> None:
        table = f"{_DATABASE}.t{results.item.number}"
        try:
            location = self._restore(results.item)
        except BcnError as error:
            results.find(Severity.ERROR, f"it cannot be restored: {error}")
            return
        readers = self._open_readers(results, table, location)
        if not readers:
            results.find(Severity.WARNING, "no reader can load it: its rows were not read")
        for target, expected in _targets(results.item.entry, sums) if readers else ():
            _read(results, target, expected, readers)

    def _open_readers(self, results: _Results, table: str, location: str) -> dict[str, Count]:
        """Who can load the table; Java, which knows all types but reads in the driver, is last."""
        openers = {
            SPARK: partial(self._open_spark, table, location),
            PYICEBERG: partial(_open_static, location),
            JAVA: partial(self._open_java, location),
        }
        readers = {}
        for who, open_reader in openers.items():
            try:
                readers[who] = open_reader()
            except BcnError as error:
                results.find(Severity.NOTE, f"{who} cannot load it: {error}")
        return readers

    def _restore(self, item: CheckedEntry) -> str:
        request = RestoreRequest(
            self._repository,
            item.pit,
            tables=(glob.escape(str(item.record.table)),),
            target_catalog=self._catalog,
            target_database=(_DATABASE,),
            target_table=f"t{item.number}",
            bytes_per_second=self._rate,
        )
        report = run_restore(request, lambda _: open_catalog(self._settings), self._engine)
        return report.tables[0].metadata_location

    def _open_spark(self, table: str, location: str) -> Count:
        # Spark's catalog tries for a minute and more before it gives a document up; Java does not.
        self._spark.load_in_java(location)
        self._spark.load(table)
        return lambda target, _: self._spark.count_rows(table, target)

    def _open_java(self, location: str) -> Count:
        self._spark.load_in_java(location)
        return lambda _, snapshot_id: self._spark.count_rows_in_java(location, snapshot_id)


def _open_static(location: str) -> Count:
    reader = StaticReader(location)
    return lambda target, _: reader.count_rows(target)


def _targets(entry: Entry, sums: Sequence[SnapshotSum]) -> list[tuple[int | str, SnapshotSum]]:
    """Every snapshot by its id and every ref by its name."""
    by_id = {item.snapshot_id: item for item in sums}
    refs = entry.table_facts.get("refs") or {}
    named = [(name, by_id.get(int(ref["snapshot_id"]))) for name, ref in refs.items()]
    return [*by_id.items(), *((name, item) for name, item in named if item is not None)]


def _read(
    results: _Results, target: int | str, expected: SnapshotSum, readers: Mapping[str, Count]
) -> None:
    what = f"snapshot {target}" if isinstance(target, int) else f"ref {target}"
    hurt = {int(item["snapshot_id"]) for item in results.item.entry.damaged}
    if not expected.is_whole or expected.snapshot_id in hurt:
        whose = "the source had lost" if expected.snapshot_id in hurt else "the repository lacks"
        results.find(Severity.NOTE, f"{what} is not read: {whose} files of it")
        return
    counts = _count(results, target, expected, readers, what)
    for text in _disagreements(what, expected, counts):
        results.find(Severity.ERROR, text)
    results.readings.append(
        Reading(
            str(results.item.pit),
            str(results.item.record.table),
            str(target),
            expected.records,
            expected.delete_files,
            counts,
        )
    )


def _count(
    results: _Results,
    target: int | str,
    expected: SnapshotSum,
    readers: Mapping[str, Count],
    what: str,
) -> dict[str, int]:
    """Rows by reader; Java is asked only where no other could read. None at all is an error."""
    counts: dict[str, int] = {}
    failures: dict[str, str] = {}
    for who, count in readers.items():
        if who == JAVA and counts:
            continue
        try:
            counts[who] = count(target, expected.snapshot_id)
        except BcnError as error:
            failures[who] = str(error)
    for who, reason in failures.items():
        severity = Severity.NOTE if counts else Severity.ERROR
        results.find(severity, f"{who} cannot read {what}: {reason}")
    return counts


def _disagreements(what: str, expected: SnapshotSum, counts: Mapping[str, int]) -> list[str]:
    """Without deletes every reader finds all records; with them, no more, and all the same."""
    texts = []
    for who, rows in counts.items():
        if expected.delete_files == 0 and rows != expected.records:
            texts.append(f"{who} read {rows} rows of {what}, its manifests say {expected.records}")
        if expected.delete_files and rows > expected.records:
            texts.append(
                f"{who} read {rows} rows of {what}, more than its {expected.records} records"
            )
    if len(set(counts.values())) > 1:
        texts.append(f"readers disagree on the rows of {what}: {counts}")
    return texts
