"""A repository to repair, and ways to damage it."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bcn.maintenance.repair import RepairReport, RepairRequest, run_repair
from bcn.model import PitId
from bcn.repository.repository import Scope
from bcn.storage.protocol import StorageSpec
from tests.support.command import Desk, open_desk
from tests.support.small import InProcess


def now() -> datetime:
    return datetime.now(UTC)


def backup(desk: Desk, **more: Any) -> PitId:
    return desk.product(InProcess()).backup(**more).pit


def repair(desk: Desk, **more: Any) -> RepairReport:
    return run_repair(RepairRequest(StorageSpec(str(desk.location)), **more), now)


def make_desk(root: Path) -> Desk:
    """Four PITs: a table grows, one is dropped, one comes; a database of its own stays empty."""
    desk = open_desk(root)
    desk.catalog().create_namespace(("empty",), {"owner": "ada"})
    table = desk.add_table("t", snapshots=1)
    desk.add_table("gone", snapshots=1)
    backup(desk, scope=Scope("prod"))
    desk.grow(table)
    backup(desk)
    desk.drop("gone")
    backup(desk)
    desk.add_table("late", snapshots=1)
    backup(desk)
    return desk


def copy_desk(made: Desk, root: Path) -> Desk:
    """A copy of the repository to damage; the source is shared."""
    shutil.copytree(made.location, root / "repository")
    shutil.copyfile(made.root / "prod.db", root / "prod.db")
    return open_desk(root)


def derived(desk: Desk) -> list[Path]:
    """Every derived file, and manifest.json."""
    names = [*desk.location.glob("catalogs/**/*.json*"), desk.location / "manifest.json"]
    kept = ("pit_manifests", "entries")
    return sorted(path for path in names if path.parent.name not in kept and not _is_pit(path))


def _is_pit(path: Path) -> bool:
    return path.parent.parent.name == "pit_manifests"


def contents(desk: Desk) -> dict[str, bytes]:
    """All files but those that a lease leaves."""
    files = (path for path in desk.location.rglob("*") if path.is_file())
    named = {str(path.relative_to(desk.location)): path.read_bytes() for path in files}
    return {key: data for key, data in named.items() if not key.startswith("leases/")}


def pit_path(desk: Desk, number: int) -> Path:
    pits = sorted(desk.location.glob("catalogs/prod/pit_manifests/*/manifest.json"))
    return pits[number]


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
