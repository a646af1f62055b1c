"""Servers start, answer, are told from others of the same process id, and end."""

from __future__ import annotations

import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bcn.errors import Interrupted, ServerError
from bcn.stack.process import Server, accepts, free_port, heard, start_server


def test_a_server_answers_until_it_is_stopped(tmp_path: Path) -> None:
    port = free_port()
    command = [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1"]
    server = start_server("web", command, port, tmp_path)
    assert server.is_alive()
    assert accepts(port)
    assert not replace(server, born="1").is_alive(), "a later process of the same id is another"
    server.stop()
    assert not server.is_alive()
    assert not accepts(port)
    server.stop()


def test_a_server_that_ends_at_once_says_its_last_words(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "raise SystemExit('no such disk')"]
    with pytest.raises(ServerError, match="web did not start: no such disk"):
        start_server("web", command, free_port(), tmp_path)


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ServerError, match=r"cannot start web: .*: /no/such/program"):
        start_server("web", ["/no/such/program"], free_port(), tmp_path)


def test_who_is_stopped_while_waiting_leaves_no_server_behind(tmp_path: Path) -> None:
    def stop() -> bool:
        raise Interrupted(130)

    started: list[Server] = []
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    with heard(started.append), pytest.raises(Interrupted):
        start_server("idle", command, free_port(), tmp_path, is_ready=stop)
    assert len(started) == 1
    assert not started[0].is_alive()


def test_a_signal_at_the_moment_of_the_start_is_heard_after_it_was_noted(tmp_path: Path) -> None:
    started: list[Server] = []
    handler = signal.getsignal(signal.SIGINT)

    def interrupt(server: Server) -> None:
        signal.raise_signal(signal.SIGINT)
        started.append(server)

    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    with heard(interrupt), pytest.raises(KeyboardInterrupt):
        start_server("idle", command, free_port(), tmp_path)
    assert len(started) == 1
    assert not started[0].is_alive()
    assert signal.getsignal(signal.SIGINT) is handler


def test_of_a_stack_trace_the_reasons_are_told(tmp_path: Path) -> None:
    lines = ["Exception: no", "\tat a.b(C.java:1)", "Caused by: disk", "\t... 3 more"]
    command = [sys.executable, "-c", f"raise SystemExit({chr(10).join(lines)!r})"]
    with pytest.raises(ServerError, match=r"did not start: Exception: no / Caused by: disk$"):
        start_server("web", command, free_port(), tmp_path)
