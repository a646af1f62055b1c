"""Roots and moves: which prefix of a location belongs to which root, and what it becomes.

One matching rule serves paths in metadata, manifests, bounds, delete rows and Puffin footers,
because readers compare these strings for equality: a root matches at a `/` boundary only, the
longest first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

from bcn.errors import UnknownRootError


@dataclass(frozen=True, slots=True)
class Move:
    """All locations under `old` become the same locations under `new`. Neither ends in a slash."""

    old: str
    new: str


def lies_under(location: str, root: str) -> bool:
    """Whether the location is the root itself or something below it."""
    return location.startswith(root) and (len(location) == len(root) or location[len(root)] == "/")


@dataclass(frozen=True)
class Moves:
    """Every root of a table and what it becomes; the longest matching root decides."""

    moves: tuple[Move, ...] = field()

    def __init__(self, moves: Iterable[Move]) -> None:
        ordered = sorted(moves, key=lambda move: (-len(move.old.encode()), move.old))
        for first, second in pairwise(ordered):
            if first.old == second.old and first.new != second.new:
                raise ValueError(f"two targets for root {first.old!r}")
        object.__setattr__(self, "moves", tuple(dict.fromkeys(ordered)))

    def find(self, location: str) -> Move | None:
        """The move that applies to the location."""
        return next((move for move in self.moves if lies_under(location, move.old)), None)

    def apply(self, location: str) -> str:
        """Where the location goes. Raises UnknownRootError if no root matches."""
        move = self.find(location)
        if move is None:
            raise UnknownRootError(f"no known root for {location!r}")
        return move.new + location[len(move.old) :]

    def reversed(self) -> Moves:
        """The way back; two roots that went to one place come back as one of them."""
        back: dict[str, Move] = {}
        for move in self.moves:
            back.setdefault(move.new, Move(move.new, move.old))
        return Moves(back.values())

    @property
    def is_identity(self) -> bool:
        """Whether nothing moves, so that no file needs to be rewritten."""
        return all(move.old == move.new for move in self.moves)
