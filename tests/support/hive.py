"""A Hive Metastore, and its raw thrift client to look at what was written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hive_metastore.ThriftHiveMetastore import Client
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport

from bcn.catalog.protocol import CatalogSettings
from bcn.stack.process import Server


@dataclass(frozen=True)
class HiveServer:
    """One metastore; tests that need it empty say so."""

    server: Server

    @property
    def uri(self) -> str:
        return f"thrift://{self.server.address}"

    def settings(self, name: str, warehouse: Path | str, **more: str) -> CatalogSettings:
        return CatalogSettings(name, "hive", {"uri": self.uri, "warehouse": str(warehouse), **more})

    @contextmanager
    def client(self) -> Iterator[Any]:
        """A second opinion, by thrift itself."""
        transport = TBufferedTransport(TSocket("127.0.0.1", self.server.port))
        transport.open()
        try:
            yield Client(TBinaryProtocol(transport))
        finally:
            transport.close()

    def empty(self) -> None:
        """Drop everything but the files, and but the database that every metastore has."""
        with self.client() as client:
            for database in client.get_all_databases():
                for table in client.get_all_tables(database):
                    client.drop_table(database, table, False)
                if database != "default":
                    client.drop_database(database, False, True)
