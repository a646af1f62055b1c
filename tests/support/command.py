"""bcn as its users run it: a folder with settings and tables, and the command as a process."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from bcn.catalog.sql import SqlCatalog
from bcn.model import TableId
from bcn.repository.repository import Repository, open_repository
from bcn.storage.protocol import StorageSpec
from tests.support.compare import Difference, compare_tables
from tests.support.product import Product, digest_tree, sql_settings
from tests.support.shapes import synthetic
from tests.support.shapes.synthetic import SyntheticTable, write_synthetic

_TOML = """
[catalogs.prod]
type = "sql"
uri = "sqlite:///{root}/prod.db"
warehouse = "{root}/warehouse"
[catalogs.dr]
type = "sql"
uri = "sqlite:///{root}/dr.db"
warehouse = "{target}"
[repositories.nightly]
location = "{repository}"
[spark]
master = "local[2]"
"spark.driver.extraJavaOptions" = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""

_RUN = "\nfrom bcn.cli.main import main\nmain()\n"


@dataclass(frozen=True)
class Answer:
    """What a command left behind: exit code, its one JSON object, and what people were told."""

    code: int
    report: Any
    stderr: str
    seconds: float = 0.0

    @property
    def error(self) -> str | None:
        return self.report["error"]["class"] if "error" in (self.report or {}) else None

    @property
    def hint(self) -> str:
        return str(self.report["error"]["hint"])

    @property
    def message(self) -> str:
        return str(self.report["error"]["message"])


@dataclass(frozen=True)
class Source:
    """A table of the source: real metadata, data files of random bytes, one append a snapshot."""

    shape: SyntheticTable
    name: str
    file_bytes: int

    @property
    def root(self) -> Path:
        return Path(self.shape.root)

    def data_file(self, number: int) -> Path:
        return Path(self.shape.data_location(number))

    def write(self) -> None:
        """Write what is not there yet; a table that grew keeps its earlier files."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(synthetic, "_DATA_BYTES", self.file_bytes)
            location = Path(write_synthetic(self.shape))
        document = json.loads(location.read_text())
        document["table-uuid"] = str(uuid.uuid5(uuid.NAMESPACE_URL, self.name))
        location.write_text(json.dumps(document))
        for number in range(self.shape.entries):
            path = self.data_file(number)
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(random.Random(f"{self.name}{number}").randbytes(self.file_bytes))


@dataclass(frozen=True)
class Desk:
    """A folder with settings, a source catalog, a repository and a catalog to restore into."""

    root: Path
    location: Path
    target: Path

    @property
    def repository(self) -> Repository:
        return open_repository(StorageSpec(str(self.location)))

    def pits(self) -> list[str]:
        """The PITs there are, without abandoned ones."""
        repository = self.repository
        return [str(pit) for pit in repository.pit_ids() if repository.find_pit(pit)]

    def catalog(self, name: str = "prod") -> SqlCatalog:
        warehouse = self.target if name == "dr" else self.root / "warehouse"
        return SqlCatalog(sql_settings(name, self.root / f"{name}.db", warehouse))

    def product(self, engine: Any) -> Product:
        """The same place for work in this process."""
        catalogs = {
            "prod": sql_settings("prod", self.root / "prod.db", self.root / "warehouse"),
            "dr": sql_settings("dr", self.root / "dr.db", self.target),
        }
        return Product(self.location, catalogs, engine)

    # the source

    def add_table(
        self, name: str = "t", *, snapshots: int = 2, files: int = 2, file_bytes: int = 20_000
    ) -> Source:
        """A new table `shop.<name>` of so many snapshots, each of so many files."""
        shape = SyntheticTable(
            str(self.root / "warehouse/shop" / name),
            snapshots=snapshots,
            manifests=snapshots,
            entries=snapshots * files,
        )
        table = Source(shape, name, file_bytes)
        table.write()
        catalog = self.catalog()
        catalog.create_namespace(("shop",), {})
        catalog.register(TableId(("shop",), name), shape.metadata_location)
        return table

    def grow(self, table: Source, *, snapshots: int = 1) -> Source:
        """Append: more snapshots of the same kind."""
        files = table.shape.entries // table.shape.snapshots
        count = table.shape.snapshots + snapshots
        shape = replace(table.shape, snapshots=count, manifests=count, entries=count * files)
        grown = replace(table, shape=shape)
        grown.write()
        change = "UPDATE iceberg_tables SET metadata_location = ? WHERE table_name = ?"
        self._change(change, (shape.metadata_location, table.name))
        return grown

    def add_view(self, name: str, path: Path, document: Any) -> None:
        """A view `shop.<name>` with this metadata document."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document))
        insert = "INSERT INTO iceberg_tables VALUES ('prod', 'shop', ?, ?, NULL, 'VIEW')"
        self._change(insert, (name, str(path)))

    def drop(self, *names: str) -> None:
        for name in names:
            self._change("DELETE FROM iceberg_tables WHERE table_name = ?", (name,))

    def _change(self, statement: str, values: tuple[str, ...]) -> None:
        with closing(sqlite3.connect(self.root / "prod.db")) as database, database:
            database.execute(statement, values)

    # the command

    def start(
        self,
        *arguments: str,
        hook: str | None = None,
        behind: Sequence[str] = (),
        **environ: str,
    ) -> subprocess.Popen[str]:
        """Run bcn in a session of its own, behind another command if need be.

        A hook is Python that the process runs first.
        """
        line = ["-m", "bcn"] if hook is None else ["-c", hook + _RUN]
        clean = {key: value for key, value in os.environ.items() if not key.startswith("BCN_")}
        return subprocess.Popen(
            [*behind, sys.executable, *line, *arguments, "--json", "--quiet"],
            cwd=self.root,
            env=clean | environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *arguments: str, hook: str | None = None, **environ: str) -> Answer:
        return answer_of(self.start(*arguments, hook=hook, **environ))

    def kept(self) -> dict[str, tuple[int, int]]:
        """What a failed command must leave as it was: repository without notes, and source."""
        stored = digest_tree(self.location) if self.location.exists() else {}
        working = ("leases/", ".in_progress", "jobs/", "verifications/")
        kept = {name: value for name, value in stored.items() if not name.startswith(working)}
        kept |= digest_tree(self.root / "warehouse")
        return kept | {"prod.db": _stamp(self.root / "prod.db")}

    def differences(self, table: Source, restored: str, target: Path) -> list[Difference]:
        """What is wrong with a restored table, by the rules G2 to G5."""
        return compare_tables(
            table.shape.metadata_location, restored, [(table.shape.root, str(target))]
        )


def _stamp(path: Path) -> tuple[int, int]:
    return (path.stat().st_size, path.stat().st_mtime_ns) if path.exists() else (0, 0)


def open_desk(root: Path, *, location: Path | None = None, target: Path | None = None) -> Desk:
    """A desk in a folder; the repository and the target may be elsewhere."""
    root.mkdir(parents=True, exist_ok=True)
    desk = Desk(root, location or root / "repository", target or root / "target")
    text = _TOML.format(root=root, repository=desk.location, target=desk.target)
    (root / "bcn.toml").write_text(text)
    return desk


def answer_of(process: subprocess.Popen[str], timeout: float = 120) -> Answer:
    """Wait for a command that was started."""
    started = time.monotonic()
    out, err = process.communicate(timeout=timeout)
    report = json.loads(out) if out.strip() else None
    return Answer(process.returncode, report, err, time.monotonic() - started)


# processes


def session_members(leader: int) -> dict[int, str]:
    """Processes of a session that are alive: pid and command line."""
    found = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            fields = (folder / "stat").read_text(errors="replace").rsplit(")", 1)[1].split()
            line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # it ended meanwhile
        if int(fields[3]) == leader and fields[0] not in {"Z", "X"}:
            found[int(folder.name)] = line[:120]
    return found


def wait_for_end(leader: int, seconds: float = 15) -> dict[int, str]:
    """Whoever is left of a session after so many seconds; nobody, as a rule."""
    end = time.monotonic() + seconds
    while (left := session_members(leader)) and time.monotonic() < end:
        time.sleep(0.1)
    return left


def wait_until(
    condition: Callable[[], bool], process: subprocess.Popen[str], seconds: float = 90
) -> None:
    """Return when the condition holds. Fails if the process ends before, or it takes too long."""
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, f"it ended too early: {answer_of(process)}"
        assert time.monotonic() < end, "what was waited for did not happen"
        time.sleep(0.02)


def stored_bytes(folder: Path) -> int:
    """Bytes of all files in a folder that may change meanwhile."""
    total = 0
    for path in folder.rglob("*") if folder.exists() else ():
        try:
            total += path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:
            continue
    return total


def kill_session(leader: int) -> None:
    """End every process of a session that this test began."""
    for pid in session_members(leader):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


@contextmanager
def started(processes: Iterable[subprocess.Popen[str]]) -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that are ended, with all they began, whatever becomes of the test."""
    found = list(processes)
    try:
        yield found
    finally:
        for process in found:
            kill_session(process.pid)
            process.communicate()


# disks


class SmallDisk:
    """A file system of its own, of a size, that can be made larger or read-only."""

    def __init__(self, folder: Path, size_bytes: int) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        _mount("-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", str(folder))

    def resize(self, size_bytes: int) -> None:
        _mount("-o", f"remount,rw,size={size_bytes}", str(self.folder))

    def make_read_only(self) -> None:
        _mount("-o", "remount,ro", str(self.folder))

    def close(self) -> None:
        subprocess.run(["umount", "--lazy", str(self.folder)], check=True)


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


@contextmanager
def small_disk(folder: Path, size_bytes: int) -> Iterator[SmallDisk]:
    disk = SmallDisk(folder, size_bytes)
    try:
        yield disk
    finally:
        disk.close()
