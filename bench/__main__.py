"""All measurements in one run, each bound beside what was measured: `python -m bench [--json]`."""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from bench import backup, capture, listing, many, memory, startup, stores
from bench.peers import find_restic, version_of
from bench.walker import DEFLATE, INFLATE, PYICEBERG

_PYICEBERG_BOUND = 16
_PEERS = {"cp": "cp -r, sync", "restic": "restic"}


@dataclass(frozen=True)
class Row:
    """One bound of the table."""

    what: str
    measured: str
    peer: str
    bound: str
    holds: bool | None  # None where the peer is missing


def run_walker() -> dict[str, Any]:
    """The walker's figures, from a process of its own: it binds itself to one core."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.walker", "--json"],
        check=True,
        capture_output=True,
        text=True,
    )
    return dict(json.loads(done.stdout))


def walker_rows(result: dict[str, Any]) -> Iterator[Row]:
    rates, reader = result["rates"], result["rates"][PYICEBERG]
    peers = {"decode": f"zlib inflates {rates[INFLATE]:,.0f}"}
    peers["rewrite"] = f"zlib -1 deflates {rates[DEFLATE]:,.0f}"
    for name, bound in result["targets"].items():
        rate, what, here = rates[name], name.removeprefix("bcn: "), result["bounds_here"][name]
        yield Row(
            what,
            f"{rate:,.0f} entries/s",
            peers.get(what.partition(" ")[0], f"pyiceberg reads {reader:,.0f}"),
            f">= {bound:,}" + (f" ({here:,.0f})" if here < bound else ""),
            rate >= here,
        )
    ratio = result["times_pyiceberg"]
    yield Row(
        "decode deflated manifests, beside pyiceberg's reader",
        f"{ratio:.0f} x",
        f"{reader:,.0f} entries/s",
        f">= {_PYICEBERG_BOUND} x",
        ratio >= _PYICEBERG_BOUND,
    )


def backup_rows(results: list[dict[str, Any]]) -> Iterator[Row]:
    for result in results:
        ours = result["median_seconds"]["bcn"]
        for peer, bound in result["bounds"].items():
            measured, beside = f"{ours:.2f} s", f"no {peer} here"
            if peer in result["ratios"]:
                measured += f", {result['ratios'][peer]:.2f} x"
                beside = f"{_PEERS[peer]}: {result['median_seconds'][peer]:.2f} s"
            what = f"full backup of {result['name']}"
            yield Row(what, measured, beside, f">= {bound} x", result["holds"].get(peer))


def startup_rows(result: dict[str, Any]) -> Iterator[Row]:
    for name, seconds in result["median_seconds"].items():
        bound = f"<= {result['bound_seconds']} s"
        yield Row(f"{name}, whole process", f"{seconds:.2f} s", "", bound, result["holds"][name])


def many_rows(result: dict[str, Any]) -> Iterator[Row]:
    names = {
        "first": "first backup, Spark up",
        "changed": f"backup with {many.CHANGED} changed, Spark up",
        "no-op": "backup with nothing new, whole process, no java",
    }
    for name, seconds in result["seconds"].items():
        what, bound = f"{result['tables']:,} tables: {names[name]}", result["bounds"][name]
        yield Row(what, f"{seconds:.2f} s", "", f"<= {bound:g} s", result["holds"][name])


def listing_rows(result: dict[str, Any]) -> Iterator[Row]:
    where = f"{result['tables']:,} tables, {result['pits']:,} PITs"
    for name, seconds in result["median_seconds"].items():
        bound = f"<= {result['bounds'][name]} s"
        yield Row(f"bcn {name}: {where}", f"{seconds:.2f} s", "", bound, result["holds"][name])


def stores_rows(results: list[dict[str, Any]]) -> Iterator[Row]:
    for result in results:
        ours, peer = result["median_seconds"]["bcn"], result["peer"]
        measured = f"{ours:.2f} s, {result['ratio']:.2f} x"
        beside = f"{peer}: {result['median_seconds'][peer]:.2f} s"
        yield Row(result["name"], measured, beside, f">= {result['bound']} x", result["holds"])


def capture_rows(result: dict[str, Any]) -> Iterator[Row]:
    for name, seconds in result["median_seconds"].items():
        what = f"{name}: {result['tables']:,} tables captured, no Spark"
        bound = f"<= {result['bound_seconds']:g} s"
        yield Row(what, f"{seconds:.2f} s", "", bound, result["holds"][name])


def memory_rows(result: dict[str, Any]) -> Iterator[Row]:
    yield Row(
        f"backup of {result['files']:,} live files: bcn and its JVM",
        f"{result['peak_bytes'] / 1e9:.2f} GB",
        "",
        f"< {result['bound_bytes'] / 1e9} GB",
        result["holds"],
    )


def show_head() -> None:
    """The table's first line; rows follow as they are measured."""
    print(f"\n{'what':62} {'bcn':>22}  {'peer':28} {'bound':20} holds")


def show(rows: list[Row]) -> None:
    """Rows of the table."""
    words = {True: "yes", False: "NO", None: "-"}
    for row in rows:
        print(
            f"{row.what:62} {row.measured:>22}  {row.peer:28} {row.bound:20} {words[row.holds]}",
            flush=True,
        )


def machine() -> dict[str, Any]:
    """Where this was measured, and what else was going on."""
    restic = find_restic()
    return {
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "load_average": os.getloadavg()[0],
        "restic": version_of(restic) if restic else None,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--turns", type=int, default=backup.TURNS, help="of backups and peers")
    parser.add_argument("--files", type=int, default=memory.FILES, help="fewer, to try it")
    parser.add_argument(
        "--only",
        choices=("walker", "backup", "startup", "listing", "many", "capture", "stores", "memory"),
        action="append",
    )
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # ends servers, deletes folders
    parts: dict[str, tuple[Callable[[], Any], Callable[[Any], Iterator[Row]]]] = {
        "walker": (run_walker, walker_rows),
        "startup": (startup.run, startup_rows),
        "listing": (listing.run, listing_rows),
        "backup": (lambda: backup.run(args.turns), backup_rows),
        "many": (many.run, many_rows),
        "capture": (capture.run, capture_rows),
        "stores": (stores.run, stores_rows),
        "memory": (lambda: memory.run(args.files), memory_rows),
    }
    report: dict[str, Any] = {"machine": machine()}
    rows: list[Row] = []
    if not args.json:
        print(json.dumps(report["machine"]))
        show_head()
    for name, (measure, to_rows) in parts.items():
        if args.only is None or name in args.only:
            print(f"measuring: {name}", file=sys.stderr, flush=True)
            report[name] = measure()
            new = list(to_rows(report[name]))
            rows += new
            if not args.json:
                show(new)
    if args.json:
        print(json.dumps({**report, "rows": [asdict(row) for row in rows]}, indent=2))


if __name__ == "__main__":
    main()
