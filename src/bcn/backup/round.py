"""One round of a backup: all works walked, planned, copied and sealed together."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import pyarrow as pa

from bcn import errors
from bcn.backup.copy import copy_chunks
from bcn.backup.stage import plan_group, seal_group
from bcn.backup.tasks import (
    FILE_SCHEMA,
    CopyResult,
    CopyTask,
    Failure,
    Group,
    GroupTask,
    ListTask,
    PlanResult,
    Run,
    SealedPart,
    TableRecipe,
    WalkTask,
)
from bcn.backup.walk import read_lists, split_by_group, walk_key, walk_manifests
from bcn.backup.work import Work, load_known, sort_files
from bcn.engine.chunks import Chunk, bin_chunks
from bcn.engine.meter import listen
from bcn.engine.parts import save_part
from bcn.engine.spark import Engine
from bcn.errors import BcnError
from bcn.repository.inventory import Slot
from bcn.repository.pit import FailedObject
from bcn.storage.open import open_storage
from bcn.telemetry.progress import Progress, Stopwatch

Task = TypeVar("Task")
Result = TypeVar("Result")

LISTS_PER_TASK = 100
ENTRIES_PER_TASK = 50_000
MANIFESTS_PER_TASK = 200
ROWS_PER_GROUP = 200_000
SMALL_LISTS = 300
SMALL_ENTRIES = 100_000
_UNKNOWN_ENTRIES = 1_000


@dataclass(frozen=True, slots=True)
class CopyOptions:
    """How hard to work, and what to do about damage."""

    bytes_per_second: float | None = None
    skip_damaged: bool = False


@dataclass
class RoundOutcome:
    """What became of the works of a round."""

    sealed: dict[int, list[SealedPart]] = field(default_factory=dict)
    failures: dict[int, list[Failure]] = field(default_factory=lambda: defaultdict(list))
    files_copied: int = 0
    bytes_copied: int = 0
    files_adopted: int = 0
    bytes_adopted: int = 0
    manifests_decoded: int = 0
    planned: dict[int, tuple[int, int]] = field(default_factory=dict)

    def add(self, failures: Iterable[Failure]) -> None:
        """Count failures against their tables."""
        for item in failures:
            self.failures[item.table_no].append(item)


def error_of(failure: Failure) -> BcnError:
    """A failure as the error it was."""
    return _error(failure.error_class, failure.message, failure.hint)


def error_of_all(failed: Sequence[FailedObject]) -> BcnError:
    """One error where every table failed: the first one's, and how many fared no better."""
    first, others = failed[0], len(failed) - 1
    more = f" (and {others} more {'tables' if others > 1 else 'table'} failed)" if others else ""
    return _error(first.error_class, f"{first.table}: {first.message}{more}", first.hint)


def _error(name: str, message: str, hint: str) -> BcnError:
    kind = getattr(errors, name, errors.BcnError)
    error: BcnError = kind(message, hint=hint or None)
    return error


class Round:
    """Takes works through all steps. Small metadata work runs here, while Spark is starting."""

    def __init__(
        self, run: Run, engine: Engine, progress: Progress, watch: Stopwatch, options: CopyOptions
    ) -> None:
        self.run = run
        self._engine = engine
        self._progress = progress
        self._watch = watch
        self._options = options
        self.outcome = RoundOutcome()

    def plan(self, works: Sequence[Work]) -> list[Chunk]:
        """Walk the works and decide what to copy: nothing is written but scratch."""
        with self._watch.phase("walk"):
            self._progress.phase("reading metadata")
            self._read_lists(works)
            works = self._whole(works)
            self._walk(works)
        with self._watch.phase("plan"):
            return self._plan_groups(self._whole(works))

    def execute(self, works: Sequence[Work]) -> RoundOutcome:
        """All steps; a table that fails does not stop the others."""
        chunks = self.plan(works)
        if chunks:
            with self._watch.phase("spark"):
                self._engine.wait(self._progress)
        with self._watch.phase("copy"):
            self._copy(chunks)
        with self._watch.phase("seal"):
            self._seal()
        return self.outcome

    def _whole(self, works: Sequence[Work]) -> list[Work]:
        if self._options.skip_damaged:
            return list(works)
        return [work for work in works if work.number not in self.outcome.failures]

    def _each(
        self, function: Callable[[Task], Result], tasks: Sequence[Task], *, small: bool
    ) -> list[Result]:
        return [function(task) for task in tasks] if small else self._engine.run(function, tasks)

    # walk

    def _read_lists(self, works: Sequence[Work]) -> None:
        tasks = [
            ListTask(self.run, work.number, tuple(lists[start : start + LISTS_PER_TASK]))
            for work in works
            for lists in [work.lists()]
            for start in range(0, len(lists), LISTS_PER_TASK)
        ]
        total = sum(len(task.lists) for task in tasks)
        by_number = {work.number: work for work in works}
        for work in works:
            work.add_embedded_manifests()
        for result in self._each(read_lists, tasks, small=total <= SMALL_LISTS):
            self.outcome.add(result.failures)
            for manifest in result.manifests:
                by_number[result.table_no].manifests.setdefault(manifest.location, manifest)

    def _walk(self, works: Sequence[Work]) -> None:
        repository = open_storage(self.run.repository)
        for work in works:
            load_known(work, repository)
            sort_files(work)
        self._groups = _assign_groups(works)
        self._save_unlisted(works)
        tasks = self._walk_tasks(works)
        small = sum(_entries(work) for work in works) <= SMALL_ENTRIES
        by_number = {work.number: work for work in works}
        for result in self._each(walk_manifests, tasks, small=small):
            self.outcome.manifests_decoded += result.manifests
            self.outcome.add(result.failures)
            for number, spelling in result.externals:
                by_number[number].roots.add(spelling)

    def _save_unlisted(self, works: Sequence[Work]) -> None:
        scratch = open_storage(self.run.scratch)
        shares: dict[int, list[pa.Table]] = defaultdict(list)
        for work in works:
            for group, share in split_by_group(_unlisted_rows(work), work.recipe()):
                shares[group].append(share)
        for group, tables in shares.items():
            save_part(scratch, walk_key(self.run, group, 0), pa.concat_tables(tables))

    def _walk_tasks(self, works: Sequence[Work]) -> list[WalkTask]:
        batches: list[list[tuple[int, str, str]]] = []
        size = ENTRIES_PER_TASK
        for work in works:
            for row in work.new_manifests:
                if size >= ENTRIES_PER_TASK or len(batches[-1]) >= MANIFESTS_PER_TASK:
                    batches.append([])
                    size = 0
                batches[-1].append((work.number, row.location, row.name))
                size += _UNKNOWN_ENTRIES if row.live_files is None else row.live_files
        recipes = {work.number: work.recipe() for work in works}
        return [
            WalkTask(
                self.run,
                number,
                tuple(batch),
                {table_no: recipes[table_no] for table_no, _, _ in batch},
            )
            for number, batch in enumerate(batches, 1)
        ]

    # plan, copy, seal

    def _plan_groups(self, works: Sequence[Work]) -> list[Chunk]:
        self._recipes = {work.number: work.recipe() for work in works}
        whole = set(self._recipes)
        groups = [
            Group(group.number, tuple(unit for unit in group.units if unit[0] in whole))
            for group in self._groups
        ]
        self._removed = {work.number: tuple(work.removed) for work in works}
        self._group_tasks = [self._group_task(group) for group in groups if group.units]
        self._small = len(groups) == 1 and sum(_rows(work) for work in works) <= SMALL_ENTRIES
        results: list[PlanResult] = self._each(plan_group, self._group_tasks, small=self._small)
        for result in results:
            for number, (files, size_bytes) in result.files_by_table.items():
                before = self.outcome.planned.get(number, (0, 0))
                self.outcome.planned[number] = (before[0] + files, before[1] + size_bytes)
        self._untouched = frozenset[int]().union(*(result.untouched for result in results))
        return [chunk for result in results for chunk in result.chunks]

    def _group_task(self, group: Group) -> GroupTask:
        numbers = {number for number, _ in group.units}
        return GroupTask(
            self.run,
            group,
            {number: self._recipes[number] for number in numbers},
            {number: self._removed[number] for number in numbers},
            frozenset(self.outcome.failures) if not self._options.skip_damaged else frozenset(),
            self._options.skip_damaged,
        )

    def _copy(self, chunks: Sequence[Chunk]) -> None:
        files = sum(chunk.files for chunk in chunks)
        self._progress.phase("copying", files, sum(chunk.size_bytes for chunk in chunks))
        if not chunks:
            return
        slots = self._engine.slots
        rate = self._options.bytes_per_second
        small_files = sum(chunk.files for chunk in chunks if not chunk.is_large)
        with listen(self._engine.host, self._progress) as meter:
            tasks = [
                CopyTask(
                    self.run,
                    number,
                    bin_,
                    _needed(bin_, self._group_tasks),
                    self._untouched,
                    rate / slots if rate else None,
                    meter,
                    small_files // slots,
                )
                for number, bin_ in enumerate(bin_chunks(chunks, slots))
            ]
            results = self._engine.run(copy_chunks, tasks)
        self._count(results)

    def _count(self, results: Sequence[CopyResult]) -> None:
        for result in results:
            if result.fatal is not None:
                raise error_of(result.fatal)
            self.outcome.files_copied += result.files
            self.outcome.bytes_copied += result.size_bytes
            self.outcome.files_adopted += result.files_adopted
            self.outcome.bytes_adopted += result.bytes_adopted
            self.outcome.add(result.failures)
        self._progress.update(
            self.outcome.files_copied + self.outcome.files_adopted,
            self.outcome.bytes_copied + self.outcome.bytes_adopted,
        )

    def _seal(self) -> None:
        self._progress.phase("writing the inventory")
        tasks = [self._group_task(task.group) for task in self._group_tasks]
        for parts in self._each(seal_group, tasks, small=self._small):
            for part in parts:
                self.outcome.sealed.setdefault(part.table_no, []).append(part)


def _needed(chunks: Sequence[Chunk], tasks: Sequence[GroupTask]) -> dict[int, TableRecipe]:
    """Recipes of the tables whose files are in the chunks, without what only planning needs."""
    groups = {chunk.group for chunk in chunks}
    return {
        number: recipe
        for task in tasks
        if task.group.number in groups
        for number, recipe in task.tables.items()
    }


def _entries(work: Work) -> int:
    return sum(
        _UNKNOWN_ENTRIES if row.live_files is None else row.live_files for row in work.new_manifests
    )


def _rows(work: Work) -> int:
    carried = work.parent.files if work.parent else 0
    return _entries(work) + len(work.added) + carried


def _assign_groups(works: Sequence[Work]) -> list[Group]:
    """Small tables share groups, large ones get several of their own."""
    units: list[list[tuple[int, Slot]]] = []
    room = 0
    for work in works:
        rows = _rows(work)
        count = math.ceil(rows / ROWS_PER_GROUP)
        if count > 1:
            work.groups = tuple(range(len(units), len(units) + count))
            units += [[(work.number, Slot(slot, count))] for slot in range(count)]
            room = 0
            continue
        if rows > room:
            units.append([])
            room = ROWS_PER_GROUP
        room -= rows
        work.groups = (len(units) - 1,)
        units[-1].append((work.number, Slot()))
    return [Group(number, tuple(group)) for number, group in enumerate(units)]


def _unlisted_rows(work: Work) -> pa.Table:
    rows = work.added
    return pa.table(
        {
            "table_no": [work.number] * len(rows),
            "kind": [row.kind for row in rows],
            "root_id": [row.root_id for row in rows],
            "path": [row.path for row in rows],
            "parent_manifest": [None] * len(rows),
            "format": [None] * len(rows),
            "recorded_size_bytes": [row.recorded_size_bytes for row in rows],
            "record_count": [None] * len(rows),
            "added_snapshot_id": [row.snapshot_id for row in rows],
        },
        schema=FILE_SCHEMA,
    )
