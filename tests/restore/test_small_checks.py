"""What a restore checks before it copies, before it adopts and before it registers."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bcn.errors import (
    CatalogError,
    DamagedRepositoryError,
    OverlapError,
    TargetExistsError,
)
from bcn.model import TableId
from bcn.storage.local import sync_mount
from tests.support.small import SOURCE, TARGET, AtPhase, SmallPlace, Wrapped, open_small


@pytest.fixture
def small(tmp_path: Path) -> SmallPlace:
    return open_small(tmp_path)


class _StoppedError(Exception):
    """What a test stops a run with."""


def _stop() -> None:
    raise _StoppedError


def _change_a_byte(path: Path) -> None:
    """Another byte in the middle, or, in JSON, another letter of a word that nobody needs."""
    data = bytearray(path.read_bytes())
    known = [data.find(word) + 1 for word in (b"someone", b"bcn_version", b"owner")]
    position = next((place for place in known if place > 0), len(data) // 2)
    data[position] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("pattern", "told"),
    [
        ("data/*/r0/data/f0.parquet", "SHA-256"),
        ("data/*/r0/data/one.parquet", "SHA-256"),
        ("data/*/r0/metadata/m0.avro", "SHA-256"),
        ("data/*/r0/metadata/snap-1.avro", "SHA-256"),
        ("data/*/r0/metadata/*.metadata.json", "SHA-256"),
        ("catalogs/*/databases/*/*/snapshots/*.parquet", "SHA-256"),
        ("catalogs/*/databases/*/*/entries/*.json", "SHA-256"),
        ("catalogs/*/pit_manifests/*/manifest.json", "checksum"),
    ],
)
def test_one_changed_byte_is_found_and_nothing_appears(
    small: SmallPlace, pattern: str, told: str
) -> None:
    small.add(2)
    pit = small.backup().pit
    (damaged,) = small.stored(pattern)
    _change_a_byte(damaged)
    with pytest.raises(DamagedRepositoryError, match=told):
        small.restore(pit=pit)
    assert small.find_restored() is None


def test_a_damaged_file_is_not_left_at_the_target(small: SmallPlace) -> None:
    """A second run would have to take it for what an interrupted first one had left."""
    small.add(2)
    small.backup()
    _change_a_byte(small.stored("data/*/r0/data/f0.parquet")[0])
    with pytest.raises(DamagedRepositoryError):
        small.restore()
    assert not (small.folder / "target/db/t/data/f0.parquet").exists()


# adopting


def test_a_restore_that_was_stopped_goes_on_with_what_it_has(small: SmallPlace) -> None:
    table = small.add(2)
    small.backup()
    with pytest.raises(_StoppedError):
        small.restore(progress=AtPhase("rewriting manifests", _stop))
    report = small.restore()
    assert report.files_adopted >= 4
    assert small.differences(table, report) == []
    assert not list((small.folder / "target").rglob(".bcn-*"))


def test_a_restore_that_was_stopped_between_two_tables_leaves_nothing_but_them(
    small: SmallPlace,
) -> None:
    """The next run begins with another table, and keeps its working files there."""
    small.add(2, "a")
    small.add(2, "b")
    small.backup()
    real: Any = small.product.open(TARGET)

    def register(table: TableId, location: str) -> None:
        if table.name == "b":
            _stop()
        real.register(table, location)

    with pytest.raises(_StoppedError):
        small.restore(catalog=Wrapped(real, "register", register))
    small.restore()
    assert not list((small.folder / "target").rglob(".bcn-*"))


@pytest.mark.parametrize("name", ["f0.parquet", "one.parquet"])
def test_what_a_stopped_restore_left_is_hashed_before_it_is_adopted(
    small: SmallPlace, name: str
) -> None:
    """A file that is copied as it is, and one that is rewritten."""
    small.add(2)
    small.backup()
    with pytest.raises(_StoppedError):
        small.restore(progress=AtPhase("rewriting manifests", _stop))
    _change_a_byte(small.folder / "target/db/t/data" / name)
    with pytest.raises(TargetExistsError, match="other bytes"):
        small.restore()
    assert small.find_restored() is None


# the place


def test_a_target_that_is_not_empty_is_refused_and_left_alone(small: SmallPlace) -> None:
    small.add(2)
    small.backup()
    somebody = small.folder / "target/db/t/data/theirs"
    somebody.parent.mkdir(parents=True)
    somebody.write_text("theirs")
    with pytest.raises(TargetExistsError, match="not empty"):
        small.restore()
    assert [path for path in (small.folder / "target").rglob("*") if path.is_file()] == [somebody]


def test_an_unfinished_restore_of_another_pit_is_not_gone_on_with(small: SmallPlace) -> None:
    table = small.add(2)
    first = small.backup().pit
    small.commit(table, lambda document: document["properties"].update(owner="another"))
    small.backup()
    with pytest.raises(_StoppedError):
        small.restore(pit=first, progress=AtPhase("rewriting manifests", _stop))
    with pytest.raises(TargetExistsError, match="not empty"):
        small.restore()


def test_a_name_that_is_taken_is_refused_before_anything_is_copied(small: SmallPlace) -> None:
    small.add(2)
    small.backup()
    first = small.restore()
    with pytest.raises(TargetExistsError, match="exists"):
        small.restore(target_location=str(small.folder / "elsewhere"))
    assert not (small.folder / "elsewhere").exists()
    found = small.find_restored()
    assert found is not None
    assert found.metadata_location == first.tables[0].metadata_location


@pytest.mark.parametrize("place", ["repository/x", "source/db/t/copy", "source"])
def test_a_target_in_the_repository_or_the_source_is_refused(small: SmallPlace, place: str) -> None:
    small.add(2)
    small.backup()
    with pytest.raises(OverlapError):
        small.restore(target_location=str(small.folder / place))


def test_two_tables_are_never_restored_into_each_other(small: SmallPlace) -> None:
    """Two names in one database, one place."""
    small.add(2, "a")
    small.add(2, "b")
    small.backup()
    inner = Wrapped(
        small.product.open(TARGET),
        "default_location",
        lambda table: str(small.folder / "target" / ("x" if table.name == "a" else "x/y")),
    )
    with pytest.raises(OverlapError, match="inside"):
        small.restore(catalog=inner)


# before and after registering


@pytest.mark.parametrize("name", ["f0.parquet", "one.parquet"])
@pytest.mark.parametrize("harm", [Path.unlink, lambda path: path.write_bytes(b"short")])
def test_a_file_that_is_not_there_or_too_short_is_noticed_before_the_table_appears(
    small: SmallPlace, name: str, harm: Callable[[Path], None]
) -> None:
    small.add(2)
    small.backup()
    path = small.folder / "target/db/t/data" / name
    with pytest.raises(DamagedRepositoryError, match=name):
        small.restore(progress=AtPhase("checking", lambda: harm(path)))
    assert small.find_restored() is None


def test_a_table_is_on_the_disk_before_it_appears(
    small: SmallPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    small.add(2)
    small.backup()
    seen: list[set[str]] = []

    def flush(descriptor: int) -> None:
        seen.append({path.name for path in (small.folder / "target").rglob("*") if path.is_file()})
        sync_mount(descriptor)

    monkeypatch.setattr("bcn.storage.local.sync_mount", flush)
    report = small.restore()
    metadata = Path(report.tables[0].metadata_location).name
    whole = {"f0.parquet", "f1.parquet", "one.parquet", "both.parquet", "m0.avro", "snap-1.avro"}
    assert any(whole <= names and metadata not in names for names in seen)


def test_in_place_the_manifests_that_were_copied_are_checked_too(small: SmallPlace) -> None:
    table = small.add(2)
    small.backup()
    small.drop()
    path = table.path("data/f0.parquet")
    with pytest.raises(DamagedRepositoryError, match=path.name):
        small.restore(target_catalog=SOURCE, progress=AtPhase("checking", path.unlink))


def test_a_catalog_that_drops_history_is_found_out(small: SmallPlace) -> None:
    small.add(2)
    small.backup()
    real = small.product.open(TARGET)

    def register(table: Any, location: str) -> None:
        document = json.loads(Path(location).read_text())
        document["snapshots"] = document["snapshots"][1:]
        Path(location).write_text(json.dumps(document))
        real.register(table, location)

    with pytest.raises(CatalogError, match="another history"):
        small.restore(catalog=Wrapped(real, "register", register))


def test_a_catalog_that_forgets_a_table_at_once_is_found_out(small: SmallPlace) -> None:
    small.add(2)
    small.backup()
    forgetful = Wrapped(small.product.open(TARGET), "register", lambda _table, _location: None)
    with pytest.raises(CatalogError, match="does not know it"):
        small.restore(catalog=forgetful)


def test_a_metadata_file_is_compressed_if_its_name_says_so(small: SmallPlace) -> None:
    """Whatever the bytes of the source were called, name and bytes agree after a restore."""
    table = small.add(2)
    packed = table.metadata.with_name("00002-small.gz.metadata.json")
    packed.write_bytes(gzip.compress(table.metadata.read_bytes()))
    table.metadata = packed
    small._write("UPDATE iceberg_tables SET metadata_location = ?", (str(packed),))
    small.backup()
    report = small.restore()
    location = report.tables[0].metadata_location
    assert location.endswith(".gz.metadata.json")
    assert Path(location).read_bytes().startswith(b"\x1f\x8b")
    assert small.differences(table, report) == []
