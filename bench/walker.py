"""How fast manifests are decoded and rewritten, beside pyiceberg's reader and fastavro.

One core, one process: `python bench/walker.py [--json]`. The manifests have 20 columns of
statistics, blocks of 64,000 bytes and zlib's level 9, as Iceberg's Java writer makes them.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import statistics
import tempfile
import time
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import fastavro
from isal import igzip_lib
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import ManifestContent, ManifestFile

from bcn.iceberg import manifest as layer
from bcn.iceberg.avro import inflate, parse_container, walk_blocks
from bcn.iceberg.manifest import RewrittenDelete, decode_manifest, relocate_manifest
from bcn.iceberg.program import compile_program
from bcn.iceberg.relocate import Move, Moves

ROOT = "s3://warehouse-bucket/sales/orders"
MOVES = Moves([Move(ROOT, "s3://another-bucket/restored/sales/orders_copy")])
ENTRIES_PER_FILE = 5_000
FILES = 10
TURNS = 9
PYICEBERG = "pyiceberg: read a deflated manifest"
COLUMNS = 20
FILE_PATH_ID = 2147483546
TARGETS = {
    "bcn: walk inflated blocks to path, size, sequence columns": 1_500_000,
    "bcn: decode deflated manifests": 400_000,
    "bcn: rewrite deflated manifests to a new root": 200_000,
    "bcn: rewrite deflated manifests of position deletes": 30_000,
}
INFLATE, DEFLATE = "zlib: inflate the same blocks", "zlib, level 1: deflate them"
# What zlib did with such blocks on the machine that the targets were set on: tells how much slower
# or faster than that this core is at the moment.
REFERENCE = {INFLATE: 273_000, DEFLATE: 85_000}
_CODECS = {
    "bcn: decode deflated manifests": (INFLATE,),
    "bcn: rewrite deflated manifests to a new root": (INFLATE, DEFLATE),
}


def field(field_id: int, name: str, kind: Any, *, optional: bool = False) -> dict[str, Any]:
    if optional:
        return {"name": name, "type": ["null", kind], "default": None, "field-id": field_id}
    return {"name": name, "type": kind, "field-id": field_id}


def id_map(field_id: int, name: str, key: int, value_type: str) -> dict[str, Any]:
    item = {
        "type": "record",
        "name": f"k{key}_v{key + 1}",
        "fields": [field(key, "key", "int"), field(key + 1, "value", value_type)],
    }
    return field(
        field_id, name, {"type": "array", "items": item, "logicalType": "map"}, optional=True
    )


def entry_schema() -> dict[str, Any]:
    """The schema of a v2 manifest entry of a table partitioned by day."""
    day = field(1000, "day", {"type": "int", "logicalType": "date"}, optional=True)
    data_file = [
        field(134, "content", "int"),
        field(100, "file_path", "string"),
        field(101, "file_format", "string"),
        field(102, "partition", {"type": "record", "name": "r102", "fields": [day]}),
        field(103, "record_count", "long"),
        field(104, "file_size_in_bytes", "long"),
        id_map(108, "column_sizes", 117, "long"),
        id_map(109, "value_counts", 119, "long"),
        id_map(110, "null_value_counts", 121, "long"),
        id_map(137, "nan_value_counts", 138, "long"),
        id_map(125, "lower_bounds", 126, "bytes"),
        id_map(128, "upper_bounds", 129, "bytes"),
        field(131, "key_metadata", "bytes", optional=True),
        field(
            132,
            "split_offsets",
            {"type": "array", "items": "long", "element-id": 133},
            optional=True,
        ),
        field(
            135, "equality_ids", {"type": "array", "items": "int", "element-id": 136}, optional=True
        ),
        field(140, "sort_order_id", "int", optional=True),
        field(143, "referenced_data_file", "string", optional=True),
    ]
    fields = [
        field(0, "status", "int"),
        field(1, "snapshot_id", "long", optional=True),
        field(3, "sequence_number", "long", optional=True),
        field(4, "file_sequence_number", "long", optional=True),
        field(2, "data_file", {"type": "record", "name": "r2", "fields": data_file}),
    ]
    return {"type": "record", "name": "manifest_entry", "fields": fields}


def bound(rng: random.Random, column: int) -> bytes:
    """Strings cut to 16 characters, timestamps in microseconds, ints: as columns really have."""
    if column % 5 == 0:
        return b"customer-%07d" % rng.randrange(1_000_000)
    if column % 5 == 1:
        return (1_715_000_000_000_000 + rng.randrange(86_400_000_000)).to_bytes(8, "little")
    return rng.randrange(1 << 16).to_bytes(4, "little")


def data_entry(rng: random.Random, number: int) -> dict[str, Any]:
    rows = rng.randrange(10_000, 2_000_000)
    ids = range(1, COLUMNS + 1)
    uuid = f"{rng.getrandbits(128):032x}"
    data_file = {
        "content": 0,
        "file_path": f"{ROOT}/data/day=2024-05-{number % 28:02d}/00000-{number}-{uuid}.parquet",
        "file_format": "PARQUET",
        "partition": {"day": 19_800 + number % 28},
        "record_count": rows,
        "file_size_in_bytes": rows * 97,
        "column_sizes": [{"key": i, "value": rng.randrange(rows * 9)} for i in ids],
        "value_counts": [{"key": i, "value": rows} for i in ids],
        "null_value_counts": [{"key": i, "value": rng.randrange(60)} for i in ids],
        "lower_bounds": [{"key": i, "value": bound(rng, i)} for i in ids],
        "upper_bounds": [{"key": i, "value": bound(rng, i)} for i in ids],
        "split_offsets": [4],
        "sort_order_id": 0,
    }
    return {
        "status": 1,
        "snapshot_id": 6_000_000_000_000_000_000 + number % 7,
        "sequence_number": 100 + number % 7,
        "file_sequence_number": 100 + number % 7,
        "data_file": data_file,
    }


def delete_entry(rng: random.Random, number: int) -> dict[str, Any]:
    entry = data_entry(rng, number)
    target = entry["data_file"]["file_path"].encode()
    bounds = [{"key": FILE_PATH_ID, "value": target}, {"key": FILE_PATH_ID - 1, "value": bytes(8)}]
    counts = dict.fromkeys(["column_sizes", "value_counts", "null_value_counts"])
    entry["data_file"] |= counts | {"content": 1, "lower_bounds": bounds, "upper_bounds": bounds}
    entry["data_file"]["file_path"] = target.decode().replace(".parquet", "-deletes.parquet")
    return entry


def make_manifests(make: Callable[[random.Random, int], dict[str, Any]], files: int) -> list[bytes]:
    """One file from fastavro, then more with other numbers in their paths, packed like Java's."""
    rng = random.Random(7)
    schema = fastavro.parse_schema(entry_schema())
    records = [make(rng, number) for number in range(ENTRIES_PER_FILE)]
    plain = io.BytesIO()
    fastavro.writer(plain, schema, records, sync_interval=64_000)
    return [pack(plain.getvalue().replace(b"/00000-", b"/%05d-" % n)) for n in range(files)]


def pack(plain: bytes) -> bytes:
    out = io.BytesIO()
    blocks = fastavro.block_reader(io.BytesIO(plain))
    header = {"content": "data", "format-version": "2"}
    writer = fastavro.write.Writer(
        out, blocks.writer_schema, "deflate", metadata=header, compression_level=9
    )
    for block in blocks:
        writer.write_block(block)
    writer.flush()
    return out.getvalue()


def rate(entries: int, action: Callable[[], object], repeats: int = 5) -> float:
    """Entries a second, the best of some runs."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        best = min(best, time.perf_counter() - start)
    return entries / best


def walker_action(manifests: list[bytes]) -> Callable[[], object]:
    containers = [parse_container(data) for data in manifests]
    inflated = [inflate(container) for container in containers]
    wanted = (layer._FILE_PATH, layer._FILE_SIZE, layer._SEQUENCE_NUMBER)
    program = compile_program(containers[0].schema, wanted)

    def action() -> None:
        for blocks in inflated:
            walk = walk_blocks(blocks, program)
            walk.texts(wanted[0])
            walk.numbers(wanted[1])
            walk.numbers(wanted[2])

    return action


def codec_actions(data: bytes) -> dict[str, tuple[int, Callable[[], object], int]]:
    """zlib alone on the blocks of one manifest."""
    container = parse_container(data)
    packed = [data[start:end] for _, start, end in container.frames.tolist()]
    plain = [zlib.decompress(block, -15) for block in packed]
    return {
        INFLATE: (ENTRIES_PER_FILE, lambda: [zlib.decompress(block, -15) for block in packed], 9),
        DEFLATE: (ENTRIES_PER_FILE, lambda: [zlib.compress(block, 1) for block in plain], 9),
    }


def pyiceberg_action(path: Path) -> Callable[[], object]:
    described = ManifestFile.from_args(
        manifest_path=str(path),
        manifest_length=path.stat().st_size,
        partition_spec_id=0,
        content=ManifestContent.DATA,
        sequence_number=1,
        min_sequence_number=1,
        added_snapshot_id=1,
    )
    return lambda: described.fetch_manifest_entry(PyArrowFileIO())


def bound_here(name: str, rates: Mapping[str, float]) -> float:
    """What the target is on this core: less where zlib takes longer for the same blocks."""
    codecs = _CODECS.get(name)
    if codecs is None:
        return TARGETS[name]
    there = sum(1 / REFERENCE[codec] for codec in codecs)
    return TARGETS[name] * min(1.0, there / sum(1 / rates[codec] for codec in codecs))


def measure(folder: Path) -> dict[str, Any]:
    data = make_manifests(data_entry, FILES)
    deletes = make_manifests(delete_entry, 1)
    one = folder / "m0.avro"
    one.write_bytes(data[0])
    written = {path: RewrittenDelete(1234, None, None) for path in map(str, paths_of(deletes[0]))}
    every, single = FILES * ENTRIES_PER_FILE, ENTRIES_PER_FILE
    walker, decode, rewrite, rewrite_deletes = TARGETS
    actions: dict[str, tuple[int, Callable[[], object], int]] = {
        walker: (every, walker_action(data), 5),
        decode: (every, lambda: [decode_manifest(each) for each in data], 5),
        rewrite: (every, lambda: [relocate_manifest(each, MOVES, {}) for each in data], 5),
        rewrite_deletes: (single, lambda: relocate_manifest(deletes[0], MOVES, written), 5),
        PYICEBERG: (single, pyiceberg_action(one), 2),
        "fastavro: read a deflated manifest": (single, lambda: read_with_fastavro(data[0]), 2),
        **codec_actions(data[0]),
    }
    for name in TARGETS:  # compiled once before it is timed
        actions[name][1]()
    rates = {name: rate(*args) for name, args in actions.items()}
    return {
        "entries": every,
        "rates": rates,
        "times_pyiceberg": _turn_by_turn(actions[decode][:2], actions[PYICEBERG][:2]),
        "sizes": sizes(data),
        "targets": TARGETS,
        "bounds_here": {name: bound_here(name, rates) for name in TARGETS},
    }


_Timed = tuple[int, Callable[[], object]]


def _turn_by_turn(ours: _Timed, theirs: _Timed) -> float:
    """How much faster: the median of turns, because a core is not as fast in every second."""
    return statistics.median(rate(*ours, 1) / rate(*theirs, 1) for _ in range(TURNS))


def paths_of(data: bytes) -> list[str]:
    return list(decode_manifest(data).file_path.to_pylist())


def read_with_fastavro(data: bytes) -> int:
    return sum(1 for _ in fastavro.reader(io.BytesIO(data)))


def sizes(manifests: list[bytes]) -> dict[str, int]:
    """Bytes in and out, and what isal's levels would make of the blocks."""
    inflated = [inflate(parse_container(data)) for data in manifests]
    blocks = [
        bytes(each.buffer[start:end])
        for each in inflated
        for _, start, end in each.extents.tolist()
    ]
    found = {
        "inflated": sum(map(len, blocks)),
        "deflated_in": sum(map(len, manifests)),
        "deflated_out": sum(len(relocate_manifest(each, MOVES, {})) for each in manifests),
    }
    for level in range(4):
        packed = [igzip_lib.compress(b, level=level, flag=igzip_lib.COMP_DEFLATE) for b in blocks]
        found[f"isal_level_{level}"] = sum(map(len, packed))
    return found


def show(report: dict[str, Any]) -> None:
    reader = report["rates"][PYICEBERG]
    print(f"{report['entries']:,} entries, {COLUMNS} columns of statistics, one core\n")
    print(f"{'':60} {'entries/s':>12} {'x pyiceberg':>12} {'target':>12}")
    for name, found in report["rates"].items():
        target = f"{TARGETS[name]:,}" if name in TARGETS else ""
        print(f"{name:60} {found:12,.0f} {found / reader:12.1f} {target:>12}")
    print()
    for name, reference in REFERENCE.items():
        there = f"{report['rates'][name] / reference:.2f} x where the targets were set"
        print(f"{name:60} {there}")
    print()
    for name, size in report["sizes"].items():
        print(f"{name:60} {size:12,} bytes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory() as folder:
        report = measure(Path(folder))
    print(json.dumps(report, indent=2)) if args.json else show(report)


if __name__ == "__main__":
    main()
