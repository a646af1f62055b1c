"""Servers to try things out with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bcn.errors import UsageError
from bcn.telemetry.progress import Progress, Silent

if TYPE_CHECKING:
    from bcn.stack.down import DownReport
    from bcn.stack.up import UpReport

# ruff: noqa: PLC0415  what a function needs is imported when it is called, see the package

STACK_FOLDER = "bcn-stack"


def up(
    kind: str | None = None,
    *,
    folder: str | Path = STACK_FOLDER,
    port_base: int | None = None,
    progress: Progress | None = None,
) -> UpReport:
    """Start an object store and a catalog, `hive` or `rest`, with their data in a folder.

    What runs already is left alone; what has ended is started again on its data.
    """
    from bcn.stack.kit import StackKind
    from bcn.stack.up import run_up

    try:
        chosen = None if kind is None else StackKind(kind)
    except ValueError:
        raise UsageError(f"no stack {kind!r}", hint="give hive or rest") from None
    if port_base is not None and not 0 < port_base < 65535:
        raise UsageError(f"{port_base} is no port", hint="give one from 1 to 65534")
    return run_up(Path(folder), chosen, port_base, progress or Silent())


def down(
    *,
    folder: str | Path = STACK_FOLDER,
    delete_data: bool = False,
    progress: Progress | None = None,
) -> DownReport:
    """End the servers of a folder, and no other process; nothing running is fine."""
    from bcn.stack.down import run_down

    return run_down(Path(folder), progress or Silent(), with_data=delete_data)
