"""Choosing what to restore: names and patterns against what a PIT holds or held. Pure.

A pattern is compared in steps, and the first step at which anything matches decides: names and
object ids; names with dots in them, left unquoted; globs. So a table that is called `a[1]` can be
named, and `a.b` means two levels before it means one name with a dot.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TypeAlias, TypeVar

from bcn.errors import CatalogError, NoSuchNamespaceError, NoSuchTableError, UsageError
from bcn.model import join_names
from bcn.repository.nearest import did_you_mean
from bcn.repository.pit import DeletedObject, Namespace, ObjectRecord, PitManifest

_GLOB_SIGNS = "*?["

# An object of a PIT, or one that is gone by then and that an earlier PIT holds.
Item: TypeAlias = ObjectRecord | DeletedObject
_Levels: TypeAlias = tuple[str, ...]
_Thing = TypeVar("_Thing", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Filter:
    """What is asked for; empty means all."""

    databases: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    include_deleted: bool = False


@dataclass(frozen=True, slots=True)
class Choice:
    """Objects sorted by name, and databases that are restored even if they hold nothing."""

    items: tuple[Item, ...]
    namespaces: tuple[Namespace, ...]


def choose(pit: PitManifest, wanted: Filter) -> Choice:
    """What a filter picks. Raises when a pattern matches nothing, or when nothing is left."""
    scene = _Scene.of(pit, wanted)
    inside, namespaces = scene, list(pit.namespaces)
    if wanted.databases:
        picked = _pick_databases(scene, wanted.databases)
        inside = scene.within(picked)
        namespaces = [item for item in namespaces if item.levels in picked]
    items = list(inside.known)
    if wanted.tables:
        items, namespaces = _pick_tables(inside, wanted.tables), []
    if wanted.exclude:
        left_out = _pick_excluded(scene, wanted.exclude)
        items = [item for item in items if not left_out & {item, item.table.namespace}]
        namespaces = [item for item in namespaces if item.levels not in left_out]
        if not items and not namespaces:
            raise UsageError(
                f"--exclude leaves nothing of {pit.pit} to restore",
                hint="leave fewer out; 'bcn list --pit' shows what there is",
            )
    return Choice(tuple(sorted(items, key=lambda item: item.table)), tuple(namespaces))


@dataclass(frozen=True, slots=True)
class _Scene:
    """A PIT, what of it may be chosen, and what is gone and was not asked for."""

    pit: PitManifest
    known: Sequence[Item]
    hidden: Sequence[DeletedObject]

    @classmethod
    def of(cls, pit: PitManifest, wanted: Filter) -> _Scene:
        living = {item.object_id for item in pit.objects}
        gone = [item for item in pit.deleted if item.object_id not in living]
        if wanted.include_deleted:
            return cls(pit, [*pit.objects, *gone], [])
        return cls(pit, pit.objects, gone)

    def within(self, databases: set[_Levels]) -> _Scene:
        known = [item for item in self.known if item.table.namespace in databases]
        hidden = [item for item in self.hidden if item.table.namespace in databases]
        return _Scene(self.pit, known, hidden)

    @property
    def databases(self) -> list[_Levels]:
        held = [item.table.namespace for item in self.known]
        return list(dict.fromkeys([*held, *(item.levels for item in self.pit.namespaces)]))


def _pick_databases(scene: _Scene, patterns: Sequence[str]) -> set[_Levels]:
    picked: set[_Levels] = set()
    for pattern in patterns:
        found = _matches(pattern, scene.databases, _spell)
        if not found:
            gone = _matches(pattern, scene.hidden, lambda item: _spell(item.table.namespace))
            raise _missing(scene, "database", pattern, map(join_names, scene.databases), gone)
        picked |= set(found)
    return picked


def _pick_tables(scene: _Scene, patterns: Sequence[str]) -> list[Item]:
    picked: dict[Item, None] = {}
    for pattern in patterns:
        found = _matches(pattern, scene.known, _spell_item)
        if not found:
            gone = _matches(pattern, scene.hidden, _spell_item)
            names = [name for item in scene.known for name in (item.table.name, str(item.table))]
            raise _missing(scene, "table", pattern, names, gone)
        picked |= dict.fromkeys(found)
    return list(picked)


def _pick_excluded(scene: _Scene, patterns: Sequence[str]) -> set[Item | _Levels]:
    """Objects and databases. What is gone may be named though nobody asked for it."""
    things: list[Item | _Levels] = [*scene.databases, *scene.known, *scene.hidden]
    picked: set[Item | _Levels] = set()
    for pattern in patterns:
        found = _matches(pattern, things, _spell_any)
        if not found:
            names = [name for thing in things for name in _spell_any(thing).own]
            raise _missing(scene, "exclude", pattern, names, ())
        picked |= set(found)
    return picked


def _missing(
    scene: _Scene,
    option: str,
    pattern: str,
    names: Iterable[str],
    gone: Sequence[DeletedObject],
) -> CatalogError:
    """The error of an option's pattern that matches nothing."""
    error = NoSuchNamespaceError if option == "database" else NoSuchTableError
    pit, hint = scene.pit.pit, f"check the spelling of --{option}"
    if gone:
        last = max(gone, key=lambda item: item.last_pit_included)
        return error(
            f"{pattern!r} is not in {pit} any more",
            hint=f"{last.table} was deleted by {last.deleted_at} and is last in PIT"
            f" {last.last_pit_included}: add --include-deleted",
        )
    if any(sign in pattern for sign in _GLOB_SIGNS):
        return error(f"nothing in {pit} matches {pattern!r}", hint=hint)
    noun = "table or database" if option == "exclude" else option
    return error(f"no {noun} {pattern!r} in {pit}{did_you_mean(pattern, names)}", hint=hint)


# comparing


@dataclass(frozen=True, slots=True)
class _Names:
    """Spellings that are a thing's own, those that it may share with others, and its id."""

    own: tuple[str, ...]
    shared: tuple[str, ...]
    object_id: str | None = None

    def rank(self, pattern: str) -> int | None:
        """The step at which a pattern matches, if it does."""
        if pattern in self.own or pattern == self.object_id:
            return 0
        if pattern in self.shared:
            return 1
        is_match = any(fnmatchcase(name, pattern) for name in (*self.own, *self.shared))
        return 2 if is_match else None


def _matches(
    pattern: str, things: Sequence[_Thing], spell: Callable[[_Thing], _Names]
) -> list[_Thing]:
    """The things that the first step picks at which any is picked."""
    ranks = [spell(thing).rank(pattern) for thing in things]
    best = min((rank for rank in ranks if rank is not None), default=None)
    if best is None:
        return []
    return [thing for thing, rank in zip(things, ranks, strict=True) if rank == best]


def _spell(levels: _Levels) -> _Names:
    quoted, plain = join_names(levels), ".".join(levels)
    is_own = not any("." in level for level in levels)
    return _Names((quoted, plain) if is_own else (quoted,), (plain,))


def _spell_item(item: Item) -> _Names:
    full, name = _spell((*item.table.namespace, item.table.name)), _spell((item.table.name,))
    return _Names((*full.own, *name.own), (*full.shared, *name.shared), item.object_id)


def _spell_any(thing: Item | _Levels) -> _Names:
    return _spell(thing) if isinstance(thing, tuple) else _spell_item(thing)
