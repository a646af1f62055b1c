"""Calls to AWS Glue: botocore's client, tried again where that helps, errors in one line."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from random import uniform
from typing import Any

from bcn.errors import CatalogError, SettingsError

_CONNECT_SECONDS, _READ_SECONDS = 3, 8
_UNREACHABLE_SECONDS = 3.0  # how long a server that does not answer is asked again
_BUSY_SECONDS = 60.0  # how long one that says "slow down" is

_BUSY = {"ThrottlingException", "Throttling", "TooManyRequestsException", "SlowDown"}
_FAILED_THERE = {"InternalServiceException", "OperationTimeoutException", "InternalFailure"}
_WRONG_KEY = {
    "UnrecognizedClientException",
    "InvalidClientTokenId",
    "InvalidAccessKeyId",
    "AuthFailure",
    "InvalidSignatureException",
    "SignatureDoesNotMatch",
    "IncompleteSignatureException",
    "IncompleteSignature",
    "MissingAuthenticationTokenException",
}
_EXPIRED = {"ExpiredTokenException", "ExpiredToken", "RequestExpired"}
_DENIED = {"AccessDeniedException", "AccessDenied", "NotAuthorized"}

_SECRET_LENGTH = 6  # shorter texts are parts of words

_KEY_HINT = (
    "check glue.access-key-id, glue.secret-access-key, glue.session-token or the AWS profile"
)
_ENDPOINT_HINT = "check glue.endpoint and glue.region in the catalog's settings, and the network"
_NOT_GLUE = "the answer is not Glue's"
_REGION_HINT = "set glue.region in the catalog's settings, or AWS_REGION"


class GlueAnswerError(Exception):
    """An error that Glue itself answered with. `is_unsure` if an earlier try may have worked."""

    def __init__(self, code: str, message: str, *, is_unsure: bool) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.is_unsure = is_unsure


class GlueClient:
    """Glue of one account and region. Connects when first used."""

    def __init__(self, catalog: str, properties: Mapping[str, str]) -> None:
        self._catalog = catalog
        self._properties = properties
        self.endpoint = properties.get("glue.endpoint", "")

    def call(self, operation: str, **arguments: Any) -> dict[str, Any]:
        """One call. Raises GlueAnswerError for what the caller may expect, else CatalogError."""
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415  only for Glue

        function = getattr(self._client, operation)
        if self._properties.get("glue.id"):
            arguments["CatalogId"] = self._properties["glue.id"]
        tries = _Tries()
        while True:
            try:
                return dict(function(**arguments))
            except ClientError as error:
                code = str(error.response.get("Error", {}).get("Code", ""))
                if tries.again(_patience(code, error.response), is_unsure=code in _FAILED_THERE):
                    continue
                raise self._answered(error, is_unsure=tries.is_unsure) from None
            except BotoCoreError as error:
                if _is_lost(error) and tries.again(_UNREACHABLE_SECONDS, is_unsure=True):
                    continue
                raise self._unreachable(error) from None

    def pages(self, operation: str, items: str, **arguments: Any) -> Iterator[dict[str, Any]]:
        """All items of a list that comes in pages."""
        token: dict[str, str] = {}
        while True:
            page = self.call(operation, **arguments, **token)
            yield from self.part(page, items)
            if not page.get("NextToken"):
                return
            token = {"NextToken": page["NextToken"]}

    def part(self, answer: Mapping[str, Any], name: str) -> Any:
        """A part of an answer that Glue always has: botocore takes any web page for an answer."""
        if name not in answer:
            raise self._error(_NOT_GLUE, _ENDPOINT_HINT)
        return answer[name]

    @cached_property
    def _client(self) -> Any:
        from botocore.config import Config  # noqa: PLC0415  only for Glue
        from botocore.exceptions import BotoCoreError  # noqa: PLC0415
        from botocore.session import Session  # noqa: PLC0415

        config = Config(
            connect_timeout=_CONNECT_SECONDS,
            read_timeout=_READ_SECONDS,
            retries={"total_max_attempts": 1, "mode": "standard"},
        )
        try:
            session = Session(profile=self._value("profile-name"))
            return session.create_client(
                "glue",
                region_name=self._region(session),
                endpoint_url=self.endpoint or None,
                aws_access_key_id=self._value("access-key-id"),
                aws_secret_access_key=self._value("secret-access-key"),
                aws_session_token=self._value("session-token"),
                config=config,
            )
        except (BotoCoreError, ValueError) as error:
            raise self._unreachable(error) from None

    def _region(self, session: Any) -> str | None:
        """As configured; botocore reads AWS_DEFAULT_REGION, Java's SDK AWS_REGION: both count."""
        known = self._value("region") or os.environ.get("AWS_REGION")
        return known or session.get_config_variable("region")

    def _value(self, key: str) -> str | None:
        """A property of Glue's, else the one for all of AWS; none if it is empty."""
        for name in (f"glue.{key}", f"client.{key}"):
            if self._properties.get(name):
                return self._properties[name]
        return None

    # errors

    def _answered(self, error: Any, *, is_unsure: bool) -> Exception:
        """A refusal that has nothing to do with the call's own names is a CatalogError."""
        code = str(error.response.get("Error", {}).get("Code", ""))
        message = str(error.response.get("Error", {}).get("Message", ""))
        hints: tuple[tuple[set[str], str, str], ...] = (
            (_EXPIRED, "the session token has expired", "renew glue.session-token or the profile"),
            (_WRONG_KEY, "the credentials are refused", _key_hint(message)),
            (
                _DENIED,
                "the credentials may not do this",
                f"grant them that, or use others: {_KEY_HINT.removeprefix('check ')}",
            ),
        )
        for codes, reason, hint in hints:
            if code in codes:
                return self._error(f"{reason}: {message}", hint)
        if code in {"401", "403"}:  # no code of Glue's, as gateways answer
            return self._error(f"the credentials are refused (HTTP {code})", _KEY_HINT)
        if not code or code.isdigit():
            return self._error(_NOT_GLUE, _ENDPOINT_HINT)
        return GlueAnswerError(code, self._one_line(message), is_unsure=is_unsure)

    def _unreachable(self, error: Exception) -> CatalogError:
        name = type(error).__name__
        reason, hint = str(error), _ENDPOINT_HINT
        if _is_lost(error):
            reason = f"Glue cannot be reached: {error}"
        if name == "NoRegionError":
            reason, hint = "no region is known", _REGION_HINT
        elif name in {"NoCredentialsError", "PartialCredentialsError"}:
            reason, hint = "no credentials are known, or only a part of them", _KEY_HINT
        elif name == "ProfileNotFound":
            hint = "check glue.profile-name, and the AWS configuration files"
        elif name == "SSLError":
            reason = "no TLS with Glue: its certificate is not trusted here, or it speaks none"
            hint = (
                "add its TLS authority to AWS_CA_BUNDLE, or correct http or https in glue.endpoint"
            )
        elif name == "ResponseParserError":
            reason = _NOT_GLUE
        return self._error(reason, hint)

    def _error(self, reason: str, hint: str) -> CatalogError:
        place = f" at {self.endpoint}" if self.endpoint else ""
        return CatalogError(
            f"catalog {self._catalog!r}{place}: {self._one_line(reason)}", hint=hint
        )

    def failed(self, failure: GlueAnswerError) -> CatalogError:
        """A refusal that nobody expected."""
        return self._error(f"{failure.code}: {failure.message}", "see the reason that Glue gives")

    def _one_line(self, text: str) -> str:
        """The first line, without any secret of ours in it."""
        line = next((line.strip() for line in text.splitlines() if line.strip()), "no reason given")
        for key in ("secret-access-key", "session-token", "access-key-id"):
            for value in (self._properties.get(f"glue.{key}"), self._value(key)):
                line = (
                    line.replace(value, "***") if value and len(value) >= _SECRET_LENGTH else line
                )
        return line[:400]


class _Tries:
    """When one call has to end."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._start = clock()
        self._pause_seconds = 0.2
        self.is_unsure = False

    def again(self, patience_seconds: float, *, is_unsure: bool) -> bool:
        """Wait and say yes, unless the patience is at its end."""
        self.is_unsure = self.is_unsure or is_unsure
        if self._clock() - self._start + self._pause_seconds > patience_seconds:
            return False
        time.sleep(uniform(0.5, 1) * self._pause_seconds)  # noqa: S311  spreads clients, no secret
        self._pause_seconds = min(2 * self._pause_seconds, 5.0)
        return True


def _patience(code: str, response: Mapping[str, Any]) -> float:
    if code in _BUSY:
        return _BUSY_SECONDS
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return _UNREACHABLE_SECONDS if code in _FAILED_THERE or status >= 500 else 0.0


def _is_lost(error: Exception) -> bool:
    """Whether a connection failed: another try may find the server back."""
    from botocore.exceptions import (  # noqa: PLC0415  only for Glue
        ConnectionError,
        HTTPClientError,
        SSLError,
    )

    return isinstance(error, ConnectionError | HTTPClientError) and not isinstance(error, SSLError)


def _key_hint(message: str) -> str:
    if "expired" in message or "not yet current" in message:
        return "check this machine's clock"
    return _KEY_HINT


def check_properties(catalog: str, properties: Mapping[str, str]) -> None:
    """An endpoint must be an address. Raises SettingsError."""
    endpoint = properties.get("glue.endpoint", "")
    if endpoint and not endpoint.startswith(("http://", "https://")):
        raise SettingsError(
            f"catalog {catalog!r}: glue.endpoint must begin with http:// or https://"
        )
