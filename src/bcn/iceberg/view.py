"""A view's metadata document: moved to another place and other names, its SQL kept as it is.

Documents are edited, never rebuilt. What the SQL names is found by its tokens, not by a parser:
dialects differ, and a name in a text that we do not rewrite is only ever reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from bcn.errors import MalformedFileError, UnsupportedTableError
from bcn.iceberg.relocate import Moves
from bcn.model import Json, TableId

VIEW_FORMAT = 1
_METADATA_PATH = "write.metadata.path"

_PART = r'(?:`(?:[^`]|``)+`|"(?:[^"]|"")+"|\w+)'
_TOKEN = re.compile(
    rf"'(?:[^'\\]|\\.|'')*'|--[^\n]*|/\*.*?\*/|(?P<name>{_PART}(?:\s*\.\s*{_PART})*)", re.DOTALL
)
_LEVEL = re.compile(_PART)


@dataclass(frozen=True, slots=True)
class Renaming:
    """What a restore calls catalog, databases, tables and views; what is not there keeps its name.

    `tables` has everything that is restored, renamed or not.
    """

    old_catalog: str
    new_catalog: str
    tables: Mapping[TableId, TableId] = field(default_factory=dict)
    namespaces: Mapping[tuple[str, ...], tuple[str, ...]] = field(default_factory=dict)


def check_view(document: Json) -> None:
    """Raises UnsupportedTableError for another format, MalformedFileError for no view."""
    version = document.get("format-version")
    if version != VIEW_FORMAT:
        raise UnsupportedTableError(f"view format version {version!r} is not {VIEW_FORMAT}")
    if not isinstance(document.get("location"), str) or not document["location"]:
        raise MalformedFileError("view metadata has no location")
    versions = _versions(document)
    current = document.get("current-version-id")
    if current not in [item.get("version-id") for item in versions]:
        raise MalformedFileError(f"view metadata has no version {current!r}, its current one")


def relocate_view(document: Json, moves: Moves, *, uuid: str | None, renaming: Renaming) -> Json:
    """A document that differs in its place, the names it is resolved by, and its uuid if given.

    A path property outside of what moves stays as it is.
    """
    changed: Json = {
        **document,
        "location": moves.apply(document["location"]),
        "versions": [_rename_defaults(item, renaming) for item in _versions(document)],
    }
    properties = document.get("properties")
    if isinstance(properties, dict) and isinstance(properties.get(_METADATA_PATH), str):
        path = properties[_METADATA_PATH]
        moved = moves.apply(path) if moves.find(path) else path
        changed["properties"] = {**properties, _METADATA_PATH: moved}
    if uuid is not None and document.get("view-uuid") is not None:
        changed["view-uuid"] = uuid
    return changed


def _versions(document: Json) -> list[Json]:
    versions = document.get("versions")
    if not isinstance(versions, list) or not all(isinstance(item, dict) for item in versions):
        raise MalformedFileError(f"versions of a view are {versions!r}")
    return versions


def _rename_defaults(version: Json, renaming: Renaming) -> Json:
    changed = dict(version)
    if not _is_ours(version, renaming):
        return changed
    if version.get("default-catalog") is not None:
        changed["default-catalog"] = renaming.new_catalog
    if "default-namespace" in version:
        namespace = _default_namespace(version)
        changed["default-namespace"] = list(renaming.namespaces.get(namespace, namespace))
    return changed


def _is_ours(version: Json, renaming: Renaming) -> bool:
    """Whether names without a catalog are looked up in the catalog that the view is in."""
    return version.get("default-catalog") in {None, renaming.old_catalog}


def _default_namespace(version: Json) -> tuple[str, ...]:
    namespace = version.get("default-namespace") or []
    if not isinstance(namespace, list) or not all(isinstance(level, str) for level in namespace):
        raise MalformedFileError(f"default-namespace of a view is {namespace!r}")
    return tuple(namespace)


# what the SQL names


def moved_references(document: Json, renaming: Renaming) -> dict[TableId, TableId]:
    """Tables and views that the current SQL names and would not find under their new names."""
    current = document.get("current-version-id")
    found: dict[TableId, TableId] = {}
    for version in _versions(document):
        if version.get("version-id") == current:
            for text in _texts(version):
                found.update(_moved(text, version, renaming))
    return found


def _texts(version: Json) -> Iterator[str]:
    for item in version.get("representations") or []:
        if isinstance(item, dict) and isinstance(item.get("sql"), str):
            yield item["sql"]


def _moved(text: str, version: Json, renaming: Renaming) -> Iterator[tuple[TableId, TableId]]:
    home = _default_namespace(version)
    new_home = renaming.namespaces.get(home, home)
    for levels in _names(text):
        if len(levels) > 1 and levels[0] == renaming.old_catalog:
            old = TableId(levels[1:-1], levels[-1])
            finds: tuple[str, TableId] = (renaming.old_catalog, old)
            if old in renaming.tables and finds != (renaming.new_catalog, renaming.tables[old]):
                yield old, renaming.tables[old]
        if _is_ours(version, renaming):
            old = TableId(levels[:-1] or home, levels[-1])
            new = TableId(levels[:-1] or new_home, levels[-1])
            if old in renaming.tables and new != renaming.tables[old]:
                yield old, renaming.tables[old]


def _names(text: str) -> Iterator[tuple[str, ...]]:
    """Dotted names outside of strings and comments."""
    for match in _TOKEN.finditer(text):
        if match["name"] is not None:
            yield tuple(_unquote(level) for level in _LEVEL.findall(match["name"]))


def _unquote(level: str) -> str:
    sign = level[0]
    return level[1:-1].replace(sign * 2, sign) if sign in '`"' else level
