"""`python -m bcn` is `bcn`."""

from __future__ import annotations

import os
import signal
from typing import NoReturn


def main() -> NoReturn:
    """The process `bcn`; one that is stopped before it has begun has nothing to say."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _frame: os._exit(128 + number))
    from bcn.cli.main import main as run  # noqa: PLC0415  from here on a stop ends it quietly

    run()


if __name__ == "__main__":
    main()
