"""How an S3 service is reached: pyiceberg's property names, then AWS's variables and profiles."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from botocore.credentials import (
    AssumeRoleCredentialFetcher,
    Credentials,
    DeferredRefreshableCredentials,
)
from botocore.exceptions import BotoCoreError, ClientError
from botocore.session import Session

from bcn.errors import StorageError

_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_ENDPOINT = re.compile(
    r"https?://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:\d{1,5})?(/[A-Za-z0-9._/-]*)?"
)
_REGION = re.compile(r"[A-Za-z0-9-]+")
_PROFILE_HINT = "check s3.profile-name, AWS_PROFILE and the files in ~/.aws"
_DEFAULT_REGION = "us-east-1"
_SESSION_NAME = "bcn"


@dataclass(frozen=True)
class S3Settings:
    """One service and one bucket. Its text form holds no secret."""

    bucket: str
    properties: Mapping[str, str] = field(repr=False)

    def __post_init__(self) -> None:
        """Raises StorageError for a name that no bucket can have; it may hold a password."""
        if not _BUCKET.fullmatch(self.bucket):
            raise StorageError(
                "an s3:// location names no bucket that S3 could have",
                hint="it looks like s3://bucket/prefix; secrets belong in properties or AWS_*",
            )

    def _find(self, name: str) -> str | None:
        """A property for S3, else the one for all of AWS, as pyiceberg looks them up."""
        found = self.properties.get(f"s3.{name}") or self.properties.get(f"client.{name}") or ""
        return found.strip() or None  # secrets that were read from files end in a new line

    def _is(self, name: str) -> bool:
        return (self._find(name) or "").strip().lower() == "true"

    @cached_property
    def _session(self) -> Session:
        return Session(profile=self._find("profile-name"))

    @cached_property
    def endpoint(self) -> str | None:
        """The address of the service; None is AWS itself."""
        found = (
            self.properties.get("s3.endpoint")
            or os.environ.get("AWS_ENDPOINT_URL_S3")
            or os.environ.get("AWS_ENDPOINT_URL")
            or self._profile.get("endpoint_url")
        )
        if not found:
            return None
        found = found.strip()
        endpoint = found if "://" in found else f"http://{found}"
        if not _ENDPOINT.fullmatch(endpoint):
            raise StorageError(
                "s3.endpoint is no address of a service",
                hint='it looks like s3.endpoint = "http://host:9000"',
            )
        return endpoint.rstrip("/")

    @cached_property
    def _profile(self) -> Mapping[str, str]:
        try:
            return dict(self._session.get_scoped_config())
        except BotoCoreError as error:
            raise StorageError(
                f"cannot use the AWS profile for s3://{self.bucket}: {error}", hint=_PROFILE_HINT
            ) from None

    @cached_property
    def region(self) -> str:
        """Where the bucket is; signatures name it."""
        found = (
            self._find("region")
            or os.environ.get("AWS_REGION")
            or os.environ.get("AWS_DEFAULT_REGION")
            or self._profile.get("region")
            or _DEFAULT_REGION
        )
        if not _REGION.fullmatch(found):
            raise StorageError(f"{found!r} is no region", hint='set s3.region = "us-east-1"')
        return found

    @property
    def service(self) -> str:
        """For messages."""
        return self.endpoint or f"AWS {self.region}"

    @cached_property
    def is_virtual_hosted(self) -> bool:
        """Whether the bucket is part of the host name. Raises StorageError where it cannot be."""
        asked = self._is("force-virtual-addressing") or (
            (self._find("path-style-access") or "").strip().lower() == "false"
        )
        has_dots = "." in self.bucket
        if self._is("path-style-access") or not asked:
            return self.endpoint is None and not has_dots and not self._is("path-style-access")
        if has_dots and not (self.endpoint or "").startswith("http:"):
            raise StorageError(
                f"bucket {self.bucket!r} has dots: no certificate covers it as a host name",
                hint="leave out s3.force-virtual-addressing, or set s3.path-style-access to true",
            )
        return True

    @property
    def is_anonymous(self) -> bool:
        """Whether requests are not signed."""
        return self._is("anonymous")

    @cached_property
    def ca_bundle(self) -> str | None:
        """A file of certificates to trust beside the system's."""
        return os.environ.get("AWS_CA_BUNDLE") or self._profile.get("ca_bundle")

    @cached_property
    def credentials(self) -> Any:
        """botocore's credentials; those that expire renew themselves. Raises StorageError."""
        try:
            base = self._base_credentials()
        except (BotoCoreError, ClientError) as error:
            raise StorageError(
                f"cannot get credentials for s3://{self.bucket}: {error}", hint=_PROFILE_HINT
            ) from None
        if base is None:
            raise StorageError(
                f"no credentials for s3://{self.bucket} at {self.service}",
                hint="set s3.access-key-id and s3.secret-access-key, AWS_* or s3.profile-name;"
                " s3.anonymous = true for a public bucket",
            )
        role = self._find("role-arn")
        return base if role is None else self._assume(base, role)

    def _base_credentials(self) -> Any:
        key, secret = self._find("access-key-id"), self._find("secret-access-key")
        if key and secret:
            return Credentials(key, secret, self._find("session-token"))
        if key or secret:
            missing = "s3.secret-access-key" if key else "s3.access-key-id"
            raise StorageError(f"{missing} is missing: it belongs to the other half of the key")
        return self._session.get_credentials()

    def _assume(self, base: Any, role: str) -> Any:
        name = self._find("role-session-name") or _SESSION_NAME

        def create_client(service: str, **values: Any) -> Any:
            return self._session.create_client(service, region_name=self.region, **values)

        fetcher = AssumeRoleCredentialFetcher(
            create_client, base, role, extra_args={"RoleSessionName": name}
        )
        return DeferredRefreshableCredentials(fetcher.fetch_credentials, "assume-role")
