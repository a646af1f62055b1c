"""Azure Blob Storage for tests, and a look at its blobs with no code of ours."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen
from xml.etree import ElementTree as ET

from bcn.stack.process import Server

ACCOUNT = "bcntests"
KEY = base64.b64encode(b"a key of the tests, and theirs only").decode()
VERSION = "2023-11-03"


def make_sas(
    permissions: str = "rwdlacup", ends_in: timedelta = timedelta(hours=1), key: str = KEY
) -> str:
    """A shared access signature for the whole account."""
    ends = (datetime.now(UTC) + ends_in).strftime("%Y-%m-%dT%H:%M:%SZ")
    words = [ACCOUNT, permissions, "b", "sco", "", ends, "", "https,http", VERSION, "", ""]
    digest = hmac.new(base64.b64decode(key), "\n".join(words).encode(), hashlib.sha256).digest()
    values = {"sv": VERSION, "ss": "b", "srt": "sco", "sp": permissions, "se": ends}
    return urlencode({**values, "spr": "https,http", "sig": base64.b64encode(digest).decode()})


@dataclass(frozen=True)
class AzureServer:
    """Azurite, and the properties that open it."""

    server: Server

    @property
    def endpoint(self) -> str:
        return f"http://{self.server.address}"

    @property
    def properties(self) -> dict[str, str]:
        return self.properties_at(self.server.address)

    def properties_at(self, address: str) -> dict[str, str]:
        """With something between us and the server."""
        return {
            "adls.account-name": ACCOUNT,
            "adls.account-key": KEY,
            "adls.blob-storage-authority": address,
            "adls.blob-storage-scheme": "http",
        }

    def location(self, bucket: str) -> str:
        return f"abfss://{bucket}@{ACCOUNT}.dfs.core.windows.net"

    def make_bucket(self) -> str:
        name = f"container-{secrets.token_hex(6)}"
        self.ask("PUT", name, {"restype": "container"})
        return name

    def keys(self, bucket: str, **more: str) -> list[str]:
        """All of them: containers of tests have less than a page."""
        page = self.ask("GET", bucket, {"restype": "container", "comp": "list", **more})
        blobs = ET.fromstring(page.decode("utf-8-sig")).iterfind("./Blobs/Blob/Name")
        return [blob.text or "" for blob in blobs]

    def read(self, bucket: str, name: str) -> bytes:
        return self.ask("GET", f"{bucket}/{quote(name)}")

    def write(self, bucket: str, name: str, data: bytes, **headers: str) -> None:
        more = {f"x-ms-{key.replace('_', '-', 1)}": value for key, value in headers.items()}
        more["x-ms-blob-type"] = "BlockBlob"
        self.ask("PUT", f"{bucket}/{quote(name)}", {}, data, more)

    def delete(self, bucket: str, name: str) -> None:
        self.ask("DELETE", f"{bucket}/{quote(name)}")

    def ask(
        self,
        method: str,
        path: str,
        params: dict[str, str] | None = None,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> bytes:
        query = "&".join(word for word in (urlencode(params or {}), make_sas()) if word)
        if body is None and method == "PUT":
            body = b""
        request = Request(
            f"{self.endpoint}/{ACCOUNT}/{path}?{query}",
            body,
            {"x-ms-version": VERSION, **(headers or {})},
            method=method,
        )
        with urlopen(request, timeout=20) as answer:
            return bytes(answer.read())
