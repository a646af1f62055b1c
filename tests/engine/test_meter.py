"""Counts that tasks send to the driver while they run."""

from __future__ import annotations

import json
import socket
import time

from bcn.engine.meter import Meter, MeterAddress, listen


class Recorder:
    def __init__(self) -> None:
        self.updates: list[tuple[int, int]] = []

    def phase(self, name: str, files: int | None = None, size_bytes: int | None = None) -> None:
        """Not asked for here."""

    def update(self, files: int, size_bytes: int) -> None:
        self.updates.append((files, size_bytes))

    def message(self, text: str) -> None:
        """Not asked for here."""

    def wait_for(self, update: tuple[int, int]) -> bool:
        deadline = time.monotonic() + 5
        while update not in self.updates and time.monotonic() < deadline:
            time.sleep(0.01)
        return update in self.updates


def _send(address: MeterAddress, data: bytes) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(data, (address.host, address.port))


def test_counts_of_all_tasks_are_added_up() -> None:
    recorder = Recorder()
    with listen("127.0.0.1", recorder) as address:
        first, second = Meter(address, 1), Meter(address, 2)
        first.add(1, 100)
        assert recorder.wait_for((1, 100))
        second.add(2, 50)
        assert recorder.wait_for((3, 150))
        first.add(1, 1)  # too soon after the last word to be told
        first.send()
        assert recorder.wait_for((4, 151))


def test_what_is_not_of_this_run_is_ignored() -> None:
    recorder = Recorder()
    with listen("127.0.0.1", recorder) as address:
        assert address is not None
        for data in (b"noise", b"[]", b"7", b"\xff", json.dumps(["other", 1, 9, 9]).encode()):
            _send(address, data)
        Meter(address, 1).add(1, 1)
        assert recorder.wait_for((1, 1))
    assert recorder.updates == [(1, 1)]


def test_without_a_listener_a_meter_only_counts() -> None:
    meter = Meter(None, 1)
    meter.add(2, 30)
    meter.send()
    assert (meter.files, meter.size_bytes) == (2, 30)


def test_a_driver_without_a_way_to_listen_goes_without() -> None:
    with listen("192.0.2.1", Recorder()) as address:  # an address that no machine has
        assert address is None


def test_a_listener_ends_at_once() -> None:
    started = time.monotonic()
    with listen("127.0.0.1", Recorder()):
        pass
    assert time.monotonic() - started < 0.4
