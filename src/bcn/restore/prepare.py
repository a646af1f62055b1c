"""Everything that can be refused is refused here, before the first byte is copied."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from bcn.catalog.protocol import TABLE, VIEW, Catalog, Pointer
from bcn.errors import (
    BcnError,
    CatalogError,
    DamagedRepositoryError,
    TargetExistsError,
)
from bcn.iceberg.metadata import check_supported, declared_roots, parse_metadata
from bcn.iceberg.view import Renaming
from bcn.model import Json, PitId, TableId
from bcn.repository.entry import Entry
from bcn.repository.pit import DeletedObject, Namespace, ObjectRecord, PitManifest
from bcn.repository.repository import Repository
from bcn.restore.choose import Choice, Filter, choose
from bcn.restore.namespaces import NamespaceTarget, Origin, origin_of, plan_namespaces
from bcn.restore.place import Marker, check_apart, check_beside, check_place, check_unused
from bcn.restore.plan import (
    RestoreRequest,
    Source,
    Target,
    build_moves,
    check_templates,
    place_beside,
    target_name,
)
from bcn.restore.register import find_registered, load_document, load_metadata
from bcn.restore.tasks import RestoreRecipe
from bcn.restore.template import fill_location
from bcn.restore.views import load_view, note_references, renaming_of
from bcn.storage.open import Stores


@dataclass
class Item:
    """One table or view on its way."""

    target: Target
    document: Json
    marker: Marker
    is_back: bool = False
    replaced: str | None = None  # by an earlier run
    metadata_location: str = ""  # as soon as it is written
    uuid: str | None = None

    @property
    def recipe(self) -> RestoreRecipe:
        """What tasks have to know of it."""
        target, entry = self.target, self.target.entry
        damaged = frozenset(path for item in entry.damaged for path in item["files"])
        return RestoreRecipe(target.number, entry.roots, entry.layers, target.moves, damaged)


@dataclass(frozen=True, slots=True)
class Prepared:
    """What will be restored, and under which names."""

    tables: tuple[Item, ...]
    views: tuple[Item, ...]
    namespaces: tuple[NamespaceTarget, ...]
    renaming: Renaming


class Preparation:
    """From a request to what will be restored, each under which name and where."""

    def __init__(
        self,
        request: RestoreRequest,
        repository: Repository,
        pit: PitManifest,
        catalog: Catalog,
        stores: Stores,
        warn: Callable[[str], None],
    ) -> None:
        self._request = request
        self._repository = repository
        self._pit = pit
        self._pits: dict[PitId, PitManifest | None] = {pit.pit: pit}
        self._catalog = catalog
        self._stores = stores
        self._warn = warn
        self._old_catalog = str(pit.repository["scope"]["catalog"])
        self._new_catalog = request.target_catalog or self._old_catalog

    def run(self) -> Prepared:
        """What is asked for, all of it possible. Raises BcnError; nothing is written."""
        choice = self._choose()
        sources = self._holdable([self._source(item) for item in choice.items])
        check_templates(self._request, len(sources))
        names = [target_name(source.record.table, self._request) for source in sources]
        check_names(sources, names)
        pairs = enumerate(zip(sources, names, strict=True), 1)
        items = [self._item(number, source, name) for number, (source, name) in pairs]
        # A view that stays where it was may lie anywhere: it has one file, and nobody cleans up.
        spread = [item.target for item in items if not _is_still_view(item)]
        check_apart(spread)
        namespaces = plan_namespaces(self._catalog, self._origins(items, choice.namespaces))
        self._check_free(items)
        check_unused(spread, self._pointers())
        return self._noted(items, namespaces)

    def _noted(self, items: Sequence[Item], namespaces: Sequence[NamespaceTarget]) -> Prepared:
        """All that people should know before it starts."""
        targets = [item.target for item in items]
        renaming = renaming_of(self._old_catalog, self._new_catalog, targets)
        tables = [item for item in items if item.target.record.type != VIEW]
        views = [item for item in items if item.target.record.type == VIEW]
        notes = [note for namespace in namespaces for note in namespace.notes]
        for item in tables:
            notes += _gaps(item.target)
            if item.target.replaces is not None and not item.is_back:
                notes += self._catalog.check_replace(item.target.table)
            notes += self._catalog.check_table(item.target.table, item.document)
        for item in views:
            notes += note_references(item.document, item.target, renaming)
        for note in notes:
            self._warn(note)
        return Prepared(tuple(tables), tuple(views), tuple(namespaces), renaming)

    # what

    def _choose(self) -> Choice:
        request = self._request
        return choose(
            self._pit,
            Filter(request.databases, request.tables, request.exclude, request.include_deleted),
        )

    def _source(self, item: ObjectRecord | DeletedObject) -> Source:
        return (
            self._find_deleted(item) if isinstance(item, DeletedObject) else Source(item, self._pit)
        )

    def _find_deleted(self, item: DeletedObject) -> Source:
        """What is gone as the last PIT has it that held it. Raises DamagedRepositoryError."""
        last = item.last_pit_included
        what = f"{item.table} was deleted by {item.deleted_at}"
        try:
            if last not in self._pits:
                self._pits[last] = self._repository.find_pit(last)
        except DamagedRepositoryError as error:
            raise _lost(f"{what}, and PIT {last} that held it is damaged: {error}") from error
        pit = self._pits[last]
        if pit is None:
            raise _lost(f"{what}, and PIT {last} that held it was removed")
        for record in pit.objects:
            if record.object_id == item.object_id:
                return Source(record, pit, item.deleted_at)
        raise _lost(f"{what}, and PIT {last} does not hold it")

    def _holdable(self, sources: Sequence[Source]) -> list[Source]:
        """Less the views where the target has none."""
        views = [str(source.record.table) for source in sources if source.record.type == VIEW]
        if not views or self._catalog.keeps_views():
            return list(sources)
        self._warn(f"{self._catalog.name} has no views, so they stay behind: {', '.join(views)}")
        return [source for source in sources if source.record.type != VIEW]

    def _origins(self, items: Sequence[Item], chosen: Sequence[Namespace]) -> Iterator[Origin]:
        """Databases of what is restored, and those that are restored though nothing is in them."""
        same = self._old_catalog == self._new_catalog
        for item in items:
            yield origin_of(item.target, same_catalog=same)
        new = self._request.target_database
        for namespace in chosen if new is None or len(chosen) == 1 else ():
            levels = new or namespace.levels
            in_place = same and levels == namespace.levels
            yield Origin(self._pit, namespace.levels, levels, in_place)

    # where

    def _item(self, number: int, source: Source, name: TableId) -> Item:
        entry = self._repository.load_entry(source.record.entry)
        data = load_metadata(self._repository, entry)
        target = self._target(number, source, name, entry, data)
        if source.record.type == VIEW:
            document = load_view(data, target)
            declared: tuple[str, ...] = (str(document["location"]),)
        else:
            document = load_document(data, target)
            check_supported(document)
            declared = declared_roots(document)
        check_place(target, declared, self._request.repository)
        return Item(target, document, Marker(self._stores, target, source.pit.pit))

    def _target(
        self, number: int, source: Source, name: TableId, entry: Entry, data: bytes
    ) -> Target:
        home = str(parse_metadata(data)["location"])
        comes_back = self._old_catalog == self._new_catalog and name == source.record.table
        location = self._location(name, home if comes_back else None)
        moves = build_moves(entry, home, location, self._request)
        target = Target(number, source, name, location, moves, entry)
        if not self._request.overwrite or source.record.type == VIEW:
            return target
        old = self._find_there(name)
        taking = replace(target, comes_back=comes_back and self._is_same(old, data))
        return self._in_place_of(old, taking, home) or target

    def _location(self, name: TableId, home: str | None) -> str:
        if self._request.target_location is not None:
            return fill_location(self._request.target_location, self._new_catalog, name)
        return (home or self._catalog.default_location(name)).rstrip("/")

    def _in_place_of(self, old: Pointer | None, target: Target, home: str) -> Target | None:
        """The target beside an old table; also if that is gone since a first run began there."""
        pit = target.source.pit.pit
        if self._request.target_location is None:
            place = place_beside(target.location, pit)
            moves = build_moves(target.entry, home, place, self._request)
            target = replace(target, location=place, moves=moves)
        if old is not None:
            return replace(target, replaces=old.metadata_location)
        return target if Marker(self._stores, target, pit).is_ours() else None

    def _is_same(self, old: Pointer | None, data: bytes) -> bool:
        """Whether what has the name is, as far as is known, the table that comes back."""
        if old is None:
            return True
        try:
            storage, key = self._stores.resolve(old.metadata_location)
            document = old.document or parse_metadata(storage.read(key))
        except BcnError:
            return True  # it is lost
        return bool(document.get("table-uuid") == parse_metadata(data).get("table-uuid"))

    def _find_there(self, name: TableId) -> Pointer | None:
        """The table of a name, if the catalog knows where it is."""
        try:
            found = self._catalog.find_pointer(name)
        except CatalogError:
            return None  # told when the name is checked
        is_table = found is not None and found.kind == TABLE and found.metadata_location
        return found if is_table else None

    # whether it is free

    def _check_free(self, items: Sequence[Item]) -> None:
        """Raises TargetExistsError that names everything that is in the way."""
        self._recognise(items)
        todo = [item for item in items if not item.is_back]
        check_beside(item.target for item in todo)
        taken = _refusals(todo, self._check_name)
        if len(taken) > 1:
            names = ", ".join(str(item.target.table) for item, _ in taken)
            raise TargetExistsError(
                f"{len(taken)} of {len(items)} exist in catalog {self._catalog.name!r}: {names}",
                hint=_SEVERAL,
            )
        taken += [] if taken else _refusals(todo, lambda item: item.marker.check_empty())
        if taken:
            text = "; ".join(str(error) for _, error in taken)
            hint = _SEVERAL if len(items) > 1 else taken[0][1].hint
            raise TargetExistsError(text, hint=hint)

    def _pointers(self) -> list[Pointer]:
        """All that the target holds; a catalog that is not there yet holds nothing."""
        try:
            return list(self._catalog.iter_pointers())
        except CatalogError:
            return []

    def _check_name(self, item: Item) -> None:
        target = item.target
        if target.replaces is not None:
            self._catalog.check_replace(target.table)
        try:
            self._catalog.check_target(target.table, target.location)
        except TargetExistsError as error:
            if self._request.overwrite and target.replaces is None:
                raise TargetExistsError(str(error), hint=_NOT_REPLACED) from None
            if target.replaces is None:
                raise

    def _recognise(self, items: Sequence[Item]) -> None:
        """Find what an earlier run registered before it was stopped.

        Markers go when all is registered. So if one is left and all is there, nothing is to be
        done but to remove it.
        """
        for item in items:
            item.is_back = item.marker.is_ours() and self._is_there(item)
            item.replaced = item.marker.replaced() if item.is_back else None
        if any(item.is_back for item in items):
            found = [item.is_back or self._is_there(item) for item in items]
            for item in items if all(found) else ():
                item.is_back = True

    def _is_there(self, item: Item) -> bool:
        replaced = item.marker.replaced()
        return find_registered(self._catalog, item.target, replaced) is not None


def _is_still_view(item: Item) -> bool:
    return item.target.record.type == VIEW and item.target.moves.is_identity


def _gaps(target: Target) -> list[str]:
    notes, entry = [], target.entry
    if entry.damaged:
        notes.append(
            f"{target.table} has {len(entry.damaged)} damaged snapshots: files were missing"
        )
    if entry.covered is not None:
        notes.append(
            f"{target.table} has {len(entry.covered)} snapshots of its history and no more:"
            f" it was backed up with --history {entry.history}"
        )
    return notes


_NOT_REPLACED = (
    "--overwrite replaces tables of Iceberg whose metadata file the catalog names, nothing else"
)
_SEVERAL = (
    "leave them out with --exclude, restore beside them with --target-database, or put these in"
    " the place of tables with --overwrite"
)


def _refusals(
    items: Iterable[Item], check: Callable[[Item], None]
) -> list[tuple[Item, TargetExistsError]]:
    refused = []
    for item in items:
        try:
            check(item)
        except TargetExistsError as error:
            refused.append((item, error))
    return refused


def _lost(text: str) -> DamagedRepositoryError:
    return DamagedRepositoryError(
        text, hint="look with 'bcn list' for an earlier PIT that holds it, and give it with --pit"
    )


def check_names(sources: Sequence[Source], names: Sequence[TableId]) -> None:
    """Raises TargetExistsError if two objects would be restored under one name."""
    by_name: dict[TableId, list[Source]] = defaultdict(list)
    for source, name in zip(sources, names, strict=True):
        by_name[name].append(source)
    clashes = {name: held for name, held in by_name.items() if len(held) > 1}
    if not clashes:
        return
    texts = [f"{name} would be {_enumerate(held)}" for name, held in clashes.items()]
    gone = [item for held in clashes.values() for item in held if item.deleted_at is not None]
    hint = "choose fewer tables, or another name for each"
    if gone:
        first = gone[0]
        hint = (
            f"leave it out with --exclude {first.record.object_id}, or restore it alone:"
            f" --pit {first.pit.pit} --table {first.record.object_id} --target-table NAME"
        )
    raise TargetExistsError("; ".join(texts), hint=hint)


def _enumerate(sources: Sequence[Source]) -> str:
    return " and ".join(_describe(source) for source in sources)


def _describe(source: Source) -> str:
    if source.deleted_at is None:
        return f"{source.record.table} of PIT {source.pit.pit}"
    return (
        f"{source.record.table} (object {source.record.object_id}) of PIT {source.pit.pit},"
        f" deleted by {source.deleted_at}"
    )
