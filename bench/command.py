"""The `bcn` command with settings of its own, as a user would start it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from bench.table import CATALOG, BenchTable

BCN = Path(sys.executable).parent / "bcn"

_SETTINGS = """\
[catalogs.{catalog}]
type = "hadoop"
warehouse = "{warehouse}"
[repositories.bench]
location = "{repository}"
"""


def write_settings(folder: Path, table: BenchTable) -> Path:
    """A settings file for backups of the table into a repository in the folder."""
    settings = folder / "bcn.toml"
    text = _SETTINGS.format(
        catalog=CATALOG, warehouse=table.warehouse, repository=folder / "repository"
    )
    settings.write_text(text)
    return settings


def bcn(settings: Path, command: str, *options: str) -> list[str]:
    """The words of a command line."""
    return [str(BCN), command, "--config", str(settings), "--repo", "bench", *options]


def start_backup(settings: Path) -> subprocess.Popen[str]:
    """A backup of the catalog in a process of its own; its report comes as JSON on stdout."""
    return subprocess.Popen(
        bcn(settings, "backup", "--catalog", CATALOG, "--json", "--quiet"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
