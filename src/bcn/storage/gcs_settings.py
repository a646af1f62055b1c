"""How Google Cloud Storage is reached: pyiceberg's property names, then Google's own ways."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import requests

from bcn.errors import StorageError
from bcn.storage.tokens import Tokens

if TYPE_CHECKING:  # a type that exists for checkers only
    from obstore.store import GCSCredential

_GOOGLE = "https://storage.googleapis.com"


@dataclass(frozen=True)
class GcsSettings:
    """One service. Its text form holds no secret."""

    properties: Mapping[str, str] = field(repr=False)

    def _is(self, name: str) -> bool:
        return (self.properties.get(name) or "").strip().lower() == "true"

    @cached_property
    def endpoint(self) -> str:
        """The address of the service."""
        found = self.properties.get("gcs.service.host") or os.environ.get("STORAGE_EMULATOR_HOST")
        if not found:
            return _GOOGLE
        if "://" not in found:
            found = f"http://{found}"
        parts = urlsplit(found)
        if parts.scheme not in {"http", "https"} or not parts.hostname or "@" in parts.netloc:
            raise StorageError(
                "gcs.service.host is no address of a service",
                hint='it looks like gcs.service.host = "http://host:4443"',
            )
        return found.rstrip("/")

    @property
    def is_anonymous(self) -> bool:
        """Whether requests carry no token: as asked for, or as Google treats emulators."""
        if self._is("gcs.anonymous") or self._is("gcs.no-auth"):
            return True
        is_emulator = not self.properties.get("gcs.service.host") and self.endpoint != _GOOGLE
        return is_emulator and not self.properties.get("gcs.oauth2.token")

    @property
    def headers(self) -> dict[str, str]:
        """Of every request: who pays, if not the bucket's owner."""
        project = self.properties.get("gcs.user-project")
        if not project and not self._is("gcs.requester-pays"):
            return {}
        project = project or self.properties.get("gcs.project-id")
        if not project:
            raise StorageError("gcs.requester-pays needs gcs.project-id: the project that pays")
        return {"x-goog-user-project": project}

    @cached_property
    def tokens(self) -> Tokens:
        """Where tokens come from. Raises StorageError."""
        token = (self.properties.get("gcs.oauth2.token") or "").strip()
        if token:
            return Tokens(_Given(token, _read_expiry(self.properties)))
        from bcn.storage.gcs_default import DefaultTokens  # noqa: PLC0415  costs half a second

        return Tokens(DefaultTokens())

    def provide(self) -> GCSCredential:
        """The token of now, as obstore asks for it. Raises StorageError."""
        token, ends_at = self.tokens.current()
        ends = None if ends_at is None else datetime.fromtimestamp(ends_at, UTC)
        return {"token": token, "expires_at": ends}

    def sign(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Put the token of now into a request. Raises StorageError."""
        if not self.is_anonymous:
            request.headers["Authorization"] = f"Bearer {self.tokens.current()[0]}"
        return request


@dataclass(frozen=True)
class _Given:
    """A token that was handed to us; nobody can renew it."""

    token: str = field(repr=False)
    ends_at: float | None

    def fetch(self) -> tuple[str, float | None]:
        if self.ends_at is not None and self.ends_at < time.time():
            raise StorageError(
                "the token in gcs.oauth2.token has expired at"
                f" {datetime.fromtimestamp(self.ends_at, UTC):%Y-%m-%d %H:%M:%S} UTC",
                hint="get a new one and run the same command again",
            )
        return self.token, self.ends_at


def _read_expiry(properties: Mapping[str, str]) -> float | None:
    """Milliseconds since 1970."""
    text = properties.get("gcs.oauth2.token-expires-at")
    if not text:
        return None
    try:
        return int(text) / 1000
    except ValueError:
        raise StorageError(
            f"gcs.oauth2.token-expires-at is no number of milliseconds since 1970: {text!r}"
        ) from None
