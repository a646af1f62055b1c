"""SHA-256 of streams that take each other along, compared with OpenSSL's."""

from __future__ import annotations

import ctypes
import hashlib
import random
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import llvmlite.binding as llvm
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bcn.engine import digest as digest_module
from bcn.engine import sha256, sha256_lanes
from bcn.engine.digest import Digests
from bcn.engine.sha256_lanes import LANES

LARGE = 1 << 20
CPU = dict(llvm.get_host_cpu_features())
HAS_INSTRUCTIONS = bool(CPU.get("sha"))
HAS_LANES = sha256_lanes.find_features(CPU) is not None
CPUS = {  # of whose features loops are made
    "two": {name: has for name, has in CPU.items() if not name.startswith("avx")},
    "eight": CPU,
    "eight, no instructions": {**CPU, "sha": False},
    "eight, no instructions, AVX2": {"avx2": bool(CPU.get("avx2"))},
}


@cache
def kernel_of(cpu: str) -> sha256.Kernel | None:
    """Loops for a CPU like that; eight streams at a time are quicker if they can be taken."""
    seconds = iter([2.0, 1.0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(llvm, "get_host_cpu_features", lambda: CPUS[cpu])
        patch.setattr(sha256, "_quickest", lambda _: next(seconds))
        return sha256.build()


@pytest.fixture(autouse=True, params=CPUS)
def lanes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many streams are hashed at a time; two, too, where there are no loops."""
    monkeypatch.setattr(digest_module, "_COMPILED_AFTER_BYTES", 0)
    kernel = kernel_of(request.param)
    monkeypatch.setattr(sha256, "load", lambda: kernel)
    for loop in ("one", "two", "eight") if kernel else ():
        monkeypatch.setattr(kernel, loop, getattr(kernel, loop))  # tests may change them
    return kernel.lanes if kernel else 2


def view(data: bytes) -> memoryview:
    return memoryview(bytearray(data))


def expected(data: bytes | bytearray) -> bytes:
    return hashlib.sha256(data).digest()


def test_the_loops_are_compiled_where_the_cpu_has_what_they_need(
    request: pytest.FixtureRequest, lanes: int
) -> None:
    cpu = CPUS[request.node.callspec.params["lanes"]]
    takes_eight = sha256_lanes.find_features(cpu) is not None
    assert (sha256.load() is not None) == (bool(cpu.get("sha")) or takes_eight)
    assert lanes == (LANES if takes_eight else 2)


def test_narrower_registers_are_used_only_where_the_cpu_has_nothing_better() -> None:
    wide = dict.fromkeys((*sha256_lanes.AVX512, "avx2", "sha"), True)
    assert sha256_lanes.find_features(wide) == sha256_lanes.AVX512
    assert sha256_lanes.find_features(wide | {"sha": False}) == sha256_lanes.AVX512
    assert sha256_lanes.find_features(wide | {"avx512vl": False}) is None
    narrow = wide | {"avx512vl": False, "sha": False}
    assert sha256_lanes.find_features(narrow) == sha256_lanes.AVX2
    assert sha256_lanes.find_features({}) is None


@pytest.mark.parametrize("count", range(LANES + 2))
def test_whole_streams_of_any_lengths_have_their_digests(count: int) -> None:
    kernel, chance = sha256.load(), random.Random(count)
    if kernel is not None:
        streams = [chance.randbytes(chance.randrange(3_000)) for _ in range(count)]
        padded = [bytearray(data + sha256.padding(len(data))) for data in streams]
        places = [
            (ctypes.addressof(ctypes.c_char.from_buffer(data)), sha256.blocks_of(len(stream)))
            for data, stream in zip(padded, streams, strict=True)
        ]
        assert [64 * blocks for _, blocks in places] == [len(data) for data in padded]
        assert kernel.digests(places) == [expected(data) for data in streams]


def test_wide_registers_do_not_slow_down_what_comes_after_them() -> None:
    kernel = sha256.load()
    if kernel is not None and kernel.has_instructions and kernel.eight is not None:
        data = bytearray(1 << 16)
        place = ctypes.addressof(ctypes.c_char.from_buffer(data))
        pair = sha256.begin(), place, sha256.begin(), place, len(data) // 64
        before = sha256._quickest(lambda: kernel.two(*pair))

        def after() -> None:
            kernel.two(*pair)

        seconds = []
        for _ in range(9):
            kernel.digests([(place, 8)] * LANES)
            started = time.perf_counter()
            after()
            seconds.append(time.perf_counter() - started)
        assert min(seconds) < 4 * before  # mixed kinds of instructions: a hundred times


@pytest.mark.parametrize(("by_eight", "fewest"), [(1.0, 2), (2.4, 5), (4.0, 8), (4.1, None)])
def test_eight_at_a_time_are_taken_where_that_is_quicker(
    by_eight: float, fewest: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = iter([by_eight, 1.0])
    monkeypatch.setattr(sha256, "_quickest", lambda _: next(seconds))
    cpu = dict.fromkeys((*sha256_lanes.AVX512, "sha"), True)
    monkeypatch.setattr(llvm, "get_host_cpu_features", lambda: cpu)
    monkeypatch.setattr(sha256, "_is_right", lambda _: True)  # nothing runs: no CPU need have all
    kernel = sha256.build()
    assert kernel is not None
    assert (kernel.lanes, kernel.eight is None) == ((8, False) if fewest else (2, True))
    assert fewest is None or kernel.wide_from == fewest


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
        kernel.take([(first, 0)] * LANES, 0)
        assert bytes(first) == bytes(second) == bytes(sha256.begin())


@given(
    sizes=st.lists(st.lists(st.integers(0, 300), max_size=5), min_size=1, max_size=LANES + 1),
    order=st.randoms(use_true_random=False),
)
def test_streams_in_any_pieces_and_any_order_have_their_digests(
    sizes: list[list[int]], order: random.Random
) -> None:
    streams = [[order.randbytes(size) for size in of_one] for of_one in sizes]
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

    with ThreadPoolExecutor(10) as threads:
        assert all(threads.map(hash_some, range(1_000)))


def test_a_piece_is_left_until_another_stream_comes_along(lanes: int) -> None:
    if lanes == LANES:
        return  # the next test
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
    for name in ("one", "two", "eight") if kernel else ():
        loop = getattr(kernel, name)

        def call(*arguments: object, name: str = name, loop: Callable[..., None] = loop) -> None:
            calls.append(name)
            loop(*arguments)

        setattr(kernel, name, call if loop else None)


def test_pieces_are_left_until_all_lanes_are_taken(lanes: int) -> None:
    if lanes < LANES:
        return  # the test before
    calls: list[str] = []
    digests = Digests()
    begun = [digests.begin(LARGE) for _ in range(LANES)]
    watch(calls)
    for digest in begun[:-1]:
        digest.update(view(bytes(640)))
    assert calls == []
    begun[-1].update(view(bytes(128)))
    assert calls == ["eight"]
    begun[0].settle()
    assert calls == ["eight", "eight"]  # seven of them had more
    assert [digest.value() for digest in begun] == [
        *[expected(bytes(640))] * (LANES - 1),
        expected(bytes(128)),
    ]
    kernel = sha256.load()
    by = ["one"] if kernel is not None and kernel.has_instructions else ["one", "eight"]
    assert calls == ["eight", "eight", *by * LANES]  # their padding


def test_only_what_lies_in_memory_that_is_needed_is_hashed() -> None:
    kernel = sha256.load()
    if kernel is None:
        return
    once = ["one" if kernel.has_instructions else "eight"]
    digest, first, second = Digests().begin(LARGE), view(bytes(640)), view(b"x" * 640)
    calls: list[str] = []
    watch(calls)
    digest.update(first)
    digest.update(second)
    digest.settle(first.obj)
    assert calls == once
    first[:] = b"y" * 640  # somebody else's by now
    digest.settle(first.obj)
    assert calls == once
    assert digest.value() == expected(bytes(640) + b"x" * 640)


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

    def hash_second() -> None:
        second.update(view(bytes(64)))
        second.settle()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel, "two" if kernel.has_instructions else "eight", interrupt)
        with pytest.raises(KeyboardInterrupt):
            hash_second()
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


def test_many_bytes_that_are_to_come_are_not_left_to_openssl(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(digest_module, "_COMPILED_AFTER_BYTES", 4 * LARGE)
    monkeypatch.setattr(digest_module._Alone, "hashed_bytes", 0)
    has_loops = sha256.load() is not None
    assert not Digests(4 * LARGE - 1).begin(LARGE).leaves_pieces
    assert Digests(4 * LARGE).begin(LARGE).leaves_pieces == has_loops


def test_a_stream_that_goes_alone_is_left_to_whoever_is_quicker_with_it() -> None:
    kernel = sha256.load()
    has_instructions = kernel is not None and kernel.has_instructions
    assert Digests(3 * LARGE).begin(2 * LARGE).leaves_pieces == has_instructions
    assert Digests(4 * LARGE).begin(2 * LARGE).leaves_pieces == (kernel is not None)


def test_a_small_file_is_left_to_openssl_where_two_at_a_time_are_no_quicker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernel = sha256.load()
    for fewest in (2, 3) if kernel else ():
        monkeypatch.setattr(kernel, "pays_from", fewest)
        assert Digests(99 * LARGE).begin(LARGE - 1).leaves_pieces == (fewest == 2)
        assert Digests(99 * LARGE).begin(LARGE).leaves_pieces


@pytest.mark.parametrize(("by_eight", "fewest"), [(0.4, 1), (1.4, 2), (2.6, 3)])
def test_eight_that_have_no_instructions_beside_them_are_compared_with_openssl(
    by_eight: float, fewest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = iter([by_eight, 1.0])
    monkeypatch.setattr(sha256, "_quickest", lambda _: next(seconds))
    monkeypatch.setattr(llvm, "get_host_cpu_features", lambda: {**CPU, "sha": False})
    kernel = sha256.build()
    if kernel is not None:
        assert kernel.pays_from == fewest
        assert (kernel.pays(7, 7 * fewest), kernel.pays(7, 7 * fewest - 1)) == (True, False)


def test_many_threads_that_ask_for_the_loops_at_once_have_them_built_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.undo()  # the real one
    built = []

    def build() -> object:
        built.append(threading.get_ident())
        time.sleep(0.05)
        return built

    monkeypatch.setattr(sha256, "build", build)
    sha256._build_once.cache_clear()
    try:
        with ThreadPoolExecutor(8) as threads:
            given = [*threads.map(lambda _: sha256.load(), range(8))]
    finally:
        sha256._build_once.cache_clear()
    assert len(built) == 1
    assert all(loops is built for loops in given)


@pytest.mark.parametrize(
    "reason", ["no instructions", "wrong results", "wrong lanes", "an old LLVM"]
)
def test_without_loops_that_work_there_are_none(
    reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if reason == "no instructions":
        monkeypatch.setattr(llvm, "get_host_cpu_features", dict)
    elif reason == "wrong results":
        monkeypatch.setattr(sha256, "_CONSTANTS", sha256._CONSTANTS[::-1])
    elif reason == "wrong lanes":
        monkeypatch.setattr(sha256_lanes, "_MAJORITY", 0xCA)
        monkeypatch.setattr(sha256, "_quickest", lambda _: 1.0)
    else:
        monkeypatch.setattr(sha256, "_DECLARATIONS", ("declare words it does not know",))
        monkeypatch.setattr(sha256_lanes, "_VECTOR", "words it does not know")
    monkeypatch.setattr(sha256, "load", sha256.build)
    if reason == "wrong lanes" and not HAS_LANES:
        return  # nobody uses them here
    assert sha256.load() is None
    digest = Digests().begin(LARGE)
    digest.update(view(b"abc"))
    assert digest.value() == expected(b"abc")
