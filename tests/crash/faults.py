"""Faults between any two steps: every change of a storage or a catalog is a point to fail at."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import pytest

from bcn.catalog.sql import SqlCatalog
from bcn.engine.handful import Handful
from bcn.errors import Interrupted, StorageError, StorageFullError
from bcn.storage import local
from bcn.storage.local import LocalStorage


class Fault(Enum):
    """What happens: the process is gone, is told to stop, or is refused one change."""

    KILLED = "killed"
    STOPPED = "stopped"
    REFUSED = "refused"


class Killed(BaseException):
    """Stands for SIGKILL: from here on nothing this run does has any effect."""


@dataclass
class Steps:
    """Counts changes; at number `fail_at` the fault strikes before the change is made."""

    fail_at: int | None = None
    fault: Fault = Fault.KILLED
    done: list[str] = field(default_factory=list)
    is_dead: bool = False

    def step(self, name: str) -> None:
        if name.endswith(".heartbeat"):
            self._beat()
            return
        if self.is_dead:
            raise Killed
        if len(self.done) == self.fail_at:
            self.fail_at = None
            self._strike()
        self.done.append(name)

    def _beat(self) -> None:
        """Comes when it likes and is not counted; that of a dead run has no effect."""
        if self.is_dead:
            raise StorageError("dead")

    def _strike(self) -> None:
        if self.fault is Fault.STOPPED:
            raise Interrupted(143)
        if self.fault is Fault.REFUSED:
            raise StorageFullError("no space left")
        self.is_dead = True
        raise Killed


@contextmanager
def watched(steps: Steps) -> Iterator[Steps]:
    """Every change that is made in this process passes `steps` first."""
    with pytest.MonkeyPatch.context() as patch:
        for owner, method, name in _CHANGES:
            patch.setattr(owner, method, _guarded(getattr(owner, method), steps, name))
        yield steps


def _guarded(change: Callable[..., Any], steps: Steps, name: Callable[..., str]) -> Any:
    @functools.wraps(change)
    def guarded(*arguments: Any) -> Any:
        steps.step(name(*arguments))
        return change(*arguments)

    return guarded


_CHANGES: tuple[tuple[Any, str, Callable[..., str]], ...] = (
    (local._LocalWriter, "commit", lambda writer: f"create {writer._path}"),
    (Handful, "_copy_some", lambda _, pairs: f"create {pairs[0][1]} and others"),
    (LocalStorage, "replace", lambda storage, key, _: f"replace {storage.root}/{key}"),
    (LocalStorage, "delete", lambda storage, key: f"delete {storage.root}/{key}"),
    (LocalStorage, "delete_all", lambda storage, prefix: f"delete {storage.root}/{prefix}*"),
    (LocalStorage, "flush", lambda storage: f"flush {storage.root}"),
    (SqlCatalog, "create_namespace", lambda _, levels, __: f"namespace {levels}"),
    (SqlCatalog, "register", lambda _, table, __: f"register {table}"),
    (SqlCatalog, "replace", lambda _, table, __, ___: f"swap {table}"),
    (SqlCatalog, "register_view", lambda _, view, __: f"register {view}"),
)
