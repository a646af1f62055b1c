"""Who we are for Azure: keys that sign, signatures in addresses, tokens that are renewed."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import formatdate
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import parse_qsl, urlsplit

import requests

from bcn.errors import StorageError
from bcn.storage.tokens import Tokens

if TYPE_CHECKING:  # a type that exists for checkers only
    from obstore.store import AzureCredential

_AUTHORITY = "https://login.microsoftonline.com"
_SCOPE, _RESOURCE = "https://storage.azure.com/.default", "https://storage.azure.com/"
_MACHINE = "http://169.254.169.254/metadata/identity/oauth2/token"
_TIMEOUT_SECONDS = (3, 8)
_ERROR_CODE = re.compile(r"AADSTS\d+")
_SIGNED_HEADERS = (
    *("Content-Encoding", "Content-Language", "Content-Length", "Content-MD5", "Content-Type"),
    *("Date", "If-Modified-Since", "If-Match", "If-None-Match", "If-Unmodified-Since", "Range"),
)


class Credential(Protocol):
    """Signs requests of ours, and gives obstore what it signs its own with."""

    def sign(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """The request with its signature. Raises StorageError."""

    def provide(self) -> AzureCredential | None:
        """For obstore; None if its requests are not signed."""


class Nobody:
    """For public containers."""

    def sign(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        return request

    def provide(self) -> AzureCredential | None:
        return None


@dataclass(frozen=True)
class AccessKey:
    """The key of an account (Azure's `SharedKey`)."""

    account: str
    key: bytes = field(repr=False)
    text: str = field(repr=False)

    def sign(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["x-ms-date"] = formatdate(usegmt=True)
        digest = hmac.new(self.key, self._words(request).encode(), hashlib.sha256).digest()
        signature = base64.b64encode(digest).decode()
        request.headers["Authorization"] = f"SharedKey {self.account}:{signature}"
        return request

    def _words(self, request: requests.PreparedRequest) -> str:
        """What is signed: method, some headers, all of Azure's own, path and parameters."""
        headers: Any = request.headers
        plain = [str(headers.get(name, "")) for name in _SIGNED_HEADERS]
        plain[2] = "" if plain[2] == "0" else plain[2]
        own = sorted(f"{name.lower()}:{value}" for name, value in headers.items() if _is_own(name))
        parts = urlsplit(request.url or "")
        params = sorted(
            f"{name.lower()}:{value}"
            for name, value in parse_qsl(parts.query, keep_blank_values=True)
        )
        place = f"/{self.account}{parts.path}"
        return "\n".join([request.method or "", *plain, *own, place, *params])

    def provide(self) -> AzureCredential | None:
        return {"access_key": self.text, "expires_at": None}


def _is_own(name: str) -> bool:
    return name.lower().startswith("x-ms-")


class Sas:
    """A signature that somebody else made; it is a part of every address."""

    def __init__(self, text: str) -> None:
        self._text = text.strip().lstrip("?&")
        if not any(name == "sig" for name, _ in parse_qsl(self._text)):
            raise StorageError(
                "adls.sas-token is no shared access signature: it has no 'sig'",
                hint="it looks like sv=2023-11-03&sr=c&...&sig=...",
            )

    def sign(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        url = request.url or ""
        request.url = f"{url}{'&' if '?' in url else '?'}{self._text}"
        return request

    def provide(self) -> AzureCredential | None:
        return {"sas_token": self._text, "expires_at": None}


class Bearer:
    """Tokens of Microsoft Entra."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    def sign(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"Bearer {self._tokens.current()[0]}"
        return request

    def provide(self) -> AzureCredential | None:
        token, ends_at = self._tokens.current()
        ends = None if ends_at is None else datetime.fromtimestamp(ends_at, UTC)
        return {"token": token, "expires_at": ends}


@dataclass(frozen=True)
class GivenToken:
    """A token that was handed to us; nobody can renew it."""

    token: str = field(repr=False)

    def fetch(self) -> tuple[str, float | None]:
        return self.token, None


@dataclass(frozen=True)
class ClientTokens:
    """For an application with a secret, or with a file as its proof (workload identity)."""

    tenant: str
    client: str
    secret: str | None = field(repr=False)
    proof_file: str | None = None

    def fetch(self) -> tuple[str, float | None]:
        authority = os.environ.get("AZURE_AUTHORITY_HOST") or _AUTHORITY
        form = {"grant_type": "client_credentials", "client_id": self.client, "scope": _SCOPE}
        if self.secret:
            form["client_secret"] = self.secret
        else:
            form["client_assertion_type"] = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
            form["client_assertion"] = self._read_proof()
        url = f"{authority.rstrip('/')}/{self.tenant}/oauth2/v2.0/token"
        return _ask("POST", url, form, {}, "check adls.tenant-id, adls.client-id and the secret")

    def _read_proof(self) -> str:
        try:
            return Path(self.proof_file or "").read_text(encoding="utf-8").strip()
        except OSError as error:
            raise StorageError(
                f"cannot read AZURE_FEDERATED_TOKEN_FILE {self.proof_file}: {error.strerror}"
            ) from None


@dataclass(frozen=True)
class MachineTokens:
    """For whoever works on a machine of Azure's that has an identity."""

    client: str | None

    def fetch(self) -> tuple[str, float | None]:
        params = {"resource": _RESOURCE, "api-version": "2018-02-01"}
        url, headers = _MACHINE, {"Metadata": "true"}
        if os.environ.get("IDENTITY_ENDPOINT") and os.environ.get("IDENTITY_HEADER"):
            url = os.environ["IDENTITY_ENDPOINT"]
            headers = {"X-IDENTITY-HEADER": os.environ["IDENTITY_HEADER"]}
            params["api-version"] = "2019-08-01"
        if self.client:
            params["client_id"] = self.client
        hint = (
            "set adls.account-key, adls.sas-token, adls.connection-string or adls.client-secret;"
            " adls.anon = true for a public container"
        )
        return _ask("GET", url, params, headers, hint)


def _ask(
    method: str, url: str, values: Mapping[str, str], headers: Mapping[str, str], hint: str
) -> tuple[str, float | None]:
    """A token of a service that gives them. Raises StorageError, which holds no secret."""
    is_form = method == "POST"
    what = "no token for Azure" if is_form else "no credentials for Azure, and no identity"
    try:
        answer = requests.request(
            method,
            url,
            data=values if is_form else None,
            params=None if is_form else values,
            headers=dict(headers),
            timeout=_TIMEOUT_SECONDS,
            allow_redirects=False,
        )
        document = answer.json()
    except requests.exceptions.JSONDecodeError:
        raise StorageError(f"{what}: {_host(url)} gave no JSON", hint=hint) from None
    except requests.RequestException:
        raise StorageError(f"{what}: {_host(url)} does not answer", hint=hint) from None
    if not isinstance(document, dict) or "access_token" not in document:
        raise StorageError(f"{what}: {_reason(answer.status_code, document)}", hint=hint)
    lasts = float(document.get("expires_in") or 3600)
    return str(document["access_token"]), time.time() + lasts


def _host(url: str) -> str:
    return urlsplit(url).hostname or ""


def _reason(status: int, document: Any) -> str:
    if not isinstance(document, dict):
        return f"status {status}"
    code = _ERROR_CODE.search(str(document.get("error_description", "")))
    words = [str(document.get("error", f"status {status}")), code[0] if code else ""]
    return " ".join(" ".join(words).split())[:100]
