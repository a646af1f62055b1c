"""A repository with one PIT, and a larger table that is still to be backed up."""

from __future__ import annotations

from pathlib import Path

import pytest

from bcn.repository.repository import Scope
from tests.support.command import Desk, open_desk
from tests.support.small import InProcess


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """With one PIT of one small table, `shop.t`, made without Spark."""
    made = open_desk(tmp_path)
    made.add_table("t")
    made.product(InProcess()).backup(Scope("prod"))
    return made
