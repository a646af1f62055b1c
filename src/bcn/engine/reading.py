"""Reading Iceberg tables with Spark SQL: every row and column, counted."""

from __future__ import annotations

from typing import Any

from bcn.catalog.spark_side import SparkSide
from bcn.engine.spark import Engine, EngineError


class SparkReader:
    """Tables of a catalog, read by Spark. Each failure is an EngineError."""

    def __init__(self, engine: Engine, side: SparkSide) -> None:
        from pyspark.sql import SparkSession  # noqa: PLC0415  costs a second: only when tables are read

        self._session: Any = SparkSession(engine.context)
        self._name = side.name
        # What a session takes only when it starts is no part of the catalog's own settings.
        own = {
            key: value for key, value in side.settings.items() if f"{key}.".startswith(side.prefix)
        }
        self._properties = {**own, f"{side.prefix}cache-enabled": "false"}
        for key, value in self._properties.items():
            self._session.conf.set(key, value)

    def close(self) -> None:
        """Forget the catalog."""
        for key in self._properties:
            self._session.conf.unset(key)

    def load(self, table: str) -> None:
        """Return if Spark can load the table. Raises EngineError."""
        _attempt(lambda: self._session.table(f"{self._name}.{table}").schema)

    def load_in_java(self, metadata_location: str) -> None:
        """Return if Iceberg's own Java library can load the table. Raises EngineError."""
        _attempt(lambda: self._static_table(metadata_location).schema().toString())

    def count_rows_in_java(self, metadata_location: str, snapshot_id: int) -> int:
        """Read all columns of all rows in the driver, of types that Spark SQL does not have too."""
        return int(_attempt(lambda: self._read_in_java(metadata_location, snapshot_id)))

    def _read_in_java(self, metadata_location: str, snapshot_id: int) -> int:
        iceberg = self._session._jvm.org.apache.iceberg
        table = self._static_table(metadata_location)
        rows = iceberg.data.IcebergGenerics.read(table).useSnapshot(snapshot_id).build()
        try:
            return int(iceberg.relocated.com.google.common.collect.Iterables.size(rows))
        finally:
            rows.close()

    def _static_table(self, metadata_location: str) -> Any:
        iceberg = self._session._jvm.org.apache.iceberg
        files = iceberg.hadoop.HadoopFileIO(self._session._jsc.hadoopConfiguration())
        return iceberg.BaseTable(iceberg.StaticTableOperations(metadata_location, files), "static")

    def count_rows(self, table: str, version: int | str) -> int:
        """Read all columns of all rows as of a snapshot id or a ref's name."""
        return int(_attempt(lambda: self._read(table, version)))

    def _read(self, table: str, version: int | str) -> int:
        from pyspark.sql import Observation  # noqa: PLC0415  as above
        from pyspark.sql.functions import count, lit  # noqa: PLC0415  as above

        text = str(version) if isinstance(version, int) else "'" + version.replace("'", "\\'") + "'"
        query = f"SELECT * FROM {self._name}.{table} VERSION AS OF {text}"  # noqa: S608  text is quoted
        rows = self._session.sql(query)
        # A count alone is answered from statistics; this sink takes every value and keeps none.
        observed = Observation()
        rows.observe(observed, count(lit(1)).alias("rows")).write.format("noop").mode(
            "overwrite"
        ).save()
        return int(observed.get["rows"])


def _attempt(read: Any) -> Any:
    try:
        return read()
    except Exception as error:
        if not type(error).__module__.startswith("py"):
            raise
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise EngineError(" / ".join(lines[:2])[:400]) from error
