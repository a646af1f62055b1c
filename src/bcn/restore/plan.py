"""Deciding a restore: which tables, under which names, where, with which moves. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from bcn.errors import UsageError
from bcn.iceberg.relocate import Move, Moves, lies_under
from bcn.model import PitId, TableId
from bcn.repository.entry import Entry
from bcn.repository.pit import ObjectRecord, PitManifest
from bcn.restore.template import fill_name, is_template
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
    exclude: tuple[str, ...] = ()
    include_deleted: bool = False
    target_catalog: str | None = None
    target_database: tuple[str, ...] | None = None
    target_table: str | None = None
    target_location: str | None = None
    map_roots: tuple[Move, ...] = ()
    uuid: UuidPolicy = UuidPolicy.AUTO
    overwrite: bool = False
    bytes_per_second: float | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Source:
    """An object as one PIT holds it; `deleted_at` if the PIT that is restored has it no more."""

    record: ObjectRecord
    pit: PitManifest = field(repr=False)
    deleted_at: str | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """Where one table or view goes."""

    number: int
    source: Source
    table: TableId
    location: str
    moves: Moves = field(repr=False)
    entry: Entry = field(repr=False)
    replaces: str | None = None  # the metadata file of the table whose place it takes
    comes_back: bool = False  # in the place of a table: to its own catalog, under its own name

    @property
    def record(self) -> ObjectRecord:
        """What its PIT says of it."""
        return self.source.record

    @property
    def keeps_uuid(self) -> bool:
        """Whether it is the same table to its readers, unless they are told otherwise."""
        return self.moves.is_identity or self.comes_back


def place_beside(location: str, pit: PitId) -> str:
    """Where a table is built that takes the place of another: the same in every run.

    Raises UsageError for a table that has a whole bucket: nothing is beside that.
    """
    _, scheme, path = location.partition("://")
    if scheme and "/" not in path:
        raise UsageError(f"nothing is beside {location}", hint="say a place with --target-location")
    start, _, end = location.rpartition("-")
    base = location if PitId.find(end) is None else start  # it took another's place itself
    return f"{base}-{pit}"


def target_name(table: TableId, request: RestoreRequest) -> TableId:
    """The name that a table or view is restored under."""
    template = request.target_table
    name = table.name if template is None else fill_name(template, table)
    return TableId(request.target_database or table.namespace, name)


def check_templates(request: RestoreRequest, count: int) -> None:
    """Raises UsageError if several tables would have to share one name or place."""
    for option, text in (
        ("--target-table", request.target_table),
        ("--target-location", request.target_location),
    ):
        if text is not None and count != 1 and not is_template(text):
            raise UsageError(
                f"{option} {text!r} is for one table, {count} are chosen",
                hint=f"choose one with --table, or write {{table}} and {{database}} in {option}",
            )


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
    if not lies_under(plain, base):
        return None
    # Restored where it was, nothing moves: not even from one spelling to the other.
    return spelling if target == home else target + plain[len(base) :]


def plain_spelling(location: str) -> str:
    """One of the spellings of a local place; any other location as it is."""
    if location.startswith("file:"):
        path = location[len("file:") :]
        return path[2:] if path.startswith("//") else path
    return location
