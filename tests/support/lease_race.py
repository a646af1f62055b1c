"""Processes that race for a lease. They import nothing heavy, so that they start together."""

from __future__ import annotations

import multiprocessing
import sys
from datetime import UTC, datetime
from functools import partial
from threading import Barrier

from bcn.errors import RepositoryLockedError
from bcn.model import PitId
from bcn.repository.lease import LeaseSettings, Lessor
from bcn.storage.open import open_storage
from bcn.storage.protocol import StorageSpec


def race_for_lease(spec: StorageSpec, count: int) -> list[int]:
    """The exit codes of processes that all want the same lease and publish `pit-<number>`."""
    context = multiprocessing.get_context("spawn")
    start, end = context.Barrier(count), context.Barrier(count)
    processes = [
        context.Process(target=_take, args=(spec, number, start, end)) for number in range(count)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(timeout=90)
    return [-1 if process.exitcode is None else process.exitcode for process in processes]


def _take(spec: StorageSpec, number: int, start: Barrier, end: Barrier) -> None:
    """Exit code 0 for the one who got the lease, 11 for the others."""
    lessor = Lessor(open_storage(spec), LeaseSettings(), partial(datetime.now, UTC))
    lessor.wait_until_free(0.0, lambda _: None)
    pit = PitId.parse(f"20260101T00000{number}.000000Z")
    start.wait(timeout=60)
    try:
        with lessor.hold(pit, f"pit-{number}", None) as lease:
            end.wait(timeout=60)
            lease.publish(b"done")
    except RepositoryLockedError as error:
        end.wait(timeout=60)
        sys.exit(error.exit_code)
