"""How much of a table's history is kept: which snapshots, and a document that knows no others."""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from bcn.errors import UsageError
from bcn.iceberg.metadata import SnapshotFacts, TableFacts, read_facts
from bcn.model import Json, iso

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST = re.compile(r"last:([1-9]\d{0,8})\Z")


@dataclass(frozen=True, slots=True)
class History:
    """What to keep of each branch: all, its newest `count` snapshots, or those `since` a moment.

    Tags are kept where the snapshot that they name is.
    """

    count: int | None = None
    since: datetime | None = None

    @classmethod
    def parse(cls, text: str) -> History:
        """From `all`, `current`, `last:N` or `since:TIME`. Raises UsageError."""
        if text == "all":
            return cls()
        if text == "current":
            return cls(count=1)
        if match := _LAST.match(text):
            return cls(count=int(match[1]))
        if text.startswith("since:"):
            return cls(since=_parse_moment(text.removeprefix("since:")))
        raise UsageError(
            f"{text!r} is no history", hint="say all, current, last:N or since:TIME (ISO 8601)"
        )

    def __str__(self) -> str:
        if self.since is not None:
            return f"since:{iso(self.since)}"
        return {None: "all", 1: "current"}.get(self.count, f"last:{self.count}")


ALL_HISTORY = History()


def _parse_moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
        aware = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise UsageError(f"{text!r} is no ISO 8601 time: {error}") from error
    return max(aware, _EPOCH)  # no snapshot is older


def find_covered(document: Json, history: History) -> frozenset[int] | None:
    """Ids of the snapshots of a document that a history keeps; None if that is every one.

    Raises MalformedFileError.
    """
    facts = read_facts(document)
    known = {item.snapshot_id: item for item in facts.snapshots}
    if history == ALL_HISTORY:
        return None
    covered = {
        item.snapshot_id
        for head in _heads(facts)
        for item in _kept(_ancestry(known, head), history)
    }
    return None if covered == known.keys() else frozenset(covered)


def _heads(facts: TableFacts) -> set[int | None]:
    branches = (ref for ref in facts.refs.values() if ref.get("type", "branch") == "branch")
    return {facts.current_snapshot_id, *(ref["snapshot-id"] for ref in branches)}


def _ancestry(known: dict[int, SnapshotFacts], head: int | None) -> Iterator[SnapshotFacts]:
    """A snapshot and those before it, as far as the table still knows them."""
    seen: set[int] = set()
    while head is not None and head in known and head not in seen:
        seen.add(head)
        yield known[head]
        head = known[head].parent_id


def _kept(ancestry: Iterator[SnapshotFacts], history: History) -> Iterator[SnapshotFacts]:
    """The newest of a branch. What was current at the moment itself counts as since then."""
    for number, snapshot in enumerate(ancestry, 1):
        yield snapshot
        if history.count is not None and number >= history.count:
            return
        if history.since is not None and snapshot.timestamp_ms <= history.since.timestamp() * 1000:
            return


def trim_metadata(document: Json, covered: Set[int] | None) -> Json:
    """The document as if the other snapshots had been expired; None leaves it as it is.

    As Iceberg does it: of the log of current snapshots, what lies before a gap goes too.
    """
    if covered is None:
        return document

    def is_covered(item: Any) -> bool:
        return item.get("snapshot-id") in covered

    trimmed: Json = dict(document)
    for key in ("snapshots", "statistics", "partition-statistics"):
        if trimmed.get(key):
            trimmed[key] = [item for item in trimmed[key] if is_covered(item)]
    if trimmed.get("refs"):
        trimmed["refs"] = {name: ref for name, ref in trimmed["refs"].items() if is_covered(ref)}
    if trimmed.get("snapshot-log"):
        trimmed["snapshot-log"] = _since_gap(trimmed["snapshot-log"], covered)
    return trimmed


def _since_gap(log: list[Json], covered: Set[int]) -> list[Json]:
    gaps = [number for number, item in enumerate(log) if item.get("snapshot-id") not in covered]
    return log[gaps[-1] + 1 :] if gaps else log
