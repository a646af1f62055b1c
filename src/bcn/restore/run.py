"""Restoring: the steps in order. Nothing is registered before everything it names was checked."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from bcn.catalog.protocol import Catalog
from bcn.engine.chunks import Chunk, bin_chunks
from bcn.engine.meter import MeterAddress, listen
from bcn.engine.spark import Engine
from bcn.errors import UnknownPitError
from bcn.iceberg.metadata import parse_metadata
from bcn.iceberg.view import relocate_view
from bcn.repository.inventory import Slot
from bcn.repository.pit import PitManifest
from bcn.repository.repository import open_repository
from bcn.restore.plan import RestoreRequest, Target
from bcn.restore.prepare import Item, Preparation, Prepared
from bcn.restore.race import told_of_others
from bcn.restore.register import (
    build_metadata,
    check_given,
    check_registered,
    metadata_location,
    new_uuid,
    save_metadata,
)
from bcn.restore.report import RestoredTable, RestoredView, RestoreReport
from bcn.restore.stage import check_manifests, plan_group, run_step
from bcn.restore.tasks import (
    COPY,
    MANIFESTS,
    STEPS,
    PlanResult,
    PlanTask,
    RestoreRecipe,
    RestoreRun,
    StepResult,
    StepTask,
)
from bcn.restore.views import check_registered_view
from bcn.storage.open import Stores, flush_places
from bcn.telemetry.progress import Progress, Silent, Stopwatch

ROWS_PER_GROUP = 200_000
SMALL_ROWS = 100_000

_PHASES = {
    "copy": "copying",
    "deletes": "rewriting deletes",
    "manifests": "rewriting manifests",
    "lists": "rewriting manifest lists",
}


def run_restore(
    request: RestoreRequest,
    open_catalog: Callable[[str], Catalog],
    engine: Engine,
    progress: Progress | None = None,
) -> RestoreReport:
    """Bring tables of a PIT back. Raises BcnError; nothing is registered unless all is right."""
    return _Restore(request, open_catalog, engine, progress or Silent()).run()


@dataclass
class _Counts:
    files: int = 0
    size_bytes: int = 0
    files_adopted: int = 0
    bytes_adopted: int = 0
    checked: int = 0

    def add(self, result: StepResult) -> None:
        self.files += result.files
        self.size_bytes += result.size_bytes
        self.files_adopted += result.files_adopted
        self.bytes_adopted += result.bytes_adopted


@dataclass
class _Planned:
    chunks: Mapping[str, Sequence[Chunk]] = field(default_factory=dict)
    odd_sizes: Mapping[str, int] = field(default_factory=dict)
    groups: Mapping[int, Sequence[int]] = field(default_factory=dict)


class _Restore:
    def __init__(
        self,
        request: RestoreRequest,
        open_catalog: Callable[[str], Catalog],
        engine: Engine,
        progress: Progress,
    ) -> None:
        self._request = request
        self._open_catalog = open_catalog
        self._engine = engine
        self._progress = progress
        self._watch = Stopwatch()
        self._counts = _Counts()
        self._warnings: list[str] = []
        self._requests = engine.requests()

    def run(self) -> RestoreReport:
        """All steps."""
        with self._watch.phase("plan"):
            self._progress.phase("planning")
            self._repository = open_repository(self._request.repository)
            self._pit = self._load_pit()
            self._catalog = self._open_catalog(self._target_catalog())
            self._stores = Stores(self._catalog.access)
            prepared = self._prepare()
        if self._request.dry_run:
            return self._report(prepared)
        tables = [table for table in prepared.tables if not table.is_back]
        if tables:
            with told_of_others(self._catalog, tables):
                self._restore(tables)
        with self._watch.phase("register"):
            self._progress.phase("registering")
            self._make_namespaces(prepared)
            self._register(tables)
            self._register_views(prepared)
        back = [table for table in prepared.tables if table.is_back]
        for table in (*back, *tables[:1]):  # where this run or an earlier one had working files
            table.marker.remove_scratch()
        for item in (*prepared.tables, *prepared.views):
            item.marker.remove()  # not before all are there, so that another run could go on
        return self._report(prepared)

    def _load_pit(self) -> PitManifest:
        pit = self._repository.find_pit(self._request.pit)
        if pit is None:
            raise UnknownPitError(f"no point in time {self._request.pit}")
        return pit

    def _target_catalog(self) -> str:
        return self._request.target_catalog or str(self._pit.repository["scope"]["catalog"])

    def _prepare(self) -> Prepared:
        prepared = Preparation(
            self._request, self._repository, self._pit, self._catalog, self._stores, self._warn
        ).run()
        for item in (*prepared.tables, *prepared.views):
            if item.is_back:
                self._progress.message(f"{item.target.table} was restored by an earlier run")
        return prepared

    def _warn(self, text: str) -> None:
        self._warnings.append(text)
        self._progress.message(f"warning: {text}")

    # the work

    def _restore(self, tables: Sequence[Item]) -> None:
        tables[0].marker.set()  # a place that takes nothing is told before Spark is started
        self._engine.warm_up()
        for table in tables[1:]:
            table.marker.set()
        access = self._catalog.access
        scratch = access.spec(tables[0].marker.scratch)
        self._run_value = RestoreRun(self._request.repository, scratch, access)
        self._recipes = {table.target.number: table.recipe for table in tables}
        self._sort(tables)
        with self._watch.phase("spark"):
            self._engine.wait(self._progress)
        for step in STEPS:
            with self._watch.phase(step):
                self._do(step)
        for table in tables:
            new_id = new_uuid(self._request.uuid, table.target)
            table.document = build_metadata(table.document, table.target, new_id)
        with self._watch.phase("check"):
            self._check()
        with self._watch.phase("flush"):
            flush_places(move.new for table in tables for move in table.target.moves.moves)

    def _sort(self, tables: Sequence[Item]) -> None:
        with self._watch.phase("sort"):
            tasks = self._plan_tasks(tables)
            small = sum(table.target.record.files for table in tables) <= SMALL_ROWS
            results: list[PlanResult] = (
                [plan_group(task) for task in tasks]
                if small
                else self._engine.run(plan_group, tasks)
            )
        self._planned = _Planned(
            {step: [c for result in results for c in result.chunks[step]] for step in STEPS},
            {path: size for result in results for path, size in result.odd_sizes.items()},
            {task.group: tuple(task.tables) for task in tasks},
        )

    def _plan_tasks(self, tables: Sequence[Item]) -> list[PlanTask]:
        tasks: list[PlanTask] = []
        shared: list[tuple[int, Slot]] = []
        for table in tables:
            number, rows = table.target.number, table.target.record.files
            count = math.ceil(rows / ROWS_PER_GROUP)
            if count > 1:
                tasks += [
                    self._plan_task(len(tasks) + slot, [(number, Slot(slot, count))])
                    for slot in range(count)
                ]
            else:
                shared.append((number, Slot()))
        for start in range(0, len(shared), 500):
            tasks.append(self._plan_task(len(tasks), shared[start : start + 500]))
        return tasks

    def _plan_task(self, group: int, units: Sequence[tuple[int, Slot]]) -> PlanTask:
        recipes = {number: self._recipes[number] for number, _ in units}
        return PlanTask(self._run_value, group, tuple(units), recipes)

    def _do(self, step: str) -> None:
        chunks = self._planned.chunks[step]
        if not chunks:
            return
        size_bytes = sum(chunk.size_bytes for chunk in chunks)
        self._progress.phase(_PHASES[step], sum(chunk.files for chunk in chunks), size_bytes)
        with listen(self._engine.host, self._progress) as meter:
            for result in self._engine.run(run_step, self._step_tasks(step, chunks, meter)):
                self._raise_failed(result)
                self._counts.add(result)

    def _step_tasks(
        self, step: str, chunks: Sequence[Chunk], meter: MeterAddress | None
    ) -> list[StepTask]:
        slots, rate = self._engine.slots, self._request.bytes_per_second
        return [
            StepTask(
                self._run_value,
                step,
                number,
                bin_,
                self._needed(bin_),
                self._planned.odd_sizes,
                rate / slots if rate else None,
                meter,
            )
            for number, bin_ in enumerate(bin_chunks(chunks, slots))
        ]

    def _needed(self, chunks: Sequence[Chunk]) -> dict[int, RestoreRecipe]:
        groups = {chunk.group for chunk in chunks}
        numbers = {number for group in groups for number in self._planned.groups[group]}
        return {number: self._recipes[number] for number in numbers}

    def _raise_failed(self, result: StepResult) -> None:
        if result.error is not None:
            raise result.error

    def _check(self) -> None:
        """Walk the restored manifests; where nothing moved they are among the copied files."""
        self._progress.phase("checking")
        for step in (MANIFESTS, COPY):
            tasks = self._step_tasks(step, self._planned.chunks[step], None)
            for result in self._engine.run(check_manifests, tasks):
                self._raise_failed(result)
                self._counts.checked += result.files

    def _make_namespaces(self, prepared: Prepared) -> None:
        for namespace in prepared.namespaces:
            self._catalog.create_namespace(namespace.levels, namespace.properties)

    def _register(self, tables: Sequence[Item]) -> None:
        for table in tables:
            target, document = table.target, table.document
            location = metadata_location(self._catalog, target)
            with told_of_others(self._catalog, [table]):
                save_metadata(self._stores, location, document)
                table.metadata_location = location
                self._publish(target, location)
            check_registered(self._stores, self._catalog, target, location, document)
            table.uuid = document.get("table-uuid")

    def _publish(self, target: Target, location: str) -> None:
        if target.replaces is None:
            self._catalog.register(target.table, location)
        else:
            self._catalog.replace(target.table, target.replaces, location)
            self._progress.message(f"{target.table} was {target.replaces}")

    def _register_views(self, prepared: Prepared) -> None:
        """After the tables, so that a view never appears before what it names."""
        for view in prepared.views:
            if view.is_back:
                continue
            target = view.target
            view.marker.set()
            new_id = new_uuid(self._request.uuid, target)
            document = relocate_view(
                view.document, target.moves, uuid=new_id, renaming=prepared.renaming
            )
            location = metadata_location(self._catalog, target)
            with told_of_others(self._catalog, [view]):
                save_metadata(self._stores, location, document)
                view.metadata_location = location
                self._catalog.register_view(target.table, location)
            check_registered_view(self._stores, self._catalog, target, document)
            view.uuid = document.get("view-uuid")

    def _report(self, prepared: Prepared) -> RestoreReport:
        return RestoreReport(
            repository=self._request.repository.location,
            pit=self._pit.pit,
            catalog=self._target_catalog(),
            tables=tuple(self._restored(table) for table in prepared.tables),
            views=tuple(self._restored_view(view) for view in prepared.views),
            namespaces=tuple(str(item) for item in prepared.namespaces if not item.is_there),
            seconds=self._watch.seconds,
            files_copied=self._counts.files,
            bytes_copied=self._counts.size_bytes,
            files_adopted=self._counts.files_adopted,
            bytes_adopted=self._counts.bytes_adopted,
            files_checked=self._counts.checked,
            requests=self._engine.requests() - self._requests,
            warnings=tuple(self._warnings),
            dry_run=self._request.dry_run,
        )

    def _restored(self, table: Item) -> RestoredTable:
        target = table.target
        if table.is_back:
            self._recall(table)
        return RestoredTable(
            source=target.record.table,
            table=target.table,
            metadata_location=table.metadata_location,
            uuid=table.uuid,
            files=target.entry.files,
            size_bytes=target.entry.size_bytes,
            snapshots=target.record.snapshots,
            damaged_snapshots=len(target.entry.damaged),
            roots=target.moves.moves,
            pit=target.source.pit.pit,
            deleted_at=target.source.deleted_at,
            replaced=table.replaced if table.is_back else target.replaces,
        )

    def _restored_view(self, view: Item) -> RestoredView:
        target = view.target
        if view.is_back:
            self._recall(view)
        return RestoredView(
            source=target.record.table,
            view=target.table,
            metadata_location=view.metadata_location,
            uuid=view.uuid,
            versions=len(view.document["versions"]),
            pit=target.source.pit.pit,
            deleted_at=target.source.deleted_at,
        )

    def _recall(self, table: Item) -> None:
        """What an earlier run registered."""
        pointer = self._catalog.find_pointer(table.target.table)
        if pointer is not None:
            storage, key = self._stores.resolve(pointer.metadata_location)
            table.metadata_location = pointer.metadata_location
            document = parse_metadata(storage.read(key))
            check_given(self._catalog, table.target, pointer, document)
            table.uuid = document.get("table-uuid") or document.get("view-uuid")
