"""A PIT by what people type: an id, the beginning of one, `latest`, or a time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from bcn.errors import UnknownPitError
from bcn.model import PitId
from bcn.repository.repository import Repository

_BACK = re.compile(r"latest(?:~(\d{1,9}))?\Z")
_PREFIX = re.compile(r"[0-9TZ.]+\Z")
_SHOWN = 5


def resolve_pit(repository: Repository, text: str) -> PitId:
    """The PIT that a text means: `latest`, `latest~2`, an id or the beginning of one, or a time.

    A time in any ISO 8601 form means the newest PIT up to the end of the day, minute or second it
    names; without an offset it is UTC. Damaged PITs count, and a whole id is no time: asking for
    one never gives another. Raises UnknownPitError.
    """
    pits = _real_pits(repository)
    if not pits:
        raise UnknownPitError(
            f"{repository.spec.location} has no point in time yet",
            hint="make one with 'bcn backup'",
        )
    return choose_pit(pits, text.strip())


def _real_pits(repository: Repository) -> list[PitId]:
    return [PitId(line["pit"]) for line in repository.summaries()]


def choose_pit(pits: Sequence[PitId], text: str) -> PitId:
    """The one of some PITs, oldest first, that a text means. Raises UnknownPitError."""
    back = _BACK.match(text)
    if back is not None:
        return _count_back(pits, int(back[1] or 0))
    matches = [pit for pit in pits if str(pit).startswith(text)] if _PREFIX.match(text) else []
    if len(matches) > 1:
        raise UnknownPitError(f"{text!r} is the beginning of {_names(matches)}")
    if not matches and PitId.find(text) is not None:  # one that is gone never means another
        raise UnknownPitError(f"no point in time {text}; there are {_names(pits)}")
    return matches[0] if matches else _at_or_before(pits, text)


def _count_back(pits: Sequence[PitId], steps: int) -> PitId:
    if steps >= len(pits):
        raise UnknownPitError(f"there are only {len(pits)} points in time: {_names(pits)}")
    return pits[-1 - steps]


def _at_or_before(pits: Sequence[PitId], text: str) -> PitId:
    moment = _find_end(text)
    if moment is None:
        raise UnknownPitError(f"{text!r} is no point in time and no time; there are {_names(pits)}")
    earlier = [pit for pit in pits if pit.moment <= moment]
    if not earlier:
        raise UnknownPitError(f"no point in time at or before {text}: the oldest is {pits[0]}")
    return earlier[-1]


def _names(pits: Iterable[PitId]) -> str:
    names = [str(pit) for pit in pits]
    if len(names) > _SHOWN:
        return f"{', '.join(names[-_SHOWN:])} and {len(names) - _SHOWN} older ones"
    return ", ".join(names)


# times

_DAY = timedelta(days=1)
# What a time names when it stops there: the first pattern that fits its part before the offset.
_PERIODS = (
    (re.compile(r"[^T ]+[T ]\d\d:?\d\d:?\d\d[.,]\d+\Z"), timedelta(microseconds=1)),
    (re.compile(r"[^T ]+[T ]\d\d:?\d\d:?\d\d\Z"), timedelta(seconds=1)),
    (re.compile(r"[^T ]+[T ]\d\d:?\d\d\Z"), timedelta(minutes=1)),
    (re.compile(r"[^T ]+[T ]\d\d\Z"), timedelta(hours=1)),
    (re.compile(r"\d{4}-?W\d\d\Z"), 7 * _DAY),
    (re.compile(r"[^T ]+\Z"), _DAY),
)
_OFFSET = re.compile(r"(?<=\d)(?:Z|[+-]\d\d(?::?\d\d)?)\Z")
_MONTH = re.compile(r"(\d{4})-(\d\d)\Z")
_ORDINAL = re.compile(r"(\d{4})-?(\d{3})\Z")


def _find_end(text: str) -> datetime | None:
    """The last microsecond of what an ISO 8601 text names; None if it is no such text."""
    try:
        return _end_of_date(text) or _end_of_time(text)
    except (ValueError, OverflowError):
        return None


def _end_of_date(text: str) -> datetime | None:
    """Of the two kinds of dates that Python does not read."""
    tick = timedelta(microseconds=1)
    if match := _MONTH.match(text):
        start = datetime(int(match[1]), int(match[2]), 1, tzinfo=UTC)
        return (start + 31 * _DAY).replace(day=1) - tick
    if match := _ORDINAL.match(text):
        start = datetime.strptime(f"{match[1]}-{match[2]}", "%Y-%j").replace(tzinfo=UTC)
        return start + _DAY - tick
    return None


def _end_of_time(text: str) -> datetime | None:
    has_time = "T" in text or " " in text
    plain = _OFFSET.sub("", text) if has_time else text
    period = next((length for pattern, length in _PERIODS if pattern.match(plain)), None)
    if period is None:
        return None
    start = datetime.fromisoformat(text)
    start = start.replace(tzinfo=UTC) if start.tzinfo is None else start.astimezone(UTC)
    return start + (period - timedelta(microseconds=1))
