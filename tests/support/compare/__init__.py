"""Judges restores without the product's own rewriting code, so that it shares none of its faults.

A *difference* names the rule that was broken: G1 rows, G2 metadata.json, G3 manifests, G4 leftover
roots, G5 files and sizes, G7 the table can still be written.
"""

from tests.support.compare.documents import Policy
from tests.support.compare.paths import Difference, Moves, local_path
from tests.support.compare.rows import jvm_rows, pyiceberg_rows, spark_rows
from tests.support.compare.tables import compare_tables, referenced_files, unreferenced_files
from tests.support.compare.tree import Entry, Tree
from tests.support.compare.works import check_still_works

__all__ = [
    "Difference",
    "Entry",
    "Moves",
    "Policy",
    "Tree",
    "check_still_works",
    "compare_tables",
    "jvm_rows",
    "local_path",
    "pyiceberg_rows",
    "referenced_files",
    "spark_rows",
    "unreferenced_files",
]
