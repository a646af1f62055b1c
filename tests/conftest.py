"""What all tests share: one Spark session for the whole run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

from tests.support.place import Place, open_place
from tests.support.spark import start_spark

pytest_plugins = ("tests.support.servers",)

# How long an example takes says more of the machine's host than of the code.
settings.register_profile(
    "bcn", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("bcn")

# No test asks the machine it runs on for an identity: clouds answer that at addresses of their own.
os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
os.environ["NO_GCE_CHECK"] = "true"
os.environ["IDENTITY_ENDPOINT"] = "http://127.0.0.1:9/"


# Tests of these folders share what takes minutes to make.
_TOGETHER = ("shapes", "matrix", "seed002", "seed003", "maintenance")


class _ByFolder(LoadScopeScheduling):
    """Tests of one file run in one process, those of some folders too."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return next((name for name in _TOGETHER if f"tests/{name}/" in file), file)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling | None:
    """Ours, where tests are dealt out by files."""
    return _ByFolder(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    session = start_spark(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


@pytest.fixture
def place(spark: Any, tmp_path: Path) -> Place:
    """A source of its own, a repository, and a catalog to restore into."""
    return open_place(spark, tmp_path)
