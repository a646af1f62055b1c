"""How long looking into a large repository takes: 1,000 tables, 500 PITs, whole processes.

Its documents are made by the product's own functions, as backups of tables that hold nothing would.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import statistics
import subprocess
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from bcn.iceberg.metadata import render_json
from bcn.model import Json, PitId, TableId, iso, sha256
from bcn.repository import layout
from bcn.repository.document import render_document
from bcn.repository.entry import Entry, Layer, LayerPart, Root, render_entry
from bcn.repository.inventory import LAYER_SCHEMA, render_layer
from bcn.repository.pit import EntryRef, Namespace, ObjectRecord, PitManifest, render_pit
from bcn.repository.repository import Repository, Scope, create_repository, summary_line
from bcn.storage.protocol import StorageSpec
from bench.command import BCN
from bench.table import CACHE

TABLES, PITS, CHANGED = 1_000, 500, 10
TURNS = 9
BOUNDS = {
    "list --pit latest": 0.7,
    "list": 1.0,
    "describe": 1.0,
    "diff latest~1": 2.0,
    "diff of first and last": 15.0,
    "log, changed in each": 3.0,
    "log, changed in few": 1.5,
}
_CATALOG = "lake"
_START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Made:
    """A table's version: what its PIT says of it."""

    record: ObjectRecord
    layers: tuple[Layer, ...]


def make_repository(folder: Path, tables: int = TABLES, pits: int = PITS) -> Repository:
    """One PIT a day; the first table changes in each, and nine others in turn."""
    spec = StorageSpec(str(folder))
    repository = create_repository(spec, Scope(_CATALOG), _START)
    names = [TableId((f"db{number % 20:02d}",), f"table_{number:04d}") for number in range(tables)]
    made: list[Made] = []
    lines, parent = [], None
    for day in range(pits):
        pit = PitId.of(_START + timedelta(days=day))
        changed = set(_changed(day, tables)) if day else set(range(tables))
        made = [
            _change(repository, names[number], pit, made[number] if day else None)
            if number in changed
            else _keep(made[number])
            for number in range(tables)
        ]
        manifest = _manifest(repository, pit, parent, [item.record for item in made])
        repository.storage.replace(repository.pit_key(pit), render_document(render_pit(manifest)))
        lines.append(json.dumps(summary_line(manifest)) + "\n")
        parent = pit
    repository.storage.replace(layout.pits_index_key(_CATALOG), "".join(lines).encode())
    return repository


def _changed(day: int, tables: int) -> Iterator[int]:
    yield 0
    yield from ((day * (CHANGED - 1) + step) % tables for step in range(CHANGED - 1))


def _keep(made: Made) -> Made:
    return replace(made, record=replace(made.record, status="UNCHANGED", files_new=0, bytes_new=0))


def _change(repository: Repository, table: TableId, pit: PitId, before: Made | None) -> Made:
    """One more snapshot, whose files nobody has to open here."""
    object_id = str(uuid.uuid5(uuid.NAMESPACE_URL, str(table)))
    count = before.record.snapshots + 1 if before else 1
    root = f"s3://lake/{table.database}/{table.name}"
    path = f"metadata/{count:05d}-{object_id}.metadata.json"
    key = layout.data_key(object_id, 0, path)
    data = render_json(_document(object_id, root, count))
    repository.storage.replace(key, data)
    layer = _layer(repository, table, pit, "full" if before is None else "delta", (path, key, data))
    layers = (*(before.layers if before and len(before.layers) < 16 else ()), layer)
    entry = Entry(
        object_id=object_id,
        type="table",
        uuid=object_id,
        table=table,
        pit=pit,
        metadata_location=f"{root}/{path}",
        metadata_key=key,
        metadata_sha256=sha256(data),
        metadata_version=f"{len(data)}-{pit}",
        roots=(Root(0, root),),
        layers=(replace(layers[0], kind="full"), *layers[1:]),
        files=count * 3,
        size_bytes=count * 1_048_576,
        damaged=(),
        table_facts={"format_version": 2, "snapshots": count},
    )
    return Made(_record(repository, entry, "CHANGED" if before else "NEW"), entry.layers)


def _record(repository: Repository, entry: Entry, status: str) -> ObjectRecord:
    key = layout.entry_key(_CATALOG, entry.table, entry.pit)
    data = render_document(render_entry(entry))
    repository.storage.replace(key, data)
    return ObjectRecord(
        object_id=entry.object_id,
        type="table",
        table=entry.table,
        status=status,
        entry=EntryRef(key, sha256(data), len(data)),
        metadata_location=entry.metadata_location,
        metadata_version=entry.metadata_version,
        metadata_sha256=entry.metadata_sha256,
        files=entry.files,
        size_bytes=entry.size_bytes,
        snapshots=entry.table_facts["snapshots"],
        files_new=3,
        bytes_new=1_048_576,
    )


def _layer(
    repository: Repository, table: TableId, pit: PitId, kind: str, file: tuple[str, str, bytes]
) -> Layer:
    path, key, data = file
    row = dict.fromkeys(LAYER_SCHEMA.names)
    row |= {"change": "added", "kind": "metadata", "root_id": 0, "path": path, "key": key}
    row |= {"size_bytes": len(data), "stored_size_bytes": len(data), "first_pit": str(pit)}
    row |= {"sha256": hashlib.sha256(data).digest()}
    rendered = render_layer(pa.Table.from_pylist([row], LAYER_SCHEMA))
    layer_key = layout.layer_key(_CATALOG, table, pit, kind)
    repository.storage.replace(layer_key, rendered)
    return Layer(kind, pit, (LayerPart(layer_key, sha256(rendered), len(rendered), 1),))


def _document(object_id: str, root: str, count: int) -> Json:
    """Format version 2 with 20 columns and so many snapshots."""
    fields = [
        {"id": number, "name": f"column_{number}", "required": False, "type": "string"}
        for number in range(1, 21)
    ]
    snapshots = [
        {
            "snapshot-id": 7_000_000_000_000_000_000 + number,
            "sequence-number": number + 1,
            "timestamp-ms": 1_767_225_600_000 + number,
            "manifest-list": f"{root}/metadata/snap-{number}.avro",
            "summary": {"operation": "append", "total-records": str(number * 1000)},
        }
        for number in range(count)
    ]
    current = snapshots[-1]["snapshot-id"]
    return {
        "format-version": 2,
        "table-uuid": object_id,
        "location": root,
        "current-schema-id": 0,
        "schemas": [{"type": "struct", "schema-id": 0, "fields": fields}],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": {"owner": "bench"},
        "current-snapshot-id": current,
        "refs": {"main": {"snapshot-id": current, "type": "branch"}},
        "snapshots": snapshots,
    }


def _manifest(
    repository: Repository, pit: PitId, parent: PitId | None, objects: list[ObjectRecord]
) -> PitManifest:
    objects = sorted(objects, key=lambda item: item.table)
    return PitManifest(
        pit=pit,
        pit_uuid=str(uuid.uuid5(uuid.NAMESPACE_URL, str(pit))),
        parent=parent,
        captured_at=iso(pit.moment),
        repository=repository.identity(),
        consistency={"passes": 2, "window_ms": 900, "exact": True},
        bcn_version="0.1.0",
        objects=tuple(objects),
        namespaces=tuple(
            Namespace(levels, {}) for levels in sorted({item.table.namespace for item in objects})
        ),
    )


# measuring


def stocked(tables: int = TABLES, pits: int = PITS) -> Path:
    """Such a repository, made once and kept."""
    folder = CACHE / f"listing-{tables}-{pits}"
    done = folder.with_suffix(".done")
    if not done.exists():
        shutil.rmtree(folder, ignore_errors=True)
        make_repository(folder, tables, pits)
        done.touch()
    return folder


def run(turns: int = TURNS, tables: int = TABLES, pits: int = PITS) -> dict[str, Any]:
    """Seconds of each command, turn by turn."""
    folder = str(stocked(tables, pits))
    commands = {
        "list --pit latest": ("list", "--pit", "latest"),
        "list": ("list",),
        "describe": ("describe",),
        "diff latest~1": ("diff", "latest~1"),
        "diff of first and last": ("diff", str(PitId.of(_START))),
        "log, changed in each": ("log", "db00.table_0000"),
        "log, changed in few": ("log", "db01.table_0001"),
    }
    turned = [
        {name: _seconds([str(BCN), *words, "--repo", folder]) for name, words in commands.items()}
        for _ in range(turns)
    ]
    medians = {name: statistics.median(turn[name] for turn in turned) for name in commands}
    return {
        "tables": tables,
        "pits": pits,
        "turns": turned,
        "median_seconds": medians,
        "bounds": BOUNDS,
        "holds": {name: medians[name] <= bound for name, bound in BOUNDS.items()},
    }


def _seconds(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - started


def show(result: dict[str, Any]) -> None:
    """The figures for people."""
    print(f"\nwhole processes, {result['tables']:,} tables, {result['pits']:,} PITs")
    for name, seconds in result["median_seconds"].items():
        verdict = "holds" if result["holds"][name] else "DOES NOT HOLD"
        bound = result["bounds"][name]
        print(f"  bcn {name:24} median {seconds:.2f} s  at most {bound} s: {verdict}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--tables", type=int, default=TABLES, help="fewer, to try it")
    parser.add_argument("--pits", type=int, default=PITS, help="fewer, to try it")
    args = parser.parse_args()
    result = run(args.turns, args.tables, args.pits)
    print(json.dumps(result, indent=2)) if args.json else show(result)


if __name__ == "__main__":
    main()
