"""The wire of a Hive Metastore: connections, who is asked, how long, and what went wrong.

Several addresses are tried in their order, and the one that answered last is asked first. A
metastore that has answered once is waited for when it goes away; one that never has is not.
"""

from __future__ import annotations

import os
import pwd
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from hive_metastore.ThriftHiveMetastore import Client
from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.protocol.TProtocol import TProtocolException
from thrift.Thrift import TException
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import (
    TBufferedTransport,
    TSaslClientTransport,
    TTransportException,
)

from bcn.catalog.hive_diagnosis import (
    CHECK_URI,
    Address,
    NoConnectionError,
    StrangeAnswerError,
    diagnose,
    reason_of,
    speaks_http,
)
from bcn.catalog.protocol import CatalogSettings, public_location, strip_slashes
from bcn.errors import CatalogError, SettingsError

_T = TypeVar("_T")
_ADDRESS = re.compile(r"thrift://(?P<host>\[[0-9A-Fa-f:.]+\]|[^/:@\[\]\s]+)(?::(?P<port>\d+))?/?\Z")
_DEFAULT_PORT = 9083
_CONTACT_SECONDS = 8.0  # to find somebody who answers, all addresses together
_SILENCE_SECONDS = 1.5  # before the port is asked what else it may be
_CALL_SECONDS = 120.0  # one answer of a metastore that is known to be one
PATIENCE_SECONDS = 60.0  # a metastore that restarts needs up to 20
_PAUSE_SECONDS = 0.5
_FRAME = 1 << 20
_WAREHOUSE_DIR = "hive.metastore.warehouse.dir"
_BROKEN = (TTransportException, TProtocolException, EOFError, OSError)


class LostAnswerError(CatalogError):
    """The connection broke after a request was sent: it may have been done, or not."""


class RefusalError(CatalogError):
    """The metastore answered with an exception: thrift's own are frozen, and cannot be passed on.

    `kind` is the name of its class.
    """

    hint = "the log of the metastore says more"

    def __init__(self, name: str, error: Exception) -> None:
        self.kind = type(error).__name__
        text = str(getattr(error, "message", None) or error).strip().partition("\n")[0][:300]
        self.reason = text or self.kind
        super().__init__(f"catalog {name!r}: the metastore answers: {self.reason}")

    def __reduce__(self) -> tuple[object, ...]:
        """To executors' driver as what all can rebuild."""
        return CatalogError(str(self), hint=self.hint).__reduce__()


def parse_addresses(name: str, uri: str) -> tuple[Address, ...]:
    """All addresses of a `uri`, comma-separated. Raises CatalogError."""
    found = []
    for text in uri.split(","):
        match = _ADDRESS.match(text.strip())
        port = int(match["port"] or _DEFAULT_PORT) if match else 0
        if match is None or not 0 < port < 1 << 16:
            shown = public_location(text.strip())
            raise CatalogError(
                f"catalog {name!r}: 'uri' is not the address of a Hive Metastore: {shown!r}",
                hint="write thrift://host:9083, several of them separated by commas",
            )
        found.append(Address(match["host"].strip("[]"), port))
    return tuple(found)


class Metastore:
    """One metastore, perhaps of several servers. Connections last for one question each."""

    def __init__(
        self, settings: CatalogSettings, patience_seconds: float = PATIENCE_SECONDS
    ) -> None:
        properties = settings.properties
        self._name = settings.name
        self.addresses = parse_addresses(settings.name, properties["uri"])
        self.user, *self._groups = (properties.get("ugi") or _login()).split(":")
        self._service = properties.get("hive.kerberos-service-name") or "hive"
        self._kerberos = _is_true(properties.get("hive.kerberos-authentication"))
        self._patience = patience_seconds
        self._order = list(self.addresses)
        self._has_answered = False
        if self._kerberos:
            _require_kerberos(settings.name)

    def read(self, ask: Callable[[Client], _T]) -> _T:
        """An answer; asked again on a new connection where one breaks, for a bounded time."""
        deadline = None
        while True:
            try:
                return self.write(ask)
            except LostAnswerError:
                deadline = deadline or time.monotonic() + self._patience
                if time.monotonic() >= deadline:
                    raise
            time.sleep(_PAUSE_SECONDS)

    def write(self, ask: Callable[[Client], _T]) -> _T:
        """An answer; the question is sent once. Raises LostAnswerError if none came."""
        with self._connected() as (client, address):
            try:
                return ask(client)
            except _BROKEN as error:
                reason = f"the metastore at {address} broke off: {reason_of(error)}"
                raise LostAnswerError(f"catalog {self._name!r}: {reason}", hint=CHECK_URI) from None
            except TException as error:
                raise RefusalError(self._name, error) from None

    @contextmanager
    def _connected(self) -> Iterator[tuple[Client, Address]]:
        sock, client, address = self._contact_patiently()
        try:
            sock.settimeout(_CALL_SECONDS)
            yield client, address
        finally:
            sock.close()

    def _contact_patiently(self) -> tuple[socket.socket, Client, Address]:
        """A connection; nothing was asked yet, so one that restarts can be waited for."""
        deadline = time.monotonic() + self._patience
        while True:
            try:
                return self._contact()
            except _SilentError:
                if not self._has_answered or time.monotonic() >= deadline:
                    raise
            time.sleep(_PAUSE_SECONDS)

    def _contact(self) -> tuple[socket.socket, Client, Address]:
        """A connection to the first that answers. Raises _SilentError."""
        deadline = time.monotonic() + _CONTACT_SECONDS
        failed: list[tuple[Address, Exception]] = []
        for number, address in enumerate(tuple(self._order)):
            share = (deadline - time.monotonic()) / (len(self._order) - number)
            try:
                sock, client = self._greet(address, max(share / 2, 0.5))
            except (*_BROKEN, TException) as error:
                failed.append((address, error))
                continue
            self._has_answered = True
            self._order = [address, *(item for item in self.addresses if item != address)]
            return sock, client, address
        raise self._diagnosed(failed)

    def _diagnosed(self, failed: list[tuple[Address, Exception]]) -> _SilentError:
        """What is wrong with each; the hint is for the first."""
        deadline = time.monotonic() + _CONTACT_SECONDS / 4
        found = [
            diagnose(address, error, probes=time.monotonic() < deadline)
            for address, error in failed
        ]
        reasons = "; ".join(reason for reason, _hint in found)
        return _SilentError(f"catalog {self._name!r}: {reasons}", hint=found[0][1])

    def _greet(self, address: Address, seconds: float) -> tuple[socket.socket, Client]:
        """Connect, and see that a metastore is there, as Hive's own clients do: they tell a user.

        Raises whatever the wire does.
        """
        try:
            sock = socket.create_connection((address.host, address.port), timeout=seconds)
        except OSError as error:
            raise NoConnectionError(error) from None
        try:
            if self._kerberos:
                return sock, self._kerberos_client(sock, address)
            return sock, self._client(sock, address)
        except BaseException:
            sock.close()
            raise

    def _client(self, sock: socket.socket, address: Address) -> Client:
        transport = _wrap(sock)
        client = Client(_protocol(TBufferedTransport(transport, _FRAME)))
        client.send_set_ugi(self.user, self._groups)
        start = _first_bytes(sock, address)
        if not start.startswith(b"\x80\x01"):  # how every answer of thrift begins
            raise StrangeAnswerError(start)
        client.recv_set_ugi()
        return client

    def _kerberos_client(self, sock: socket.socket, address: Address) -> Client:
        transport = TSaslClientTransport(_wrap(sock), host=address.host, service=self._service)
        try:
            transport.open()
        except (*_BROKEN, TException):
            raise
        except Exception as error:  # noqa: BLE001  the library of tickets has errors of its own
            raise CatalogError(
                f"catalog {self._name!r}: Kerberos refused {self._service}/{address.host}:"
                f" {reason_of(error)}",
                hint="run 'kinit', and check 'hive.kerberos-service-name'",
            ) from None
        return Client(_protocol(transport))


class _SilentError(CatalogError):
    """No metastore answers."""


def _first_bytes(sock: socket.socket, address: Address) -> bytes:
    """How an answer begins. Who is silent may be an HTTP server, which is not waited for."""
    seconds = sock.gettimeout() or _CONTACT_SECONDS
    deadline = time.monotonic() + seconds
    sock.settimeout(min(_SILENCE_SECONDS, seconds))
    try:
        return sock.recv(4, socket.MSG_PEEK)
    except TimeoutError:
        if speaks_http(address):
            raise StrangeAnswerError(b"HTTP") from None
    sock.settimeout(max(deadline - time.monotonic(), 0.1))
    return sock.recv(4, socket.MSG_PEEK)


def _wrap(sock: socket.socket) -> TSocket:
    transport = TSocket()
    transport.setHandle(sock)
    return transport


def _protocol(transport: Any) -> TBinaryProtocolAccelerated:
    # Strict: bytes that are no thrift must not pass for the length of a text to wait for.
    return TBinaryProtocolAccelerated(transport, strictRead=True, strictWrite=True)


def _is_true(value: str | None) -> bool:
    return (value or "").strip().lower() in {"true", "1", "yes", "on"}


def _login() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container may run under a number that has no name
        return str(os.getuid())


def _require_kerberos(name: str) -> None:
    for module, package in (("puresasl", "pure-sasl"), ("kerberos", "kerberos")):
        try:
            __import__(module)
        except ImportError:
            raise SettingsError(
                f"catalog {name!r}: hive.kerberos-authentication needs the Python package"
                f" {package!r}, which is not installed",
                hint="run: pip install pure-sasl kerberos",
            ) from None


def load_warehouse(client: Client) -> str:
    """A path without a scheme is in the metastore's own file system, as its first database is."""
    folder = strip_slashes(client.get_config_value(_WAREHOUSE_DIR, ""))
    home = client.get_database("default").locationUri or ""
    if not folder:
        return strip_slashes(home)
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", folder):
        return folder
    scheme = re.match(r"[A-Za-z][A-Za-z0-9+.-]*:(//[^/]*)?", home)
    return f"{scheme[0] if scheme else ''}{folder}"
