"""Works: tables that changed, their metadata read, and the files that their metadata names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from bcn.backup.roots import Roots
from bcn.backup.tasks import ManifestRef, TableRecipe
from bcn.backup.walk import read_source
from bcn.catalog.protocol import Pointer
from bcn.errors import MalformedFileError, MissingSourceFileError
from bcn.iceberg.history import ALL_HISTORY, History, find_covered, trim_metadata
from bcn.iceberg.metadata import (
    TableFacts,
    check_supported,
    declared_roots,
    parse_metadata,
    read_facts,
)
from bcn.model import Json, TableId, sha256
from bcn.repository.entry import Entry
from bcn.repository.inventory import load_unlisted
from bcn.repository.pit import ObjectRecord
from bcn.storage.open import Stores
from bcn.storage.protocol import Storage

MAX_LAYERS = 16


@dataclass(frozen=True, slots=True)
class Source:
    """A pointer's metadata document, read and understood."""

    pointer: Pointer
    version: str
    size_bytes: int
    sha256: str
    uuid: str | None
    location: str
    declared: tuple[str, ...]
    facts: TableFacts | None  # None for a view
    document: Json = field(repr=False)
    history: History = ALL_HISTORY
    covered: frozenset[int] | None = None


def read_pointer(stores: Stores, pointer: Pointer, history: History) -> Source:
    """Read what a pointer names; the facts are those of the snapshots that a history keeps.

    Raises DamagedSourceError, UnsupportedTableError, StorageError.
    """
    location = pointer.metadata_location
    if pointer.fault:
        raise MissingSourceFileError(f"the catalog cannot load {pointer.table}: {pointer.fault}")
    if not location:
        raise MissingSourceFileError(f"the catalog has no metadata location for {pointer.table}")
    storage, key = stores.resolve(location)
    stat = storage.find_stat(key)
    data = read_source(stores, location)
    document = parse_metadata(data)
    version = stat.version if stat else ""
    digest = sha256(data)
    if pointer.kind == "view":
        uuid, place = document.get("view-uuid"), document.get("location")
        if not isinstance(place, str) or not isinstance(uuid, str | None):
            raise MalformedFileError(f"{location} is no view: uuid {uuid!r}, location {place!r}")
        return Source(pointer, version, len(data), digest, uuid, place, (place,), None, document)
    check_supported(document)
    covered = find_covered(document, history)
    facts = read_facts(trim_metadata(document, covered))
    return Source(
        pointer,
        version,
        len(data),
        digest,
        facts.uuid,
        facts.location,
        declared_roots(document),
        facts,
        document,
        history,
        covered,
    )


@dataclass
class Work:
    """One object to back up. The driver keeps a few values for each manifest, none for files."""

    number: int
    source: Source
    object_id: str
    parent: Entry | None
    parent_record: ObjectRecord | None
    roots: Roots
    known: dict[tuple[str, int, str], int | None] = field(default_factory=dict)
    manifests: dict[str, ManifestRef] = field(default_factory=dict)
    added: list[FileRow] = field(default_factory=list)
    removed: list[tuple[str, int, str]] = field(default_factory=list)
    groups: tuple[int, ...] = ()

    @property
    def table(self) -> TableId:
        """Its name in the catalog."""
        return self.source.pointer.table

    @property
    def carries(self) -> bool:
        """Whether rows of the parent are taken over; not those of a damaged one."""
        return self.parent is not None and not self.parent.damaged

    @property
    def layer_kind(self) -> str:
        """A delta on a parent that is worth it, else a full layer."""
        if self.parent is None or not self.carries or len(self.parent.layers) >= MAX_LAYERS:
            return "full"
        return "delta"

    def recipe(self) -> TableRecipe:
        """What tasks have to know."""
        return TableRecipe(
            self.number,
            self.object_id,
            self.source.pointer.table,
            tuple(self.roots.roots),
            self.groups,
            self.parent.layers if self.parent else (),
            self.layer_kind,
            self.carries,
        )

    @property
    def new_manifests(self) -> list[FileRow]:
        """Manifests that no earlier layer has decoded."""
        return [row for row in self.added if row.kind == "manifest"]

    def add_embedded_manifests(self) -> None:
        """Manifests that snapshots of the oldest tables name themselves, without a list."""
        for snapshot in self.source.facts.snapshots if self.source.facts else ():
            for location in snapshot.manifests:
                reference = ManifestRef(location, None, snapshot.snapshot_id, None)
                self.manifests.setdefault(location, reference)

    def lists(self) -> list[tuple[int, str]]:
        """Snapshot id and location of every manifest list."""
        snapshots = self.source.facts.snapshots if self.source.facts else ()
        return [(item.snapshot_id, item.manifest_list) for item in snapshots if item.manifest_list]


@dataclass(frozen=True, slots=True)
class FileRow:
    """A file that no manifest lists: metadata, lists, manifests, statistics."""

    kind: str
    root_id: int
    path: str
    location: str
    recorded_size_bytes: int | None
    snapshot_id: int | None
    live_files: int | None = None

    @property
    def name(self) -> str:
        """How `parent_manifest` names it."""
        return f"r{self.root_id}/{self.path}"


def load_known(work: Work, repository: Storage) -> None:
    """Recall the files of the parent that no manifest lists. Raises DamagedRepositoryError."""
    if work.parent is None or not work.carries:
        return
    rows = load_unlisted(repository, work.parent.layers).to_pydict()
    columns = zip(
        rows["kind"], rows["root_id"], rows["path"], rows["recorded_size_bytes"], strict=True
    )
    work.known = {(kind, root, path): size for kind, root, path, size in columns}


def sort_files(work: Work) -> None:
    """Decide which unlisted files are carried from the parent, added, removed."""
    carried: set[tuple[str, int, str]] = set()
    for row in _unlisted(work):
        identity = (row.kind, row.root_id, row.path)
        if _is_carried(work, row):
            carried.add(identity)
        else:
            work.added.append(row)
    work.removed = [identity for identity in work.known if identity not in carried]


def _is_carried(work: Work, row: FileRow) -> bool:
    """The same path and, where it is recorded, the same length. Metadata is always read anew."""
    identity = (row.kind, row.root_id, row.path)
    if row.kind == "metadata" or identity not in work.known:
        return False
    return row.recorded_size_bytes == work.known[identity]


def _unlisted(work: Work) -> Iterator[FileRow]:
    source = work.source
    yield _row(work, "metadata", source.pointer.metadata_location, source.size_bytes)
    if source.facts is None:
        return
    snapshot_ids = {location: snapshot_id for snapshot_id, location in work.lists()}
    for location, snapshot_id in snapshot_ids.items():
        yield _row(work, "manifest_list", location, None, snapshot_id)
    for manifest in work.manifests.values():
        yield _row(
            work,
            "manifest",
            manifest.location,
            manifest.length,
            manifest.added_snapshot_id,
            manifest.live_files,
        )
    seen: set[str] = set()
    for file in source.facts.statistics:
        if file.location not in seen:
            seen.add(file.location)
            yield _row(work, file.kind, file.location, file.size_bytes, file.snapshot_id)


def _row(
    work: Work,
    kind: str,
    location: str,
    size_bytes: int | None,
    snapshot_id: int | None = None,
    live_files: int | None = None,
) -> FileRow:
    root_id, path = work.roots.split(location)
    return FileRow(kind, root_id, path, location, size_bytes, snapshot_id, live_files)
