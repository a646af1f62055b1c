"""The scope of a run: what the repository is locked to, and where it must not lie."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from bcn.errors import (
    DamagedRepositoryError,
    NoRepositoryError,
    OverlapError,
    RefusedError,
    ScopeMismatchError,
    UsageError,
)
from bcn.model import join_names
from bcn.repository.pit import PitManifest
from bcn.repository.repository import Repository, Scope, create_repository, open_repository
from bcn.storage.open import overlaps
from bcn.storage.protocol import StorageSpec


def find_repository(spec: StorageSpec) -> Repository | None:
    """What is there, None if nothing is."""
    try:
        return open_repository(spec)
    except NoRepositoryError:
        return None


def make_repository(spec: StorageSpec, scope: Scope, now: datetime) -> None:
    """Make a repository, unless another process has just made one."""
    try:
        create_repository(spec, scope, now)
    except RefusedError:
        if find_repository(spec) is None:
            raise


def settle_scope(repository: Repository | None, asked: Scope | None) -> Scope:
    """The scope of this run: the repository's own, or what the first backup asks for."""
    locked = repository.scope if repository else None
    if locked is None:
        if asked is None:
            raise UsageError(
                "the first backup needs to know what to back up",
                hint="add --catalog NAME, and --database and --table for less than all of it",
            )
        return asked
    if asked is not None and asked != locked:
        raise ScopeMismatchError(
            f"this repository is locked to {describe_scope(locked)}, not {describe_scope(asked)}"
        )
    return locked


def check_parent(parent: PitManifest | None, scope: Scope) -> None:
    """Raises DamagedRepositoryError if `manifest.json` and the newest PIT have other scopes."""
    known = Scope.parse(parent.repository["scope"]) if parent else None
    if parent is not None and known is not None and known != scope:
        told = f"manifest.json says {describe_scope(scope)}"
        raise DamagedRepositoryError(
            f"{told}, but {parent.pit} says {describe_scope(known)}",
            hint="the point in time is right: remove manifest.json, it is made anew",
        )


def describe_scope(scope: Scope) -> str:
    """A scope in words."""
    text = f"{scope.granularity} {scope.catalog}"
    if scope.database is not None:
        text += f", database {join_names(scope.database)}"
    if scope.table is not None:
        text += f", table {scope.table}"
    return text


def check_places(repository: StorageSpec, roots: Iterable[str], what: str) -> None:
    """Raises OverlapError: orphan clean-up of a table would delete a repository inside of it."""
    for root in roots:
        if overlaps(repository.location, root):
            raise OverlapError(
                f"the repository {repository.location} and the {what} {root} overlap"
            )
