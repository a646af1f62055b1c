"""Tokens that end, renewed in time."""

from __future__ import annotations

import threading
import time
from typing import Protocol

_SPARE_SECONDS = 300.0  # a token is renewed so long before its end


class TokenSource(Protocol):
    """Where tokens come from."""

    def fetch(self) -> tuple[str, float | None]:
        """A token, and when it ends in seconds since 1970; None: nobody knows."""


class Tokens:
    """The token of now, renewed before it ends; any thread may ask."""

    def __init__(self, source: TokenSource) -> None:
        self._source = source
        self._lock = threading.Lock()
        self._token = ""
        self._ends_at: float | None = 0.0

    def current(self) -> tuple[str, float | None]:
        """The token, and when it ends. Raises StorageError."""
        with self._lock:
            if self._ends_at is not None and self._ends_at < time.time() + _SPARE_SECONDS:
                self._token, self._ends_at = self._source.fetch()
            return self._token, self._ends_at
