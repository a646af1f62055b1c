"""Memory that is sent without a copy: every byte arrives, none changes before it was answered."""

from __future__ import annotations

import gc
import multiprocessing
import os
import socket
import threading
from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bcn.storage import cloud_stream, shared_memory, wire
from bcn.storage.fault import Fault, Kind
from bcn.storage.shared_memory import (
    SharedMemory,
    find_file,
    is_doubtful,
    leave_alone,
    make_memory,
)
from bcn.storage.wire import Wire
from tests.support.proxy import open_proxy, write_certificates
from tests.support.servers import S3Server

SIZE = 5 << 20


@contextmanager
def _listen(answer: bytes, heard_bytes: int) -> Iterator[tuple[str, bytearray]]:
    """A server that hears so many bytes of a body and answers, and then hears the rest."""
    heard = bytearray()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                head = bytearray()
                while b"\r\n\r\n" not in head:
                    head += connection.recv(1 << 16)
                heard.extend(head.partition(b"\r\n\r\n")[2])
                while len(heard) < heard_bytes:
                    heard.extend(connection.recv(1 << 16))
                connection.sendall(answer)
                while more := connection.recv(1 << 16):
                    heard.extend(more)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}", heard
    thread.join(timeout=5)


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@pytest.fixture
def sent_files(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Starts and sizes that the kernel was asked to send."""
    calls, real = [], os.sendfile

    def sendfile(to: int, of: int, start: int, size_bytes: int) -> int:
        calls.append((start, size_bytes))
        return real(to, of, start, min(size_bytes, 700_001))  # a full socket takes less, too

    monkeypatch.setattr(wire.os, "sendfile", sendfile)
    return calls


@pytest.mark.parametrize(("start", "end"), [(0, SIZE), (12_345, SIZE), (1, 2_000_000)])
def test_bytes_from_anywhere_in_it_arrive(
    start: int, end: int, sent_files: list[tuple[int, int]]
) -> None:
    memory, data = make_memory(SIZE), os.urandom(SIZE)
    memory[:] = data
    with _listen(OK, end - start) as (url, heard):
        answer = Wire(url).send("PUT", "/x", {}, memory[start:end], 5)
        assert answer.status == 200
        assert heard == data[start:end]
    assert sent_files[0] == (start, end - start)
    assert not is_doubtful(memory)


def test_over_tls_every_byte_goes_through_its_hands(
    minio: S3Server, tmp_path: Path, sent_files: list[tuple[int, int]]
) -> None:
    certificate, authority = write_certificates(tmp_path)
    memory, bucket = make_memory(SIZE), minio.make_bucket()
    memory[:] = os.urandom(SIZE)
    minio.client().put_bucket_policy(Bucket=bucket, Policy=_ANYBODY % bucket)
    with open_proxy(minio.server.address, certificate) as proxy:
        base = Wire(proxy.endpoint, str(authority))
        assert base.send("PUT", f"/{bucket}/x", {"host": base.host}, memory, 5).status == 200
    assert minio.client().get_object(Bucket=bucket, Key="x")["Body"].read() == bytes(memory)
    assert sent_files == []


_ANYBODY = (
    '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": {"AWS": ["*"]},'
    ' "Action": ["s3:PutObject"], "Resource": ["arn:aws:s3:::%s/*"]}]}'
)


@pytest.mark.parametrize("body", [b"x" * SIZE, make_memory(SIZE)[:1000]], ids=["other", "small"])
def test_other_memory_and_small_bodies_are_sent_as_ever(
    body: bytes | memoryview, sent_files: list[tuple[int, int]]
) -> None:
    with _listen(OK, len(body)) as (url, heard):
        assert Wire(url).send("PUT", "/x", {}, body, 5).status == 200
        assert heard == bytes(body)
    assert sent_files == []


def test_what_nobody_answered_for_must_stay_as_it_is() -> None:
    memory = make_memory(SIZE)
    with _listen(b"", SIZE) as (url, _), pytest.raises(Fault) as caught:
        Wire(url).send("PUT", "/x", {}, memory, 0.3)
    assert caught.value.kind is Kind.TIMEOUT
    assert is_doubtful(memory)


def test_what_was_refused_must_stay_as_it_is() -> None:
    memory, refusal = make_memory(SIZE), OK.replace(b"200 OK", b"503 Busy")
    with _listen(refusal, 1) as (url, _):
        assert Wire(url).send("PUT", "/x", {}, memory, 5).status == 503
    assert is_doubtful(memory)


def test_a_server_that_takes_nothing_is_given_up() -> None:
    memory = make_memory(64 << 20)
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        base = Wire(f"http://127.0.0.1:{deaf.getsockname()[1]}")
        with pytest.raises(Fault) as caught:
            base.send("PUT", "/x", {}, memory, 0.3)
    assert caught.value.kind is Kind.TIMEOUT
    assert is_doubtful(memory)


def test_doubtful_parts_are_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    free: defaultdict[int, deque[cloud_stream._Part]] = defaultdict(deque)
    monkeypatch.setattr(cloud_stream, "_free", free)
    sure, doubtful = (cloud_stream._Part(cloud_stream.PART_BYTES) for _ in range(2))
    leave_alone(doubtful.view[5:9])
    sure.release()
    doubtful.release()
    assert [list(parts) for parts in free.values()] == [[sure]]


def test_no_more_parts_are_kept_than_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    free: defaultdict[int, deque[cloud_stream._Part]] = defaultdict(deque)
    monkeypatch.setattr(cloud_stream, "_free", free)
    for size_bytes in (cloud_stream.PART_BYTES, 2 * cloud_stream.PART_BYTES):
        for part in [cloud_stream._Part(size_bytes) for _ in range(25)]:
            part.release()
    cloud_stream._Part(cloud_stream._LARGE_PART_BYTES).release()
    assert [(size, len(parts)) for size, parts in free.items()] == [(32 << 20, 20), (64 << 20, 10)]


def test_a_process_that_forks_does_not_share_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    cloud_stream._Part(cloud_stream.PART_BYTES).release()
    assert cloud_stream._free
    context = multiprocessing.get_context("fork")
    mine, theirs = context.Pipe()
    child = context.Process(target=lambda: theirs.send(len(cloud_stream._free)))
    child.start()
    assert mine.poll(30)
    assert mine.recv() == 0
    child.join(30)


def test_without_such_memory_there_is_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(24, "too many open files")

    monkeypatch.setattr(shared_memory.os, "memfd_create", refuse)
    memory = make_memory(10)
    assert isinstance(memory.obj, bytearray)
    assert find_file(memory) is None
    leave_alone(memory)
    assert not is_doubtful(memory)


def test_its_file_is_closed_with_it() -> None:
    memory = SharedMemory(10)
    descriptor = memory.descriptor
    os.fstat(descriptor)
    del memory
    gc.collect()
    with pytest.raises(OSError, match="descriptor"):
        os.fstat(descriptor)


def test_of_no_bytes_there_is_nothing_to_send() -> None:
    assert find_file(make_memory(0)) is None
    assert find_file(make_memory(10)[:0]) is None
