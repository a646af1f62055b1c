"""Copies by the server itself, with its own digest, and what happens where there is none."""

from __future__ import annotations

import hashlib
import os

import pytest

from bcn.engine.transfer import Transfer
from bcn.errors import KeyExistsError, StorageError
from bcn.storage.cloud_stream import COPIED_BYTES
from bcn.storage.open import open_storage
from bcn.storage.protocol import Storage, StorageSpec
from bcn.storage.requests import request_counts
from bcn.storage.s3_copy import MARK_HEADER
from tests.support.proxy import Refuse, Request, open_proxy
from tests.support.servers import S3Server

DATA = os.urandom(COPIED_BYTES) + b"end"
DIGEST = hashlib.sha256(DATA).digest()


def _place(server: S3Server, **changes: str) -> Storage:
    properties = {**server.properties, **changes}
    return open_storage(StorageSpec(f"s3://{server.make_bucket()}/root", properties))


@pytest.fixture(scope="module")
def source(minio: S3Server) -> Storage:
    found = _place(minio)
    with found.open_writer("large file%20") as writer:
        writer.write(DATA)
        writer.commit()
    found.write_once("small", b"x")
    return found


def _copies() -> int:
    return request_counts().get("copy", 0)


def test_within_one_service_the_server_copies(minio: S3Server, source: Storage) -> None:
    target, before = _place(minio), _copies()
    copied = Transfer().copy(source, "large file%20", target, "copy")
    assert _copies() == before + 1
    assert (copied.size_bytes, copied.sha256) == (len(DATA), DIGEST)
    stat = source.find_stat("large file%20")
    assert stat is not None
    assert copied.version == stat.version
    assert target.read("copy") == DATA


def test_a_small_file_is_not_worth_the_requests(minio: S3Server, source: Storage) -> None:
    target, before = _place(minio), _copies()
    assert Transfer().copy(source, "small", target, "copy").size_bytes == 1
    assert _copies() == before


def test_a_taken_key_is_left_alone(minio: S3Server, source: Storage) -> None:
    target = _place(minio)
    target.write_once("copy", b"early")
    with pytest.raises(KeyExistsError):
        Transfer().copy(source, "large file%20", target, "copy")
    assert target.read("copy") == b"early"


def test_from_another_service_bytes_are_streamed(
    minio: S3Server, seaweed: S3Server, source: Storage
) -> None:
    target, before = _place(seaweed), _copies()
    assert Transfer().copy(source, "large file%20", target, "copy").sha256 == DIGEST
    assert _copies() == before
    assert target.read("copy") == DATA


def test_what_has_to_be_streamed_is_asked_for_once(
    minio: S3Server, seaweed: S3Server, source: Storage
) -> None:
    """A server that loses a reader goes on for a while: MinIO reads the rest of a part."""
    with open_proxy(minio.server.address) as proxy:
        name = source.bucket.name  # type: ignore[attr-defined]
        properties = {**minio.properties, "s3.endpoint": proxy.endpoint}
        reading = open_storage(StorageSpec(f"s3://{name}/root", properties))
        heads = request_counts().get("head", 0)
        copied = Transfer().copy(reading, "large file%20", _place(seaweed), "copy")
        assert copied.sha256 == DIGEST
        assert [(asked.method, asked.path.rpartition("/")[2]) for asked in proxy.seen] == [
            ("GET", "large%20file%2520")
        ]
        assert request_counts().get("head", 0) == heads


def test_a_server_without_digests_is_asked_once(seaweed: S3Server) -> None:
    source, target, before = _place(seaweed), _place(seaweed), _copies()
    source.write_once("large", DATA)
    for name in ("one", "two"):
        assert Transfer().copy(source, "large", target, name).sha256 == DIGEST
    assert _copies() == before + 1
    assert sorted(target.iter_keys("")) == ["one", "two"]


def test_a_whole_copy_without_digest_is_never_deleted(seaweed: S3Server) -> None:
    """Another attempt of the same task may have hashed it and told that it is stored."""
    with open_proxy(seaweed.server.address) as proxy:
        source, target = (_place(seaweed, **{"s3.endpoint": proxy.endpoint}) for _ in range(2))
        source.write_once("large", DATA)
        assert Transfer().copy(source, "large", target, "copy").sha256 == DIGEST
    sent = [asked.method for asked in proxy.seen if asked.path.endswith("root/copy")]
    assert "DELETE" not in sent
    assert sent.count("PUT") == 1
    assert target.read("copy") == DATA


def test_a_copy_without_digest_that_is_not_the_same_is_made_anew(seaweed: S3Server) -> None:
    marks: list[str] = []

    def damage(request: Request) -> None:
        sent = {name.lower(): value for name, value in request.headers.items()}
        marks.extend(sent[MARK_HEADER] for _ in range("x-amz-copy-source" in sent))
        if "x-amz-checksum-mode" in sent:
            bucket, _, name = request.path.removeprefix("/").partition("/")
            metadata = {MARK_HEADER.removeprefix("x-amz-meta-"): marks[0]}
            body = DATA[:-1] + b"D"
            seaweed.client().put_object(Bucket=bucket, Key=name, Body=body, Metadata=metadata)

    with open_proxy(seaweed.server.address) as proxy:
        source, target = (_place(seaweed, **{"s3.endpoint": proxy.endpoint}) for _ in range(2))
        source.write_once("large", DATA)
        proxy.rule = damage
        assert Transfer().copy(source, "large", target, "copy").sha256 == DIGEST
    assert len(marks) == 1
    assert target.read("copy") == DATA


def test_a_copy_that_cannot_be_read_is_left_to_whoever_asked(seaweed: S3Server) -> None:
    def refuse(request: Request) -> None:
        is_whole = not any(name.lower() == "range" for name in request.headers)
        if request.method == "GET" and is_whole and request.path.endswith("root/copy"):
            raise Refuse(403, b"<Error><Code>AccessDenied</Code></Error>")

    with open_proxy(seaweed.server.address) as proxy:
        source, target = (_place(seaweed, **{"s3.endpoint": proxy.endpoint}) for _ in range(2))
        source.write_once("large", DATA)
        proxy.rule = refuse
        with pytest.raises(KeyExistsError):
            Transfer().copy(source, "large", target, "copy")
        proxy.rule = lambda _: None
        assert target.read("copy") == DATA


def test_an_origin_that_was_replaced_meanwhile_does_not_cost_a_whole_copy(
    seaweed: S3Server,
) -> None:
    def replace(request: Request) -> None:
        if any(name.lower() == "x-amz-checksum-mode" for name in request.headers):
            bucket = source.bucket.name  # type: ignore[attr-defined]
            seaweed.client().put_object(Bucket=bucket, Key="root/large", Body=DATA[::-1])

    with open_proxy(seaweed.server.address) as proxy:
        source, target = (_place(seaweed, **{"s3.endpoint": proxy.endpoint}) for _ in range(2))
        source.write_once("large", DATA)
        proxy.rule = replace
        with pytest.raises(StorageError, match="changed"):
            Transfer().copy(source, "large", target, "copy")
        assert target.read("copy") == DATA


def test_what_the_repository_may_not_read_is_streamed(minio: S3Server, source: Storage) -> None:
    def refuse(request: Request) -> None:
        if any(name.lower() == "x-amz-copy-source" for name in request.headers):
            raise Refuse(403, b"<Error><Code>AccessDenied</Code></Error>")

    with open_proxy(minio.server.address) as proxy:
        proxy.rule = refuse
        name = source.bucket.name  # type: ignore[attr-defined]
        properties = {**minio.properties, "s3.endpoint": proxy.endpoint}
        reading = open_storage(StorageSpec(f"s3://{name}/root", properties))
        target = _place(minio, **{"s3.endpoint": proxy.endpoint})
        before = _copies()
        assert Transfer().copy(reading, "large file%20", target, "copy").sha256 == DIGEST
        assert _copies() == before + 1


def test_a_copy_that_somebody_wrote_over_is_not_ours(minio: S3Server, source: Storage) -> None:
    target = _place(minio)
    name = target.bucket.name  # type: ignore[attr-defined]

    def write_over(request: Request) -> None:
        if any(header.lower() == "x-amz-checksum-mode" for header in request.headers):
            minio.client().put_object(Bucket=name, Key="root/copy", Body=DATA)

    with open_proxy(minio.server.address) as proxy:
        proxy.rule = write_over
        properties = {**minio.properties, "s3.endpoint": proxy.endpoint}
        reading = source.bucket.name  # type: ignore[attr-defined]
        reader = open_storage(StorageSpec(f"s3://{reading}/root", properties))
        writer = open_storage(StorageSpec(f"s3://{name}/root", properties))
        with pytest.raises(KeyExistsError):
            Transfer().copy(reader, "large file%20", writer, "copy")


def test_what_changed_since_it_was_opened_is_not_copied(minio: S3Server) -> None:
    source, target = _place(minio), _place(minio)
    source.write_once("large", DATA)
    with source.open_reader("large") as reader:
        reader.let_go()  # MinIO lets nobody write what is being read
        source.replace("large", DATA[::-1])
        assert target.copy_from(reader, "copy") is None
        with pytest.raises(StorageError, match="changed"):
            reader.readinto(memoryview(bytearray(len(DATA))))
    assert list(target.iter_keys("")) == []
