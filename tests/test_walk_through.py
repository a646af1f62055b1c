"""The README's second walk-through, typed as it stands there, on the servers that it starts."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
_TITLE = "## A real stack in three minutes\n"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_NEEDED = (".venv", "examples")


def section() -> str:
    text = (ROOT / "README.md").read_text()
    assert text.count(_TITLE) == 1
    return text.partition(_TITLE)[2].partition("\n## ")[0]


def blocks(kind: str) -> list[str]:
    return [text for name, text in _BLOCK.findall(section()) if name == kind]


def environment() -> dict[str, str]:
    """A new user's: nothing of bcn, of AWS or of a stack."""
    foreign = ("BCN_", "AWS_", "S3_", "HIVE_", "PYICEBERG_", "WAREHOUSE_", "BACKUP_")
    return {key: value for key, value in os.environ.items() if not key.startswith(foreign)}


@pytest.mark.spark
def test_the_walk_through_of_a_real_stack_goes_as_the_readme_says(tmp_path: Path) -> None:
    for name in _NEEDED:
        (tmp_path / name).symlink_to(ROOT / name)
    script = "\n".join(blocks("sh"))
    try:
        done = subprocess.run(
            ["bash", "-exuo", "pipefail", "-c", script],
            cwd=tmp_path,
            env=environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
    finally:
        subprocess.run([ROOT / ".venv/bin/bcn", "down", "-q"], cwd=tmp_path, check=True)
    shown = done.stdout
    assert done.returncode == 0, shown + done.stderr
    assert "3 sections checked, all work" in shown
    assert "tables  3 new, 0 changed, 0 unchanged" in shown
    assert "Dropped namespace: sales" in shown
    assert "rm s3://warehouse/sales.db/" in shown
    assert "restored 2 tables, 1 new database of PIT" in shown
    assert "earlier try" not in shown
    [table] = blocks("text")
    assert table in shown
    assert re.search(r"\|orders_in_q1\|\n\+-+\+\n\|1750 ", shown)
    assert "ended hive, minio" in shown
    assert not (tmp_path / "bcn-stack").exists()


def test_the_walk_through_has_each_step(tmp_path: Path) -> None:
    script = "\n".join(blocks("sh"))
    steps = ["bcn up", "examples.sample", "config check", "bcn backup"]
    steps += ["drop namespace", "s5cmd rm", "bcn list", "bcn restore", "SELECT", "bcn down"]
    places = [script.index(step) for step in steps]
    assert places == sorted(places)
    subprocess.run(["bash", "-n", "-c", script], cwd=tmp_path, check=True)
