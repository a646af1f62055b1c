"""Servers for all stacks, and all sources: written, backed up and removed once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from bcn.stack.rest import start_rest
from tests.matrix.sources import World, build_world
from tests.support.glue import GlueServer
from tests.support.hive import HiveServer
from tests.support.rest import RestServer
from tests.support.servers import S3Server, server_folder
from tests.support.stacks import LOCAL, MINIO, Servers, s3_for_spark


@pytest.fixture(scope="package")
def rest_minio(minio: S3Server) -> Iterator[tuple[RestServer, str]]:
    """Iceberg's REST catalog with its tables in a bucket, and where that is."""
    with server_folder() as folder:
        place = f"s3://{minio.make_bucket()}/warehouse"
        started = start_rest(folder, place, s3_for_spark(minio))
        yield RestServer(started), place
        started.stop()


@pytest.fixture(scope="package")
def servers(
    tmp_path_factory: pytest.TempPathFactory,
    minio: S3Server,
    hive_server: HiveServer,
    hive_s3: HiveServer,
    rest_server: RestServer,
    rest_minio: tuple[RestServer, str],
    glue_server: GlueServer,
) -> Servers:
    """Emptied of what other tests left behind."""
    hive_server.empty()
    hive_s3.empty()
    rest_server.empty()
    glue_server.empty()
    return Servers(
        tmp_path_factory.mktemp("matrix"),
        minio,
        {LOCAL: hive_server, MINIO: hive_s3},
        {LOCAL: rest_server, MINIO: rest_minio[0]},
        {LOCAL: f"file://{rest_server.warehouse}", MINIO: rest_minio[1]},
        glue_server,
    )


@pytest.fixture(scope="package")
def world(spark: Any, servers: Servers) -> World:
    return build_world(spark, servers)
