"""G4: no root of the source is left in what a restore wrote, also after decompression."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tests.support.compare.deletes import read_deletes
from tests.support.compare.documents import Json, Policy
from tests.support.compare.paths import Difference, Moves
from tests.support.compare.puffin import read_puffin
from tests.support.compare.tree import PATH_COLUMN, Entry, Tree

_NAME_BYTES = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-+=%~@")


def check_leaks(restored: Tree, moves: Moves, policy: Policy) -> list[Difference]:
    """Looks into the document, lists, manifests, live deletes and Puffin files.

    Bounds and partition values of ordinary columns are the user's data and may look like a path.
    """
    hidden = _Roots(moves)
    return [
        Difference("G4", where, f"still names {root}")
        for where, data in _iter_bytes(restored, policy)
        for root in hidden.in_bytes(data)
    ]


class _Roots:
    """The source's roots, told apart from new roots that contain them."""

    def __init__(self, moves: Moves) -> None:
        moved = {(old, new) for old, new in moves.pairs if old != new}
        self._old = sorted({old.encode() for old, _ in moved})
        self._new = sorted({new.encode() for _, new in moves.pairs}, key=len, reverse=True)

    def in_bytes(self, data: bytes) -> list[str]:
        for new in self._new:
            data = _blank(data, new)
        return [old.decode() for old in self._old if _occurs(old, data)]


def _blank(data: bytes, root: bytes) -> bytes:
    """Takes out a new root wherever it stands as a whole."""
    pieces = data.split(root)
    kept = [pieces[0]]
    for piece in pieces[1:]:
        kept.append((b"\0" if _ends_here(piece) else root) + piece)
    return b"".join(kept)


def _occurs(root: bytes, data: bytes) -> bool:
    return any(_ends_here(piece) for piece in data.split(root)[1:])


def _ends_here(rest: bytes) -> bool:
    """A root ends before `/` or before what cannot go on a name, so `t` is not found in `t_2`."""
    return not rest or rest[0] not in _NAME_BYTES


def _iter_bytes(restored: Tree, policy: Policy) -> Iterator[tuple[str, bytes]]:
    yield restored.location, _document_bytes(restored.document, policy)
    for location in restored.lists():
        file = restored.avro(location)
        yield location, b"\n".join([*file.header.values(), file.body])
    for location in restored.manifests():
        file = restored.avro(location)
        records = [_own_words(Entry(location, record)) for record in file.records]
        yield location, b"\n".join([*file.header.values(), *records])
    yield from _iter_content(restored)
    for statistics in restored.statistics():
        path = restored.file(statistics["statistics-path"])
        if path.is_file():
            yield statistics["statistics-path"], path.read_bytes()


def _document_bytes(document: Json, policy: Policy) -> bytes:
    properties = {
        key: value
        for key, value in (document.get("properties") or {}).items()
        if key not in policy.kept_properties
    }
    return json.dumps({**document, "properties": properties}, ensure_ascii=False).encode()


def _own_words(entry: Entry) -> bytes:
    """All strings and bytes of an entry but the bounds and partition of the user's columns."""
    file = dict(entry.file)
    file.pop("partition", None)
    for name in ("lower_bounds", "upper_bounds"):
        pairs = file.pop(name, None) or []
        file[name] = [
            pair["value"].decode(errors="replace") for pair in pairs if pair["key"] == PATH_COLUMN
        ]
    return "\n".join(_strings(file)).encode(errors="surrogateescape")


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
    elif isinstance(value, bytes):
        yield value.decode(errors="surrogateescape")
    else:
        yield str(value)


def _iter_content(restored: Tree) -> Iterator[tuple[str, bytes]]:
    seen: set[str] = set()
    for entry in restored.iter_entries():
        path = restored.file(entry.path)
        if not entry.is_rewritten or entry.path in seen or not path.is_file():
            continue
        seen.add(entry.path)
        if entry.is_vector:
            puffin = read_puffin(path)
            yield entry.path, puffin.head + json.dumps(puffin.footer, ensure_ascii=False).encode()
        else:
            deletes = read_deletes(path, entry.file["file_format"])
            words = [row[0] for row in deletes.rows] + [*deletes.keys.values(), deletes.schema]
            yield entry.path, "\n".join(words).encode()
