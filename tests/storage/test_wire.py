"""Requests by wire: answers of every form, kept connections, proxies, bodies that break off."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import pytest

from bcn.errors import StorageError
from bcn.storage.fault import Fault, Kind
from bcn.storage.open import Stores
from bcn.storage.protocol import Access
from bcn.storage.s3 import S3Bucket
from bcn.storage.s3_connection import COPY_SOURCE, Request
from bcn.storage.wire import Answer, Wire

OK = b"HTTP/1.1 200 OK\r\n"
EMPTY = OK + b"Content-Length: 0\r\n\r\n"
END = b"closed here"
_HEARD_BYTES = 1 << 20
_LENGTH = re.compile(rb"Content-Length: (\d+)")


@dataclass
class Script:
    """A server that gives one answer after the other, whatever it is asked."""

    url: str
    asked: list[str] = field(default_factory=list)
    connections: int = 0


@contextmanager
def _serve(*answers: bytes) -> Iterator[Script]:
    """An answer that ends in END ends its connection, too."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        script = Script(f"http://127.0.0.1:{server.getsockname()[1]}")
        waiting, open_now = iter(answers), list[socket.socket]()

        def serve() -> None:
            with suppress(OSError, StopIteration):
                while True:
                    connection, _ = server.accept()
                    script.connections += 1
                    open_now.append(connection)
                    with connection:
                        _talk(connection, script, waiting)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield script
        finally:
            for place in (server, *open_now):
                with suppress(OSError):
                    place.shutdown(socket.SHUT_RDWR)
    thread.join(timeout=5)


def _talk(connection: socket.socket, script: Script, answers: Iterator[bytes]) -> None:
    while True:
        asked = b""
        while b"\r\n\r\n" not in asked:
            more = connection.recv(1 << 16)
            if not more:
                return
            asked += more
        _hear_out(connection, asked)
        script.asked.append(asked.decode())
        answer = next(answers)
        connection.sendall(answer.removesuffix(END))
        if answer.endswith(END):
            return


def _hear_out(connection: socket.socket, asked: bytes) -> None:
    """Read the body of a request, unless it is too large to care."""
    head, _, body = asked.partition(b"\r\n\r\n")
    length = _LENGTH.search(head)
    if length is None or int(length[1]) > _HEARD_BYTES:
        return
    while len(body) < int(length[1]):
        more = connection.recv(1 << 16)
        if not more:
            return
        body += more


def _ask(wire: Wire, method: str = "GET", target: str = "/x") -> Answer:
    return wire.send(method, target, {"host": wire.host}, b"", 5)


@pytest.mark.parametrize(
    "answer",
    [
        OK + b"Content-Length: 5\r\n\r\nbytes",
        OK + b"content-length:5\r\nConnection: close\r\n\r\nbytes" + END,
        OK + b"Transfer-Encoding: chunked\r\n\r\n3;x=y\r\nbyt\r\n2\r\nes\r\n0\r\n\r\n",
        OK + b"\r\nbytes" + END,
        b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"Content-Length: 5\r\n\r\nbytes",
        b"HTTP/1.1 200\nContent-Length: 5\n\nbytes",
    ],
    ids=["length", "last", "chunks", "unmeasured", "continued", "bare"],
)
def test_an_answer_of_any_form_is_read(answer: bytes) -> None:
    with _serve(answer, EMPTY) as script:
        wire = Wire(script.url)
        found = _ask(wire)
        assert (found.status, found.read()) == (200, b"bytes")
        assert _ask(wire).read() == b""


def test_a_connection_is_kept_until_the_server_ends_it() -> None:
    with _serve(EMPTY, EMPTY, EMPTY + END, EMPTY) as script:
        wire = Wire(script.url)
        for _ in range(3):
            _ask(wire).read()
        assert script.connections == 1
        deadline = threading.Event()
        deadline.wait(0.2)  # the end of a connection takes its time, too
        assert _ask(wire).status == 200
        assert script.connections == 2


def test_an_answer_counts_though_the_server_did_not_hear_all() -> None:
    refusal = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 4\r\n\r\nno!\n" + END
    with _serve(refusal) as script:
        wire = Wire(script.url)
        answer = wire.send("PUT", "/x", {"host": wire.host}, bytes(32 << 20), 5)
        assert (answer.status, answer.read()) == (403, b"no!\n")


def test_a_body_that_nobody_reads_ends_its_connection() -> None:
    with _serve(OK + b"Content-Length: 5\r\n\r\nbytes", EMPTY) as script:
        wire = Wire(script.url)
        _ask(wire).close()
        assert _ask(wire).read() == b""
        assert script.connections == 2


def test_an_answer_to_head_has_a_length_and_no_body() -> None:
    with _serve(OK + b"Content-Length: 5\r\n\r\n", EMPTY) as script:
        wire = Wire(script.url)
        assert _ask(wire, "HEAD").headers["content-length"] == "5"
        assert _ask(wire).status == 200
        assert script.connections == 1


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n" + END, Kind.PROTOCOL),
        (b"HTTP/1.1 many words\r\n\r\n" + END, Kind.PROTOCOL),
        (OK + b"x: y\r\n" * 300 + END, Kind.PROTOCOL),
        (OK + b"x: y\r\n" + END, Kind.CONNECTION),
        (END, Kind.CONNECTION),
    ],
    ids=["other", "status", "endless", "half", "nothing"],
)
def test_what_is_no_answer_is_a_fault(answer: bytes, kind: Kind) -> None:
    with _serve(answer) as script, pytest.raises(Fault) as caught:
        _ask(Wire(script.url))
    assert caught.value.kind is kind


@pytest.mark.parametrize(
    "body",
    [
        b"Content-Length: 9\r\n\r\nbytes",
        b"Transfer-Encoding: chunked\r\n\r\n9\r\nbytes",
        b"Transfer-Encoding: chunked\r\n\r\n5\r\nbytes\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n5\r\nbytes\r",
    ],
    ids=["length", "chunks", "between chunks", "in a line"],
)
def test_half_a_body_is_a_fault(body: bytes) -> None:
    with _serve(OK + body + END) as script:
        answer = _ask(Wire(script.url))
        with pytest.raises(Fault) as caught:
            answer.read()
    assert caught.value.kind is Kind.CONNECTION


@pytest.mark.parametrize(
    "chunk", [b"5\r\nbytes more\r\n", b"-5\r\nbytes\r\n", b"-1\r\n", b"f" * 16 + b"\r\nbytes\r\n"]
)
def test_a_chunk_of_another_size_than_it_says_is_a_fault(chunk: bytes) -> None:
    with _serve(OK + b"Transfer-Encoding: chunked\r\n\r\n" + chunk + b"0\r\n\r\n" + END) as script:
        answer = _ask(Wire(script.url))
        with pytest.raises(Fault) as caught:
            answer.read()
    assert caught.value.kind is Kind.PROTOCOL


def test_a_proxy_is_used_unless_the_host_is_exempt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    with _serve(EMPTY) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url.replace("://", "://me:secret@"))
        assert _ask(Wire("http://far.example:9000")).status == 200
    asked = proxy.asked[0].lower()
    assert asked.startswith("get http://far.example:9000/x http/1.1\r\nhost: far.example:9000")
    assert "proxy-authorization: basic bwu6c2vjcmv0" in asked
    with _serve(EMPTY) as near:
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        assert _ask(Wire(near.url)).status == 200
    assert near.asked[0].startswith("GET /x ")


def test_a_proxy_is_asked_for_a_tunnel_to_https(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    with _serve(b"HTTP/1.1 403 Forbidden\r\n\r\n" + END) as proxy:
        monkeypatch.setenv("https_proxy", proxy.url)
        with pytest.raises(Fault):
            _ask(Wire("https://far.example"))
    assert proxy.asked[0].startswith("CONNECT far.example:443 ")


# an object that breaks off on its way

_HALF = OK + b'ETag: "t"\r\nContent-Length: 10\r\n\r\nhello' + END
_REST = (
    b'HTTP/1.1 206 Partial\r\nETag: "t"\r\nContent-Range: bytes 5-9/10\r\n'
    b"Content-Length: 5\r\n\r\nworld"
)
_OTHER = b"HTTP/1.1 412 Precondition Failed\r\nContent-Length: 0\r\n\r\n"


def _read(answers: Sequence[bytes]) -> tuple[bytes, list[str]]:
    with _serve(*answers) as script:
        properties = {"s3.endpoint": script.url, "s3.anonymous": "true"}
        storage, key = Stores(Access(properties)).resolve("s3://bucket/key")
        buffer = memoryview(bytearray(20))
        with storage.open_reader(key) as reader:
            count = reader.readinto(buffer)
        return bytes(buffer[:count]), script.asked


def test_the_rest_of_an_object_is_asked_for() -> None:
    found, asked = _read([_HALF, _REST])
    assert found == b"helloworld"
    assert "range: bytes=5-\r\n" in asked[1]
    assert 'if-match: "t"\r\n' in asked[1]


def test_a_document_that_breaks_off_is_asked_for_again() -> None:
    with _serve(_HALF, OK + b"Content-Length: 10\r\n\r\nhelloworld") as script:
        properties = {"s3.endpoint": script.url, "s3.anonymous": "true"}
        storage, key = Stores(Access(properties)).resolve("s3://bucket/key")
        assert storage.read(key) == b"helloworld"
    assert len(script.asked) == 2


def test_a_server_that_is_being_stopped_is_asked_again() -> None:
    gone = b"HTTP/1.1 499 Client Closed\r\nContent-Length: 0\r\n\r\n" + END
    found, asked = _read([gone, OK + b'ETag: "t"\r\nContent-Length: 5\r\n\r\nhello'])
    assert found == b"hello"
    assert len(asked) == 2


_BEGUN = (
    b"<InitiateMultipartUploadResult><UploadId>a&amp;b</UploadId></InitiateMultipartUploadResult>"
)
_DONE = b"<CompleteMultipartUploadResult/>"
_FAILED = b"<Error><Code>InternalError</Code><Message>again, please</Message></Error>"


def _said(body: bytes) -> bytes:
    return OK + b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


def _upload(script: Script) -> None:
    bucket = S3Bucket("bucket", {"s3.endpoint": script.url, "s3.anonymous": "true"})
    bucket.begin_upload("key", "mark").finish(create_only=False)


@pytest.mark.parametrize("late", [b" \n" + _FAILED, b"", b"  "])
def test_an_upload_that_fails_after_its_answer_began_is_finished_again(late: bytes) -> None:
    with _serve(_said(_BEGUN), _said(late), _said(_DONE)) as script:
        _upload(script)
    assert "POST /bucket/key?uploads= HTTP/1.1\r\n" in script.asked[0]
    assert [words.split()[1] for words in script.asked[1:]] == ["/bucket/key?uploadId=a%26b"] * 2


def test_an_upload_that_was_refused_after_its_answer_began_was_not_made() -> None:
    refused = _FAILED.replace(b"InternalError", b"AccessDenied")
    with (
        _serve(_said(_BEGUN), _said(refused)) as script,
        pytest.raises(Fault, match="AccessDenied: again, please"),
    ):
        _upload(script)


def test_a_copy_that_fails_after_its_answer_began_is_made_again() -> None:
    with _serve(_said(_FAILED), _said(b"<CopyObjectResult/>")) as script:
        bucket = S3Bucket("bucket", {"s3.endpoint": script.url, "s3.anonymous": "true"})
        bucket.connection.send("copy", Request("PUT", "key", {COPY_SOURCE: "/bucket/other"}))
    assert len(script.asked) == 2


def test_an_upload_without_a_name_is_not_begun() -> None:
    with _serve(_said(_DONE)) as script, pytest.raises(Fault, match="does not say which"):
        _upload(script)


def test_the_rest_of_another_object_is_not_taken_for_it() -> None:
    with pytest.raises(StorageError, match="changed while it was read"):
        _read([_HALF, _OTHER])


def test_the_whole_is_not_taken_for_the_rest() -> None:
    with pytest.raises(StorageError, match="knows no ranges"):
        _read([_HALF, OK + b'ETag: "t"\r\nContent-Length: 10\r\n\r\nhelloworld'])


def test_an_object_that_always_breaks_off_is_given_up() -> None:
    nothing = b'HTTP/1.1 206 Partial\r\nETag: "t"\r\nContent-Range: bytes 5-9/10\r\n'
    with pytest.raises(StorageError, match="no connection"):
        _read([_HALF, *[nothing + b"Content-Length: 5\r\n\r\n" + END] * 10])


def test_an_object_of_no_length_is_refused() -> None:
    with pytest.raises(StorageError, match="how long an object is"):
        _read([OK + b"\r\nhello" + END])
