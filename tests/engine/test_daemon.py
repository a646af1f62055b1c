"""The daemon of Python workers: out of the installed package, and gone without a second's wait."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from bcn.engine.daemon import without_copies

# Prints where the driver and a worker have PySpark from, whether there was a socket and still is
# one, how long Spark took to end while its accumulators were not done, what a second Spark gives.
PROGRAM = """\
import json, threading, time
from pathlib import Path
from bcn.engine.archive import _end_jvm
from bcn.engine.spark import Engine, SparkSettings

def origin(_task):
    import sys, pyspark
    return pyspark.__file__, [entry for entry in sys.path if "pyspark.zip" in entry]

if __name__ == "__main__":
    engine = Engine(SparkSettings(master="local[1]"))
    (found,) = engine.run(origin, [0])
    server, may_end = engine.context._accumulatorServer, threading.Event()
    shut_down, socket = server.shutdown, Path(server.server_address)
    server.shutdown = lambda: may_end.wait(30) and shut_down()
    was_there = socket.exists()
    begun = time.monotonic()
    engine.stop()
    seconds = time.monotonic() - begun
    may_end.set()
    again = Engine(SparkSettings(master="local[1]"))
    (second,) = again.run(abs, [-2])
    again.stop()
    _end_jvm()
    print(json.dumps([origin(0)[0], found, was_there, socket.exists(), seconds, second]))
"""


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder of packages with a PySpark in it."""
    packages = tmp_path / "site-packages"
    lib = packages / "pyspark" / "python" / "lib"
    lib.mkdir(parents=True)
    (packages / "pyspark" / "__init__.py").touch()
    for name in ("pyspark.zip", "py4j-src.zip"):
        with zipfile.ZipFile(lib / name, "w") as archive:
            archive.writestr("pyspark/__init__.py", "")
    return packages


def test_zips_of_the_installed_package_leave_the_path(installed: Path) -> None:
    lib = installed / "pyspark" / "python" / "lib"
    path = ["", f"{lib}/pyspark.zip", f"{lib}/py4j-src.zip", "/other/x.zip", str(installed)]
    assert without_copies(path) == ["", "/other/x.zip", str(installed)]


def test_zips_of_another_spark_stay(installed: Path, tmp_path: Path) -> None:
    """Workers must be of the JVM's version, not of the version that is installed."""
    path = [f"{tmp_path}/spark/python/lib/pyspark.zip", str(installed)]
    assert without_copies(path) == path


def test_zips_stay_where_they_are_all_there_is(installed: Path) -> None:
    path = [f"{installed}/pyspark/python/lib/pyspark.zip"]
    assert without_copies(path) == path


@pytest.mark.spark
@pytest.mark.long
def test_workers_come_from_the_package_and_spark_ends_without_a_wait(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, program], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    package, found, was_there, is_left, seconds, second = json.loads(done.stdout)
    assert found == [package, []]
    assert (was_there, is_left, second) == (True, False, 2)
    assert seconds < 20
    assert "Traceback" not in done.stderr  # the JVM ended first, and nobody has to know
