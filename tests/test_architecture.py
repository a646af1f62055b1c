"""The house rules that no linter knows: sizes of files, pages that exist, no paths of a machine."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import bcn

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "src" / "bcn").rglob("*.py"))


def tracked() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True
    ).stdout
    return [ROOT / name for name in listed.split("\0") if name]


@pytest.mark.long
def test_another_process_at_another_time_collects_tests_of_the_same_names(
    request: pytest.FixtureRequest,
) -> None:
    """Else two workers would refuse to run beside each other, some day."""
    ours = [item.nodeid for item in request.session.items]
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "tests"]
    environment = {**os.environ, "PYTHONHASHSEED": "77"}
    told = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, check=True, text=True
    ).stdout
    among = set(ours)
    theirs = [name for name in told.splitlines() if name in among]
    assert sorted(theirs, key=_file) == sorted(ours, key=_file)  # in this order within a file


def _file(name: str) -> str:
    return name.partition("::")[0]


def test_no_source_file_is_longer_than_a_reader_can_hold() -> None:
    assert [path.name for path in SOURCES if len(path.read_text().splitlines()) > 400] == []


def test_every_module_says_what_it_owns() -> None:
    silent = [path for path in SOURCES if not path.read_text().startswith('"""')]
    assert silent == []


def test_pages_that_the_readme_names_exist() -> None:
    pages = re.findall(r"\]\((docs/[^)#]+)\)", (ROOT / "README.md").read_text())
    assert len(pages) > 5
    assert [page for page in pages if not (ROOT / page).is_file()] == []


def test_the_version_is_said_once() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == bcn.__version__


def test_no_file_names_a_place_of_one_machine() -> None:
    pattern = re.compile(rb"(?<![\w./$])/(work|root|home)/\w")
    found = [
        str(path.relative_to(ROOT))
        for path in tracked()
        if path.suffix in {".py", ".md", ".toml", ".txt", ""} and path.is_file()
        if pattern.search(path.read_bytes())
    ]
    assert found == []
