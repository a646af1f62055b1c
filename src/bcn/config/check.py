"""Trying out what is configured: does it answer, list, read, and take a file?

Catalogs are only read. A probe is written next to the tables of a warehouse, never in one, and
into the place of a repository; it is removed at once, and nothing else is made.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from itertools import islice
from uuid import uuid4

from bcn.catalog.open import open_catalog
from bcn.catalog.protocol import Catalog, CatalogSettings, Pointer, public_location
from bcn.config.check_report import CheckedSection, CheckReport
from bcn.config.settings import RepositorySettings, Settings, suggest
from bcn.errors import (
    BcnError,
    CatalogError,
    KeyExistsError,
    MissingKeyError,
    NoRepositoryError,
    ReadOnlyStorageError,
    SettingsError,
    StorageError,
    UnsupportedSchemeError,
    UsageError,
)
from bcn.repository.repository import open_repository
from bcn.storage.local import local_path
from bcn.storage.open import Stores, open_storage, overlaps
from bcn.storage.protocol import Storage, StorageSpec

SECTION_SECONDS = 14.0
_TABLES_TRIED, _DATABASES_TRIED, _KEYS_LOOKED_AT = 3, 20, 100
_PROBE_NAME = ".bcn-probe-"
_PROBE = b"written by 'bcn config check', may be deleted\n"
_CATALOGS, _REPOSITORIES = "catalogs", "repositories"

_Check = tuple[CheckedSection, Callable[[CheckedSection], None]]


def run_check(
    settings: Settings,
    names: Iterable[str] = (),
    location: str | None = None,
    section_seconds: float = SECTION_SECONDS,
) -> CheckReport:
    """Try the sections of these names, or all, and a repository's location if one is given.

    Each section has so many seconds; all are tried at the same time. Raises UsageError.
    """
    checks = [*_plan(settings, tuple(names))]
    if location is not None and location not in settings.repositories:
        checks.append(_plan_repository(settings, settings.repository(location)))
    if not checks:
        raise UsageError(
            "nothing is configured", hint="write a bcn.toml, see docs/settings.md, or give --repo"
        )
    started = [_start(*check) for check in checks]
    return CheckReport([_finish(run, section_seconds) for run in started])


def _plan(settings: Settings, names: tuple[str, ...]) -> list[_Check]:
    known = [*settings.catalogs, *settings.faults, *settings.repositories]
    for name in names:
        if name not in known:
            found = ", ".join(dict.fromkeys(known)) or "none is configured"
            raise UsageError(
                f"no catalog or repository {name!r}{suggest(name, known)}; known: {found}",
                hint="give names of sections, or none to check all",
            )

    def is_wanted(name: str) -> bool:
        return not names or name in names

    return [
        *(_plan_catalog(c) for c in settings.catalogs.values() if is_wanted(c.name)),
        *(
            _plan_fault(name, fault, is_asked_for=name in names)
            for name, fault in settings.faults.items()
            if is_wanted(name)
        ),
        *(
            _plan_repository(settings, repository)
            for repository in settings.repositories.values()
            if is_wanted(repository.name)
        ),
    ]


def _plan_catalog(settings: CatalogSettings) -> _Check:
    place = public_location(settings.properties.get("warehouse", ""))
    section = CheckedSection(_CATALOGS, settings.name, settings.type, place)
    return section, lambda section: _check_catalog(section, settings)


def _plan_fault(name: str, fault: str, *, is_asked_for: bool) -> _Check:
    def tell(section: CheckedSection) -> None:
        if is_asked_for:
            raise SettingsError(fault)
        section.note("settings", f"cannot be used by bcn: {fault}")

    return CheckedSection(_CATALOGS, name, "", ""), tell


def _plan_repository(settings: Settings, repository: RepositorySettings) -> _Check:
    place = public_location(repository.location)
    name = repository.name or place
    section = CheckedSection(_REPOSITORIES, name, "", place)
    return section, lambda section: _check_repository(section, repository, settings)


# running


class _Run(threading.Thread):
    """One section in a thread that dies with the process: a library may wait longer than we do."""

    def __init__(self, section: CheckedSection, check: Callable[[CheckedSection], None]) -> None:
        super().__init__(daemon=True)
        self.section = section
        self.start_time = time.monotonic()
        self.bug: Exception | None = None
        self._check = check

    def run(self) -> None:
        try:
            self._check(self.section)
        except BcnError as error:
            self.section.fail(_step_of(self.section), error)
        except Exception as error:  # noqa: BLE001  raised where it is waited for
            self.bug = error
        self.section.seconds = time.monotonic() - self.start_time


def _start(section: CheckedSection, check: Callable[[CheckedSection], None]) -> _Run:
    run = _Run(section, check)
    run.start()
    return run


def _finish(run: _Run, limit_seconds: float) -> CheckedSection:
    section = run.section
    run.join(max(0.0, run.start_time + limit_seconds - time.monotonic()))
    if run.bug is not None:
        raise run.bug
    if not run.is_alive():
        return section
    kept = CheckedSection(section.section, section.name, section.type, section.place)
    kept.steps = list(section.steps)
    kept.seconds = time.monotonic() - run.start_time
    kind = CatalogError if section.section == _CATALOGS else StorageError
    kept.fail(
        _step_of(kept),
        kind(
            f"{section.name!r} gave no answer within {limit_seconds:.0f} seconds",
            hint="check its endpoint or address, and the network between",
        ),
    )
    return kept


_STEPS = {_CATALOGS: ("settings", "list", "read", "write"), _REPOSITORIES: ("open", "write")}


def _step_of(section: CheckedSection) -> str:
    """The first step that has no answer yet."""
    done = {step.name for step in section.steps}
    steps = _STEPS[section.section]
    return next((step for step in steps if step not in done), steps[-1])


# catalogs


def _check_catalog(section: CheckedSection, settings: CatalogSettings) -> None:
    catalog = open_catalog(settings)
    section.ok("settings", f"a catalog of type {settings.type}")
    namespaces = list(catalog.iter_namespaces())
    pointers = _find_pointers(catalog, namespaces)
    section.ok("list", _counted(len(namespaces), "database"))
    stores = Stores(catalog.access)
    _check_reading(section, stores, pointers)
    roots = catalog.warehouse_roots()
    if not roots:
        section.note("write", "no warehouse is known: restores into it need --target-location")
    for root in roots:
        _check_warehouse(section, stores, root, has_grants=catalog.access.grants is not None)


def _find_pointers(catalog: Catalog, namespaces: list[tuple[str, ...]]) -> list[Pointer]:
    """A few tables, to see whether their files can be read."""
    found: list[Pointer] = []
    for namespace in namespaces[:_DATABASES_TRIED]:
        found += islice(
            (item for item in catalog.iter_pointers(namespace) if item.metadata_location),
            _TABLES_TRIED - len(found),
        )
        if len(found) >= _TABLES_TRIED:
            break
    return found


def _check_reading(section: CheckedSection, stores: Stores, pointers: list[Pointer]) -> None:
    """One of a few: a table that lost its metadata is no fault of the settings."""
    if not pointers:
        section.note("read", "there is no table whose files could be read")
        return
    for pointer in pointers:
        storage, key = stores.resolve(pointer.metadata_location)
        if storage.find_stat(key) is not None:
            section.ok("read", f"the metadata of {pointer.table} can be read")
            return
    place = public_location(pointers[0].metadata_location)
    raise MissingKeyError(
        f"the metadata of {pointers[0].table} is not at {place}",
        hint="check the endpoint of the store, and that its disk is mounted",
    )


def _check_warehouse(
    section: CheckedSection, stores: Stores, root: str, *, has_grants: bool
) -> None:
    place = public_location(root)
    missing = _missing_folder(root)
    if missing is not None:
        section.note("write", f"{place} is not there yet: the first restore makes it{missing}")
        return
    storage, prefix = stores.resolve(root.rstrip("/") + "/")
    if _is_table(storage, f"{prefix}metadata/"):
        section.note("write", f"{place} looks like a table: nothing was written there")
        return
    try:
        _probe(storage, f"{prefix}{_PROBE_NAME}{uuid4().hex}")
        section.ok("write", f"{place} takes files")
    except StorageError as error:
        if not has_grants and not isinstance(error, ReadOnlyStorageError):
            raise
        reason = f"{place} takes no files, which backups do not need but restores do: {error}"
        section.note("write", reason, error)


def _is_table(storage: Storage, metadata: str) -> bool:
    """Whether files lie right in a folder `metadata`, as those of a table do."""
    keys = islice(storage.iter_keys(metadata), _KEYS_LOOKED_AT)
    return any("/" not in key.removeprefix(metadata) for key in keys)


# repositories


def _check_repository(
    section: CheckedSection, repository: RepositorySettings, settings: Settings
) -> None:
    spec = StorageSpec(repository.location, repository.properties)
    _check_opening(section, spec)
    _tell_overlaps(section, repository.location, settings)
    place = public_location(repository.location)
    missing = _missing_folder(repository.location)
    if missing is not None:
        section.note("write", f"{place} is not there yet: the first backup makes it{missing}")
        return
    _probe(open_storage(spec), f"{_PROBE_NAME}{uuid4().hex}")
    section.ok("write", f"{place} takes files")


def _check_opening(section: CheckedSection, spec: StorageSpec) -> None:
    try:
        found = open_repository(spec)
    except NoRepositoryError:
        section.note("open", "no repository is there yet: the first backup makes it")
        return
    scope = found.scope
    about = f"of catalog {scope.catalog}" if scope else "that no backup has used yet"
    section.ok("open", f"a repository {about}")


def _tell_overlaps(section: CheckedSection, location: str, settings: Settings) -> None:
    for catalog in settings.catalogs.values():
        warehouse = catalog.properties.get("warehouse", "")
        if warehouse and _is_place(warehouse) and _overlap(location, warehouse):
            section.note(
                "place",
                f"it overlaps with the warehouse of {catalog.name}: backups of that are refused",
            )


# places


def _overlap(one: str, two: str) -> bool:
    """Places of a kind that bcn does not know overlap with none that it does."""
    try:
        return overlaps(one, two)
    except UnsupportedSchemeError:
        return False


def _probe(storage: Storage, key: str) -> None:
    """Write, read back, see that a second write is refused, remove. Raises StorageError."""
    storage.write_once(key, _PROBE)
    try:
        if storage.read(key) != _PROBE:
            raise StorageError(f"{key} came back with other bytes than were written")
        try:
            storage.write_once(key, b"a second one\n")
        except KeyExistsError:
            return
        raise StorageError(f"{key} was overwritten: this store cannot keep two writers apart")
    finally:
        storage.delete(key)


def _missing_folder(location: str) -> str | None:
    """None if files may be written; else a remark, empty if the folder can be made."""
    if not _is_local(location):
        return None
    folder = local_path(location).rstrip("/") or "/"
    if os.path.isdir(folder):  # noqa: PTH112  keys hold any byte; pathlib would normalise them
        return None
    while folder != "/" and not os.path.exists(folder):  # noqa: PTH110
        folder = os.path.dirname(folder)  # noqa: PTH120
    if os.path.isdir(folder) and os.access(folder, os.W_OK):  # noqa: PTH112
        return ""
    raise ReadOnlyStorageError(f"cannot make {local_path(location)}: {folder} takes no folders")


def _is_place(location: str) -> bool:
    """Whether a warehouse is a place, and not a name that only a server knows."""
    return location.startswith("/") or ":" in location


def _is_local(location: str) -> bool:
    if "://" in location and not location.startswith("file:"):
        return False
    try:
        local_path(location)
    except UnsupportedSchemeError:
        return False
    return True


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
