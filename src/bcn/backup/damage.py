"""Which snapshots a missing file hurts: asked only when something is missing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from bcn.backup.stage import rows_key
from bcn.backup.tasks import Failure, ListTask, Run
from bcn.backup.walk import read_lists
from bcn.backup.work import Work
from bcn.engine.parts import load_part
from bcn.errors import MissingKeyError
from bcn.model import Json
from bcn.storage.open import open_storage


def damaged_snapshots(work: Work, failures: Sequence[Failure], run: Run) -> list[Json]:
    """Snapshots and the missing files that each of them needs, as entries keep them."""
    locations = {item.location for item in failures}
    hurt: dict[int, set[str]] = defaultdict(set)
    manifests = _manifests_of(work, locations, run)
    for snapshot in work.source.facts.snapshots if work.source.facts else ():
        named = set(snapshot.manifests)
        if snapshot.manifest_list:
            if snapshot.manifest_list in locations:
                hurt[snapshot.snapshot_id].add(snapshot.manifest_list)
            task = ListTask(run, work.number, ((snapshot.snapshot_id, snapshot.manifest_list),))
            named |= {manifest.location for manifest in read_lists(task).manifests}
        for manifest, files in manifests.items():
            if manifest in named:
                hurt[snapshot.snapshot_id] |= files
    for file in work.source.facts.statistics if work.source.facts else ():
        if file.location in locations:
            hurt[file.snapshot_id].add(file.location)
    return [{"snapshot_id": str(key), "files": sorted(files)} for key, files in hurt.items()]


def _manifests_of(work: Work, locations: set[str], run: Run) -> dict[str, set[str]]:
    """Manifests that are missing themselves, or list a missing file: manifest to missing files."""
    found: dict[str, set[str]] = defaultdict(set)
    names = {row.name: row.location for row in work.added if row.kind == "manifest"}
    for location in locations & set(names.values()):
        found[location].add(location)
    splits = ((work.roots.find(location), location) for location in locations)
    wanted = {split: location for split, location in splits if split is not None}
    for row in _rows_of(work, {path for _, path in wanted}, run):
        missing = wanted.get((row["root_id"], row["path"]))
        if missing is not None and row["parent_manifest"] in names:
            found[names[row["parent_manifest"]]].add(missing)
    return found


def _rows_of(work: Work, paths: set[str], run: Run) -> Iterator[Json]:
    """Planned rows of the work with one of the paths."""
    storage = open_storage(run.scratch)
    wanted = pa.array(sorted(paths), pa.string())
    for group in work.groups:
        try:
            rows = load_part(storage, rows_key(run, group))
        except MissingKeyError:
            continue  # the walk failed before anything was planned
        own = pc.and_(pc.equal(rows["table_no"], work.number), pc.is_in(rows["path"], wanted))
        yield from rows.filter(own).to_pylist()
