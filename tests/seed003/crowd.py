"""A catalog of many small tables, written without Spark, and many PITs of it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from bcn.model import PitId
from bcn.repository.document import render_document
from bcn.repository.pit import render_pit
from bcn.repository.repository import open_repository
from bcn.storage.protocol import StorageSpec
from tests.seed003.tables import add_database
from tests.support.shapes.model import World
from tests.support.shapes.twin import write_twin

TABLES, DATABASES = 100, 4


def names() -> Iterator[str]:
    """`db0.t00` to `db3.t99`."""
    return (f"db{number % DATABASES}.t{number:02}" for number in range(TABLES))


def add_crowd(world: World) -> None:
    """Real tables of twelve rows and a few deletes each, registered in the SQL catalog."""
    for number in range(DATABASES):
        add_database(world, f"db{number}")
    rows = []
    for number, name in enumerate(names()):
        root = str(world.warehouse.joinpath(*name.split(".")))
        path = Path(write_twin(root, 2))
        document = json.loads(path.read_text())
        document["table-uuid"] = f"00000000-0000-4000-8000-{number:012}"
        path.write_text(json.dumps(document))
        rows.append((world.catalog, *name.split("."), str(path)))
    insert = "INSERT INTO iceberg_tables VALUES (?, ?, ?, ?, NULL, 'TABLE')"
    with closing(sqlite3.connect(world.db_path)) as database, database:
        database.executemany(insert, rows)


def repeat_newest(repository: Path, count: int) -> list[str]:
    """So many PITs more, each like the newest and a minute after it; their ids."""
    opened = open_repository(StorageSpec(str(repository)))
    newest: Any = opened.find_newest()
    made = []
    for _ in range(count):
        pit = PitId.of(newest.pit.moment + timedelta(minutes=1))
        newest = replace(newest, pit=pit, parent=newest.pit)
        opened.storage.write_once(opened.pit_key(pit), render_document(render_pit(newest)))
        made.append(str(pit))
    return made
