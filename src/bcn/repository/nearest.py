"""A name that was probably meant, for errors about one that is not there."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(wanted: str, known: Iterable[str]) -> str:
    """The end of a message: a question that names the nearest known name, or nothing."""
    near = difflib.get_close_matches(wanted, sorted(set(known)), n=1)
    return f", did you mean {near[0]!r}?" if near else ""
