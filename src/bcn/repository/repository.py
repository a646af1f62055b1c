"""A repository as a whole: opened, created, its PITs found, loaded and published."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from bcn.errors import (
    DamagedRepositoryError,
    KeyExistsError,
    MissingKeyError,
    NewerVersionError,
    NoRepositoryError,
    RefusedError,
    StorageError,
)
from bcn.model import Json, PitId, iso, sha256
from bcn.repository import layout
from bcn.repository.document import VERSION, parse_document, render_document
from bcn.repository.entry import Entry, parse_entry
from bcn.repository.pit import EntryRef, PitManifest, parse_pit
from bcn.storage.open import open_storage
from bcn.storage.protocol import Storage, StorageSpec

KNOWN_READ_FEATURES: frozenset[str] = frozenset()
KNOWN_WRITE_FEATURES: frozenset[str] = frozenset()

_DAMAGED_HINT = (
    "the newest point in time is damaged, earlier ones may be whole: 'bcn repair' says which; to "
    "go on from the newest whole one, set this aside with 'bcn repair --quarantine {}'"
)


@dataclass(frozen=True, slots=True)
class Scope:
    """What a repository holds: a catalog, one database of it, or one table."""

    catalog: str
    database: tuple[str, ...] | None = None
    table: str | None = None

    @property
    def granularity(self) -> str:
        """CATALOG, DATABASE or TABLE."""
        if self.table is not None:
            return "TABLE"
        return "CATALOG" if self.database is None else "DATABASE"

    def document(self) -> Json:
        """The stored form."""
        database = None if self.database is None else list(self.database)
        return {"catalog": self.catalog, "database": database, "table": self.table}

    @classmethod
    def parse(cls, document: Json) -> Scope | None:
        """From the stored form; None while nothing is locked."""
        if document.get("catalog") is None:
            return None
        database = document.get("database")
        return cls(
            document["catalog"],
            None if database is None else tuple(database),
            document.get("table"),
        )


class Repository:
    """An open repository. Reading needs nothing but the storage; writing needs a lease."""

    def __init__(self, spec: StorageSpec, storage: Storage, document: Json) -> None:
        self.spec = spec
        self.storage = storage
        self.document = document

    @property
    def id(self) -> str:
        """The repository's own id."""
        return str(self.document["repository_id"])

    @property
    def scope(self) -> Scope | None:
        """What it is locked to, None before the first backup."""
        return Scope.parse(self.document["scope"])

    def locked_to(self, scope: Scope) -> Repository:
        """The repository with its scope fixed; stored with the next change of `manifest.json`."""
        locked = {"granularity": scope.granularity, "scope": scope.document()}
        return Repository(self.spec, self.storage, {**self.document, **locked})

    def identity(self) -> Json:
        """What every PIT repeats, so that `manifest.json` can be rebuilt from one."""
        return {
            "id": self.id,
            "granularity": self.document["granularity"],
            "scope": self.document["scope"],
            "features": self.document["features"],
            "created_at": self.document.get("created_at"),
        }

    def update(self, **changes: object) -> None:
        """Replace keys of `manifest.json`, keeping those we do not know."""
        self.document = {**self.document, **changes}
        self.storage.replace(layout.REPOSITORY_KEY, render_document(self.document))

    def check_writable(self) -> None:
        """Raises RefusedError if a feature we do not know forbids writing."""
        unknown = set(self.document["features"].get("write", ())) - KNOWN_WRITE_FEATURES
        if unknown:
            raise RefusedError(
                f"this repository is read-only for this bcn: it uses {sorted(unknown)}",
                hint="upgrade bcn",
            )

    # PITs

    def pit_ids(self) -> list[PitId]:
        """Ids of everything at a PIT's key, abandoned ones too, oldest first."""
        if self.scope is None:
            return []
        keys = self.storage.iter_keys(layout.pits_prefix(self.scope.catalog))
        found = (layout.parse_pit_key(key) for key in keys)
        return sorted(pit for pit in found if pit is not None)

    def pit_key(self, pit: PitId) -> str:
        """The key of a PIT in this repository."""
        if self.scope is None:
            raise NoRepositoryError("this repository has no backup yet")
        return layout.pit_key(self.scope.catalog, pit)

    def find_pit(self, pit: PitId) -> PitManifest | None:
        """A PIT by its id; None if it is missing or abandoned. Raises DamagedRepositoryError."""
        key = self.pit_key(pit)
        try:
            manifest = parse_pit(self.storage.read(key), key)
        except MissingKeyError:
            return None
        if manifest is not None:
            check_features(manifest.repository.get("features", {}), key)
            if manifest.pit != pit:
                raise DamagedRepositoryError(f"{key} holds another point in time: {manifest.pit}")
        return manifest

    def find_newest(self) -> PitManifest | None:
        """The newest PIT. Raises DamagedRepositoryError if that one cannot be read."""
        for pit in reversed(self.pit_ids()):
            try:
                manifest = self.find_pit(pit)
            except NewerVersionError:
                raise
            except DamagedRepositoryError as error:
                raise DamagedRepositoryError(str(error), hint=_DAMAGED_HINT.format(pit)) from error
            if manifest is not None:
                return manifest
        return None

    def load_entry(self, ref: EntryRef) -> Entry:
        """An entry, its digest compared. Raises DamagedRepositoryError."""
        try:
            data = self.storage.read(ref.key)
        except MissingKeyError:
            raise DamagedRepositoryError(f"entry {ref.key} is missing") from None
        if sha256(data) != ref.sha256:
            raise DamagedRepositoryError(f"entry {ref.key} is damaged: its SHA-256 does not match")
        return parse_entry(data, ref.key)

    def summaries(self, skip: PitId | None = None) -> list[Json]:
        """One line a PIT, oldest first: from `pits.jsonl` where it has the PIT, else from the PIT.

        A PIT that cannot be read gives a line with `damaged`, never an error; `skip` gives none.
        """
        known = self._indexed()
        pits = [pit for pit in self.pit_ids() if pit != skip]
        lines = (known.get(str(pit)) or self._summarise(pit) for pit in pits)
        return [line for line in lines if line is not None]

    def indexed_pits(self) -> list[str]:
        """Ids that `pits.jsonl` lists, whether there are such PITs or not."""
        return [str(pit) for pit in self._indexed()]

    def _indexed(self) -> dict[str, Json]:
        if self.scope is None:
            return {}
        try:
            text = self.storage.read(layout.pits_index_key(self.scope.catalog)).decode()
            lines = [json.loads(line) for line in text.splitlines()]
            return {line["pit"]: line for line in lines}
        except (StorageError, ValueError, KeyError, TypeError, RecursionError):
            return {}  # derived: whatever is wrong with it, the PITs say the same

    def _summarise(self, pit: PitId) -> Json | None:
        try:
            manifest = self.find_pit(pit)
        except (DamagedRepositoryError, StorageError) as error:
            return {"pit": str(pit), "damaged": str(error)}
        return None if manifest is None else summary_line(manifest)


def summary_line(manifest: PitManifest) -> Json:
    """A PIT's line in `pits.jsonl`."""
    return {
        "pit": str(manifest.pit),
        "pit_timestamp": iso(manifest.pit.moment),
        "parent_pit": str(manifest.parent) if manifest.parent else None,
        **manifest.summary,
        "labels": dict(manifest.labels),
    }


def next_pit_id(started_at: datetime, existing: Sequence[PitId]) -> PitId:
    """The id of a capture that began then: later than all there are, also when clocks run back."""
    moment = started_at
    if existing:
        moment = max(moment, max(existing).moment + timedelta(microseconds=1))
    return PitId.of(moment)


def _is_names(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def check_features(features: Json, key: str) -> None:
    """Raises NewerVersionError for a feature that this bcn would have to understand to read."""
    lists = (features.get("read"), features.get("write", [])) if isinstance(features, dict) else ()
    if not lists or not all(_is_names(names) for names in lists):
        raise DamagedRepositoryError(f"{key} has no features that bcn knows: {features!r}")
    unknown = set(features["read"]) - KNOWN_READ_FEATURES
    if unknown:
        raise NewerVersionError(f"{key} needs features {sorted(unknown)}")


def open_repository(spec: StorageSpec) -> Repository:
    """What is there. Raises NoRepositoryError, DamagedRepositoryError, NewerVersionError."""
    storage = open_storage(spec)
    try:
        document = parse_document(storage.read(layout.REPOSITORY_KEY), layout.REPOSITORY_KEY)
    except MissingKeyError:
        return rebuild_repository(spec)
    _check_document(document)
    if Scope.parse(document["scope"]) is None:
        document = _with_scope(document, _rebuilt(storage))
    return Repository(spec, storage, document)


def _with_scope(document: Json, rebuilt: Json | None) -> Json:
    """After a crash between the first PIT and the update of manifest.json the PIT holds."""
    known = rebuilt or {}
    return {**document, **{k: known[k] for k in ("granularity", "scope", "last_pit") if k in known}}


def rebuild_repository(spec: StorageSpec) -> Repository:
    """What is there as its newest readable PIT tells it, `manifest.json` aside; nothing is written.

    Raises NoRepositoryError, NewerVersionError.
    """
    storage = open_storage(spec)
    document = _rebuilt(storage)
    if document is None:
        raise NoRepositoryError(f"no repository at {spec.location}")
    _check_document(document)
    return Repository(spec, storage, document)


def _check_document(document: Json) -> None:
    key = layout.REPOSITORY_KEY
    if not {"repository_id", "granularity", "scope", "features"} <= document.keys():
        raise DamagedRepositoryError(f"{key} lacks keys")
    check_features(document["features"], key)
    if not isinstance(document["repository_id"], str) or not _is_scope(document["scope"]):
        raise DamagedRepositoryError(f"{key} has no id or no scope that bcn knows")


def _is_scope(value: object) -> bool:
    """Whether it is the stored form of a scope, or of none yet."""
    if not isinstance(value, dict):
        return False
    names = [name for name in (value.get("catalog"), value.get("table")) if name is not None]
    database = value.get("database")
    return _is_names(names) and (database is None or _is_names(database))


def _rebuilt(storage: Storage) -> Json | None:
    """What `manifest.json` said, out of the newest readable PIT; not written back."""
    for key in sorted(_pit_keys(storage), reverse=True):
        try:
            manifest = parse_pit(storage.read(key), key)
        except DamagedRepositoryError:
            continue
        if manifest is not None:
            repository = manifest.repository
            return {
                "version": VERSION,
                "repository_id": repository["id"],
                "granularity": repository["granularity"],
                "scope": repository["scope"],
                "created_at": repository.get("created_at") or iso(manifest.pit.moment),
                "last_pit": str(manifest.pit),
                "features": repository["features"],
            }
    return None


def _pit_keys(storage: Storage) -> Iterator[str]:
    keys = storage.iter_keys(layout.CATALOGS_PREFIX)
    return (key for key in keys if layout.parse_pit_key(key) is not None)


def create_repository(spec: StorageSpec, scope: Scope | None, now: datetime) -> Repository:
    """A new repository at an empty place. Raises RefusedError if anything is there."""
    storage = open_storage(spec)
    found = next(storage.iter_keys(""), None)
    if found is not None:
        raise RefusedError(
            f"{spec.location} is not empty: it holds {found}",
            hint="choose an empty place for a new repository",
        )
    document: Json = {
        "version": VERSION,
        "repository_id": str(uuid.uuid4()),
        "granularity": scope.granularity if scope else None,
        "scope": scope.document() if scope else {"catalog": None, "database": None, "table": None},
        "created_at": iso(now),
        "last_pit": None,
        "features": {"read": [], "write": []},
    }
    try:
        storage.write_once(layout.REPOSITORY_KEY, render_document(document))
    except KeyExistsError:
        raise RefusedError(f"another process made a repository at {spec.location}") from None
    return Repository(spec, storage, document)
