"""fake-gcs-server: Google Cloud Storage on one's own machine."""

from __future__ import annotations

from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from bcn.stack.fetch import fetch_go
from bcn.stack.process import Server, free_port, start_server

GCS_VERSION = "v1.54.0"


def fetch_gcs() -> Path:
    """The program, built from source if it is not there yet."""
    return fetch_go("fake-gcs-server", "github.com/fsouza/fake-gcs-server", GCS_VERSION)


def start_gcs(folder: Path, port: int = 0) -> Server:
    """A server with its objects in memory; another port than a free one may be asked for."""
    program, port = fetch_gcs(), port or free_port()
    address = f"127.0.0.1:{port}"
    command = (
        *(str(program), "-backend", "memory", "-scheme", "http", "-log-level", "error"),
        *("-host", "127.0.0.1", "-port", str(port), "-public-host", "127.0.0.1"),
    )
    return start_server(*("gcs", command, port, folder), is_ready=lambda: _is_ready(address))


def _is_ready(address: str) -> bool:
    try:
        with urlopen(f"http://{address}/_internal/healthcheck", timeout=2) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False
