"""Hosts of one's own: a network namespace and a name each, joined to this machine by a wire."""

from __future__ import annotations

import secrets
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Host:
    """What a command is put behind to run there, and where that host finds this machine."""

    name: str
    command: tuple[str, ...]
    gateway: str


@contextmanager
def open_hosts(count: int) -> Iterator[list[Host]]:
    """Hosts that see nothing but this machine; gone with the block. Needs root."""
    token = secrets.token_hex(3)
    with ExitStack() as stack:
        yield [stack.enter_context(_open_host(f"bcn{token}{n}", n)) for n in range(count)]


@contextmanager
def _open_host(name: str, number: int) -> Iterator[Host]:
    # Addresses for benchmarks between networks: nobody has them in use.
    net = f"198.18.{secrets.randbelow(256)}.{4 * number}".rpartition(".")
    here, there = (f"{net[0]}.{int(net[2]) + step}" for step in (1, 2))
    _ip("netns", "add", name)
    try:
        _ip("link", "add", f"{name}a", "type", "veth", "peer", "name", f"{name}b", "netns", name)
        _ip("addr", "add", f"{here}/30", "dev", f"{name}a")
        _ip("link", "set", f"{name}a", "up")
        _ip("-n", name, "addr", "add", f"{there}/30", "dev", f"{name}b")
        _ip("-n", name, "link", "set", f"{name}b", "up")
        _ip("-n", name, "link", "set", "lo", "up")
        inside = ("unshare", "--uts", "sh", "-c", f'hostname {name}; exec "$@"', "sh")
        yield Host(name, ("ip", "netns", "exec", name, *inside), here)
    finally:
        _ip("netns", "delete", name)  # its end of the wire goes with it, and so does ours


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr}"
