"""Repositories whose documents are real and whose tables are none, and a folder to run bcn in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from bcn.cli.main import cli
from bcn.model import PitId, TableId
from bcn.repository import layout
from bcn.repository.document import render_document
from bcn.repository.pit import (
    DeletedObject,
    EntryRef,
    FailedObject,
    Namespace,
    ObjectRecord,
    PitManifest,
    render_pit,
)
from bcn.repository.repository import (
    Repository,
    Scope,
    create_repository,
    open_repository,
    summary_line,
)
from bcn.storage.protocol import StorageSpec

START = datetime(2026, 8, 20, 10, 15, 30, 500_000, tzinfo=UTC)
PITS = tuple(PitId.of(START + timedelta(days=day)) for day in range(3))

_TOML = """
[catalogs.prod]
type = "sql"
uri = "sqlite:///{root}/prod.db"
warehouse = "{root}/warehouse"
[catalogs.dr]
type = "sql"
uri = "sqlite:///{root}/dr.db"
warehouse = "{root}/dr"
[repositories.nightly]
location = "{root}/repository"
[spark]
master = "local[2]"
"""


def record(name: str, status: str = "NEW", **more: Any) -> ObjectRecord:
    values = {"files": 4, "size_bytes": 4096, "snapshots": 2, **more}
    table = TableId.parse(name)
    entry = EntryRef(f"entries/{name}", "0" * 64, 1)
    return ObjectRecord(name, "table", table, status, entry, "/m.json", "1", "0" * 64, **values)


def manifest(
    pit: PitId,
    objects: Sequence[ObjectRecord],
    parent: PitId | None = None,
    **more: Any,
) -> PitManifest:
    namespaces = sorted({item.table.namespace for item in objects})
    return PitManifest(
        pit=pit,
        pit_uuid="8b1f7f5e-0000-4000-8000-000000000000",
        parent=parent,
        captured_at="2026-08-20T10:15:30.500000Z",
        repository={
            "id": "r",
            "granularity": "CATALOG",
            "scope": Scope("prod").document(),
            "features": {"read": [], "write": []},
        },
        consistency={"passes": 2, "window_ms": 1, "exact": True},
        bcn_version="0.1.0",
        objects=tuple(objects),
        namespaces=tuple(Namespace(levels, {}) for levels in namespaces),
        **more,
    )


def three_pits() -> list[PitManifest]:
    """Two tables; then one is gone and one changed; then one is new and one failed."""
    gone = DeletedObject("sales.items", TableId.parse("sales.items"), "2026-08-21", PITS[0])
    failed = FailedObject("hr.people", TableId.parse("hr.people"), "StorageError", "no", PITS[1])
    lost = FailedObject("", TableId.parse("hr.ghosts"), "StorageError", "never read", None)
    return [
        manifest(PITS[0], [record("sales.items"), record("sales.orders", bytes_new=4096)]),
        manifest(
            PITS[1],
            [record("hr.people"), record("sales.orders", "CHANGED", bytes_new=10)],
            PITS[0],
            deleted=(gone,),
            labels={"by": "cron"},
        ),
        manifest(
            PITS[2],
            [record("hr.people", "FAILED"), record("sales.orders", "UNCHANGED", damaged=1)],
            PITS[1],
            deleted=(gone,),
            failed=(failed, lost),
        ),
    ]


def make_repository(location: Path, pits: Sequence[PitManifest] | None = None) -> Repository:
    spec = StorageSpec(str(location))
    repository = create_repository(spec, Scope("prod"), START)
    for pit in three_pits() if pits is None else pits:
        data = render_document(render_pit(pit))
        repository.storage.write_once(repository.pit_key(pit.pit), data)
    return open_repository(spec)


def write_index(repository: Repository, pits: Sequence[PitManifest]) -> None:
    lines = "".join(json.dumps(summary_line(pit)) + "\n" for pit in pits)
    repository.storage.replace(layout.pits_index_key("prod"), lines.encode())


def damage(repository: Repository, pit: PitId) -> Path:
    """Cut a PIT's document in half."""
    path = Path(repository.spec.location, repository.pit_key(pit))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    return path


@dataclass(frozen=True)
class Folder:
    """A folder with settings, in which bcn is run."""

    root: Path

    @property
    def location(self) -> Path:
        return self.root / "repository"

    @property
    def repository(self) -> Repository:
        return open_repository(StorageSpec(str(self.location)))

    def invoke(self, *arguments: str) -> Result:
        """In this process; errors come out as exceptions."""
        return CliRunner().invoke(cli, arguments, catch_exceptions=False)

    def start(self, *arguments: str, **environ: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "bcn", *arguments],
            cwd=self.root,
            env=clean_environment() | environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """In a process of its own, as people do."""
        process = self.start(*arguments, **environ)
        out, err = process.communicate(timeout=300)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def json(self, *arguments: str, **environ: str) -> tuple[int, Any]:
        done = self.run(*arguments, "--json", "--quiet", **environ)
        return done.returncode, json.loads(done.stdout)


def clean_environment() -> Mapping[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith("BCN_")}


def make_folder(root: Path) -> Folder:
    root.mkdir(parents=True, exist_ok=True)
    (root / "bcn.toml").write_text(_TOML.format(root=root))
    return Folder(root)
