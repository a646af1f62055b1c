"""Servers start, answer, are told from others of the same process id, and end."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bcn.errors import ServerError
from bcn.stack.process import accepts, free_port, start_server


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
