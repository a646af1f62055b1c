"""`compose.yaml` says the same as `bcn up`; no container runs here."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml

from bcn.stack.kit import ACCESS_KEY, BUCKETS, REGION, S3_PORT, SECRET_KEY, StackKind
from bcn.stack.rest import variable

FILE = Path(__file__).parents[2] / "compose.yaml"


@pytest.fixture
def compose() -> Any:
    return yaml.safe_load(FILE.read_text())


def test_ports_are_those_of_bcn_up_on_loopback_only(compose: Any) -> None:
    published = {name: service.get("ports") for name, service in compose["services"].items()}
    assert published == {
        "minio": [f"127.0.0.1:{S3_PORT}:{S3_PORT}"],
        "buckets": None,
        "hive": [f"127.0.0.1:{StackKind.HIVE.port}:{StackKind.HIVE.port}"],
        "rest": [f"127.0.0.1:{StackKind.REST.port}:{StackKind.REST.port}"],
    }


def test_keys_and_buckets_are_those_of_bcn_up(compose: Any) -> None:
    services = compose["services"]
    minio = services["minio"]["environment"]
    assert (minio["MINIO_ROOT_USER"], minio["MINIO_ROOT_PASSWORD"]) == (ACCESS_KEY, SECRET_KEY)
    [script] = services["buckets"]["command"]
    assert f"mc alias set store http://minio:{S3_PORT} {ACCESS_KEY} {SECRET_KEY} " in script
    made = script.partition("--ignore-existing ")[2].split()
    assert made == [f"store/{bucket}" for bucket in BUCKETS]


def test_the_rest_server_is_told_what_bcn_up_tells_it(compose: Any) -> None:
    environment = compose["services"]["rest"]["environment"]
    assert environment["AWS_REGION"] == REGION
    for key, value in {
        "warehouse": f"s3://{BUCKETS[0]}/",
        "s3.access-key-id": ACCESS_KEY,
        "s3.secret-access-key": SECRET_KEY,
        "s3.path-style-access": "true",
        "s3.endpoint": f"http://minio:{S3_PORT}",
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
    }.items():
        assert environment[variable(key)] == value


def test_the_metastore_is_told_what_bcn_up_tells_it(compose: Any) -> None:
    [config] = compose["services"]["hive"]["configs"]
    site = ET.fromstring(compose["configs"][config["source"]]["content"])
    settings = {item.findtext("name"): item.findtext("value") for item in site}
    assert settings["hive.metastore.warehouse.dir"] == f"s3://{BUCKETS[0]}/"
    assert settings["fs.s3a.access.key"] == ACCESS_KEY
    assert settings["fs.s3a.secret.key"] == SECRET_KEY
    assert settings["fs.s3a.endpoint"] == f"http://minio:{S3_PORT}"
    assert settings["fs.s3.impl"].endswith("S3AFileSystem")


def test_images_have_names_and_versions_and_wait_for_each_other(compose: Any) -> None:
    services = compose["services"]
    for service in services.values():
        name, _, version = service["image"].partition(":")
        assert "/" in name
        assert version not in {"", "latest"}
        assert set(service.get("depends_on", {})) <= set(services)
