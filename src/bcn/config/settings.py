"""Everything that can be configured, as frozen values; a default has its one home here."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from bcn.catalog.protocol import CatalogSettings
from bcn.config.secrets import redact_text
from bcn.errors import SettingsError, UnknownCatalogError

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


@dataclass(frozen=True, slots=True)
class RepositorySettings:
    """A `[repositories.NAME]` section, or a location given in its place; then the name is empty."""

    name: str
    location: str
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    is_implied: bool = field(default=False, compare=False)  # by variables that others share

    def __repr__(self) -> str:
        return f"RepositorySettings(name={self.name!r}, location={redact_text(self.location)!r})"


@dataclass(frozen=True, slots=True)
class LeaseSettings:
    """How long a writer that stands still keeps others out."""

    ttl_seconds: int = 60


@dataclass(frozen=True, slots=True)
class Source:
    """A setting as it was written, and where: a file, a variable. It may be a secret."""

    section: str
    name: str
    key: str
    value: str = field(repr=False)
    source: str


@dataclass(frozen=True, slots=True)
class Settings:
    """All of it. Spark's own settings may hold secrets: the text form leaves them out."""

    catalogs: Mapping[str, CatalogSettings] = field(default_factory=dict)
    repositories: Mapping[str, RepositorySettings] = field(default_factory=dict)
    spark: Mapping[str, str] = field(default_factory=dict, repr=False)
    lease: LeaseSettings = field(default_factory=LeaseSettings)
    folder: str = "/"  # where relative paths of the command line start
    home: str = ""  # what ~ stands for
    faults: Mapping[str, str] = field(default_factory=dict)  # catalogs of others, unusable here
    sources: tuple[Source, ...] = field(default=(), compare=False, repr=False)

    def catalog(self, name: str) -> CatalogSettings:
        """The section of that name. Raises UnknownCatalogError."""
        if name in self.catalogs:
            return self.catalogs[name]
        if name in self.faults:
            raise SettingsError(self.faults[name])
        known = ", ".join(sorted(self.catalogs)) or "none is configured"
        raise UnknownCatalogError(
            f"no catalog {name!r}{suggest(name, self.catalogs)}; known: {known}"
        )

    def repository(self, text: str) -> RepositorySettings:
        """The section of that name, else the place that the text is the path or URI of."""
        if text in self.repositories:
            return self.repositories[text]
        return RepositorySettings("", resolve_path(text, self.folder, self.home))


def suggest(word: str, known: Iterable[str]) -> str:
    """A question that names the nearest known word; empty if none is near."""
    near = difflib.get_close_matches(word.lower(), list(known), n=1)
    return f", did you mean {near[0]!r}?" if near else ""


def resolve_path(text: str, folder: str, home: str) -> str:
    """An absolute path for a relative one; URIs and absolute paths are taken literally."""
    if text.startswith("/") or _SCHEME.match(text):
        return text
    if home and (text == "~" or text.startswith("~/")):
        return home.rstrip("/") + text[1:]
    return os.path.normpath(f"{folder}/{text}")
