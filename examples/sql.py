"""SQL on the catalogs of a settings file, by Spark.

`python -m examples.sql --config bcn-stack/bcn.toml "SHOW NAMESPACES IN hive_catalog"`; several
statements are parted by semicolons, and run in turn until one fails.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from bcn import BcnError
from examples.demo_warehouse import DemoFailedError
from examples.session import open_session


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the statements and show what they give; 0 if all of it went well."""
    parser = argparse.ArgumentParser(prog="python -m examples.sql", description=__doc__)
    parser.add_argument("--config", type=Path, required=True, metavar="FILE")
    parser.add_argument("sql", metavar="SQL")
    given = parser.parse_args(arguments)
    try:
        run(given.config, [text.strip() for text in given.sql.split(";") if text.strip()])
    except (BcnError, DemoFailedError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


def run(config: Path, statements: Sequence[str]) -> None:
    """Each statement; those that give rows show up to 20. Raises DemoFailedError."""
    with open_session(config) as spark:
        from pyspark.errors import PySparkException  # noqa: PLC0415  after the environment is set

        logging.disable()  # PySpark would print every error in full before it raises it
        for statement in statements:
            try:
                frame = spark.sql(statement)
                if frame.columns:
                    frame.show(truncate=False)
            except PySparkException as error:
                reason = str(error).split("\n", 1)[0]
                raise DemoFailedError(f"{statement}: {reason}") from error
            sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
