"""The commands on real tables: backups, one in which a table fails, restore, verify, signals."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bcn.catalog.open import open_catalog
from bcn.catalog.protocol import Catalog
from bcn.config.load import load_settings
from bcn.model import TableId
from tests.cli.made import Folder, clean_environment, make_folder
from tests.cli.pages import differences, examples
from tests.support.shapes.synthetic import DataFiles, SyntheticTable, write_synthetic

pytestmark = pytest.mark.spark


def _open(folder: Folder, name: str) -> Catalog:
    return open_catalog(load_settings(None, {}, folder.root).catalog(name))


def _add_table(folder: Folder, name: str) -> Path:
    """A table without rows that anybody needs to read; its metadata file."""
    table = TableId.parse(name)
    root = folder.root / "warehouse" / table.database / table.name
    path = Path(write_synthetic(SyntheticTable(str(root), data=DataFiles.SPARSE)))
    document = json.loads(path.read_text())
    document["table-uuid"] = str(uuid.uuid4())
    path.write_text(json.dumps(document))
    catalog = _open(folder, "prod")
    catalog.create_namespace(table.namespace, {})
    catalog.register(table, str(path))
    return path


@dataclass(frozen=True)
class Story:
    """What was run, in this order, and what it printed."""

    folder: Folder
    first: subprocess.CompletedProcess[str]
    second: subprocess.CompletedProcess[str]
    third: tuple[int, Any]
    restored: tuple[int, Any]


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    folder = make_folder(tmp_path_factory.mktemp("story"))
    items = [_add_table(folder, name) for name in ("sales.orders", "sales.items")][1]
    first = folder.run("backup", "--catalog", "prod", "--label", "by=test", "--jobs", "2")
    assert first.returncode == 0, first.stderr
    script = (
        "import sys\n"
        "from bcn.cli.main import run\n"
        "code = run(['backup', '--json'])\n"
        "assert 'pyspark' not in sys.modules\n"
        "sys.exit(code)\n"
    )
    second = subprocess.run(
        [sys.executable, "-c", script],
        cwd=folder.root,
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    items.write_text("{")
    third = folder.json("backup")
    restored = folder.json(
        *("restore", "--pit", "latest", "--database", "sales", "--table", "orders"),
        *("--target-catalog", "dr", "--target-database", "back", "--target-table", "orders2"),
    )
    return Story(folder, first, second, third, restored)


def test_a_first_backup_ends_with_its_id_a_summary_and_what_to_type(story: Story) -> None:
    lines = story.first.stdout.splitlines()
    [pit] = [line.split()[1] for line in lines if line.startswith("PIT ")]
    assert "tables  2 new, 0 changed, 0 unchanged, 0 renamed, 0 deleted, 0 failed" in lines
    assert lines[-1] == f"  bcn restore --repo nightly --pit {pit} --target-catalog dr"


def test_a_backup_shows_its_phases_and_nothing_of_the_jvm(story: Story) -> None:
    names = [line.split(":")[0] for line in story.first.stderr.splitlines()]
    known = {"reading the catalog", "reading metadata", "starting Spark", "copying"}
    assert known | {"writing the inventory", "publishing"} == set(names)
    [copied] = [line for line in story.first.stderr.splitlines() if line.startswith("copying")][-1:]
    assert "files" in copied
    assert "/s" in copied


def test_a_backup_of_nothing_new_needs_no_spark(story: Story) -> None:
    assert story.second.returncode == 0, story.second.stderr
    report = json.loads(story.second.stdout)
    assert {table["status"] for table in report["tables"]} == {"UNCHANGED"}
    assert report["parent_pit"] in story.first.stdout
    assert report["bytes_copied"] == 0


def test_a_backup_in_which_a_table_fails_is_done_in_part(story: Story) -> None:
    code, report = story.third
    assert code == 3
    assert report["error"]["class"] == "IncompleteBackupError"
    assert "sales.items" in report["error"]["message"]
    told = {table["name"]: table for table in report["tables"]}
    assert told["orders"]["status"] == "UNCHANGED"
    assert told["items"]["status"] == "FAILED"
    assert told["items"]["class"] == "MalformedFileError"
    assert differences(report, examples()["backup"]) == []
    newest = story.folder.repository.find_newest()
    assert newest is not None
    assert str(newest.pit) == report["pit"]


def test_the_third_pit_lists_the_table_that_failed(story: Story) -> None:
    _code, report = story.folder.json("list", "--pit", story.third[1]["pit"])
    assert {item["name"]: item["status"] for item in report["objects"]} == {
        "orders": "UNCHANGED",
        "items": "FAILED",
    }


def test_a_restored_table_is_in_the_catalog_under_its_new_name(story: Story) -> None:
    code, report = story.restored
    assert code == 0, report
    assert differences(report, examples()["restore"]) == []
    [table] = report["tables"]
    assert (table["database"], table["name"]) == ("back", "orders2")
    found = _open(story.folder, "dr").find_pointer(TableId(("back",), "orders2"))
    assert found is not None
    assert found.metadata_location == table["metadata_location"]
    assert Path(found.metadata_location.removeprefix("file://")).is_file()


def test_a_table_that_is_there_is_not_overwritten(story: Story) -> None:
    code, report = story.folder.json(
        *("restore", "--table", "orders", "--target-catalog", "dr", "--target-database", "back"),
        *("--target-table", "orders2"),
    )
    assert (code, report["error"]["class"]) == (16, "TargetExistsError")


def test_a_dry_run_writes_nothing(story: Story) -> None:
    before = sorted(path for path in story.folder.root.rglob("*") if path.is_file())
    backup = story.folder.json("backup", "--dry-run")
    restore = story.folder.json("restore", "--dry-run", "--table", "orders", "--target-catalog=dr")
    assert backup[1]["dry_run"] is True
    assert restore[1]["dry_run"] is True
    assert restore[0] == 0
    assert sorted(path for path in story.folder.root.rglob("*") if path.is_file()) == before


def test_verify_tells_what_is_whole_and_what_is_hurt(story: Story) -> None:
    whole = story.folder.run("verify", "--level", "2")
    assert whole.returncode == 0, whole.stderr
    assert "whole: 3 PITs" in whole.stdout
    victim = next((story.folder.location / "data").rglob("*.parquet"))
    hidden = victim.with_suffix(".hidden")
    victim.rename(hidden)
    code, report = story.folder.json("verify", "--level", "2")
    hurt = story.folder.run("verify", "--level", "2", "--quiet")
    hidden.rename(victim)
    assert (code, report["ok"], report["error"]["exit_code"]) == (13, False, 13)
    assert differences(report, examples()["verify"]) == []
    assert hurt.returncode == 13
    assert "DAMAGED" in hurt.stdout
    assert "error: " in hurt.stderr


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["int", "term"]
)
def test_a_backup_that_was_stopped_goes_on_when_it_is_run_again(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    folder = make_folder(tmp_path)
    _add_table(folder, "sales.orders")
    process = folder.start("backup", "--catalog", "prod", "--limit-rate", "2K")
    _wait_for(folder.location / "data", process)
    process.send_signal(number)
    _out, err = process.communicate(timeout=40)
    assert process.returncode == code, err
    assert f"error: stopped by {number.name}" in err
    assert "Traceback" not in err
    assert folder.repository.find_newest() is None
    assert folder.json("describe")[1]["lease"] is None
    again, report = folder.json("backup")
    assert (again, report["tables"][0]["status"]) == (0, "NEW")


def _wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    """Until the first files are there: the backup is in the middle of copying."""
    while not any(file.is_file() for file in path.rglob("*")):
        assert process.poll() is None
        time.sleep(0.1)
