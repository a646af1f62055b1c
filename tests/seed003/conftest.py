"""Catalogs that were built before: one that stays as it is, one with a history of backups."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.seed003.places import Vault, open_catalogs, open_vault
from tests.seed003.stories import Timeline, build_shop, build_timeline
from tests.support.shapes.model import World


@pytest.fixture(scope="session")
def shop(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> World:
    """Three databases and five tables, for tests that change nothing."""
    return build_shop(open_catalogs(spark, tmp_path_factory.mktemp("shop")))


@pytest.fixture(scope="session")
def timeline(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Timeline:
    """A catalog that changed between four backups; its repository is only read."""
    return build_timeline(spark, tmp_path_factory.mktemp("timeline"))


@pytest.fixture(scope="session")
def catalog_repository(shop: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One PIT of the whole shop; only read."""
    kept = open_vault(tmp_path_factory.mktemp("catalog"), shop)
    kept.backup("--catalog", "prod")
    return kept.repository


@pytest.fixture(scope="session")
def database_repository(shop: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One PIT of the shop's database `sales`; only read."""
    kept = open_vault(tmp_path_factory.mktemp("database"), shop)
    kept.backup("--catalog", "prod", "--database", "sales")
    return kept.repository


@pytest.fixture
def catalog_vault(catalog_repository: Path, shop: World, tmp_path: Path) -> Vault:
    """The repository of the whole shop, with places to restore to of one test."""
    return open_vault(tmp_path, shop, catalog_repository)


@pytest.fixture
def database_vault(database_repository: Path, shop: World, tmp_path: Path) -> Vault:
    """The repository of `sales`, with places to restore to of one test."""
    return open_vault(tmp_path, shop, database_repository)


@pytest.fixture
def source(spark: Any, tmp_path: Path) -> World:
    """Empty catalogs of one test."""
    return open_catalogs(spark, tmp_path / "source")


@pytest.fixture
def vault(source: World, tmp_path: Path) -> Vault:
    """A repository for the catalogs of one test."""
    return open_vault(tmp_path, source)


@pytest.fixture
def shop_vault(shop: World, tmp_path: Path) -> Vault:
    """A repository of one test for the shop."""
    return open_vault(tmp_path, shop)


@pytest.fixture
def past(timeline: Timeline, tmp_path: Path) -> Vault:
    """The repository of the timeline, with places to restore to of one test."""
    return open_vault(tmp_path, timeline.source, timeline.repository)
