"""Two restores into one target at once: one table, whole, and whoever came second is told so.

Both run in this process, where neither can tell the other from a run that was stopped: so it is
between two machines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bcn.errors import TargetExistsError
from bcn.iceberg.relocate import Move
from bcn.model import TableId
from bcn.restore.place import MARKER, SCRATCH
from bcn.restore.report import RestoreReport
from tests.support.compare import compare_tables
from tests.support.product import digest_tree, hadoop_settings
from tests.support.shop import add_view
from tests.support.small import SOURCE, TARGET, AtPhase, SmallPlace, SmallTable, Wrapped, open_small

QUICKER = "another restore was quicker"


class _StoppedError(Exception):
    """What a test stops a run with."""


def _stop() -> None:
    raise _StoppedError


class Other:
    """The other restore: runs once, whenever it is told to, from beginning to end."""

    def __init__(self, small: SmallPlace, **request: Any) -> None:
        self._small = small
        self._request = request
        self.report: RestoreReport | None = None
        self.left: dict[str, tuple[int, int]] = {}

    def run(self) -> None:
        if self.report is None:
            self.report = self._small.restore(**self._request)
            self.left = digest_tree(self._small.folder)

    def before(self, method: str, name: str = TARGET) -> Wrapped:
        """The catalog, in which the other runs right before a method."""
        real: Any = self._small.product.open(name)

        def wrapped(*arguments: Any) -> Any:
            self.run()
            return getattr(real, method)(*arguments)

        return Wrapped(real, method, wrapped)

    def check_whole(self, table: SmallTable) -> None:
        """Its table is as it was restored; the loser has left a metadata file, if anything."""
        assert self.report is not None
        assert self._small.differences(table, self.report) == []
        now = digest_tree(self._small.folder)
        assert self.left.items() <= now.items()
        new = [Path(name) for name in now.keys() - self.left.keys()]
        assert [path for path in new if not path.name.endswith(".metadata.json")] == []
        assert not list(self._small.folder.rglob(SCRATCH))


@pytest.fixture
def small(tmp_path: Path) -> SmallPlace:
    return open_small(tmp_path)


def refused(restore: Callable[[], RestoreReport], told: str = QUICKER) -> TargetExistsError:
    with pytest.raises(TargetExistsError, match=told) as caught:
        restore()
    assert caught.value.exit_code == 16
    assert "--target-table" in caught.value.hint
    return caught.value


PHASES = (
    "starting Spark",
    "copying",
    "rewriting deletes",
    "rewriting manifests",
    "rewriting manifest lists",
    "checking",
    "registering",
)


@pytest.mark.parametrize("kind", ["sql", "hadoop"])
@pytest.mark.parametrize("phase", PHASES)
def test_who_is_overtaken_in_any_phase_is_told_so_and_leaves_the_winner_alone(
    small: SmallPlace, phase: str, kind: str
) -> None:
    if kind == "hadoop":
        target = hadoop_settings(TARGET, small.folder / TARGET)
        small.product.catalogs = {**small.product.catalogs, TARGET: target}
    table = small.add(2)
    small.backup()
    other = Other(small)
    error = refused(lambda: small.restore(progress=AtPhase(phase, other.run)))
    assert "db.t" in str(error)
    assert str(small.folder / "target/db/t") in str(error)
    other.check_whole(table)


@pytest.mark.parametrize("method", ["check_table", "create_namespace", "register"])
def test_who_has_all_and_comes_late_does_not_win(small: SmallPlace, method: str) -> None:
    """Before the place is marked, before the metadata file is written, and after that."""
    table = small.add(2)
    small.backup()
    other = Other(small)
    refused(lambda: small.restore(catalog=other.before(method)))
    other.check_whole(table)


def test_who_loses_where_a_table_was_takes_its_mark_back(small: SmallPlace) -> None:
    """There files may be, so nobody looks again whether some have come."""
    table = small.add(2)
    small.backup()
    small.drop()
    other = Other(small, target_catalog=SOURCE)
    catalog = other.before("check_table", SOURCE)
    refused(lambda: small.restore(target_catalog=SOURCE, catalog=catalog))
    other.check_whole(table)


def test_who_loses_takes_working_files_back_that_the_winner_did_not_look_for(
    small: SmallPlace,
) -> None:
    """The winner of several tables had its own at the first of them."""
    small.add(2, "a")
    small.add(2, "b")
    small.backup()
    other = Other(small)
    refused(lambda: small.restore(tables=("b",), progress=AtPhase("copying", other.run)))
    assert list(_leftovers(small)) == []


def test_files_of_a_restore_under_another_name_are_not_adopted(small: SmallPlace) -> None:
    """It has begun and ended after the place was found empty. Two tables would share its files."""
    table = small.add(2)
    small.backup()
    place = str(small.folder / "place")
    other = Other(small, target_table="other", target_location=place)
    with pytest.raises(TargetExistsError, match="not empty"):
        small.restore(target_location=place, catalog=other.before("check_table"))
    other.check_whole(table)
    assert small.find_restored() is None


@pytest.mark.parametrize("method", ["create_namespace", "replace"])
def test_of_two_that_take_the_place_of_a_table_one_does(small: SmallPlace, method: str) -> None:
    table = small.add(2)
    small.backup()
    small.restore()
    other = Other(small, overwrite=True)
    refused(lambda: small.restore(overwrite=True, catalog=other.before(method)))
    other.check_whole(table)


def test_of_two_that_bring_a_view_one_does(small: SmallPlace) -> None:
    table = small.add(2)
    add_view(small, "db.v", "SELECT 1")
    small.backup()
    other = Other(small, tables=("v",))
    error = refused(lambda: small.restore(catalog=other.before("register_view")))
    assert "db.v" in str(error)
    found = small.find_restored()
    assert found is not None
    assert (
        compare_tables(
            table.location,
            found.metadata_location,
            [(table.root, str(small.folder / "target/db/t"))],
        )
        == []
    )


def test_what_a_restore_of_fewer_tables_notes_meanwhile_is_not_taken_for_ones_own(
    small: SmallPlace,
) -> None:
    """It numbers its work from the start as well, in the same place."""
    tables = {name: small.add(2, name) for name in ("a", "b")}
    small.backup()

    def begin() -> None:
        with pytest.raises(_StoppedError):
            small.restore(tables=("a",), progress=AtPhase("copying", _stop))

    report = small.restore(progress=AtPhase("copying", begin))
    for restored in report.tables:
        roots = [(move.old, move.new) for move in restored.roots]
        source = tables[restored.table.name].location
        assert compare_tables(source, restored.metadata_location, roots) == []
    assert list(_leftovers(small)) == []


def test_one_table_of_two_that_another_restored_is_named_and_the_same_command_ends_it(
    small: SmallPlace,
) -> None:
    small.add(2, "a")
    small.add(2, "b")
    small.backup()
    other = Other(small, tables=("b",))
    error = refused(lambda: small.restore(progress=AtPhase("registering", other.run)))
    assert "db.b" in str(error)
    assert "db.a" not in str(error)
    report = small.restore()
    assert sorted(table.table.name for table in report.tables) == ["a", "b"]
    assert list(_leftovers(small)) == []


def test_who_finds_other_bytes_of_a_restore_that_is_at_work_is_told_whose(
    small: SmallPlace,
) -> None:
    table = small.add(2)
    small.backup()
    moved = Move(f"{table.root}/data", str(small.folder / "elsewhere"))

    def begin() -> None:
        with pytest.raises(_StoppedError):
            small.restore(map_roots=(moved,), progress=AtPhase("checking", _stop))

    progress = AtPhase("rewriting manifests", begin)
    error = refused(lambda: small.restore(progress=progress), "is at work")
    assert "other bytes" in str(error)
    assert small.find_restored() is None


def test_what_goes_wrong_after_ones_own_registering_is_told_as_it_is(small: SmallPlace) -> None:
    """A catalog whose answer is lost: the table is there, and nobody else's."""
    small.add(2)
    small.backup()
    real: Any = small.product.open(TARGET)

    def register(table: TableId, location: str) -> None:
        real.register(table, location)
        raise TargetExistsError("no answer came, and now it exists")

    with pytest.raises(TargetExistsError, match="no answer came"):
        small.restore(catalog=Wrapped(real, "register", register))
    assert small.restore().tables[0].table.name == "t"
    assert list(_leftovers(small)) == []


def _leftovers(small: SmallPlace) -> Iterator[Path]:
    return (path for path in small.folder.rglob("*") if path.name in {MARKER, SCRATCH})
