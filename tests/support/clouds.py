"""Buckets of any service for round trips: a folder mirrors them for the comparison."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pytest

from bcn.config.load import load_settings
from bcn.errors import StorageError
from bcn.model import TableId
from bcn.repository.repository import Scope
from bcn.storage.cloud_stream import PART_BYTES
from bcn.storage.open import open_storage
from bcn.storage.protocol import Storage, StorageSpec
from tests.support.compare.paths import MIRRORS
from tests.support.s3 import CloudProduct, add_twins, differences, sql_catalog
from tests.support.small import InProcess

_STORES = Path(__file__).parents[2] / "docs" / "stores.md"
# Two full parts and a last one.
LARGE = bytes(range(256)) * ((2 * PART_BYTES + (768 << 10)) // 256) + b"the end"


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


def write_large(storage: Storage, data: bytes = LARGE) -> None:
    with storage.open_writer("large") as writer:
        writer.write(data)
        writer.commit()


OPERATIONS: dict[str, Callable[[Storage], object]] = {
    "read": lambda storage: storage.read("key"),
    "stream": lambda storage: storage.open_reader("key"),
    "look": lambda storage: storage.find_stat("key"),
    "list": lambda storage: next(storage.iter_keys(""), None),
    "write": lambda storage: storage.write_once("key", b"x"),
    "write large": write_large,
    "delete": lambda storage: storage.delete("key"),
}


def fails(operation: Callable[[], object], secrets: Sequence[str]) -> StorageError:
    """The error, after what all errors have in common was looked at."""
    started = time.monotonic()
    with pytest.raises(StorageError) as caught:
        operation()
    assert time.monotonic() - started < 15
    assert "\n" not in str(caught.value)
    assert not [word for word in secrets if word in str(caught.value) + caught.value.hint]
    assert caught.value.exit_code == 15
    return caught.value


def check_round_trip(mirror: CloudMirror, folder: Path, secrets: Sequence[str]) -> None:
    """Two tables, their repository in another bucket: there twice, back with the source gone."""
    server = mirror.server
    place, properties = f"{mirror.location}/warehouse", server.properties
    repository = StorageSpec(
        f"{server.location(server.make_bucket())}/backups/repository", properties
    )
    places = {"source": place, "target": f"{mirror.location}/restored"}
    catalogs = {
        name: sql_catalog(name, folder / f"{name}.db", where, properties)
        for name, where in places.items()
    }
    product = CloudProduct(Path(), catalogs, InProcess(), repository)
    tables = add_twins(product, "source", place)
    mirror.upload()
    first, second = product.backup(Scope("source")), product.backup()
    assert first.files_copied > 10
    assert second.files_copied == 0
    mirror.empty()
    report = product.restore(target_catalog="target")
    names = {TableId(("db",), "two"), TableId(("db",), "three")}
    assert {table.table for table in report.tables} == names
    mirror.download()
    assert differences(tables, report) == []
    assert all(key.startswith("restored/db/") for key in server.keys(mirror.bucket))
    storage = open_storage(repository)
    stored = {key: storage.read(key) for key in storage.iter_keys("")}
    assert len(stored) > 20
    assert not [key for key, data in stored.items() for word in secrets if word.encode() in data]
    assert not [word for word in secrets if word in repr((product.spec, catalogs))]


def check_command(
    folder: Path, places: Mapping[str, tuple[str, Mapping[str, str]]], secrets: Sequence[str]
) -> None:
    """`bcn init` works at the place called good; all others: exit 15, an error and a hint."""
    text = ""
    for name, (location, properties) in places.items():
        text += f'[repositories.{name}]\nlocation = "{location}"\n'
        text += "".join(f'"{key}" = "{value}"\n' for key, value in properties.items())
    (folder / "bcn.toml").write_text(text)
    for name in places:
        command = [sys.executable, "-m", "bcn", "init", "--repo", name]
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=15, check=False
        )
        assert not [word for word in secrets if word in done.stdout + done.stderr]
        if name == "good":
            assert done.returncode == 0, done.stderr
        else:
            assert done.returncode == 15, done.stderr
            assert [line.partition(":")[0] for line in done.stderr.splitlines()] == [
                "error",
                "hint",
            ]


def check_example(mirror: CloudMirror, folder: Path, title: str, told: Mapping[str, str]) -> None:
    """The example of a chapter of docs/stores.md backs up and restores, at another address."""
    chapter = _STORES.read_text().partition(f"## {title}\n")[2]
    example = re.search(r"```toml\n(.*?)```", chapter, re.DOTALL)
    assert example is not None
    toml = example[1]
    for old, new in {**told, "sqlite:///catalog.db": f"sqlite:///{folder}/catalog.db"}.items():
        assert old in toml
        toml = toml.replace(old, new)
    (folder / "bcn.toml").write_text(toml)
    settings = load_settings(None, {}, folder)
    nightly = settings.repositories["nightly"]
    spec = StorageSpec(nightly.location, nightly.properties)
    product = CloudProduct(Path(), settings.catalogs, InProcess(), spec)
    tables = add_twins(product, "prod", f"{mirror.location}/prod")
    mirror.upload()
    product.backup(Scope("prod"))
    report = product.restore(target_catalog="prod", target_database=("back",))
    mirror.download()
    assert differences(tables, report) == []
