"""Puffin files: the blobs and the footer that describes them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cramjam

MAGIC = b"PFA1"


@dataclass(frozen=True)
class Puffin:
    """A file's bytes before the footer, and the footer; `footer` is None where there is none."""

    head: bytes
    footer: dict[str, Any] | None

    @property
    def blobs(self) -> list[dict[str, Any]]:
        return [] if self.footer is None else list(self.footer["blobs"])

    def blob_bytes(self, blob: dict[str, Any]) -> bytes:
        return self.head[blob["offset"] : blob["offset"] + blob["length"]]


def read_puffin(path: Path) -> Puffin:
    """Reads a file; one without the magic at its start is a bare blob."""
    data = path.read_bytes()
    if data[:4] != MAGIC:
        return Puffin(data, None)
    size = int.from_bytes(data[-12:-8], "little")
    start = len(data) - 12 - size
    if data[-4:] != MAGIC or data[start - 4 : start] != MAGIC:
        raise ValueError(f"the footer of {path} is damaged")
    payload = data[start : start + size]
    if data[-8] & 1:
        payload = bytes(cramjam.lz4.decompress(payload))
    return Puffin(data[: start - 4], json.loads(payload))
