"""Documents that repeat PITs: a backup's small changes give what all PITs together say."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bcn.backup.plan import deleted_namespaces, deletions, renames
from bcn.model import Json, PitId, TableId, sha256
from bcn.repository import layout
from bcn.repository.derived import entry_finder, index_bytes, load_history
from bcn.repository.document import render_document
from bcn.repository.entry import Entry, Layer, LayerPart, render_entry
from bcn.repository.pit import EntryRef, Namespace, ObjectRecord, PitManifest, render_pit
from bcn.repository.refresh import write_derived
from bcn.repository.repository import Repository, Scope, create_repository, open_repository
from bcn.storage.local import LocalStorage
from bcn.storage.protocol import StorageSpec

START = datetime(2026, 8, 20, tzinfo=UTC)
PROPERTIES = {"type": "sql"}


@dataclass
class Life:
    """A catalog over time, whose PITs are real documents: objects by id, databases by name."""

    repository: Repository
    objects: dict[str, tuple[TableId, int]] = field(default_factory=dict)
    databases: dict[str, str] = field(default_factory=lambda: {"a": "1"})
    pits: list[PitManifest] = field(default_factory=list)
    entries: dict[str, tuple[Entry, EntryRef, int]] = field(default_factory=dict)

    # what happens in the source

    def put(self, object_id: str, name: str) -> None:
        """Make, rename or change a table; a name that is taken changes its owner."""
        table = TableId.parse(name)
        self.objects = {key: item for key, item in self.objects.items() if item[0] != table}
        version = self.objects.get(object_id, (table, self.entries.get(object_id, (0, 0, 0))[2]))[1]
        self.objects[object_id] = (table, version + 1)
        self.databases.setdefault(table.database, "1")

    def rename(self, object_id: str, name: str) -> None:
        if object_id in self.objects:
            table = TableId.parse(name)
            self.objects = {key: item for key, item in self.objects.items() if item[0] != table}
            self.databases.setdefault(table.database, "1")
        if object_id in self.objects:
            self.objects[object_id] = (TableId.parse(name), self.objects[object_id][1])

    def drop(self, object_id: str) -> None:
        self.objects.pop(object_id, None)

    def drop_database(self, name: str) -> None:
        self.databases.pop(name, None)
        kept = self.objects.items()
        self.objects = {key: item for key, item in kept if item[0].database != name}

    def set_database(self, name: str, value: str) -> None:
        self.databases[name] = value

    # a backup

    def backup(self, *, is_cut: bool = False) -> PitManifest:
        """A PIT; a run that is cut ends right after publishing it."""
        parent = self.pits[-1] if self.pits else None
        pit = PitId.of(START + timedelta(hours=len(self.pits)))
        made: list[Entry] = []
        records = [self._record(key, pit, made) for key in self.objects]
        records.sort(key=lambda item: item.table)
        namespaces = tuple(
            Namespace((name,), {"p": value}) for name, value in sorted(self.databases.items())
        )
        manifest = PitManifest(
            pit=pit,
            pit_uuid="8b1f7f5e-0000-4000-8000-000000000000",
            parent=parent.pit if parent else None,
            captured_at="2026-08-20T10:15:30.500000Z",
            repository=self.repository.identity(),
            consistency={},
            bcn_version="0",
            objects=tuple(records),
            namespaces=namespaces,
            deleted=deletions(parent, {item.object_id for item in records}, pit),
            deleted_namespaces=deleted_namespaces(parent, namespaces),
            renamed=renames(parent, records),
        )
        data = render_document(render_pit(manifest))
        self.repository.storage.write_once(self.repository.pit_key(pit), data)
        self.pits.append(manifest)
        if not is_cut:
            write_derived(self.repository, manifest, parent, PROPERTIES, made)
        return manifest

    def _record(self, object_id: str, pit: PitId, made: list[Entry]) -> ObjectRecord:
        table, version = self.objects[object_id]
        known = self.entries.get(object_id)
        held = self.pits and object_id in {item.object_id for item in self.pits[-1].objects}
        if known is None or known[2] != version or not held:
            entry = make_entry(object_id, table, pit, version)
            made.append(entry)
            known = (entry, self._save(entry), version)
            self.entries[object_id] = known
        entry, ref, _ = known
        return ObjectRecord(object_id, "table", table, "X", ref, "/m", "1", "0" * 64, 1, 1, 1)

    def _save(self, entry: Entry) -> EntryRef:
        key = layout.entry_key("prod", entry.table, entry.pit)
        data = render_document(render_entry(entry))
        self.repository.storage.write_once(key, data)
        return EntryRef(key, sha256(data), len(data))

    # what is stored

    @property
    def folder(self) -> Path:
        return Path(self.repository.spec.location)

    def document(self, pattern: str) -> Any:
        (path,) = self.folder.glob(f"catalogs/prod/{pattern}")
        return json.loads(path.read_text())

    def stored(self) -> dict[str, bytes]:
        storage = self.repository.storage
        keys = [key for key in storage.iter_keys("catalogs/") if layout.is_derived_key(key)]
        return {key: storage.read(key) for key in [*keys, layout.pits_index_key("prod")]}

    def expected(self) -> dict[str, bytes]:
        """From PITs alone; but for the catalog's document, which they do not repeat."""
        history = load_history(self.repository)
        found = dict(history.documents("prod", entry_finder(self.repository, {})))
        key = layout.catalog_metadata_key("prod")
        found[key] = {"version": "1", "name": "prod", "properties": PROPERTIES}
        documents = {key: render_document(document) for key, document in found.items()}
        return {**documents, layout.pits_index_key("prod"): index_bytes(history.lines)}


def make_entry(object_id: str, table: TableId, pit: PitId, version: int) -> Entry:
    part = LayerPart("layer", "0" * 64, 1, version)
    return Entry(
        object_id=object_id,
        type="table",
        uuid=object_id,
        table=table,
        pit=pit,
        metadata_location="/m",
        metadata_key="data/m",
        metadata_sha256="0" * 64,
        metadata_version="1",
        roots=(),
        layers=(Layer("full", pit, (part,)),),
        files=1,
        size_bytes=version,
        damaged=(),
        table_facts={"format_version": 2, "schemas": [0, version]},
    )


def open_life(folder: Path) -> Life:
    spec = StorageSpec(str(folder))
    create_repository(spec, Scope("prod"), START)
    return Life(open_repository(spec))


@pytest.fixture
def life(tmp_path: Path) -> Life:
    return open_life(tmp_path / "repository")


# single documents


def test_a_table_has_a_document_with_its_names_versions_and_layers(life: Life) -> None:
    life.put("x", "a.t")
    first = life.backup()
    life.rename("x", "b.u")
    second = life.backup()
    assert life.document("databases/b/u/table_manifest.json") == {
        "version": "1",
        "name": "b.u",
        "object_id": "x",
        "type": "table",
        "uuid": "x",
        "as_of": str(first.pit),
        "names": [
            {"name": "a.t", "since_pit": str(first.pit)},
            {"name": "b.u", "since_pit": str(second.pit)},
        ],
        "format_version": 2,
        "schemas": [0, 1],
        "layers": [{"kind": "full", "pit": str(first.pit), "rows": 1}],
        "totals": {"files": 1, "bytes": 1},
    }
    assert not (life.folder / "catalogs/prod/databases/a/t/table_manifest.json").exists()


def test_deleted_tables_are_listed_until_they_come_back(life: Life) -> None:
    life.put("x", "a.t")
    life.put("y", "a.u")
    first = life.backup()
    life.drop("x")
    second = life.backup()
    life.backup()
    assert life.document("databases/a/.deleted_tables.json")["deleted_tables"] == [
        {
            "name": "t",
            "database": "a",
            "deleted_at": second.pit.moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "last_pit_included": str(first.pit),
            "source_object_id": "x",
        }
    ]
    life.put("x", "a.v")
    life.backup()
    assert not list(life.folder.rglob(".deleted_tables.json"))
    names = life.document("databases/a/v/table_manifest.json")["names"]
    assert [item["name"] for item in names] == ["a.t", "a.v"]


def test_deleted_databases_say_when_they_went_and_who_has_them_last(life: Life) -> None:
    life.set_database("b", "1")
    life.set_database("c", "1")
    first = life.backup()
    life.drop_database("b")
    second = life.backup()
    life.drop_database("c")
    third = life.backup()
    life.backup()
    items = life.document("databases/.deleted_databases.json")["deleted_databases"]
    assert [(item["name"], item["last_pit_included"]) for item in items] == [
        ("b", str(first.pit)),
        ("c", str(second.pit)),
    ]
    assert [item["deleted_at"][11:13] for item in items] == ["01", "02"]
    assert third.deleted_namespaces == ("b", "c")
    life.set_database("b", "2")
    life.set_database("c", "2")
    life.backup()
    assert not list(life.folder.rglob(".deleted_databases.json"))
    assert life.document("databases/b/database_metadata.json")["properties"] == {"p": "2"}


def test_a_database_whose_last_pit_was_removed_is_still_listed(life: Life) -> None:
    life.set_database("b", "1")
    first = life.backup()
    life.drop_database("b")
    life.backup()
    life.repository.storage.delete(life.repository.pit_key(first.pit))
    (gone,) = load_history(life.repository).gone.values()
    assert (gone.name, gone.last_pit) == ("b", None)


def test_the_index_has_a_line_for_each_pit_that_can_be_read(life: Life) -> None:
    pits = [life.backup() for _ in range(3)]
    path = Path(life.repository.spec.location, life.repository.pit_key(pits[1].pit))
    path.write_bytes(b"{}")
    (life.folder / "catalogs/prod/pits.jsonl").write_text("nonsense")
    life.backup()
    lines = (life.folder / "catalogs/prod/pits.jsonl").read_text().splitlines()
    listed = [json.loads(line)["pit"] for line in lines]
    assert listed == [str(item.pit) for item in life.pits if item.pit != pits[1].pit]


# the cost


def test_a_backup_reads_and_writes_only_documents_of_what_changed(
    life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(30):
        life.put(f"t{number}", f"a.t{number}")
    life.backup()
    before = stamps(life.folder)
    life.put("t3", "a.t3")
    life.rename("t4", "a.moved")
    reads: list[str] = []
    real = LocalStorage.read
    note = lambda storage, key: (reads.append(key), real(storage, key))[1]  # noqa: E731  short
    monkeypatch.setattr(LocalStorage, "read", note)
    life.backup()
    assert len([key for key in reads if key.endswith("table_manifest.json")]) <= 5
    assert len(reads) <= 12
    changed = {name for name, stamp in stamps(life.folder).items() if before.get(name) != stamp}
    derived = {name for name in changed if "/entries/" not in name and "pit_manifests" not in name}
    assert derived == {
        "manifest.json",
        "catalogs/prod/pits.jsonl",
        "catalogs/prod/databases/a/t3/table_manifest.json",
        "catalogs/prod/databases/a/moved/table_manifest.json",
    }


def stamps(folder: Path) -> dict[str, int]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in files}


# after a run that ended too early


def test_what_a_cut_run_did_not_write_is_written_by_the_next(life: Life) -> None:
    life.put("x", "a.t")
    life.put("y", "a.gone")
    life.set_database("b", "1")
    life.backup()
    life.rename("x", "a.u")
    life.drop("y")
    life.drop_database("b")
    life.backup(is_cut=True)
    assert life.stored() != life.expected()
    life.backup()
    assert life.stored() == life.expected()
    assert len(life.document("databases/a/.deleted_tables.json")["deleted_tables"]) == 1


@pytest.mark.parametrize("junk", [b"", b"null", b"\xff", b'{"version": "1"}', b"[" * 100_000])
def test_garbage_in_a_document_does_not_stop_a_backup_or_lose_names(
    life: Life, junk: bytes
) -> None:
    life.put("x", "a.t")
    life.set_database("b", "1")
    life.backup()
    life.rename("x", "a.u")
    life.drop_database("b")
    life.backup()
    for path in life.folder.glob("catalogs/prod/**/*.json*"):
        if not path.match("*/pit_manifests/*/*") and not path.match("*/entries/*"):
            path.write_bytes(junk)
    life.put("x", "a.u")
    life.set_database("c", "1")
    life.backup()
    life.drop_database("c")
    life.backup()
    names = life.document("databases/a/u/table_manifest.json")["names"]
    assert [item["name"] for item in names] == ["a.t", "a.u"]
    items = life.document("databases/.deleted_databases.json")["deleted_databases"]
    assert [item["name"] for item in items] == ["b", "c"]
    assert life.stored()[layout.pits_index_key("prod")] == index_bytes(
        load_history(life.repository).lines
    )


def test_a_table_whose_entry_is_damaged_keeps_its_document(life: Life) -> None:
    life.put("x", "a.t")
    life.backup()
    life.rename("x", "a.u")
    path = Path(life.repository.spec.location, life.entries["x"][1].key)
    path.write_bytes(b"{}")
    life.backup()
    assert life.document("databases/a/t/table_manifest.json")["name"] == "a.t"


# any life


IDS, NAMES, DATABASES = ("x", "y", "z"), ("a.t", "a.u", "b.t"), ("a", "b")
STEPS = st.one_of(
    st.tuples(st.just("put"), st.sampled_from(IDS), st.sampled_from(NAMES)),
    st.tuples(st.just("rename"), st.sampled_from(IDS), st.sampled_from(NAMES)),
    st.tuples(st.just("drop"), st.sampled_from(IDS)),
    st.tuples(st.just("drop_database"), st.sampled_from(DATABASES)),
    st.tuples(st.just("set_database"), st.sampled_from(DATABASES), st.sampled_from("12")),
)


@pytest.mark.long
@settings(max_examples=120)
@given(st.lists(st.tuples(st.lists(STEPS, max_size=4), st.booleans()), min_size=1, max_size=7))
def test_small_changes_give_what_all_pits_say(
    rounds: Sequence[tuple[Sequence[tuple[str, ...]], bool]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        life = open_life(Path(folder) / "repository")
        for steps, is_cut in rounds:
            for name, *arguments in steps:
                step: Callable[..., None] = getattr(life, name)
                step(*arguments)
            life.backup(is_cut=is_cut)
            if not is_cut:
                assert life.stored() == life.expected()
                assert life.repository.document["last_pit"] == str(life.pits[-1].pit)


def test_the_comparison_can_fail(life: Life) -> None:
    life.put("x", "a.t")
    pit = life.backup()
    other = replace(pit, namespaces=(Namespace(("a",), {"p": "other"}),))
    data: Json = render_pit(other)
    Path(life.folder, life.repository.pit_key(pit.pit)).write_bytes(render_document(data))
    assert life.stored() != life.expected()
