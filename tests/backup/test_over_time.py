"""Backups of tables that change: what is copied, what is kept, what is noticed."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from bcn.errors import (
    MassDeletionError,
    MissingSourceFileError,
    OverlapError,
    ScopeMismatchError,
)
from bcn.model import sha256
from bcn.repository.repository import Scope
from tests.support.place import Place
from tests.support.shapes import events
from tests.support.shapes.events import build_history

pytestmark = pytest.mark.spark

TABLE = "shapes.t"


def statuses(report: object) -> dict[str, str]:
    return {str(item.table): item.status for item in report.objects}  # type: ignore[attr-defined]


def test_one_append_copies_only_what_is_new_and_decodes_one_manifest(place: Place) -> None:
    build_history(place.world, TABLE)
    place.product.backup(place.scope)
    before = place.stored_files()
    events.append(place.world, TABLE)
    report = place.product.backup()
    assert statuses(report) == {"shapes.t": "CHANGED"}
    assert report.manifests_decoded == 1
    assert (report.files_copied, report.objects[0].files_new) == (
        4,
        4,
    )  # data, manifest, list, metadata
    new = {name for name in place.stored_files() - before if name.startswith("data/")}
    assert sorted(name.rsplit(".", 1)[1] for name in new) == ["avro", "avro", "json", "parquet"]


def test_every_pit_gives_the_rows_of_its_own_moment(place: Place) -> None:
    build_history(place.world, TABLE)
    expected = []
    for step in (events.append, events.compact, events.expire):
        first = place.product.backup(place.scope if not expected else None)
        expected.append((first.pit, place.rows(TABLE)))
        step(place.world, TABLE)
    last = place.product.backup()
    expected.append((last.pit, place.rows(TABLE)))
    shutil.rmtree(place.world.warehouse)
    for number, (pit, rows) in enumerate(expected):
        report = place.product.restore(pit, target_catalog=place.target, target_table=f"t{number}")
        assert place.restored_rows(report) == rows


def test_a_pit_is_whole_after_all_others_were_removed_by_hand(place: Place) -> None:
    build_history(place.world, TABLE)
    pits = [place.product.backup(place.scope).pit]
    for _ in range(2):
        events.append(place.world, TABLE)
        pits.append(place.product.backup().pit)
    rows = place.rows(TABLE)
    folder = place.product.location / "catalogs" / place.world.catalog / "pit_manifests"
    for pit in pits[:2]:
        shutil.rmtree(folder / str(pit))
    shutil.rmtree(place.world.warehouse)
    report = place.product.restore(pits[2], target_catalog=place.target)
    assert place.restored_rows(report) == rows


def test_a_renamed_table_is_known_by_its_uuid_and_copied_no_more(place: Place) -> None:
    build_history(place.world, TABLE)
    first = place.product.backup(place.scope)
    events.rename(place.world, TABLE, "shapes.renamed")
    report = place.product.backup()
    assert statuses(report) == {"shapes.renamed": "RENAMED"}
    assert report.objects[0].object_id == first.objects[0].object_id
    assert report.files_copied == 0
    events.append(place.world, "shapes.renamed")
    events.rename(place.world, "shapes.renamed", "shapes.again")
    report = place.product.backup()
    assert statuses(report) == {"shapes.again": "RENAMED"}
    assert report.files_copied == 4
    rows = place.rows("shapes.again")
    restored = place.product.restore(target_catalog=place.target)
    assert place.restored_rows(restored) == rows


def test_a_table_repository_follows_its_table_to_a_new_name(place: Place) -> None:
    build_history(place.world, TABLE)
    place.product.backup(Scope(place.world.catalog, ("shapes",), "t"))
    events.rename(place.world, TABLE, "shapes.elsewhere")
    events.append(place.world, "shapes.elsewhere")
    report = place.product.backup()
    assert statuses(report) == {"shapes.elsewhere": "RENAMED"}


def test_a_table_dropped_and_made_again_at_the_same_path_is_another_object(place: Place) -> None:
    world = place.world
    events._create_plain(world, TABLE, world.hadoop_catalog)
    name = world.name(TABLE, world.hadoop_catalog)
    world.sql(f"INSERT INTO {name} {events.numbered(1, 6)}")
    first = place.product.backup(Scope(world.hadoop_catalog))
    old = world.sql(f"SELECT count(*) AS n FROM {name}")[0].n
    world.sql(f"DROP TABLE {name}")
    events._create_plain(world, TABLE, world.hadoop_catalog)
    world.sql(f"INSERT INTO {name} {events.numbered(501, 504)}")
    second = place.product.backup(accept_deletions=True)
    assert second.objects[0].object_id != first.objects[0].object_id
    assert [str(item.table) for item in second.deleted] == ["shapes.t"]
    shutil.rmtree(world.hadoop_warehouse)
    for pit, rows in ((first.pit, old), (second.pit, 4)):
        report = place.product.restore(pit, target_catalog=place.target, target_table=f"t{rows}")
        count = place.restored_rows(report)["current"][0]
        assert count == rows


def test_a_missing_live_file_fails_the_table_and_names_it_and_its_snapshots(place: Place) -> None:
    build_history(place.world, TABLE)
    lost = events.delete_live_file(place.world, TABLE)
    newest = place.world.tree(TABLE).document["current-snapshot-id"]
    with pytest.raises(MissingSourceFileError) as failure:
        place.product.backup(place.scope)
    assert lost in str(failure.value)
    assert str(newest) in str(failure.value)
    assert place.product.repository.pit_ids() == []


def test_a_damaged_table_among_others_keeps_its_last_good_version(place: Place) -> None:
    build_history(place.world, TABLE)
    build_history(place.world, "shapes.other")
    first = place.product.backup(place.scope)
    good = place.rows(TABLE)
    events.append(place.world, TABLE)
    events.append(place.world, "shapes.other")
    events.delete_live_file(place.world, TABLE)
    report = place.product.backup()
    assert statuses(report) == {"shapes.t": "FAILED", "shapes.other": "CHANGED"}
    assert [item.kept_pit for item in report.failed] == [first.pit]
    third = place.product.backup()
    assert [item.kept_pit for item in third.failed] == [first.pit]
    shutil.rmtree(place.world.warehouse)
    restored = place.product.restore(tables=("t",), target_catalog=place.target)
    assert place.restored_rows(restored) == good


@pytest.mark.parametrize("damage", ["data", "manifest", "list"])
def test_skipping_damage_records_it_and_keeps_the_other_snapshots(
    place: Place, damage: str
) -> None:
    build_history(place.world, TABLE)
    rows = place.rows(TABLE)
    tree = place.world.tree(TABLE)
    if damage == "data":
        lost = events.delete_live_file(place.world, TABLE, newest=False)
        kept = None
    elif damage == "manifest":
        lost = events.delete_manifest(place.world, TABLE)
        kept = tree.snapshots[0]["snapshot-id"]
    else:
        lost = events.delete_manifest_list(place.world, TABLE, 1)
        kept = tree.snapshots[0]["snapshot-id"]
    report = place.product.backup(place.scope, skip_damaged=True)
    record = place.product.repository.find_newest().objects[0]  # type: ignore[union-attr]
    entry = place.product.repository.load_entry(record.entry)
    assert report.objects[0].damaged == len(entry.damaged) > 0
    assert all(lost in item["files"] for item in entry.damaged)
    restored = place.product.restore(target_catalog=place.target)
    assert restored.tables[0].damaged_snapshots == len(entry.damaged)
    if kept is not None:
        name = f"`{place.target}`.shapes.t"
        count = place.world.spark.sql(f"SELECT * FROM {name} VERSION AS OF {kept}").count()
        assert count == rows[f"snapshot:{kept}"][0]


def test_damage_that_was_mended_is_gone_from_the_next_pit(place: Place) -> None:
    build_history(place.world, TABLE)
    rows = place.rows(TABLE)
    tree = place.world.tree(TABLE)
    lost = next(e.path for e in tree.iter_entries() if e.is_live and e.content == 0)
    hidden = place.folder / "hidden"
    tree.file(lost).rename(hidden)
    first = place.product.backup(place.scope, skip_damaged=True)
    assert first.objects[0].damaged > 0
    hidden.rename(tree.file(lost))
    second = place.product.backup()
    assert (second.objects[0].status, second.objects[0].damaged) == ("CHANGED", 0)
    shutil.rmtree(place.world.warehouse)
    restored = place.product.restore(target_catalog=place.target)
    assert place.restored_rows(restored) == rows


def test_a_table_that_moved_on_while_it_was_read_is_read_again(place: Place) -> None:
    """The capture is stale by the time files are read: its manifests were compacted and expired."""
    build_history(place.world, TABLE)
    product, name = place.product, place.world.catalog
    stale = list(product.open(name).iter_pointers())
    events.compact(place.world, TABLE)
    events.expire(place.world, TABLE)
    rows = place.rows(TABLE)
    real_open = product.open

    class Stale:
        """The real catalog, but for a first answer that is out of date."""

        def __init__(self) -> None:
            self._real = real_open(name)

        def __getattr__(self, attribute: str) -> object:
            return getattr(self._real, attribute)

        def iter_pointers(self, namespace: object = None) -> object:
            return iter(stale)

    product.open = lambda _: Stale()  # type: ignore[method-assign,assignment,return-value]
    report = product.backup(place.scope)
    del product.open
    assert report.failed == ()
    restored = product.restore(target_catalog=place.target)
    assert place.restored_rows(restored) == rows


def test_a_backup_beside_busy_writers_is_of_one_moment(place: Place) -> None:
    build_history(place.world, TABLE)
    place.product.backup(place.scope)
    with events.busy_writer(place.world, TABLE, rounds=2):
        report = place.product.backup()
    assert report.failed == ()
    restored = place.product.restore(report.pit, target_catalog=place.target)
    rows = place.restored_rows(restored)
    name = f"`{place.target}`.shapes.t"
    summaries = place.world.spark.sql(
        f"SELECT snapshot_id, summary['total-records'] AS n FROM {name}.snapshots"
    ).collect()
    assert summaries
    for row in summaries:  # one row of the first file is deleted until it is compacted away
        assert int(row.n) - rows[f"snapshot:{row.snapshot_id}"][0] in {0, 1}


def test_when_everything_seems_gone_the_backup_refuses_unless_told(place: Place) -> None:
    build_history(place.world, TABLE)
    place.product.backup(place.scope)
    before = place.stored_files()
    events.drop(place.world, TABLE)
    with pytest.raises(MassDeletionError):
        place.product.backup()
    published = {name for name in place.stored_files() - before if "leases" not in name}
    assert published == set()
    report = place.product.backup(accept_deletions=True)
    assert [str(item.table) for item in report.deleted] == ["shapes.t"]
    assert report.objects == ()


def test_another_scope_is_refused(place: Place) -> None:
    build_history(place.world, TABLE)
    place.product.backup(Scope(place.world.catalog, ("shapes",)))
    for scope in (place.scope, Scope(place.world.catalog, ("shapes",), "t")):
        with pytest.raises(ScopeMismatchError):
            place.product.backup(scope)


def test_a_repository_and_a_warehouse_may_not_lie_in_each_other(place: Place) -> None:
    build_history(place.world, TABLE)
    for location in (place.world.warehouse / "backups", place.world.folder):
        place.product.location = location
        with pytest.raises(OverlapError):
            place.product.backup(place.scope)


def test_two_names_with_one_uuid_are_two_objects(place: Place) -> None:
    build_history(place.world, TABLE)
    first = place.product.backup(place.scope)
    place.world.point_at("shapes.twin", place.world.metadata_location(TABLE))
    report = place.product.backup()
    ids = {str(item.table): item.object_id for item in report.objects}
    assert ids["shapes.t"] == first.objects[0].object_id
    assert ids["shapes.twin"].startswith("n-")
    assert any("shapes.twin" in text for text in report.warnings)
    restored = place.product.restore(tables=("twin",), target_catalog=place.target)
    assert place.restored_rows(restored) == place.rows(TABLE)


def test_many_deltas_become_one_full_layer_again(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bcn.backup.work.MAX_LAYERS", 2)
    build_history(place.world, TABLE)
    kinds = []
    for number in range(4):
        place.product.backup(place.scope)
        record = place.product.repository.find_newest().objects[0]  # type: ignore[union-attr]
        entry = place.product.repository.load_entry(record.entry)
        kinds.append([layer.kind for layer in entry.layers])
        assert entry.files == record.files
        if number == 1:
            events.compact(place.world, TABLE)
        else:
            events.append(place.world, TABLE, 2000 + 10 * number, 2003 + 10 * number)
    assert kinds == [["full"], ["full", "delta"], ["full"], ["full", "delta"]]
    place.product.backup()
    rows = place.rows(TABLE)
    shutil.rmtree(place.world.warehouse)
    restored = place.product.restore(target_catalog=place.target)
    assert place.restored_rows(restored) == rows


def test_a_large_table_is_handled_in_slots(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bcn.backup.round.ROWS_PER_GROUP", 5)
    monkeypatch.setattr("bcn.backup.round.SMALL_ENTRIES", 0)
    monkeypatch.setattr("bcn.backup.round.SMALL_LISTS", 0)
    monkeypatch.setattr("bcn.restore.run.ROWS_PER_GROUP", 5)
    monkeypatch.setattr("bcn.restore.run.SMALL_ROWS", 0)
    build_history(place.world, TABLE)
    build_history(place.world, "shapes.small")
    place.product.backup(place.scope)
    events.append(place.world, TABLE)
    events.compact(place.world, TABLE)
    place.product.backup()
    record = next(
        item
        for item in place.product.repository.find_newest().objects  # type: ignore[union-attr]
        if item.table.name == "t"
    )
    entry = place.product.repository.load_entry(record.entry)
    assert all(len(layer.parts) > 1 for layer in entry.layers)
    expected = {name: place.rows(f"shapes.{name}") for name in ("small", "t")}
    shutil.rmtree(place.world.warehouse)
    restored = place.product.restore(target_catalog=place.target)
    assert place.restored_rows(restored, 0) == expected["small"]
    assert place.restored_rows(restored, 1) == expected["t"]


def test_a_path_used_again_with_other_bytes_is_stored_again_and_wins(place: Place) -> None:
    """Tables that import files meet this; two manifests name the path, the source has one file."""
    world, imported = place.world, place.world.external / "imported"

    def import_rows(count: int) -> None:
        made = place.folder / f"made{count}"
        world.spark.range(count).coalesce(1).write.parquet(str(made))
        imported.mkdir(exist_ok=True)
        shutil.copy(next(made.glob("*.parquet")), imported / "part-0.parquet")
        world.sql(
            f"CALL {world.catalog}.system.add_files(table => '{TABLE}', source_table =>"
            f" '`parquet`.`{imported}`', check_duplicate_files => false)"
        )

    world.sql(f"CREATE TABLE {world.name(TABLE)} (id bigint) USING iceberg")
    import_rows(3)
    place.product.backup(place.scope)
    world.sql(f"DELETE FROM {world.name(TABLE)}")
    import_rows(500)
    place.product.backup()
    keys = sorted(name for name in place.stored_files() if "part-0.parquet" in name)
    assert len(keys) == 2
    assert "%%" in keys[1]
    world.folder.rename(place.folder / "away")
    newest = place.product.restore(target_catalog=place.target, target_table="newest")
    oldest = place.product.restore(
        place.product.repository.pit_ids()[0], target_catalog=place.target, target_table="oldest"
    )
    for report, count in ((newest, 500), (oldest, 3)):
        name = f"`{place.target}`.shapes.{report.tables[0].name}"
        assert world.spark.sql(f"SELECT * FROM {name}").count() == count


def test_metadata_that_is_replaced_while_the_table_is_read_is_read_again(place: Place) -> None:
    build_history(place.world, TABLE)
    path = place.world.tree(TABLE).file(place.world.metadata_location(TABLE))
    engine = place.product.engine
    real_run, replaced = engine.run, []

    def replace_once(function: Any, tasks: Any) -> Any:
        if not replaced:
            replaced.append(path.write_bytes(path.read_bytes() + b" "))
        return real_run(function, tasks)

    engine.run = replace_once  # type: ignore[method-assign]
    place.product.backup(place.scope)
    record = place.product.repository.find_newest().objects[0]  # type: ignore[union-attr]
    assert record.metadata_sha256 == sha256(path.read_bytes())
    restored = place.product.restore(target_catalog=place.target)
    assert restored.tables[0].snapshots == 4
