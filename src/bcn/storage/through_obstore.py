"""What all object stores have in common that go through obstore."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from obstore.exceptions import BaseError

from bcn.storage.fault import fault_by_text

if TYPE_CHECKING:  # a type that exists for checkers only
    from obstore import GetResult

# What obstore refuses or would change: empty segments, dots, ASCII control characters. A back slash
# it knows, but not every server does.
_ODD = re.compile(r"\A\Z|//|\A/|/\Z|(?:\A|/)\.\.?(?:/|\Z)|[\x00-\x1f\x7f\\]")


def is_odd(name: str) -> bool:
    """Whether a name is not for obstore."""
    return _ODD.search(name) is not None


def iter_chunks(answer: GetResult) -> Iterator[memoryview]:
    """The bytes of an answer as they come. Raises Fault."""
    try:
        for chunk in answer.stream():
            yield memoryview(chunk)
    except (BaseError, OSError) as error:
        raise fault_by_text(str(error)) from None
