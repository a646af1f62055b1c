"""What goes wrong between us and a REST catalog, in one line, with what to try."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import requests

from bcn.errors import CatalogError, UnsupportedCatalogError

_SECRET = re.compile(
    r"token|secret|credential|passw|key|header\.|auth\.|account|sas", re.IGNORECASE
)
_TITLE = re.compile(r"<title>\s*(.{1,200}?)\s*</title>", re.IGNORECASE | re.DOTALL)
_RUNS = "that the server runs"
_HINT_URI = "check 'uri' in the catalog's settings: its host, port and path"
_HINTS = {
    400: "check 'uri', 'prefix' and 'warehouse' in the catalog's settings",
    401: "check 'token' or 'credential' in the catalog's settings",
    403: "ask for the right to do this, or use other credentials",
    404: "check 'uri', 'prefix' and 'warehouse' in the catalog's settings",
}


class RestError(CatalogError):
    """A REST catalog answers that it does not do what was asked."""

    status = 0
    kind = ""


@dataclass(frozen=True, slots=True)
class Problem:
    """The server's own words: its name for the failure, and a line."""

    kind: str
    message: str


def public_address(uri: str) -> str:
    """An address without user, password and options."""
    parts = urlsplit(uri)
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    port = f":{parts.port}" if parts.port else ""
    return urlunsplit((parts.scheme, host + port, parts.path, "", ""))


def hide(text: str, properties: Mapping[str, str]) -> str:
    """A text of the server's without the secrets that it was sent."""
    for key, value in properties.items():
        if _SECRET.search(key):
            for part in {value, *value.split(":", 1)}:
                text = text.replace(part, "***") if len(part) > 3 else text
    return text


def read_problem(response: requests.Response) -> Problem:
    """What the body of a refusal says, as Iceberg's or OAuth2's error, or as a web page."""
    try:
        body = response.json()
    except ValueError:
        title = _TITLE.search(response.text[:10_000])
        return Problem("", " ".join(title[1].split()) if title else response.reason or "no reason")
    error: Any = body.get("error", body) if isinstance(body, dict) else body
    if isinstance(error, str):  # OAuth2's own form
        return Problem(error, str(body.get("error_description") or error))
    if not isinstance(error, dict):
        return Problem("", response.reason or "no reason")
    line = str(error.get("message") or response.reason).strip().partition("\n")[0]
    return Problem(str(error.get("type") or ""), line[:300])


def refused(who: str, response: requests.Response, secrets: Mapping[str, str]) -> RestError:
    """An answer that says no, as an error. `who` names the catalog and its address."""
    problem = read_problem(response)
    words = {401: "refuses the credentials", 403: "forbids it", 419: "says the token has ended"}
    verb = words.get(response.status_code, "answers")
    message = f"{who} {verb}: {response.status_code} {hide(problem.message, secrets)}"
    error = RestError(message, hint=_HINTS.get(response.status_code, ""))
    error.status, error.kind = response.status_code, problem.kind
    return error


def no_catalog(who: str, response: requests.Response) -> CatalogError:
    """An answer that no Iceberg REST catalog gives."""
    kind = response.headers.get("Content-Type", "").partition(";")[0] or "no type"
    return CatalogError(
        f"{who} is no Iceberg REST catalog: it answers {response.status_code} with {kind}",
        hint=f"{_HINT_URI} (the part before /v1)",
    )


def unreachable(who: str, error: requests.RequestException) -> CatalogError:
    """A request that got no answer."""
    reason, hint = _reason(error)
    return CatalogError(f"{who} cannot be reached: {reason}", hint=hint)


def _reason(error: requests.RequestException) -> tuple[str, str]:
    text = str(error)
    if isinstance(error, requests.exceptions.SSLError):
        return _tls_reason(text)
    if isinstance(error, requests.exceptions.ProxyError):
        return "the proxy does not let us through", "check HTTP_PROXY, HTTPS_PROXY and NO_PROXY"
    if isinstance(error, requests.exceptions.Timeout):
        return "it does not answer in time", f"{_HINT_URI}, and that it speaks HTTP"
    found = (
        ("Connection refused", "connection refused"),
        ("NameResolutionError", "its host is not known"),
        ("Name or service not known", "its host is not known"),
        ("No route to host", "no route to its host"),
        ("Network is unreachable", "the network is unreachable"),
        ("BadStatusLine", "it does not speak HTTP"),
        ("RemoteDisconnected", "it closes the connection without an answer"),
        ("ConnectionResetError", "it breaks the connection"),
        ("BrokenPipe", "it breaks the connection"),
        ("IncompleteRead", "its answer ends too early"),
    )
    line = next((words for sign, words in found if sign in text), type(error).__name__)
    is_strange = any(sign in text for sign in ("BadStatusLine", "Disconnected", "Reset", "Broken"))
    what = "that it speaks HTTP (a Hive Metastore speaks thrift)" if is_strange else _RUNS
    return line, f"{_HINT_URI}, and {what}"


def _tls_reason(text: str) -> tuple[str, str]:
    if "CERTIFICATE_VERIFY_FAILED" in text:
        reason = text.rpartition("CERTIFICATE_VERIFY_FAILED]")[2].partition("(_ssl")[0]
        reason = reason.replace("certificate verify failed:", "").strip() or "not trusted"
        return f"its certificate is refused: {reason}", "name its CA's file in 'ssl.cabundle'"
    if "WRONG_VERSION_NUMBER" in text or "record layer" in text:
        return "it does not speak TLS", "write http:// in 'uri' if the server has no TLS"
    return "no TLS connection can be made", "check 'uri' and the 'ssl.' properties"


def cannot_hold(what: str, error: RestError) -> CatalogError:
    """A name that the server does not even look up."""
    if error.status not in {400, 414}:
        return error
    return UnsupportedCatalogError(
        f"a REST catalog cannot hold the {what}: {error}",
        hint="choose another with --target-database or --target-table, or --exclude it",
    )
