"""The archive of the JVM's classes: it is used, and does no harm where it does not fit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bcn.engine.spark import archive_conf, archive_folder, archive_name

pytestmark = [pytest.mark.spark, pytest.mark.long]

# Prints the names of the archives that the JVM has mapped, and then what a job gives.
PROGRAM = """\
import sys
from pathlib import Path
from bcn.engine.spark import Engine, SparkSettings, archive_conf

conf = archive_conf(Path(sys.argv[1])) if len(sys.argv) > 1 else {}
engine = Engine(SparkSettings(master="local[1]", conf=conf))
given = engine.run(abs, [-7])
from pyspark import SparkContext
maps = Path(f"/proc/{SparkContext._gateway.proc.pid}/maps").read_text()
engine.stop()
print({line.rpartition("/")[2] for line in maps.splitlines() if "spark-" in line}, given)
"""


@pytest.fixture
def archive() -> Path:
    """The one that `make install` has made."""
    (found,) = archive_folder().iterdir()
    return found


def run(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_spark_starts_from_the_archive_of_the_environment(archive: Path) -> None:
    assert run() == f"{ {archive.name} } [7]"


def test_an_archive_in_a_folder_with_an_odd_name_is_used(archive: Path, tmp_path: Path) -> None:
    folder = tmp_path / 'a "b" \\ $HOME c'
    folder.mkdir()
    (folder / archive.name).symlink_to(archive)
    assert run(str(folder)) == f"{ {archive.name} } [7]"


@pytest.mark.parametrize("damage", ["changed", "garbage"])
def test_an_archive_that_does_not_fit_is_ignored(
    archive: Path, tmp_path: Path, damage: str
) -> None:
    data = bytearray(archive.read_bytes() if damage == "changed" else os.urandom(1 << 20))
    middle = len(data) // 2
    data[middle] ^= 1
    (tmp_path / archive_name(len(data))).write_bytes(data)
    assert "SharedArchiveFile" in str(archive_conf(tmp_path))
    assert run(str(tmp_path)) == "set() [7]"
    (tmp_path / archive_name(len(data))).unlink()


def test_an_archive_that_is_cut_short_is_not_given_to_the_jvm(tmp_path: Path) -> None:
    """It would crash."""
    (tmp_path / archive_name(100)).write_bytes(bytes(50))
    assert archive_conf(tmp_path) == {}
    (tmp_path / archive_name(50)).write_bytes(bytes(50))
    assert archive_name(50) in str(archive_conf(tmp_path))


def test_without_an_archive_nothing_is_asked_of_the_jvm(tmp_path: Path) -> None:
    assert archive_conf(tmp_path) == {}
    assert archive_conf(tmp_path / "none") == {}


def test_a_java_that_makes_none_does_not_stop_an_installation(
    archive: Path, tmp_path: Path
) -> None:
    """And the environment keeps the one it has."""
    done = subprocess.run(
        [sys.executable, "-m", "bcn.engine.archive"],
        env={**os.environ, "JAVA_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0
    assert done.stderr.startswith("Spark will start some seconds slower: ")
    assert list(archive_folder().iterdir()) == [archive]
