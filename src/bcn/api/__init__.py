"""bcn from Python: one typed function for each command; the command line calls these and no others.

Names, locations and PITs are given as people type them; `settings` are those of the current folder
unless given. Every failure is a BcnError. What a function needs is imported when it is called, so
that commands which only read start at once.
"""

from __future__ import annotations

from bcn.api.configured import check_config, show_config, spark_config
from bcn.api.parts import find_catalog, find_repository, parse_scope
from bcn.api.reading import describe, diff, list_objects, list_pits, log
from bcn.api.restoring import restore, verify
from bcn.api.stacks import down, up
from bcn.api.upkeep import prune, repair
from bcn.api.writing import InitReport, backup, init, unlock

__all__ = [
    "InitReport",
    "backup",
    "check_config",
    "describe",
    "diff",
    "down",
    "find_catalog",
    "find_repository",
    "init",
    "list_objects",
    "list_pits",
    "log",
    "parse_scope",
    "prune",
    "repair",
    "restore",
    "show_config",
    "spark_config",
    "unlock",
    "up",
    "verify",
]
