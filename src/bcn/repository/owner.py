"""Who writes: a process, told from others of its name, and whether it still runs."""

from __future__ import annotations

import getpass
import os
import socket
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Owner:
    """A process, named so that another one on the same machine can tell whether it still runs."""

    host: str
    pid: int
    process_start: str
    boot_id: str
    pid_namespace: str
    user: str

    def __str__(self) -> str:
        return f"{self.user}@{self.host} (process {self.pid})"


def this_process() -> Owner:
    """The owner that leases of this process name."""
    pid = os.getpid()
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return Owner(
        socket.gethostname(), pid, process_start(pid) or "", _boot_id(), _pid_namespace(), user
    )


def process_start(pid: int) -> str | None:
    """When the process began, in the kernel's ticks; None if there is no such process."""
    state, start = process_state(pid)
    return None if state in {"Z", "X"} else start


def process_state(pid: int) -> tuple[str, str | None]:
    """The kernel's letter for what a process does, and when it began; X and None without one."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "X", None
    state, *fields = text.rsplit(")", 1)[1].split()
    return state, fields[18]


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _pid_namespace() -> str:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def is_proven_dead(owner: Owner, me: Owner) -> bool:
    """Whether the owner ran on this very machine and namespace and is gone."""
    if not owner.boot_id or (owner.boot_id, owner.pid_namespace) != (me.boot_id, me.pid_namespace):
        return False
    return process_start(owner.pid) != owner.process_start


def is_proven_running(owner: Owner, me: Owner) -> bool:
    """Whether the owner is a process of this very machine and namespace, and not a stopped one."""
    if not owner.boot_id or (owner.boot_id, owner.pid_namespace) != (me.boot_id, me.pid_namespace):
        return False
    state, start = process_state(owner.pid)
    return start == owner.process_start and state in {"R", "S", "D", "I"}
