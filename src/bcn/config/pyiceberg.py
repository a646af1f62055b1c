"""Catalogs that pyiceberg knows: its `.pyiceberg.yaml` and its variables, read as it reads them.

Names and keys are in lower case there. A catalog that `bcn.toml` has too is bcn's own affair.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bcn.config.sections import Entry, Section, Sections
from bcn.errors import SettingsError

FILE_NAME = ".pyiceberg.yaml"
_PREFIX = "pyiceberg_"
_CATALOG = "catalog"
_SCHEMES = {  # of `uri`, where a catalog does not say its type
    "http": "rest",
    "https": "rest",
    "thrift": "hive",
    "sqlite": "sql",
    "postgresql": "sql",
}


def add_pyiceberg(sections: Sections, environ: Mapping[str, str], cwd: Path) -> None:
    """Add its catalogs, each as one section; those that are there already stay as they are."""
    found: dict[str, Section] = {}
    path = find_pyiceberg_file(environ, cwd)
    if path is not None:
        _add_file(found, path, str(cwd.absolute()))
    _add_variables(found, environ, str(cwd.absolute()))
    for name, section in found.items():
        _add_type(section)
        sections.setdefault(("catalogs", name), section)


def find_pyiceberg_file(environ: Mapping[str, str], cwd: Path) -> Path | None:
    """The first in PYICEBERG_HOME, the home folder and the current folder: pyiceberg's order."""
    folders = (environ.get("PYICEBERG_HOME"), environ.get("HOME"), str(cwd.absolute()))
    paths = (Path(folder) / FILE_NAME for folder in folders if folder)
    return next((path for path in paths if path.is_file()), None)


def _add_file(found: dict[str, Section], path: Path, folder: str) -> None:
    catalogs = _lower(_read(path)).get(_CATALOG) or {}
    if not isinstance(catalogs, dict):
        raise SettingsError(f"{path}: 'catalog' must hold a name for each catalog")
    for name, content in catalogs.items():
        if not isinstance(content, dict):
            raise SettingsError(f"{path}: catalog {name!r} must hold properties")
        section = found[name] = _section(name, str(path))
        for key, value in _flat(content):
            origin = f"{path}: {section.title} {key}"
            section.entries[key] = Entry(value, origin, folder, str(path))


def _read(path: Path) -> Any:
    # Costs a tenth of a second: only where there is such a file.
    from strictyaml import YAMLError, load  # noqa: PLC0415

    try:
        return load(path.read_text(encoding="utf-8")).data
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise SettingsError(f"cannot read {path}: {reason}") from None
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path} is not UTF-8 at byte {error.start}") from None
    except YAMLError as error:  # its text repeats the file
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        place = f" at line {mark.line + 1}" if mark is not None else ""
        raise SettingsError(f"{path} is not the YAML that pyiceberg takes{place}") from None


def _lower(document: Any) -> dict[str, Any]:
    if not isinstance(document, dict):
        return {}
    return {
        str(key).lower(): _lower(value) if isinstance(value, dict) else value
        for key, value in document.items()
    }


def _flat(content: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Properties that say something; `s3: {endpoint: x}` means what `s3.endpoint: x` does."""
    for key, value in content.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        elif isinstance(value, str) and value:
            yield prefix + key, value


def _add_variables(found: dict[str, Section], environ: Mapping[str, str], folder: str) -> None:
    """`PYICEBERG_CATALOG__NAME__KEY`; in names and keys `_` is `-`, and two of them are a dot."""
    for variable in sorted(environ):
        kind, *words = variable.lower().removeprefix(_PREFIX).split("__", maxsplit=2)
        if not variable.lower().startswith(_PREFIX) or kind != _CATALOG or len(words) != 2:
            continue
        name, key = (word.replace("__", ".").replace("_", "-") for word in words)
        section = found.setdefault(name, _section(name, variable))
        section.entries[key] = Entry(environ[variable], variable, folder, variable)


def _section(name: str, origin: str) -> Section:
    return Section("catalogs", name, origin, {}, is_borrowed=True)


def _add_type(section: Section) -> None:
    """Types in lower case; without one, the scheme of `uri` tells it."""
    kind, uri = section.entries.get("type"), section.entries.get("uri")
    if kind is not None:
        lower = str(kind.value).lower()
        section.entries["type"] = Entry(lower, kind.origin, kind.folder, kind.source)
    elif uri is not None:
        scheme = str(uri.value).partition(":")[0].partition("+")[0].lower()
        if scheme in _SCHEMES:
            section.entries["type"] = Entry(_SCHEMES[scheme], uri.origin, uri.folder, uri.source)
