"""Settings files of tests, from plain values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

# What a command's own Spark needs in a test: little, and quickly.
QUICK_SPARK = {
    "master": "local[2]",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def write_settings(path: Path, sections: Mapping[str, Mapping[str, str]], **spark: str) -> None:
    """A `bcn.toml`; sections by their whole names, and what Spark is told beside the usual."""
    lines: list[str] = []
    for name, values in {**sections, "spark": {**QUICK_SPARK, **spark}}.items():
        lines += [f"[{name}]", *(f"{json.dumps(k)} = {json.dumps(v)}" for k, v in values.items())]
    path.write_text("\n".join((*lines, "")))
