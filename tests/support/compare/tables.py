"""Compares a restored table with its source, file by file: the rules G2 to G5."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.support.compare.content import check_content
from tests.support.compare.documents import Policy, check_document
from tests.support.compare.leaks import check_leaks
from tests.support.compare.manifests import check_manifests
from tests.support.compare.paths import Difference, Moves, Resolve, local_path
from tests.support.compare.tree import Tree

_STRICT = Policy()


def compare_tables(
    source_metadata_location: str,
    restored_metadata_location: str,
    moves: Sequence[tuple[str, str]],
    relocated_source: Resolve = local_path,
    *,
    policy: Policy = _STRICT,
) -> list[Difference]:
    """All that is wrong with a restored table; an empty list is what a test wants.

    `moves` are (old root, new root); `relocated_source` says where a location of the source is now.
    """
    move = Moves.of(moves)
    source = Tree(source_metadata_location, relocated_source)
    restored = Tree(restored_metadata_location)
    missing = _missing_metadata(restored)
    if missing:
        return missing
    return [
        *check_document(source.document, restored.document, move, policy),
        *_check_log(restored),
        *check_manifests(source, restored, move),
        *check_leaks(restored, move, policy),
        *check_content(source, restored, move),
    ]


def _missing_metadata(restored: Tree) -> list[Difference]:
    """Lists first: without one its manifests are not known."""
    for locations in (restored.lists, restored.manifests):
        gone = [where for where in locations() if not restored.file(where).is_file()]
        if gone:
            return [Difference("G5", where, "missing") for where in gone]
    return []


def _check_log(restored: Tree) -> list[Difference]:
    """What a metadata-log still names is there (T47)."""
    entries = restored.document.get("metadata-log") or []
    return [
        Difference("G5", entry["metadata-file"], "in the metadata-log but missing")
        for entry in entries
        if not restored.file(entry["metadata-file"]).is_file()
    ]


def referenced_files(metadata_location: str, resolve: Resolve = local_path) -> set[Path]:
    """Every file that a table needs: metadata, lists, manifests, statistics, live content."""
    tree = Tree(metadata_location, resolve)
    locations = {metadata_location, *tree.lists(), *tree.manifests()}
    locations |= {entry.path for entry in tree.iter_entries() if entry.is_live}
    locations |= {statistics["statistics-path"] for statistics in tree.statistics()}
    return {tree.file(location) for location in locations}


def unreferenced_files(metadata_location: str, folder: Path) -> list[Path]:
    """Files under `folder` that the table does not need (G12: a tombstone's file is not copied)."""
    needed = {path.resolve() for path in referenced_files(metadata_location)}
    present = (path for path in folder.rglob("*") if path.is_file())
    return sorted(path for path in present if path.resolve() not in needed)
