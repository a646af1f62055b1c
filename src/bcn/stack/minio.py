"""MinIO: an S3 server."""

from __future__ import annotations

from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from bcn.stack.fetch import fetch_go
from bcn.stack.process import Server, free_port, start_server

MINIO_VERSION = "v0.0.0-20260212201848-7aac2a2c5b7c"


def fetch_minio() -> Path:
    """The program, built from source if it is not there yet."""
    return fetch_go("minio", "github.com/minio/minio", MINIO_VERSION)


def start_minio(
    folder: Path, access_key: str, secret_key: str, port: int = 0, program: Path | None = None
) -> Server:
    """A server with its objects under a folder; another port than a free one may be asked for."""
    program = program or fetch_minio()
    port, console = port or free_port(), free_port()
    address, data = f"127.0.0.1:{port}", folder / "objects"
    command = (
        *(str(program), "server", "--quiet", str(data)),
        *("--address", address, "--console-address", f"127.0.0.1:{console}"),
    )
    environ = {
        "MINIO_ROOT_USER": access_key,
        "MINIO_ROOT_PASSWORD": secret_key,
        "MINIO_UPDATE": "off",
        "MINIO_BROWSER": "off",
    }
    return start_server(
        *("minio", command, port, folder), environ=environ, is_ready=lambda: _is_ready(address)
    )


def _is_ready(address: str) -> bool:
    try:
        with urlopen(f"http://{address}/minio/health/ready", timeout=2) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False
