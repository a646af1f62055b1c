"""The one Spark session of a test run, and the catalogs that tests add to it."""

from __future__ import annotations

import functools
import os
import sys
from pathlib import Path
from typing import Any

from bcn.catalog.spark_side import SparkSide
from bcn.engine.spark import archive_conf, archive_folder

_EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
_SPARK_CATALOG = "org.apache.iceberg.spark.SparkCatalog"
_JAVA_NAMES = {
    "AWS_ACCESS_KEY_ID": "aws.accessKeyId",
    "AWS_SECRET_ACCESS_KEY": "aws.secretAccessKey",
    "AWS_SESSION_TOKEN": "aws.sessionToken",
    "AWS_PROFILE": "aws.profile",
}
_QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss4m -Dfile.encoding=UTF-8"


def start_spark(scratch: Path, *, master: str = "local[2]", **more: str) -> Any:
    """The session of this process, started if need be; `scratch` takes what Spark spills.

    The environment is set first: without a UTF-8 locale Java writes `?` for every other character
    of a file's name. Tiny tables gain nothing from generated code, so it stays off.
    """
    os.environ.update(LC_ALL="C.UTF-8", SPARK_LOCAL_IP="127.0.0.1", PYSPARK_PYTHON=sys.executable)
    from pyspark.sql import SparkSession  # noqa: PLC0415  (reads the environment when imported)

    builder = SparkSession.builder.master(master).appName("bcn-tests")
    for key, value in {**_settings(scratch), **more}.items():
        builder = builder.config(key, value)
    _close_sockets_with_their_files()
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


@functools.cache
def _close_sockets_with_their_files() -> None:
    """Stops a leak in PySpark: it drops the socket of every result unclosed, a ResourceWarning.

    A socket that was closed while a file reads from it stays open until that file is done.
    """
    from pyspark import util  # noqa: PLC0415  (after the environment is set)

    connect = util.local_connect_and_auth

    def connect_and_close(*args: Any) -> tuple[Any, Any]:
        file, sock = connect(*args)
        sock.close()
        return file, sock

    util.local_connect_and_auth = connect_and_close


def _settings(scratch: Path) -> dict[str, str]:
    return {
        **archive_conf(archive_folder()),
        "spark.jars": ",".join(
            str(jar) for jar in sorted((Path(sys.prefix) / "jars").glob("*.jar"))
        ),
        "spark.sql.extensions": _EXTENSIONS,
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"{_QUICK_JVM} -Dderby.system.home={scratch}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(scratch / "spark-local"),
        "spark.sql.warehouse.dir": str(scratch / "spark-warehouse"),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.shuffle.compress": "false",
    }


def add_sql_catalog(spark: Any, name: str, db_path: Path, warehouse: Path | str) -> str:
    """Makes a JDBC catalog on a SQLite file known to Spark as `name`, its own name in that file."""
    return add_catalog(
        spark,
        name,
        {
            "type": "jdbc",
            "uri": f"jdbc:sqlite:{db_path}",
            "jdbc.schema-version": "V1",
            "warehouse": str(warehouse),
        },
    )


def add_hadoop_catalog(spark: Any, name: str, warehouse: Path | str) -> str:
    """Makes a catalog of plain directories known to Spark as `name`."""
    return add_catalog(spark, name, {"type": "hadoop", "warehouse": str(warehouse)})


def add_catalog(spark: Any, name: str, properties: dict[str, str]) -> str:
    """Makes a catalog of any type known to Spark as `name`."""
    prefix = f"spark.sql.catalog.{name}"
    spark.conf.set(prefix, _SPARK_CATALOG)
    spark.conf.set(f"{prefix}.cache-enabled", "false")
    for key, value in properties.items():
        spark.conf.set(f"{prefix}.{key}", value)
    return name


def open_side(spark: Any, side: SparkSide) -> str:
    """Makes a catalog known to a running session by what bcn itself says of it.

    Settings that only a new session takes are there already; variables of a process that runs
    come too late for Java, so they become its properties.
    """
    for key, value in side.settings.items():
        if key != "spark.sql.extensions":
            spark.conf.set(key, value)
    spark.conf.set(f"spark.sql.catalog.{side.name}.cache-enabled", "false")
    for key, value in side.environment.items():
        spark._jvm.System.setProperty(_JAVA_NAMES[key], value)
    return side.name
