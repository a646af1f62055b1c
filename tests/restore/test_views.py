"""Views: restored, renamed, refused; databases of one kind of catalog in another. Without Spark."""

from __future__ import annotations

import gzip
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from bcn.engine.spark import Engine, SparkSettings
from bcn.errors import (
    CatalogError,
    DamagedRepositoryError,
    TargetExistsError,
    UnsupportedTableError,
)
from bcn.model import TableId
from bcn.repository.listing import list_objects
from bcn.restore.place import MARKER
from bcn.restore.plan import UuidPolicy
from tests.cli.pages import differences, examples
from tests.support.rigs import V0_TABLES
from tests.support.shop import add, add_view, document_of, drop, names, registered
from tests.support.small import SOURCE, TARGET, SmallPlace, Wrapped, open_small

VIEW = TableId(("sales",), "large")


@pytest.fixture
def small(tmp_path: Path) -> SmallPlace:
    made = open_small(tmp_path)
    add(made, "sales.orders", 1)
    return made


class _StoppedError(Exception):
    """What a test stops a run with."""


def test_a_view_is_restored_beside_its_tables(small: SmallPlace) -> None:
    add_view(small, "sales.large", "SELECT * FROM orders")
    pit = small.backup().pit
    small.move_source_away()
    report = small.restore()
    [view] = report.views
    assert (str(view.view), view.pit, view.versions) == ("sales.large", pit, 1)
    found = small.product.open(TARGET).find_pointer(VIEW)
    assert found is not None
    assert (found.kind, found.metadata_location) == ("view", view.metadata_location)
    document = document_of(small, "sales.large")
    assert document["location"] == str(small.folder / "target/sales/large")
    assert document["view-uuid"] == view.uuid
    assert str(small.warehouse) not in json.dumps(document)
    assert not list((small.folder / "target").rglob(MARKER))
    assert report.warnings == ()


def test_the_report_has_the_form_that_is_documented(small: SmallPlace) -> None:
    add_view(small, "sales.large", "SELECT 1")
    small.backup()
    assert differences(small.restore().as_json(), examples()["restore"]) == []


@pytest.mark.parametrize("policy", list(UuidPolicy))
def test_a_copy_of_a_view_is_another_view_unless_told_otherwise(
    small: SmallPlace, policy: UuidPolicy
) -> None:
    path = add_view(small, "sales.large", "SELECT 1")
    small.backup()
    uuid = json.loads(path.read_text())["view-uuid"]
    small.restore(uuid=policy)
    found = document_of(small, "sales.large")["view-uuid"]
    assert (found == uuid) == (policy is UuidPolicy.KEEP)


def test_a_view_alone_needs_no_spark(small: SmallPlace) -> None:
    add_view(small, "sales.large", "SELECT 1")
    small.backup()
    small.product.engine = engine = Engine(SparkSettings(master="nowhere"))
    report = small.restore(tables=("large",), target_table="{table}_2")
    assert [str(view.view) for view in report.views] == ["sales.large_2"]
    assert not engine.is_started


def test_names_that_its_sql_loses_are_told(small: SmallPlace) -> None:
    add_view(
        small, "sales.large", "SELECT * FROM source.sales.orders", **{"default-catalog": SOURCE}
    )
    small.backup()
    report = small.restore(target_database=("back",))
    [warning] = report.warnings
    assert "view back.large names sales.orders, which is target.back.orders now" in warning
    [version] = document_of(small, "back.large")["versions"]
    assert (version["default-catalog"], version["default-namespace"]) == (TARGET, ["back"])
    assert version["representations"][0]["sql"] == "SELECT * FROM source.sales.orders"


def test_a_compressed_view_stays_compressed(small: SmallPlace) -> None:
    path = add_view(small, "sales.large", "SELECT 1")
    packed = path.with_name("00004-v.gz.metadata.json")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    small._write(
        "UPDATE iceberg_tables SET metadata_location = ? WHERE table_name = ?",
        (str(packed), "large"),
    )
    small.backup()
    location = small.restore().views[0].metadata_location
    assert location.endswith(".gz.metadata.json")
    assert Path(location).name.startswith("00004-")
    assert Path(location).read_bytes().startswith(b"\x1f\x8b")


# what was deleted, what is in the way


def test_a_deleted_view_comes_back(small: SmallPlace) -> None:
    path = add_view(small, "sales.large", "SELECT 1")
    first = small.backup().pit
    before = json.loads(path.read_text())
    drop(small, "sales.large")
    gone = small.backup()
    listed = list_objects(small.product.repository, gone.pit).objects
    assert ("large", "view", "DELETED") in {(i.name, i.type, i.status) for i in listed}
    report = small.restore(target_catalog=SOURCE, tables=("large",), include_deleted=True)
    assert report.views[0].pit == first
    assert report.views[0].deleted_at is not None
    assert document_of(small, "sales.large", SOURCE) == before


@pytest.mark.parametrize("kind", ["table", "view"])
def test_a_name_that_is_taken_by_either_kind_is_refused(small: SmallPlace, kind: str) -> None:
    add_view(small, "sales.large", "SELECT 1")
    small.backup()
    target = small.product.open(TARGET)
    target.create_namespace(("sales",), {})
    register = target.register if kind == "table" else target.register_view
    register(VIEW, "/theirs.metadata.json")
    with pytest.raises(TargetExistsError, match=r"sales\.large exists") as caught:
        small.restore()
    assert "--exclude" in caught.value.hint
    assert not (small.folder / "target").exists()
    found = target.find_pointer(VIEW)
    assert found is not None
    assert (found.kind, found.metadata_location) == (kind, "/theirs.metadata.json")
    assert names(small.restore(exclude=("large",))) == ["sales.orders"]


def test_a_place_that_is_not_empty_is_refused(small: SmallPlace) -> None:
    add_view(small, "sales.large", "SELECT 1")
    small.backup()
    theirs = small.folder / "target/sales/large/theirs"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("theirs")
    with pytest.raises(TargetExistsError, match="not empty"):
        small.restore()
    assert registered(small) == []


# odd and damaged ones


def test_a_view_of_another_format_is_refused_and_nothing_appears(small: SmallPlace) -> None:
    path = add_view(small, "sales.large", "SELECT 1")
    path.write_text(path.read_text().replace('"format-version": 1', '"format-version": 2'))
    small.backup()
    with pytest.raises(UnsupportedTableError, match="format version 2"):
        small.restore()
    assert registered(small) == []
    assert not (small.folder / "target").exists()


def test_a_view_without_versions_is_damage(small: SmallPlace) -> None:
    path = add_view(small, "sales.large", "SELECT 1")
    path.write_text(path.read_text().replace('"versions"', '"revisions"'))
    small.backup()
    with pytest.raises(DamagedRepositoryError, match=r"view sales\.large is not whole"):
        small.restore()


def test_a_changed_byte_in_a_stored_view_is_found(small: SmallPlace) -> None:
    add_view(small, "sales.large", "SELECT 1 AS someone")
    small.backup()
    (stored,) = small.stored("00000-v.metadata.json")
    stored.write_bytes(stored.read_bytes().replace(b"someone", b"another"))
    with pytest.raises(DamagedRepositoryError, match="SHA-256"):
        small.restore()
    assert registered(small) == []


def test_a_catalog_of_the_older_schema_says_that_views_stay_behind(small: SmallPlace) -> None:
    add_view(small, "sales.large", "SELECT 1")
    small.backup()
    connection = sqlite3.connect(small.folder / "target.db")
    with connection:
        connection.executescript(V0_TABLES)
    connection.close()
    report = small.restore()
    assert report.warnings == ("target has no views, so they stay behind: sales.large",)
    assert registered(small) == ["sales.orders"]


# the catalog is asked again, a stopped run goes on


def _changed(location: str) -> None:
    path = Path(location)
    path.write_text(path.read_text().replace("SELECT 1", "SELECT 2"))


@pytest.mark.parametrize(
    ("register", "text"),
    [
        (lambda _real, _view, _location: None, "does not know it"),
        (lambda real, view, location: real.register(view, location), "as a table"),
        (
            lambda real, view, location: (_changed(location), real.register_view(view, location)),
            "another definition",
        ),
    ],
)
def test_a_catalog_that_gives_back_something_else_is_found_out(
    small: SmallPlace, register: Any, text: str
) -> None:
    add_view(small, "sales.large", "SELECT 1")
    small.backup()
    real = small.product.open(TARGET)
    odd = Wrapped(real, "register_view", lambda view, location: register(real, view, location))
    with pytest.raises(CatalogError, match=text):
        small.restore(catalog=odd)


def test_a_restore_that_was_stopped_between_two_views_goes_on(small: SmallPlace) -> None:
    for name in ("a", "b", "c"):
        add_view(small, f"sales.{name}", "SELECT 1")
    small.backup()
    real = small.product.open(TARGET)

    def register(view: TableId, location: str) -> None:
        if view.name == "b":
            raise _StoppedError
        real.register_view(view, location)

    with pytest.raises(_StoppedError):
        small.restore(catalog=Wrapped(real, "register_view", register))
    assert registered(small) == ["sales.a", "sales.orders"]
    kept = real.find_pointer(TableId(("sales",), "a"))
    report = small.restore()
    assert registered(small) == ["sales.a", "sales.b", "sales.c", "sales.orders"]
    assert real.find_pointer(TableId(("sales",), "a")) == kept
    assert kept is not None
    assert report.views[0].metadata_location == kept.metadata_location
    assert report.views[0].uuid == document_of(small, "sales.a")["view-uuid"]
    assert not list((small.folder / "target").rglob(MARKER))
