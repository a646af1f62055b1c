"""A repository with files that nobody needs, ways to make them, and proof that all is whole."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from bcn.maintenance.prune import PruneRequest, run_prune
from bcn.maintenance.prune_report import PruneReport
from bcn.maintenance.turn import TurnSettings
from bcn.maintenance.verify import VerifyRequest, run_verify
from bcn.model import PitId
from bcn.repository.lease import LeaseSettings
from bcn.repository.repository import Scope
from bcn.restore.plan import RestoreRequest
from bcn.restore.run import run_restore
from bcn.storage.protocol import StorageSpec
from tests.support.command import Desk, open_desk
from tests.support.small import InProcess

DAY = timedelta(days=1)
AT_ONCE = timedelta()
SHORT = TurnSettings(5, LeaseSettings(ttl_seconds=0.02))


def now() -> datetime:
    return datetime.now(UTC)


def backup(desk: Desk, **more: Any) -> PitId:
    return desk.product(InProcess()).backup(**more).pit


def prune(desk: Desk, at: datetime | None = None, **more: Any) -> PruneReport:
    return run_prune(PruneRequest(StorageSpec(str(desk.location)), **more), lambda: at or now())


def kinds(report: PruneReport) -> dict[str, int]:
    return {kind: amount.files for kind, amount in report.kinds()}


def make_desk(root: Path) -> Desk:
    """Three PITs: a table grows, and another one is dropped before the third."""
    made = open_desk(root)
    table = made.add_table("t", snapshots=1)
    made.add_table("gone", snapshots=1)
    backup(made, scope=Scope("prod"))
    made.grow(table)
    backup(made)
    made.drop("gone")
    backup(made)
    return made


def remove_pit(desk: Desk, number: int) -> None:
    pits = sorted(desk.location.glob("catalogs/prod/pit_manifests/*"))
    shutil.rmtree(pits[number])


def pit_path(desk: Desk, number: int) -> Path:
    return sorted(desk.location.glob("catalogs/prod/pit_manifests/*/manifest.json"))[number]


def files(desk: Desk) -> dict[str, bytes]:
    """All files but leases."""
    found = (path for path in desk.location.rglob("*") if path.is_file())
    named = {str(path.relative_to(desk.location)): path.read_bytes() for path in found}
    return {key: data for key, data in named.items() if not key.startswith("leases/")}


def check_whole(desk: Desk) -> None:
    """Every byte of every PIT is there, and every PIT can be restored."""
    request = VerifyRequest(StorageSpec(str(desk.location)), level=4)
    report = run_verify(request, InProcess(), now)
    assert [item for item in report.findings if item.severity == "error"] == []
    product = desk.product(InProcess())
    for number, pit in enumerate(desk.pits()):
        shutil.rmtree(desk.target, ignore_errors=True)
        (desk.root / "dr.db").unlink(missing_ok=True)
        restored = run_restore(
            RestoreRequest(product.spec, PitId(pit), target_catalog="dr"),
            product.open,
            product.engine,
        )
        assert restored.tables, number


def orphan(desk: Desk, name: str = "stray", size: int = 5) -> Path:
    path = desk.location / f"data/x/r0/{name}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    return path


def lists(desk: Desk) -> list[Path]:
    return sorted(desk.location.glob("trash/*.json"))
