"""A server before another one: it passes calls of AWS on, and does what moto never does.

It can deal lists out in pages, refuse calls as AWS does, lose an answer on its way, or say nothing.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen


@dataclass
class AwsFront:
    """What it was asked, and what it shall do; change it while it runs."""

    behind: str
    port: int = 0
    page_size: int = 0  # of lists; 0: as the server behind has them
    refusals: list[tuple[int, str, str]] = field(default_factory=list)  # used up one by one
    always: tuple[int, str, str] | None = None  # a refusal of everything
    lost_answers: int = 0  # so many calls are done, but nobody hears of it
    calls: list[str] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def answer(self, headers: dict[str, str], body: bytes) -> tuple[int, bytes] | None:
        self.calls.append(headers.get("X-Amz-Target", "").rpartition(".")[2])
        self.bodies.append(json.loads(body or b"{}"))
        refusal = self.always or (self.refusals.pop(0) if self.refusals else None)
        if refusal is not None:
            status, code, message = refusal
            return status, json.dumps({"__type": code, "message": message}).encode()
        status, answer = self._pass_on(headers, body)
        if self.lost_answers:
            self.lost_answers -= 1
            return None
        return status, self._paged(self.bodies[-1], answer) if self.page_size else answer

    def _pass_on(self, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        kept = {key: value for key, value in headers.items() if key not in {"Host", "Connection"}}
        asked = Request(f"{self.behind}/", data=body, headers=kept, method="POST")
        try:
            with urlopen(asked, timeout=20) as answer:
                return answer.status, answer.read()
        except HTTPError as error:
            with error:
                return error.code, error.read()

    def _paged(self, body: dict[str, Any], answer: bytes) -> bytes:
        document = json.loads(answer)
        for items in ("DatabaseList", "TableList"):
            if items in document:
                start = int(body.get("NextToken", 0))
                end = start + self.page_size
                if end < len(document[items]):
                    document["NextToken"] = str(end)
                document[items] = document[items][start:end]
        return json.dumps(document).encode()


@contextmanager
def open_front(behind: str = "", **more: Any) -> Iterator[AwsFront]:
    """One on a free port, ended with the block."""
    front = AwsFront(behind, **more)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            answer = front.answer(dict(self.headers), body)
            if answer is None:
                self.close_connection = True
                return
            self.send_response(answer[0])
            self.send_header("Content-Type", "application/x-amz-json-1.1")
            self.send_header("Content-Length", str(len(answer[1])))
            self.end_headers()
            self.wfile.write(answer[1])

        def log_message(self, *_: object) -> None:
            """Nothing: tests look at `calls`."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    front.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield front
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
