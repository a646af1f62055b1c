"""What a backup must read again, must not read again, must hash, and must refuse: small tables."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bcn.catalog.protocol import CatalogSettings
from bcn.engine import handful
from bcn.engine.handful import Handful
from bcn.errors import (
    LeaseLostError,
    MassDeletionError,
    MissingSourceFileError,
    OverlapError,
    UnsupportedTableError,
)
from bcn.model import PitId, TableId
from bcn.repository import layout
from bcn.repository.lease import find_held_lease
from bcn.storage.local import LocalStorage
from tests.support.compare.avro import AvroFile
from tests.support.product import digest_tree
from tests.support.small import (
    SOURCE,
    AtPhase,
    SmallPlace,
    SmallTable,
    Wrapped,
    open_small,
)


@pytest.fixture(params=[False, True], ids=["one by one", "by the handful"])
def small(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> SmallPlace:
    """A place whose small files are copied so."""
    monkeypatch.setattr(handful, "_WORTH_FILES", 1 if request.param else 1_000_000)
    return open_small(tmp_path)


def _rename_owner(document: dict[str, Any]) -> None:
    document["properties"]["owner"] = "another"  # as long as it was


def _roll_back(document: dict[str, Any]) -> None:
    """To the first snapshot; the second one is expired."""
    del document["snapshots"][1], document["snapshot-log"][1]
    document["current-snapshot-id"] = document["snapshots"][0]["snapshot-id"]
    document["refs"]["main"]["snapshot-id"] = document["current-snapshot-id"]
    document["statistics"] = []


def _owner(report: Any) -> str:
    location = Path(report.tables[0].metadata_location)
    return SmallTable("", location).document["properties"]["owner"]


def test_files_are_copied_as_they_should_be(
    small: SmallPlace, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied: list[bool] = []
    copy = Handful.copy

    def watch(*arguments: Any) -> list[Any]:
        found = copy(*arguments)
        copied.extend(item is not None for item in found)
        return found

    monkeypatch.setattr(Handful, "copy", watch)
    table = small.add()
    report = small.backup()
    by_handful = "by the handful" in request.node.name
    assert copied == [True] * report.files_copied * by_handful
    small.move_source_away()
    assert small.differences(table, small.restore()) == []


def test_a_key_that_cannot_be_looked_at_fails_its_table_alone(small: SmallPlace) -> None:
    small.add(name="first")
    table = small.add(name="second")
    small.backup()
    small.commit(table, _rename_owner, "second")
    folder = Path(small.product.spec.location, "data", table.document["table-uuid"])
    folder.rename(folder.with_name("away"))
    folder.symlink_to(folder.name)  # to itself
    report = small.backup()
    assert [item.table.name for item in report.failed] == ["second"]
    assert "symbolic links" in report.failed[0].message


# what is read again


def test_a_manifest_that_is_known_is_not_decoded_again(small: SmallPlace) -> None:
    table = small.add(2)
    assert small.backup().manifests_decoded == 2
    small.commit(table, _rename_owner)
    report = small.backup()
    assert (report.manifests_decoded, report.files_copied) == (0, 1)
    assert small.differences(table, small.restore()) == []


def test_a_manifest_of_another_length_at_a_known_path_is_another_manifest(
    small: SmallPlace,
) -> None:
    """The length in the manifest list tells; its bytes get a key of their own."""
    table = small.add(2)
    first = small.backup().pit
    original = table.path("metadata/m0.avro").read_bytes()

    def shorten(file: AvroFile) -> None:
        del file.records[1]

    table.edit_manifest(shorten)
    table.path("metadata/snap-1.avro").rename(table.path("metadata/snap-2.avro"))

    def follow(document: dict[str, Any]) -> None:
        document["snapshots"] = document["snapshots"][1:]
        document["snapshots"][0]["manifest-list"] = f"{table.root}/metadata/snap-2.avro"
        document["snapshot-log"] = document["snapshot-log"][1:]

    small.commit(table, follow)
    report = small.backup()
    assert report.manifests_decoded == 1
    assert [row["path"] for row in small.inventory() if row["kind"] == "data"] == [
        "data/f0.parquet"
    ]
    assert small.differences(table, small.restore()) == []
    assert original in [path.read_bytes() for path in small.stored("data/*/r0/metadata/m0.avro")]
    assert small.restore(pit=first, target_table="old").tables[0].snapshots == 2


def test_metadata_that_was_replaced_at_its_own_path_is_read_again(small: SmallPlace) -> None:
    """A Hadoop catalog does so; the bytes are as many, and the old PIT keeps its own."""
    table = small.add(2)
    first = small.backup().pit
    table.edit(_rename_owner)
    second = small.backup().pit
    assert len(small.stored("data/*/r0/metadata/00002-*")) == 2
    assert _owner(small.restore(pit=first, target_table="first")) == "someone"
    assert _owner(small.restore(pit=second, target_table="second")) == "another"


def test_a_table_that_stays_as_it_is_costs_nothing(small: SmallPlace) -> None:
    small.add(2)
    small.backup()
    stored = small.stored("data/**/*")
    report = small.backup()
    assert [item.status for item in report.objects] == ["UNCHANGED"]
    assert (report.files_copied, report.manifests_decoded) == (0, 0)
    assert small.stored("data/**/*") == stored


def test_files_of_a_manifest_that_is_gone_are_gone_with_it(small: SmallPlace) -> None:
    table = small.add(2)
    files = small.backup().objects[0].files
    small.commit(table, _roll_back)
    record = small.backup().objects[0]
    names = sorted(row["path"].rpartition("/")[2] for row in small.inventory())
    assert names == sorted(
        [table.metadata.name, "snap-0.avro", "m0.avro", "f0.parquet", "f1.parquet"]
    )
    assert (record.files, files) == (5, 11)
    assert small.differences(table, small.restore()) == []


@pytest.mark.parametrize("name", ["data/f0.parquet", "metadata/m0.avro"])
def test_damage_that_was_mended_is_read_again(small: SmallPlace, name: str) -> None:
    table = small.add(2)
    hidden = table.path(name).rename(small.folder / "hidden")
    assert small.backup(skip_damaged=True).objects[0].damaged == 2
    hidden.rename(table.path(name))
    record = small.backup().objects[0]
    assert (record.status, record.damaged) == ("CHANGED", 0)
    assert small.differences(table, small.restore()) == []


def test_a_missing_file_fails_the_table_and_publishes_nothing(small: SmallPlace) -> None:
    table = small.add(2)
    table.path("data/f1.parquet").unlink()
    with pytest.raises(MissingSourceFileError, match=r"f1\.parquet.*snapshots hurt"):
        small.backup()
    assert small.product.repository.pit_ids() == []


def test_a_table_that_fails_keeps_its_last_good_version(small: SmallPlace) -> None:
    table = small.add(2)
    small.add(2, "u")
    first = small.backup().pit
    table.path("data/f1.parquet").unlink()

    def lose(document: dict[str, Any]) -> None:
        _rename_owner(document)
        document["snapshots"][1]["manifest-list"] = f"{table.root}/metadata/gone.avro"

    small.commit(table, lose)
    report = small.backup()
    assert {item.table.name: item.status for item in report.objects} == {
        "t": "FAILED",
        "u": "UNCHANGED",
    }
    assert report.failed[0].kept_pit == first
    restored = small.restore(tables=("t",))
    assert _owner(restored) == "someone"
    assert Path(restored.tables[0].roots[0].new, "data/f1.parquet").exists()


def test_a_table_that_moved_on_is_read_again(small: SmallPlace) -> None:
    """What the catalog said at first is stale: one of those files is gone by now."""
    table = small.add(2)
    catalog = small.product.open(SOURCE)
    stale = list(catalog.iter_pointers())
    small.commit(table, _roll_back)
    table.path("metadata/m1.avro").unlink()
    old = Wrapped(catalog, "iter_pointers", lambda _namespace=None: iter(stale))
    report = small.backup(catalog=old)
    assert report.failed == ()
    assert small.differences(table, small.restore()) == []


def test_pointers_that_change_between_two_passes_are_read_once_more(small: SmallPlace) -> None:
    table = small.add(2)
    small.make_repository()
    catalog = small.product.open(SOURCE)
    passes = []

    def iter_pointers(namespace: Any = None) -> Any:
        passes.append(1)
        if len(passes) == 2:
            small.commit(table, _rename_owner)
        return catalog.iter_pointers(namespace)

    report = small.backup(catalog=Wrapped(catalog, "iter_pointers", iter_pointers))
    assert (report.consistency["passes"], report.consistency["exact"]) == (3, True)
    assert _owner(small.restore()) == "another"


# keys that are taken


def _leave(small: SmallPlace, table: SmallTable, data: bytes) -> Path:
    """A file at the key of f0, as a run that was killed leaves it."""
    small.make_repository()
    key = layout.data_key(table.document["table-uuid"], 0, "data/f0.parquet")
    path = small.product.location / key
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    return path


def test_what_a_killed_run_left_is_adopted_if_it_is_the_same(
    small: SmallPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And its bytes are not moved again to find that out."""
    table = small.add(2)
    left = _leave(small, table, table.path("data/f0.parquet").read_bytes())
    before = left.stat().st_mtime_ns
    begun: list[str] = []
    begin = LocalStorage.open_writer
    monkeypatch.setattr(
        LocalStorage, "open_writer", lambda self, key, _=0: begun.append(key) or begin(self, key)
    )
    report = small.backup()
    assert begun
    assert not [key for key in begun if key.endswith("f0.parquet")]
    assert report.files_adopted == 1
    assert left.stat().st_mtime_ns == before
    assert small.differences(table, small.restore()) == []


def test_what_somebody_else_left_is_never_taken_for_the_file(small: SmallPlace) -> None:
    """Even if it is as long: the file goes to a key of its own, and nothing is overwritten."""
    table = small.add(2)
    data = bytearray(table.path("data/f0.parquet").read_bytes())
    data[len(data) // 2] ^= 1
    left = _leave(small, table, bytes(data))
    report = small.backup()
    assert report.files_adopted == 0
    assert left.read_bytes() == data
    (row,) = [row for row in small.inventory() if row["path"] == "data/f0.parquet"]
    assert row["key"].endswith(f"%%{report.pit}")
    assert small.differences(table, small.restore()) == []


# publishing


def test_a_writer_that_lost_its_lease_publishes_nothing(small: SmallPlace) -> None:
    small.add(2)
    small.make_repository()
    storage = small.product.repository.storage

    def take_over() -> None:
        lease = find_held_lease(storage)
        assert lease is not None
        storage.write_once(layout.lease_key(lease.number + 1), b"{}")

    with pytest.raises(LeaseLostError):
        small.backup(progress=AtPhase("publishing", take_over))
    assert small.stored("pit_manifests/*/manifest.json") == []
    assert small.product.repository.document["last_pit"] is None
    assert small.stored("pits.jsonl") == []


def test_the_id_of_a_run_that_failed_is_not_used_again(small: SmallPlace) -> None:
    """Though the clock stands still: what the failed run wrote bears its id."""
    small.add(2)
    moment = datetime(2026, 8, 20, tzinfo=UTC)

    def fail() -> None:
        raise ConnectionError

    with pytest.raises(ConnectionError):
        small.backup(at=moment, progress=AtPhase("publishing", fail))
    assert small.backup(at=moment).pit > PitId.of(moment)


def test_all_that_a_pit_names_is_stored_before_the_pit_is(small: SmallPlace) -> None:
    small.add(2)
    before: list[Path] = []

    def look() -> None:
        before.extend(small.stored("*"))

    small.backup(progress=AtPhase("publishing", look))
    kinds = ("data/", "/entries/", "/snapshots/")
    needed = [path for path in small.stored("*") if any(kind in str(path) for kind in kinds)]
    assert needed
    assert set(needed) <= set(before)
    assert not [path for path in before if "pit_manifests" in str(path)]
    assert [path for path in small.stored("*") if "pit_manifests" in str(path)]


def test_a_backup_changes_nothing_in_the_source(small: SmallPlace) -> None:
    small.add(3)
    before = digest_tree(small.warehouse)
    small.backup()
    assert digest_tree(small.warehouse) == before


# refusals


def test_when_all_tables_seem_gone_the_backup_refuses(small: SmallPlace) -> None:
    small.add(2)
    small.backup()
    small.drop()
    with pytest.raises(MassDeletionError):
        small.backup()
    assert len(small.product.repository.pit_ids()) == 1
    assert [str(item.table) for item in small.backup(accept_deletions=True).deleted] == ["db.t"]


@pytest.mark.parametrize("place", ["source/backups", "."])
def test_a_repository_in_a_warehouse_or_around_it_is_refused(small: SmallPlace, place: str) -> None:
    small.add(2)
    small.product.location = small.folder / place
    with pytest.raises(OverlapError, match="warehouse"):
        small.backup()


def test_a_repository_in_a_table_outside_of_the_warehouse_is_refused(small: SmallPlace) -> None:
    table = small.add(2)
    settings = CatalogSettings(SOURCE, "sql", {"uri": f"sqlite:///{small.folder}/source.db"})
    small.product.catalogs = {**small.product.catalogs, SOURCE: settings}
    small.product.location = table.path("data/backups")
    with pytest.raises(OverlapError, match=r"db\.t"):
        small.backup()


def _encrypt_a_file(file: AvroFile) -> None:
    file.records[0]["data_file"]["key_metadata"] = b"key"


def test_an_encrypted_file_is_refused_and_nothing_is_published(small: SmallPlace) -> None:
    small.add(2).edit_manifest(_encrypt_a_file)
    with pytest.raises(UnsupportedTableError, match="encrypted"):
        small.backup()
    assert small.product.repository.pit_ids() == []


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("format-version", 4, "format version 4"),
        ("encryption-keys", [{"key-id": "k"}], "encrypted"),
    ],
)
def test_what_cannot_be_kept_exactly_is_refused(
    small: SmallPlace, field: str, value: Any, told: str
) -> None:
    small.add(3).edit(lambda document: document.update({field: value}))
    with pytest.raises(UnsupportedTableError, match=told):
        small.backup()
    assert small.product.repository.pit_ids() == []


def test_two_names_of_one_table_are_two_objects(small: SmallPlace) -> None:
    """Each owns its files: what one of them loses, the other keeps."""
    table = small.add(2)
    small.backup()
    small.product.open(SOURCE).register(TableId(("db",), "twin"), table.location)
    report = small.backup()
    ids = {item.table.name: item.object_id for item in report.objects}
    assert ids["t"] == table.document["table-uuid"]
    assert ids["twin"].startswith("n-")
    small.restore(tables=("twin",))
    assert small.find_restored("twin") is not None
