"""A small source of several databases, tables that are dropped and made again, and views."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bcn.iceberg.metadata import parse_metadata
from bcn.model import PitId, TableId, sha256
from bcn.restore.report import RestoreReport
from tests.support.shapes.twin import write_twin
from tests.support.small import SOURCE, TARGET, SmallPlace, SmallTable


def add(small: SmallPlace, name: str, number: int, **properties: str) -> SmallTable:
    """A table of that full name, known by its number."""
    table = TableId.parse(name)
    root = str(small.warehouse / "/".join((*table.namespace, f"{table.name}-{number}")))
    made = SmallTable(root, Path(write_twin(root, 2)))
    made.edit(lambda document: document.update({"table-uuid": uuid_of(number)}))
    catalog = small.product.open(SOURCE)
    catalog.create_namespace(table.namespace, properties)
    catalog.register(table, made.location)
    return made


def uuid_of(number: int) -> str:
    return f"00000000-0000-0000-0000-{number:012d}"


def drop(small: SmallPlace, name: str) -> None:
    table = TableId.parse(name)
    small._write(
        "DELETE FROM iceberg_tables WHERE table_namespace = ? AND table_name = ?",
        (".".join(table.namespace), table.name),
    )


def shop(small: SmallPlace) -> list[PitId]:
    """Four tables; then one is dropped, one is dropped and made again. Two PITs."""
    for number, name in enumerate(("sales.orders", "sales.items", "hr.people", "hr.tmp_1"), 1):
        add(small, name, number)
    first = small.backup().pit
    drop(small, "sales.items")
    drop(small, "hr.people")
    add(small, "hr.people", 5)
    second = small.backup().pit
    assert first is not None
    assert second is not None
    return [first, second]


def names(report: RestoreReport) -> list[str]:
    return [str(item.table) for item in report.tables]


def registered(small: SmallPlace, catalog: str = TARGET) -> list[str]:
    path = small.folder / f"{catalog}.db"
    if not path.exists():
        return []
    return [str(pointer.table) for pointer in small.product.open(catalog).iter_pointers()]


def document_of(small: SmallPlace, name: str, catalog: str = TARGET) -> Any:
    pointer = small.product.open(catalog).find_pointer(TableId.parse(name))
    assert pointer is not None
    return parse_metadata(Path(pointer.metadata_location).read_bytes())


def add_view(small: SmallPlace, name: str, sql: str, **version: Any) -> Path:
    """A view of that full name; its metadata file."""
    view = TableId.parse(name)
    location = small.warehouse / "/".join((*view.namespace, view.name))
    document = {
        "view-uuid": f"99999999-0000-0000-0000-{int(sha256(name.encode())[:8], 16):012d}",
        "format-version": 1,
        "location": str(location),
        "schemas": [{"type": "struct", "schema-id": 0, "fields": []}],
        "current-version-id": 1,
        "versions": [
            {
                "version-id": 1,
                "timestamp-ms": 1,
                "schema-id": 0,
                "summary": {},
                "default-namespace": list(view.namespace),
                "representations": [{"type": "sql", "sql": sql, "dialect": "spark"}],
                **version,
            }
        ],
        "version-log": [{"timestamp-ms": 1, "version-id": 1}],
        "properties": {},
    }
    path = location / "metadata" / "00000-v.metadata.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(document))
    catalog = small.product.open(SOURCE)
    catalog.create_namespace(view.namespace, {})
    catalog.register_view(view, str(path))
    return path
