"""Servers of the tests, each started once a run, when a test first asks for it.

Run as a program it fetches what they need, so that no test has to wait for a download.
"""

from __future__ import annotations

import secrets
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest

from bcn.stack.azurite import fetch_azurite, start_azurite
from bcn.stack.gcs import fetch_gcs, start_gcs
from bcn.stack.hive import fetch_hive, start_hive
from bcn.stack.minio import fetch_minio, start_minio
from bcn.stack.process import Server, free_port, start_server
from bcn.stack.rest import fetch_rest, start_rest
from bcn.stack.seaweed import start_seaweed
from tests.support.azurite import ACCOUNT, KEY, AzureServer
from tests.support.gcs import GcsServer
from tests.support.glue import GlueServer, start_glue
from tests.support.hive import HiveServer
from tests.support.nessie import NessieServer, fetch_nessie, start_nessie
from tests.support.postgres import PostgresServer, fetch_postgres, start_postgres
from tests.support.rest import RestServer

FETCHERS: tuple[Callable[[], object], ...] = (
    fetch_minio,
    fetch_nessie,
    fetch_rest,
    fetch_hive,
    fetch_gcs,
    fetch_azurite,
    fetch_postgres,
)
ACCESS_KEY, SECRET_KEY = "bcn-tests", "bcn-tests-secret"


@dataclass(frozen=True)
class S3Server:
    """An S3 server, and the properties that open it."""

    server: Server

    @property
    def endpoint(self) -> str:
        return f"http://{self.server.address}"

    @property
    def properties(self) -> dict[str, str]:
        """As a `[catalogs.NAME]` or `[repositories.NAME]` section has them."""
        return {
            "s3.endpoint": self.endpoint,
            "s3.access-key-id": ACCESS_KEY,
            "s3.secret-access-key": SECRET_KEY,
            "s3.region": "us-east-1",
            "s3.path-style-access": "true",
        }

    def location(self, bucket: str) -> str:
        return f"s3://{bucket}"

    def client(self) -> Any:
        """Another library's, to look at what was stored."""
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY,
        )

    def make_bucket(self) -> str:
        """A new, empty bucket."""
        name = f"bucket-{secrets.token_hex(6)}"
        self.client().create_bucket(Bucket=name)
        return name


# Fixtures here, and what tests of all kinds of catalogs call theirs.
_SERVERS = frozenset(
    (
        *("seaweed", "rclone", "minio", "gcs", "azurite", "glue_server", "postgres", "rest_server"),
        *("nessie", "hive_server", "hive_s3", "hadoop-on-minio", "rest", "glue", "hive"),
    )
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs a server, by a fixture or by a parameter that asks for one."""
    for item in items:
        call = getattr(item, "callspec", None)
        asked = {str(value) for value in call.params.values()} if call else set()
        if _SERVERS & (asked | set(getattr(item, "fixturenames", ()))):
            item.add_marker(pytest.mark.server)


@contextmanager
def server_folder() -> Iterator[Path]:
    """A folder for one server's files, gone with it."""
    folder = Path(tempfile.mkdtemp(prefix="bcn-server-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def seaweed() -> Iterator[S3Server]:
    """The quick one, strict about conditions."""
    with server_folder() as folder:
        server = start_seaweed(folder, ACCESS_KEY, SECRET_KEY)
        yield S3Server(server)
        server.stop()


@pytest.fixture(scope="session")
def rclone() -> Iterator[S3Server]:
    """An S3 server that ignores conditions."""
    with server_folder() as folder:
        port, program = free_port(), Path(sys.executable).parent / "rclone"
        (folder / "objects").mkdir()
        command = (
            *(str(program), "serve", "s3", "--addr", f"127.0.0.1:{port}"),
            *("--auth-key", f"{ACCESS_KEY},{SECRET_KEY}", str(folder / "objects")),
        )
        server = start_server("rclone", command, port, folder)
        yield S3Server(server)
        server.stop()


@pytest.fixture(scope="session")
def minio() -> Iterator[S3Server]:
    with server_folder() as folder:
        server = start_minio(folder, ACCESS_KEY, SECRET_KEY)
        yield S3Server(server)
        server.stop()


@pytest.fixture(scope="session")
def gcs() -> Iterator[GcsServer]:
    with server_folder() as folder:
        server = start_gcs(folder)
        yield GcsServer(server)
        server.stop()


@pytest.fixture(scope="session")
def azurite() -> Iterator[AzureServer]:
    with server_folder() as folder:
        server = start_azurite(folder, ACCOUNT, KEY)
        yield AzureServer(server)
        server.stop()


@pytest.fixture(scope="session")
def glue_server() -> Iterator[GlueServer]:
    with server_folder() as folder:
        glue = start_glue(folder)
        yield glue
        glue.server.stop()


@pytest.fixture
def glue(glue_server: GlueServer) -> GlueServer:
    """AWS Glue, empty."""
    glue_server.empty()
    return glue_server


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    with server_folder() as folder:
        started = start_postgres(folder)
        yield started
        started.stop()


@pytest.fixture(scope="session")
def rest_server() -> Iterator[RestServer]:
    with server_folder() as folder:
        started = start_rest(folder, f"file://{folder}/warehouse")
        yield RestServer(started)
        started.stop()


@pytest.fixture(scope="session")
def nessie(minio: S3Server) -> Iterator[NessieServer]:
    """A REST catalog that drops history, its warehouse on MinIO."""
    with server_folder() as folder:
        bucket = minio.make_bucket()
        server = start_nessie(folder, bucket, minio.endpoint, (ACCESS_KEY, SECRET_KEY))
        yield NessieServer(server, bucket)
        server.stop()


@pytest.fixture
def rest_catalog(rest_server: RestServer) -> RestServer:
    """Iceberg's REST catalog on local files, empty."""
    rest_server.empty()
    return rest_server


@pytest.fixture(scope="session")
def hive_server() -> Iterator[HiveServer]:
    with server_folder() as folder:
        started = start_hive(folder, f"file://{folder}/warehouse")
        yield HiveServer(started)
        started.stop()


@pytest.fixture
def hive_metastore(hive_server: HiveServer) -> HiveServer:
    """A Hive Metastore on local files, empty but for the database it always has."""
    hive_server.empty()
    return hive_server


@pytest.fixture(scope="session")
def hive_s3(minio: S3Server) -> Iterator[HiveServer]:
    """A Hive Metastore whose tables are in buckets of MinIO."""
    with server_folder() as folder:
        warehouse = f"s3://{minio.make_bucket()}/warehouse"
        started = start_hive(folder, warehouse, minio.properties)
        yield HiveServer(started)
        started.stop()


if __name__ == "__main__":
    for fetch in FETCHERS:
        fetch()
