"""Buckets of any service for round trips: a folder mirrors them for the comparison."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tests.support.compare.paths import MIRRORS


class CloudServer(Protocol):
    """A server, and plain HTTP to look at what it holds."""

    @property
    def endpoint(self) -> str: ...

    @property
    def properties(self) -> Mapping[str, str]: ...

    def location(self, bucket: str) -> str: ...
    def make_bucket(self) -> str: ...
    def keys(self, bucket: str) -> list[str]: ...
    def read(self, bucket: str, name: str) -> bytes: ...
    def write(self, bucket: str, name: str, data: bytes) -> None: ...
    def delete(self, bucket: str, name: str) -> None: ...


@dataclass(frozen=True)
class CloudMirror:
    """A bucket, and a folder with the same files."""

    server: CloudServer
    bucket: str
    folder: Path

    @property
    def location(self) -> str:
        return self.server.location(self.bucket)

    def upload(self) -> None:
        for path in sorted(path for path in self.folder.rglob("*") if path.is_file()):
            name = path.relative_to(self.folder).as_posix()
            self.server.write(self.bucket, name, path.read_bytes())

    def download(self) -> None:
        for key in self.keys():
            path = self.folder / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.server.read(self.bucket, key))

    def keys(self) -> list[str]:
        return self.server.keys(self.bucket)

    def empty(self) -> None:
        for key in self.keys():
            self.server.delete(self.bucket, key)


@contextmanager
def mirrored_cloud(server: CloudServer, folder: Path) -> Iterator[CloudMirror]:
    """A new bucket; its locations are known to the comparison while the block lasts."""
    place = CloudMirror(server, server.make_bucket(), folder)
    folder.mkdir(parents=True, exist_ok=True)
    MIRRORS[place.location] = folder
    try:
        yield place
    finally:
        del MIRRORS[place.location]
