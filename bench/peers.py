"""The programs that bcn is measured against: `cp` and restic, from the system's own packages."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

_PASSWORD = {"RESTIC_PASSWORD": "bench"}


def find_restic() -> str | None:
    """restic, out of Debian's packages where it is missing; None, said aloud, if that fails."""
    found = shutil.which("restic")
    if found is not None:
        return found
    print("installing restic: apt-get install -y restic", flush=True)
    try:
        done = subprocess.run(
            ["apt-get", "install", "-y", "restic"], capture_output=True, text=True, check=False
        )
        reason = (done.stderr or done.stdout).strip().splitlines()[-1:] or [""]
    except OSError as error:
        reason = [str(error)]
    found = shutil.which("restic")
    if found is None:
        print(f"restic cannot be had here, its rows stay empty: {reason[0]}", flush=True)
    return found


def version_of(restic: str) -> str:
    """What it says of itself."""
    return subprocess.run(
        [restic, "version"], capture_output=True, text=True, check=True
    ).stdout.strip()


def run_cp(source: Path, target: Path) -> float:
    """Seconds of `cp -r` and the `sync` after it."""
    started = time.perf_counter()
    subprocess.run(["cp", "-r", str(source), str(target)], check=True)
    subprocess.run(["sync"], check=True)
    return time.perf_counter() - started


def run_restic(restic: str, source: Path, target: Path, cache: Path) -> float:
    """Seconds of `restic backup --compression off`; its repository is made beforehand."""
    command = [restic, "--repo", str(target), "--cache-dir", str(cache), "--quiet"]
    environment = os.environ | _PASSWORD
    subprocess.run([*command, "init"], check=True, env=environment)
    subprocess.run(["sync"], check=True)
    started = time.perf_counter()
    subprocess.run(
        [*command, "backup", "--compression", "off", str(source)], check=True, env=environment
    )
    return time.perf_counter() - started
