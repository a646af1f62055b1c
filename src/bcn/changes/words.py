"""Changes of a table in words a person uses: one line each, or all in one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby

from bcn.iceberg.columns import Change

_SHOWN = 5
_LONG = 60
_NOTHING = {"partitioning": "unpartitioned", "sort order": "unsorted", "identifier fields": "none"}


def tell_each(changes: Sequence[Change]) -> list[str]:
    """A line for each change; snapshots together, by operation and id."""
    lines: list[str] = []
    for (aspect, action), group in _groups(_telling(changes)):
        if aspect == "snapshot":
            named = [f"{change.after or change.before} {change.name}" for change in group]
            lines.append(f"{_count(len(group), 'snapshot')} {action}: {_some(named)}")
        else:
            lines += [_sentence(change) for change in group]
    return lines


def tell_briefly(changes: Sequence[Change]) -> str:
    """All in one line."""
    return "; ".join(_iter_brief(changes)) or "nothing that has a name here"


def _iter_brief(changes: Sequence[Change]) -> Iterator[str]:
    for (aspect, action), group in _groups(_telling(changes)):
        if aspect == "snapshot":
            yield f"{_count(len(group), 'snapshot')} {action} ({_operations(group)})"
        elif len(group) > 1:
            names = _some([str(change.name) for change in group])
            yield f"{len(group)} {_plural(aspect)} {_VERBS.get(action, action)}: {names}"
        else:
            yield _sentence(group[0])


def _telling(changes: Sequence[Change]) -> list[Change]:
    """All but `main` going on to a snapshot that was added: that is what adding one means."""
    added = {change.name for change in changes if change.aspect == "snapshot" and change.after}
    return [change for change in changes if not _follows(change, added)]


def _groups(changes: Sequence[Change]) -> Iterator[tuple[tuple[str, str], list[Change]]]:
    """Changes of one kind together, kinds in the order of their first."""
    order = {(change.aspect, change.action): None for change in changes}
    ranks = {kind: rank for rank, kind in enumerate(order)}
    ranked = sorted(changes, key=lambda change: ranks[change.aspect, change.action])
    for kind, group in groupby(ranked, key=lambda change: (change.aspect, change.action)):
        yield kind, list(group)


def _follows(change: Change, added: set[str | None]) -> bool:
    if (change.aspect, change.name) != ("ref", "main") or change.action not in {"made", "moved"}:
        return False
    return _target(change.after) in added


def _operations(group: Sequence[Change]) -> str:
    counts = Counter(change.after or change.before or "unknown" for change in group)
    if len(group) == 1:
        return next(iter(counts))
    return ", ".join(f"{count} {operation}" for operation, count in counts.most_common())


# one change


def _sentence(change: Change) -> str:
    special = _SENTENCES.get((change.aspect, change.action))
    if special is not None:
        return special(change)
    nothing = _NOTHING.get(change.aspect, "none")
    name = f" of {change.name}" if change.name else ""
    before, after = shorten(change.before or nothing), shorten(change.after or nothing)
    return f"{change.aspect}{name}: {before} to {after}"


def _quoted(text: str | None) -> str:
    return f"'{shorten(text or '')}'"


_SENTENCES: Mapping[tuple[str, str], Callable[[Change], str]] = {
    ("column", "added"): lambda c: f"column {c.name} added, {shorten(c.after or '')}",
    ("column", "dropped"): lambda c: f"column {c.name} dropped, was {shorten(c.before or '')}",
    ("column", "renamed"): lambda c: f"column {c.before} renamed to {c.after}",
    ("column", "type"): lambda c: f"column {c.name} is {c.after} now, was {c.before}",
    ("column", "nullability"): lambda c: f"column {c.name} is {c.after} now",
    ("column", "doc"): lambda c: (
        f"column {c.name} is described as {_quoted(c.after)}"
        if c.after
        else f"column {c.name} has no description now"
    ),
    ("column", "default"): lambda c: f"default of column {c.name}: {c.before} to {c.after}",
    ("property", "set"): lambda c: f"property {c.name} set to {_quoted(c.after)}",
    ("property", "removed"): lambda c: f"property {c.name} removed, was {_quoted(c.before)}",
    ("property", "changed"): lambda c: (
        f"property {c.name} changed from {_quoted(c.before)} to {_quoted(c.after)}"
    ),
    ("ref", "made"): lambda c: f"{_ref(c.after, c.name)} made{_at(c.after)}",
    ("ref", "dropped"): lambda c: f"{_ref(c.before, c.name)} dropped{_at(c.before)}",
    ("ref", "moved"): lambda c: (
        f"{_ref(c.after, c.name)} moved from {_target(c.before)} to {_target(c.after)}"
    ),
    ("ref", "retention"): lambda c: f"ref {c.name} is kept otherwise: {c.before} to {c.after}",
    ("metadata", "rewritten"): lambda _: "metadata written again, nothing that has a name here",
}


def _ref(text: str | None, name: str | None) -> str:
    return f"{(text or 'ref').split(' ', 1)[0]} {name}"


def _at(text: str | None) -> str:
    return f" at {_target(text)}"


def _target(text: str | None) -> str:
    return (text or "?").rsplit(" ", 1)[-1]


def shorten(text: str) -> str:
    """A text in one line, of a length that leaves room for others."""
    line = " ".join(text.split())
    return line if len(line) <= _LONG else f"{line[: _LONG - 1]}…"


_VERBS = {
    "type": "with another type",
    "nullability": "with another nullability",
    "doc": "with another description",
    "default": "with another default",
    "retention": "kept otherwise",
}


def _plural(aspect: str) -> str:
    return {"property": "properties"}.get(aspect, f"{aspect}s")


def _some(texts: Sequence[str]) -> str:
    more = len(texts) - _SHOWN
    shown = ", ".join(texts[:_SHOWN])
    return f"{shown} and {more:,} more" if more > 0 else shown


def _count(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
