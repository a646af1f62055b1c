"""Iceberg's own REST catalog server, its records in an SQLite file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from bcn.stack.fetch import fetch_jars
from bcn.stack.process import Server, free_port, start_server

_ICEBERG, _JETTY, _HADOOP = "1.11.0", "12.1.8", "3.4.2"
# The server's class is published among Iceberg's test fixtures, and needs classes of its tests.
_IVY = f"""<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="bcn" module="rest-server"/>
  <configurations><conf name="default"/></configurations>
  <dependencies defaultconf="default->default">
    <dependency org="org.apache.iceberg" name="iceberg-open-api" rev="{_ICEBERG}">
      <artifact name="iceberg-open-api" type="jar" ext="jar" m:classifier="test-fixtures"/>
    </dependency>
    <dependency org="org.apache.iceberg" name="iceberg-core" rev="{_ICEBERG}">
      <artifact name="iceberg-core" type="jar" ext="jar"/>
      <artifact name="iceberg-core" type="jar" ext="jar" m:classifier="tests"/>
    </dependency>
    <dependency org="org.apache.iceberg" name="iceberg-aws" rev="{_ICEBERG}"/>
    <dependency org="org.apache.iceberg" name="iceberg-aws-bundle" rev="{_ICEBERG}"/>
    <dependency org="org.eclipse.jetty.ee10" name="jetty-ee10-servlet" rev="{_JETTY}"/>
    <dependency org="org.eclipse.jetty.compression" name="jetty-compression-server" rev="{_JETTY}"/>
    <dependency org="org.eclipse.jetty.compression" name="jetty-compression-gzip" rev="{_JETTY}"/>
    <dependency org="org.apache.hadoop" name="hadoop-client-api" rev="{_HADOOP}"/>
    <dependency org="org.apache.hadoop" name="hadoop-client-runtime" rev="{_HADOOP}"/>
    <dependency org="org.xerial" name="sqlite-jdbc" rev="3.50.3.0"/>
    <dependency org="org.slf4j" name="slf4j-simple" rev="2.0.17"/>
  </dependencies>
</ivy-module>
"""
_CLASS = "org.apache.iceberg.rest.RESTCatalogServer"
_QUICK_JVM = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dfile.encoding=UTF-8")


def fetch_rest() -> Path:
    """The folder of its jars, fetched if it is not there yet."""
    return fetch_jars("rest", _IVY)


def start_rest(
    folder: Path, warehouse: str, properties: Mapping[str, str] | None = None, port: int = 0
) -> Server:
    """A server with its records in `catalog.db` under a folder; no authentication, all interfaces.

    `properties` are the catalog's own, as Iceberg names them: those of an S3 warehouse, say.
    """
    jars = fetch_rest()
    port = port or free_port()
    settings = {
        "rest.port": str(port),
        "uri": f"jdbc:sqlite:{folder}/catalog.db",
        "warehouse": warehouse,
        "jdbc.schema-version": "V1",
        **(properties or {}),
    }
    environ = {variable(key): value for key, value in settings.items()}
    environ |= {"AWS_REGION": settings.get("client.region", "us-east-1"), "LC_ALL": "C.UTF-8"}
    command = ("java", *_QUICK_JVM, "-cp", f"{jars}/*", _CLASS)
    return start_server(
        *("rest", command, port, folder), environ=environ, is_ready=lambda: _is_ready(port)
    )


def variable(key: str) -> str:
    """How the server takes a property from its environment."""
    return f"CATALOG_{key.upper().replace('-', '__').replace('.', '_')}"


def _is_ready(port: int) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/v1/config", timeout=2) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False
