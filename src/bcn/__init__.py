"""Backup and restore for Apache Iceberg tables, databases and catalogs.

`bcn.api` has the functions (`bcn.api.backup`, `bcn.api.restore`, …); this module has the types that
they take and give. All are imported when first used, so that `import bcn` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bcn import api as api
    from bcn import errors as errors
    from bcn.api import InitReport as InitReport
    from bcn.backup.report import BackupReport as BackupReport
    from bcn.changes.diff import DiffReport as DiffReport
    from bcn.changes.log import LogReport as LogReport
    from bcn.config.check_report import CheckReport as CheckReport
    from bcn.config.load import load_settings as load_settings
    from bcn.config.settings import Settings as Settings
    from bcn.config.spark import SparkReport as SparkReport
    from bcn.errors import BcnError as BcnError
    from bcn.maintenance.prune_report import PruneReport as PruneReport
    from bcn.maintenance.repair import RepairReport as RepairReport
    from bcn.maintenance.report import VerifyReport as VerifyReport
    from bcn.model import PitId as PitId
    from bcn.model import TableId as TableId
    from bcn.repository.listing import DescribeReport as DescribeReport
    from bcn.repository.listing import ListReport as ListReport
    from bcn.repository.listing import ObjectsReport as ObjectsReport
    from bcn.repository.unlock import UnlockReport as UnlockReport
    from bcn.restore.plan import UuidPolicy as UuidPolicy
    from bcn.restore.report import RestoreReport as RestoreReport
    from bcn.stack.down import DownReport as DownReport
    from bcn.stack.up import UpReport as UpReport
    from bcn.telemetry.progress import Progress as Progress

from bcn.version import VERSION

__version__ = VERSION

__all__ = [
    "BackupReport",
    "BcnError",
    "CheckReport",
    "DescribeReport",
    "DiffReport",
    "DownReport",
    "InitReport",
    "ListReport",
    "LogReport",
    "ObjectsReport",
    "PitId",
    "Progress",
    "PruneReport",
    "RepairReport",
    "RestoreReport",
    "Settings",
    "SparkReport",
    "TableId",
    "UnlockReport",
    "UpReport",
    "UuidPolicy",
    "VerifyReport",
    "__version__",
    "api",
    "errors",
    "load_settings",
]

_HOMES = {
    "BackupReport": "bcn.backup.report",
    "BcnError": "bcn.errors",
    "CheckReport": "bcn.config.check_report",
    "DescribeReport": "bcn.repository.listing",
    "DiffReport": "bcn.changes.diff",
    "DownReport": "bcn.stack.down",
    "InitReport": "bcn.api",
    "ListReport": "bcn.repository.listing",
    "LogReport": "bcn.changes.log",
    "ObjectsReport": "bcn.repository.listing",
    "PitId": "bcn.model",
    "Progress": "bcn.telemetry.progress",
    "PruneReport": "bcn.maintenance.prune_report",
    "RepairReport": "bcn.maintenance.repair",
    "RestoreReport": "bcn.restore.report",
    "Settings": "bcn.config.settings",
    "SparkReport": "bcn.config.spark",
    "TableId": "bcn.model",
    "UnlockReport": "bcn.repository.unlock",
    "UpReport": "bcn.stack.up",
    "UuidPolicy": "bcn.restore.plan",
    "VerifyReport": "bcn.maintenance.report",
    "load_settings": "bcn.config.load",
}


def __getattr__(name: str) -> Any:
    """A public name, from where it lives (PEP 562)."""
    if name in {"api", "errors"}:
        return import_module(f"bcn.{name}")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'bcn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
