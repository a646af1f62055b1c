"""Locks of the Hive Metastore: whoever changes a table of Iceberg holds one meanwhile."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from hive_metastore.ttypes import (
    CheckLockRequest,
    LockComponent,
    LockLevel,
    LockRequest,
    LockResponse,
    LockState,
    LockType,
    UnlockRequest,
)

from bcn.catalog.hive_client import Metastore
from bcn.errors import CatalogError
from bcn.model import TableId

WAIT_SECONDS = 60.0  # commits are short
_PAUSE_SECONDS = 0.2


@contextmanager
def locked(metastore: Metastore, table: TableId) -> Iterator[None]:
    """Hold the table's exclusive lock, as Iceberg's own commits do. Raises CatalogError."""
    part = LockComponent(
        LockType.EXCLUSIVE, LockLevel.TABLE, table.namespace[0], table.name, isTransactional=True
    )
    wanted = LockRequest([part], user=metastore.user, hostname=socket.gethostname())
    answer = metastore.write(lambda client: client.lock(wanted))
    try:
        _await(metastore, answer, table, time.monotonic() + WAIT_SECONDS)
        yield
    finally:
        with suppress(CatalogError):  # one that is not given back ends by itself
            metastore.write(lambda client: client.unlock(UnlockRequest(answer.lockid)))


def _await(metastore: Metastore, answer: LockResponse, table: TableId, deadline: float) -> None:
    question = CheckLockRequest(answer.lockid)
    while answer.state == LockState.WAITING and time.monotonic() < deadline:
        time.sleep(_PAUSE_SECONDS)
        answer = metastore.write(lambda client: client.check_lock(question))
    if answer.state != LockState.ACQUIRED:
        raise CatalogError(
            f"{table} is locked by another writer",
            hint="wait until it is done; SHOW LOCKS in Hive says who it is",
        )
