"""What all tests share: one Spark session for the whole run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.place import Place, open_place
from tests.support.spark import start_spark

pytest_plugins = ("tests.support.servers",)

# No test asks the machine it runs on for an identity: clouds answer that at addresses of their own.
os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
os.environ["NO_GCE_CHECK"] = "true"
os.environ["IDENTITY_ENDPOINT"] = "http://127.0.0.1:9/"


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    session = start_spark(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


@pytest.fixture
def place(spark: Any, tmp_path: Path) -> Place:
    """A source of its own, a repository, and a catalog to restore into."""
    return open_place(spark, tmp_path)
