"""From an Avro schema to the instructions that walk its records.

Wanted fields are addressed by Iceberg field ids from the record at the top down, by name where a
field carries no id. The program notes where each wanted value lies and passes over everything else,
whatever it is: any type of Avro, in any nesting, with branches of unions in any order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any

import numpy as np

from bcn.errors import MalformedFileError
from bcn.iceberg import kernel
from bcn.iceberg.kernel import Longs
from bcn.iceberg.schema import BYTES, INFINITE, VARINTS, Field, Node, Schema, parse_schema


class Shape(Enum):
    """What a wanted value must be; BOUNDS are maps of numbers to bytes as Iceberg writes them."""

    NUMBER = "an int or a long"
    BYTES = "a string or bytes"
    BOUNDS = "an array of (int, bytes)"
    ANY = "of any type"


@dataclass(frozen=True, slots=True)
class Step:
    """One field on the way to a wanted value: its id, and its names for files without ids."""

    field_id: int
    names: tuple[str, ...]

    def matches(self, field: Field) -> bool:
        """Whether a field of a schema is this one."""
        if field.field_id is None:
            return field.name in self.names
        return field.field_id == self.field_id


@dataclass(frozen=True, slots=True)
class Wanted:
    """A value to note for every record."""

    path: tuple[Step, ...]
    shape: Shape

    def __str__(self) -> str:
        return f"field {self.path[-1].field_id} ({self.path[-1].names[0]})"


@dataclass(frozen=True)
class Program:
    """Instructions for one schema that note `wanted`, slot by slot."""

    wanted: tuple[Wanted, ...]
    code: Longs
    targets: Longs
    smallest_record: int
    has_plain_fixed: bool


class FixedForm(Enum):
    """How a file holds plain fixed values: as Avro says, or, by mistake, with their length ahead.

    Iceberg's Java writer does the latter for identity partitions of type fixed.
    """

    BARE = "bare"
    PREFIXED = "prefixed"


@lru_cache(maxsize=256)
def compile_program(
    schema: bytes, wanted: tuple[Wanted, ...], form: FixedForm = FixedForm.BARE
) -> Program:
    """The program that notes `wanted`; a field that the schema lacks is null in every record.

    Raises MalformedFileError for a text that is no schema of records, or one where a wanted field
    has another shape.
    """
    return _Compiler(parse_schema(schema), wanted, form).compile()


_Wants = Mapping[int, tuple[Step, ...]]  # slot to what is left of its path
_NOTHING: _Wants = {}
_FUSED = {  # what an item of an array consists of, and the one instruction that passes the array
    (): kernel.SKIP_FIXED_ARRAY,
    (kernel.SKIP_FIXED,): kernel.SKIP_FIXED_ARRAY,
    (kernel.SKIP_VARINTS,): kernel.SKIP_VARINT_ARRAY,
    (kernel.SKIP_BYTES,): kernel.SKIP_BYTES_ARRAY,
    (kernel.SKIP_VARINTS, kernel.SKIP_BYTES): kernel.SKIP_BYTES_ARRAY,
}


class _Compiler:
    """Writes the instructions of one schema; targets are filled in when they are known."""

    def __init__(self, schema: Schema, wanted: tuple[Wanted, ...], form: FixedForm) -> None:
        self.schema = schema
        self.wanted = wanted
        self.form = form
        self.code: list[list[int]] = []
        self.targets: list[int] = []
        self.calls: list[tuple[int, str]] = []
        self.label = 0

    def compile(self) -> Program:
        """The whole program: the record, then each record that something refers to."""
        self.emit_type(self.schema.top, dict(enumerate(want.path for want in self.wanted)))
        self.emit(kernel.END)
        self.emit_called()
        return Program(
            wanted=self.wanted,
            code=_frozen(self.code),
            targets=_frozen(self.targets),
            smallest_record=self.schema.smallest_size(self.schema.top),
            has_plain_fixed=self.schema.has_plain_fixed,
        )

    def emit_called(self) -> None:
        """A record named again is a subroutine, so that records may hold themselves."""
        starts: dict[str, int] = {}
        for place, name in self.calls:  # grows while it is walked
            if name not in starts:
                starts[name] = self.mark()
                self.emit_type(self.schema.records[name], _NOTHING)
                self.emit(kernel.RETURN)
            self.code[place][1] = starts[name]

    def emit(self, op: int, first: int = 0, second: int = 0) -> int:
        """Add an instruction; two that skip alike become one unless something jumps in between."""
        last = self.code[-1] if len(self.code) > self.label else [kernel.END]
        if op == last[0] and op in (kernel.SKIP_VARINTS, kernel.SKIP_FIXED):
            last[1] = min(last[1] + first, INFINITE)
        else:
            self.code.append([op, first, second])
        return len(self.code) - 1

    def mark(self) -> int:
        """The place of the next instruction, to jump to."""
        self.label = len(self.code)
        return self.label

    def emit_type(self, node: Node, wants: _Wants) -> None:
        """Walk one value, noting what is wanted of it."""
        here = [slot for slot, path in wants.items() if not path]
        if node.kind == "union":
            self.emit_union(node.parts, wants)
        elif here:
            self.emit_wanted(here[0], node)
        elif node.kind == "reference":
            self.emit_reference(node, wants)
        elif node.kind == "record":
            self.emit_record(node, wants)
        elif node.kind in ("array", "map"):
            self.emit_array(node)
        else:
            self.emit_leaf(node)

    def emit_leaf(self, node: Node) -> None:
        """Pass one value without parts."""
        if node.kind in VARINTS:
            self.emit(kernel.SKIP_VARINTS, 1)
        elif node.kind in BYTES:
            self.emit(kernel.SKIP_BYTES)
        elif node.plain and self.form is FixedForm.PREFIXED:
            self.emit_prefixed(node.size_bytes)
        elif node.size_bytes:
            self.emit(kernel.SKIP_FIXED, node.size_bytes)

    def emit_prefixed(self, size: int) -> None:
        """Pass a fixed that has its length ahead: like a union of which only branch `size` is."""
        base = len(self.targets)
        self.emit(kernel.UNION, size + 1, base)
        right = self.mark()
        self.emit(kernel.SKIP_FIXED, size)
        jump = self.emit(kernel.JUMP)
        wrong = self.mark()
        self.emit(kernel.SKIP_FIXED, INFINITE)  # no block has so many bytes: the walk ends here
        self.targets.extend([*[wrong] * size, right])
        self.code[jump][1] = self.mark()

    def emit_record(self, node: Node, wants: _Wants) -> None:
        """Walk the fields in order; a field that is there twice would leave one of them behind."""
        met: set[int] = set()
        for field in node.fields:
            inner = {slot: path[1:] for slot, path in wants.items() if path[0].matches(field)}
            if twice := met & inner.keys():
                raise MalformedFileError(f"an Avro schema has {self.wanted[twice.pop()]} twice")
            met |= inner.keys()
            self.emit_type(field.type, inner)

    def emit_reference(self, node: Node, wants: _Wants) -> None:
        """Walk a record by its name: in place if something of it is wanted, else by a call."""
        if wants:
            self.emit_type(self.schema.records[node.name], wants)
        elif size := self.schema.smallest_size(node):
            self.calls.append((self.emit(kernel.CALL, 0, size), node.name))

    def emit_wanted(self, slot: int, node: Node) -> None:
        """Note one value."""
        shape = self.wanted[slot].shape
        if shape is Shape.NUMBER and node.kind in ("int", "long"):
            self.emit(kernel.TAKE_VARINT, slot)
        elif shape is Shape.BYTES and node.kind in BYTES:
            self.emit(kernel.TAKE_BYTES, slot)
        elif shape is Shape.ANY or (shape is Shape.BOUNDS and self.is_bounds(node)):
            self.emit(kernel.OPEN_SPAN, slot)
            self.emit_type(node, _NOTHING)
            self.emit(kernel.CLOSE_SPAN, slot)
        else:
            raise MalformedFileError(f"{self.wanted[slot]} is not {shape.value} but {node.kind}")

    def is_bounds(self, node: Node) -> bool:
        """Whether this is a map as Iceberg writes it: an array of records of a number and bytes."""
        if node.kind != "array":
            return False
        item = self.schema.records.get(node.parts[0].name, node.parts[0])
        kinds = [field.type.kind for field in item.fields]
        return len(kinds) == 2 and kinds[0] in ("int", "long") and kinds[1] in BYTES

    def emit_union(self, branches: Sequence[Node], wants: _Wants) -> None:
        """Walk the branch that a value names; a null needs no instructions."""
        base = len(self.targets)
        self.targets.extend([0] * len(branches))
        self.emit(kernel.UNION, len(branches), base)
        jumps = []
        for place, branch in enumerate(branches):
            if branch.kind != "null":
                self.targets[base + place] = self.mark()
                self.emit_type(branch, wants)
                jumps.append(self.emit(kernel.JUMP))
        if jumps:
            self.code.pop()  # the last branch just goes on
        behind = self.mark()
        for jump in jumps[:-1]:
            self.code[jump][1] = behind
        for place, branch in enumerate(branches):
            if branch.kind == "null":
                self.targets[base + place] = behind

    def emit_array(self, node: Node) -> None:
        """Walk all items of an array or map; plain items have an instruction of their own."""
        enter = self.emit(kernel.ENTER_ARRAY)
        following = self.emit(kernel.NEXT_ITEM)
        body = self.mark()
        if node.kind == "map":
            self.emit(kernel.SKIP_BYTES)
        self.emit_type(node.parts[0], _NOTHING)
        fused = _FUSED.get(tuple(row[0] for row in self.code[body:]))
        if fused is not None:
            size = self.code[body][1] if len(self.code) > body else 0
            del self.code[enter:]
            self.mark()
            self.emit(fused, size)
        else:
            self.emit(kernel.JUMP, following)
            smallest = self.schema.smallest_size(node.parts[0]) + int(node.kind == "map")
            self.code[following][1:] = [self.mark(), min(smallest, INFINITE)]


def _frozen(rows: Sequence[Any]) -> Longs:
    array = np.array(rows, np.int64)
    array.flags.writeable = False
    return array
