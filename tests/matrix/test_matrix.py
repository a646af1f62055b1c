"""Each stack as source, each as target: 25 pairs always, the others where there is time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from bcn.engine.spark import Engine, SparkSettings
from bcn.errors import UnsupportedCatalogError
from bcn.model import TableId
from bcn.restore.report import RestoredTable, RestoreReport
from bcn.storage.open import open_storage
from bcn.storage.protocol import StorageSpec
from tests.matrix.checks import check_files, check_rows, check_writes, is_gone, mirrored
from tests.matrix.sources import TEAM, VERSIONS, VIEW, Source, World
from tests.support.product import Product
from tests.support.small import InProcess
from tests.support.stacks import CATALOGS, LOCAL, MINIO, STORES, Stack

pytestmark = pytest.mark.spark

_STORES = ((LOCAL, LOCAL), (LOCAL, MINIO), (MINIO, LOCAL), (MINIO, MINIO))
# Every catalog to every catalog, once; six or seven times from each store to each.
QUICK = {
    (f"{old}-{_STORES[(i + j) % 4][0]}", f"{new}-{_STORES[(i + j) % 4][1]}")
    for i, old in enumerate(CATALOGS)
    for j, new in enumerate(CATALOGS)
}
NAMES = [f"{catalog}-{store}" for catalog in CATALOGS for store in STORES]


def _pairs() -> list[Any]:
    return [
        pytest.param(
            old,
            new,
            id=f"{old}_to_{new}",
            marks=() if (old, new) in QUICK else pytest.mark.slow,
        )
        for old in NAMES
        for new in NAMES
    ]


@pytest.mark.parametrize(("old", "new"), _pairs())
def test_from_stack_to_stack(world: World, old: str, new: str, tmp_path: Path) -> None:
    source, target = world.sources[old], world.stacks[new]
    database = f"from_{source.stack.catalog}"
    # Where a catalog meets its own kind, Spark does the work.
    same = old.partition("-")[0] == new.partition("-")[0]
    engine = Engine(SparkSettings(master="local[2]")) if same else InProcess()
    product = world.product(source, engine)
    kept = _listing(source.repository)
    _check_refusals(product, target, database)
    report = product.restore(target_catalog=target.catalog, target_database=(database,))
    assert sorted(table.table.name for table in report.tables) == sorted(VERSIONS)
    _check_told(product, source, target, report)
    assert is_gone(source)
    with mirrored(target, tmp_path / "mirror") as folder:
        if folder is not None:
            target.copy_to(folder, database)
        wrong = [line for table in report.tables for line in check_files(source, target, table)]

    def use(table: RestoredTable) -> list[str]:
        found = check_rows(world.spark, source, target, table)
        return found or check_writes(world.spark, target, table)

    with ThreadPoolExecutor(2) as pool:
        wrong += [line for lines in pool.map(use, report.tables) for line in lines]
    assert wrong == []
    assert is_gone(source)
    assert _listing(source.repository) == kept


def _listing(place: StorageSpec) -> list[str]:
    return sorted(open_storage(place).iter_keys(""))


def _check_refusals(product: Product, target: Stack, database: str) -> None:
    """What a catalog cannot hold is refused before anything is written."""
    before = target.names()
    asked = {"target_catalog": target.catalog, "target_database": (database,)}
    if target.is_lower_case:
        with pytest.raises(UnsupportedCatalogError, match="Upper"):
            product.restore(**asked, target_table="{table}_Upper")
    if target.kind == "hadoop":
        with pytest.raises(UnsupportedCatalogError):
            product.restore(**asked, target_location=f"{target.place}/elsewhere/{{table}}")
    assert target.names() == before


def _check_told(product: Product, source: Source, target: Stack, report: RestoreReport) -> None:
    """Views and properties of databases come along, or it is said that they cannot."""
    catalog, told = product.open(target.catalog), "\n".join(report.warnings)
    database = report.tables[0].table.namespace
    if source.stack.keeps_views and target.keeps_views:
        pointer = catalog.find_pointer(TableId(database, VIEW))
        assert pointer is not None
        assert pointer.kind == "view"
    else:
        assert report.views == ()
    stays = source.stack.keeps_views and not target.keeps_views
    assert ("has no views, so they stay behind" in told) == stays
    loses = source.stack.kind != "hadoop" and target.kind == "hadoop"
    assert ("cannot hold properties of database" in told) == loses
    if source.stack.kind != "hadoop" and not loses:
        assert catalog.load_namespace(database).items() >= TEAM.items()
