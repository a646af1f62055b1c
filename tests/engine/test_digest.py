"""SHA-256 of streams that take each other along, compared with OpenSSL's."""

from __future__ import annotations

import hashlib
import random
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import llvmlite.binding as llvm
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bcn.engine import digest as digest_module
from bcn.engine import sha256
from bcn.engine.digest import Digests

LARGE = 1 << 20
HAS_INSTRUCTIONS = bool(llvm.get_host_cpu_features().get("sha"))


@pytest.fixture(autouse=True)
def _compiled_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digest_module, "_COMPILED_AFTER_BYTES", 0)


def view(data: bytes) -> memoryview:
    return memoryview(bytearray(data))


def expected(data: bytes | bytearray) -> bytes:
    return hashlib.sha256(data).digest()


def test_the_loops_are_compiled_where_the_cpu_has_the_instructions() -> None:
    assert (sha256.load() is not None) == HAS_INSTRUCTIONS


def test_the_loops_have_no_instruction_of_avx() -> None:
    if sha256.load() is not None:
        code = sha256._machine().emit_assembly(llvm.parse_assembly(sha256._source()))
        assert re.findall(r"^\tsha256rnds2\b", code, re.MULTILINE)
        assert re.findall(r"^\tv.*", code, re.MULTILINE) == []


def test_no_blocks_change_nothing() -> None:
    kernel = sha256.load()
    if kernel is not None:
        first, second = sha256.begin(), sha256.begin()
        kernel.two(first, 0, second, 0, 0)
        kernel.one(first, 0, -1)
        assert bytes(first) == bytes(second) == bytes(sha256.begin())


@given(
    streams=st.lists(st.lists(st.binary(max_size=300), max_size=5), min_size=1, max_size=4),
    order=st.randoms(use_true_random=False),
)
def test_streams_in_any_pieces_and_any_order_have_their_digests(
    streams: list[list[bytes]], order: random.Random
) -> None:
    digests = Digests()
    begun = [digests.begin(LARGE) for _ in streams]
    turns = [number for number, pieces in enumerate(streams) for _ in pieces]
    order.shuffle(turns)
    rest = [iter(pieces) for pieces in streams]
    for number in turns:
        begun[number].update(view(next(rest[number])))
        if order.random() < 0.2:
            begun[number].settle()
    values = [digest.value() for digest in begun]
    assert values == [expected(b"".join(pieces)) for pieces in streams]
    assert values == [digest.value() for digest in begun]


@pytest.mark.parametrize("size", [0, 1, 55, 56, 63, 64, 65, 119, 120, 128, 100_000])
def test_every_size_is_padded_right(size: int) -> None:
    data = random.Random(size).randbytes(size)
    digest = Digests().begin(LARGE)
    digest.update(view(data))
    assert digest.value() == expected(data)


@pytest.fixture
def _threads_in_turmoil() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.long
@pytest.mark.usefixtures("_threads_in_turmoil")
@pytest.mark.parametrize("is_settled", [False, True], ids=["left", "settled"])
def test_threads_that_take_each_other_along_get_their_digests(is_settled: bool) -> None:
    digests = Digests()

    def hash_some(seed: int) -> bool:
        chance = random.Random(seed)
        digest, data = digests.begin(LARGE), bytearray()
        memory = memoryview(bytearray(40 * 8192))
        for _ in range(40):
            piece = chance.randbytes(64 * chance.randrange(1, 128) + is_settled)
            if is_settled:  # and read to again
                digest.settle(memory.obj)
            place = memory[0 if is_settled else len(data) :][: len(piece)]
            place[:] = piece
            digest.update(place)
            data += piece
        return digest.value() == expected(data)

    with ThreadPoolExecutor(6) as threads:
        assert all(threads.map(hash_some, range(1_000)))


def test_a_piece_is_left_until_another_stream_comes_along() -> None:
    calls: list[str] = []
    digests = Digests()
    first, second = (digests.begin(LARGE) for _ in range(2))
    watch(calls)
    first.update(view(bytes(640)))
    assert calls == []
    second.update(view(bytes(128)))
    second.update(view(bytes(128)))
    assert calls == (["two", "two"] if HAS_INSTRUCTIONS else [])
    first.settle()
    assert calls[2:] == (["one"] if HAS_INSTRUCTIONS else [])  # what the second had not
    assert (first.value(), second.value()) == (expected(bytes(640)), expected(bytes(256)))


def watch(calls: list[str]) -> None:
    kernel = sha256.load()
    if kernel is None:
        return
    one, two = kernel.one, kernel.two

    def call_one(*arguments: object) -> None:
        calls.append("one")
        one(*arguments)

    def call_two(*arguments: object) -> None:
        calls.append("two")
        two(*arguments)

    kernel.one, kernel.two = call_one, call_two


@pytest.fixture(autouse=True)
def _kernel_as_it_was() -> Iterator[None]:
    kernel = sha256.load()
    loops = kernel and (kernel.one, kernel.two)
    yield
    if kernel is not None:
        kernel.one, kernel.two = loops


def test_what_was_interrupted_has_no_digest() -> None:
    digests = Digests()
    first, second, third = (digests.begin(LARGE) for _ in range(3))
    first.update(view(bytes(64)))
    kernel = sha256.load()
    if kernel is None:  # nothing is left, so nothing can be interrupted
        assert first.value() == expected(bytes(64))
        return

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    two, kernel.two = kernel.two, interrupt
    with pytest.raises(KeyboardInterrupt):
        second.update(view(bytes(64)))
    kernel.two = two
    for digest in (first, second):
        with pytest.raises(RuntimeError, match="interrupted"):
            digest.value()
    third.update(view(bytes(64)))
    assert third.value() == expected(bytes(64))


def test_few_bytes_are_left_to_openssl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digest_module, "_COMPILED_AFTER_BYTES", LARGE)
    monkeypatch.setattr(digest_module._Alone, "hashed_bytes", 0)
    monkeypatch.setattr(sha256, "load", lambda: pytest.fail("it does not pay yet"))
    digest = Digests().begin(LARGE)
    digest.update(view(bytes(LARGE)))
    assert digest.value() == expected(bytes(LARGE))
    assert Digests().begin(100).value() == expected(b"")  # small ones never pay
    with pytest.raises(pytest.fail.Exception):
        Digests().begin(LARGE)


@pytest.mark.parametrize("reason", ["no instructions", "wrong results", "an old LLVM"])
def test_without_loops_that_work_there_are_none(
    reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if reason == "no instructions":
        monkeypatch.setattr(llvm, "get_host_cpu_features", dict)
    elif reason == "wrong results":
        monkeypatch.setattr(sha256, "_CONSTANTS", sha256._CONSTANTS[::-1])
    else:
        monkeypatch.setattr(sha256, "_DECLARATIONS", ("declare words it does not know",))
    monkeypatch.setattr(sha256, "load", sha256.load.__wrapped__)
    assert sha256.load() is None
    digest = Digests().begin(LARGE)
    digest.update(view(b"abc"))
    assert digest.value() == expected(b"abc")
