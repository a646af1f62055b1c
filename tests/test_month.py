"""The month can be played again, and the page that is in the docs is one that it wrote."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
_DAY = re.compile(r"^## (Day \d+: .*)$", re.MULTILINE)
_COMMAND = re.compile(r"^\$ (bcn .*)$", re.MULTILINE)
_PIT = re.compile(r"\d{8}T\d{6}\.\d{6}Z")


def shape(page: str) -> list[str]:
    """Chapters and commands, whatever the time was."""
    found = _DAY.findall(page) + _COMMAND.findall(page)
    return [_PIT.sub("PIT", line) for line in found]


@pytest.mark.spark
@pytest.mark.slow
def test_a_month_is_played_and_told(tmp_path: Path) -> None:
    page = tmp_path / "month.md"
    done = subprocess.run(
        [sys.executable, "-m", "examples.month", str(tmp_path / "m"), "--page", str(page)],
        check=False,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=1500,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert str(tmp_path) not in page.read_text()
    assert shape(page.read_text()) == shape((ROOT / "docs/month.md").read_text())


def test_the_page_in_the_docs_tells_all_days_and_names_no_place_of_a_machine() -> None:
    page = (ROOT / "docs/month.md").read_text()
    assert len(_DAY.findall(page)) >= 12
    assert page.count("*Proved:*") >= 3
    for command in ("backup", "restore", "list", "describe", "diff", "log", "verify", "prune"):
        assert f"$ bcn {command}" in page
    assert not re.search(r"(?<![\w.])/(tmp|work|root|home)/", page)


def test_a_folder_of_somebody_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("mine")
    done = subprocess.run(
        [sys.executable, "-m", "examples.month", str(tmp_path), "--page", str(tmp_path / "p.md")],
        check=False,
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "was not made by the month" in done.stderr
    assert (tmp_path / "precious.txt").read_text() == "mine"
