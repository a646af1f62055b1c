"""AWS Glue and S3 as moto's server plays them: a process of its own, state in its memory."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bcn.catalog.protocol import CatalogSettings
from bcn.stack.process import Server, free_port, start_server

ACCESS_KEY, SECRET_KEY = "AKIABCNTESTS", "glue-tests-secret"


@dataclass(frozen=True)
class GlueServer:
    """One account; tests that need it empty say so."""

    server: Server

    @property
    def endpoint(self) -> str:
        return f"http://{self.server.address}"

    def properties(self, region: str = "us-east-1") -> dict[str, str]:
        """As a `[catalogs.NAME]` section has them."""
        return {
            "glue.endpoint": self.endpoint,
            "glue.region": region,
            "glue.access-key-id": ACCESS_KEY,
            "glue.secret-access-key": SECRET_KEY,
        }

    def settings(self, name: str, warehouse: str, **more: str) -> CatalogSettings:
        return CatalogSettings(name, "glue", {**self.properties(), "warehouse": warehouse, **more})

    def client(self, region: str = "us-east-1") -> Any:
        """A second opinion, by botocore itself."""
        from botocore.session import Session  # noqa: PLC0415  heavy

        return Session().create_client(
            "glue",
            region_name=region,
            endpoint_url=self.endpoint,
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY,
        )

    def empty(self) -> None:
        """Forget everything: moto's own reset."""
        from urllib.request import Request, urlopen  # noqa: PLC0415

        with urlopen(Request(f"{self.endpoint}/moto-api/reset", method="POST"), timeout=10):
            pass


def start_glue(folder: Path, environ: Mapping[str, str] | None = None) -> GlueServer:
    port = free_port()
    command = (str(Path(sys.prefix) / "bin" / "moto_server"), "-H", "127.0.0.1", "-p", str(port))
    return GlueServer(start_server("glue", command, port, folder, environ=environ))
