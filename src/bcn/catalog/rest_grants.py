"""Credentials that a REST catalog hands out for the files of single tables, and their renewal.

A *grant* is what one answer gave for one table: properties for all of its files (`config`), and
for those under a prefix (`storage-credentials`; the longest prefix wins). Tasks carry no grants but
which table has which place: a process asks the server when it first needs one, and again before it
ends.
"""

from __future__ import annotations

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

_MARGIN_SECONDS = 300.0
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

    def ends_at(self, location: str) -> float:
        """Seconds since 1970; infinity if it is not said."""
        properties = self.properties(location)
        times = [float(properties[key]) / 1000 for key in _expiry_keys(properties)]
        return min(times, default=float("inf"))


def _expiry_keys(properties: Mapping[str, str]) -> list[str]:
    return [
        key
        for key, value in properties.items()
        # Azure's name ends in the account.
        if key.startswith(_EXPIRIES) and value.strip().isdigit()
    ]


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


class Grants:
    """Which tables were granted what; it travels to executors, where it asks for itself.

    Of the grants themselves, only those at hand in this process are kept, and none is pickled.
    """

    def __init__(self, settings: CatalogSettings) -> None:
        self._settings = settings
        self._tables: dict[str, TableId] = {}  # by place
        self._start()

    def __getstate__(self) -> tuple[CatalogSettings, dict[str, TableId]]:
        """The recipe: how the server is asked, and for which tables."""
        return self._settings, dict(self._tables)

    def __setstate__(self, state: tuple[CatalogSettings, dict[str, TableId]]) -> None:
        self._settings, self._tables = state
        self._start()

    def _start(self) -> None:
        self._lock = threading.Lock()
        self._at_hand: dict[TableId, Grant] = {}
        self._client: RestClient | None = None

    def __repr__(self) -> str:
        return f"Grants({len(self._tables)} places)"

    def note(self, table: TableId, answer: Json) -> None:
        """Remember what a load answer granted, if it did."""
        grant = parse_grant(answer)
        if grant is None:
            return
        with self._lock:
            self._at_hand[table] = grant
            self._tables |= dict.fromkeys(places_of(answer), table)

    def find_scope(self, location: str) -> str | None:
        """The place of the table that a location belongs to; None if nothing was granted for it."""
        place = location
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
        table = self._tables[scope]
        with self._lock:
            grant = self._at_hand.get(table)
            if refused or grant is None or grant.ends_at(location) < time.time() + _MARGIN_SECONDS:
                grant = self._at_hand[table] = self._ask(table, grant)
        return grant.properties(location)

    def ends_at(self, location: str) -> float:
        """When what `properties` gave last for a location ends, in seconds since 1970."""
        scope = self.find_scope(location)
        grant = self._at_hand.get(self._tables[scope]) if scope else None
        return grant.ends_at(location) if grant else float("inf")

    def _ask(self, table: TableId, old: Grant | None) -> Grant:
        """From the server's own endpoint for it, else by loading the table again."""
        if self._client is None:
            self._client = RestClient(self._settings)
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
                f"catalog {self._client.name!r} grants no access to {table} any more"
            )
        return grant
