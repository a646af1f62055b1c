"""The places a restore writes to: checked before the first byte, marked while it runs."""

from __future__ import annotations

import json
import secrets
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from itertools import pairwise

from bcn.catalog.protocol import TABLE, Pointer
from bcn.errors import (
    KeyExistsError,
    MissingKeyError,
    OverlapError,
    StorageError,
    TargetExistsError,
    UnsupportedSchemeError,
)
from bcn.model import Json, PitId, TableId
from bcn.repository.owner import Owner, is_proven_dead, this_process
from bcn.restore.plan import Target
from bcn.storage.open import Stores, canonical_location, overlaps
from bcn.storage.protocol import StorageSpec

MARKER = ".bcn-restore.json"
SCRATCH = ".bcn-restore"
_OF_ONE_RUN = {"owner": None, "run": None, "replaces": None}  # of the marker: who, what it found


def check_place(target: Target, declared: Iterable[str], repository: StorageSpec) -> None:
    """Raises OverlapError if the target lies in the repository or in the table's own source.

    Restoring a table exactly where it was is allowed: nothing moves then.
    """
    if overlaps(target.location, repository.location):
        raise OverlapError(f"target {target.location} and repository {repository.location} overlap")
    if target.moves.is_identity:
        return
    for root in declared:
        if overlaps(target.location, root):
            raise OverlapError(f"target {target.location} and source {root} overlap")


def check_apart(targets: Iterable[Target]) -> None:
    """Raises OverlapError if two tables would be restored into each other."""
    places = sorted(
        ((canonical_location(target.location) + "/", target) for target in targets),
        key=lambda place: place[0],
    )
    for (first, one), (second, two) in pairwise(places):
        if second.startswith(first):
            raise OverlapError(
                f"{two.table} would be restored inside {one.table}, at {first}",
                hint="give each a place of its own: --target-location PLACE/{database}/{table}",
            )


def check_unused(targets: Iterable[Target], pointers: Iterable[Pointer]) -> None:
    """Raises TargetExistsError if a living table has its files where another one would go.

    A table that was renamed since the backup is one: two names for the same files would end with
    one of them losing all.
    """
    homes = sorted(_homes(pointers))
    places = [place for place, _ in homes]
    for target in targets:
        place = canonical_location(target.location) + "/"
        above = (place[: end + 1] for end, sign in enumerate(place) if sign == "/")
        around = [index for start in above for index in _run(places, start, start)]
        for index in (*around, *_run(places, place)):
            if homes[index][1] != target.table:
                raise TargetExistsError(
                    f"{target.location}, where {target.table} would go, is in use by"
                    f" {homes[index][1]}",
                    hint="restore it elsewhere with --target-location or --target-table",
                )


def check_beside(targets: Iterable[Target]) -> None:
    """Raises TargetExistsError if a table would be built where the one is whose place it takes."""
    for target in targets:
        if target.replaces is None:
            continue
        old = target.replaces.rpartition("/")[0].removesuffix("/metadata")
        if overlaps(target.location, old):
            raise TargetExistsError(
                f"{target.location}, where {target.table} would be built, is where it is now",
                hint="say another place with --target-location",
            )


def _run(places: Sequence[str], start: str, whole: str | None = None) -> Iterator[int]:
    """Indexes of sorted places that begin with `start`, or that are the whole text."""
    for index in range(bisect_left(places, start), len(places)):
        if not places[index].startswith(start) or (whole is not None and places[index] != whole):
            return
        yield index


def _homes(pointers: Iterable[Pointer]) -> Iterator[tuple[str, TableId]]:
    """Where tables are, by their metadata files; places that no storage of ours speaks are not."""
    for pointer in pointers:
        folder = pointer.metadata_location.rpartition("/")[0].removesuffix("/metadata")
        if folder and pointer.kind == TABLE:
            with suppress(UnsupportedSchemeError):
                yield canonical_location(folder) + "/", pointer.table


class Marker:
    """A file at a target that says which restore is under way there, and whose it is.

    It does not keep runs on other machines out, of which nobody here knows whether they are alive.
    So each run has working files of its own, and the catalog decides who was first.
    """

    def __init__(self, stores: Stores, target: Target, pit: PitId) -> None:
        self._storage, self._prefix = stores.resolve(target.location)
        self._key = f"{self._prefix}/{MARKER}"
        self._target = target
        self._me = this_process()
        self._run = secrets.token_hex(8)
        self._is_set = False
        self._document: Json = {
            "version": "1",
            "pit": str(pit),
            "object_id": target.record.object_id,
            "table": str(target.table),
            "location": target.location,
        }

    @property
    def scratch(self) -> str:
        """Where this run keeps its working files, if it keeps them here: no other run does."""
        return f"{self._target.location}/{SCRATCH}/{self._run}"

    def is_ours(self) -> bool:
        """Whether an earlier run of this very restore was here and did not end.

        Raises TargetExistsError while another process of this machine is at it.
        """
        found = self._load()
        if {**found, **_OF_ONE_RUN} != {**self._document, **_OF_ONE_RUN}:
            return False
        owner = _parse_owner(found.get("owner"))
        if owner is not None and _is_neighbour(owner, self._me):
            raise TargetExistsError(
                f"{owner} is restoring {self._target.table} to {self._target.location}",
                hint="wait for it, or choose another --target-table and --target-location",
            )
        return True

    def _load(self) -> Json:
        try:
            found = json.loads(self._storage.read(self._key))
        except (MissingKeyError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def check_empty(self) -> None:
        """Raises TargetExistsError if there are files that no unfinished run of ours left."""
        if not self.is_ours():
            self._check_nothing_else()

    def _check_nothing_else(self) -> None:
        if self._target.moves.is_identity:
            return
        keys = self._storage.iter_keys(self._prefix + "/")
        found = next((key for key in keys if key != self._key), None)
        if found is not None:
            raise TargetExistsError(
                f"{self._target.location} is not empty: it holds {found.rpartition('/')[2]}",
                hint="choose another --target-location, or remove what is there",
            )

    def set(self) -> None:
        """Say that this restore is under way, and that it is ours from now on.

        Raises TargetExistsError if another one has come since the place was looked at.
        """
        replaces = self._target.replaces
        mine = {"owner": asdict(self._me), "run": self._run, "replaces": replaces}
        document = {**self._document, **mine}
        data = (json.dumps(document, indent=2) + "\n").encode()
        try:
            self._storage.write_once(self._key, data)
        except KeyExistsError:
            if not self.is_ours():
                raise TargetExistsError(
                    f"another restore is under way at {self._target.location}"
                ) from None
            self._storage.replace(self._key, data)
        else:
            self._look_again()
        self._is_set = True

    def _look_again(self) -> None:
        """One that has begun and ended since has left its files, but no marker."""
        try:
            self._check_nothing_else()
        except TargetExistsError:
            self._storage.delete(self._key)
            raise

    def replaced(self) -> str | None:
        """The metadata file of the table whose place an earlier run was to take."""
        found = self._load().get("replaces")
        return found if isinstance(found, str) else None

    def find_rival(self) -> str | None:
        """Who else has marked the place since this run did."""
        found = self._load() if self._is_set else {}
        if not found or found.get("run") == self._run:
            return None
        return str(_parse_owner(found.get("owner")) or "somebody")

    def remove(self) -> None:
        """Say that it has ended."""
        self._storage.delete(self._key)

    def remove_scratch(self) -> None:
        """Remove working files of all runs: of stopped ones, and of those that have lost.

        Not before what is here is registered: nobody else can then win, nor needs them.
        """
        self._storage.delete_all(f"{self._prefix}/{SCRATCH}/")

    def abandon(self) -> None:
        """Take back what this run alone has put here and no table needs: another one has won."""
        with suppress(StorageError):  # who has won is what must be told
            self._storage.delete_all(f"{self._prefix}/{SCRATCH}/{self._run}/")
            self._storage.delete_empty(f"{self._prefix}/{SCRATCH}/")
            if self._load().get("run") == self._run:
                self._storage.delete(self._key)


def _parse_owner(document: object) -> Owner | None:
    try:
        return Owner(**document)  # type: ignore[arg-type]  # whatever is no owner is caught
    except TypeError:
        return None


def _is_neighbour(owner: Owner, me: Owner) -> bool:
    """Whether the owner is another process of this very machine, and there."""
    machine = (me.boot_id, me.pid_namespace)
    if not owner.boot_id or (owner.boot_id, owner.pid_namespace) != machine:
        return False
    return owner != me and not is_proven_dead(owner, me)
