"""Changing a record of the Hive Metastore, as Iceberg's own commits do: under the table's lock."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from copy import deepcopy

from hive_metastore.ThriftHiveMetastore import Client
from hive_metastore.ttypes import (
    CheckLockRequest,
    EnvironmentContext,
    LockComponent,
    LockLevel,
    LockRequest,
    LockResponse,
    LockState,
    LockType,
    Table,
    UnlockRequest,
)

from bcn.catalog.hive_client import LostAnswerError, Metastore, RefusalError
from bcn.catalog.hive_table import METADATA_LOCATION, PREVIOUS_LOCATION
from bcn.errors import CatalogError
from bcn.model import TableId

WAIT_SECONDS = 60.0  # commits are short
_PAUSE_SECONDS = 0.2
# What the metastore says: of types, beside those of the old columns; of a record.
_OTHER_TYPES, _MODIFIED = "incompatible", "has been modified"
_HANDLER = "storage_handler"


def swap(
    metastore: Metastore, table: TableId, record: Table, find: Callable[[], Table | None]
) -> bool:
    """Put a record in the place of the one that names its previous metadata file.

    False if there is none any more. `find` gives the record of now. Raises CatalogError.
    """
    with locked(metastore, table):
        found = find()
        if found is None or _place(found) != record.parameters[PREVIOUS_LOCATION]:
            return False
        _keep(found, record)
        try:
            _alter_columns(metastore, found, record)
        except (RefusalError, LostAnswerError) as error:
            now = find()
            if now is not None and _place(now) == _place(record):
                return True
            if _MODIFIED in str(error):
                return False
            raise
        return True


def _keep(found: Table, record: Table) -> None:
    """What a table has of Hive, and not of its metadata."""
    record.createTime, record.owner = found.createTime, found.owner
    handler = found.parameters.get(_HANDLER)
    if handler is not None and _HANDLER not in record.parameters:  # the engine is set to use it
        record.parameters[_HANDLER] = handler
        record.sd.inputFormat, record.sd.outputFormat = found.sd.inputFormat, found.sd.outputFormat
        record.sd.serdeInfo = found.sd.serdeInfo


def _alter_columns(metastore: Metastore, found: Table, record: Table) -> None:
    """Columns are compared one by one with the old ones: not if there are none.

    Iceberg reads its columns elsewhere, and misses nothing meanwhile.
    """
    old = record.parameters[PREVIOUS_LOCATION]
    # Newer metastores compare and swap by themselves, for writers that take no lock.
    expected = {"expected_parameter_key": METADATA_LOCATION, "expected_parameter_value": old}
    try:
        _alter(metastore, record, expected)
    except RefusalError as error:
        if _OTHER_TYPES not in error.reason:
            raise
        bare = deepcopy(found)
        bare.sd.cols = []
        _alter(metastore, bare, {})
        _alter(metastore, record, expected)


def _place(record: Table) -> str | None:
    place: str | None = (record.parameters or {}).get(METADATA_LOCATION)
    return place


def _alter(metastore: Metastore, record: Table, more: Mapping[str, str]) -> None:
    context = EnvironmentContext({"DO_NOT_UPDATE_STATS": "true", **more})

    def alter(client: Client) -> None:
        client.alter_table_with_environment_context(
            record.dbName, record.tableName, record, context
        )

    metastore.write(alter)


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
            hint="wait until it is done, or some minutes for the lock of one that was killed;"
            " SHOW LOCKS in Hive says who it is",
        )
