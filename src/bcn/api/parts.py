"""What several functions need: settings, places, names, catalogs, Spark."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from bcn.errors import Interrupted, UsageError
from bcn.model import check_name, join_names, split_names
from bcn.repository.repository import Repository, Scope, open_repository
from bcn.storage.protocol import StorageSpec

if TYPE_CHECKING:  # types of what is imported when it is used
    from bcn.catalog.protocol import Catalog
    from bcn.config.settings import RepositorySettings, Settings
    from bcn.engine.spark import Engine

# ruff: noqa: PLC0415  what a function needs is imported when it is called, see the package


def find_catalog(repo: str | None = None, *, settings: Settings | None = None) -> str | None:
    """The name of the catalog that a repository is locked to, None before its first backup."""
    scope = open_configured(settings or own_settings(), repo).scope
    return scope.catalog if scope else None


def find_repository(settings: Settings, repo: str | None) -> RepositorySettings:
    """The repository of that name or place; the only configured one if none is given."""
    if repo is not None:
        if not repo or "\0" in repo:
            raise UsageError(f"{repo!r} is no place of a repository", hint="check --repo")
        return settings.repository(repo)
    every = list(settings.repositories.values())
    chosen = [repository for repository in every if not repository.is_implied] or every
    if len(chosen) == 1:
        return chosen[0]
    known = ", ".join(sorted(settings.repositories)) or "none is configured"
    raise UsageError(
        f"which repository? known: {known}",
        hint="add --repo NAME or --repo LOCATION, or set BCN_REPO",
    )


def parse_scope(catalog: str | None, database: str | None, table: str | None) -> Scope | None:
    """What to back up, by the names given; None if none is. Raises UsageError, BadNameError."""
    if catalog is None and database is None and table is None:
        return None
    if catalog is None:
        raise UsageError("--database and --table need --catalog", hint="add --catalog NAME")
    if table is not None and database is None:
        raise UsageError("--table needs --database", hint="add --database NAME")
    return Scope(
        check_name(catalog),
        None if database is None else split_names(database),
        None if table is None else check_name(table),
    )


@dataclass(frozen=True, slots=True)
class Names:
    databases: tuple[str, ...]
    tables: tuple[str, ...]
    target_database: tuple[str, ...] | None


def parse_names(
    databases: Sequence[str],
    tables: Sequence[str],
    target_database: str | None,
    target_table: str | None,
) -> Names:
    if target_table is not None:
        check_name(target_table)
    return Names(
        tuple(_pattern(text) for text in databases),
        tuple(check_name(text) for text in tables),
        None if target_database is None else split_names(target_database),
    )


def _pattern(text: str) -> str:
    """A database as PITs spell it; a glob as it is."""
    levels = split_names(text)
    return text if any(sign in text for sign in "*?[") else join_names(levels)


# parts


def own_settings() -> Settings:
    from bcn.config.load import load_settings

    return load_settings(None, os.environ, Path.cwd())


def repository_spec(repository: RepositorySettings) -> StorageSpec:
    return StorageSpec(repository.location, repository.properties)


def open_configured(settings: Settings, repo: str | None) -> Repository:
    return open_repository(repository_spec(find_repository(settings, repo)))


def catalogs_of(settings: Settings) -> Callable[[str], Catalog]:
    from bcn.catalog.open import open_catalog

    return lambda name: open_catalog(settings.catalog(name))


def now() -> datetime:
    return datetime.now(UTC)


@contextmanager
def open_engine(
    settings: Settings, jobs: int | None, *, verbose: bool, iceberg: bool = False
) -> Iterator[Engine]:
    """Spark as configured; it starts when there is work for it, and ends with the block."""
    from bcn.engine.spark import Engine, SparkSettings

    if jobs is not None and jobs < 1:
        raise UsageError(f"--jobs must be 1 or more, not {jobs}")
    conf = {key: value for key, value in settings.spark.items() if key != "master"}
    engine = Engine(
        SparkSettings(settings.spark.get("master", "local[*]"), conf, jobs, iceberg, verbose)
    )
    wait_seconds = 60.0
    try:
        yield engine
    except Interrupted:
        wait_seconds = 0.0  # the process ends now, and with it a JVM that is still starting
        raise
    finally:
        engine.stop(wait_seconds)
