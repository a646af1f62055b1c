"""What a prune found and did, as people and programs are told."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from bcn.maintenance.orphans import KINDS, Orphan
from bcn.model import Json, iso

MAX_LISTED = 1000


class State(StrEnum):
    """What became of an orphan."""

    DELETED = "deleted"
    WAITING = "waiting"


@dataclass(frozen=True, slots=True)
class PruneItem:
    """One file that nobody needs, and from when on it may be deleted."""

    orphan: Orphan
    state: State
    due_at: datetime

    def as_json(self) -> Json:
        """The documented object, docs/json-output.md."""
        return {
            "kind": self.orphan.kind,
            "key": self.orphan.key,
            "bytes": self.orphan.size_bytes,
            "state": str(self.state),
            "due_at": iso(self.due_at),
        }


@dataclass(frozen=True, slots=True)
class Amount:
    """Some files and their bytes."""

    files: int
    size_bytes: int

    @classmethod
    def of(cls, items: Iterable[PruneItem]) -> Amount:
        """Of these."""
        sizes = [item.orphan.size_bytes for item in items]
        return cls(len(sizes), sum(sizes))

    def as_json(self) -> Json:
        """The documented object, docs/json-output.md."""
        return {"files": self.files, "bytes": self.size_bytes}


@dataclass(frozen=True)
class PruneReport:
    """All files that nobody needs, the largest first; `due` are those that may be deleted now."""

    repository: str
    dry_run: bool
    grace: timedelta
    pits: int
    items: tuple[PruneItem, ...]
    due: frozenset[str]
    notes: tuple[str, ...] = ()

    @property
    def unneeded(self) -> Amount:
        """All that nobody needs."""
        return Amount.of(self.items)

    @property
    def deleted(self) -> Amount:
        """What was deleted."""
        return Amount.of(item for item in self.items if item.state is State.DELETED)

    @property
    def deletable(self) -> Amount:
        """What may be deleted now."""
        return Amount.of(item for item in self.items if item.orphan.key in self.due)

    @property
    def next_due_at(self) -> datetime | None:
        """From when on something that is left may be deleted."""
        left = [item.due_at for item in self.items if item.state is State.WAITING]
        return min(left, default=None)

    def kinds(self) -> list[tuple[str, Amount]]:
        """How much of each kind nobody needs."""
        found = [
            (kind, Amount.of(item for item in self.items if item.orphan.kind == kind))
            for kind in KINDS
        ]
        return [(kind, amount) for kind, amount in found if amount.files]

    def as_json(self) -> Json:
        """The documented object, docs/json-output.md."""
        due_at = self.next_due_at
        return {
            "repository": self.repository,
            "dry_run": self.dry_run,
            "grace_hours": self.grace / timedelta(hours=1),
            "pits": self.pits,
            "unneeded": self.unneeded.as_json(),
            "due": self.deletable.as_json(),
            "deleted": self.deleted.as_json(),
            "next_due_at": iso(due_at) if due_at else None,
            "kinds": [{"kind": kind, **amount.as_json()} for kind, amount in self.kinds()],
            "items": [item.as_json() for item in self.items[:MAX_LISTED]],
            "items_omitted": max(0, len(self.items) - MAX_LISTED),
            "notes": list(self.notes),
        }
