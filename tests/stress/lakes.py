"""Tables in buckets, a repository in a bucket, and a catalog to restore into, for small runs."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from bcn.backup.report import BackupReport
from bcn.backup.run import BackupRequest, run_backup
from bcn.catalog.protocol import CatalogSettings
from bcn.repository.repository import Scope
from bcn.restore.plan import RestoreRequest
from bcn.restore.report import RestoreReport
from bcn.restore.run import run_restore
from bcn.stack.process import Server
from bcn.storage.protocol import StorageSpec
from bcn.telemetry.progress import Silent
from tests.support.s3 import CloudProduct, Mirrored, add_twins, differences, sql_catalog
from tests.support.small import InProcess

SOURCE, TARGET = "source", "target"


class Told(Silent):
    """Keeps what people are told, and does something when a phase begins."""

    def __init__(self, phase: str = "", action: Callable[[], None] = lambda: None) -> None:
        self.messages: list[str] = []
        self._phase = phase
        self._action = action

    def message(self, text: str) -> None:
        self.messages.append(text)

    def phase(self, name: str, files: int | None = None, size_bytes: int | None = None) -> None:
        if name == self._phase:
            self._action()


@dataclass
class Lake:
    """Two tables in a bucket; everything goes by these properties."""

    bucket: Mirrored
    product: CloudProduct
    tables: dict[str, str]

    def backup(self, told: Told | None = None, catalog: Any = None, **more: Any) -> BackupReport:
        request = BackupRequest(self.product.spec, Scope(SOURCE), **more)
        opened: Any = self.product.open if catalog is None else lambda _: catalog
        now = partial(datetime.now, UTC)
        return run_backup(request, opened, self.product.engine, now, told)

    def restore(self, told: Told | None = None, **more: Any) -> RestoreReport:
        newest = self.product.repository.find_newest()
        assert newest is not None
        values = {"target_catalog": TARGET, **more}
        request = RestoreRequest(self.product.spec, newest.pit, **values)
        return run_restore(request, self.product.open, self.product.engine, told)

    def differences(self, report: RestoreReport) -> list[str]:
        self.bucket.download()
        return differences(self.tables, report)


def open_lake(
    bucket: Mirrored, folder: Path, properties: Mapping[str, str], **catalogs: CatalogSettings
) -> Lake:
    """A lake with its repository in the same bucket; catalogs are SQL ones unless given."""
    place = f"{bucket.location}/warehouse"
    made = {
        SOURCE: sql_catalog(SOURCE, folder / "source.db", place, properties),
        TARGET: sql_catalog(TARGET, folder / "target.db", f"{bucket.location}/back", properties),
        **catalogs,
    }
    spec = StorageSpec(f"{bucket.location}/repository", properties)
    product = CloudProduct(Path(), made, InProcess(), spec)
    # Written twice: servers want to see a table's files before they register it.
    scratch = sql_catalog(SOURCE, folder / "scratch.db", place, properties)
    add_twins(CloudProduct(Path(), {SOURCE: scratch}, InProcess(), spec), SOURCE, place)
    bucket.upload()
    return Lake(bucket, product, add_twins(product, SOURCE, place))


class Restarts:
    """A server that is killed without warning and comes back after a while, on the same port."""

    def __init__(self, server: Server, start: Callable[[], Server], pause_seconds: float) -> None:
        self.server = server
        self.count = 0
        self._start = start
        self._pause = pause_seconds
        self._thread: threading.Thread | None = None

    def kill(self) -> None:
        """As power cuts do; returns when it is gone, and before it is back."""
        self.count += 1
        os.kill(self.server.pid, signal.SIGKILL)
        while self.server.is_alive():
            pass
        self._thread = threading.Thread(target=self._come_back)
        self._thread.start()

    def _come_back(self) -> None:
        threading.Event().wait(self._pause)
        self.server = self._start()

    def stop(self) -> None:
        if self._thread is not None:
            self._thread.join()
        self.server.stop()
