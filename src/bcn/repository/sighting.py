"""What a PIT says of a few objects, found in its bytes: a thousand others cost no parsing.

Who restores reads the whole PIT and compares its checksum; this is for looking through hundreds.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from bcn.errors import DamagedRepositoryError
from bcn.model import Json, TableId
from bcn.repository.document import parse_document
from bcn.repository.pit import (
    CHECKSUM_FIELD,
    DeletedObject,
    FailedObject,
    ObjectRecord,
    is_abandoned,
    read_item,
)

_TAIL = 200  # bytes that hold the checksum at the end of a PIT
_PIECE = 16_384  # bytes that hold an item of its lists
_LISTS = ("objects", "deleted_objects", "failed_objects")
_END = re.compile(rb'"' + CHECKSUM_FIELD.encode() + rb'": "[0-9a-f]{64}"\s*\}\s*\Z')
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class Sighting:
    """One object in one PIT: held or gone; one that failed may be held in an earlier version."""

    record: ObjectRecord | None = None
    deleted: DeletedObject | None = None
    failed: FailedObject | None = None

    @property
    def table(self) -> TableId | None:
        """The name it has, or had last."""
        found = self.record or self.deleted or self.failed
        return found.table if found else None


def find_sightings(data: bytes, key: str, object_ids: Iterable[str]) -> dict[str, Sighting]:
    """What the bytes of a PIT say of some objects; those it does not name are left out.

    Raises DamagedRepositoryError where the bytes are not whole.
    """
    return _read(data, key, "object_id", object_ids)


def find_named(data: bytes, key: str, table: TableId) -> dict[str, Sighting]:
    """The objects that a PIT has, or has lost, under a name. Raises DamagedRepositoryError."""
    return _read(data, key, "name", [str(table)])


def find_called(data: bytes, key: str, name: str) -> dict[str, Sighting]:
    """The same for the last part of a name, in any database. Raises DamagedRepositoryError."""
    return _read(data, key, "table", [name])


def _read(data: bytes, key: str, field: str, values: Iterable[str]) -> dict[str, Sighting]:
    try:
        return _collect(_find_items(data, key, field, set(values)))
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedRepositoryError(f"{key} is not a whole PIT manifest: {error!r}") from error


def _collect(items: Iterable[Json]) -> dict[str, Sighting]:
    found: dict[str, Sighting] = {}
    for item in items:
        read = read_item(item)
        if read is None or not read.object_id:
            continue  # another part of the document; or a table that could not even be identified
        sighting = found.get(read.object_id, Sighting())
        if isinstance(read, ObjectRecord):
            sighting = replace(sighting, record=read)
        elif isinstance(read, DeletedObject):
            sighting = replace(sighting, deleted=read)
        else:
            sighting = replace(sighting, failed=read)
        found[read.object_id] = sighting
    return found


def _find_items(data: bytes, key: str, field: str, wanted: set[str]) -> list[Json]:
    if _END.search(data[-_TAIL:]) is not None:
        with suppress(_OtherLayoutError):
            return [item for value in wanted for item in _iter_marked(data, field, value)]
    return _parse_all(data, key, field, wanted)


def _parse_all(data: bytes, key: str, field: str, wanted: set[str]) -> list[Json]:
    """The slow way, for documents that bcn did not lay out: markers, and what was cut short."""
    document = parse_document(data, key)
    if is_abandoned(document):
        return []
    return [item for name in _LISTS for item in document[name] if item.get(field) in wanted]


class _OtherLayoutError(ValueError):
    """The document is laid out as no bcn writes it, so it has to be parsed."""


def _iter_marked(data: bytes, field: str, value: str) -> Iterator[Json]:
    """Objects of the document in which a key has a value.

    A quote inside a text has a backslash before it, so the mark occurs as a key and nowhere else.
    """
    text = json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
    mark = f'"{field}": '.encode() + text
    position = data.find(mark)
    while position >= 0:
        item = _decode(data, data.rfind(b"{", 0, position))
        if item.get(field) != value:
            raise _OtherLayoutError
        yield item
        position = data.find(mark, position + len(mark))


def _decode(data: bytes, start: int) -> Json:
    """The object that begins at a brace. A character that the piece cuts in two is left out."""
    decoder = codecs.getincrementaldecoder("utf-8")("surrogatepass")
    try:
        item, _ = _DECODER.raw_decode(decoder.decode(data[start : start + _PIECE]))
    except ValueError as error:
        raise _OtherLayoutError from error
    return dict(item)
