"""The demo's warehouse: what a company's Iceberg catalog may look like, written by Spark."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bcn.engine.spark import archive_conf, archive_folder

_CATALOG = "org.apache.iceberg.spark.SparkCatalog"
_EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
_QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss4m -Dfile.encoding=UTF-8"
AT_ONCE = 2  # tables of this size leave a core idle while they are written or read alone
ON_READ = {
    f"table-default.write.{operation}.mode": "merge-on-read"
    for operation in ("delete", "update", "merge")
}


class DemoFailedError(Exception):
    """The demo cannot go on, or what it shows is not as it should be."""


@dataclass(frozen=True)
class Chapter:
    """What happens to one table: a line for the reader, and the statements that do it."""

    table: str
    story: str
    statements: tuple[str, ...]


FIRST_WEEKS = (
    Chapter(
        "sales.orders",
        "v2, by month: updates, deletes, a new column, tag q1",
        (
            """CREATE TABLE sales.orders USING iceberg PARTITIONED BY (months(ordered_at))
            TBLPROPERTIES ('format-version'='2') AS
            SELECT id AS order_id, id * 31 % 400 AS customer_id,
              timestampadd(MINUTE, id * 64, TIMESTAMP'2026-01-01 00:00:00') AS ordered_at,
              element_at(array('new', 'paid', 'shipped', 'cancelled'), CAST(id % 4 + 1 AS INT))
                AS status,
              CAST(5 + id * 37 % 20000 / 100 AS DECIMAL(10, 2)) AS amount
            FROM range(0, 2000, 1, 2)""",
            "UPDATE sales.orders SET status = 'paid' WHERE status = 'new' AND order_id < 1200",
            "DELETE FROM sales.orders WHERE status = 'cancelled' AND order_id % 8 = 3",
            "ALTER TABLE sales.orders CREATE TAG q1",
            "ALTER TABLE sales.orders ADD COLUMN discount DECIMAL(4, 2) AFTER amount",
            """INSERT INTO sales.orders
            SELECT id, id % 400, timestampadd(HOUR, id - 2000, TIMESTAMP'2026-04-01 00:00:00'),
              'new', CAST(20 + id % 80 AS DECIMAL(10, 2)), 0.15 FROM range(2000, 2300, 1, 1)""",
        ),
    ),
    Chapter(
        "sales.order_lines",
        "v3, 4 buckets: returned lines deleted",
        (
            """CREATE TABLE sales.order_lines USING iceberg PARTITIONED BY (bucket(4, order_id))
            TBLPROPERTIES ('format-version'='3') AS
            SELECT id DIV 2 AS order_id, CAST(id % 2 + 1 AS INT) AS line,
              concat('sku-', id * 13 % 97) AS sku, CAST(id % 5 + 1 AS INT) AS quantity
            FROM range(0, 4000, 1, 2)""",
            "DELETE FROM sales.order_lines WHERE order_id % 25 = 7",
        ),
    ),
    Chapter(
        "crm.customers",
        "v3, by country: a merge, a renamed column, branch cleanup",
        (
            """CREATE TABLE crm.customers USING iceberg PARTITIONED BY (country)
            TBLPROPERTIES ('format-version'='3') AS
            SELECT id AS customer_id, concat('Customer ', id) AS name,
              element_at(array('Deutschland', 'France', 'Österreich'), CAST(id % 3 + 1 AS INT))
                AS country,
              concat('c', id, '@example.org') AS mail FROM range(0, 400, 1, 1)""",
            """MERGE INTO crm.customers t USING (
              SELECT id AS customer_id, concat('Client ', id) AS name, 'France' AS country,
                CAST(NULL AS STRING) AS mail FROM range(380, 430, 1, 1)) s
            ON t.customer_id = s.customer_id
            WHEN MATCHED THEN UPDATE SET name = s.name, mail = s.mail
            WHEN NOT MATCHED THEN INSERT *""",
            "ALTER TABLE crm.customers RENAME COLUMN mail TO email",
            "ALTER TABLE crm.customers CREATE BRANCH cleanup",
            "DELETE FROM crm.customers.branch_cleanup WHERE email IS NULL",
        ),
    ),
    Chapter(
        "crm.segments",
        "v2, small and without partitions",
        (
            """CREATE TABLE crm.segments USING iceberg TBLPROPERTIES ('format-version'='2') AS
            SELECT id AS segment_id, concat('segment ', id) AS title FROM range(0, 12, 1, 1)""",
        ),
    ),
    Chapter(
        "ops.events",
        "v3, by day: a nested column, noise deleted",
        (
            """CREATE TABLE ops.events USING iceberg PARTITIONED BY (days(at))
            TBLPROPERTIES ('format-version'='3') AS
            SELECT id AS event_id, timestampadd(MINUTE, id * 3, TIMESTAMP'2026-05-01 00:00:00')
              AS at, element_at(array('INFO', 'WARN', 'DEBUG'), CAST(id % 3 + 1 AS INT)) AS level,
              named_struct('host', concat('node-', id % 7), 'pid', id * 11 % 32768) AS origin
            FROM range(0, 1500, 1, 1)""",
            "DELETE FROM ops.events WHERE level = 'DEBUG' AND event_id < 900",
        ),
    ),
    Chapter(
        "ops.readings",
        "v2, partitioned another way since its second load",
        (
            """CREATE TABLE ops.readings USING iceberg TBLPROPERTIES ('format-version'='2') AS
            SELECT concat('sensor-', id % 9) AS sensor, DATE'2026-05-01' + CAST(id DIV 300 AS INT)
              AS day, CAST(id % 211 / 7 AS DOUBLE) AS value FROM range(0, 900, 1, 1)""",
            "ALTER TABLE ops.readings ADD PARTITION FIELD day",
            """INSERT INTO ops.readings
            SELECT concat('sensor-', id % 9), DATE'2026-05-04', CAST(id % 100 / 3 AS DOUBLE)
            FROM range(0, 300, 1, 1)""",
        ),
    ),
)

NEXT_DAY = (
    Chapter(
        "sales.orders",
        "120 orders come in, 150 old ones are deleted",
        (
            """INSERT INTO sales.orders
            SELECT id, id % 400, timestampadd(MINUTE, id, TIMESTAMP'2026-05-01 00:00:00'),
              'new', CAST(30 + id % 50 AS DECIMAL(10, 2)), NULL FROM range(2300, 2420, 1, 1)""",
            "DELETE FROM sales.orders WHERE order_id BETWEEN 100 AND 299 AND order_id % 4 <> 3",
        ),
    ),
    Chapter(
        "crm.customers",
        "names in one country are updated",
        ("UPDATE crm.customers SET name = upper(name) WHERE country = 'France'",),
    ),
    Chapter("crm.segments", "dropped, by mistake", ("DROP TABLE crm.segments",)),
    Chapter(
        "crm.campaigns",
        "a new table, v3",
        (
            """CREATE TABLE crm.campaigns USING iceberg TBLPROPERTIES ('format-version'='3') AS
            SELECT id AS campaign_id, concat('Campaign ', id) AS title, id * 1000 AS budget
            FROM range(0, 40, 1, 1)""",
        ),
    ),
    Chapter(
        "ops.events",
        "200 more events",
        (
            """INSERT INTO ops.events
            SELECT id, timestampadd(MINUTE, id, TIMESTAMP'2026-05-04 00:00:00'), 'INFO',
              named_struct('host', 'node-8', 'pid', id) FROM range(1500, 1700, 1, 1)""",
        ),
    ),
)


def start_spark(scratch: Path) -> Any:
    """A small local session. What the JVM prints goes to `scratch/spark.log`.

    The environment is set first: without a UTF-8 locale Java spells file names with `?`.
    """
    os.environ.update(LC_ALL="C.UTF-8", SPARK_LOCAL_IP="127.0.0.1", PYSPARK_PYTHON=sys.executable)
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415  after the environment is set
    from pyspark.errors import PySparkRuntimeError  # noqa: PLC0415
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415

    conf = SparkConf().setAll(list(_settings(scratch).items()))
    log = scratch / "spark.log"
    launch: Callable[..., Any] = launch_gateway
    try:
        with log.open("wb") as stream:
            gateway = launch(conf, {"stdout": stream, "stderr": stream})
    except (OSError, PySparkRuntimeError) as error:
        raise DemoFailedError(f"Spark did not start; is Java installed? See {log}") from error
    return SparkSession(SparkContext(conf=conf, gateway=gateway))


def _settings(scratch: Path) -> dict[str, str]:
    jars = sorted(str(jar) for jar in (Path(sys.prefix) / "jars").glob("*.jar"))
    return {
        **archive_conf(archive_folder()),
        "spark.master": f"local[{AT_ONCE}]",
        "spark.app.name": "bcn-demo",
        "spark.jars": ",".join(jars),
        "spark.sql.extensions": _EXTENSIONS,
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"{_QUICK_JVM} -Dderby.system.home={scratch}",
        "spark.local.dir": str(scratch / "spark-local"),
        "spark.log.level": "ERROR",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(scratch / "spark-warehouse"),
    }


def add_hadoop_catalog(spark: Any, name: str, warehouse: Path) -> None:
    """Make a catalog of plain folders known to Spark; its tables are changed merge-on-read."""
    _add_catalog(spark, name, {"type": "hadoop", "warehouse": str(warehouse), **ON_READ})


def add_sqlite_catalog(spark: Any, name: str, database: Path, warehouse: Path) -> None:
    """Make a catalog known to Spark whose tables are rows of a SQLite file."""
    properties = {"type": "jdbc", "uri": f"jdbc:sqlite:{database}", "jdbc.schema-version": "V1"}
    _add_catalog(spark, name, {**properties, "warehouse": str(warehouse)})


def _add_catalog(spark: Any, name: str, properties: dict[str, str]) -> None:
    prefix = f"spark.sql.catalog.{name}"
    spark.conf.set(prefix, _CATALOG)
    spark.conf.set(f"{prefix}.cache-enabled", "false")
    for key, value in properties.items():
        spark.conf.set(f"{prefix}.{key}", value)


def make_databases(spark: Any, catalog: str) -> None:
    """The three databases; statements from here on speak of this catalog."""
    spark.catalog.setCurrentCatalog(catalog)
    for database in ("sales", "crm", "ops"):
        spark.sql(f"CREATE NAMESPACE {database}")


def tell(spark: Any, chapter: Chapter) -> str:
    """Run a chapter's statements; gives back its line for the reader."""
    for statement in chapter.statements:
        spark.sql(statement)
    return f"{chapter.table:<18} {chapter.story}"
