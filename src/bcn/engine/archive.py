"""The classes of Spark's JVM in a file that later ones map, so that they start in half the time.

`python -m bcn.engine.archive` makes it, in the environment that bcn is installed in. A JVM takes it
if it is of the same Java and has the same jars; else it starts as if there were none.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from bcn.engine.spark import (
    QUICK_JVM,
    Engine,
    EngineError,
    SparkSettings,
    archive_folder,
    archive_name,
    quote_option,
)

_EXIT_SECONDS = 120


def make_archive(folder: Path) -> None:
    """Load what commands load, and have the JVM note it when it ends. Raises EngineError.

    Classes of Spark SQL are left out: to note them takes ten times what they save.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        made = Path(scratch) / "made"
        engine = Engine(_settings(made))
        engine.run(abs, [1, 2])
        engine.stop()
        _end_jvm()
        if not made.exists():
            raise EngineError("this Java makes no archive of its classes")
        for old in folder.glob("*.jsa"):
            old.unlink()
        made.rename(folder / archive_name(made.stat().st_size))


def _settings(made: Path) -> SparkSettings:
    conf = {
        "spark.driver.defaultJavaOptions": quote_option(f"-XX:ArchiveClassesAtExit={made}"),
        "spark.driver.extraJavaOptions": QUICK_JVM,
    }
    return SparkSettings(conf=conf)


def _end_jvm() -> None:
    """Its end is when the archive is made; it ends when nobody can type any more."""
    from pyspark import SparkContext  # noqa: PLC0415  costs half a second: only when needed

    gateway: Any = SparkContext._gateway
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(_EXIT_SECONDS)


def main() -> int:
    """Make it anew; without one all works, only later."""
    try:
        make_archive(archive_folder())
    except Exception as error:  # noqa: BLE001  whatever a Java or a disk lacks
        sys.stderr.write(f"Spark will start some seconds slower: {error}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
