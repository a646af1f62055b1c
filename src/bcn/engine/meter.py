"""Counts from running tasks to the driver, by datagrams: cheap, and nothing waits for them.

A task sends its totals so far; a lost datagram is made good by the next one. The driver's figures
at the end come from the tasks' results, never from here.
"""

from __future__ import annotations

import json
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from bcn.telemetry.progress import Progress

_INTERVAL_SECONDS = 0.3


@dataclass(frozen=True, slots=True)
class MeterAddress:
    """Where tasks send their counts, and the word that proves they belong to this run."""

    host: str
    port: int
    token: str


class Meter:
    """The counts of one task."""

    def __init__(self, address: MeterAddress | None, task: int) -> None:
        self._address = address
        self._task = task
        self._sent_at = 0.0
        self.files = 0
        self.size_bytes = 0

    def add(self, files: int, size_bytes: int) -> None:
        """Count, and tell the driver now and then."""
        self.files += files
        self.size_bytes += size_bytes
        if self._address is not None and time.monotonic() - self._sent_at > _INTERVAL_SECONDS:
            self.send()

    def send(self) -> None:
        """Tell the driver."""
        if self._address is None:
            return
        self._sent_at = time.monotonic()
        data = json.dumps([self._address.token, self._task, self.files, self.size_bytes]).encode()
        with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(data, (self._address.host, self._address.port))


@contextmanager
def listen(host: str, progress: Progress) -> Iterator[MeterAddress | None]:
    """Receive counts of tasks until the end of the block, and report their sums.

    A driver whose address is not one of this machine's own (behind NAT) goes without.
    """
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        receiver.bind((host, 0))
    except OSError:
        receiver.close()
        yield None
        return
    receiver.settimeout(0.5)
    address = MeterAddress(host, receiver.getsockname()[1], secrets.token_hex(8))
    stopped = threading.Event()
    thread = threading.Thread(
        target=_receive, args=(receiver, address.token, progress, stopped), daemon=True
    )
    thread.start()
    try:
        yield address
    finally:
        stopped.set()
        with suppress(OSError):
            receiver.sendto(b"", (host, address.port))  # wakes the thread: nobody waits for it
        thread.join(timeout=2)
        receiver.close()


def _receive(
    receiver: socket.socket, token: str, progress: Progress, stopped: threading.Event
) -> None:
    counts: dict[int, tuple[int, int]] = {}
    while not stopped.is_set():
        try:
            word, task, files, size_bytes = json.loads(receiver.recv(512))
        except (TimeoutError, ValueError, TypeError):
            continue
        if word == token:
            counts[task] = (files, size_bytes)
            progress.update(
                sum(count[0] for count in counts.values()), sum(c[1] for c in counts.values())
            )
