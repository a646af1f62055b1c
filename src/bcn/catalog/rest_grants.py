"""Credentials that a REST catalog hands out for the files of single tables, and their renewal.

A *grant* is what one answer gave for one table: properties for all of its files (`config`), and
for those under a prefix (`storage-credentials`; the longest prefix wins). Tasks carry no grants but
which table has which place: a process asks the server when it first needs one, and again before it
ends.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

from bcn.catalog.protocol import CatalogSettings
from bcn.catalog.rest_client import LOAD_CREDENTIALS, RestClient
from bcn.catalog.rest_errors import RestError
from bcn.errors import CatalogError
from bcn.model import Json, TableId

_MARGIN_SECONDS = 300.0  # before its end that a grant is renewed; less if it lives only shortly
_EXPIRIES = (  # milliseconds since 1970, as each service names it
    "s3.session-token-expires-at-ms",
    "gcs.oauth2.token-expires-at",
    "adls.sas-token-expires-at-ms",
    "expiration-time",
)
_SECRETS = (
    "s3.access-key-id",
    "s3.session-token",
    "gcs.oauth2.token",
    "adls.sas-token",
    "adls.token",
)
_PLACES = ("write.data.path", "write.metadata.path", "write.object-storage.path")


@dataclass(frozen=True, slots=True)
class Grant:
    """What one answer gave. Its text form leaves the secrets out."""

    config: Mapping[str, str] = field(default_factory=dict, repr=False)
    by_prefix: tuple[tuple[str, Mapping[str, str]], ...] = field(default=(), repr=False)

    def properties(self, location: str) -> dict[str, str]:
        """Those for one location: the longest prefix's beside the table's own."""
        matches = [item for item in self.by_prefix if location.startswith(item[0])]
        best = max(matches, key=lambda item: len(item[0]), default=("", {}))
        return {**self.config, **best[1]}

    def ends_at(self) -> float:
        """When the first part of it ends, in seconds since 1970; infinity if it is not said."""
        times = [
            int(value) / 1000
            for properties in (self.config, *(item[1] for item in self.by_prefix))
            for key, value in properties.items()
            if key.startswith(_EXPIRIES) and value.isdigit()  # Azure's ends in the account
        ]
        return min(times, default=float("inf"))


def parse_grant(answer: Json) -> Grant | None:
    """What an answer grants; None if there are no credentials in it."""
    config = {str(key): str(value) for key, value in (answer.get("config") or {}).items()}
    prefixes = tuple(
        (str(item.get("prefix") or ""), {str(k): str(v) for k, v in item["config"].items()})
        for item in answer.get("storage-credentials") or ()
        if item.get("config")
    )
    if not prefixes and not any(key.startswith(_SECRETS) for key in config):
        return None
    return Grant({key: value for key, value in config.items() if "." in key}, prefixes)


def places_of(answer: Json) -> set[str]:
    """Where the table of a load answer has its files, as far as its metadata says."""
    metadata = answer.get("metadata") or {}
    properties = metadata.get("properties") or {}
    found = [metadata.get("location"), *(properties.get(key) for key in _PLACES)]
    found.append(str(answer.get("metadata-location") or "").rpartition("/")[0])
    return {str(place).rstrip("/") for place in found if place}


class _Desk:
    """Where one process asks one catalog: its connections, and the grants at hand."""

    def __init__(self, settings: CatalogSettings) -> None:
        self._client = RestClient(settings)
        self._lock = threading.Lock()
        self._grants: dict[TableId, Grant] = {}
        self._renew_at: dict[TableId, float] = {}

    def keep(self, table: TableId, grant: Grant) -> None:
        now, ends_at = time.time(), grant.ends_at()
        self._grants[table] = grant
        self._renew_at[table] = ends_at - min(_MARGIN_SECONDS, (ends_at - now) / 4)

    def find(self, table: TableId) -> Grant | None:
        return self._grants.get(table)

    def load(self, table: TableId, *, refused: bool) -> Grant:
        """A grant that lives; threads wait for the one that asks."""
        with self._lock:
            grant = self._grants.get(table)
            if refused or grant is None or self._renew_at[table] < time.time():
                grant = self._ask(table, grant)
                self.keep(table, grant)
        return grant

    def _ask(self, table: TableId, old: Grant | None) -> Grant:
        """From the server's own endpoint for it, else by loading the table again."""
        base = self._client.namespace_path(table.namespace)
        path = f"{base}/tables/{quote(table.name, safe='')}"
        if old is not None and old.by_prefix and self._client.can(LOAD_CREDENTIALS):
            try:
                grant = parse_grant(self._client.load(f"{path}/credentials"))
            except RestError:
                grant = None  # said to be there, but is not: the table itself has them too
            if grant is not None:
                return Grant(old.config, grant.by_prefix)
        grant = parse_grant(self._client.load(path, {"snapshots": "refs"}))
        if grant is None:
            raise CatalogError(
                f"catalog {self._client.name!r} grants no more access to {table}",
                hint="check what the catalog lets these credentials do",
            )
        return grant


_desks: dict[tuple[object, ...], _Desk] = {}
_desks_lock = threading.Lock()


def _desk_of(settings: CatalogSettings) -> _Desk:
    """One for each catalog in one process: the tasks of an executor come one after the other."""
    key = (os.getpid(), settings.name, *sorted(settings.properties.items()))
    with _desks_lock:
        if key not in _desks:
            _desks[key] = _Desk(settings)
        return _desks[key]


class Grants:
    """Which tables were granted what; it travels to executors, where it asks for itself.

    The grants themselves stay in the process that asked: none is pickled.
    """

    def __init__(self, settings: CatalogSettings) -> None:
        self._settings = settings
        self._tables: dict[str, TableId] = {}  # by place

    def __repr__(self) -> str:
        return f"Grants({len(self._tables)} places)"

    def note(self, table: TableId, answer: Json) -> None:
        """Remember what a load answer granted, if it did."""
        grant = parse_grant(answer)
        if grant is not None:
            _desk_of(self._settings).keep(table, grant)
            self._tables |= dict.fromkeys(places_of(answer), table)

    def find_scope(self, location: str) -> str | None:
        """The place of the table that a location belongs to; None if nothing was granted for it."""
        place = location if self._tables else ""
        while place:
            if place in self._tables:
                return place
            place = place.rpartition("/")[0]
        return None

    def properties(self, location: str, *, refused: bool = False) -> dict[str, str]:
        """Properties that reach a location now. Raises CatalogError.

        They are asked for anew when they are near their end, or when they were `refused`.
        """
        scope = self.find_scope(location)
        if scope is None:
            return {}
        grant = _desk_of(self._settings).load(self._tables[scope], refused=refused)
        return grant.properties(location)

    def ends_at(self, location: str) -> float:
        """When what `properties` gave last for a location ends, in seconds since 1970."""
        scope = self.find_scope(location)
        grant = _desk_of(self._settings).find(self._tables[scope]) if scope else None
        return grant.ends_at() if grant else float("inf")
