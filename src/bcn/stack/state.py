"""What is known of a stack: its folder's `stack.json`, and the lock that one command at a time has.

A process is ours if this boot of the machine has one of the noted id that began when noted.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from bcn.errors import ReadOnlyStorageError, ServerError, StackBusyError
from bcn.stack.kit import Ports, StackKind
from bcn.stack.process import Server

STATE_FILE, LOCK_FILE = "stack.json", "lock"
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Stack:
    """A stack as its folder knows it; of its servers some may have ended."""

    kind: StackKind
    store: str  # minio, seaweed: the other could not read its files
    ports: Ports
    servers: tuple[Server, ...] = ()

    def find(self, name: str) -> Server | None:
        """The server of that name if it runs."""
        return next((s for s in self.servers if s.name == name and s.is_alive()), None)

    def with_server(self, server: Server) -> Stack:
        """One more, or another in place of one that ended."""
        others = (one for one in self.servers if one.name != server.name)
        return replace(self, servers=(*others, server))


def load_stack(folder: Path) -> Stack | None:
    """The folder's stack, None if it has none. Raises ServerError."""
    path = folder / STATE_FILE
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        is_this_boot = document["boot"] == _boot()
        return Stack(
            StackKind(document["kind"]),
            document["store"],
            Ports(**document["ports"]),
            tuple(Server(**item) for item in document["servers"]) if is_this_boot else (),
        )
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ServerError(
            f"cannot read {path}: {type(error).__name__}",
            hint="it says which processes belong to the stack: use another --folder",
        ) from None


def save_stack(folder: Path, stack: Stack) -> None:
    """Whole or not at all."""
    document = {
        "version": _VERSION,
        "kind": stack.kind.value,
        "store": stack.store,
        "ports": asdict(stack.ports),
        "boot": _boot(),
        "servers": [asdict(server) for server in stack.servers],
    }
    write_private(folder / STATE_FILE, json.dumps(document, indent=2) + "\n")


def write_private(path: Path, text: str) -> None:
    """A file for its owner's eyes, in place of an older one. Raises ReadOnlyStorageError."""
    new = path.with_name(f".{path.name}.new")
    try:
        new.unlink(missing_ok=True)
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        new.replace(path)
    except OSError as error:
        raise unwritable(path.parent, error) from None


def unwritable(folder: Path, error: OSError) -> ReadOnlyStorageError:
    """What to say of a folder that takes no files."""
    reason = (error.strerror or str(error)).lower()
    return ReadOnlyStorageError(
        f"cannot write to {folder}: {reason}", hint="choose another folder with --folder"
    )


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One command at a time in a folder. Raises StackBusyError."""
    try:
        descriptor = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise unwritable(folder, error) from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StackBusyError(f"another bcn works on the stack in {folder}") from None
        yield
    finally:
        os.close(descriptor)


def _boot() -> str:
    with suppress(OSError):
        return _BOOT.read_text().strip()
    raise ServerError(
        "this machine does not tell processes apart: there is no /proc",
        hint="stacks run on Linux; elsewhere use compose.yaml, see docs/stacks.md",
    )
