"""How requests to a REST catalog are signed: token, OAuth2, password, SigV4, or pyiceberg's ways.

An *authorizer* is called with each request before it is sent, and asked to renew itself when the
server refuses one. Token and client credentials are our own: pyiceberg's renew nothing ahead of
time, and wait for a server without end.
"""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol
from urllib.parse import quote

from requests import PreparedRequest
from requests.auth import AuthBase

from bcn.errors import SettingsError
from bcn.model import Json

_EARLY = 0.8  # of its life, after which a token is renewed ahead of time
_EMPTY_SHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
_OWN_TYPES = ("noop", "basic", "oauth2")

PostForm = Callable[[str, Mapping[str, str], Mapping[str, str]], Json]
"""Sends a form with headers to a token server; gives the answer. Raises CatalogError."""


class Authorizer(Protocol):
    """Signs requests; may be called by several threads."""

    def __call__(self, request: PreparedRequest) -> PreparedRequest:
        """The request with what proves who asks."""

    def renew(self, refused: PreparedRequest) -> bool:
        """Whether there is something newer to try than what a refused request had."""


class Fixed(AuthBase):
    """The same header in every request, or none."""

    def __init__(self, header: str = "") -> None:
        self._header = header

    def __call__(self, request: PreparedRequest) -> PreparedRequest:
        """With the header."""
        if self._header:
            request.headers["Authorization"] = self._header
        return request

    def renew(self, refused: PreparedRequest) -> bool:
        """There is no other."""
        return False


class ClientCredentials(AuthBase):
    """OAuth2: a token for a client's id and secret, fetched anew before it ends."""

    def __init__(
        self,
        post: PostForm,
        address: str,
        form: Mapping[str, str],
        headers: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._post = post
        self._address = address
        self._form = {"grant_type": "client_credentials", **form}
        self._headers = headers or {}
        self._clock = clock
        self._lock = threading.Lock()
        self._token = ""
        self._renew_at = 0.0

    def __call__(self, request: PreparedRequest) -> PreparedRequest:
        """With a token that still lives."""
        with self._lock:
            if not self._token or self._clock() >= self._renew_at:
                self._fetch()
            request.headers["Authorization"] = f"Bearer {self._token}"
        return request

    def renew(self, refused: PreparedRequest) -> bool:
        """A new token, unless another thread got one meanwhile."""
        with self._lock:
            if refused.headers.get("Authorization") == f"Bearer {self._token}":
                self._fetch()
        return True

    def _fetch(self) -> None:
        answer = self._post(self._address, self._form, self._headers)
        self._token = str(answer["access_token"])
        seconds = answer.get("expires_in")
        life = float(seconds) if isinstance(seconds, int | float) else float("inf")
        self._renew_at = self._clock() + life * _EARLY


class SigV4(AuthBase):
    """AWS's signature over each request."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        from botocore.session import Session  # noqa: PLC0415  costs time: only where AWS is asked

        session = Session(profile=properties.get("client.profile-name"))
        key, secret = (properties.get(f"client.{name}") for name in _AWS_KEYS)
        if key and secret:
            session.set_credentials(key, secret, properties.get("client.session-token"))
        self._credentials: Any = session.get_credentials()
        self._region = properties.get("rest.signing-region") or properties.get("client.region")
        self._region = self._region or session.get_config_variable("region")
        self._service = properties.get("rest.signing-name", "execute-api")
        if self._credentials is None or not self._region:
            raise SettingsError(
                "rest.sigv4-enabled needs AWS credentials and a region, and finds none",
                hint="set client.access-key-id, client.secret-access-key, rest.signing-region",
            )

    def __call__(self, request: PreparedRequest) -> PreparedRequest:
        """Signed as it is now: body, address and headers."""
        from botocore.auth import SigV4Auth  # noqa: PLC0415
        from botocore.awsrequest import AWSRequest  # noqa: PLC0415

        headers = dict(request.headers)
        headers.pop("Connection", None)  # proxies may change it, which would break the signature
        if not request.body:
            headers["x-amz-content-sha256"] = _EMPTY_SHA256
        signed = AWSRequest(request.method, request.url, headers, request.body)
        SigV4Auth(self._credentials, self._service, self._region).add_auth(signed)
        request.headers.update(dict(signed.headers.items()))
        return request

    def renew(self, refused: PreparedRequest) -> bool:
        """Its credentials renew themselves."""
        return False


_AWS_KEYS = ("access-key-id", "secret-access-key")


class Foreign(AuthBase):
    """One of pyiceberg's: Google, Entra, or a class of the user's own."""

    def __init__(self, kind: str, options: Mapping[str, str]) -> None:
        from pyiceberg.catalog.rest.auth import AuthManagerFactory  # noqa: PLC0415  costs a second

        try:
            self._manager: Any = AuthManagerFactory.create(kind, dict(options))
        except Exception as error:
            reason = str(error).partition("\n")[0]
            raise SettingsError(f"auth.type {kind!r} cannot be used: {reason}") from error

    def __call__(self, request: PreparedRequest) -> PreparedRequest:
        """With the header that pyiceberg's manager makes."""
        if header := self._manager.auth_header():
            request.headers["Authorization"] = header
        return request

    def renew(self, refused: PreparedRequest) -> bool:
        """It made a new header for that request already."""
        return False


def make_authorizer(properties: Mapping[str, str], address: str, post: PostForm) -> Authorizer:
    """What the properties of a catalog ask for, under pyiceberg's names. Raises SettingsError."""
    if properties.get("rest.sigv4-enabled", "").lower() == "true":
        return SigV4(properties)
    if "auth.type" in properties:
        return _chosen(properties, post)
    if properties.get("credential"):
        return _client_credentials(properties, address, post)
    token = properties.get("token")
    return Fixed(f"Bearer {token}" if token else "")


def _client_credentials(
    properties: Mapping[str, str], address: str, post: PostForm
) -> ClientCredentials:
    client, colon, secret = properties["credential"].partition(":")
    form = {"client_id": client, "client_secret": secret} if colon else {"client_secret": client}
    form["scope"] = properties.get("scope") or "catalog"
    form |= {key: properties[key] for key in ("audience", "resource") if properties.get(key)}
    server = properties.get("oauth2-server-uri") or f"{address}/v1/oauth/tokens"
    return ClientCredentials(post, server, form)


def _chosen(properties: Mapping[str, str], post: PostForm) -> Authorizer:
    """By `auth.type`, its options under `auth.<type>.`."""
    kind = properties["auth.type"]
    start = f"auth.{kind}."
    options = {key[len(start) :]: properties[key] for key in properties if key.startswith(start)}
    if kind not in _OWN_TYPES:
        return Foreign(properties.get("auth.impl", kind) if kind == "custom" else kind, options)
    try:
        if kind == "basic":
            return Fixed(_basic(options["username"], options["password"]))
        if kind == "oauth2":
            login = _basic(quote(options["client_id"]), quote(options["client_secret"]))
            scope = {"scope": options["scope"]} if options.get("scope") else {}
            return ClientCredentials(post, options["token_url"], scope, {"Authorization": login})
    except KeyError as error:
        raise SettingsError(f"auth.type {kind!r} needs {start}{error.args[0]}") from None
    return Fixed()


def _basic(user: str, password: str) -> str:
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"
