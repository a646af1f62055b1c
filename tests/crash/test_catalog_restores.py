"""A restore of a whole catalog, deleted tables, views and empty databases, that ends anywhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from bcn.catalog.protocol import Pointer
from bcn.errors import BcnError, Interrupted
from bcn.restore.place import MARKER, SCRATCH
from bcn.restore.report import RestoreReport
from tests.crash.faults import Fault, Killed, Steps, watched
from tests.support.product import sql_settings
from tests.support.shop import add_view, drop, registered, shop, uuid_of
from tests.support.small import SOURCE, SmallPlace, open_small

pytestmark = pytest.mark.long

EXPECTED = ["hr.people", "hr.tmp_1", "sales.gone", "sales.items", "sales.large", "sales.orders"]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> SmallPlace:
    small = open_small(tmp_path_factory.mktemp("catalog"))
    add_view(small, "sales.gone", "SELECT 1")
    add_view(small, "sales.large", "SELECT * FROM orders")
    small.product.open(SOURCE).create_namespace(("empty",), {"team": "x"})
    shop(small)
    drop(small, "sales.gone")
    small.backup()
    return small


def restore(small: SmallPlace, name: str) -> RestoreReport:
    settings = sql_settings(name, small.folder / f"{name}.db", small.folder / name)
    small.product.catalogs = {**small.product.catalogs, name: settings}
    return small.restore(target_catalog=name, include_deleted=True, exclude=(uuid_of(3),))


def strike(small: SmallPlace, name: str, steps: Steps) -> None:
    with watched(steps), pytest.raises((Killed, Interrupted, BcnError)):
        restore(small, name)


def leftovers(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.name in {MARKER, SCRATCH}]


def pointers(small: SmallPlace, name: str) -> set[Pointer]:
    if not (small.folder / f"{name}.db").exists():
        return set()
    return set(small.product.open(name).iter_pointers())


def _numbers(steps: list[str]) -> list[int]:
    """Every step from the first that the catalog sees; some of the others."""
    first = next(number for number, step in enumerate(steps) if step.startswith("namespace"))
    return [*range(0, first, 9), *range(first, len(steps))]


@pytest.mark.parametrize("fault", list(Fault))
def test_it_is_made_whole_by_the_same_command(source: SmallPlace, fault: Fault) -> None:
    with watched(Steps()) as counted:
        restore(source, f"whole-{fault.value}")
    problems, late = [], 0
    for number in _numbers(counted.done):
        name = f"{fault.value}{number}"
        strike(source, name, Steps(number, fault))
        before = pointers(source, name)
        late += bool(before)
        report = restore(source, name)
        found = registered(source, name)
        if found != EXPECTED or len(report.tables) + len(report.views) != len(EXPECTED):
            problems.append(f"{counted.done[number]}: {found}")
        if not before <= pointers(source, name):
            problems.append(f"{counted.done[number]}: what was finished was made again")
        problems += [f"{counted.done[number]}: {path}" for path in leftovers(source.folder / name)]
        if source.product.open(name).load_namespace(("empty",)) != {"team": "x"}:
            problems.append(f"{counted.done[number]}: an empty database is not as it was")
    assert problems == []
    assert late >= 2, "some faults strike when tables are there already"
