"""Spellings of buckets and addresses, through the command: each works, or is refused with why."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from bcn.stack.minio import start_minio
from bcn.stack.process import free_port
from tests.support.command import open_desk
from tests.support.hive import HiveServer
from tests.support.servers import ACCESS_KEY, SECRET_KEY, S3Server, server_folder
from tests.support.toml import write_settings

pytestmark = pytest.mark.server

DOMAIN = "lake.test"
PLAIN, DOTS = "plain", "with.dots.in"


@pytest.fixture(scope="module")
def named() -> Iterator[S3Server]:
    """A MinIO that knows its buckets by host names, too."""
    with server_folder() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINIO_DOMAIN", DOMAIN)
        server = S3Server(start_minio(folder, ACCESS_KEY, SECRET_KEY))
        for bucket in (PLAIN, DOTS):
            server.client().create_bucket(Bucket=bucket)
        yield server
        server.server.stop()


def run(folder: Path, *words: str) -> tuple[int, Any, str]:
    """bcn on a machine whose own list of hosts has the buckets' names."""
    hosts = folder / "hosts"
    names = ("localhost", DOMAIN, *(f"{bucket}.{DOMAIN}" for bucket in (PLAIN, DOTS)))
    hosts.write_text(f"127.0.0.1 {' '.join(names)}\n")
    inside = f'mount --bind {hosts} /etc/hosts && exec "$@"'
    done = subprocess.run(
        [
            *("unshare", "--mount", "sh", "-c", inside, "sh"),
            *(sys.executable, "-m", "bcn", *words, "--json", "--quiet"),
        ],
        cwd=folder,
        env={k: v for k, v in os.environ.items() if not k.startswith(("BCN_", "AWS_"))},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, json.loads(done.stdout or "{}"), done.stderr


def settle(folder: Path, repository: Mapping[str, str]) -> None:
    """A catalog with an empty database, which needs no Spark, and a repository."""
    desk = open_desk(folder)
    desk.catalog().create_namespace(("shop",), {})
    catalog = {
        "type": "sql",
        "uri": f"sqlite:///{folder}/prod.db",
        "warehouse": f"{folder}/warehouse",
    }
    sections = {"catalogs.prod": catalog, "repositories.nightly": repository}
    write_settings(folder / "bcn.toml", sections)


def properties(server: S3Server, style: str, scheme: str = "http") -> dict[str, str]:
    own = {k: v for k, v in server.properties.items() if k != "s3.path-style-access"}
    own["s3.endpoint"] = f"{scheme}://{DOMAIN}:{server.server.port}"
    return {**own, **{"path": {"s3.path-style-access": "true"}, "none": {}}.get(style, VIRTUAL)}


VIRTUAL = {"s3.force-virtual-addressing": "true"}


@pytest.mark.parametrize(
    ("scheme", "bucket", "style"),
    [
        ("s3", PLAIN, "none"),
        ("s3a", PLAIN, "path"),
        ("s3n", PLAIN, "virtual"),
        ("s3", DOTS, "none"),
        ("s3n", DOTS, "path"),
        ("s3a", DOTS, "virtual"),
    ],
)
def test_every_spelling_of_a_bucket_holds_a_repository(
    named: S3Server, tmp_path: Path, scheme: str, bucket: str, style: str
) -> None:
    key = f"{scheme}-{style}"
    place = {"location": f"{scheme}://{bucket}/{key}", **properties(named, style)}
    settle(tmp_path, place)
    code, made, stderr = run(tmp_path, "backup", "--catalog", "prod")
    assert (code, stderr) == (0, "")
    listed = named.client().list_objects_v2(Bucket=bucket, Prefix=f"{key}/manifest.json")
    assert listed["KeyCount"] == 1, "it is where its name says"
    code, found, _ = run(tmp_path, "list")
    assert (code, [pit["pit"] for pit in found["pits"]]) == (0, [made["pit"]])


def test_a_bucket_with_dots_as_a_host_name_under_tls_is_refused_with_the_reason(
    named: S3Server, tmp_path: Path
) -> None:
    wrong = properties(named, "virtual", "https")
    settle(tmp_path, {"location": f"s3://{DOTS}/refused", **wrong})
    code, _, stderr = run(tmp_path, "list")
    assert code == 15
    assert "no certificate covers it as a host name" in stderr
    assert "s3.path-style-access" in stderr


@pytest.mark.parametrize(
    ("uri", "code", "words"),
    [
        ("thrift://127.0.0.1:{dead},thrift://127.0.0.1:{port}", 0, ""),
        ("thrift://127.0.0.1:{port},thrift://127.0.0.1:{dead}", 0, ""),
        ("thrift://127.0.0.1:{dead},thrift://127.0.0.1:{other}", 14, "connection refused"),
        ("127.0.0.1:2181,127.0.0.1:2182", 14, "thrift://host:9083"),  # ZooKeeper's
        ("zookeeper://127.0.0.1:2181/hs2", 14, "thrift://host:9083"),
    ],
)
def test_metastores_that_stand_in_for_each_other(
    hive_metastore: HiveServer, tmp_path: Path, uri: str, code: int, words: str
) -> None:
    ports = {
        "port": hive_metastore.server.port,
        "dead": free_port(),
        "other": free_port(),
    }
    catalog = {"type": "hive", "uri": uri.format(**ports), "warehouse": f"{tmp_path}/warehouse"}
    write_settings(tmp_path / "bcn.toml", {"catalogs.prod": catalog})
    found, _, stderr = run(tmp_path, "config", "check", "prod")
    assert found == code, stderr
    assert words in stderr
    assert "Traceback" not in stderr
