"""G3: manifest lists and manifests hold the source's headers and records, in order, paths moved."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.support.compare.avro import AvroFile
from tests.support.compare.paths import Difference, Moves
from tests.support.compare.tree import PATH_COLUMN, Entry, Tree

Record = dict[str, Any]
Bounds = list[Record] | None


def check_manifests(source: Tree, restored: Tree, moves: Moves) -> list[Difference]:
    """Compares each snapshot's list, and each manifest once."""
    pairs = list(zip(source.snapshots, restored.snapshots, strict=False))
    found = [
        d for left, right in pairs for d in _check_list(source, restored, (left, right), moves)
    ]
    manifests: dict[str, str] = {}
    for left, right in pairs:
        if _same_kind(left, right):
            manifests.update(
                zip(source.manifests_of(left), restored.manifests_of(right), strict=False)
            )
    for old, new in manifests.items():
        found += _check_manifest(source, restored, (old, new), moves)
    return found


def _same_kind(left: Record, right: Record) -> bool:
    return ("manifest-list" in left) == ("manifest-list" in right)


def _check_list(
    source: Tree, restored: Tree, snapshots: tuple[Record, Record], moves: Moves
) -> Iterator[Difference]:
    left, right = snapshots
    if not _same_kind(left, right):
        yield Difference("G3", str(left["snapshot-id"]), "embedded manifests became a list, or so")
        return
    if "manifest-list" not in left:
        return
    where = right["manifest-list"]
    old, new = source.avro(left["manifest-list"]), restored.avro(where)
    yield from _check_headers(where, old, new)
    expected = [_moved_list_record(record, moves) for record in old.records]
    found = [_without(record, "manifest_length") for record in new.records]
    yield from _check_records(where, expected, found)


def _moved_list_record(record: Record, moves: Moves) -> Record:
    moved = {**record, "manifest_path": moves.apply(record["manifest_path"])}
    return _without(moved, "manifest_length")


def _check_manifest(
    source: Tree, restored: Tree, locations: tuple[str, str], moves: Moves
) -> Iterator[Difference]:
    old, new = source.avro(locations[0]), restored.avro(locations[1])
    yield from _check_headers(locations[1], old, new)
    yield from _check_records(
        locations[1],
        [_comparable(Entry("", record), moves) for record in old.records],
        [_comparable(Entry("", record), Moves(())) for record in new.records],
    )
    for left, right in zip(old.records, new.records, strict=False):
        entry = Entry(locations[1], right)
        yield from _check_bounds(Entry(locations[0], left), entry, moves)


def _comparable(entry: Entry, moves: Moves) -> Record:
    """An entry with its paths moved, less what may differ for a file that was written anew."""
    file = {**entry.file, "file_path": moves.apply(entry.path)}
    if file.get("referenced_data_file") is not None:
        file["referenced_data_file"] = moves.apply(file["referenced_data_file"])
    if entry.is_rewritten:
        file["file_size_in_bytes"] = None
        for name in ("lower_bounds", "upper_bounds"):
            file[name] = _other_bounds(file.get(name))
    return {**entry.record, "data_file": file}


def _other_bounds(bounds: Bounds) -> Bounds:
    """Bounds of all columns but the path; none at all when that was the only one."""
    return [pair for pair in bounds or [] if pair["key"] != PATH_COLUMN] or None


def _check_bounds(source: Entry, restored: Entry, moves: Moves) -> Iterator[Difference]:
    """Equal bounds name one data file and must be moved; others must hold or be gone, both."""
    if not source.is_rewritten:
        return
    old, new = path_bounds(source), path_bounds(restored)
    where = f"{restored.manifest} bounds of {restored.path}"
    if old == (None, None):
        if new != old:
            yield Difference("G3", where, "there, although the source has none")
        return
    if old[0] is not None and old[0] == old[1]:
        wanted = moves.apply(old[0].decode()).encode()
        if new != (wanted, wanted):
            yield Difference("G3", where, f"expected {wanted!r} twice, found {new!r}")
    elif (new[0] is None) != (new[1] is None):
        yield Difference("G3", where, f"one bound of two is gone: {new!r}")


def path_bounds(entry: Entry) -> tuple[bytes | None, bytes | None]:
    """Lower and upper bound of the `file_path` column of a position delete file."""
    lower, upper = (
        next((p["value"] for p in entry.file.get(name) or [] if p["key"] == PATH_COLUMN), None)
        for name in ("lower_bounds", "upper_bounds")
    )
    return lower, upper


def _check_headers(where: str, old: AvroFile, new: AvroFile) -> Iterator[Difference]:
    for key in sorted({**old.header, **new.header}):
        if old.header.get(key) != new.header.get(key):
            what = f"expected {old.header.get(key)!r}, found {new.header.get(key)!r}"
            yield Difference("G3", f"{where} header {key}", what)


def _check_records(where: str, expected: list[Record], found: list[Record]) -> Iterator[Difference]:
    if len(expected) != len(found):
        yield Difference("G3", where, f"expected {len(expected)} records, found {len(found)}")
    for index, (left, right) in enumerate(zip(expected, found, strict=False)):
        if repr(left) != repr(right):  # NaN equals itself and -0.0 differs from 0.0 as text
            yield Difference("G3", f"{where} record {index}", _first_difference(left, right))


def _first_difference(left: Record, right: Record) -> str:
    for key in {**left, **right}:
        old, new = left.get(key), right.get(key)
        if isinstance(old, dict) and isinstance(new, dict) and repr(old) != repr(new):
            return f"{key}.{_first_difference(old, new)}"
        if repr(old) != repr(new):
            return f"{key}: expected {old!r}, found {new!r}"
    return "the fields are in another order"


def _without(record: Record, key: str) -> Record:
    return {name: value for name, value in record.items() if name != key}
