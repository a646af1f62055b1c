"""A small catalog that lives: tables come, go, are renamed and change, with a backup now and then.

Real metadata and real backups; the work is done in this process, so no Spark is needed.
"""

from __future__ import annotations

import json
import sqlite3
import uuid
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bcn.model import PitId, TableId
from bcn.repository.inventory import load_inventory
from bcn.repository.pit import PitManifest
from bcn.repository.repository import Repository
from tests.support.shapes.twin import write_twin
from tests.support.small import SOURCE, SmallPlace, SmallTable, open_small

Json = dict[str, Any]
APPENDED = 8_000_000_000_000_000_001


def append(document: Json) -> None:
    """One more snapshot: the files of the last one, and a summary that counts rows."""
    last = document["snapshots"][-1]
    number = APPENDED + len(document["snapshots"])
    totals = {"total-records": "120", "total-position-deletes": "7"}
    document["snapshots"].append(
        {
            **last,
            "snapshot-id": number,
            "parent-snapshot-id": last["snapshot-id"],
            "summary": {"operation": "append", **totals},
            "manifest-list": last["manifest-list"].replace("snap-1", "snap-2"),
        }
    )
    document["current-snapshot-id"] = number
    document["refs"]["main"]["snapshot-id"] = number


@dataclass
class World:
    """The source and its repository."""

    place: SmallPlace
    tables: dict[str, SmallTable] = field(default_factory=dict)
    made: int = 0

    @property
    def repository(self) -> Repository:
        return self.place.product.repository

    def pit(self, pit: PitId) -> PitManifest:
        manifest = self.repository.find_pit(pit)
        assert manifest is not None
        return manifest

    def inventory(self, name: str) -> list[Json]:
        """The folded inventory of a table in the newest PIT."""
        newest = self.repository.find_newest()
        assert newest is not None
        record = next(item for item in newest.objects if item.table.name == name)
        entry = self.repository.load_entry(record.entry)
        return list(load_inventory(self.repository.storage, entry.layers).to_pylist())

    def backup(self, **more: Any) -> PitId:
        return self.place.backup(accept_deletions=True, **more).pit

    # the source

    def add(self, name: str, database: str = "db") -> SmallTable:
        self.made += 1
        root = str(self.place.warehouse / database / f"{name}-{self.made}")
        table = SmallTable(root, Path(write_twin(root, 2)))
        lists = table.path("metadata")
        (lists / "snap-2.avro").write_bytes((lists / "snap-1.avro").read_bytes())
        table.edit(lambda document: document.update({"table-uuid": str(uuid.UUID(int=self.made))}))
        catalog = self.place.product.open(SOURCE)
        catalog.create_namespace((database,), {})
        catalog.register(TableId((database,), name), table.location)
        self.tables[name] = table
        return table

    def register(self, name: str, table: SmallTable, database: str = "db") -> None:
        """A table that was dropped is there again, with its uuid."""
        self.place.product.open(SOURCE).register(TableId((database,), name), table.location)

    def commit(self, name: str, change: Callable[[Json], None]) -> SmallTable:
        table = self.tables[name]
        self.place.commit(table, change, name)
        return table

    def rename(self, old: str, database: str, new: str) -> None:
        self.place.product.open(SOURCE).create_namespace((database,), {})
        self._write(
            "UPDATE iceberg_tables SET table_namespace = ?, table_name = ? WHERE table_name = ?",
            (database, new, old),
        )
        self.tables[new] = self.tables.pop(old)

    def drop(self, name: str) -> None:
        self.place.drop(name)

    def set_namespace(self, name: str, properties: dict[str, str]) -> None:
        self.drop_namespace(name)
        self.place.product.open(SOURCE).create_namespace((name,), properties)

    def drop_namespace(self, name: str) -> None:
        self.place.product.open(SOURCE)
        self._write("DELETE FROM iceberg_namespace_properties WHERE namespace = ?", (name,))

    def set_view(self, name: str, sql: str) -> None:
        """A view, made or replaced; its metadata file is a new one each time."""
        self.made += 1
        path = self.place.warehouse / "db" / name / "metadata" / f"{self.made:05d}-v.metadata.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(_view(str(path.parents[1]), sql)))
        self._write("DELETE FROM iceberg_tables WHERE table_name = ?", (name,))
        self._write(
            "INSERT INTO iceberg_tables VALUES ('source', 'db', ?, ?, NULL, 'VIEW')",
            (name, str(path)),
        )

    def _write(self, statement: str, values: tuple[str, ...]) -> None:
        with closing(sqlite3.connect(self.place.folder / "source.db")) as database, database:
            database.execute(statement, values)


def _view(location: str, sql: str) -> Json:
    representation = {"type": "sql", "sql": sql, "dialect": "spark"}
    return {
        "format-version": 1,
        "view-uuid": "3d9dd3a5-3b7f-4b7e-9d8f-6a1f5f1a0001",
        "location": location,
        "current-version-id": 1,
        "versions": [
            {
                "version-id": 1,
                "schema-id": 0,
                "timestamp-ms": 1700000000000,
                "default-namespace": ["db"],
                "representations": [representation],
            }
        ],
        "version-log": [],
        "schemas": [{"type": "struct", "schema-id": 0, "fields": []}],
        "properties": {},
    }


def open_world(folder: Path) -> World:
    place = open_small(folder)
    place.make_repository()
    return World(place)
