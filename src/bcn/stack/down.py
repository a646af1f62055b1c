"""Ending a stack, and on demand removing all that it made."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from bcn.errors import RefusedError
from bcn.model import Json
from bcn.stack.kit import CONFIG_FILE, SECOND_FOLDER, VARIABLES_FILE, StackKind
from bcn.stack.state import LOCK_FILE, STATE_FILE, load_stack, locked, save_stack, unwritable
from bcn.stack.store import MINIO, SEAWEED
from bcn.telemetry.progress import Progress

_FOLDERS = (MINIO, SEAWEED, *(kind.value for kind in StackKind), SECOND_FOLDER)
_FILES = (CONFIG_FILE, VARIABLES_FILE, LOCK_FILE, STATE_FILE)


@dataclass(frozen=True, slots=True)
class DownReport:
    """Which servers were ended; those that had ended before are not named."""

    folder: Path
    stopped: tuple[str, ...] = ()
    is_deleted: bool = False

    def as_json(self) -> Json:
        """The documented object, docs/json-output.md."""
        return {
            "folder": str(self.folder),
            "stopped": list(self.stopped),
            "deleted": self.is_deleted,
        }


def run_down(folder: Path, progress: Progress, *, with_data: bool) -> DownReport:
    """End the servers of a folder's stack, the object store last. Nothing running is fine."""
    folder = folder.absolute()
    if load_stack(folder) is None:
        if with_data and folder.exists():
            raise RefusedError(
                f"{folder} has no stack: nothing in it was deleted", hint="check --folder"
            )
        return DownReport(folder)
    with locked(folder):
        stopped = _stop(folder, progress)
        if with_data:
            progress.phase("data are deleted")
            _delete(folder)
        return DownReport(folder, stopped, with_data)


def _stop(folder: Path, progress: Progress) -> tuple[str, ...]:
    stack = load_stack(folder)
    if stack is None:  # deleted while the lock was waited for
        return ()
    running = [server for server in stack.servers if server.is_alive()]
    running.sort(key=lambda server: server.name == stack.store)
    for server in running:
        progress.phase(f"{server.name} ends")
        server.stop()
    save_stack(folder, replace(stack, servers=()))
    return tuple(server.name for server in running)


def _delete(folder: Path) -> None:
    """What a stack makes, by name; the note of the stack last, so that it can be tried again."""
    try:
        for name in _FOLDERS:
            if (folder / name).is_dir():
                shutil.rmtree(folder / name)
        for name in _FILES:
            (folder / name).unlink(missing_ok=True)
        if not any(folder.iterdir()):
            folder.rmdir()
    except OSError as error:
        raise unwritable(folder, error) from None
