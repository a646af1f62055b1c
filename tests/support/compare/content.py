"""G5: every live file is there, as long as recorded, and holds what the source's file held."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from tests.support.compare.deletes import DeleteFile, read_deletes
from tests.support.compare.manifests import path_bounds
from tests.support.compare.paths import Difference, Moves
from tests.support.compare.puffin import Puffin, read_puffin
from tests.support.compare.tree import Entry, Tree

_REFERENCE = "referenced-data-file"


def check_content(source: Tree, restored: Tree, moves: Moves) -> list[Difference]:
    """Statistics, lists, manifests, data and deletes that the restored table names as live."""
    found = [*_check_lists(restored), *_check_statistics(source, restored)]
    originals = {moves.apply(entry.path): entry for entry in source.iter_entries()}
    checked: set[str] = set()
    for new in restored.iter_entries():
        old = originals.get(new.path)
        if old is None:
            found.append(Difference("G5", new.path, "the source has no such file"))
            continue
        found += _check_size(source, restored, old, new)
        if new.is_live and new.path not in checked:
            checked.add(new.path)
            found += _check_file(source, restored, (old, new), moves)
        if new.is_live and new.is_rewritten:
            found += _check_reference(restored, new)
    return found


def _check_lists(restored: Tree) -> Iterator[Difference]:
    """Field 501 is the length of the manifest that the list names."""
    for location in restored.lists():
        for record in restored.avro(location).records:
            size = restored.file(record["manifest_path"]).stat().st_size
            if record["manifest_length"] != size:
                what = f"manifest_length {record['manifest_length']}, file has {size} bytes"
                yield Difference("G5", f"{location}: {record['manifest_path']}", what)


def _check_statistics(source: Tree, restored: Tree) -> Iterator[Difference]:
    for old, new in zip(source.statistics(), restored.statistics(), strict=False):
        path = restored.file(new["statistics-path"])
        if not path.is_file():
            yield Difference("G5", new["statistics-path"], "missing")
        elif path.stat().st_size != new["file-size-in-bytes"]:
            yield Difference("G5", new["statistics-path"], "its recorded size is not its size")
        elif _sha256(path) != _sha256(source.file(old["statistics-path"])):
            yield Difference("G5", new["statistics-path"], "its bytes are not the source's")


def _check_size(source: Tree, restored: Tree, old: Entry, new: Entry) -> Iterator[Difference]:
    """Field 104 of every entry, tombstones too, is what its file has; a gone file keeps the old."""
    path, original = restored.file(new.path), source.file(old.path)
    recorded = new.file["file_size_in_bytes"]
    if not path.is_file():
        if new.is_rewritten and recorded != old.file["file_size_in_bytes"]:
            yield Difference("G5", new.path, "a tombstone's recorded size was changed")
        return
    was_wrong = original.is_file() and original.stat().st_size != old.file["file_size_in_bytes"]
    if recorded != path.stat().st_size and (new.is_rewritten or not was_wrong):
        what = f"recorded {recorded} bytes, has {path.stat().st_size}"
        yield Difference("G5", f"{new.manifest}: {new.path}", what)


def _check_file(
    source: Tree, restored: Tree, entries: tuple[Entry, Entry], moves: Moves
) -> Iterator[Difference]:
    old, new = entries
    original, path = source.file(old.path), restored.file(new.path)
    if not path.is_file():
        yield Difference("G5", new.path, "missing")
    elif not new.is_rewritten:
        if _sha256(original) != _sha256(path):
            yield Difference("G5", new.path, "its bytes are not the source's")
    elif new.is_vector:
        yield from _check_puffin(new.path, read_puffin(original), read_puffin(path), moves)
    else:
        left, right = (read_deletes(p, new.file["file_format"]) for p in (original, path))
        yield from _check_deletes(new.path, left, right, moves)


def _check_deletes(
    where: str, old: DeleteFile, new: DeleteFile, moves: Moves
) -> Iterator[Difference]:
    expected = [(moves.apply(path), position, rest) for path, position, rest in old.rows]
    if old.is_sorted:
        expected.sort(key=lambda row: (row[0].encode(), row[1]))
    if expected != new.rows:
        yield Difference("G5", where, f"expected rows {expected[:3]}…, found {new.rows[:3]}…")
    if old.schema != new.schema:
        yield Difference("G5", where, f"expected schema {old.schema}, found {new.schema}")
    for key in sorted({**old.keys, **new.keys}):
        if old.keys.get(key) != new.keys.get(key):
            what = f"expected {old.keys.get(key)!r}, found {new.keys.get(key)!r}"
            yield Difference("G5", f"{where} key {key}", what)


def _check_puffin(where: str, old: Puffin, new: Puffin, moves: Moves) -> Iterator[Difference]:
    """Blobs stay where and what they are; the footer differs by the data file's new place only."""
    if old.head != new.head:
        yield Difference("G5", where, "the bytes before the footer are not the source's")
    if (old.footer is None) != (new.footer is None):
        yield Difference("G5", where, "a footer on one side only")
        return
    for left, right in zip(old.blobs, new.blobs, strict=False):
        properties = dict(left.get("properties") or {})
        if _REFERENCE in properties:
            properties[_REFERENCE] = moves.apply(properties[_REFERENCE])
        expected = {**left, "properties": properties} if "properties" in left else left
        if expected != right:
            yield Difference("G5", f"{where} footer", f"expected {expected}, found {right}")
    if _rest_of_footer(old) != _rest_of_footer(new) or len(old.blobs) != len(new.blobs):
        yield Difference("G5", f"{where} footer", "its own properties or number of blobs differ")


def _rest_of_footer(puffin: Puffin) -> dict[str, object]:
    return {key: value for key, value in (puffin.footer or {}).items() if key != "blobs"}


def _check_reference(restored: Tree, entry: Entry) -> Iterator[Difference]:
    """What an entry says of the data files it deletes from is what the delete file itself says."""
    path = restored.file(entry.path)
    if not path.is_file():
        return
    reference = entry.file.get("referenced_data_file")
    if entry.is_vector:
        yield from _check_blob(path, entry)
        return
    named = sorted({row[0] for row in read_deletes(path, entry.file["file_format"]).rows})
    if reference is not None and named not in ([], [reference]):
        yield Difference("G5", entry.path, f"refers to {reference}, its rows name {named[:3]}")
    lower, upper = path_bounds(entry)
    if named and lower is not None and named[0].encode() < lower:
        yield Difference("G5", entry.path, f"lower bound {lower!r} is above {named[0]}")
    if named and upper is not None and named[-1].encode() > upper:
        yield Difference("G5", entry.path, f"upper bound {upper!r} is below {named[-1]}")


def _check_blob(path: Path, entry: Entry) -> Iterator[Difference]:
    """The footer has a blob at the entry's offset, as long as it says, for the file it says."""
    puffin = read_puffin(path)
    if puffin.footer is None:
        return
    wanted = (
        entry.file["content_offset"],
        entry.file["content_size_in_bytes"],
        entry.file["referenced_data_file"],
    )
    blobs = [(b["offset"], b["length"], b["properties"].get(_REFERENCE)) for b in puffin.blobs]
    if wanted not in blobs:
        yield Difference("G5", entry.path, f"the entry says {wanted}, the footer {blobs}")


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
