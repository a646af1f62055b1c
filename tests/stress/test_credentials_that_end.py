"""Keys that are taken back while files are copied: renewed where a catalog hands them out.

MinIO signs the keys of its token service with its own; started with another secret, it takes none
of the old ones any more.
"""

from __future__ import annotations

import json
import random
import subprocess
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import pytest

from bcn.catalog.open import open_catalog
from bcn.catalog.protocol import CatalogSettings
from bcn.model import TableId
from bcn.repository.repository import Scope
from bcn.stack.minio import start_minio
from bcn.stack.process import Server, free_port
from bcn.stack.rest import start_rest
from tests.support.command import answer_of, open_desk, started
from tests.support.compare import compare_tables
from tests.support.compare.paths import MIRRORS, local_path
from tests.support.front import Front, open_front
from tests.support.product import Product, sql_settings
from tests.support.proxy import Proxy, Request, open_proxy
from tests.support.servers import server_folder
from tests.support.shapes.synthetic import SyntheticTable, write_synthetic
from tests.support.small import InProcess
from tests.support.toml import write_settings

pytestmark = pytest.mark.server

FILES, FILE_BYTES = 120, 50_000
CHANGE_AT = 90  # of all these files; some are under way then
TOTAL = FILES * FILE_BYTES
BUCKET, USER = "lake", "bcn-tests"
TABLE = SyntheticTable(
    f"s3://{BUCKET}/warehouse/shop/large", snapshots=2, manifests=2, entries=FILES
)
ID = TableId(("shop",), "large")
FIRST, SECOND = "first-secret-of-minio", "second-secret-of-minio"


@dataclass
class Vault:
    """A MinIO whose keys change when so many data files were asked for."""

    folder: Path
    port: int
    secret: str = FIRST
    server: Server | None = None
    proxy: Proxy | None = None
    change_at: int = 0
    asked: set[str] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self) -> None:
        self.server = start_minio(self.folder, USER, self.secret, self.port)

    def stop(self) -> None:
        assert self.server is not None
        self.server.stop()

    def watch(self, request: Request) -> None:
        """Who asks meanwhile waits, as one does for a server that is being set up anew."""
        with self.lock:
            if request.method == "GET" and "/data/" in request.path:
                self.asked.add(request.path)
            if self.change_at and len(self.asked) == self.change_at:
                self.change_at, self.secret = 0, SECOND
                self.stop()
                self.start()

    def client(self, service: str) -> Any:
        return boto3.client(
            service,
            endpoint_url=f"http://127.0.0.1:{self.port}",
            region_name="us-east-1",
            aws_access_key_id=USER,
            aws_secret_access_key=self.secret,
        )

    def grant(self) -> dict[str, str]:
        """Keys for a quarter of an hour, of the token service."""
        found = self.client("sts").assume_role(
            RoleArn="arn:aws:iam::123456789012:role/any", RoleSessionName="tests"
        )["Credentials"]
        return {
            "s3.access-key-id": found["AccessKeyId"],
            "s3.secret-access-key": found["SecretAccessKey"],
            "s3.session-token": found["SessionToken"],
        }

    @property
    def place(self) -> dict[str, str]:
        assert self.proxy is not None
        return {
            "s3.endpoint": self.proxy.endpoint,
            "s3.region": "us-east-1",
            "s3.path-style-access": "true",
        }


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[Vault]:
    """With a table in its bucket."""
    with server_folder() as folder:
        vault = Vault(folder, free_port())
        vault.start()
        MIRRORS[f"s3://{BUCKET}"] = tmp_path / "mirror"
        fill(vault, tmp_path / "mirror")
        with open_proxy(f"127.0.0.1:{vault.port}") as proxy:
            vault.proxy, proxy.rule = proxy, vault.watch
            yield vault
        del MIRRORS[f"s3://{BUCKET}"]
        vault.stop()


def fill(vault: Vault, mirror: Path) -> None:
    write_synthetic(TABLE)
    for number in range(FILES):
        path = local_path(TABLE.data_location(number))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(random.Random(number).randbytes(FILE_BYTES))
    client = vault.client("s3")
    client.create_bucket(Bucket=BUCKET)
    for path in sorted(mirror.rglob("*")):
        if path.is_file():
            key = str(path.relative_to(mirror))
            client.put_object(Bucket=BUCKET, Key=key, Body=path.read_bytes())


def check_restored(location: str, target: Path) -> None:
    found = compare_tables(TABLE.metadata_location, location, [(TABLE.root, str(target))])
    assert found == []


def secrets_in(folder: Path, secrets: Iterable[str]) -> list[Path]:
    """Files that hold what nobody may see."""
    words = [secret.encode() for secret in secrets]
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "bcn.toml")
    return [path for path in files if any(word in path.read_bytes() for word in words)]


@pytest.mark.spark
def test_with_keys_of_its_own_a_backup_fails_and_the_next_one_goes_on(
    vault: Vault, tmp_path: Path
) -> None:
    desk = open_desk(tmp_path / "desk")
    desk.catalog().create_namespace(ID.namespace, {})
    desk.catalog().register(ID, TABLE.metadata_location)
    (desk.root / "events").mkdir()
    given: list[str] = []

    def start() -> subprocess.Popen[str]:
        keys = vault.grant()
        given.extend((keys["s3.secret-access-key"], keys["s3.session-token"]))
        prod = {"type": "sql", "uri": f"sqlite:///{desk.root}/prod.db", **vault.place, **keys}
        place = {"location": str(desk.location)}
        log = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": f"{desk.root}/events"}
        sections = {"catalogs.prod": prod, "repositories.nightly": place}
        write_settings(desk.root / "bcn.toml", sections, **log)
        return desk.start("backup", "--catalog", "prod")

    vault.change_at = CHANGE_AT
    with started([start()]) as (process,):
        failed = answer_of(process)
    assert vault.secret == SECOND, "the keys were changed while it ran"
    assert (failed.code, failed.error) == (15, "StorageError"), failed
    assert [line.partition(":")[0] for line in failed.stderr.splitlines()] == ["error", "hint"]
    assert "credentials are not accepted" in failed.message
    assert "s3.access-key-id" in failed.hint
    assert desk.pits() == []
    with started([start()]) as (process,):
        again = answer_of(process)
    assert (again.code, again.error) == (0, None), again
    assert again.report["bytes_copied"] <= 0.6 * TOTAL
    assert again.report["bytes_adopted"] >= 0.4 * TOTAL
    assert list((desk.root / "events").iterdir()), "Spark kept a log"
    assert secrets_in(desk.root, given) == []
    assert not any(secret in failed.stderr + again.stderr for secret in given)
    restored = desk.product(InProcess()).restore(target_catalog="dr").tables[0]
    check_restored(restored.metadata_location, desk.target / "shop/large")


# handed out by the catalog


class Vendor:
    """Adds keys for a table to what a REST catalog answers."""

    def __init__(self, front: Front, vault: Vault) -> None:
        self._vault = vault
        self.given: list[str] = []
        front.edit, front.answer = self._edit, self._answer

    def _credentials(self) -> list[dict[str, Any]]:
        keys = self._vault.grant()
        self.given += [keys["s3.secret-access-key"], keys["s3.session-token"]]
        return [{"prefix": TABLE.root, "config": keys}]

    def _edit(self, path: str, document: dict[str, Any]) -> None:
        path = path.partition("?")[0]
        if path == "/v1/config":
            way = "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/credentials"
            document["endpoints"].append(way)
        elif path == "/v1/namespaces/shop/tables/large":
            document["config"] = self._vault.place
            document["storage-credentials"] = self._credentials()

    def _answer(self, _method: str, path: str) -> tuple[int, str, bytes] | None:
        if not path.endswith("/credentials"):
            return None
        body = json.dumps({"storage-credentials": self._credentials()}).encode()
        return 200, "application/json", body


def test_those_that_a_catalog_hands_out_are_renewed_and_the_backup_succeeds(
    vault: Vault, tmp_path: Path
) -> None:
    own = {
        "s3.endpoint": f"http://127.0.0.1:{vault.port}",
        "s3.access-key-id": USER,
        "s3.secret-access-key": FIRST,
        "s3.path-style-access": "true",
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
    }
    with server_folder() as folder:
        server = start_rest(folder, f"s3://{BUCKET}/warehouse", own)
        try:
            with open_front(Front(server.address)) as front:
                _back_up(vault, front, tmp_path)
        finally:
            server.stop()


def _back_up(vault: Vault, front: Front, folder: Path) -> None:
    vendor = Vendor(front, vault)
    source = CatalogSettings("source", "rest", {"uri": front.uri})
    target = sql_settings("target", folder / "target.db", folder / "target")
    vault_keys = {"s3.access-key-id": USER, "s3.secret-access-key": FIRST}
    catalog = open_catalog(
        CatalogSettings("x", "rest", {"uri": front.uri, **vault.place, **vault_keys})
    )
    catalog.create_namespace(ID.namespace, {})
    catalog.register(ID, TABLE.metadata_location)
    catalogs = {"source": source, "target": target}
    product = Product(folder / "repository", catalogs, InProcess())
    vault.asked.clear()
    vault.change_at = CHANGE_AT
    report = product.backup(Scope("source"))
    assert vault.secret == SECOND, "the keys were changed while it ran"
    assert (report.failed, len(report.objects)) == ((), 1)
    assert front.asked("/credentials") >= 1
    assert report.bytes_copied > TOTAL
    assert secrets_in(folder / "repository", vendor.given) == []
    restored = product.restore(target_catalog="target").tables[0]
    check_restored(restored.metadata_location, folder / "target/shop/large")
