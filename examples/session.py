"""A Spark session that knows the catalogs of a settings file by their names there."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bcn import load_settings
from bcn.catalog.spark_side import spark_side
from examples.demo_warehouse import start_spark


@contextmanager
def open_session(config: Path, **options: str) -> Iterator[Any]:
    """A small local session, gone afterwards; `options` are properties of all catalogs."""
    settings = load_settings(config, os.environ, Path.cwd())
    with tempfile.TemporaryDirectory(prefix="bcn-spark-") as scratch:
        spark = start_spark(Path(scratch))
        try:
            for catalog in settings.catalogs.values():
                side = spark_side(catalog)
                prefix = f"spark.sql.catalog.{side.name}"
                more = {f"{prefix}.{key}": value for key, value in options.items()}
                for key, value in {**side.settings, **more}.items():
                    if key.startswith(prefix):
                        spark.conf.set(key, value)
            yield spark
        finally:
            spark.stop()
