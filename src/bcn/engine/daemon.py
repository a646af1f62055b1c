"""What forks Python workers on this machine: PySpark's own daemon, out of the installed package.

Spark puts a zip of that package ahead of it on the import path. Nothing that comes out of a zip is
kept compiled: compiling it took a second of every command.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import PathFinder
from pathlib import Path


def without_copies(path: Sequence[str]) -> list[str]:
    """The import path less the zips that an installed PySpark carries of itself."""
    installed = PathFinder.find_spec("pyspark", [at for at in path if not at.endswith(".zip")])
    if installed is None or installed.origin is None:
        return [*path]  # the zips are all there is
    zips = Path(installed.origin).resolve().parent / "python" / "lib"
    return [at for at in path if Path(at).resolve().parent != zips]


def main() -> None:
    """Fork workers until Spark ends it."""
    sys.path[:] = without_copies(sys.path)
    from pyspark import daemon  # noqa: PLC0415  from where the path above finds it

    manager: Callable[[], None] = daemon.manager
    manager()


if __name__ == "__main__":
    main()
