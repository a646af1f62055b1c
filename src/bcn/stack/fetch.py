"""What servers need and the machine lacks: fetched once, by name and version."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from bcn.errors import ServerError


def servers_home() -> Path:
    """The folder of the Python environment that keeps them."""
    return Path(sys.prefix) / "servers"


def pyspark_jars() -> Path:
    """The jars that PySpark brings; found without importing it."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ServerError("pyspark is not installed")
    return Path(spec.origin).parent / "jars"


def fetch_jars(name: str, ivy: str) -> Path:
    """The folder with all jars that an ivy document names, fetched if it is not there yet."""
    home = servers_home() / name
    if home.is_dir():
        return home
    _make(servers_home())
    with tempfile.TemporaryDirectory(dir=servers_home()) as folder:
        document = Path(folder) / "ivy.xml"
        document.write_text(ivy)
        tool = next(pyspark_jars().glob("ivy-2*.jar"))
        _run(
            [
                *("java", "-jar", str(tool), "-ivy", str(document)),
                *("-cache", str(servers_home() / "ivy"), "-confs", "default"),
                *("-types", "jar", "bundle", "-warn"),
                *("-retrieve", f"{folder}/lib/[artifact]-[revision](-[classifier]).[ext]"),
            ],
            f"the jars of {name}",
        )
        _move_in(Path(folder) / "lib", home)
    return home


def fetch_go(name: str, package: str, version: str) -> Path:
    """A program, built from its Go module if it is not there yet."""
    program = servers_home() / "bin" / name
    if program.is_file():
        return program
    _make(program.parent)
    with tempfile.TemporaryDirectory(dir=servers_home()) as folder:
        environ = {**os.environ, "GOBIN": folder, "CGO_ENABLED": "0"}
        _run(["go", "install", f"{package}@{version}"], name, environ)
        _move_in(Path(folder) / name, program)
    return program


def fetch_npm(name: str, version: str) -> Path:
    """The folder with a Node package and all that it needs, fetched if it is not there yet."""
    home = servers_home() / name
    if home.is_dir():
        return home
    _make(servers_home())
    with tempfile.TemporaryDirectory(dir=servers_home()) as folder:
        options = ("--no-audit", "--no-fund", "--ignore-scripts", "--no-package-lock")
        new = Path(folder) / name
        _run(["npm", "install", "--prefix", str(new), *options, f"{name}@{version}"], name)
        _move_in(new, home)
    return home


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ServerError(
            f"cannot make {folder}: {(error.strerror or str(error)).lower()}",
            hint="install bcn into a Python environment of your own, see 'python -m venv'",
        ) from None


def _move_in(new: Path, place: Path) -> None:
    """Two that fetch at once: the first one's stays."""
    try:
        new.rename(place)
    except OSError:
        if not place.exists():
            raise


def _run(command: Sequence[str], what: str, environ: dict[str, str] | None = None) -> None:
    if shutil.which(command[0]) is None:
        raise ServerError(f"cannot fetch {what}: there is no {command[0]!r} on this machine")
    done = subprocess.run(command, capture_output=True, text=True, env=environ, check=False)  # noqa: S603  a command of ours
    if done.returncode:
        last = " / ".join((done.stdout + done.stderr).splitlines()[-3:])
        raise ServerError(f"cannot fetch {what}: {last}")
