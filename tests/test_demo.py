"""`make demo`: it ends well, shows what it claims, and can fail."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from examples.demo import MARKER, Stage, clear, main, prove
from examples.demo_proof import Rows, judge, read_catalog
from examples.demo_warehouse import DemoFailedError, add_sqlite_catalog

ROOT = Path(__file__).parents[1]
SOURCE = {"sales.orders": {"snapshot 1": Rows(3, "aa"), "branch main": Rows(3, "aa")}}
COUNTS = {"sales.orders": {"snapshot 1": 3, "branch main": 3}}


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder after a demo, and what it printed."""
    folder = tmp_path_factory.mktemp("played") / "demo"
    done = subprocess.run(
        [sys.executable, "-m", "examples.demo", str(folder)],
        cwd=ROOT,
        env={**os.environ, "BCN_REPO": "/nowhere"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder, done.stdout


@pytest.mark.spark
@pytest.mark.slow
def test_the_demo_proves_every_table_of_both_points_in_time(played: tuple[Path, str]) -> None:
    verdicts = [line.split() for line in played[1].splitlines() if " equal " in f"{line} "]
    tables = {words[0] for words in verdicts if words[3:5] == ["equal", "equal"]}
    always = {"sales.orders", "sales.order_lines", "crm.customers", "ops.events", "ops.readings"}
    assert tables == {
        *(f"{catalog}.{name}" for catalog in ("dr", "yesterday") for name in always),
        "dr.crm.campaigns",
        "yesterday.crm.segments",
    }
    assert "DIFFERENT" not in played[1]
    assert "branch cleanup, branch main" in played[1]
    assert "branch main, tag q1" in played[1]


@pytest.mark.spark
@pytest.mark.slow
def test_the_demo_shows_what_the_second_backup_found(played: tuple[Path, str]) -> None:
    lines = played[1].splitlines()
    assert "tables  6 new, 0 changed, 0 unchanged, 0 renamed, 0 deleted, 0 failed" in lines
    assert "tables  1 new, 3 changed, 2 unchanged, 0 renamed, 1 deleted, 0 failed" in lines
    assert any(
        line.startswith("DELETED  crm.segments       -         -  last in ") for line in lines
    )
    assert "whole: 2 PITs of 7 objects" in lines
    assert "earlier try" not in played[1]


@pytest.mark.spark
@pytest.mark.slow
def test_the_restored_tables_have_both_kinds_of_deletes(played: tuple[Path, str]) -> None:
    folder = played[0]
    versions = {
        document["format-version"]
        for path in (folder / "dr").glob("*/*/metadata/*.metadata.json")
        for document in [json.loads(path.read_bytes())]
    }
    assert versions == {2, 3}
    assert list((folder / "dr/sales/orders/data").rglob("*-deletes.parquet"))
    assert list((folder / "dr/sales/order_lines/data").rglob("*.puffin"))
    assert not (folder / "warehouse").exists()
    assert not (folder / "scratch").exists()


@pytest.mark.spark
@pytest.mark.slow
def test_a_changed_row_and_a_lost_file_of_a_restored_table_are_found(
    played: tuple[Path, str], spark: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, session = played[0], spark.newSession()
    add_sqlite_catalog(session, "dr", folder / "dr.db", folder / "dr")
    source = {"dr": read_catalog(session, "dr")}
    prove(Stage(folder, os.environ), session, source)
    session.sql("UPDATE dr.ops.readings SET value = value + 1 WHERE sensor = 'sensor-3'")
    with pytest.raises(DemoFailedError, match=r"^not as in the source: dr\.ops\.readings$"):
        prove(Stage(folder, os.environ), session, source)
    assert "Spark: branch main: Rows(count=1200" in capsys.readouterr().out
    next((folder / "dr/crm/campaigns/data").glob("*.parquet")).unlink()
    with pytest.raises(DemoFailedError, match=r"^Spark cannot read dr\.crm\.campaigns: "):
        prove(Stage(folder, os.environ), session, source)


@pytest.mark.spark
@pytest.mark.slow
def test_the_commands_to_go_on_with_work(played: tuple[Path, str]) -> None:
    script = played[1].split("Go on by hand:")[1]
    done = subprocess.run(
        ["bash", "-exc", script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(script.split("\n")) > 6
    assert "restored 1 table of PIT" in done.stdout
    assert "tables  0 new, 0 changed, 6 unchanged, 0 renamed, " in done.stdout
    assert "whole: 1 PIT of 6 objects" in done.stdout


def test_equal_readings_are_equal() -> None:
    [verdict] = judge("dr", SOURCE, SOURCE, COUNTS)
    assert verdict.is_equal
    assert (verdict.table, verdict.snapshots, verdict.rows) == ("dr.sales.orders", 1, 6)


def test_a_changed_value_is_a_difference() -> None:
    restored = {"sales.orders": {**SOURCE["sales.orders"], "snapshot 1": Rows(3, "bb")}}
    [verdict] = judge("dr", SOURCE, restored, COUNTS)
    assert not verdict.is_equal
    assert len(verdict.spark_differences) == 1


def test_a_missing_version_a_missing_table_and_one_too_many_are_differences() -> None:
    less = {"sales.orders": {"branch main": Rows(3, "aa")}}
    assert not judge("dr", SOURCE, less, COUNTS)[0].is_equal
    assert not judge("dr", less, SOURCE, COUNTS)[0].is_equal
    assert not judge("dr", SOURCE, {}, {})[0].is_equal
    assert not judge("dr", {}, SOURCE, COUNTS)[0].is_equal


def test_a_row_that_only_pyiceberg_sees_is_a_difference() -> None:
    counts = {"sales.orders": {"snapshot 1": 3, "branch main": 4}}
    [verdict] = judge("dr", SOURCE, SOURCE, counts)
    assert verdict.pyiceberg_differences == ("branch main: 3 before, 4 now",)


def test_a_second_demo_removes_what_the_first_one_made_and_nothing_else(tmp_path: Path) -> None:
    clear(tmp_path)
    (tmp_path / "dr" / "sales").mkdir(parents=True)
    (tmp_path / "dr.db").touch()
    (tmp_path / "notes.txt").touch()
    clear(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {MARKER, "scratch", "notes.txt"}


def test_a_folder_that_the_demo_did_not_make_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bcn.toml").write_text("# mine")
    assert main([str(tmp_path)]) == 1
    assert "was not made by the demo" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["bcn.toml"]
    assert (tmp_path / "bcn.toml").read_text() == "# mine"


def test_a_command_that_fails_ends_the_demo(tmp_path: Path) -> None:
    with pytest.raises(DemoFailedError, match=r"exit code 10 of: .* list --repo none$"):
        Stage(tmp_path, os.environ).run("list", "--repo", "none")
