"""Signatures of S3 requests (AWS Signature Version 4), with the day's key kept."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, NamedTuple
from urllib.parse import quote

# A body has a checksum of its own, or comes from the server: hashing it for the signature would
# cost both sides more than all the rest of a request.
_PAYLOAD = "UNSIGNED-PAYLOAD"
_ALGORITHM = "AWS4-HMAC-SHA256"


class _Day(NamedTuple):
    date: str
    secret: str


class Signer:
    """Signs for one region with credentials that may renew themselves. Any thread may use it."""

    def __init__(self, credentials: Any, region: str) -> None:
        self._credentials = credentials
        self._region = region
        self._key: tuple[_Day, bytes] | None = None

    def sign(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        now: datetime | None = None,
    ) -> dict[str, str]:
        """The headers with those that sign them all; their names are in lower case, Host is one."""
        frozen = self._credentials.get_frozen_credentials()
        time = f"{now or datetime.now(UTC):%Y%m%dT%H%M%SZ}"
        signed = {**headers, "x-amz-content-sha256": _PAYLOAD, "x-amz-date": time}
        if frozen.token:
            signed["x-amz-security-token"] = frozen.token
        names = sorted(signed)
        listed = ";".join(names)
        lines = "".join(f"{name}:{' '.join(signed[name].split())}\n" for name in names)
        request = f"{method}\n{path}\n{spell_query(query)}\n{lines}\n{listed}\n{_PAYLOAD}"
        scope = f"{time[:8]}/{self._region}/s3/aws4_request"
        digest = sha256(request.encode()).hexdigest()
        key = self._key_of(_Day(time[:8], frozen.secret_key))
        signature = hmac.digest(
            key, f"{_ALGORITHM}\n{time}\n{scope}\n{digest}".encode(), "sha256"
        ).hex()
        signed["authorization"] = (
            f"{_ALGORITHM} Credential={frozen.access_key}/{scope},"
            f" SignedHeaders={listed}, Signature={signature}"
        )
        return signed

    def _key_of(self, day: _Day) -> bytes:
        kept = self._key
        if kept is not None and kept[0] == day:
            return kept[1]
        key = f"AWS4{day.secret}".encode()
        for word in (day.date, self._region, "s3", "aws4_request"):
            key = hmac.digest(key, word.encode(), "sha256")
        self._key = day, key
        return key


def spell_path(name: str) -> str:
    """An object's name in the path of an address: exactly as it is, nothing is normalised."""
    return quote(name, safe="/-_.~")


def spell_query(query: Mapping[str, str]) -> str:
    """Parameters in the order that signatures want."""
    return "&".join(
        f"{quote(name, safe='-_.~')}={quote(query[name], safe='-_.~')}" for name in sorted(query)
    )
