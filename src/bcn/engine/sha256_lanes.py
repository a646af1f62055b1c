"""SHA-256 of eight streams at a time, in LLVM's language, by registers that hold eight words.

Word n of all streams is one vector, so a round of all costs hardly more than a round of one. What
AVX-512 adds, to rotate in one step and to join three vectors bit by bit in one, is worth it even
beside a CPU's own instructions for SHA. Where there are none, so is AVX2 as it is. On one such core
OpenSSL does 0.4 GB/s, AVX2 1.2, and AVX-512 2.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

LANES = 8
# As LLVM calls what a CPU can do.
AVX512 = ("avx512f", "avx512bw", "avx512dq", "avx512vl")
AVX2 = ("avx2",)
_BLOCK_WORDS, _ROUNDS = 16, 64
_VECTOR, _BYTES = f"<{LANES} x i32>", f"<{4 * LANES} x i8>"
_JOIN, _TURN = f"@llvm.x86.avx512.pternlog.d.{32 * LANES}", f"@llvm.fshr.v{LANES}i32"
_SWAPPED = ", ".join(f"i32 {at ^ 3}" for at in range(4 * LANES))
_CHOOSE, _MAJORITY, _XOR = 0xCA, 0xE8, 0x96  # what three bits become, as a table of eight


def find_features(cpu: Mapping[str, bool]) -> tuple[str, ...] | None:
    """What of a CPU's features eight streams should be taken with; None if they are no quicker."""
    if all(cpu.get(name) for name in AVX512):
        return AVX512
    return AVX2 if cpu.get("avx2") and not cpu.get("sha") else None


def source(constants: Sequence[int], features: tuple[str, ...]) -> str:
    """The function `take8(states, places, blocks)`: pointers to eight of each.

    A state has its words as the CPU's own instructions for SHA want them: f, e, b, a, h, g, d, c.
    """
    return "\n".join(_Lines(features).take8(constants))


class _Lines:
    """Writes lines; each method gives the name of what its last one computes."""

    def __init__(self, features: tuple[str, ...]) -> None:
        self._lines: list[str] = []
        self._joins = features == AVX512
        if self._joins:
            kinds = f"{_VECTOR}, {_VECTOR}, {_VECTOR}, i32"
            self._lines.append(f"declare {_VECTOR} {_JOIN}({kinds})")

    def _new(self, text: str) -> str:
        name = f"%v{len(self._lines)}"
        self._lines.append(f"{name} = {text}")
        return name

    def take8(self, constants: Sequence[int]) -> list[str]:
        """The whole function."""
        self._lines += [
            f"declare {_VECTOR} {_TURN}({_VECTOR}, {_VECTOR}, {_VECTOR})",
            "define void @take8(ptr %states, ptr %places, i64 %blocks) {",
            "entry:",
        ]
        states, places = self._pointers("%states"), self._pointers("%places")
        words = self._transposed([self._load(state) for state in states])
        self._lines += [
            "%some = icmp sgt i64 %blocks, 0",
            "br i1 %some, label %loop, label %end",
            "loop:",
            "%block = phi i64 [0, %entry], [%next, %loop]",
        ]
        self._lines += [
            f"%s{n} = phi {_VECTOR} [{word}, %entry], [%n{n}, %loop]"
            for n, word in enumerate(words)
        ]
        self._lines.append(f"%offset = mul i64 %block, {4 * _BLOCK_WORDS}")
        for number, word in enumerate(self._rounds(self._block(places), constants)):
            self._lines.append(f"%n{number} = add {_VECTOR} %s{number}, {word}")
        self._lines += [
            "%next = add i64 %block, 1",
            "%done = icmp sge i64 %next, %blocks",
            "br i1 %done, label %exit, label %loop",
            "exit:",
        ]
        rows = self._transposed([f"%n{number}" for number in range(LANES)])
        self._lines += [
            f"store {_VECTOR} {row}, ptr {state}, align 1"
            for row, state in zip(rows, states, strict=True)
        ]
        return [*self._lines, "br label %end", "end:", "ret void", "}"]

    def _pointers(self, array: str) -> list[str]:
        places = (self._new(f"getelementptr ptr, ptr {array}, i64 {lane}") for lane in range(LANES))
        return [self._new(f"load ptr, ptr {place}") for place in places]

    def _load(self, place: str) -> str:
        return self._new(f"load {_VECTOR}, ptr {place}, align 1")

    def _transposed(self, rows: list[str]) -> list[str]:
        """Vectors that have the first word of each row, the second, and so on."""
        for step in (1, 2, 4):
            even = [k if not k & step else LANES + k - step for k in range(LANES)]
            odd = [k + step if not k & step else LANES + k for k in range(LANES)]
            new = list(rows)
            for n in (n for n in range(LANES) if not n & step):
                new[n] = self._shuffled(rows[n], rows[n + step], even)
                new[n + step] = self._shuffled(rows[n], rows[n + step], odd)
            rows = new
        return rows

    def _shuffled(self, one: str, two: str, places: Sequence[int]) -> str:
        order = ", ".join(f"i32 {place}" for place in places)
        return self._new(f"shufflevector {_VECTOR} {one}, {_VECTOR} {two}, {_VECTOR} <{order}>")

    def _block(self, places: list[str]) -> list[str]:
        """The words of a block of each stream, which has them with the high byte first."""
        words: list[str] = []
        at = [self._new(f"getelementptr i8, ptr {place}, i64 %offset") for place in places]
        for half in (0, 4 * LANES):
            parts = [self._new(f"getelementptr i8, ptr {place}, i64 {half}") for place in at]
            rows = self._transposed([self._load(part) for part in parts])
            words += [self._swapped(row) for row in rows]
        return words

    def _swapped(self, word: str) -> str:
        raw = self._new(f"bitcast {_VECTOR} {word} to {_BYTES}")
        swapped = self._new(
            f"shufflevector {_BYTES} {raw}, {_BYTES} poison, <{4 * LANES} x i32> <{_SWAPPED}>"
        )
        return self._new(f"bitcast {_BYTES} {swapped} to {_VECTOR}")

    def _rounds(self, words: list[str], constants: Sequence[int]) -> list[str]:
        f, e, b, a, h, g, d, c = (f"%s{number}" for number in range(8))
        for n in range(_ROUNDS):
            if n >= _BLOCK_WORDS:
                words.append(self._next_word(words))
            constant = self._sum(words[n], _all(constants[n]))
            rest = self._sum(h, constant, self._turned(e, 6, 11, 25), self._join(e, f, g, _CHOOSE))
            other = self._sum(self._turned(a, 2, 13, 22), self._join(a, b, c, _MAJORITY))
            d, h = self._sum(d, rest), self._sum(rest, other)
            a, b, c, d, e, f, g, h = h, a, b, c, d, e, f, g
        return [f, e, b, a, h, g, d, c]

    def _next_word(self, words: list[str]) -> str:
        near, far = words[-2], words[-15]
        return self._sum(
            self._join(self._turn(near, 17), self._turn(near, 19), self._shift(near, 10), _XOR),
            words[-7],
            self._join(self._turn(far, 7), self._turn(far, 18), self._shift(far, 3), _XOR),
            words[-16],
        )

    def _turned(self, word: str, *by: int) -> str:
        one, two, three = (self._turn(word, bits) for bits in by)
        return self._join(one, two, three, _XOR)

    def _turn(self, word: str, by: int) -> str:
        values = f"{_VECTOR} {word}, {_VECTOR} {word}, {_VECTOR} {_all(by)}"
        return self._new(f"call {_VECTOR} {_TURN}({values})")

    def _shift(self, word: str, by: int) -> str:
        return self._new(f"lshr {_VECTOR} {word}, {_all(by)}")

    def _join(self, one: str, two: str, three: str, table: int) -> str:
        if self._joins:
            values = f"{_VECTOR} {one}, {_VECTOR} {two}, {_VECTOR} {three}, i32 {table}"
            return self._new(f"call {_VECTOR} {_JOIN}({values})")
        if table == _XOR:
            return self._bits("xor", self._bits("xor", one, two), three)
        if table == _CHOOSE:
            return self._bits("xor", three, self._bits("and", one, self._bits("xor", two, three)))
        either = self._bits("and", three, self._bits("or", one, two))
        return self._bits("or", either, self._bits("and", one, two))

    def _bits(self, operation: str, one: str, two: str) -> str:
        return self._new(f"{operation} {_VECTOR} {one}, {two}")

    def _sum(self, first: str, *others: str) -> str:
        for other in others:
            first = self._new(f"add {_VECTOR} {first}, {other}")
        return first


def _all(number: int) -> str:
    return f"<{', '.join([f'i32 {number}'] * LANES)}>"
