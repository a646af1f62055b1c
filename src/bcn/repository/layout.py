"""Every key in the repository, built and parsed; no other module spells one. docs/format.md 2, 3"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache

from bcn.model import PitId, TableId, join_names

REPOSITORY_KEY = "manifest.json"
IN_PROGRESS_KEY = ".in_progress"
LEASES_PREFIX = "leases/"
JOBS_PREFIX = "jobs/"
DATA_PREFIX = "data/"
TRASH_PREFIX = "trash/"
VERIFICATIONS_PREFIX = "verifications/"
CATALOGS_PREFIX = "catalogs/"

_MAX_SEGMENT_BYTES = 200
_MAX_KEY_BYTES = 900
_UNSAFE = re.compile(rb"[^A-Za-z0-9._=-]|\A\.")
_UNSAFE_OR_DOT = re.compile(rb"[^A-Za-z0-9_=-]")
# Most paths of files are keys as they are, and each of them needs one.
_PLAIN_SEGMENT = r"[A-Za-z0-9_=-][A-Za-z0-9._=-]{0,199}"
_PLAIN = re.compile(rf"{_PLAIN_SEGMENT}(?:/{_PLAIN_SEGMENT})*")


def _hashed(name: str) -> str:
    return "%%" + hashlib.sha256(_utf8(name)).hexdigest()[:32]


def _utf8(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def _segment(name: str, unsafe: re.Pattern[bytes]) -> str:
    if name in {"", ".", ".."}:
        return _hashed(name)
    escaped = unsafe.sub(lambda match: b"%%%02X" % match[0][0], _utf8(name)).decode()
    return escaped if len(escaped) <= _MAX_SEGMENT_BYTES else _hashed(name)


def _segments(path: str) -> str:
    return "/".join(_segment(part, _UNSAFE) for part in path.split("/"))


def name_segment(name: str) -> str:
    """A name as a segment under `catalogs/`, where dots are escaped too."""
    return _segment(name, _UNSAFE_OR_DOT)


# stored files

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")


def find_uuid_id(uuid: str | None) -> str | None:
    """The object id that a uuid gives; None if it is none, so that no odd text becomes a key."""
    lowered = (uuid or "").lower()
    return lowered if _UUID.match(lowered) else None


def named_id(kind: str, catalog: str, table: TableId, location: str) -> str:
    """The object id of a table that cannot be known by a uuid."""
    parts = (kind, catalog, *table.namespace, table.name, location)
    digest = hashlib.sha256(b"".join(_utf8(part) + b"\0" for part in parts))
    return "n-" + digest.hexdigest()[:16]


@lru_cache
def data_prefix(object_id: str) -> str:
    """Where all files of an object are stored."""
    return f"{DATA_PREFIX}{_segment(object_id, _UNSAFE)}/"


def data_key(object_id: str, root_id: int, path: str) -> str:
    """Where a file of an object is stored, unless that key is taken by other bytes."""
    prefix = f"{data_prefix(object_id)}r{root_id}/"
    is_plain = _PLAIN.fullmatch(path) is not None
    key = prefix + (path if is_plain else _segments(path))
    return key if len(key) <= _MAX_KEY_BYTES else prefix + _hashed(path)


def alternative_data_key(key: str, pit: PitId) -> str:
    """Where a file is stored when its key is taken by other bytes."""
    return f"{key}%%{pit}"


# documents of a catalog


def catalog_prefix(catalog: str) -> str:
    """The folder of a catalog."""
    return f"{CATALOGS_PREFIX}{name_segment(catalog)}/"


def catalog_metadata_key(catalog: str) -> str:
    """Type and harmless properties of the catalog; derived."""
    return catalog_prefix(catalog) + "catalog_metadata.json"


def pits_index_key(catalog: str) -> str:
    """One line a PIT; derived."""
    return catalog_prefix(catalog) + "pits.jsonl"


def pits_prefix(catalog: str) -> str:
    """The folder whose listing decides which PITs exist."""
    return catalog_prefix(catalog) + "pit_manifests/"


def pit_key(catalog: str, pit: PitId) -> str:
    """The PIT document: its existence is the backup."""
    return f"{pits_prefix(catalog)}{pit}/manifest.json"


_PIT_KEY = re.compile(r"catalogs/[^/]+/pit_manifests/(\d{8}T\d{6}\.\d{6}Z)/manifest\.json\Z")


def parse_pit_key(key: str) -> PitId | None:
    """The id in a PIT's key, None for any other key."""
    match = _PIT_KEY.match(key)
    return PitId.find(match[1]) if match else None


def database_prefix(catalog: str, namespace: tuple[str, ...]) -> str:
    """The folder of a database."""
    return f"{catalog_prefix(catalog)}databases/{name_segment(join_names(namespace))}/"


def database_metadata_key(catalog: str, namespace: tuple[str, ...]) -> str:
    """Properties of a namespace as of the newest PIT; derived."""
    return database_prefix(catalog, namespace) + "database_metadata.json"


def deleted_tables_key(catalog: str, namespace: tuple[str, ...]) -> str:
    """Tables of a database that are gone; derived."""
    return database_prefix(catalog, namespace) + ".deleted_tables.json"


def deleted_databases_key(catalog: str) -> str:
    """Databases that are gone; derived."""
    return catalog_prefix(catalog) + "databases/.deleted_databases.json"


def table_prefix(catalog: str, table: TableId) -> str:
    """The folder of a table's entries and layers."""
    return f"{database_prefix(catalog, table.namespace)}{name_segment(table.name)}/"


def table_manifest_key(catalog: str, table: TableId) -> str:
    """A table's history for people; derived."""
    return table_prefix(catalog, table) + "table_manifest.json"


def entry_key(catalog: str, table: TableId, pit: PitId) -> str:
    """The table as of a PIT."""
    return f"{table_prefix(catalog, table)}entries/{pit}.json"


def layer_key(catalog: str, table: TableId, pit: PitId, kind: str, suffix: str = "") -> str:
    """A layer, or one part of it; a suffix tells apart what one PIT wrote for one table."""
    folder = "snapshots" if kind == "full" else "deltas"
    return f"{table_prefix(catalog, table)}{folder}/{pit}{suffix}.parquet"


_DERIVED_NAMES = {
    "catalog_metadata.json",
    "database_metadata.json",
    "table_manifest.json",
    ".deleted_tables.json",
    ".deleted_databases.json",
}


def is_derived_key(key: str) -> bool:
    """Whether a key under `catalogs/` is a document that only repeats others."""
    return key.rpartition("/")[2] in _DERIVED_NAMES


_STORED_KEY = re.compile(r"catalogs/[^/]+/databases/[^/]+/[^/]+/(entries|snapshots|deltas)/[^/]+\Z")


def find_stored_folder(key: str) -> str | None:
    """`entries`, `snapshots` or `deltas` for a key in such a folder of a table."""
    match = _STORED_KEY.match(key)
    return match[1] if match else None


def parse_entry_key(key: str) -> PitId | None:
    """The PIT that wrote an entry, None for any other key."""
    if find_stored_folder(key) != "entries" or not key.endswith(".json"):
        return None
    return PitId.find(key.rpartition("/")[2].removesuffix(".json"))


# trash


def trash_key(run: PitId) -> str:
    """What a run of maintenance commits: the list of what a prune may delete."""
    return f"{TRASH_PREFIX}{run}.json"


def quarantine_key(pit: PitId, number: int) -> str:
    """Where a damaged PIT manifest is set aside."""
    return f"{TRASH_PREFIX}{pit}-{number}.json"


_TRASH_KEY = re.compile(r"trash/(\d{8}T\d{6}\.\d{6}Z)(-\d+)?\.json\Z")


def parse_trash_key(key: str) -> PitId | None:
    """The run whose list this may be, None for any other key."""
    match = _TRASH_KEY.match(key)
    return PitId.find(match[1]) if match and match[2] is None else None


def parse_quarantine_key(key: str) -> PitId | None:
    """The PIT that was set aside here, None for any other key."""
    match = _TRASH_KEY.match(key)
    return PitId.find(match[1]) if match and match[2] is not None else None


# leases


def lease_key(number: int) -> str:
    """The lease document."""
    return f"{LEASES_PREFIX}{number:08d}.json"


def heartbeat_key(number: int) -> str:
    """What only the lease's owner overwrites."""
    return f"{LEASES_PREFIX}{number:08d}.heartbeat"


def released_key(number: int) -> str:
    """Says that the lease is free."""
    return f"{LEASES_PREFIX}{number:08d}.released"


_LEASE_KEY = re.compile(r"leases/(\d{8})\.json\Z")


def parse_lease_key(key: str) -> int | None:
    """The number in a lease's key, None for any other key."""
    match = _LEASE_KEY.match(key)
    return int(match[1]) if match else None


# jobs


def job_prefix(job: str) -> str:
    """The folder of a run."""
    return f"{JOBS_PREFIX}{name_segment(job)}/"


def job_key(job: str, name: str) -> str:
    """A file of a run; `name` may hold slashes."""
    return job_prefix(job) + name


# verifications


def verification_key(pit: PitId, at: PitId, level: int, outcome: str) -> str:
    """The note of a verification; it says in its name what a list has to know."""
    return f"{VERIFICATIONS_PREFIX}{pit}/{at}-l{level}-{outcome}.json"


_VERIFICATION_KEY = re.compile(
    r"verifications/([0-9TZ.]+)/([0-9TZ.]+)-l([1-9])-([a-z]+)\.json\Z", re.ASCII
)


def parse_verification_key(key: str) -> tuple[PitId, PitId, int, str] | None:
    """PIT, moment, level and outcome of a note, None for any other key."""
    match = _VERIFICATION_KEY.match(key)
    pit, at = (PitId.find(match[1]), PitId.find(match[2])) if match else (None, None)
    return (pit, at, int(match[3]), match[4]) if match and pit and at else None
