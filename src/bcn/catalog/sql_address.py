"""Addresses of databases: which driver speaks to them, and what their errors mean."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from bcn.catalog.protocol import CatalogSettings
from bcn.errors import SettingsError

_POSTGRESQL, _PSYCOPG = "postgresql", "postgresql+psycopg"
_CONNECT_SECONDS, _SILENT_MILLISECONDS = 5, 10_000

# What drivers say, and what to do about it. The first that matches counts.
_HINTS = (
    (r"no such table|relation .* does not exist", "check 'uri': this database holds no Iceberg catalog"),  # noqa: E501  a table
    (r"locked", "wait for its writers and try again"),
    (r"authentication failed|no password supplied|role .* does not exist", "check the user and the password in 'uri'"),  # noqa: E501  a table
    (r"no pg_hba\.conf entry", "let this machine and user in, in the server's pg_hba.conf"),
    (r"database .* does not exist", "check the database's name in 'uri'; bcn makes no databases"),
    (r"permission denied|read-only", "grant the user of 'uri' rights to the catalog's tables"),
    (r"invalid response", "check host and port in 'uri': no PostgreSQL answers there"),
    (r"SSL|certificate", "check sslmode and the certificates that 'uri' names"),
)  # fmt: skip
_LOST = re.compile(
    r"connection (failed|refused|to server|reset|timeout)|timeout expired|translate host name"
    r"|failed to resolve|closed the connection|not accepting|multiple connection attempts",
    re.IGNORECASE,
)


def parse_url(settings: CatalogSettings) -> URL:
    """The address as it is written. Raises SettingsError if no driver here can use it."""
    try:
        url = make_url(settings.properties["uri"])
        driver_url(url).get_dialect().import_dbapi()
    except (ArgumentError, NoSuchModuleError, ValueError):
        raise SettingsError(
            f"catalog {settings.name!r}: 'uri' is not the address of a database",
            hint="write sqlite:////path/to/file.db or postgresql://user@host/database",
        ) from None
    except ImportError as error:
        extra = "install bcn[postgresql]" if error.name == "psycopg" else ""
        raise SettingsError(
            f"catalog {settings.name!r}: the driver of its database is not installed: {error.name}",
            hint=extra or f"install the Python package that provides {error.name!r}",
        ) from None
    return url


def driver_url(url: URL) -> URL:
    """The address by which it is connected to: any PostgreSQL whose driver is not here by ours.

    pyiceberg's users write postgresql+psycopg2, which need not be installed for bcn.
    """
    if url.get_backend_name() != _POSTGRESQL or url.drivername == _PSYCOPG:
        return url
    if url.drivername != _POSTGRESQL:
        try:
            url.get_dialect().import_dbapi()
        except (ImportError, NoSuchModuleError):
            return url.set(drivername=_PSYCOPG)
        return url
    return url.set(drivername=_PSYCOPG)


def connect_arguments(url: URL) -> dict[str, Any]:
    """A server that does not answer must not be waited for; what the address says goes first."""
    if driver_url(url).drivername != _PSYCOPG:
        return {}
    limits = {"connect_timeout": _CONNECT_SECONDS, "tcp_user_timeout": _SILENT_MILLISECONDS}
    return {key: value for key, value in limits.items() if key not in url.query}


def sqlite_file(settings: CatalogSettings, url: URL) -> Path | None:
    """The file of an SQLite database; None for another database."""
    if url.get_backend_name() != "sqlite":
        return None
    if not url.database or url.database.startswith((":memory:", "file:")):
        raise SettingsError(
            f"catalog {settings.name!r}: 'uri' names no SQLite file",
            hint="write sqlite:////path/to/file.db",
        )
    return Path(url.database).absolute()


def public_address(url: URL) -> str:
    """The address without user, password and options."""
    return str(URL.create(url.drivername, None, None, url.host, url.port, url.database))


def reason_of(error: Exception, url: URL) -> str:
    """What a database's driver says, in one line, without the password."""
    text = str(getattr(error, "orig", None) or error).strip()
    lines = [line.strip(" \t-") for line in text.splitlines() if line.strip()]
    line = lines[0] if lines else type(error).__name__
    if line.startswith("Multiple connection attempts") and len(lines) > 1:
        line = lines[1]
    if url.password:
        line = line.replace(str(url.password), "***")
    return line[:400]


def is_lost(reason: str) -> bool:
    """Whether nobody answered, or the connection broke."""
    return hint_for(reason) is None and _LOST.search(reason) is not None


def hint_for(reason: str) -> str | None:
    """What to do about it, where that is known."""
    return next((hint for pattern, hint in _HINTS if re.search(pattern, reason)), None)
