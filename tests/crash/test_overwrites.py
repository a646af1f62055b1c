"""A restore in the place of tables that ends anywhere: each name means the old table or the new."""

from __future__ import annotations

from pathlib import Path

import pytest

from bcn.errors import BcnError, Interrupted
from bcn.restore.place import MARKER, SCRATCH
from bcn.restore.report import RestoreReport
from tests.crash.faults import Fault, Killed, Steps, watched
from tests.support.compare import compare_tables
from tests.support.product import digest_tree, sql_settings
from tests.support.small import SmallPlace, SmallTable, open_small

pytestmark = pytest.mark.long

NAMES = ("a", "b")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> tuple[SmallPlace, dict[str, SmallTable]]:
    small = open_small(tmp_path_factory.mktemp("overwrites"))
    tables = {name: small.add(2, name) for name in NAMES}
    small.backup()
    return small, tables


def restore(small: SmallPlace, name: str, *, overwrite: bool) -> RestoreReport:
    settings = sql_settings(name, small.folder / f"{name}.db", small.folder / name)
    small.product.catalogs = {**small.product.catalogs, name: settings}
    return small.restore(target_catalog=name, overwrite=overwrite)


def places(small: SmallPlace, name: str) -> dict[str, str]:
    pointers = small.product.open(name).iter_pointers()
    return {pointer.table.name: pointer.metadata_location for pointer in pointers}


def _hurt(small: SmallPlace, tables: dict[str, SmallTable], name: str) -> list[str]:
    """What is wrong with the tables that the names mean by now."""
    found = []
    for table, place in places(small, name).items():
        root = place.rpartition("/metadata/")[0]
        moved = [(tables[table].root, root)]
        found += [str(one) for one in compare_tables(tables[table].location, place, moved, Path)]
    return found


def _numbers(steps: list[str]) -> list[int]:
    """Every step around the swaps; some of those before."""
    first = next(number for number, step in enumerate(steps) if step.startswith("swap"))
    return [*range(0, first - 2, 5), *range(first - 2, len(steps))]


@pytest.mark.parametrize("fault", list(Fault))
def test_each_name_means_one_whole_table_and_the_same_command_ends_it(
    source: tuple[SmallPlace, dict[str, SmallTable]], fault: Fault
) -> None:
    small, tables = source
    restore(small, f"counted-{fault.value}", overwrite=False)
    with watched(Steps()) as counted:
        restore(small, f"counted-{fault.value}", overwrite=True)
    problems, halfway = [], 0
    for number in _numbers(counted.done):
        name, step = f"{fault.value}{number}", counted.done[number]
        restore(small, name, overwrite=False)
        old, kept = places(small, name), digest_tree(small.folder / name)
        with watched(Steps(number, fault)), pytest.raises((Killed, Interrupted, BcnError)):
            restore(small, name, overwrite=True)
        problems += [f"after {step}: {text}" for text in _hurt(small, tables, name)]
        halfway += len(set(places(small, name).values()) & set(old.values())) == 1
        restore(small, name, overwrite=True)
        problems += [f"again after {step}: {text}" for text in _hurt(small, tables, name)]
        if set(places(small, name).values()) & set(old.values()):
            problems.append(f"{step}: an old table is still there")
        if not kept.items() <= digest_tree(small.folder / name).items():
            problems.append(f"{step}: files of the old tables are gone")
        problems += [
            f"{step}: {path}"
            for path in (small.folder / name).rglob("*")
            if path.name in {MARKER, SCRATCH}
        ]
    assert problems == []
    assert halfway >= 1, "some faults strike between two swaps"
