"""The product as tests use it: backups and restores, on the Spark session of the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bcn.backup.report import BackupReport
from bcn.backup.run import BackupRequest, run_backup
from bcn.catalog.open import open_catalog
from bcn.catalog.protocol import Catalog, CatalogSettings
from bcn.engine.spark import Engine, SparkSettings
from bcn.model import PitId
from bcn.repository.repository import Repository, Scope, open_repository
from bcn.restore.plan import RestoreRequest
from bcn.restore.report import RestoreReport
from bcn.restore.run import run_restore
from bcn.storage.protocol import StorageSpec


def sql_settings(name: str, db_path: Path, warehouse: Path) -> CatalogSettings:
    return CatalogSettings(
        name, "sql", {"uri": f"sqlite:///{db_path}", "warehouse": str(warehouse)}
    )


def hadoop_settings(name: str, warehouse: Path) -> CatalogSettings:
    return CatalogSettings(name, "hadoop", {"warehouse": str(warehouse)})


@dataclass
class Product:
    """One repository, and the catalogs that backups and restores may name."""

    location: Path
    catalogs: Mapping[str, CatalogSettings]
    engine: Engine = field(default_factory=lambda: Engine(SparkSettings(master="local[2]")))

    @property
    def spec(self) -> StorageSpec:
        return StorageSpec(str(self.location))

    @property
    def repository(self) -> Repository:
        return open_repository(self.spec)

    def open(self, name: str) -> Catalog:
        return open_catalog(self.catalogs[name])

    def backup(self, scope: Scope | None = None, **more: Any) -> BackupReport:
        request = BackupRequest(self.spec, scope, **more)
        return run_backup(request, self.open, self.engine, lambda: datetime.now(UTC))

    def restore(self, pit: PitId | None = None, **more: Any) -> RestoreReport:
        newest = self.repository.find_newest()
        assert newest is not None
        request = RestoreRequest(self.spec, pit or newest.pit, **more)
        return run_restore(request, self.open, self.engine)


def digest_tree(folder: Path) -> dict[str, tuple[int, int]]:
    """Size and time of change of every file: what must not change, does not."""
    return {
        str(path.relative_to(folder)): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
