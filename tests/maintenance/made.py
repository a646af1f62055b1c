"""A repository that was made for tests, and ways to look into it and to hurt it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from bcn.engine.spark import Engine, SparkSettings
from bcn.maintenance.report import Finding, VerifyReport
from bcn.maintenance.verify import VerifyRequest, run_verify
from bcn.model import Json, PitId, sha256
from bcn.repository.document import render_document, with_checksum
from bcn.repository.entry import Entry, parse_entry
from bcn.repository.inventory import load_inventory, parse_layer, render_layer
from bcn.repository.pit import ObjectRecord
from bcn.repository.repository import Repository, open_repository
from bcn.storage.protocol import StorageSpec

MOMENT = datetime(2026, 1, 2, tzinfo=UTC)


@dataclass(frozen=True)
class Made:
    location: Path
    first: PitId
    second: PitId

    @property
    def spec(self) -> StorageSpec:
        return StorageSpec(str(self.location))

    @property
    def open(self) -> Repository:
        return open_repository(self.spec)

    def verify(self, level: int, **more: Any) -> VerifyReport:
        engine = Engine(SparkSettings(master="local[2]", iceberg=True))
        return run_verify(VerifyRequest(self.spec, level=level, **more), engine, lambda: MOMENT)

    def record(self, table: str = "sales.orders", pit: PitId | None = None) -> ObjectRecord:
        manifest = self.open.find_pit(pit or self.second)
        assert manifest is not None
        return next(item for item in manifest.objects if str(item.table) == table)

    def entry(self, table: str = "sales.orders", pit: PitId | None = None) -> Entry:
        return self.open.load_entry(self.record(table, pit).entry)

    def rows(self, table: str = "sales.orders", pit: PitId | None = None) -> pa.Table:
        return load_inventory(self.open.storage, self.entry(table, pit).layers)

    def keys(self, kind: str, table: str = "sales.orders") -> list[str]:
        rows = self.rows(table).to_pylist()
        return sorted({row["key"] for row in rows if row["kind"] == kind})

    def pit_key(self, pit: PitId) -> str:
        return self.open.pit_key(pit)

    def path(self, key: str) -> Path:
        return self.location / key

    # damage that carries its own digests on, as a wrong writer would make it

    def edit_pit(self, pit: PitId, change: Callable[[Json], None]) -> None:
        path = self.path(self.pit_key(pit))
        document = json.loads(path.read_bytes())
        change(document)
        document.pop("manifest_checksum")
        path.write_bytes(render_document(with_checksum(document, "manifest_checksum")))

    def edit_entry(self, change: Callable[[Json], None], table: str = "sales.orders") -> str:
        """Changes the entry of the second PIT, whose record then has its new digest."""
        record = self.record(table)
        path = self.path(record.entry.key)
        document = json.loads(path.read_bytes())
        change(document)
        data = render_document(document)
        path.write_bytes(data)

        def follow(pit: Json) -> None:
            for item in pit["objects"]:
                if item["name"] == table:
                    item["entry"] |= {"sha256": sha256(data), "size_bytes": len(data)}

        self.edit_pit(self.second, follow)
        return record.entry.key

    def edit_layer(self, change: Callable[[pa.Table], pa.Table]) -> str:
        """Changes the newest layer of orders, whose entry and PIT then have its new digest."""
        entry = parse_entry(self.path(self.record().entry.key).read_bytes(), "entry")
        key = entry.layers[-1].parts[0].key
        rows = change(parse_layer(self.path(key).read_bytes(), key))
        data = render_layer(rows)
        self.path(key).write_bytes(data)

        def follow(document: Json) -> None:
            part = document["layers"][-1]["parts"][0]
            part |= {"sha256": sha256(data), "size_bytes": len(data), "rows": rows.num_rows}

        self.edit_entry(follow)
        return key


def edit_column(column: str, value: object, row: int = 0) -> Callable[[pa.Table], pa.Table]:
    def change(rows: pa.Table) -> pa.Table:
        found = rows.to_pylist()
        added = [item for item in found if item["change"] == "added" and item["kind"] == "data"]
        added[row][column] = value
        return pa.Table.from_pylist(found, rows.schema)

    return change


def flip(path: Path, position: int = -1) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


def only(report: VerifyReport) -> Finding:
    assert len(report.findings) == 1, report.findings
    return report.findings[0]
