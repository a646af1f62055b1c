"""Small tables written by hand, a repository and a catalog to restore into, all without Spark.

A round trip takes a second, so that one can be had for every step that may be left out.
"""

from __future__ import annotations

import json
import pickle
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bcn.backup.report import BackupReport
from bcn.backup.run import BackupRequest, run_backup
from bcn.catalog.protocol import Catalog, Pointer
from bcn.engine.spark import Engine, SparkSettings
from bcn.model import TableId
from bcn.repository.entry import Entry
from bcn.repository.inventory import load_inventory
from bcn.repository.repository import Scope, create_repository
from bcn.restore.plan import RestoreRequest
from bcn.restore.report import RestoreReport
from bcn.restore.run import run_restore
from bcn.telemetry.progress import Silent
from tests.support.compare import compare_tables
from tests.support.compare.avro import AvroFile
from tests.support.compare.twins import Twins, edit_manifest
from tests.support.product import Product, sql_settings
from tests.support.shapes.twin import write_twin

SOURCE, TARGET = "source", "target"
SCOPE = Scope(SOURCE)
Json = dict[str, Any]


class InProcess(Engine):
    """An engine that runs the executors' own functions here; what they are sent is sent."""

    slots = 2
    host = "127.0.0.1"
    context = None

    def __init__(self) -> None:
        super().__init__(SparkSettings())

    def warm_up(self) -> None:
        """Nothing to start."""

    def run(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        function = pickle.loads(pickle.dumps(function))
        return [pickle.loads(pickle.dumps(function(task))) for task in _sent(tasks)]


def _sent(tasks: Sequence[Any]) -> list[Any]:
    return [pickle.loads(pickle.dumps(task)) for task in tasks]


class AtPhase(Silent):
    """Does something as soon as a run enters a phase."""

    def __init__(self, name: str, action: Callable[[], None]) -> None:
        self._name = name
        self._action = action

    def phase(self, name: str, files: int | None = None, size_bytes: int | None = None) -> None:
        if name == self._name:
            self._action()


class Wrapped:
    """A real catalog with one method of another kind."""

    def __init__(self, catalog: Catalog, method: str, replacement: Callable[..., Any]) -> None:
        self._catalog = catalog
        setattr(self, method, replacement)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._catalog, name)


@dataclass
class SmallTable:
    """A table of the source, and ways to change it behind its catalog's back."""

    root: str
    metadata: Path

    @property
    def location(self) -> str:
        return str(self.metadata)

    @property
    def document(self) -> Json:
        return dict(json.loads(self.metadata.read_text()))

    def path(self, relative: str) -> Path:
        return Path(self.root, relative)

    def edit(self, change: Callable[[Json], None]) -> None:
        """Change the metadata file in place."""
        document = self.document
        change(document)
        self.metadata.write_text(json.dumps(document))

    def edit_manifest(self, change: Callable[[AvroFile], None], name: str = "m0") -> None:
        """Change a manifest in place; lists get its new length."""
        twins = Twins(self.root, self.root, self.location, self.location)
        edit_manifest(twins, change, name)


@dataclass
class SmallPlace:
    """A source of small tables, its repository, and a place to restore to."""

    folder: Path
    product: Product

    @property
    def warehouse(self) -> Path:
        return self.folder / SOURCE

    # the source

    def add(self, version: int = 2, name: str = "t") -> SmallTable:
        """A new table `db.<name>`; its uuid ends in the number of tables."""
        root = str(self.warehouse / "db" / name)
        table = SmallTable(root, Path(write_twin(root, version)))
        catalog = self.product.open(SOURCE)
        count = len(list(catalog.iter_pointers())) if (self.folder / "source.db").exists() else 0
        table.edit(lambda document: document.update({"table-uuid": f"{'0' * 8}{_UUID}{count}"}))
        catalog.create_namespace(("db",), {})
        catalog.register(TableId(("db",), name), table.location)
        return table

    def commit(self, table: SmallTable, change: Callable[[Json], None], name: str = "t") -> None:
        """A new metadata file, and the catalog points to it."""
        document = table.document
        change(document)
        number = int(table.metadata.name[:5]) + 1
        table.metadata = table.metadata.with_name(f"{number:05d}-small.metadata.json")
        table.metadata.write_text(json.dumps(document))
        self._write(
            "UPDATE iceberg_tables SET metadata_location = ? WHERE table_name = ?",
            (table.location, name),
        )

    def drop(self, name: str = "t") -> None:
        """Out of the catalog; the files stay."""
        self._write("DELETE FROM iceberg_tables WHERE table_name = ?", (name,))

    def _write(self, statement: str, values: tuple[str, ...]) -> None:
        connection = sqlite3.connect(self.folder / "source.db")
        with connection:
            connection.execute(statement, values)
        connection.close()

    def move_source_away(self) -> None:
        self.warehouse.rename(self.folder / "away")

    # the product

    def make_repository(self) -> None:
        create_repository(self.product.spec, None, datetime.now(UTC))

    def backup(
        self,
        *,
        progress: Silent | None = None,
        catalog: Catalog | Wrapped | None = None,
        at: datetime | None = None,
        **more: Any,
    ) -> BackupReport:
        request = BackupRequest(self.product.spec, SCOPE, **more)
        opened: Any = self.product.open if catalog is None else lambda _: catalog
        now = lambda: at or datetime.now(UTC)  # noqa: E731  a clock, that may stand still
        return run_backup(request, opened, self.product.engine, now, progress)

    def restore(
        self,
        *,
        progress: Silent | None = None,
        catalog: Catalog | Wrapped | None = None,
        **more: Any,
    ) -> RestoreReport:
        newest = self.product.repository.find_newest()
        assert newest is not None
        values = {"pit": newest.pit, "target_catalog": TARGET, **more}
        opened: Any = self.product.open if catalog is None else lambda _: catalog
        request = RestoreRequest(self.product.spec, **values)
        return run_restore(request, opened, self.product.engine, progress)

    def find_restored(self, name: str = "t") -> Pointer | None:
        """What the target catalog knows; None if it is not even there."""
        if not (self.folder / "target.db").exists():
            return None
        return self.product.open(TARGET).find_pointer(TableId(("db",), name))

    # what became of it

    def differences(self, table: SmallTable, report: RestoreReport) -> list[str]:
        """How the only restored table differs from its source, wherever that is by now."""
        restored = report.tables[0]
        roots = [(move.old, move.new) for move in restored.roots]
        found = compare_tables(
            table.location, restored.metadata_location, roots, self.relocated_source
        )
        return [str(difference) for difference in found]

    def relocated_source(self, location: str) -> Path:
        path = Path(location)
        away = self.folder / "away"
        return away / path.relative_to(self.warehouse) if away.exists() else path

    def entry(self) -> Entry:
        """The only table's entry in the newest PIT."""
        newest = self.product.repository.find_newest()
        assert newest is not None
        return self.product.repository.load_entry(newest.objects[0].entry)

    def inventory(self) -> list[Json]:
        """The folded inventory of the only table in the newest PIT."""
        rows = load_inventory(self.product.repository.storage, self.entry().layers)
        return list(rows.to_pylist())

    def stored(self, pattern: str) -> list[Path]:
        """Files of the repository."""
        return sorted(path for path in self.product.location.rglob(pattern) if path.is_file())


_UUID = "-0000-0000-0000-00000000000"


def open_small(folder: Path, engine: Any = None) -> SmallPlace:
    """An empty place in a folder; its work is done in this process, or by an engine."""
    catalogs = {
        SOURCE: sql_settings(SOURCE, folder / "source.db", folder / SOURCE),
        TARGET: sql_settings(TARGET, folder / "target.db", folder / TARGET),
    }
    return SmallPlace(folder, Product(folder / "repository", catalogs, engine or InProcess()))
