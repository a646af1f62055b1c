"""Peak resident memory of a backup of a table with very many live files.

`bcn backup` runs as a process of its own. Every 100 ms the resident memory of that process and of
its JVM is read from /proc and added up; the Python workers that the JVM starts are counted apart.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.command import start_backup, write_settings
from bench.table import BenchTable, Content, make_table, scratch

FILES = 1_000_000
BOUND_BYTES = 1_500_000_000
_FILE_BYTES = 4_096
_INTERVAL_SECONDS = 0.1


@dataclass(frozen=True)
class Sample:
    """Resident bytes at one moment."""

    bcn: int
    jvm: int
    workers: int

    @property
    def counted(self) -> int:
        return self.bcn + self.jvm


def resident_bytes(pid: int) -> int:
    """Resident memory of a process, 0 when it is gone."""
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def _children() -> dict[int, list[int]]:
    found: dict[int, list[int]] = defaultdict(list)
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        found[int(fields[1])].append(int(path.parent.name))
    return found


def _descendants(pid: int, children: dict[int, list[int]]) -> Iterator[int]:
    for child in children.get(pid, []):
        yield child
        yield from _descendants(child, children)


def _is_java(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() == "java"
    except OSError:
        return False


def take_sample(pid: int) -> Sample:
    """The process, its JVM, and all else below it."""
    below = list(_descendants(pid, _children()))
    jvms = [child for child in below if _is_java(child)]
    workers = sum(resident_bytes(child) for child in below if child not in jvms)
    return Sample(resident_bytes(pid), sum(map(resident_bytes, jvms)), workers)


def _watch(process: subprocess.Popen[str]) -> list[Sample]:
    samples = []
    while process.poll() is None:
        samples.append(take_sample(process.pid))
        time.sleep(_INTERVAL_SECONDS)
    return samples


def run(files: int = FILES) -> dict[str, Any]:
    """Back a table of so many files up, and say what that took."""
    table = make_table(BenchTable(files, _FILE_BYTES, Content.SPARSE))
    with scratch("memory-") as folder:
        started = time.perf_counter()
        process = start_backup(write_settings(folder, table))
        samples = _watch(process)
        seconds = time.perf_counter() - started
        output, errors = process.communicate()
    if process.returncode != 0:
        raise RuntimeError(f"the backup failed with {process.returncode}: {errors}")
    report = json.loads(output)
    peak = max(samples, key=lambda sample: sample.counted)
    return {
        "files": files,
        "seconds": seconds,
        "seconds_by_phase": report["seconds"],
        "samples": len(samples),
        "peak_bytes": peak.counted,
        "peak_bcn_bytes": max(sample.bcn for sample in samples),
        "peak_jvm_bytes": max(sample.jvm for sample in samples),
        "peak_workers_bytes": max(sample.workers for sample in samples),
        "bound_bytes": BOUND_BYTES,
        "holds": peak.counted < BOUND_BYTES,
    }


def show(result: dict[str, Any]) -> None:
    """The figures for people."""
    verdict = "holds" if result["holds"] else "DOES NOT HOLD"
    print(f"\nbackup of a table with {result['files']:,} live files: {result['seconds']:.0f} s")
    print(
        f"  bcn and its JVM  peak {result['peak_bytes'] / 1e6:7.0f} MB"
        f"  below {result['bound_bytes'] / 1e6:.0f} MB: {verdict}"
    )
    for name in ("bcn", "jvm", "workers"):
        print(f"  {name:15}  peak {result[f'peak_{name}_bytes'] / 1e6:7.0f} MB alone")
    print("  seconds by phase:", result["seconds_by_phase"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--files", type=int, default=FILES, help="fewer, to try it")
    args = parser.parse_args()
    result = run(args.files)
    print(json.dumps(result, indent=2)) if args.json else show(result)


if __name__ == "__main__":
    main()
