"""How long commands that only read take as whole processes: `bcn --help`, `list`, `describe`."""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import time
from typing import Any

from bench.command import BCN, bcn, start_backup, write_settings
from bench.table import BenchTable, make_table, scratch

BOUND_SECONDS = 0.5
TURNS = 9
_TABLE = BenchTable(64, 1_000)


def _seconds(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - started


def run(turns: int = TURNS) -> dict[str, Any]:
    """Seconds of each command, turn by turn, in a repository with two PITs."""
    table = make_table(_TABLE)
    with scratch("startup-") as folder:
        settings = write_settings(folder, table)
        for _ in range(2):
            _, errors = (process := start_backup(settings)).communicate()
            if process.returncode != 0:
                raise RuntimeError(f"the backup failed with {process.returncode}: {errors}")
        commands = {
            "bcn --help": [str(BCN), "--help"],
            "bcn list": bcn(settings, "list"),
            "bcn describe": bcn(settings, "describe"),
        }
        turned = [{name: _seconds(words) for name, words in commands.items()} for _ in range(turns)]
    medians = {name: statistics.median(turn[name] for turn in turned) for name in commands}
    return {
        "turns": turned,
        "median_seconds": medians,
        "best_seconds": {name: min(turn[name] for turn in turned) for name in commands},
        "bound_seconds": BOUND_SECONDS,
        "holds": {name: seconds <= BOUND_SECONDS for name, seconds in medians.items()},
    }


def show(result: dict[str, Any]) -> None:
    """The figures for people."""
    print("\nwhole processes")
    for name, median in result["median_seconds"].items():
        verdict = "holds" if result["holds"][name] else "DOES NOT HOLD"
        best = result["best_seconds"][name]
        bound = result["bound_seconds"]
        print(f"  {name:14} median {median:.2f} s  best {best:.2f} s  at most {bound} s: {verdict}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args()
    result = run()
    print(json.dumps(result, indent=2)) if args.json else show(result)


if __name__ == "__main__":
    main()
