"""A repository with one PIT of two tables; no test may change it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bcn.repository.repository import Scope
from tests.support.command import Desk, open_desk
from tests.support.small import InProcess


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """Made without Spark, once for all tests of a module."""
    desk = open_desk(tmp_path_factory.mktemp("desk"))
    desk.add_table("orders")
    desk.add_table("items")
    desk.product(InProcess()).backup(Scope("prod"))
    return desk


@pytest.fixture
def stocked(shared: Desk) -> Iterator[Desk]:
    """The shared one, and proof that the test left source and repository as they were."""
    before = shared.kept()
    yield shared
    assert shared.kept() == before


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """One of its own."""
    made = open_desk(tmp_path)
    made.add_table("orders")
    made.product(InProcess()).backup(Scope("prod"))
    return made
