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
_STATEMENTS = (
    """CREATE TABLE local.a.b USING iceberg PARTITIONED BY (half)
    TBLPROPERTIES ('write.delete.mode'='merge-on-read')
    AS SELECT id, id % 2 AS half FROM range(9)""",
    "DELETE FROM local.a.b WHERE id = 3",
    "SELECT half, count(*) FROM local.a.b GROUP BY half ORDER BY half",
)


def make_archive(folder: Path) -> None:
    """Load what commands load, and have the JVM note it when it ends. Raises EngineError."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        made = Path(scratch) / "made"
        engine = Engine(_settings(made))
        engine.run(abs, [1, 2])
        if engine.settings.iceberg:
            _read_and_write(engine.context)
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
        "spark.sql.warehouse.dir": f"{made}-spark",
        "spark.sql.catalog.local": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.local.type": "hadoop",
        "spark.sql.catalog.local.warehouse": f"{made}-tables",
    }
    has_iceberg = any((Path(sys.prefix) / "jars").glob("iceberg-spark-*.jar"))
    return SparkSettings(conf=conf, iceberg=has_iceberg)


def _read_and_write(context: Any) -> None:
    from pyspark.sql import SparkSession  # noqa: PLC0415  costs a second: only where it is needed

    session = SparkSession(context)
    for statement in _STATEMENTS:
        session.sql(statement).collect()


def _end_jvm() -> None:
    """Its end is when the archive is made; it ends when nobody can type any more."""
    from pyspark import SparkContext  # noqa: PLC0415  as above

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
