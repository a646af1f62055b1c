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
from contextlib import contextmanager, suppress
from dataclasses import dataclass
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

from bcn.catalog.protocol import CatalogSettings
from bcn.errors import CatalogError, SettingsError

_T = TypeVar("_T")
_ADDRESS = re.compile(r"thrift://(?P<host>\[[0-9A-Fa-f:.]+\]|[^/:@\[\]\s]+)(?::(?P<port>\d+))?/?\Z")
_DEFAULT_PORT = 9083
_CONTACT_SECONDS = 10.0  # to find somebody who answers, all addresses together
_CALL_SECONDS = 120.0  # one answer of a metastore that is known to be one
_PROBE_SECONDS = 1.0
PATIENCE_SECONDS = 60.0  # a metastore that restarts needs up to 20
_PAUSE_SECONDS = 0.5
_FRAME = 1 << 20
_CHECK_URI = "check 'uri' in the catalog's settings, and that the metastore runs"
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


@dataclass(frozen=True, slots=True)
class Address:
    """Where a metastore listens."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"thrift://{host}:{self.port}"


def parse_addresses(name: str, uri: str) -> tuple[Address, ...]:
    """All addresses of a `uri`, comma-separated. Raises CatalogError."""
    found = []
    for text in uri.split(","):
        match = _ADDRESS.match(text.strip())
        port = int(match["port"] or _DEFAULT_PORT) if match else 0
        if match is None or not 0 < port < 1 << 16:
            raise CatalogError(
                f"catalog {name!r}: 'uri' is not the address of a Hive Metastore: {text.strip()!r}",
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
            except (LostAnswerError, _SilentError) as error:
                deadline = deadline or time.monotonic() + self._patience
                if not self._has_answered or time.monotonic() >= deadline:
                    raise CatalogError(str(error), hint=error.hint) from None
            time.sleep(_PAUSE_SECONDS)

    def write(self, ask: Callable[[Client], _T]) -> _T:
        """An answer; the question is sent once. Raises LostAnswerError if none came."""
        with self._connected() as (client, address):
            try:
                return ask(client)
            except _BROKEN as error:
                raise LostAnswerError(
                    f"catalog {self._name!r}: the metastore at {address} broke off: {_why(error)}",
                    hint=_CHECK_URI,
                ) from None
            except TException as error:
                raise RefusalError(self._name, error) from None

    def wait(self) -> None:
        """Return when a metastore answers, at once or within the time it is waited for."""
        self.read(lambda _client: None)

    @contextmanager
    def _connected(self) -> Iterator[tuple[Client, Address]]:
        sock, client, address = self._contact()
        try:
            sock.settimeout(_CALL_SECONDS)
            yield client, address
        finally:
            sock.close()

    def _contact(self) -> tuple[socket.socket, Client, Address]:
        """A connection to the first that answers."""
        deadline = time.monotonic() + _CONTACT_SECONDS
        refusals: list[_SilentError] = []
        for number, address in enumerate(tuple(self._order)):
            share = (deadline - time.monotonic()) / (len(self._order) - number)
            try:
                sock, client = self._greet(address, max(share, 0.5))
            except _SilentError as error:
                refusals.append(error)
                continue
            self._has_answered = True
            self._order = [address, *(item for item in self.addresses if item != address)]
            return sock, client, address
        reasons = "; ".join(map(str, refusals))
        raise _SilentError(f"catalog {self._name!r}: {reasons}", hint=refusals[0].hint)

    def _greet(self, address: Address, seconds: float) -> tuple[socket.socket, Client]:
        """Connect, and see that a metastore is there, as Hive's own clients do: they tell a user.

        Raises _SilentError.
        """
        try:
            sock = socket.create_connection((address.host, address.port), timeout=seconds / 2)
        except OSError as error:
            raise _SilentError(
                f"there is no metastore at {address}: {_why(error)}", hint=_CHECK_URI
            ) from None
        try:
            sock.settimeout(seconds / 2)
            client = self._kerberos_client(sock, address) if self._kerberos else self._client(sock)
        except (*_BROKEN, TException) as error:
            sock.close()
            raise _diagnosed(address, error) from None
        except BaseException:
            sock.close()
            raise
        return sock, client

    def _client(self, sock: socket.socket) -> Client:
        transport = _wrap(sock)
        client = Client(_protocol(TBufferedTransport(transport, _FRAME)))
        client.send_set_ugi(self.user, self._groups)
        start = sock.recv(4, socket.MSG_PEEK)
        if not start.startswith(b"\x80\x01"):  # how every answer of thrift begins
            raise _StrangeAnswerError(start)
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
                f" {_why(error)}",
                hint="run 'kinit', and check 'hive.kerberos-service-name'",
            ) from None
        return Client(_protocol(transport))


class _SilentError(CatalogError):
    """No metastore answers."""


class _StrangeAnswerError(OSError):
    """Something answered, and it does not speak thrift."""

    def __init__(self, start: bytes) -> None:
        super().__init__("it does not answer as a metastore")
        self.start = start


def _diagnosed(address: Address, error: Exception) -> _SilentError:
    """What is wrong with a port that took the connection."""
    start = error.start if isinstance(error, _StrangeAnswerError) else b""
    if start.startswith(b"HTTP") or (not start and _speaks_http(address)):
        return _SilentError(
            f"{address} is an HTTP server, no Hive Metastore",
            hint="check the port in 'uri': a metastore speaks thrift, usually on 9083",
        )
    if start[:2] == b"\x15\x03":
        return _SilentError(
            f"{address} speaks TLS, which bcn does not with a Hive Metastore",
            hint="check the port in 'uri': it must be one of plain thrift, usually 9083",
        )
    return _SilentError(
        f"{address} does not answer as a Hive Metastore: {_why(error)}",
        hint="check the port in 'uri'; a metastore with Kerberos needs"
        " hive.kerberos-authentication = true",
    )


def _speaks_http(address: Address) -> bool:
    """Many HTTP servers wait in silence for the end of a line that thrift never sends."""
    with (
        suppress(OSError),
        socket.create_connection((address.host, address.port), timeout=_PROBE_SECONDS) as probe,
    ):
        probe.sendall(b"OPTIONS / HTTP/1.0\r\n\r\n")
        return probe.recv(4) == b"HTTP"
    return False


def _wrap(sock: socket.socket) -> TSocket:
    transport = TSocket()
    transport.setHandle(sock)
    return transport


def _protocol(transport: Any) -> TBinaryProtocolAccelerated:
    # Strict: bytes that are no thrift must not pass for the length of a text to wait for.
    return TBinaryProtocolAccelerated(transport, strictRead=True, strictWrite=True)


def _why(error: Exception) -> str:
    inner = getattr(error, "inner", None) or error
    if isinstance(inner, TimeoutError) or getattr(error, "type", None) == 3:
        return "no answer in time"
    if isinstance(inner, EOFError) or (
        isinstance(error, TTransportException) and error.type == TTransportException.END_OF_FILE
    ):
        return "it closed the connection"
    if isinstance(inner, socket.gaierror):
        return "its host is unknown"
    text = getattr(inner, "strerror", None) or getattr(inner, "message", None) or str(inner)
    return str(text or type(inner).__name__).strip().partition("\n")[0].lower()


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
