"""Finding, reading and checking settings: defaults < file < environment."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from bcn.catalog.open import CATALOG_TYPES
from bcn.catalog.protocol import CatalogSettings
from bcn.config.pyiceberg import add_pyiceberg
from bcn.config.sections import Entry, Section, Sections
from bcn.config.settings import (
    LeaseSettings,
    RepositorySettings,
    Settings,
    Source,
    resolve_path,
    suggest,
)
from bcn.config.variables import add_variables
from bcn.errors import SettingsError

FILE_NAME = "bcn.toml"
_PREFIX = "BCN_"
_NAMED_SECTIONS = ("catalogs", "repositories")
_PLAIN_SECTIONS = ("spark", "lease")
_SECTIONS = _NAMED_SECTIONS + _PLAIN_SECTIONS
_LEASE_KEYS = ("ttl-seconds",)
_SPARK_KEYS = ("master",)
_REPOSITORY_KEYS = ("location",)
_CATALOG_KEYS = ("type", *sorted({key for kind in CATALOG_TYPES.values() for key in kind.known}))


def load_settings(config: Path | None, environ: Mapping[str, str], cwd: Path) -> Settings:
    """All settings. Raises SettingsError, which says where the fault is and never repeats a value.

    The file is `config`, else the first `bcn.toml` from `cwd` upward, else the user's own, if any.
    """
    path = config if config is not None else find_file(environ, cwd)
    sections: Sections = {}
    if path is not None:
        path = cwd / path
        _add_document(sections, _read_document(path), path)
    add_pyiceberg(sections, environ, cwd)
    add_variables(sections, environ, cwd)
    _add_environment(sections, environ, cwd)
    home = environ.get("HOME", "")
    catalogs, faults = _make_catalogs(sections, home)
    return Settings(
        catalogs=catalogs,
        faults=faults,
        repositories={
            s.name: _make_repository(s, home) for s in _of_kind(sections, "repositories")
        },
        spark=_make_spark(sections.get(("spark", ""))),
        lease=_make_lease(sections.get(("lease", ""))),
        folder=str(cwd.absolute()),
        home=home,
        sources=tuple(_sources(sections)),
    )


def find_file(environ: Mapping[str, str], cwd: Path) -> Path | None:
    """The settings file that applies in a folder."""
    here = cwd.absolute()
    candidates = [folder / FILE_NAME for folder in (here, *here.parents)]
    if environ.get("XDG_CONFIG_HOME"):
        candidates.append(Path(environ["XDG_CONFIG_HOME"]) / "bcn" / FILE_NAME)
    elif environ.get("HOME"):
        candidates.append(Path(environ["HOME"]) / ".config" / "bcn" / FILE_NAME)
    return next((path for path in candidates if path.is_file()), None)


def _read_document(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_bytes().decode("utf-8"))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise SettingsError(f"cannot read {path}: {reason}") from None
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path} is not UTF-8 at byte {error.start}") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path} is not TOML: {error}") from None


def _add_document(sections: Sections, document: dict[str, Any], path: Path) -> None:
    for kind, table in document.items():
        if kind not in _SECTIONS:
            raise SettingsError(f"{path}: unknown section [{kind}]{suggest(kind, _SECTIONS)}")
        if not isinstance(table, dict):
            raise SettingsError(f"{path}: {kind!r} must be a section, written [{kind}]")
        named = table if kind in _NAMED_SECTIONS else {"": table}
        for name, content in named.items():
            section = Section(kind, name, str(path), {})
            if not isinstance(content, dict):
                raise SettingsError(
                    f"{path}: {name!r} stands in [{kind}], but belongs in [{kind}.NAME]"
                )
            _add_table(section, content, path)
            sections[kind, name] = section


def _add_table(section: Section, table: dict[str, Any], path: Path, prefix: str = "") -> None:
    """Flatten: TOML reads `s3.endpoint = "x"` as a table in a table; both spellings are meant."""
    for name, value in table.items():
        key = prefix + name
        origin = f"{path}: {section.title} {key}"
        if isinstance(value, dict):
            _add_table(section, value, path, f"{key}.")
        elif isinstance(value, str | int):
            section.entries[key] = Entry(value, origin, str(path.absolute().parent), str(path))
        else:
            raise SettingsError(f"{origin}: must be a text, a number or true or false")


def _add_environment(sections: Sections, environ: Mapping[str, str], cwd: Path) -> None:
    """`BCN_SECTION__KEY` and `BCN_SECTION__NAME__KEY`; variables without `__` are not settings."""
    for variable in sorted(environ):
        kind, *words = variable.removeprefix(_PREFIX).split("__")
        if not variable.startswith(_PREFIX) or not words:
            continue
        section, words = _find_section(sections, variable, kind.lower(), words)
        if not words or not all(words):
            raise SettingsError(f"{variable}: names no key of {section.title}")
        known = [*section.entries, *_known_keys(section)]
        key = _match(".".join(words), known, variable) or ".".join(words).lower().replace("_", "-")
        section.entries[key] = Entry(environ[variable], variable, str(cwd.absolute()), variable)


def _find_section(
    sections: Sections, variable: str, kind: str, words: list[str]
) -> tuple[Section, list[str]]:
    """The section that a variable belongs to, made if need be, and the rest of its name."""
    if kind not in _SECTIONS:
        raise SettingsError(f"{variable}: unknown section {kind!r}{suggest(kind, _SECTIONS)}")
    name = ""
    if kind in _NAMED_SECTIONS:
        known = [section.name for section in _of_kind(sections, kind)]
        name = _match(words[0], known, variable) or words[0].lower()
        words = words[1:]
    return sections.setdefault((kind, name), Section(kind, name, variable, {})), words


def _match(word: str, known: Iterable[str], variable: str) -> str | None:
    """The known name that a variable's word stands for: upper case, `-` written as `_`."""

    def fold(text: str) -> str:
        return text.lower().replace("-", "_")

    found = sorted({name for name in known if fold(name) == fold(word)})
    if len(found) > 1:
        raise SettingsError(f"{variable}: stands for both {found[0]!r} and {found[1]!r}")
    return found[0] if found else None


def _known_keys(section: Section) -> tuple[str, ...]:
    return {
        "catalogs": _CATALOG_KEYS,
        "repositories": _REPOSITORY_KEYS,
        "spark": _SPARK_KEYS,
        "lease": _LEASE_KEYS,
    }[section.kind]


def _of_kind(sections: Sections, kind: str) -> list[Section]:
    return [section for section in sections.values() if section.kind == kind]


def _sources(sections: Sections) -> Iterator[Source]:
    for section in sections.values():
        for key, value in _texts(section).items():
            yield Source(section.kind, section.name, key, value, section.entries[key].source)


def _make_catalogs(
    sections: Sections, home: str
) -> tuple[dict[str, CatalogSettings], dict[str, str]]:
    """Catalogs, and why some cannot be used. Only what was written for bcn must be right."""
    made: dict[str, CatalogSettings] = {}
    faults: dict[str, str] = {}
    for section in _of_kind(sections, "catalogs"):
        try:
            made[section.name] = _make_catalog(section, home)
        except SettingsError as error:
            if not section.is_borrowed:
                raise
            faults[section.name] = str(error)
    return made, faults


def _make_catalog(section: Section, home: str) -> CatalogSettings:
    kind = section.entries.get("type")
    known = ", ".join(sorted(CATALOG_TYPES))
    if kind is None:
        raise SettingsError(
            f"{section.origin}: {section.title} has no 'type'; known types: {known}"
        )
    if kind.value not in CATALOG_TYPES:
        near = suggest(str(kind.value), CATALOG_TYPES)
        raise SettingsError(f"{kind.origin}: unknown type of catalog{near}; known types: {known}")
    rules = CATALOG_TYPES[str(kind.value)]
    _check_keys(section, ("type", *rules.known), lambda key: "." in key or section.is_borrowed)
    _require(section, rules.required)
    properties = _texts(section, without="type")
    if "warehouse" in properties and not rules.names_warehouse:
        properties["warehouse"] = _resolved(section.entries["warehouse"], home)
    return CatalogSettings(section.name, str(kind.value), properties)


def _make_repository(section: Section, home: str) -> RepositorySettings:
    _check_keys(section, _REPOSITORY_KEYS, lambda key: "." in key)
    _require(section, _REPOSITORY_KEYS)
    location = _resolved(section.entries["location"], home)
    properties = _texts(section, without="location")
    return RepositorySettings(section.name, location, properties, is_implied=section.is_borrowed)


def _make_spark(section: Section | None) -> dict[str, str]:
    if section is None:
        return {}
    _check_keys(section, _SPARK_KEYS, lambda key: key.startswith("spark."))
    return _texts(section)


def _make_lease(section: Section | None) -> LeaseSettings:
    if section is None:
        return LeaseSettings()
    _check_keys(section, _LEASE_KEYS, lambda _key: False)
    entry = section.entries.get("ttl-seconds")
    return LeaseSettings() if entry is None else LeaseSettings(_positive(entry))


def _check_keys(section: Section, known: tuple[str, ...], is_free: Callable[[str], bool]) -> None:
    for key, entry in section.entries.items():
        if key not in known and not is_free(key):
            raise SettingsError(
                f"{entry.origin}: unknown key {key!r} in {section.title}{suggest(key, known)}"
            )


def _require(section: Section, keys: tuple[str, ...]) -> None:
    for key in keys:
        if key not in section.entries:
            raise SettingsError(f"{section.origin}: {section.title} has no {key!r}")
        if section.entries[key].value == "":
            raise SettingsError(f"{section.entries[key].origin}: must not be empty")


def _texts(section: Section, without: str = "") -> dict[str, str]:
    """Values as libraries take them: all of them texts, truth in lower case."""
    return {
        key: str(entry.value).lower() if isinstance(entry.value, bool) else str(entry.value)
        for key, entry in section.entries.items()
        if key != without
    }


def _resolved(entry: Entry, home: str) -> str:
    if not isinstance(entry.value, str):
        raise SettingsError(f"{entry.origin}: must be a text")
    return resolve_path(entry.value, entry.folder, home)


def _positive(entry: Entry) -> int:
    text = str(entry.value)
    if isinstance(entry.value, bool) or not text.isascii() or not text.isdigit() or int(text) < 1:
        raise SettingsError(f"{entry.origin}: must be a whole number above 0")
    return int(text)
