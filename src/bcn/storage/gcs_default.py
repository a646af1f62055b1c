"""Google's application default credentials, as all of Google's libraries find them."""

from __future__ import annotations

from datetime import UTC
from typing import Any

import google.auth
from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError
from google.auth.transport.requests import Request

from bcn.errors import StorageError

_SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"
_TOKEN_SECONDS = 8  # for the answer of who gives tokens


class DefaultTokens:
    """Tokens of a service account, a person, a machine, or whoever else the environment names."""

    def __init__(self) -> None:
        """Raises StorageError if there are no credentials."""
        self._credentials: Any  # published with half of its types
        try:
            self._credentials, _ = google.auth.default(scopes=[_SCOPE])
        except DefaultCredentialsError as error:
            raise StorageError(
                f"no credentials for Google Cloud Storage: {_one_line(error)}",
                hint="set gcs.oauth2.token or GOOGLE_APPLICATION_CREDENTIALS, or run 'gcloud auth"
                " application-default login'; gcs.anonymous = true for a public bucket",
            ) from None

    def fetch(self) -> tuple[str, float | None]:
        """A new token. Raises StorageError."""
        credentials, request = self._credentials, Request()

        def ask(*values: Any, **more: Any) -> Any:
            more["timeout"] = min(more.get("timeout") or _TOKEN_SECONDS, _TOKEN_SECONDS)
            return request(*values, **more)

        try:
            credentials.refresh(ask)
        except GoogleAuthError as error:
            raise StorageError(
                f"cannot get a token for Google Cloud Storage: {_one_line(error)}",
                hint="check the credentials that GOOGLE_APPLICATION_CREDENTIALS or gcloud name",
            ) from None
        expiry = credentials.expiry  # UTC, without saying so
        return credentials.token, expiry and expiry.replace(tzinfo=UTC).timestamp()


def _one_line(error: Exception) -> str:
    """The reason alone: some of these errors come with a whole answer of a server."""
    return " ".join(str(error.args[0] if error.args else error).split())[:200]
