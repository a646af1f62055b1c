"""SHA-256 of two streams at a time, by the instructions that a CPU has for it, or of eight.

Each round waits for the one before, and leaves up to half of what the CPU could do idle: rounds of
a second stream go in between. OpenSSL takes one stream at a time, so the rounds are written out
here, in LLVM's language, and compiled when they are first needed. Some CPUs are hardly quicker with
two, and others lack the instructions: there, wide registers take eight (`sha256_lanes`). Where the
CPU lacks those as well, or a result is not OpenSSL's, `load` gives None.
"""

from __future__ import annotations

import ctypes
import hashlib
import struct
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from itertools import count, islice
from math import ceil, isqrt

import llvmlite.binding as llvm

from bcn.engine import sha256_lanes
from bcn.engine.sha256_lanes import LANES

BLOCK_BYTES = 64
_GROUPS = 16  # of four rounds
_LOW_BITS = 0xFFFFFFFF

_TRIED_BLOCKS, _TRIES = 128, 5

State = ctypes.Array[ctypes.c_uint32]
Pointers = ctypes.Array[ctypes.c_void_p]
_STATE = ctypes.c_uint32 * 8
_POINTERS = ctypes.c_void_p * LANES


def _cube_root(number: int) -> int:
    low, high = 0, number
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if middle**3 <= number else (low, middle - 1)
    return low


_PRIMES = [*islice((n for n in count(2) if all(n % m for m in range(2, isqrt(n) + 1))), 64)]
# The standard takes the first 32 bits behind the point: of cube roots for rounds, of square roots
# for the beginning.
_CONSTANTS = [_cube_root(prime << 96) & _LOW_BITS for prime in _PRIMES]
_A, _B, _C, _D, _E, _F, _G, _H = (isqrt(prime << 64) & _LOW_BITS for prime in _PRIMES[:8])
_BEGINNING = struct.pack("=8I", _F, _E, _B, _A, _H, _G, _D, _C)  # as the instructions want it


def begin() -> State:
    """The state of a stream before its first byte."""
    return _STATE.from_buffer_copy(_BEGINNING)


def finish(state: State) -> bytes:
    """The digest of a stream whose last block, with its padding, is in the state."""
    f, e, b, a, h, g, d, c = struct.unpack("=8I", state)
    return struct.pack(">8I", a, b, c, d, e, f, g, h)


def padding(size_bytes: int) -> bytes:
    """What follows the last byte of a stream of that size, up to the end of a block."""
    return b"\x80" + bytes((55 - size_bytes) % BLOCK_BYTES) + struct.pack(">Q", 8 * size_bytes)


def blocks_of(size_bytes: int) -> int:
    """How many blocks a stream of that size has, with its padding."""
    return (size_bytes + 8) // BLOCK_BYTES + 1


class Kernel:
    """The compiled loops over whole blocks at a place in memory. Other threads run meanwhile."""

    one: Callable[[State, int, int], None]
    two: Callable[[State, int, State, int, int], None]
    eight: Callable[[Pointers, Pointers, int], None] | None = None  # None: two are as quick
    wide_from = 1  # so many streams are quicker by eight, though some lanes have none
    pays_from = 1  # so many are quicker than by OpenSSL

    def __init__(
        self, narrow: llvm.ExecutionEngine | None, wide: llvm.ExecutionEngine | None
    ) -> None:
        self._engines = narrow, wide  # the code is theirs
        self.has_instructions = narrow is not None
        if narrow is None:
            self.one, self.two = self._one_of_eight, self._two_of_eight
        else:
            self.one, self.two = _function(narrow, "take1", 2), _function(narrow, "take2", 4)
        if wide is not None:
            self._widen(_function(wide, "take8", 2))

    def _widen(self, eight: Callable[[Pointers, Pointers, int], None]) -> None:
        """Take eight streams at a time, if and where this CPU is quicker with that."""
        data = ctypes.create_string_buffer(_TRIED_BLOCKS * BLOCK_BYTES)
        states, places = [begin() for _ in range(LANES)], [ctypes.addressof(data)] * LANES
        wide = _POINTERS(*map(ctypes.addressof, states)), _POINTERS(*places)
        by_eight = _quickest(lambda: eight(*wide, _TRIED_BLOCKS))
        if not self.has_instructions:
            self.eight = eight
            by_openssl = _quickest(lambda: hashlib.sha256(data).digest())
            self.pays_from = ceil(by_eight / by_openssl)
            return
        pair = states[0], places[0], states[1], places[1]
        by_two = _quickest(lambda: self.two(*pair, _TRIED_BLOCKS))
        self.wide_from = ceil(2 * by_eight / by_two)
        if self.wide_from <= LANES:
            self.eight = eight

    def pays(self, largest: int, total: int) -> bool:
        """Whether OpenSSL is slower with streams of that size in all, the largest of that size."""
        return self.pays_from * largest <= total

    def _one_of_eight(self, state: State, place: int, blocks: int) -> None:
        self.take([(state, place)], blocks)

    def _two_of_eight(
        self, state: State, place: int, other: State, there: int, blocks: int
    ) -> None:
        self.take([(state, place), (other, there)], blocks)

    @property
    def lanes(self) -> int:
        """How many streams go together at best."""
        return 2 if self.eight is None else LANES

    def take(self, streams: Sequence[tuple[State, int]], blocks: int) -> None:
        """Take so many blocks at a place into the state of each of some streams."""
        if self.eight is not None and self.wide_from <= len(streams) <= LANES:
            # Lanes without a stream of their own do what the first one does, to the same end.
            lanes = [*streams, *[streams[0]] * (LANES - len(streams))]
            states, places = zip(*lanes, strict=True)
            self.eight(_POINTERS(*map(ctypes.addressof, states)), _POINTERS(*places), blocks)
            return
        pairs = zip(streams[::2], streams[1::2], strict=False)
        for (state, place), (other, there) in pairs:
            self.two(state, place, other, there, blocks)
        if len(streams) % 2:
            self.one(*streams[-1], blocks)

    def digests(self, streams: Sequence[tuple[int, int]]) -> list[bytes]:
        """Digests of whole streams, each with its padding at a place of so many blocks."""
        states = [begin() for _ in streams]
        done, left = 0, list(zip(states, streams, strict=True))
        while left:
            upto = min(blocks for _, (_, blocks) in left)
            at = done * BLOCK_BYTES
            for start in range(0, len(left), self.lanes):
                some = left[start : start + self.lanes]
                self.take([(state, place + at) for state, (place, _) in some], upto - done)
            done, left = upto, [item for item in left if item[1][1] > upto]
        return [finish(state) for state in states]


def _function(engine: llvm.ExecutionEngine, name: str, places: int) -> Callable[..., None]:
    kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * places, ctypes.c_int64)
    return kind(engine.get_function_address(name))


def _quickest(work: Callable[[], object]) -> float:
    seconds = []
    for _ in range(_TRIES):
        started = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - started)
    return min(seconds)


_loading = threading.Lock()


@cache
def _build_once() -> Kernel | None:
    return build()


def load() -> Kernel | None:
    """The loops, as `build` gives them; built once, though many threads ask at a time."""
    with _loading:
        return _build_once()


def build() -> Kernel | None:
    """The loops, compiled and compared with OpenSSL; None where that cannot be."""
    cpu = llvm.get_host_cpu_features()
    has_instructions, features = bool(cpu.get("sha")), sha256_lanes.find_features(cpu)
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    narrow = _compile(_source(), _machine()) if has_instructions else None
    wide = _compile_wide(features) if features else None
    if narrow is None and wide is None:
        return None
    kernel = Kernel(narrow, wide)
    return kernel if _is_right(kernel) else None


def _compile_wide(features: tuple[str, ...]) -> llvm.ExecutionEngine | None:
    return _compile(sha256_lanes.source(_CONSTANTS, features), _wide_machine(features))


def _compile(source: str, machine: llvm.TargetMachine) -> llvm.ExecutionEngine | None:
    """Loops, ready to run; None by an LLVM that does not know what they need."""
    with suppress(RuntimeError, OSError):
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(source), machine)
        engine.finalize_object()
        return engine
    return None


def _machine() -> llvm.TargetMachine:
    """The oldest CPU that has them, whatever this one is.

    The instructions for SHA know nothing of AVX. Newer CPUs take a hundred times as long when
    instructions of both kinds follow each other after somebody has used the wide registers.
    """
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(cpu="x86-64", features="+sha,+sse4.1", opt=2)


def _wide_machine(features: tuple[str, ...]) -> llvm.TargetMachine:
    target = llvm.Target.from_default_triple()
    wanted = ",".join(f"+{name}" for name in features)
    return target.create_target_machine(cpu="x86-64", features=wanted, opt=2)


def _source() -> str:
    return "\n".join([*_DECLARATIONS, *_loop(1), *_loop(2)])


def _is_right(kernel: Kernel) -> bool:
    """All ways give what OpenSSL gives, for streams of several lengths."""
    data = bytes(range(256)) * 8
    streams = [data[7 * number : 1000 + 90 * number] for number in range(LANES + 3)]
    padded = [ctypes.create_string_buffer(data + padding(len(data))) for data in streams]
    places = [(ctypes.addressof(item), len(item) // BLOCK_BYTES) for item in padded]
    expected = [hashlib.sha256(data).digest() for data in streams]
    return all(
        kernel.digests(places[:count]) == expected[:count] for count in range(len(streams) + 1)
    )


# The loops, in LLVM's language. A state is two vectors, called a and c; each lane has its own.

_VECTOR = "<4 x i32>"
_DECLARATIONS = (
    f"declare {_VECTOR} @llvm.x86.sha256rnds2({_VECTOR}, {_VECTOR}, {_VECTOR})",
    f"declare {_VECTOR} @llvm.x86.sha256msg1({_VECTOR}, {_VECTOR})",
    f"declare {_VECTOR} @llvm.x86.sha256msg2({_VECTOR}, {_VECTOR})",
)
_HIGH = "<i32 2, i32 3, i32 2, i32 3>"
_SWAPPED = ", ".join(f"i32 {at ^ 3}" for at in range(16))


def _loop(lanes: int) -> list[str]:
    """All groups of rounds of a block, those of the lanes by turns; then the next block."""
    every = range(lanes)
    arguments = ", ".join(f"ptr %state{lane}, ptr %data{lane}" for lane in every)
    return [
        f"define void @take{lanes}({arguments}, i64 %blocks) {{",
        "entry:",
        *(line for lane in every for line in _load_state(lane)),
        "%some = icmp sgt i64 %blocks, 0",
        "br i1 %some, label %loop, label %exit",
        "loop:",
        "%block = phi i64 [0, %entry], [%next, %loop]",
        *(line for lane in every for line in _carry_state(lane)),
        f"%offset = mul i64 %block, {BLOCK_BYTES}",
        *(line for group in range(_GROUPS) for line in _group(lanes, group)),
        *(line for lane in every for line in _add_state(lane)),
        "%next = add i64 %block, 1",
        "%done = icmp eq i64 %next, %blocks",
        "br i1 %done, label %exit, label %loop",
        "exit:",
        *(line for lane in every for line in _end_state(lane)),
        *(line for lane in every for line in _store_state(lane)),
        "ret void",
        "}",
    ]


def _load_state(lane: int) -> list[str]:
    return [
        f"%half{lane} = getelementptr i8, ptr %state{lane}, i64 16",
        f"%a{lane} = load {_VECTOR}, ptr %state{lane}, align 1",
        f"%c{lane} = load {_VECTOR}, ptr %half{lane}, align 1",
    ]


def _carry_state(lane: int) -> list[str]:
    return [
        f"%{half}{lane}_0 = phi {_VECTOR} [%{half}{lane}, %entry], [%{half}{lane}_new, %loop]"
        for half in "ac"
    ]


def _add_state(lane: int) -> list[str]:
    return [
        f"%{half}{lane}_new = add {_VECTOR} %{half}{lane}_0, %{half}{lane}_{_GROUPS}"
        for half in "ac"
    ]


def _end_state(lane: int) -> list[str]:
    return [
        f"%{half}{lane}_end = phi {_VECTOR} [%{half}{lane}, %entry], [%{half}{lane}_new, %loop]"
        for half in "ac"
    ]


def _store_state(lane: int) -> list[str]:
    return [
        f"store {_VECTOR} %a{lane}_end, ptr %state{lane}, align 1",
        f"store {_VECTOR} %c{lane}_end, ptr %half{lane}, align 1",
    ]


def _group(lanes: int, group: int) -> list[str]:
    words = _read_words if group < 4 else _make_words
    return [
        *(line for lane in range(lanes) for line in words(lane, group)),
        *(line for lane in range(lanes) for line in _rounds(lane, group)),
    ]


def _read_words(lane: int, group: int) -> list[str]:
    """Four words of the block, which has them with the high byte first."""
    name = f"{lane}_{group}"
    return [
        f"%at{name} = getelementptr i8, ptr %data{lane}, i64 %offset",
        f"%from{name} = getelementptr i8, ptr %at{name}, i64 {16 * group}",
        f"%raw{name} = load <16 x i8>, ptr %from{name}, align 1",
        f"%b{name} = shufflevector <16 x i8> %raw{name}, <16 x i8> poison, <16 x i32> <{_SWAPPED}>",
        f"%w{name} = bitcast <16 x i8> %b{name} to {_VECTOR}",
    ]


def _make_words(lane: int, group: int) -> list[str]:
    """Four words, made of the sixteen before them."""
    name = f"{lane}_{group}"
    fourth, third, second, last = (f"{_VECTOR} %w{lane}_{group - back}" for back in (4, 3, 2, 1))
    return [
        f"%x{name} = call {_VECTOR} @llvm.x86.sha256msg1({fourth}, {third})",
        f"%y{name} = shufflevector {second}, {last}, {_VECTOR} <i32 1, i32 2, i32 3, i32 4>",
        f"%z{name} = add {_VECTOR} %x{name}, %y{name}",
        f"%w{name} = call {_VECTOR} @llvm.x86.sha256msg2({_VECTOR} %z{name}, {last})",
    ]


def _rounds(lane: int, group: int) -> list[str]:
    """Four rounds: two make the new c, two the new a."""
    name, new = f"{lane}_{group}", f"{lane}_{group + 1}"
    constants = ", ".join(f"i32 {value}" for value in _CONSTANTS[4 * group : 4 * group + 4])
    a, c, new_c = (f"{_VECTOR} %{half}" for half in (f"a{name}", f"c{name}", f"c{new}"))
    low, high = f"{_VECTOR} %low{name}", f"{_VECTOR} %high{name}"
    return [
        f"%low{name} = add {_VECTOR} %w{name}, <{constants}>",
        f"%c{new} = call {_VECTOR} @llvm.x86.sha256rnds2({c}, {a}, {low})",
        f"%high{name} = shufflevector {low}, {_VECTOR} poison, {_VECTOR} {_HIGH}",
        f"%a{new} = call {_VECTOR} @llvm.x86.sha256rnds2({a}, {new_c}, {high})",
    ]
