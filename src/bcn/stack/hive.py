"""A Hive Metastore from the jars that PySpark brings, on a Derby database in its folder."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from xml.sax.saxutils import escape

from bcn.stack.fetch import fetch_jars, pyspark_jars
from bcn.stack.process import Server, free_port, start_server

# The metastore makes folders by itself, on S3 too. Of the AWS SDK the parts that this needs: the
# bundle with all services has over 600 MB.
_HADOOP, _SDK = "3.4.2", "2.54.17"
_IVY = f"""<ivy-module version="2.0">
  <info organisation="bcn" module="hive-s3"/>
  <dependencies>
    <dependency org="org.apache.hadoop" name="hadoop-aws" rev="{_HADOOP}" conf="default->default"/>
    <dependency org="software.amazon.awssdk" name="s3-transfer-manager" rev="{_SDK}"
                conf="default->default"/>
    <dependency org="software.amazon.awssdk" name="apache-client" rev="{_SDK}"
                conf="default->default"/>
    <dependency org="software.amazon.awssdk" name="sts" rev="{_SDK}" conf="default->default"/>
    <exclude org="software.amazon.awssdk" module="bundle"/>
  </dependencies>
</ivy-module>
"""
_OPENED = ("java.lang", "java.net", "java.nio", "java.util")  # packages that Hive 2 reaches into


def fetch_hive() -> Path:
    """The jars by which it speaks S3; all others are PySpark's."""
    return fetch_jars("hive-s3", _IVY)


def start_hive(
    folder: Path, warehouse: str, s3: Mapping[str, str] | None = None, port: int = 0
) -> Server:
    """A metastore whose database is in a folder; started there again, it knows its tables.

    `s3` are the `s3.*` properties of the service that an `s3:` warehouse is in. It listens on all
    interfaces: Hive knows no setting for that.
    """
    port = port or free_port()
    conf = folder / "conf"
    conf.mkdir(parents=True, exist_ok=True)
    launcher = folder / "Hms.java"
    launcher.write_text(files("bcn.stack").joinpath("Hms.java").read_text())
    (conf / "hive-site.xml").write_text(_site(_hive_settings(folder, warehouse)))
    (conf / "core-site.xml").write_text(_site(_s3_settings(s3) if s3 else {}))
    jars = [pyspark_jars(), fetch_hive()] if s3 else [pyspark_jars()]
    command = (
        *("java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
        *(f"-Dhive.log.dir={folder}", f"-Dderby.stream.error.file={folder}/derby.log"),
        *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
        *("-cp", ":".join((str(conf), *(f"{place}/*" for place in jars)))),
        *(str(launcher), "-p", str(port)),
    )
    return start_server("hive", command, port, folder)


def _hive_settings(folder: Path, warehouse: str) -> dict[str, str]:
    return {
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/db;create=true",
        "javax.jdo.option.ConnectionDriverName": "org.apache.derby.iapi.jdbc.AutoloadedDriver",
        "datanucleus.schema.autoCreateAll": "true",
        "datanucleus.connectionPoolingType": "HikariCP",
        "hive.metastore.schema.verification": "false",
        "hive.metastore.warehouse.dir": warehouse,
        "hive.async.log.enabled": "false",
    }


def _s3_settings(properties: Mapping[str, str]) -> dict[str, str]:
    """What pyiceberg's names are in Hadoop's; tables of all spellings are in one service."""
    names = {
        "s3.endpoint": "fs.s3a.endpoint",
        "s3.region": "fs.s3a.endpoint.region",
        "s3.access-key-id": "fs.s3a.access.key",
        "s3.secret-access-key": "fs.s3a.secret.key",
    }
    given = {names[key]: value for key, value in properties.items() if key in names}
    return {
        "fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        "fs.s3a.path.style.access": "true",
        **given,
    }


def _site(settings: Mapping[str, str]) -> str:
    """A file of settings as Hadoop reads them."""
    lines = (
        f" <property><name>{escape(key)}</name><value>{escape(value)}</value></property>"
        for key, value in settings.items()
    )
    return "\n".join(("<configuration>", *lines, "</configuration>", ""))
