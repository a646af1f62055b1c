"""How long a server is waited for, and what is not asked again."""

from __future__ import annotations

import pytest

from bcn.storage import requests
from bcn.storage.fault import Fault, Kind
from bcn.storage.requests import Patience


class Server:
    """Answers with faults until told otherwise; counts who asked."""

    def __init__(self, kind: Kind) -> None:
        self.kind: Kind | None = kind
        self.asked = 0

    def __call__(self) -> str:
        self.asked += 1
        if self.kind is not None:
            raise Fault(self.kind, "said so")
        return "done"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "_UNPROVEN_SECONDS", 0.3)


@pytest.mark.parametrize("kind", [Kind.CONNECTION, Kind.TIMEOUT])
def test_a_server_that_never_answered_is_given_up_once_and_not_for_each_table(kind: Kind) -> None:
    server, patience = Server(kind), Patience()
    with pytest.raises(Fault):
        patience.call("get", server)
    before = server.asked
    assert before > 1
    for _ in range(3):
        with pytest.raises(Fault, match="said so") as caught:
            patience.call("get", server)
        assert caught.value.kind is kind
    assert server.asked == before


def test_it_is_asked_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "_GIVEN_UP_SECONDS", 0.0)
    server, patience = Server(Kind.CONNECTION), Patience()
    with pytest.raises(Fault):
        patience.call("get", server)
    server.kind = None
    assert patience.call("get", server) == "done"


@pytest.mark.parametrize("kind", [Kind.CREDENTIALS, Kind.DENIED, Kind.MISSING])
def test_what_a_server_answered_is_no_reason_to_give_it_up(kind: Kind) -> None:
    server, patience = Server(kind), Patience()
    for count in range(1, 4):
        with pytest.raises(Fault):
            patience.call("get", server)
        assert server.asked == count


class Clock:
    """Stands still but for who waits."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.parametrize("kind", [Kind.SERVER, Kind.CONNECTION, Kind.TIMEOUT, Kind.BUSY])
def test_a_request_that_took_long_is_tried_again(
    kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, patience, asked = Clock(), Patience(), []
    monkeypatch.setattr(requests, "time", clock)
    patience.call("head", lambda: "there")

    def upload() -> str:
        asked.append(clock.now)
        clock.sleep(500)
        if len(asked) == 1:
            raise Fault(kind, "broke off")
        return "done"

    assert patience.call("put", upload) == "done"
    assert len(asked) == 2


def test_a_server_that_never_answered_gets_no_second_long_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, asked = Clock(), []
    monkeypatch.setattr(requests, "time", clock)

    def upload() -> str:
        asked.append(clock.now)
        clock.sleep(500)
        raise Fault(Kind.TIMEOUT, "nobody there")

    with pytest.raises(Fault, match="nobody there"):
        Patience().call("put", upload)
    assert len(asked) == 1


def test_a_server_that_once_answered_is_always_asked() -> None:
    server, patience = Server(Kind.DENIED), Patience()
    server.kind = None
    patience.call("get", server)
    server.kind = Kind.OTHER
    with pytest.raises(Fault):
        patience.call("get", server)
    server.kind = None
    assert patience.call("get", server) == "done"
