"""How Google Cloud Storage is reached: pyiceberg's property names, then Google's own ways."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import google.auth
import requests
from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError
from google.auth.transport.requests import Request

from bcn.errors import StorageError

if TYPE_CHECKING:  # a type that exists for checkers only
    from obstore.store import GCSCredential

_GOOGLE = "https://storage.googleapis.com"
_SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"
_TOKEN_SECONDS = 8  # for the answer of who gives tokens


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
        project = self.properties.get("gcs.project-id")
        if not self._is("gcs.requester-pays"):
            return {}
        if not project:
            raise StorageError("gcs.requester-pays needs gcs.project-id: the project that pays")
        return {"x-goog-user-project": project}

    @cached_property
    def tokens(self) -> Tokens:
        """Where tokens come from. Raises StorageError."""
        token = (self.properties.get("gcs.oauth2.token") or "").strip()
        if token:
            return Tokens(_Given(token, _read_expiry(self.properties)))
        try:
            credentials, _ = google.auth.default(scopes=[_SCOPE])
        except DefaultCredentialsError as error:
            raise StorageError(
                f"no credentials for Google Cloud Storage: {_one_line(error)}",
                hint="set gcs.oauth2.token or GOOGLE_APPLICATION_CREDENTIALS, or run 'gcloud auth"
                " application-default login'; gcs.anonymous = true for a public bucket",
            ) from None
        return Tokens(credentials)


@dataclass
class _Given:
    """A token that was handed to us; nobody can renew it."""

    token: str = field(repr=False)
    expiry: datetime | None = None  # as google.auth has it: UTC without saying so

    @property
    def valid(self) -> bool:
        return self.expiry is None or self.expiry > datetime.now(UTC).replace(tzinfo=None)

    def refresh(self, _: object) -> None:
        raise StorageError(
            f"the token in gcs.oauth2.token has expired at {self.expiry:%Y-%m-%d %H:%M:%S} UTC",
            hint="get a new one and run the same command again",
        )


class Tokens:
    """The token of now, renewed shortly before it ends; any thread may ask."""

    def __init__(self, credentials: Any) -> None:
        self._credentials = credentials
        self._lock = threading.Lock()

    def __call__(self) -> GCSCredential:
        """As obstore asks for it. Raises StorageError."""
        with self._lock:
            if not self._credentials.valid:
                self._refresh()
            expiry = self._credentials.expiry
            ends_at = None if expiry is None else expiry.replace(tzinfo=UTC)
            return {"token": self._credentials.token, "expires_at": ends_at}

    def _refresh(self) -> None:
        request = Request()

        def ask(*values: Any, **more: Any) -> Any:
            more["timeout"] = min(more.get("timeout") or _TOKEN_SECONDS, _TOKEN_SECONDS)
            return request(*values, **more)

        try:
            self._credentials.refresh(ask)
        except GoogleAuthError as error:
            raise StorageError(
                f"cannot get a token for Google Cloud Storage: {_one_line(error)}",
                hint="check the credentials that GOOGLE_APPLICATION_CREDENTIALS or gcloud name",
            ) from None

    def sign(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Put the token into a request."""
        request.headers["Authorization"] = f"Bearer {self()['token']}"
        return request


def _read_expiry(properties: Mapping[str, str]) -> datetime | None:
    """Milliseconds since 1970."""
    text = properties.get("gcs.oauth2.token-expires-at")
    if not text:
        return None
    try:
        return datetime.fromtimestamp(int(text) / 1000, UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        raise StorageError(
            f"gcs.oauth2.token-expires-at is no number of milliseconds since 1970: {text!r}"
        ) from None


def _one_line(error: Exception) -> str:
    """The reason alone: some of these errors come with a whole answer of a server."""
    return " ".join(str(error.args[0] if error.args else error).split())[:200]
