"""What is wrong with an address at which no Hive Metastore answers."""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress
from dataclasses import dataclass

from thrift.transport.TTransport import TTransportException

_PROBE_SECONDS = 1.0
_THRIFT_PORT = "check the port in 'uri': a metastore speaks thrift, usually on 9083"
CHECK_URI = "check 'uri' in the catalog's settings, and that the metastore runs"
_CHECK_PORT = (
    "check the port in 'uri'; a metastore with Kerberos needs hive.kerberos-authentication = true"
)


@dataclass(frozen=True, slots=True)
class Address:
    """Where a metastore listens."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"thrift://{host}:{self.port}"


class NoConnectionError(OSError):
    """Nobody took the connection."""

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.inner = error


class StrangeAnswerError(OSError):
    """Something answered, and it does not speak thrift."""

    def __init__(self, start: bytes) -> None:
        super().__init__("its answer is not thrift" if start else "it closed the connection")
        self.start = start


def diagnose(address: Address, error: Exception, *, probes: bool) -> tuple[str, str]:
    """A reason and a hint; with `probes` the port is asked what it speaks instead."""
    if isinstance(error, NoConnectionError):
        return f"there is no metastore at {address}: {reason_of(error)}", CHECK_URI
    start = error.start if isinstance(error, StrangeAnswerError) else b""
    if start.startswith(b"HTTP") or (probes and not start and speaks_http(address)):
        return (
            f"{address} is an HTTP server, no Hive Metastore",
            f'{_THRIFT_PORT}; a REST catalog has type = "rest"',
        )
    if start.startswith(b"\x15\x03") or (probes and not start and _speaks_tls(address)):
        return (
            f"{address} speaks TLS, which bcn does not with a Hive Metastore",
            "check the port in 'uri': it must be one of plain thrift, usually 9083",
        )
    return f"{address} does not answer as a Hive Metastore: {reason_of(error)}", _CHECK_PORT


def speaks_http(address: Address) -> bool:
    """Many HTTP servers wait in silence for the end of a line that thrift never sends."""
    with suppress(OSError), _probe(address) as probe:
        probe.sendall(b"OPTIONS / HTTP/1.0\r\n\r\n")
        return probe.recv(4) == b"HTTP"
    return False


def _speaks_tls(address: Address) -> bool:
    """Whether it shakes hands; who it is does not matter, for nothing is sent."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with suppress(OSError), _probe(address) as probe, context.wrap_socket(probe):
        return True
    return False


def _probe(address: Address) -> socket.socket:
    return socket.create_connection((address.host, address.port), timeout=_PROBE_SECONDS)


def reason_of(error: Exception) -> str:
    """One line of words for an error of the wire."""
    inner = getattr(error, "inner", None) or error
    if isinstance(inner, TimeoutError) or _is(error, TTransportException.TIMED_OUT):
        return "no answer in time"
    if isinstance(inner, EOFError) or _is(error, TTransportException.END_OF_FILE):
        return "it closed the connection"
    if isinstance(inner, socket.gaierror):
        return "its host is unknown"
    text = getattr(inner, "strerror", None) or getattr(inner, "message", None) or str(inner)
    return str(text or type(inner).__name__).strip().partition("\n")[0].lower()


def _is(error: Exception, kind: int) -> bool:
    return isinstance(error, TTransportException) and error.type == kind
