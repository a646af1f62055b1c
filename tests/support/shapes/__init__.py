"""The table shapes of the test matrix, each as a real table with a check that it is what it says.

A *shape* is one row of the matrix (or one variant of it); the *world* is the pair of catalogs and
the folders that shapes are built in.
"""

from __future__ import annotations

from tests.support.shapes import (
    basic,
    deletes,
    events,
    evolution,
    legacy,
    names,
    places,
    refs,
    types,
    vectors,
)
from tests.support.shapes.model import Shape, World, open_world
from tests.support.shapes.refused import REFUSED_SHAPES

_THEMES = (basic, legacy, deletes, vectors, types, refs, evolution, places, names, events)
SHAPES: tuple[Shape, ...] = tuple(
    sorted((shape for theme in _THEMES for shape in theme.SHAPES), key=lambda shape: shape.id)
)

__all__ = ["REFUSED_SHAPES", "SHAPES", "Shape", "World", "build_all", "open_world"]


def build_all(world: World, shapes: tuple[Shape, ...] = SHAPES) -> None:
    """Builds every shape, and fails when one is not what it claims to be."""
    for shape in shapes:
        shape.build(world)
        broken = shape.broken_claims(world)
        if broken:
            raise AssertionError(f"{shape.id} is not what it claims: {broken}")
