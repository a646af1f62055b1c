"""Tables to play with, written by Spark into a catalog of a settings file.

`python -m examples.sample --config bcn-stack/bcn.toml` fills the first catalog of the file, another
one with `--catalog NAME`. Tables of these names must not be there.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from bcn import BcnError, load_settings
from examples.demo_warehouse import FIRST_WEEKS, ON_READ, DemoFailedError, tell
from examples.session import open_session

TABLES = ("sales.orders", "sales.order_lines", "crm.segments")


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the tables; 0 if all of it went well."""
    parser = argparse.ArgumentParser(prog="python -m examples.sample", description=__doc__)
    parser.add_argument("--config", type=Path, required=True, metavar="FILE")
    parser.add_argument("--catalog", metavar="NAME")
    given = parser.parse_args(arguments)
    try:
        settings = load_settings(given.config, os.environ, Path.cwd())
        write(given.config, given.catalog or next(iter(settings.catalogs)))
    except (BcnError, DemoFailedError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


def write(config: Path, catalog: str) -> None:
    """The databases and tables, and a line for each table."""
    with open_session(config, **ON_READ) as spark:
        spark.catalog.setCurrentCatalog(catalog)
        for database in sorted({table.partition(".")[0] for table in TABLES}):
            spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {database}")
        for chapter in FIRST_WEEKS:
            if chapter.table in TABLES:
                tell(spark, chapter)
                sys.stdout.write(f"{chapter.table:<18} {chapter.story}\n")
                sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
