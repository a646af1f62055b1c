"""A catalog lives through hundreds of random changes; every PIT gives back what was there then.

The model is kept in Python: for each table its columns and rows, and the rows of every snapshot it
ever had. Spark makes the changes; at the end the source is moved away, each PIT is restored, and
read by pyiceberg and by Spark.
"""

from __future__ import annotations

import copy
import itertools
import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    rule,
    run_state_machine_as_test,
)
from pyiceberg.manifest import clear_manifest_cache
from pyiceberg.table import StaticTable

from bcn.model import PitId, TableId
from tests.support.place import open_place
from tests.support.product import Product, sql_settings

pytestmark = pytest.mark.spark

DATABASES = ("one", "two")
PLACES = tuple(f"{database}.{name}" for database in DATABASES for name in "abc")
MOST_TABLES = 4
ENOUGH = 300
OPERATIONS = {
    "insert": 5,
    "delete": 3,
    "update": 2,
    "make": 3,
    "evolve": 2,
    "rename": 2,
    "drop": 1,
    "expire": 1,
    "compact": 1,
    "back_up": 4,
}
DAYS = ("nothing", *(name for name, often in OPERATIONS.items() for _ in range(often)))
Row = dict[str, Any]

_lives = itertools.count(1)


@dataclass
class Table:
    """What a table holds, now and at every snapshot that it still has."""

    version: int
    columns: list[str] = field(default_factory=lambda: ["id", "v"])
    rows: list[Row] = field(default_factory=list)
    snapshots: dict[int, list[Row]] = field(default_factory=dict)


@dataclass
class Seen:
    """The catalog as it was when a PIT was made."""

    tables: dict[str, Table]
    snapshots: dict[str, set[int]]


class Life(RuleBasedStateMachine):
    """Changes a catalog, backs it up now and then."""

    spark: Any
    folder: Path
    done: Counter[str]

    @initialize()
    def begin(self) -> None:
        self.place = open_place(self.spark, self.folder / f"life{next(_lives)}")
        self.ids = itertools.count(1)
        self.tables: dict[str, Table] = {}
        self.pits: dict[PitId, Seen] = {}
        catalog = self.place.world.catalog
        for database in DATABASES:
            self.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {catalog}.{database}")
        self.create("one.a", 2)

    @rule(data=st.data(), kind=st.sampled_from(DAYS))
    def spend_a_day(self, data: Any, kind: str) -> None:
        """A day on which nothing happens comes first: the simplest life is made of those."""
        is_over = self.done.total() >= ENOUGH
        if kind in OPERATIONS and not is_over and (self.tables or kind == "make"):
            self.done[kind] += 1
            getattr(self, kind)(data)

    # changes

    def make(self, data: Any) -> None:
        name = data.draw(st.sampled_from(PLACES))
        if name not in self.tables and len(self.tables) < MOST_TABLES:
            self.create(name, data.draw(st.sampled_from([1, 2, 3])))

    def create(self, name: str, version: int) -> None:
        mode = "merge-on-read" if version > 1 else "copy-on-write"
        self.sql(
            f"CREATE TABLE {self.full(name)} (id bigint, v string) USING iceberg"
            f" PARTITIONED BY (bucket(2, id)) TBLPROPERTIES ('format-version' = '{version}',"
            f" 'write.delete.mode' = '{mode}', 'write.update.mode' = '{mode}')"
        )
        self.tables[name] = Table(version)

    def insert(self, data: Any) -> None:
        count = data.draw(st.integers(1, 4))
        name, table = self.draw(data)
        new = [dict.fromkeys(table.columns) for _ in range(count)]
        for row in new:
            row["id"] = next(self.ids)
            for column in table.columns[1:]:
                row[column] = f"{column}-{row['id']}"
        values = ", ".join(f"({', '.join(_literal(row[c]) for c in table.columns)})" for row in new)
        self.sql(f"INSERT INTO {self.full(name)} VALUES {values}")
        table.rows = [*table.rows, *new]
        self.note(name)

    def delete(self, data: Any) -> None:
        rest = data.draw(st.integers(0, 2))
        name, table = self.draw(data)
        self.sql(f"DELETE FROM {self.full(name)} WHERE id % 3 = {rest}")
        table.rows = [row for row in table.rows if row["id"] % 3 != rest]
        self.note(name)

    def update(self, data: Any) -> None:
        rest = data.draw(st.integers(0, 1))
        name, table = self.draw(data)
        column, value = table.columns[-1], f"new-{next(self.ids)}"
        if column == "id":
            return
        self.sql(f"UPDATE {self.full(name)} SET {column} = '{value}' WHERE id % 2 = {rest}")
        table.rows = [
            {**row, column: value} if row["id"] % 2 == rest else row for row in table.rows
        ]
        self.note(name)

    def evolve(self, data: Any) -> None:
        kind = data.draw(st.sampled_from(["add", "rename", "drop"]))
        name, table = self.draw(data)
        old, new = table.columns[-1], f"c{next(self.ids)}"
        if kind == "add" or len(table.columns) < 2:
            self.sql(f"ALTER TABLE {self.full(name)} ADD COLUMN {new} string")
            table.columns = [*table.columns, new]
            table.rows = [{**row, new: None} for row in table.rows]
        elif kind == "rename":
            self.sql(f"ALTER TABLE {self.full(name)} RENAME COLUMN {old} TO {new}")
            table.columns = [*table.columns[:-1], new]
            table.rows = [
                {new if key == old else key: value for key, value in row.items()}
                for row in table.rows
            ]
        else:
            self.sql(f"ALTER TABLE {self.full(name)} DROP COLUMN {old}")
            table.columns = table.columns[:-1]
            table.rows = [{k: v for k, v in row.items() if k != old} for row in table.rows]

    def rename(self, data: Any) -> None:
        new = data.draw(st.sampled_from(PLACES))
        name, _ = self.draw(data)
        if new not in self.tables:
            self.sql(f"ALTER TABLE {self.full(name)} RENAME TO {new}")
            self.tables[new] = self.tables.pop(name)

    def drop(self, data: Any) -> None:
        name, _ = self.draw(data)
        purge = data.draw(st.booleans())
        self.sql(f"DROP TABLE {self.full(name)}{' PURGE' if purge else ''}")
        del self.tables[name]

    def expire(self, data: Any) -> None:
        name, _ = self.draw(data)
        self.call(
            name, "expire_snapshots", "older_than => TIMESTAMP '2100-01-01', retain_last => 1"
        )

    def compact(self, data: Any) -> None:
        name, _ = self.draw(data)
        self.call(name, "rewrite_data_files", "options => map('rewrite-all', 'true')")
        self.note(name)

    # backups

    def back_up(self, _: Any) -> None:
        report = self.place.product.backup(self.place.scope, accept_deletions=True)
        assert not report.failed
        repository = self.place.product.repository
        manifest = repository.find_pit(report.pit)
        assert manifest is not None
        self.pits[report.pit] = Seen(
            copy.deepcopy(self.tables),
            {name: set(self.document(name)["snapshot-ids"]) for name in self.tables},
        )
        assert {str(item.table) for item in manifest.objects} == set(self.tables)

    # parts

    def draw(self, data: Any) -> tuple[str, Table]:
        name = data.draw(st.sampled_from(sorted(self.tables)))
        return name, self.tables[name]

    def full(self, name: str) -> str:
        return f"{self.place.world.catalog}.{name}"

    def sql(self, text: str) -> None:
        self.spark.sql(text)

    def call(self, name: str, procedure: str, more: str) -> None:
        catalog = self.place.world.catalog
        self.sql(f"CALL {catalog}.system.{procedure}(table => '{name}', {more})")

    def document(self, name: str) -> dict[str, Any]:
        pointer = self.place.product.open(self.place.world.catalog).find_pointer(
            TableId.parse(name)
        )
        assert pointer is not None
        document = json.loads(Path(pointer.metadata_location.removeprefix("file:")).read_text())
        ids = [item["snapshot-id"] for item in document.get("snapshots") or []]
        return {**document, "snapshot-ids": ids}

    def note(self, name: str) -> None:
        """Remember what the table's newest snapshot holds."""
        table, current = self.tables[name], self.document(name).get("current-snapshot-id")
        if current not in {None, -1}:
            table.snapshots[current] = list(table.rows)

    # the end

    def teardown(self) -> None:
        folder = self.place.folder
        (folder / "source").rename(folder / "source-away")
        for number, (pit, seen) in enumerate(self.pits.items()):
            self.check(number, pit, seen)

    def check(self, number: int, pit: PitId, seen: Seen) -> None:
        target = f"again{number}"
        folder = self.place.folder / target
        catalogs = {target: sql_settings(target, folder.with_suffix(".db"), folder)}
        product = Product(self.place.product.location, catalogs, self.place.product.engine)
        report = product.restore(pit, target_catalog=target)
        assert {str(item.table) for item in report.tables} == set(seen.tables)
        for item in report.tables:
            name = str(item.table)
            found = json.loads(Path(item.metadata_location.removeprefix("file:")).read_text())
            ids = {one["snapshot-id"] for one in found.get("snapshots") or []}
            assert ids == seen.snapshots[name]
            self.check_rows(item.metadata_location, seen.tables[name], ids, number)

    def check_rows(self, location: str, table: Table, ids: set[int], number: int) -> None:
        """The current rows; of some PITs, those of all snapshots, and those that Spark reads."""
        assert _sorted(read(location)) == _sorted(table.rows)
        for snapshot in sorted(ids) if number % 3 == 0 else ():
            assert _sorted(read(location, snapshot)) == _sorted(table.snapshots[snapshot])
        if number % 5 == 0:
            frame = self.spark.read.format("iceberg").load(location)
            assert _sorted([row.asDict() for row in frame.collect()]) == _sorted(table.rows)


def read(location: str, snapshot: int | None = None) -> list[Row]:
    """All rows, by pyiceberg."""
    clear_manifest_cache()
    scan = StaticTable.from_metadata(location).scan(snapshot_id=snapshot)
    return list(scan.to_arrow().to_pylist())


def _literal(value: Any) -> str:
    return "NULL" if value is None else str(value) if isinstance(value, int) else f"'{value}'"


def _sorted(rows: list[Row]) -> list[list[tuple[str, Any]]]:
    return sorted((sorted(row.items()) for row in rows), key=str)


def test_every_pit_of_a_random_life_gives_back_what_was_there(spark: Any, tmp_path: Path) -> None:
    done: Counter[str] = Counter()
    run_state_machine_as_test(
        type("Life", (Life,), {"spark": spark, "folder": tmp_path, "done": done}),
        settings=settings(
            max_examples=20,
            stateful_step_count=150,
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )
    assert done.total() == ENOUGH
    assert set(done) == set(OPERATIONS), "some kind of change never happened"
