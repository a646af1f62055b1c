"""The examples of docs/json-output.md, and whether what a command printed looks like one."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[2] / "docs"
_BLOCK = re.compile(r"```json ([^\n]+)\n(.*?)```", re.DOTALL)
_FREE = {"seconds", "labels"}  # keys are phases, and what people chose


def examples() -> dict[str, Any]:
    text = (DOCS / "json-output.md").read_text()
    return {name: json.loads(block) for name, block in _BLOCK.findall(text)}


def differences(printed: Any, example: Any, where: str = "") -> list[str]:
    """Where the keys, or the kinds of values, are not those of the example."""
    if isinstance(printed, dict) and isinstance(example, dict):
        return _of_objects(printed, example, where)
    if isinstance(printed, list) and isinstance(example, list):
        return [text for item in printed for text in _of_items(item, example, where)]
    if printed is None or example is None or type(printed) is type(example):
        return []
    return [f"{where}: {printed!r} is not like {example!r}"]


def _of_objects(printed: dict[str, Any], example: dict[str, Any], where: str) -> list[str]:
    if where.rsplit(".", 1)[-1] in _FREE:
        return []
    found = [f"{where}.{key}: only one has it" for key in printed.keys() ^ example.keys()]
    for key in printed.keys() & example.keys():
        found += differences(printed[key], example[key], f"{where}.{key}")
    return found


def _of_items(item: Any, examples_: list[Any], where: str) -> list[str]:
    """An item must be like one of those in the example."""
    attempts = [differences(item, example, f"{where}[]") for example in examples_]
    return min(attempts, key=len) if attempts else []
