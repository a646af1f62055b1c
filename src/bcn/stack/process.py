"""Starting a server, waiting until it answers, and ending it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bcn.errors import ServerError

_HOST = "127.0.0.1"
_START_SECONDS = 90.0
_STOP_SECONDS = 10.0
_LOG_LINES = 5

_children: dict[int, subprocess.Popen[bytes]] = {}  # a Popen that is let go complains


@dataclass(frozen=True, slots=True)
class Server:
    """A running process. `born` tells it from a later one that got the same process id."""

    name: str
    pid: int
    born: str
    port: int
    folder: str

    @property
    def address(self) -> str:
        """Host and port."""
        return f"{_HOST}:{self.port}"

    def is_alive(self) -> bool:
        """Whether it still runs."""
        return _birth(self.pid) == self.born

    def stop(self) -> None:
        """End it, gently at first; nothing happens if it is gone."""
        for sign in (signal.SIGTERM, signal.SIGKILL):
            if not self.is_alive():
                return
            with suppress(ProcessLookupError):
                os.kill(self.pid, sign)
            _wait(lambda: not self.is_alive(), _STOP_SECONDS)


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        return int(probe.getsockname()[1])


def accepts(port: int) -> bool:
    """Whether anybody listens on a port."""
    with suppress(OSError), socket.create_connection((_HOST, port), timeout=1):
        return True
    return False


def start_server(
    name: str,
    command: Sequence[str],
    port: int,
    folder: Path,
    *,
    environ: Mapping[str, str] | None = None,
    is_ready: Callable[[], bool] | None = None,
) -> Server:
    """Start a command, its output in `<name>.log`; wait until it answers. Raises ServerError."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / f"{name}.log"
    with log.open("ab") as output:
        try:
            process = subprocess.Popen(  # noqa: S603  a command of ours
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=folder,
                env={**os.environ, **(environ or {})},
                start_new_session=True,
            )
        except OSError as error:
            raise ServerError(f"cannot start {name}: {error.strerror}: {command[0]}") from None
    _children[process.pid] = process
    server = Server(name, process.pid, _birth(process.pid), port, str(folder))
    ready = is_ready or (lambda: accepts(port))
    _wait(lambda: process.poll() is not None or ready(), _START_SECONDS)
    if process.poll() is not None or not ready():
        server.stop()
        last = " / ".join(log.read_text(errors="replace").splitlines()[-_LOG_LINES:])
        raise ServerError(f"{name} did not start: {last}", hint=f"see {log}")
    return server


def _wait(is_done: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not is_done() and time.monotonic() < deadline:
        time.sleep(0.05)


def _birth(pid: int) -> str:
    """When a process began, in the kernel's ticks; empty if it is gone or waits to be reaped."""
    if pid in _children:
        _children[pid].poll()
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]
