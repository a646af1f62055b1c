"""A REST catalog of the tests: its properties, and how it is emptied between tests."""

from __future__ import annotations

import shutil
import sqlite3
from dataclasses import dataclass
from pathlib import Path

from bcn.catalog.protocol import CatalogSettings
from bcn.stack.process import Server


@dataclass(frozen=True)
class RestServer:
    """Iceberg's own server on local files."""

    server: Server

    @property
    def uri(self) -> str:
        return f"http://{self.server.address}"

    @property
    def warehouse(self) -> Path:
        return Path(self.server.folder) / "warehouse"

    def settings(self, name: str = "prod", **more: str) -> CatalogSettings:
        properties = {"uri": self.uri, "warehouse": f"file://{self.warehouse}", **more}
        return CatalogSettings(name, "rest", properties)

    def empty(self) -> None:
        """Behind the server's back: it keeps nothing but what is in its database."""
        connection = sqlite3.connect(Path(self.server.folder) / "catalog.db", timeout=20)
        with connection:
            connection.execute("DELETE FROM iceberg_tables")
            connection.execute("DELETE FROM iceberg_namespace_properties")
        connection.close()
        shutil.rmtree(self.warehouse, ignore_errors=True)
