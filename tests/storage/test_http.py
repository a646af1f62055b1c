"""Requests to Azure and Google: bodies that take a while."""

from __future__ import annotations

import socket
import threading
import time

import pytest
import requests

from bcn.storage import http
from bcn.storage.fault import Fault, Kind
from bcn.storage.http import Call, HttpConnection, Reply

BODY = bytes(range(256)) * (24 << 12)  # 24 MB


def _keep(request: requests.PreparedRequest) -> requests.PreparedRequest:
    return request


def _read_fault(reply: Reply) -> Fault:
    return Fault(Kind.OTHER, str(reply.status))


@pytest.mark.long
@pytest.mark.parametrize("body", [BODY, memoryview(bytearray(BODY))], ids=["bytes", "memory"])
def test_a_large_body_may_take_longer_than_connecting(
    body: bytes | memoryview, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a new connection, all that is sent at once has no more time than connecting has."""
    monkeypatch.setattr(http, "_CONNECT_SECONDS", 0.5)
    heard, head = bytearray(), bytearray()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                while b"\r\n\r\n" not in head:
                    head.extend(connection.recv(1))
                while len(heard) < len(body):
                    heard.extend(connection.recv(256 << 10))
                    time.sleep(0.02)
                connection.sendall(b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n")

        threading.Thread(target=serve, daemon=True).start()
        connection = HttpConnection(lambda _: None, _keep, _read_fault)
        url = f"http://127.0.0.1:{server.getsockname()[1]}/x"
        started = time.monotonic()
        assert connection.ask_once(Call("put", "PUT", url, body=body)).status == 201
    assert time.monotonic() - started > 1
    assert heard == BODY
    assert f"content-length: {len(BODY)}".encode() in head.lower()
    assert b"chunked" not in head.lower()
