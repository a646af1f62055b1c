"""Google Cloud Storage for tests, and a look at its objects with no code of ours."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote
from urllib.request import Request, urlopen

from bcn.stack.process import Server

TOKEN = "token-of-the-tests"


@dataclass(frozen=True)
class GcsServer:
    """fake-gcs-server, and the properties that open it."""

    server: Server

    @property
    def endpoint(self) -> str:
        return f"http://{self.server.address}"

    @property
    def properties(self) -> dict[str, str]:
        return {"gcs.service.host": self.endpoint, "gcs.oauth2.token": TOKEN}

    def location(self, bucket: str) -> str:
        return f"gs://{bucket}"

    def make_bucket(self) -> str:
        name = f"bucket-{secrets.token_hex(6)}"
        self._ask("POST", "/storage/v1/b?project=tests", json.dumps({"name": name}).encode())
        return name

    def keys(self, bucket: str) -> list[str]:
        page = json.loads(self._ask("GET", f"/storage/v1/b/{bucket}/o"))
        return [item["name"] for item in page.get("items", ())]

    def describe(self, bucket: str, name: str) -> Any:
        return json.loads(self._ask("GET", f"/storage/v1/b/{bucket}/o/{quote(name, safe='')}"))

    def read(self, bucket: str, name: str) -> bytes:
        return self._ask("GET", f"/storage/v1/b/{bucket}/o/{quote(name, safe='')}?alt=media")

    def write(self, bucket: str, name: str, data: bytes) -> None:
        path = f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name={quote(name, safe='')}"
        self._ask("POST", path, data)

    def delete(self, bucket: str, name: str) -> None:
        self._ask("DELETE", f"/storage/v1/b/{bucket}/o/{quote(name, safe='')}")

    def _ask(self, method: str, path: str, body: bytes | None = None) -> bytes:
        headers = {"Content-Type": "application/json"} if body else {}
        request = Request(self.endpoint + path, body, headers, method=method)
        with urlopen(request, timeout=20) as answer:
            return bytes(answer.read())
