"""Azurite: Azure Blob Storage on one's own machine."""

from __future__ import annotations

from pathlib import Path

from bcn.stack.fetch import fetch_npm
from bcn.stack.process import Server, free_port, start_server

AZURITE_VERSION = "3.37.0"


def fetch_azurite() -> Path:
    """The folder of the program, fetched if it is not there yet."""
    return fetch_npm("azurite", AZURITE_VERSION)


def start_azurite(folder: Path, account: str, key: str, port: int = 0) -> Server:
    """A server with its blobs under a folder; another port than a free one may be asked for.

    The key is Base64, as Azure's are.
    """
    home, port = fetch_azurite(), port or free_port()
    program = home / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
    command = (
        *("node", str(program), "--silent", "--disableTelemetry", "--disableProductStyleUrl"),
        *("--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", str(folder)),
    )
    environ = {"AZURITE_ACCOUNTS": f"{account}:{key}"}
    return start_server(*("azurite", command, port, folder), environ=environ)
