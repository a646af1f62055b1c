"""The wire of a REST catalog: addresses, the server's own configuration, retries, raw answers.

The session is our own. pyiceberg's costs 0.7 s to import, waits for a server without end, and reads
tables into a model that refuses odd ones; we want one field of each answer, and an error in time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, unquote, urlsplit

import requests
from requests.adapters import HTTPAdapter

from bcn.catalog.protocol import CatalogSettings
from bcn.catalog.rest_auth import Authorizer, make_authorizer
from bcn.catalog.rest_errors import (
    RestError,
    hide,
    no_catalog,
    public_address,
    refused,
    unreachable,
)
from bcn.errors import CatalogError, SettingsError
from bcn.model import Json
from bcn.version import VERSION

_Item = TypeVar("_Item")
_Found = TypeVar("_Found")

_WORKERS = 8  # requests at a time
_CONNECT_SECONDS = 4.0
_FIRST_SECONDS = 8.0  # for the first answer: what is no REST catalog may never give one
_READ_SECONDS = 60.0
_PATIENCE_SECONDS = 10.0  # a server that answered before may be busy
_RESTART_SECONDS = 60.0  # or starting again, and Java takes its time
_FIRST_PATIENCE_SECONDS = 1.0
BUSY = {429, 502, 503, 504}
EXPIRED = {401, 419}
_LEGACY_VIEWS = "view-endpoints-supported"
_NAMESPACE = "/v1/{prefix}/namespaces/{namespace}"
LIST_VIEWS = f"GET {_NAMESPACE}/views"
REGISTER = f"POST {_NAMESPACE}/register"
REGISTER_VIEW = f"POST {_NAMESPACE}/register-view"
LOAD_CREDENTIALS = f"GET {_NAMESPACE}/tables/{{table}}/credentials"
_LEGACY = {REGISTER}  # what a server has that does not say what it has


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """Properties in force (the server's defaults, ours, its overrides), and what it can do."""

    properties: Mapping[str, str] = field(repr=False)
    endpoints: frozenset[str]

    @property
    def separator(self) -> str:
        """What stands between the levels of a namespace in an address."""
        return unquote(self.properties.get("namespace-separator") or "%1F")


class RestClient:
    """Requests to one catalog; threads may share it."""

    def __init__(self, settings: CatalogSettings) -> None:
        self.name = settings.properties.get("name", settings.name)
        self._own = dict(settings.properties)
        self._uri = _check_uri(settings)
        self._session = _make_session(self._own)
        self._auth: Authorizer = make_authorizer(self._own, self._uri, self._post_form)
        self._lock = threading.Lock()
        self._config: ServerConfig | None = None

    @property
    def address(self) -> str:
        """The server's, as it may be shown."""
        return public_address(self._uri)

    @property
    def config(self) -> ServerConfig:
        """What the server says of itself, asked for once."""
        with self._lock:
            if self._config is None:
                self._config = self._load_config()
            return self._config

    def can(self, endpoint: str) -> bool:
        """Whether the server has an endpoint."""
        return endpoint in self.config.endpoints

    def namespace_path(self, namespace: tuple[str, ...]) -> str:
        """The path of a namespace."""
        return f"namespaces/{self.join(namespace)}"

    def join(self, namespace: tuple[str, ...]) -> str:
        """The levels of a namespace as one segment of an address."""
        return quote(self.config.separator, safe="").join(quote(i, safe="") for i in namespace)

    def load(self, path: str, params: Mapping[str, str] | None = None) -> Json:
        """The answer to a GET. Raises RestError if it says no, CatalogError if there is none."""
        return self._parsed(self._send("GET", self._url(path), params=params))

    def iter_pages(
        self, path: str, key: str, params: Mapping[str, str] | None = None
    ) -> Iterator[Any]:
        """The items of a listing, all of its pages."""
        asked = dict(params or {})
        if size := self.config.properties.get("rest-page-size"):
            asked |= {"pageSize": size, "pageToken": ""}
        while True:
            answer = self.load(path, asked)
            yield from answer.get(key) or ()
            token = answer.get("next-page-token")
            if not token or token == asked.get("pageToken"):
                return
            asked["pageToken"] = str(token)

    def post(self, path: str, body: Json) -> Json:
        """The answer to a POST, which is sent once. Raises RestError, CatalogError."""
        return self._parsed(self._send("POST", self._url(path), body=body))

    def _url(self, path: str) -> str:
        properties = self.config.properties
        prefix = properties.get("prefix", "").strip("/")
        base = properties.get("uri", self._uri).rstrip("/")
        return f"{base}/v1/{prefix}/{path}" if prefix else f"{base}/v1/{path}"

    def _load_config(self) -> ServerConfig:
        warehouse = self._own.get("warehouse")
        params = {"warehouse": warehouse} if warehouse else {}
        answer = self._parsed(self._send("GET", f"{self._uri}/v1/config", params=params))
        if not isinstance(answer.get("defaults"), dict | None) or "overrides" not in answer:
            raise CatalogError(
                f"{self._who()} is no Iceberg REST catalog: its /v1/config has no 'overrides'",
                hint="check 'uri' in the catalog's settings",
            )
        defaults, overrides = _texts(answer.get("defaults")), _texts(answer.get("overrides"))
        properties = {**defaults, **self._own, **overrides}
        self._session.headers.update(_headers(properties))
        listed = answer.get("endpoints")
        if listed:
            endpoints = frozenset(" ".join(str(item).split()) for item in listed)
        else:
            has_views = properties.get(_LEGACY_VIEWS, "").lower() == "true"
            endpoints = frozenset(_LEGACY | ({LIST_VIEWS} if has_views else set()))
        return ServerConfig(properties, endpoints)

    def _send(
        self,
        method: str,
        url: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Json | None = None,
    ) -> requests.Response:
        """One request; a GET again while the server is busy or starting, for a bounded time."""
        began, is_first = time.monotonic(), self._config is None
        deadline = began + (_FIRST_PATIENCE_SECONDS if is_first else _PATIENCE_SECONDS)
        pause, renewed = 0.1, False
        while True:
            try:
                response = self._request(method, url, params=params, json=body, auth=self._auth)
            except requests.RequestException as error:
                is_gone = isinstance(error, requests.ConnectionError) and not is_first
                limit = began + _RESTART_SECONDS if is_gone else deadline
                if method != "GET" or _is_final(error) or time.monotonic() + pause > limit:
                    raise unreachable(self._who(), error) from None
            else:
                if response.status_code in EXPIRED and not renewed:
                    renewed = True
                    if self._auth.renew(response.request):
                        continue
                is_busy = method == "GET" and response.status_code in BUSY
                if not is_busy or time.monotonic() + pause > deadline:
                    return response
            time.sleep(pause)
            pause = min(pause * 2, 1.0)

    def _request(self, method: str, url: str, **more: Any) -> requests.Response:
        seconds = _FIRST_SECONDS if self._config is None else _READ_SECONDS
        return self._session.request(
            method,
            url,
            timeout=(_CONNECT_SECONDS, seconds),
            verify=self._own.get("ssl.cabundle", True),
            allow_redirects=method == "GET",
            **more,
        )

    def _parsed(self, response: requests.Response) -> Json:
        if response.status_code >= 300:
            raise refused(self._who(), response, self._own)
        if not response.content:
            return {}  # 204: there is nothing to say
        try:
            answer = response.json()
        except ValueError:
            raise no_catalog(self._who(), response) from None
        if not isinstance(answer, dict):
            raise no_catalog(self._who(), response)
        return answer

    def _post_form(self, address: str, form: Mapping[str, str], headers: Mapping[str, str]) -> Json:
        """Ask a token server; a client may ask it again, so a broken connection is tried anew."""
        who = f"catalog {self.name!r}: the OAuth2 server at {public_address(address)}"
        kind = {"Content-Type": "application/x-www-form-urlencoded", **headers}
        try:
            response = self._request("POST", address, data=dict(form), headers=kind, auth=_plain)
        except requests.RequestException as error:
            raise unreachable(who, error) from None
        secrets = {**self._own, "secret": form.get("client_secret", "")}
        if response.status_code >= 300:
            raise CatalogError(
                str(refused(who, response, secrets)),
                hint="check 'credential', 'scope' and 'oauth2-server-uri'",
            )
        answer = self._parsed(response)
        if not answer.get("access_token"):
            raise CatalogError(f"{who} gives no token: {hide(', '.join(sorted(answer)), secrets)}")
        return answer

    def _who(self) -> str:
        return f"catalog {self.name!r} at {self.address}"


def is_missing(error: RestError) -> bool:
    """Whether the server says that a table, view or namespace is not there.

    Not every 404 does: a table whose metadata file is gone gives one too.
    """
    return error.status == 404 and "nosuch" in error.kind.lower()


def _plain(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """No authorizer, nor what `.netrc` has."""
    return request


def _is_final(error: requests.RequestException) -> bool:
    """Whether trying again cannot help."""
    kinds = (requests.exceptions.SSLError, requests.exceptions.ProxyError)
    return isinstance(error, (*kinds, requests.exceptions.InvalidURL, requests.exceptions.Timeout))


def _check_uri(settings: CatalogSettings) -> str:
    uri = settings.properties["uri"].rstrip("/")
    try:
        parts = urlsplit(uri)
        is_good = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        is_good = False
    if not is_good:
        raise SettingsError(
            f"catalog {settings.name!r}: 'uri' is not the address of a REST catalog",
            hint="write http://host:port or https://host/path, the part before /v1",
        )
    return uri


def _make_session(properties: Mapping[str, str]) -> requests.Session:
    session = requests.Session()
    for scheme in ("http://", "https://"):
        session.mount(scheme, HTTPAdapter(pool_connections=2, pool_maxsize=_WORKERS))
    session.headers.update(_headers(properties))
    for name in ("ssl.cabundle", "ssl.client.cert", "ssl.client.key"):
        if name in properties and not Path(properties[name]).exists():
            raise SettingsError(f"there is no file {properties[name]}, which {name!r} names")
    cert, key = properties.get("ssl.client.cert"), properties.get("ssl.client.key")
    if cert:
        session.cert = (cert, key) if key else cert
    return session


def _headers(properties: Mapping[str, str]) -> dict[str, str]:
    start = "header."
    own = {key[len(start) :]: value for key, value in properties.items() if key.startswith(start)}
    return {
        "User-Agent": f"bcn/{VERSION}",
        "X-Iceberg-Access-Delegation": "vended-credentials",
        **own,
    }


def _texts(values: Any) -> dict[str, str]:
    return {str(key): str(value) for key, value in (values or {}).items() if value is not None}


def at_once(function: Callable[[_Item], _Found], items: Iterable[_Item]) -> list[_Found]:
    """Results in order. When one fails no other is begun."""
    pool, failed = ThreadPoolExecutor(_WORKERS), threading.Event()

    def work(item: _Item) -> _Found:
        if failed.is_set():
            raise CatalogError("given up")  # nobody sees it: the first failure is told
        try:
            return function(item)
        except BaseException:
            failed.set()
            raise

    try:
        return list(pool.map(work, items))
    finally:
        pool.shutdown(cancel_futures=True)
