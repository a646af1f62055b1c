"""A port that takes connections and says nothing, or always the same."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def silent_port(answer: bytes = b"") -> Iterator[int]:
    stop = threading.Event()
    kept: list[socket.socket] = []

    def serve(server: socket.socket) -> None:
        while not stop.is_set():
            try:
                connection, _ = server.accept()
            except TimeoutError:
                continue
            kept.append(connection)
            if answer:
                with suppress(OSError):
                    connection.recv(65536)
                    connection.sendall(answer)
                connection.close()

    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.1)
        thread = threading.Thread(target=serve, args=(server,))
        thread.start()
        yield int(server.getsockname()[1])
        stop.set()
        thread.join()
        for connection in kept:
            connection.close()
