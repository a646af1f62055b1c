"""`python -m bcn` is `bcn`."""

from __future__ import annotations

from bcn.cli.main import main

main()
