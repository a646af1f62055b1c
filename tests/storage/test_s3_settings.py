"""How S3 is reached: properties in pyiceberg's names, then AWS's variables and profiles."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
from dateutil.tz import tzlocal

from bcn.errors import StorageError
from bcn.storage.open import open_storage
from bcn.storage.protocol import StorageSpec
from bcn.storage.s3_settings import S3Settings
from tests.support.servers import ACCESS_KEY, SECRET_KEY, S3Server

ROLE = "arn:aws:iam::123456789012:role/backup"


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN", "REGION", "PROFILE"):
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


@pytest.fixture(scope="module")
def bucket(minio: S3Server) -> str:
    return minio.make_bucket()


def _works(bucket: str, properties: dict[str, str]) -> None:
    """By obstore and by botocore."""
    storage = open_storage(StorageSpec(f"s3://{bucket}/{uuid.uuid4()}", properties))
    storage.write_once("key", b"x")
    assert list(storage.iter_keys("")) == ["key"]


def _session_keys(minio: S3Server) -> dict[str, str]:
    sts: Any = boto3.client(
        "sts",
        endpoint_url=minio.endpoint,
        region_name="us-east-1",
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
    )
    found = sts.assume_role(RoleArn=ROLE, RoleSessionName="tests")["Credentials"]
    return {
        "access-key-id": found["AccessKeyId"],
        "secret-access-key": found["SecretAccessKey"],
        "session-token": found["SessionToken"],
    }


def test_keys_may_be_for_all_of_aws(minio: S3Server, bucket: str) -> None:
    _works(
        bucket,
        {
            "s3.endpoint": minio.endpoint,
            "client.access-key-id": ACCESS_KEY,
            "client.secret-access-key": f"{SECRET_KEY}\n",  # as a file has it
            "client.region": "us-east-1",
        },
    )


@pytest.mark.parametrize("prefix", ["s3", "client"])
def test_a_session_token_is_sent(minio: S3Server, bucket: str, prefix: str) -> None:
    keys = {f"{prefix}.{name}": value for name, value in _session_keys(minio).items()}
    _works(bucket, {"s3.endpoint": minio.endpoint, **keys})
    del keys[f"{prefix}.session-token"]
    with pytest.raises(StorageError, match="not accepted"):
        _works(bucket, {"s3.endpoint": minio.endpoint, **keys})


def test_the_environment_is_used_if_nothing_else_is_said(
    minio: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(StorageError, match="no credentials for s3://"):
        _works(bucket, {"s3.endpoint": minio.endpoint})
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", minio.endpoint)
    for name, value in _session_keys(minio).items():
        monkeypatch.setenv(f"AWS_{name.upper().replace('-', '_')}", value)
    _works(bucket, {"s3.region": "us-east-1"})


def test_properties_win_over_the_environment(
    minio: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of another key")
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    monkeypatch.setenv("AWS_REGION", "eu-nowhere-1")
    _works(bucket, {**minio.properties, "s3.note": "properties win"})


def test_a_profile_has_keys_and_an_endpoint(minio: S3Server, bucket: str, tmp_path: Path) -> None:
    (tmp_path / "config").write_text(
        f"[profile backup]\nregion = us-east-1\nendpoint_url = {minio.endpoint}\n"
    )
    (tmp_path / "credentials").write_text(
        f"[backup]\naws_access_key_id = {ACCESS_KEY}\naws_secret_access_key = {SECRET_KEY}\n"
    )
    _works(bucket, {"s3.profile-name": "backup"})
    with pytest.raises(StorageError, match="profile"):
        _works(bucket, {"s3.profile-name": "bakcup"})


def test_a_role_is_assumed_and_renewed(
    minio: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", minio.endpoint)
    properties = {**minio.properties, "s3.role-arn": ROLE, "s3.role-session-name": "nightly"}
    _works(bucket, properties)
    settings = S3Settings(bucket, properties)
    first = settings.credentials.get_frozen_credentials()
    assert first.token
    assert first.access_key != ACCESS_KEY
    assert settings.credentials.get_frozen_credentials().token == first.token
    later = datetime.now(tzlocal()) + timedelta(minutes=55)  # of an hour
    monkeypatch.setattr("botocore.credentials._local_now", lambda: later)
    settings.credentials._time_fetcher = lambda: later
    assert settings.credentials.get_frozen_credentials().token != first.token


def test_half_a_key_is_refused(minio: S3Server, bucket: str) -> None:
    with pytest.raises(StorageError, match="secret-access-key is missing"):
        _works(bucket, {"s3.endpoint": minio.endpoint, "s3.access-key-id": ACCESS_KEY})


@pytest.mark.parametrize(
    ("bucket", "properties", "virtual"),
    [
        ("plain", {}, True),
        ("with.dots", {}, False),
        ("plain", {"s3.path-style-access": "true"}, False),
        ("plain", {"s3.endpoint": "http://h:1"}, False),
        ("plain", {"s3.endpoint": "http://h:1", "s3.force-virtual-addressing": "true"}, True),
        ("plain", {"s3.endpoint": "http://h:1", "s3.path-style-access": "false"}, True),
        ("with.dots", {"s3.endpoint": "http://h:1", "s3.path-style-access": "false"}, True),
        ("with.dots", {"s3.endpoint": "https://h:1"}, False),
    ],
)
def test_the_style_of_addresses(bucket: str, properties: dict[str, str], virtual: bool) -> None:
    assert S3Settings(bucket, properties).is_virtual_hosted is virtual


def test_a_bucket_with_dots_is_no_host_name_under_tls() -> None:
    settings = S3Settings("a.b", {"s3.force-virtual-addressing": "true"})
    with pytest.raises(StorageError, match="has dots"):
        _ = settings.is_virtual_hosted


@pytest.mark.parametrize("endpoint", ["ftp://h", "http://", "http://user:pw@h:1", "http://h h:1"])
def test_what_is_no_endpoint_is_refused_and_not_repeated(endpoint: str) -> None:
    with pytest.raises(StorageError) as caught:
        _ = S3Settings("b", {"s3.endpoint": endpoint}).endpoint
    assert endpoint not in str(caught.value)


@pytest.mark.parametrize("location", ["s3://key:secret@bucket/x", "s3://b k/x", "s3://-/x"])
def test_what_is_no_bucket_is_refused_and_not_repeated(location: str) -> None:
    with pytest.raises(StorageError) as caught:
        open_storage(StorageSpec(location))
    assert "secret" not in str(caught.value)
