"""What goes wrong with S3: one line, a hint, in time, and never a secret."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from bcn.errors import ReadOnlyStorageError, StorageError
from bcn.stack.process import free_port
from bcn.stack.seaweed import render_identities, start_seaweed
from bcn.storage.open import open_storage
from bcn.storage.protocol import Storage, StorageSpec
from tests.support.proxy import Request, open_proxy, write_certificates
from tests.support.servers import ACCESS_KEY, SECRET_KEY, S3Server, server_folder

pytestmark = pytest.mark.server

WRONG_SECRET = "not-the-secret"


@pytest.fixture(scope="module")
def bucket(minio: S3Server) -> str:
    return minio.make_bucket()


def _open(server: S3Server, bucket: str, **changes: str) -> Storage:
    properties = {
        **server.properties,
        **{f"s3.{k.replace('_', '-')}": v for k, v in changes.items()},
    }
    return open_storage(StorageSpec(f"s3://{bucket}/root", properties))


OPERATIONS: dict[str, Callable[[Storage], object]] = {
    "read": lambda storage: storage.read("key"),
    "stream": lambda storage: storage.open_reader("key"),
    "look": lambda storage: storage.find_stat("key"),
    "list": lambda storage: next(storage.iter_keys(""), None),
    "write": lambda storage: storage.write_once("key", b"x"),
    "replace": lambda storage: storage.replace("key", b"x"),
    "delete all": lambda storage: storage.delete_all(""),
}


def _fails(storage: Storage, operation: str, bucket: str, endpoint: str) -> StorageError:
    """The error, after what all errors have in common was looked at."""
    started = time.monotonic()
    with pytest.raises(StorageError) as caught:
        OPERATIONS[operation](storage)
    assert time.monotonic() - started < 15
    text = str(caught.value)
    assert "\n" not in text
    assert bucket in text
    assert endpoint in text
    assert caught.value.hint
    assert SECRET_KEY not in text
    assert WRONG_SECRET not in text
    assert caught.value.exit_code == 15
    return caught.value


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_wrong_secret_is_said(minio: S3Server, bucket: str, operation: str) -> None:
    storage = _open(minio, bucket, secret_access_key=WRONG_SECRET)
    error = _fails(storage, operation, bucket, minio.endpoint)
    assert "credentials are not accepted" in str(error)
    assert "s3.secret-access-key" in error.hint


def test_an_unknown_key_is_said(minio: S3Server, bucket: str) -> None:
    error = _fails(_open(minio, bucket, access_key_id="nobody"), "look", bucket, minio.endpoint)
    assert "InvalidAccessKeyId" in str(error)


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("server", ["minio", "seaweed"])
def test_a_missing_bucket_is_no_missing_key(
    server: str, operation: str, request: pytest.FixtureRequest
) -> None:
    found: S3Server = request.getfixturevalue(server)
    name = f"no-such-bucket-{operation.replace(' ', '-')}"
    error = _fails(_open(found, name), operation, name, found.endpoint)
    assert "no such bucket" in str(error)


def test_nobody_listens(minio: S3Server, bucket: str) -> None:
    endpoint = f"http://127.0.0.1:{free_port()}"
    error = _fails(_open(minio, bucket, endpoint=endpoint), "look", bucket, endpoint)
    assert "connection refused" in str(error)
    assert "s3.endpoint" in error.hint


def test_there_is_no_such_host(minio: S3Server, bucket: str) -> None:
    endpoint = "http://no-such-host.invalid:9000"
    error = _fails(_open(minio, bucket, endpoint=endpoint), "read", bucket, endpoint)
    assert "no connection" in str(error)


@contextmanager
def _listener(answer: bytes | None) -> Iterator[str]:
    """Something that is no HTTP server: it never answers, as thrift does, or says its own words."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        held: list[socket.socket] = []

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                held.append(connection)
                if answer is not None:
                    with suppress(OSError):
                        connection.recv(1 << 16)
                        connection.sendall(answer)
                        connection.shutdown(socket.SHUT_RDWR)

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
    for connection in held:
        connection.close()


@pytest.mark.parametrize("operation", ["look", "list"])
def test_a_port_that_never_answers(minio: S3Server, bucket: str, operation: str) -> None:
    with _listener(None) as endpoint:
        error = _fails(_open(minio, bucket, endpoint=endpoint), operation, bucket, endpoint)
    assert "no answer" in str(error)
    assert "s3.endpoint" in error.hint


@pytest.mark.parametrize("operation", ["look", "list"])
def test_a_port_that_speaks_something_else(minio: S3Server, bucket: str, operation: str) -> None:
    with _listener(b"\x80\x01\x00\x03\x00\x00\x00\x00") as endpoint:
        error = _fails(_open(minio, bucket, endpoint=endpoint), operation, bucket, endpoint)
    assert "s3.endpoint" in error.hint


@pytest.mark.parametrize("operation", ["look", "list"])
def test_https_to_a_port_that_speaks_http(minio: S3Server, bucket: str, operation: str) -> None:
    endpoint = minio.endpoint.replace("http:", "https:")
    error = _fails(_open(minio, bucket, endpoint=endpoint), operation, bucket, endpoint)
    assert "https" in error.hint


@pytest.mark.parametrize("operation", ["look", "list"])
def test_a_certificate_that_nobody_vouches_for(
    minio: S3Server,
    bucket: str,
    operation: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    certificate, authority = write_certificates(tmp_path)
    with open_proxy(minio.server.address, certificate) as proxy:
        storage = _open(minio, bucket, endpoint=proxy.endpoint)
        error = _fails(storage, operation, bucket, proxy.endpoint)
        assert "certificate" in str(error)
        assert "AWS_CA_BUNDLE" in error.hint
        monkeypatch.setenv("AWS_CA_BUNDLE", str(authority))
        trusting = _open(minio, bucket, endpoint=f"{proxy.endpoint}/")  # not the one at hand
        trusting.replace(f"trusted/{operation}", b"x")
        assert list(trusting.iter_keys("trusted/"))


@pytest.mark.parametrize("operation", ["look", "list", "write"])
def test_a_clock_that_is_wrong(minio: S3Server, bucket: str, operation: str) -> None:
    def an_hour_late(request: Request) -> None:
        for name in request.headers:
            if name.lower() == "x-amz-date":
                request.headers[name] = "20200101T000000Z"

    with open_proxy(minio.server.address) as proxy:
        proxy.rule = an_hour_late
        storage = _open(minio, bucket, endpoint=proxy.endpoint)
        error = _fails(storage, operation, bucket, proxy.endpoint)
    assert "clock" in str(error)
    assert "clock" in error.hint


# what somebody may not do

READER, BLIND = "reader", "blind"


@pytest.fixture(scope="module")
def strict() -> Iterator[tuple[S3Server, str]]:
    """A server on which one may only read, and another one not even list."""
    with server_folder() as folder:
        keys = {
            ACCESS_KEY: (SECRET_KEY, ("Admin", "Read", "List", "Tagging", "Write")),
            READER: (SECRET_KEY, ("Read", "List")),
            BLIND: (SECRET_KEY, ("Read",)),
        }
        server = start_seaweed(folder, ACCESS_KEY, SECRET_KEY, identities=render_identities(keys))
        found = S3Server(server)
        name = found.make_bucket()
        _open(found, name).write_once("key", b"x")
        yield found, name
        server.stop()


@pytest.mark.parametrize("operation", ["write", "replace"])
def test_a_key_that_may_only_read_cannot_write(
    strict: tuple[S3Server, str], operation: str
) -> None:
    server, bucket = strict
    storage = _open(server, bucket, access_key_id=READER)
    assert storage.read("key") == b"x"
    assert list(storage.iter_keys("")) == ["key"]
    error = _fails(storage, operation, bucket, server.endpoint)
    assert isinstance(error, ReadOnlyStorageError)
    assert _open(server, bucket).read("key") == b"x"


def test_a_key_that_may_only_read_cannot_delete(strict: tuple[S3Server, str]) -> None:
    server, bucket = strict
    with pytest.raises(ReadOnlyStorageError):
        _open(server, bucket, access_key_id=READER).delete("key")
    assert _open(server, bucket).read("key") == b"x"


def test_a_key_that_may_not_list_is_told_so(strict: tuple[S3Server, str]) -> None:
    server, bucket = strict
    storage = _open(server, bucket, access_key_id=BLIND)
    assert storage.read("key") == b"x"
    error = _fails(storage, "list", bucket, server.endpoint)
    assert "access is denied" in str(error)
    assert "list" in error.hint
