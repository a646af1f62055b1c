"""How Azure Blob Storage is reached: pyiceberg's property names, then Azure's own variables."""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from urllib.parse import urlsplit

from bcn.errors import StorageError
from bcn.storage.azure_auth import (
    AccessKey,
    Bearer,
    ClientTokens,
    Credential,
    GivenToken,
    MachineTokens,
    Nobody,
    Sas,
)
from bcn.storage.tokens import Tokens

_SUFFIX = ".blob.core.windows.net"
_CONTAINER = re.compile(r"\$?[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_HOST = re.compile(r"[a-z0-9]{3,24}(?:\.[a-z0-9-]+)*")


@dataclass(frozen=True)
class AzureSettings:
    """One container of one account: `container`, or `container@account.host`."""

    place: str
    properties: Mapping[str, str] = field(repr=False)

    def __post_init__(self) -> None:
        """Raises StorageError for what is no place; it may hold a password and is not shown."""
        if not _CONTAINER.fullmatch(self.container) or (
            self._host and not _HOST.fullmatch(self._host)
        ):
            raise StorageError(
                "a location names no container that Azure could have",
                hint="it looks like abfss://container@account.dfs.core.windows.net/prefix or"
                " az://container/prefix",
            )

    @property
    def container(self) -> str:
        return self.place.partition("@")[0]

    @property
    def _host(self) -> str:
        return self.place.partition("@")[2].lower()

    def _find(self, name: str, *variables: str) -> str | None:
        """A property, else the first variable of the environment that is set."""
        found = self.properties.get(f"adls.{name}")
        for value in (found, *(os.environ.get(variable) for variable in variables)):
            if value and value.strip():
                return value.strip()
        return None

    @cached_property
    def account(self) -> str:
        """The location's own account, else the one that properties name. Raises StorageError."""
        found = (
            self._host.partition(".")[0]
            or self._find("account-name")
            or self._connection.get("accountname")
            or (self._find("account-host") or "").partition(".")[0]
            or self._granted_account()
            or self._find("", "AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT")
        )
        if not found:
            raise StorageError(
                f"no storage account for container {self.container!r}",
                hint="set adls.account-name, or name it in the location:"
                " abfss://container@account.dfs.core.windows.net/prefix",
            )
        if not _HOST.fullmatch(found):
            raise StorageError(f"adls.account-name is no name of an account: {found!r}")
        return found

    def _granted_account(self) -> str | None:
        """The only account that a catalog handed out a signature for."""
        prefix = "adls.sas-token."
        names = {key[len(prefix) :] for key in self.properties if key.startswith(prefix)}
        accounts = {name.partition(".")[0] for name in names}
        return accounts.pop() if len(accounts) == 1 else None

    @cached_property
    def _connection(self) -> Mapping[str, str]:
        """A connection string by its parts; keys may hold `=`."""
        account = self._host.partition(".")[0]
        text = (
            self._find(f"connection-string.{self._host}")
            or self._find(f"connection-string.{account}")
            or self._find("connection-string", "AZURE_STORAGE_CONNECTION_STRING")
            or ""
        )
        parts = (part.partition("=") for part in text.split(";") if part.strip())
        return {name.strip().lower(): value.strip() for name, _, value in parts}

    @cached_property
    def endpoint(self) -> str:
        """The address of the account, without a slash at its end. Raises StorageError."""
        found = self._authority() or self._stated_endpoint() or self._usual_endpoint()
        parts = urlsplit(found)
        if parts.scheme not in {"http", "https"} or not parts.hostname or "@" in parts.netloc:
            raise StorageError(
                "what adls.blob-storage-authority, adls.account-host or adls.connection-string"
                " name is no address of a service",
                hint='it looks like adls.blob-storage-authority = "host:10000" with'
                ' adls.blob-storage-scheme = "http"',
            )
        return found.rstrip("/")

    @property
    def _scheme(self) -> str:
        return (
            self._find("blob-storage-scheme")
            or self._connection.get("defaultendpointsprotocol")
            or "https"
        )

    def _authority(self) -> str | None:
        """As Arrow reads it: `.suffix`, or a host that has accounts in paths, as emulators do."""
        authority = self._find("blob-storage-authority")
        if authority is None:
            return None
        if authority.startswith("."):
            return f"{self._scheme}://{self.account}{authority}"
        if authority.startswith(f"{self.account}."):
            return f"{self._scheme}://{authority}"
        return f"{self._scheme}://{authority}/{self.account}"

    def _stated_endpoint(self) -> str | None:
        connection = self._connection
        if self.account == (connection.get("accountname") or self.account):
            if "blobendpoint" in connection:
                return connection["blobendpoint"]
            if "endpointsuffix" in connection:
                return f"{self._scheme}://{self.account}.blob.{connection['endpointsuffix']}"
        host = self._find("account-host")
        return f"{self._scheme}://{host}" if host else None

    def _usual_endpoint(self) -> str:
        host = self._host.replace(".dfs.", ".blob.", 1)
        return f"{self._scheme}://{host if '.' in host else self.account + _SUFFIX}"

    @cached_property
    def credential(self) -> Credential:
        """How requests are signed. Raises StorageError."""
        return (
            self._signature()
            or self._key()
            or self._token()
            or self._anonymous()
            or self._machine()
        )

    def _signature(self) -> Credential | None:
        account = self.account
        names = [name for name in self.properties if name.startswith(f"adls.sas-token.{account}")]
        for name in names:
            if name.removeprefix("adls.sas-token.").partition(".")[0] == account:
                return Sas(self.properties[name])
        found = self._find("sas-token") or self._own("sharedaccesssignature")
        return Sas(found) if found else None

    def _own(self, part: str) -> str | None:
        """Of the connection string, if it is this account's."""
        is_own = self._connection.get("accountname", self.account) == self.account
        return self._connection.get(part) if is_own else None

    def _key(self) -> Credential | None:
        key = self._find("account-key")
        if key and self._find("account-name") not in {None, self.account}:
            raise StorageError(
                f"adls.account-key is of account {self._find('account-name')!r}, but the location"
                f" is in {self.account!r}",
                hint="give that account a section of its own",
            )
        key = key or self._own("accountkey")
        if key is None and self._find("", "AZURE_STORAGE_ACCOUNT_NAME") in {None, self.account}:
            key = self._find("", "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_KEY")
        if not key:
            return None
        try:
            return AccessKey(self.account, base64.b64decode(key, validate=True), key)
        except (binascii.Error, ValueError):
            raise StorageError(
                "adls.account-key is no key of an account: it is not Base64",
                hint="copy it from 'az storage account keys list'",
            ) from None

    def _token(self) -> Credential | None:
        token = self._find("token")
        if token:
            return Bearer(Tokens(GivenToken(token)))
        tenant, client, secret = (
            self._find(name, variable)
            for name, variable in (
                ("tenant-id", "AZURE_TENANT_ID"),
                ("client-id", "AZURE_CLIENT_ID"),
                ("client-secret", "AZURE_CLIENT_SECRET"),
            )
        )
        proof = os.environ.get("AZURE_FEDERATED_TOKEN_FILE")
        if self._find("client-secret") and not (tenant and client):
            raise StorageError("adls.client-secret needs adls.tenant-id and adls.client-id")
        if tenant and client and (secret or proof):
            return Bearer(Tokens(ClientTokens(tenant, client, secret, proof)))
        return None

    def _anonymous(self) -> Credential | None:
        is_asked = (self._find("anon") or "").lower() == "true"
        return Nobody() if is_asked else None

    def _machine(self) -> Credential:
        sas = self._find("", "AZURE_STORAGE_SAS_TOKEN")
        if sas:
            return Sas(sas)
        return Bearer(Tokens(MachineTokens(self._find("client-id", "AZURE_CLIENT_ID"))))
