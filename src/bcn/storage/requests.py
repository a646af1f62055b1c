"""Requests to object stores: counted, and tried again for as long as that makes sense."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TypeVar

from bcn.storage.fault import Fault, Kind

Answer = TypeVar("Answer")

_lock = threading.Lock()
_counts: Counter[str] = Counter()


def count_request(kind: str) -> None:
    """One more request of a kind: get, put, head, list, copy, delete, upload, retry."""
    with _lock:
        _counts[kind] += 1


def request_counts() -> Mapping[str, int]:
    """How many requests of each kind this process has made so far."""
    with _lock:
        return dict(_counts)


# How long a fault is waited out, from the first one on: a large object may take longer than that
# by itself. A server that has never answered is most likely not there, and is not given more time.
_UNPROVEN_SECONDS = 6.0
_PATIENCE_SECONDS: Mapping[Kind, float] = {
    Kind.BUSY: 180.0,
    Kind.SERVER: 30.0,
    Kind.CONNECTION: 60.0,
    Kind.TIMEOUT: 60.0,
}
_ABSENT = frozenset({Kind.CONNECTION, Kind.TIMEOUT})
_GIVEN_UP_SECONDS = 10.0
_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS = 0.1, 10.0


class Patience:
    """Repeats requests to one server that may succeed later; knows whether it ever answered."""

    def __init__(self) -> None:
        self.is_proven = False
        self._given_up: tuple[float, Fault] | None = None

    def call(self, kind: str, request: Callable[[], Answer]) -> Answer:
        """What the request gives. Raises Fault."""
        self._check_given_up()
        since, wait = time.monotonic(), _FIRST_WAIT_SECONDS
        has_failed = False
        while True:
            count_request(kind)
            try:
                answer = request()
            except Fault as fault:
                self._note(fault)
                if self.is_proven and not has_failed:
                    since, has_failed = time.monotonic(), True
                if time.monotonic() - since + wait > self._limit(fault):
                    self._given_up = time.monotonic(), fault
                    raise
            else:
                self.is_proven = True
                return answer
            count_request("retry")
            time.sleep(wait * random.uniform(0.5, 1.0))  # noqa: S311  so that not all come back at once
            wait = min(2 * wait, _LONGEST_WAIT_SECONDS)

    def _check_given_up(self) -> None:
        """A server that is not there is waited for once, not for each of a thousand tables."""
        if self.is_proven or self._given_up is None:
            return
        at, fault = self._given_up
        if fault.kind in _ABSENT and time.monotonic() - at < _GIVEN_UP_SECONDS:
            raise Fault(fault.kind, fault.detail, fault.status)

    def _note(self, fault: Fault) -> None:
        if fault.kind in {Kind.MISSING, Kind.EXISTS, Kind.BUSY, Kind.RANGE, Kind.WHOLE_ONLY}:
            self.is_proven = True

    def _limit(self, fault: Fault) -> float:
        limit = _PATIENCE_SECONDS.get(fault.kind, 0.0)
        return limit if self.is_proven or fault.kind is Kind.BUSY else min(limit, _UNPROVEN_SECONDS)
