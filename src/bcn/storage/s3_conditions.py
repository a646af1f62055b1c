"""Objects that must be new, on servers that heed conditions and on those that ignore them."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from bcn.storage.bucket import Facts
from bcn.storage.fault import Fault, Kind
from bcn.storage.local import TEMPORARY_PREFIX


class _Store(Protocol):
    """What is asked of a bucket here."""

    def put_raw(self, name: str, data: bytes, mark: str, *, create_only: bool) -> None: ...

    def find(self, name: str) -> Facts | None: ...

    def find_mark(self, name: str) -> str | None: ...

    def delete(self, names: Sequence[str]) -> None: ...


class Conditions:
    """Whether one server heeds conditions: tried once, on an object that is removed again."""

    def __init__(self, bucket: _Store, *, is_known: bool) -> None:
        self._bucket = bucket
        self._heeded = True if is_known else None
        self._lock = threading.Lock()

    def are_heeded(self, name: str) -> bool:
        """Tried beside an object that is to be written, where writing is allowed. Raises Fault."""
        with self._lock:
            if self._heeded is None:
                # Beside the name: SeaweedFS would keep a folder that the probe was in for a while.
                folder = name[: name.rstrip("/").rfind("/") + 1]
                self._heeded = self._try(f"{folder}{TEMPORARY_PREFIX}{secrets.token_hex(8)}")
            return self._heeded

    def _try(self, probe: str) -> bool:
        try:
            for _ in range(2):
                self._bucket.put_raw(probe, b"", "", create_only=True)
        except Fault as fault:
            if fault.kind is Kind.UNSUPPORTED:
                return False
            if fault.kind is not Kind.EXISTS:
                raise
            return True
        else:
            return False
        finally:
            self._remove(probe)

    def _remove(self, probe: str) -> None:
        try:
            self._bucket.delete([probe])
        except Fault:
            return  # who may not delete may still write; the name says what it is

    def create(self, name: str, mark: str, make: Callable[..., None]) -> None:
        """Make an object that must be new; `make` is told whether the server sees to that.

        Where it cannot: look, make, look again. Of two at once both may believe it was theirs.
        """
        if self.are_heeded(name):
            make(create_only=True)
            return
        if self._bucket.find(name) is not None:
            raise Fault(Kind.EXISTS)
        make(create_only=False)
        if self._bucket.find_mark(name) != mark:
            raise Fault(Kind.EXISTS)
