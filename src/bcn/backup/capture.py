"""Capturing a catalog: all pointers in the scope, read until two passes agree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from bcn.catalog.protocol import Catalog, Pointer
from bcn.errors import NoSuchTableError
from bcn.model import Json, TableId
from bcn.repository.pit import Namespace
from bcn.repository.repository import Scope

MAX_PASSES = 5


@dataclass(frozen=True, slots=True)
class Capture:
    """What a catalog said, and how sure it is that it said so at one moment."""

    pointers: tuple[Pointer, ...]
    namespaces: tuple[Namespace, ...]
    started_at: datetime
    ended_at: datetime
    passes: int
    exact: bool

    def consistency(self) -> Json:
        """The form that PITs store."""
        window = self.ended_at - self.started_at
        return {
            "passes": self.passes,
            "window_ms": int(window.total_seconds() * 1000),
            "exact": self.exact,
        }


def capture(catalog: Catalog, scope: Scope, now: Callable[[], datetime]) -> Capture:
    """Pointers and namespaces of the scope; `started_at` is when the agreeing pass began."""
    previous, started = _one_pass(catalog, scope), now()
    for number in range(2, MAX_PASSES + 1):
        began = now()
        current = _one_pass(catalog, scope)
        if current == previous:
            return Capture(*current, began, now(), number, exact=True)
        previous, started = current, began
    return Capture(*previous, started, now(), MAX_PASSES, exact=False)


def _one_pass(catalog: Catalog, scope: Scope) -> tuple[tuple[Pointer, ...], tuple[Namespace, ...]]:
    if scope.database is None:
        levels = list(catalog.iter_namespaces())
        pointers = list(catalog.iter_pointers())
    else:
        depth = len(scope.database)
        catalog.load_namespace(scope.database)
        levels = [item for item in catalog.iter_namespaces() if item[:depth] == scope.database]
        pointers = [pointer for namespace in levels for pointer in catalog.iter_pointers(namespace)]
    if scope.table is not None:
        pointers = [pointer for pointer in pointers if pointer.table == table_of(scope)]
        levels = levels[:1]
    namespaces = tuple(Namespace(item, catalog.load_namespace(item)) for item in levels)
    return tuple(pointers), namespaces


def table_of(scope: Scope) -> TableId:
    """The table that a TABLE scope names."""
    if scope.database is None or scope.table is None:
        raise NoSuchTableError(f"{scope} names no table")
    return TableId(scope.database, scope.table)
