"""Objects by the names and patterns that people type, with the nearest name where none fits."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from bcn.errors import NoSuchNamespaceError, NoSuchTableError
from bcn.model import TableId, join_names
from bcn.repository.nearest import did_you_mean
from bcn.repository.pit import PitManifest


@dataclass(frozen=True, slots=True)
class Chosen:
    """Databases and tables by name or pattern; none given means all."""

    databases: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()

    def takes(self, table: TableId) -> bool:
        """Whether a table or view is asked for."""
        names = (table.name, str(table))
        return self.takes_database(table.database) and _matches(self.tables, names)

    def takes_database(self, name: str) -> bool:
        """Whether a database is asked for."""
        return _matches(self.databases, (name,))

    def check(self, pits: Sequence[PitManifest]) -> None:
        """Raises NoSuchTableError or NoSuchNamespaceError for a name that nothing matches."""
        where = " or ".join(dict.fromkeys(str(pit.pit) for pit in pits))
        tables = {record.table for pit in pits for record in pit.objects}
        tables |= {item.table for pit in pits for item in pit.failed}
        spaces = {join_names(item.levels) for pit in pits for item in pit.namespaces}
        spaces |= {table.database for table in tables}
        for pattern in self.databases:
            if not any(_matches((pattern,), (name,)) for name in spaces):
                raise NoSuchNamespaceError(
                    f"no database {pattern!r} in {where}{did_you_mean(pattern, spaces)}"
                )
        for pattern in self.tables:
            if not any(_matches((pattern,), (one.name, str(one))) for one in tables):
                raise NoSuchTableError(
                    f"no table {pattern!r} in {where}{nearest_table(pattern, tables)}"
                )


def _matches(patterns: Iterable[str], names: Iterable[str]) -> bool:
    patterns = tuple(patterns)
    return not patterns or any(
        name == pattern or fnmatchcase(name, pattern) for pattern in patterns for name in names
    )


def nearest_table(text: str, tables: Iterable[TableId]) -> str:
    """The end of a message: the nearest table, by its full name or by the last part of it."""
    names = {str(table): str(table) for table in sorted(tables)}
    names |= {table.name: str(table) for table in sorted(tables)}
    near = difflib.get_close_matches(text, list(names), n=1)
    return f", did you mean {names[near[0]]!r}?" if near else ""
