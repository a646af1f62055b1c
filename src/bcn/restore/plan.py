"""Deciding a restore: which tables, under which names, where, with which moves. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase

from bcn.errors import NoSuchNamespaceError, NoSuchTableError, UsageError
from bcn.iceberg.relocate import Move, Moves, lies_under
from bcn.model import PitId, TableId, join_names
from bcn.repository.entry import Entry
from bcn.repository.pit import ObjectRecord, PitManifest
from bcn.storage.protocol import StorageSpec


class UuidPolicy(StrEnum):
    """What identity a restored table gets."""

    AUTO = "auto"
    KEEP = "keep"
    NEW = "new"


@dataclass(frozen=True, slots=True)
class RestoreRequest:
    """What to restore and where to. Names left out stay as they are."""

    repository: StorageSpec
    pit: PitId
    databases: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    target_catalog: str | None = None
    target_database: tuple[str, ...] | None = None
    target_table: str | None = None
    target_location: str | None = None
    map_roots: tuple[Move, ...] = ()
    uuid: UuidPolicy = UuidPolicy.AUTO
    bytes_per_second: float | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Target:
    """Where one table goes."""

    number: int
    record: ObjectRecord
    table: TableId
    location: str
    moves: Moves = field(repr=False)
    entry: Entry = field(repr=False)


def select(pit: PitManifest, request: RestoreRequest) -> list[ObjectRecord]:
    """The tables of a PIT that are asked for. Raises when a name matches nothing."""
    tables = [item for item in pit.objects if item.type == "table"]
    if request.databases:
        tables = _filtered(tables, request.databases, _database_name, NoSuchNamespaceError, pit)
    if request.tables:
        tables = _filtered(tables, request.tables, _table_name, NoSuchTableError, pit)
    if request.target_table is not None and len(tables) != 1:
        raise UsageError(f"--target-table needs one table, {len(tables)} are chosen")
    if request.target_location is not None and len(tables) != 1:
        raise UsageError(f"--target-location needs one table, {len(tables)} are chosen")
    return tables


def _database_name(item: ObjectRecord) -> tuple[str, ...]:
    return (item.table.database, join_names(item.table.namespace))


def _table_name(item: ObjectRecord) -> tuple[str, ...]:
    return (item.table.name, str(item.table))


def _filtered(
    tables: Sequence[ObjectRecord],
    patterns: Iterable[str],
    names: object,
    error: type[NoSuchNamespaceError] | type[NoSuchTableError],
    pit: PitManifest,
) -> list[ObjectRecord]:
    """Tables of which a name equals or matches a pattern; every pattern must match something."""
    chosen: list[ObjectRecord] = []
    for pattern in patterns:
        found = [
            item
            for item in tables
            if any(name == pattern or fnmatchcase(name, pattern) for name in names(item))  # type: ignore[operator]
        ]
        if not found:
            raise error(f"nothing in {pit.pit} matches {pattern!r}")
        chosen += [item for item in found if item not in chosen]
    return sorted(chosen, key=lambda item: item.table)


def target_name(item: ObjectRecord, request: RestoreRequest) -> TableId:
    """The name a table is restored under."""
    namespace = request.target_database or item.table.namespace
    return TableId(namespace, request.target_table or item.table.name)


def build_moves(entry: Entry, location: str, target: str, request: RestoreRequest) -> Moves:
    """Where every root of a table goes.

    The table's own location goes to the target; another spelling of a place inside it goes to the
    same place inside the target; any other root where --map-root says, else to `_roots/r<id>` of
    the target.
    """
    home = location.rstrip("/")
    moves = {home: Move(home, target)}
    for root in entry.roots:
        if root.spelling not in moves:
            new = _target_of(root.spelling, home, target, request.map_roots)
            moves[root.spelling] = Move(root.spelling, new or f"{target}/_roots/r{root.id}")
    for move in request.map_roots:
        moves[move.old.rstrip("/")] = Move(move.old.rstrip("/"), move.new.rstrip("/"))
    return Moves(moves.values())


def _target_of(spelling: str, home: str, target: str, mapped: Sequence[Move]) -> str | None:
    for move in sorted(mapped, key=lambda move: -len(move.old)):
        if lies_under(spelling, move.old.rstrip("/")):
            return move.new.rstrip("/") + spelling[len(move.old.rstrip("/")) :]
    plain, base = plain_spelling(spelling), plain_spelling(home)
    return target + plain[len(base) :] if lies_under(plain, base) else None


def plain_spelling(location: str) -> str:
    """One of the spellings of a local place; any other location as it is."""
    if location.startswith("file:"):
        path = location[len("file:") :]
        return path[2:] if path.startswith("//") else path
    return location
