"""Credentials that a REST catalog hands out for each table: chosen, used, renewed.

They are real ones of MinIO's own token service, each good for the files of one table only.
"""

from __future__ import annotations

import json
import pickle
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from bcn.catalog.open import open_catalog
from bcn.catalog.protocol import CatalogSettings
from bcn.catalog.rest_grants import parse_grant, places_of
from bcn.engine.spark import Engine, SparkSettings
from bcn.errors import CatalogError, StorageError
from bcn.model import TableId
from bcn.repository.repository import Scope
from bcn.stack.rest import start_rest
from bcn.storage.open import Stores
from tests.support.compare.paths import local_path
from tests.support.front import Front, open_front
from tests.support.product import Product, sql_settings
from tests.support.rest import RestServer
from tests.support.s3 import Mirrored, differences, mirrored
from tests.support.servers import ACCESS_KEY, SECRET_KEY, S3Server, server_folder
from tests.support.shapes.twin import write_twin
from tests.support.small import InProcess

SOURCE = "source"
Json = dict[str, Any]


# what an answer grants


def test_the_longest_prefix_wins_and_goes_before_the_config() -> None:
    answer = {
        "config": {"s3.region": "eu", "s3.access-key-id": "table", "plain": "x"},
        "storage-credentials": [
            {"prefix": "s3", "config": {"s3.access-key-id": "any"}},
            {"prefix": "s3://b/t", "config": {"s3.access-key-id": "long"}},
            {"prefix": "s3://b", "config": {"s3.access-key-id": "short"}},
        ],
    }
    grant = parse_grant(answer)
    assert grant is not None
    assert grant.properties("s3://b/t/x") == {"s3.region": "eu", "s3.access-key-id": "long"}
    assert grant.properties("s3://b/u/x")["s3.access-key-id"] == "short"
    assert grant.properties("s3://c/x")["s3.access-key-id"] == "any"
    assert grant.properties("gs://c/x")["s3.access-key-id"] == "table"
    assert "long" not in repr(grant)


def test_an_answer_without_credentials_grants_nothing() -> None:
    assert parse_grant({"config": {"s3.region": "eu"}}) is None
    assert parse_grant({}) is None
    assert parse_grant({"storage-credentials": [], "config": None}) is None


def test_the_first_end_counts() -> None:
    first, second = {"s3.session-token-expires-at-ms": "5000"}, {"expiration-time": "3000"}
    prefixes = [{"prefix": "a", "config": first}, {"prefix": "b", "config": second}]
    grant = parse_grant({"storage-credentials": prefixes})
    assert grant is not None
    assert grant.ends_at() == 3
    azure = {"adls.sas-token.me": "x", "adls.sas-token-expires-at-ms.me": "9000"}
    grant = parse_grant({"config": azure})
    assert grant is not None
    assert grant.ends_at() == 9
    grant = parse_grant({"config": {"s3.access-key-id": "k"}})
    assert grant is not None
    assert grant.ends_at() == float("inf")


def test_a_table_may_have_more_than_one_place() -> None:
    metadata = {"location": "s3://b/t/", "properties": {"write.data.path": "s3://d/t"}}
    answer = {"metadata-location": "s3://m/t/metadata/x.json", "metadata": metadata}
    assert places_of(answer) == {"s3://b/t", "s3://d/t", "s3://m/t/metadata"}


# with a real store


@pytest.fixture(scope="module")
def lake(minio: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mirrored]:
    with mirrored(minio, tmp_path_factory.mktemp("lake")) as place:
        yield place


@pytest.fixture(scope="module")
def server(minio: S3Server, lake: Mirrored) -> Iterator[RestServer]:
    """Iceberg's server with its warehouse on MinIO, and two tables."""
    properties = {**minio.properties, "io-impl": "org.apache.iceberg.aws.s3.S3FileIO"}
    with server_folder() as folder:
        started = RestServer(start_rest(folder, f"{lake.location}/warehouse", properties))
        catalog = open_catalog(CatalogSettings("x", "rest", {"uri": started.uri}))
        catalog.create_namespace(("db",), {})
        for version, name in enumerate(("two", "three"), 2):
            location = write_twin(f"{lake.location}/warehouse/db/{name}", version)
            path = local_path(location)
            own = f"-00000000000{version}"
            path.write_text(path.read_text().replace(f"-{'0' * 11}1", own))
            lake.upload()
            catalog.register(TableId(("db",), name), location)
        yield started
        started.server.stop()


class Vendor:
    """Adds credentials to the answers of the real server, as Polaris and others do."""

    def __init__(self, front: Front, minio: S3Server, bucket: str) -> None:
        self._minio = minio
        self._bucket = bucket
        self._sts = boto3.client(
            "sts",
            endpoint_url=minio.endpoint,
            region_name="us-east-1",
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY,
        )
        self.change: Callable[[Json], None] = lambda _config: None
        self.given: list[str] = []
        front.edit, front.answer = self._edit, self._answer

    def _credentials(self, table: str) -> list[Json]:
        prefix = f"warehouse/db/{table}"
        files = {
            "Effect": "Allow",
            "Action": ["s3:GetObject"],
            "Resource": [f"arn:aws:s3:::{self._bucket}/{prefix}/*"],
        }
        policy = json.dumps({"Version": "2012-10-17", "Statement": [files]})
        answer = self._sts.assume_role(
            RoleArn="arn:aws:iam::123456789012:role/any",
            RoleSessionName="tests",
            Policy=policy,
            DurationSeconds=900,
        )["Credentials"]
        self.given.append(answer["SecretAccessKey"])
        config = {
            "s3.access-key-id": answer["AccessKeyId"],
            "s3.secret-access-key": answer["SecretAccessKey"],
            "s3.session-token": answer["SessionToken"],
            "s3.session-token-expires-at-ms": str(int(answer["Expiration"].timestamp() * 1000)),
        }
        wrong = {"s3.access-key-id": "wrong", "s3.secret-access-key": "wrong-wrong"}
        return [
            {"prefix": "s3", "config": wrong},
            {"prefix": f"s3://{self._bucket}/{prefix}", "config": config},
        ]

    def _edit(self, path: str, document: Json) -> None:
        path = path.partition("?")[0]
        if path == "/v1/config":
            document["endpoints"].append(
                "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/credentials"
            )
        if path.startswith("/v1/namespaces/db/tables/"):
            document["config"] = {
                "s3.endpoint": self._minio.endpoint,
                "s3.region": "us-east-1",
                "s3.path-style-access": "true",
            }
            document["storage-credentials"] = self._credentials(path.rpartition("/")[2])
            self.change(document["storage-credentials"][1]["config"])

    def _answer(self, _method: str, path: str) -> tuple[int, str, bytes] | None:
        if not path.endswith("/credentials"):
            return None
        body = {"storage-credentials": self._credentials(path.split("/")[-2])}
        return 200, "application/json", json.dumps(body).encode()


@pytest.fixture
def front(server: RestServer) -> Iterator[Front]:
    with open_front(Front(server.server.address)) as opened:
        yield opened


@pytest.fixture
def vendor(front: Front, minio: S3Server, lake: Mirrored) -> Vendor:
    return Vendor(front, minio, lake.bucket)


def product_of(folder: Path, front: Front, engine: Any = None) -> Product:
    catalogs = {
        SOURCE: CatalogSettings(SOURCE, "rest", {"uri": front.uri}),
        "target": sql_settings("target", folder / "target.db", folder / "target"),
    }
    return Product(folder / "repository", catalogs, engine or InProcess())


def sources(lake: Mirrored) -> dict[str, str]:
    place = f"{lake.location}/warehouse/db"
    return {name: f"{place}/{name}/metadata/00002-twin.metadata.json" for name in ("two", "three")}


@pytest.mark.usefixtures("vendor")
def test_each_table_is_read_with_what_was_granted_for_it(
    front: Front, lake: Mirrored, tmp_path: Path
) -> None:
    product = product_of(tmp_path, front)
    assert product.backup(Scope(SOURCE)).failed == ()
    assert differences(sources(lake), product.restore(target_catalog="target")) == []
    assert front.asked("/credentials") == 0


def test_what_is_granted_for_a_table_reaches_no_other(
    front: Front, vendor: Vendor, lake: Mirrored
) -> None:
    access = catalog_access(front)
    two, three = sources(lake)["two"], sources(lake)["three"]
    storage, key = Stores(access).resolve(two)
    assert storage.read(key)
    with pytest.raises(StorageError, match="access is denied"):
        storage.read(three.removeprefix(f"{lake.location}/"))
    assert not any(secret in repr(access) for secret in vendor.given)
    assert not any(secret.encode() in pickle.dumps(access) for secret in vendor.given)


def test_a_grant_near_its_end_is_renewed(front: Front, vendor: Vendor, lake: Mirrored) -> None:
    vendor.change = lambda config: config.update(
        {"s3.session-token-expires-at-ms": str(int(time.time() * 1000) + 400)}
    )
    stores = Stores(catalog_access(front))
    for location in sources(lake).values():
        storage, key = stores.resolve(location)
        assert storage.read(key)
    before = front.asked("/credentials")
    time.sleep(0.5)
    for _ in range(3):
        storage, key = stores.resolve(sources(lake)["two"])
        assert storage.read(key)
    assert front.asked("/credentials") == before + 1


def test_a_grant_that_is_refused_is_renewed(
    front: Front, vendor: Vendor, lake: Mirrored, tmp_path: Path
) -> None:
    vendor.change = lambda config: config.update({"s3.access-key-id": "taken-back"})
    product = product_of(tmp_path, front)
    assert product.backup(Scope(SOURCE)).failed == ()
    assert front.asked("/credentials") > 0
    assert differences(sources(lake), product.restore(target_catalog="target")) == []


def test_a_server_that_grants_no_more_is_told(front: Front, vendor: Vendor, lake: Mirrored) -> None:
    vendor.change = lambda config: config.update({"s3.access-key-id": "taken-back"})
    access = catalog_access(front)
    front.edit = None
    front.answer = lambda _method, path: (
        (404, "text/plain", b"") if path.endswith("/credentials") else None
    )
    storage, key = Stores(access).resolve(sources(lake)["two"])
    with pytest.raises(CatalogError, match=r"grants no more access to db\.two"):
        storage.read(key)


def catalog_access(front: Front) -> Any:
    catalog = open_catalog(CatalogSettings(SOURCE, "rest", {"uri": front.uri}))
    assert len(list(catalog.iter_pointers())) == 2
    return catalog.access


@pytest.mark.spark
def test_executors_ask_for_themselves(
    spark: Any, front: Front, vendor: Vendor, lake: Mirrored, tmp_path: Path
) -> None:
    product = product_of(tmp_path, front, Engine(SparkSettings(master="local[2]")))
    assert product.backup(Scope(SOURCE)).failed == ()
    loads = front.asked("/tables/two")
    assert loads > 2, "two passes of the driver, and at least one executor"
    assert differences(sources(lake), product.restore(target_catalog="target")) == []
    configuration = str(spark.sparkContext.getConf().getAll())
    assert not any(secret in configuration for secret in vendor.given)
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert not any(secret.encode() in stored for secret in vendor.given)
