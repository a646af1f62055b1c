"""From recipes and locations to open storages; a kind of storage is imported when it is needed."""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Protocol

from bcn.storage.bucket import Bucket
from bcn.storage.local import LocalStorage, local_path
from bcn.storage.protocol import Access, Grants, Storage, StorageSpec

Renew = Callable[[], Mapping[str, str]]


class _Service(Protocol):
    """A kind of object store: which of them a location means, and how it is opened."""

    def split(self, location: str) -> tuple[str, str]:
        """The bucket's own location, in one spelling, and the rest of the location as it is."""

    def open(self, spec: StorageSpec, renew: Renew | None) -> Storage:
        """The storage at a location; newer properties are asked for when these are refused."""


class _S3:
    """`s3a` and `s3n` are Hadoop's names for the same places."""

    def split(self, location: str) -> tuple[str, str]:
        bucket, _, key = location.partition("://")[2].partition("/")
        return f"s3://{bucket}", key

    def open(self, spec: StorageSpec, renew: Renew | None) -> Storage:
        from bcn.storage.s3 import S3Bucket  # noqa: PLC0415  a factory imports what it picked

        return _open_cloud(S3Bucket, self.split(spec.location), spec.properties, renew)


class _Gcs:
    """`gcs` is another name for `gs`."""

    def split(self, location: str) -> tuple[str, str]:
        bucket, _, key = location.partition("://")[2].partition("/")
        return f"gs://{bucket}", key

    def open(self, spec: StorageSpec, renew: Renew | None) -> Storage:
        from bcn.storage.gcs import GcsBucket  # noqa: PLC0415  a factory imports what it picked

        return _open_cloud(GcsBucket, self.split(spec.location), spec.properties, renew)


class _Azure:
    """The schemes of Hadoop's two drivers, and `az`; all name a container, most an account, too."""

    def split(self, location: str) -> tuple[str, str]:
        place, _, key = location.partition("://")[2].partition("/")
        return f"az://{place}", key

    def open(self, spec: StorageSpec, renew: Renew | None) -> Storage:
        from bcn.storage.azure import AzureBucket  # noqa: PLC0415  a factory imports what it picked

        return _open_cloud(AzureBucket, self.split(spec.location), spec.properties, renew)


def _open_cloud(
    kind: Callable[[str, dict[str, str]], Bucket],
    parts: tuple[str, str],
    properties: Mapping[str, str],
    renew: Renew | None,
) -> Storage:
    from bcn.storage.cloud import CloudStorage, open_bucket  # noqa: PLC0415  costs time

    place, root = parts
    name = place.partition("://")[2]

    def open_with(properties: Mapping[str, str]) -> Bucket:
        return open_bucket(kind, name, dict(properties))

    again = None if renew is None else (lambda: open_with(renew()))
    return CloudStorage(open_with(properties), root, again)


_SERVICES: Mapping[str, _Service] = {
    **dict.fromkeys(("s3", "s3a", "s3n"), _S3()),
    **dict.fromkeys(("gs", "gcs"), _Gcs()),
    **dict.fromkeys(("abfs", "abfss", "wasb", "wasbs", "az", "azure"), _Azure()),
}
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://[^/]")
_GRANT_SECONDS = 240.0  # what is left of a grant must last for a file
_SLASHES = re.compile("//+")


def _find_service(location: str) -> _Service | None:
    scheme = _SCHEME.match(location)
    return _SERVICES.get(scheme[1].lower()) if scheme else None


def open_storage(spec: StorageSpec, renew: Renew | None = None) -> Storage:
    """The storage whose root is the spec's location. Raises UnsupportedSchemeError."""
    service = _find_service(spec.location)
    return LocalStorage(local_path(spec.location)) if service is None else service.open(spec, renew)


class Stores:
    """Storages for absolute locations of any kind, opened once each, in one process."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._opened: dict[tuple[str, str | None], tuple[Storage, float]] = {}

    def resolve(self, location: str) -> tuple[Storage, str]:
        """The storage that holds a location, and the location's key there.

        What a catalog grants for a table is asked for anew before it ends.
        """
        service, grants = _find_service(location), self._access.grants
        place, key = ("/", local_path(location)[1:]) if service is None else service.split(location)
        scope = None if grants is None or service is None else grants.find_scope(location)
        storage, ends_at = self._opened.get((place, scope), (None, 0.0))
        if storage is None or ends_at < time.time() + _GRANT_SECONDS:
            storage, ends_at = self._open(place, None if scope is None else grants, location)
            self._opened[place, scope] = storage, ends_at
        return storage, key

    def _open(self, place: str, grants: Grants | None, location: str) -> tuple[Storage, float]:
        """A storage, and when what was granted for it ends."""
        base = self._access.properties
        if grants is None:
            return open_storage(StorageSpec(place, base)), math.inf
        spec = StorageSpec(place, {**base, **grants.properties(location)})

        def renew() -> Mapping[str, str]:
            return {**base, **grants.properties(location, refused=True)}

        return open_storage(spec, renew), grants.ends_at(location)


def flush_places(locations: Iterable[str]) -> None:
    """Return when all that was written under these locations will survive a power cut.

    Only local disks need to be told: an object store has stored what it has answered for.
    """
    mounts: dict[int, Path] = {}
    local = (location for location in locations if _find_service(location) is None)
    for path in (Path(local_path(location)) for location in local):
        if path.is_dir():
            mounts.setdefault(path.stat().st_dev, path)
    for path in mounts.values():
        LocalStorage(str(path)).flush()


def canonical_location(location: str) -> str:
    """One spelling for one place, links followed, to compare places; never stored.

    Two services may have buckets of one name: they count as one place, which is the safe side. So
    do `a//b` and `a/b`: some servers make no difference.
    """
    service = _find_service(location)
    if service is None:
        return os.path.realpath(local_path(location))
    place, key = service.split(location)
    place = place.partition("@")[0]  # an account that one of two spellings may leave out
    return f"{place}/{_SLASHES.sub('/', key).strip('/')}".rstrip("/")


def overlaps(first: str, second: str) -> bool:
    """Whether one of two locations is the other or lies inside it."""
    one, two = canonical_location(first) + "/", canonical_location(second) + "/"
    return one.startswith(two) or two.startswith(one)
