"""`bcn diff` and `bcn log`: what people and programs are told of real backups."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bcn.errors import NoSuchTableError, UnknownPitError, UsageError
from bcn.model import PitId
from tests.changes.places import World, append, open_world
from tests.cli.made import Folder
from tests.cli.pages import differences, examples

pytestmark = pytest.mark.long


def evolve(document: dict[str, Any]) -> None:
    append(document)
    fields = document["schemas"][0]["fields"]
    fields.append({"id": 2, "name": "discount", "required": False, "type": "decimal(4, 2)"})
    document["properties"] |= {"owner": "eve\x1b[2J"}
    del document["snapshots"][0]


@pytest.fixture
def world(folder: Folder) -> World:
    return open_world(folder.root)


@pytest.fixture
def pits(world: World) -> list[PitId]:
    """Three tables and a view; then one evolves, one goes, one is renamed, one comes."""
    for name in ("orders", "items", "people"):
        world.add(name)
    world.set_view("v", "SELECT 1")
    first = world.backup()
    world.commit("orders", evolve)
    world.drop("items")
    world.rename("people", "hr", "staff")
    world.add("fresh")
    return [first, world.backup(), world.backup()]


def test_a_comparison_says_what_a_person_would(folder: Folder, pits: list[PitId]) -> None:
    text = folder.invoke("diff", str(pits[0]), str(pits[1])).stdout
    lines = text.splitlines()
    assert lines[0] == f"{pits[0]} to {pits[1]}"
    assert "NEW      database hr" in lines
    assert "NEW      table db.fresh" in lines
    assert "DELETED  table db.items" in lines
    assert "RENAMED  table db.people to hr.staff" in lines
    changed = lines[lines.index("CHANGED  table db.orders") + 1 :]
    changed = [line.strip() for line in changed[: changed.index("")]]
    assert changed[0] == "rows      120, delete marks 7"
    assert changed[3] == "snapshots 2"
    assert changed[2].endswith(" added, 2 removed")
    assert changed[4].startswith("1 snapshot added: append 800000000000000000")
    assert changed[5].startswith("1 snapshot expired: append ")
    assert "column discount added, decimal(4, 2)" in changed
    assert "property owner changed from 'someone' to 'eve\\x1b[2J'" in changed
    assert lines[-1] == "2 new, 1 changed, 1 renamed, 1 deleted, 1 unchanged"


def test_the_second_point_in_time_is_the_newest_if_left_out(
    folder: Folder, pits: list[PitId]
) -> None:
    lines = folder.invoke("diff", "latest~1").stdout.splitlines()
    assert lines[0] == f"{pits[1]} to {pits[2]}"
    assert lines[-1] == "4 unchanged"
    assert folder.invoke("diff", "latest~2", "latest~1").stdout.startswith(f"{pits[0]} to")


def test_a_comparison_may_be_of_some_tables(folder: Folder, pits: list[PitId]) -> None:
    text = folder.invoke("diff", "latest~2", "--table", "o*").stdout
    assert text.splitlines()[-1] == "1 changed, 0 unchanged"
    with pytest.raises(NoSuchTableError, match=r"'db\.orders'"):
        folder.invoke("diff", "latest~2", "--table", "order")
    assert len(pits) == 3


def test_points_in_time_that_are_none_or_several_are_refused(
    folder: Folder, pits: list[PitId]
) -> None:
    for words in (("latest~9",), ("yesterday",), (str(pits[0])[:4],), ("latest", "yesterday")):
        with pytest.raises(UnknownPitError):
            folder.invoke("diff", *words)


def test_what_a_comparison_prints_for_programs_is_as_documented(
    folder: Folder, pits: list[PitId]
) -> None:
    printed = json.loads(folder.invoke("diff", str(pits[0]), "--json").stdout)
    assert differences(printed, examples()["diff"]) == []
    assert {item["status"] for item in printed["objects"]} >= {"NEW", "DELETED", "RENAMED"}


def test_a_damaged_document_ends_a_comparison_with_its_exit_code(
    folder: Folder, world: World, pits: list[PitId]
) -> None:
    _damage_metadata(world, pits[1])
    done = folder.run("diff", str(pits[0]), str(pits[1]))
    assert done.returncode == 13
    assert "DAMAGED: metadata " in done.stdout
    assert "error: 1 version in " in done.stderr


def _damage_metadata(world: World, pit: PitId) -> None:
    record = next(item for item in world.pit(pit).objects if item.table.name == "orders")
    entry = world.repository.load_entry(record.entry)
    Path(world.repository.spec.location, entry.metadata_key).write_bytes(b"{}")


# log


def test_a_history_has_two_lines_a_change(folder: Folder, pits: list[PitId]) -> None:
    lines = folder.invoke("log", "db.orders").stdout.splitlines()
    assert lines[0].startswith("table db.orders, id ")
    assert lines[1].split() == ["PIT", "STATUS", "ROWS", "SIZE", "SNAPSHOTS", "NAME"]
    assert lines[2].split()[:5] == [str(pits[1]), "CHANGED", "120", "less", "7"]
    assert lines[3].strip().startswith("1 snapshot added (append); 1 snapshot expired (append); ")
    assert lines[4].split()[:3] == [str(pits[0]), "NEW", "unknown"]
    assert max(len(line) for line in [lines[1], lines[2], lines[4]]) <= 100


def test_a_history_of_what_is_gone_says_when(folder: Folder, pits: list[PitId]) -> None:
    lines = folder.invoke("log", "items").stdout.splitlines()
    assert lines[2].split()[:3] == [str(pits[1]), "DELETED", "-"]
    assert f"last in {pits[0]}, noticed 20" in lines[3]


def test_a_limit_is_told(folder: Folder, pits: list[PitId]) -> None:
    lines = folder.invoke("log", "orders", "--limit", "1").stdout.splitlines()
    assert lines[-1] == "1 older change not shown"
    assert str(pits[0]) not in "".join(lines)


def test_what_a_history_prints_for_programs_is_as_documented(
    folder: Folder, pits: list[PitId]
) -> None:
    for name in ("orders", "items", "people", "v"):
        printed = json.loads(folder.invoke("log", name, "--json").stdout)
        assert differences(printed, examples()["log"]) == []
    assert len(pits) == 3


def test_an_unknown_table_ends_with_the_exit_code_of_catalogs(
    folder: Folder, pits: list[PitId]
) -> None:
    code, report = folder.json("log", "db.ordesr")
    assert (code, report["error"]["class"]) == (14, "NoSuchTableError")
    assert "did you mean 'db.orders'?" in report["error"]["message"]
    assert len(pits) == 3


def test_an_odd_name_or_limit_is_a_mistake_of_the_line(folder: Folder, pits: list[PitId]) -> None:
    for words in (("a..b",), ("orders", "--limit", "0")):
        assert folder.run("log", *words).returncode == 2
    from bcn import api  # noqa: PLC0415  beside the one use

    with pytest.raises(UsageError, match="--limit"):
        api.log("orders", limit=0)
    assert len(pits) == 3


@pytest.mark.parametrize("words", [("diff", "latest~1"), ("log", "orders")])
def test_looking_needs_no_spark_and_where_nothing_changed_no_arrow(
    folder: Folder, pits: list[PitId], words: tuple[str, ...]
) -> None:
    done = folder.run(*words, PYTHONPROFILEIMPORTTIME="1")
    loaded = {line.rsplit("|", 1)[-1].strip() for line in done.stderr.splitlines()}
    assert "bcn.repository.repository" in loaded
    assert loaded & {"pyspark", "pyarrow", "numpy", "numba", "sqlalchemy", "pyiceberg"} == set()
    assert len(pits) == 3
