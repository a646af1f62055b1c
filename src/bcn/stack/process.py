"""Starting a server, waiting until it answers, and ending it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from bcn.errors import ServerError

_HOST = "127.0.0.1"
_START_SECONDS = 90.0
_STOP_SECONDS = 10.0
_LOG_LINES = 3

_listeners: list[Callable[[Server], None]] = []
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
        return bool(self.born) and _birth(self.pid) == self.born

    def stop(self) -> None:
        """End it, gently at first; nothing happens if it is gone."""
        for sign in (signal.SIGTERM, signal.SIGKILL):
            if not self.is_alive():
                return
            with suppress(ProcessLookupError):
                os.kill(self.pid, sign)
            wait_until(lambda: not self.is_alive(), _STOP_SECONDS)


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        return int(probe.getsockname()[1])


def is_free(port: int) -> bool:
    """Whether a server could listen on a port, on all interfaces."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do
        with suppress(OSError):
            probe.bind(("", port))
            return True
    return False


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
    """Start a command, its output in `<name>.log`; wait until it answers. Raises ServerError.

    Who is stopped while it waits leaves no server behind.
    """
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / f"{name}.log"
    ready = is_ready or (lambda: accepts(port))
    started: list[Server] = []
    try:
        with _signals_held():
            server = _spawn(name, command, port, folder, environ or {})
            started.append(server)
            for hear in _listeners:
                hear(server)
        wait_until(lambda: not server.is_alive() or ready())
        is_up = server.is_alive() and ready()
    except BaseException:
        for one in started:
            one.stop()
        raise
    if is_up:
        return server
    server.stop()
    raise ServerError(f"{name} did not start: {_last_words(log)}", hint=f"see {log}")


def _last_words(log: Path) -> str:
    """The last lines of a log that say something: of Java's stack traces only the reasons."""
    lines = (line.strip() for line in log.read_text(errors="replace").splitlines())
    words = [line for line in lines if line and not line.startswith(("at ", "... "))]
    return " / ".join(words[-_LOG_LINES:])


@contextmanager
def heard(listener: Callable[[Server], None]) -> Iterator[None]:
    """Have a function told of every server that is started inside, before it is waited for."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def _spawn(
    name: str, command: Sequence[str], port: int, folder: Path, environ: Mapping[str, str]
) -> Server:
    with (folder / f"{name}.log").open("ab") as output:
        try:
            process = subprocess.Popen(  # noqa: S603  a command of ours
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=folder,
                env={**os.environ, **environ},
                start_new_session=True,
            )
        except OSError as error:
            raise ServerError(f"cannot start {name}: {error.strerror}: {command[0]}") from None
    _children[process.pid] = process
    return Server(name, process.pid, _birth(process.pid), port, str(folder))


@contextmanager
def _signals_held() -> Iterator[None]:
    """Between a start and the note of it no signal is heard; it is raised again afterwards."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    seen: list[int] = []
    signs = (signal.SIGINT, signal.SIGTERM)
    before = {sign: signal.signal(sign, lambda sign, _frame: seen.append(sign)) for sign in signs}
    try:
        yield
    finally:
        for sign, handler in before.items():
            signal.signal(sign, handler)
        for number in seen[:1]:
            signal.raise_signal(number)


def wait_until(is_done: Callable[[], bool], seconds: float = _START_SECONDS) -> bool:
    """Whether something came true within so many seconds."""
    deadline = time.monotonic() + seconds
    while not (done := is_done()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return done


def _birth(pid: int) -> str:
    """When a process began, in the kernel's ticks; empty if it is gone or waits to be reaped."""
    if pid in _children:
        _children[pid].poll()
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    is_gone = fields[0] == "Z" and int(fields[17]) <= 1  # the first of several threads ends early
    return "" if is_gone else fields[19]
