"""Names and places with `{placeholders}`, filled in for each table. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from bcn.errors import UsageError
from bcn.model import TableId, check_name

_TOKEN = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


def fill_name(template: str, source: TableId) -> str:
    """The name of a restored table, from `{table}` and `{database}` of its old one.

    Levels of a database are joined by `_`: a dot would have to be quoted everywhere.
    """
    values = {"table": source.name, "database": "_".join(source.namespace)}
    return check_name(_fill("--target-table", template, values))


def fill_location(template: str, catalog: str, table: TableId) -> str:
    """The place of a restored table, from the names that it gets; levels become folders."""
    values = {"catalog": catalog, "database": "/".join(table.namespace), "table": table.name}
    return _fill("--target-location", template, values).rstrip("/")


def is_template(text: str) -> bool:
    """Whether a text gives different results for different tables."""
    return any(match[1] is not None for match in _TOKEN.finditer(text))


def _fill(option: str, template: str, values: Mapping[str, str]) -> str:
    known = ", ".join(f"{{{name}}}" for name in sorted(values))

    def replace(match: re.Match[str]) -> str:
        if match[0] in {"{{", "}}"}:
            return match[0][0]
        if match[1] not in values:
            raise UsageError(
                f"{option} {template!r} has the unknown placeholder {match[0]!r}",
                hint=f"{option} knows {known}; a brace itself is written twice",
            )
        return values[match[1]]

    return _TOKEN.sub(replace, template)
