"""A table that takes the place of another: built beside it, swapped at the end, nothing removed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from bcn.catalog.protocol import CatalogSettings
from bcn.errors import (
    CatalogError,
    OverlapError,
    TargetChangedError,
    TargetExistsError,
    UnsupportedCatalogError,
    UsageError,
)
from bcn.iceberg.relocate import Move
from bcn.model import PitId, TableId
from bcn.repository.repository import Scope
from bcn.restore.plan import place_beside
from tests.support.compare import spark_rows
from tests.support.front import Front, open_front
from tests.support.glue import GlueServer
from tests.support.hive import HiveServer
from tests.support.product import Product, digest_tree, hadoop_settings, sql_settings
from tests.support.rest import RestServer
from tests.support.rigs import view_document
from tests.support.small import SOURCE, TARGET, AtPhase, SmallPlace, SmallTable, Wrapped, open_small
from tests.support.spark import add_sql_catalog

T = TableId(("db",), "t")


@pytest.fixture
def small(tmp_path: Path) -> SmallPlace:
    return open_small(tmp_path)


class _StoppedError(Exception):
    """What a test stops a run with."""


def hurt(small: SmallPlace, table: SmallTable) -> str:
    """What a bad job leaves: a table without its rows. Its metadata file."""
    small.commit(table, lambda document: document.update({"current-snapshot-id": -1, "refs": {}}))
    return table.location


def place_of(small: SmallPlace, name: str = SOURCE) -> str:
    found = small.product.open(name).find_pointer(T)
    assert found is not None
    return found.metadata_location


def whole_then_hurt(small: SmallPlace) -> tuple[SmallTable, PitId, str]:
    """The table as it was, the PIT that has it, and the metadata file it is at by now."""
    table = small.add(2)
    report = small.backup()
    whole = SmallTable(table.root, table.metadata)
    assert report.pit is not None
    return whole, report.pit, hurt(small, table)


def test_it_is_built_beside_and_nothing_of_the_old_one_goes(small: SmallPlace) -> None:
    whole, pit, old = whole_then_hurt(small)
    before = digest_tree(small.warehouse / "db/t")
    report = small.restore(target_catalog=SOURCE, overwrite=True)
    [restored] = report.tables
    assert small.differences(whole, report) == []
    assert restored.replaced == old
    assert restored.metadata_location == place_of(small)
    assert restored.metadata_location.startswith(f"{whole.root}-{pit}/metadata/")
    assert restored.uuid == whole.document["table-uuid"]
    assert digest_tree(small.warehouse / "db/t") == before
    assert not list(small.warehouse.rglob(".bcn-restore*"))


def test_a_name_that_is_taken_is_refused_without_it(small: SmallPlace) -> None:
    _, _, old = whole_then_hurt(small)
    with pytest.raises(TargetExistsError) as caught:
        small.restore(target_catalog=SOURCE)
    assert "--overwrite" in caught.value.hint
    assert place_of(small) == old


def test_a_plan_says_whose_place_it_would_take(small: SmallPlace) -> None:
    _, _, old = whole_then_hurt(small)
    before = digest_tree(small.warehouse)
    report = small.restore(target_catalog=SOURCE, overwrite=True, dry_run=True)
    assert report.tables[0].replaced == old
    assert (digest_tree(small.warehouse), place_of(small)) == (before, old)


def test_a_table_whose_metadata_is_lost_can_be_replaced(small: SmallPlace) -> None:
    whole, _, old = whole_then_hurt(small)
    (small.folder / "kept").write_bytes(whole.metadata.read_bytes())
    Path(old).unlink()
    report = small.restore(target_catalog=SOURCE, overwrite=True)
    assert small.differences(whole, report) == []


def test_a_name_that_is_free_is_restored_where_it_was(small: SmallPlace) -> None:
    whole, _, _ = whole_then_hurt(small)
    small.drop()
    [restored] = small.restore(target_catalog=SOURCE, overwrite=True).tables
    assert restored.replaced is None
    assert restored.metadata_location.startswith(f"{whole.root}/metadata/")


def test_a_commit_meanwhile_is_not_lost(small: SmallPlace) -> None:
    whole, _, _ = whole_then_hurt(small)
    table = SmallTable(whole.root, Path(place_of(small)))
    commit = AtPhase("registering", lambda: small.commit(table, lambda document: None))
    with pytest.raises(TargetChangedError, match=r"db\.t .*changed or dropped meanwhile"):
        small.restore(target_catalog=SOURCE, overwrite=True, progress=commit)
    assert place_of(small) == table.location
    report = small.restore(target_catalog=SOURCE, overwrite=True)
    assert report.tables[0].replaced == table.location
    assert report.files_adopted > 0
    assert report.files_copied == 0
    assert small.differences(whole, report) == []


def _stop_after(method: Callable[..., Any]) -> Callable[..., Any]:
    def stopped(*args: Any) -> None:
        method(*args)
        raise _StoppedError

    return stopped


def test_a_run_that_was_stopped_after_the_swap_is_finished(small: SmallPlace) -> None:
    whole, pit, old = whole_then_hurt(small)
    real = small.product.open(SOURCE)
    with pytest.raises(_StoppedError):
        small.restore(
            target_catalog=SOURCE,
            overwrite=True,
            catalog=Wrapped(real, "replace", _stop_after(real.replace)),
        )
    swapped = place_of(small)
    assert swapped.startswith(f"{whole.root}-{pit}/")
    report = small.restore(target_catalog=SOURCE, overwrite=True)
    assert (place_of(small), report.tables[0].metadata_location) == (swapped, swapped)
    assert report.tables[0].replaced == old
    assert report.files_copied == 0
    assert small.differences(whole, report) == []
    assert not list(small.warehouse.rglob(".bcn-restore*"))


def _move_metadata(small: SmallPlace, table: SmallTable) -> str:
    """Have metadata files of a table outside of it from now on; gives their folder."""
    folder = small.warehouse / "metadata-of-all"
    folder.mkdir()
    table.metadata = table.metadata.rename(folder / table.metadata.name)
    small.commit(table, lambda document: None)
    return str(folder)


def _stop(*_: Any) -> None:
    raise _StoppedError


def test_the_old_table_is_not_taken_for_the_new_one_whose_metadata_is_beside_its_own(
    small: SmallPlace,
) -> None:
    table = small.add(2)
    folder = _move_metadata(small, table)
    small.backup()
    whole, old = SmallTable(table.root, table.metadata), hurt(small, table)
    real = small.product.open(SOURCE)
    more: dict[str, Any] = {"map_roots": (Move(folder, folder),), "overwrite": True}
    with pytest.raises(_StoppedError):
        small.restore(target_catalog=SOURCE, catalog=Wrapped(real, "replace", _stop), **more)
    assert place_of(small) == old
    assert small.differences(whole, small.restore(target_catalog=SOURCE, **more)) == []
    assert place_of(small) != old
    assert Path(place_of(small)).parent == Path(old).parent


def test_a_commit_right_after_the_swap_is_no_lost_history(small: SmallPlace) -> None:
    whole, _, _ = whole_then_hurt(small)
    real = small.product.open(SOURCE)

    def swap_and_commit(table: TableId, old: str, new: str) -> None:
        real.replace(table, old, new)
        log = [{"metadata-file": new, "timestamp-ms": 1}]
        change = {"metadata-log": log, "snapshots": [], "refs": {}, "current-snapshot-id": -1}
        small.commit(SmallTable(whole.root, Path(new)), lambda document: document.update(change))

    catalog = Wrapped(real, "replace", swap_and_commit)
    small.restore(target_catalog=SOURCE, overwrite=True, catalog=catalog)
    assert place_of(small).endswith("-small.metadata.json")


def test_a_catalog_that_keeps_no_history_does_not_cost_the_old_table(small: SmallPlace) -> None:
    whole, _, old = whole_then_hurt(small)
    real = small.product.open(SOURCE)

    def swap_and_lose(table: TableId, old: str, new: str) -> None:
        real.replace(table, old, new)
        change = {"snapshots": [], "refs": {}, "current-snapshot-id": -1}
        small.commit(SmallTable(whole.root, Path(new)), lambda document: document.update(change))

    catalog = Wrapped(real, "replace", swap_and_lose)
    with pytest.raises(CatalogError, match="another history") as caught:
        small.restore(target_catalog=SOURCE, overwrite=True, catalog=catalog)
    assert caught.value.hint == f"the table that was there before is whole: {old}"


@pytest.mark.parametrize("below", ["", "/inside"])
def test_it_is_not_built_where_the_old_one_is(small: SmallPlace, below: str) -> None:
    whole, _, old = whole_then_hurt(small)
    for _ in range(2):
        with pytest.raises((TargetExistsError, OverlapError)):
            small.restore(
                target_catalog=SOURCE, overwrite=True, target_location=f"{whole.root}{below}"
            )
    assert place_of(small) == old
    [copy] = small.restore().tables
    home = copy.metadata_location.rpartition("/metadata/")[0]
    with pytest.raises(TargetExistsError, match="is where it is now"):
        small.restore(overwrite=True, target_location=f"{home}{below}")


def test_another_table_of_the_name_does_not_give_its_place_and_its_identity(
    small: SmallPlace,
) -> None:
    whole, _, old = whole_then_hurt(small)
    other = SmallTable(whole.root, Path(old))
    other.edit(
        lambda document: document.update({"table-uuid": f"{'1' * 8}{'-0000' * 3}-{'0' * 12}"})
    )
    [restored] = small.restore(target_catalog=SOURCE, overwrite=True).tables
    assert restored.uuid != whole.document["table-uuid"]


def test_what_took_a_place_is_backed_up_and_can_be_replaced_in_turn(small: SmallPlace) -> None:
    whole, first, _ = whole_then_hurt(small)
    [restored] = small.restore(target_catalog=SOURCE, overwrite=True).tables
    report = small.backup()
    assert report.failed == ()
    assert report.pit is not None
    current = SmallTable(f"{whole.root}-{first}", Path(restored.metadata_location))
    again = small.restore(target_catalog=SOURCE, overwrite=True)
    assert again.tables[0].metadata_location.startswith(f"{whole.root}-{report.pit}/")
    assert small.differences(current, again) == []


def test_a_copy_elsewhere_is_refreshed_and_stays_another_table(small: SmallPlace) -> None:
    whole, first, _ = whole_then_hurt(small)
    [copy] = small.restore(pit=first).tables
    report = small.restore(pit=first, overwrite=True)
    [refreshed] = report.tables
    assert refreshed.replaced == copy.metadata_location
    assert refreshed.uuid not in {copy.uuid, whole.document["table-uuid"]}
    assert small.differences(whole, report) == []
    with pytest.raises(TargetExistsError, match="is where it is now") as caught:
        small.restore(pit=first, overwrite=True)
    assert caught.value.hint == "say another place with --target-location"
    elsewhere = str(small.folder / "elsewhere")
    report = small.restore(pit=first, overwrite=True, target_location=elsewhere)
    assert report.tables[0].metadata_location.startswith(elsewhere)


def test_a_view_is_not_in_the_way_of_a_swap_but_refused(small: SmallPlace) -> None:
    whole_then_hurt(small)
    small.drop()
    path = small.warehouse / "v/metadata/00000-v.metadata.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(view_document(str(path.parent.parent))))
    small.product.open(SOURCE).register_view(T, str(path))
    with pytest.raises(TargetExistsError) as caught:
        small.restore(target_catalog=SOURCE, overwrite=True)
    assert "nothing else" in caught.value.hint


def test_a_hadoop_catalog_cannot_and_says_so_before_anything_is_copied(tmp_path: Path) -> None:
    place = open_small(tmp_path)
    place.product.catalogs = {
        **place.product.catalogs,
        TARGET: hadoop_settings(TARGET, tmp_path / TARGET),
    }
    place.add(2)
    place.backup()
    place.restore()
    before = digest_tree(tmp_path / TARGET)
    with pytest.raises(UnsupportedCatalogError, match=r"in the place of db\.t"):
        place.restore(overwrite=True)
    assert digest_tree(tmp_path / TARGET) == before


# other catalogs


def _refreshed(place: SmallPlace) -> None:
    """A copy in the target is replaced by that of another PIT."""
    table = place.add(2)
    [copy] = (place.backup(), place.restore())[1].tables
    place.commit(table, lambda document: document["properties"].update({"changed": "yes"}))
    place.backup()
    report = place.restore(overwrite=True)
    [restored] = report.tables
    assert restored.replaced == copy.metadata_location
    assert place_of(place, TARGET) == restored.metadata_location != copy.metadata_location
    assert place.differences(table, report) == []


def _place_with(folder: Path, target: CatalogSettings) -> SmallPlace:
    place = open_small(folder)
    place.product.catalogs = {**place.product.catalogs, TARGET: target}
    return place


def test_in_a_hive_metastore(hive_metastore: HiveServer, tmp_path: Path) -> None:
    _refreshed(_place_with(tmp_path, hive_metastore.settings(TARGET, tmp_path / TARGET)))


def test_in_glue(glue: GlueServer, tmp_path: Path) -> None:
    _refreshed(_place_with(tmp_path, glue.settings(TARGET, f"file://{tmp_path}/{TARGET}")))


def _drop(address: str, path: str) -> None:
    """As `DROP TABLE` does; the files stay."""
    with closing(HTTPConnection(address, timeout=30)) as connection:
        connection.request("DELETE", f"{path}?purgeRequested=false")
        assert connection.getresponse().status == 204


@pytest.fixture
def overwriting(rest_catalog: RestServer) -> Iterator[Front]:
    """Iceberg's own server, which cannot, behind a gate that drops the old table for it."""

    def rewrite(path: str, body: bytes) -> bytes:
        document = json.loads(body) if path.endswith("/register") else {}
        if not document.pop("overwrite", False):
            return body
        _drop(front.backend, path.removesuffix("register") + f"tables/{document['name']}")
        return json.dumps(document).encode()

    front = Front(rest_catalog.server.address, rewrite=rewrite)
    with open_front(front):
        yield front


def test_in_a_rest_catalog_whose_server_can(
    rest_catalog: RestServer, overwriting: Front, tmp_path: Path
) -> None:
    _refreshed(_place_with(tmp_path, rest_catalog.settings(TARGET, uri=overwriting.uri)))


def test_a_lost_answer_to_a_swap_is_looked_up(
    rest_catalog: RestServer, overwriting: Front, tmp_path: Path
) -> None:
    place = _place_with(tmp_path, rest_catalog.settings(TARGET, uri=overwriting.uri))
    table = place.add(2)
    place.backup()
    place.restore()

    def lose(request: BaseHTTPRequestHandler, _body: bytes) -> bool:
        overwriting.drop_answers = request.path.endswith("/register")
        return True

    overwriting.check = lose
    assert place.differences(table, place.restore(overwrite=True)) == []


def test_a_rest_server_that_cannot_leaves_all_as_it_was_and_the_work_is_not_lost(
    rest_catalog: RestServer, tmp_path: Path
) -> None:
    place = _place_with(tmp_path, rest_catalog.settings(TARGET))
    table = place.add(2)
    place.backup()
    [copy] = place.restore().tables
    with pytest.raises(UnsupportedCatalogError, match="is as it was") as caught:
        place.restore(overwrite=True)
    assert "run the same command again" in caught.value.hint
    assert place_of(place, TARGET) == copy.metadata_location
    _drop(rest_catalog.server.address, "/v1/namespaces/db/tables/t")
    report = place.restore(overwrite=True)
    assert report.files_copied == 0
    assert place.differences(table, report) == []


def test_after_a_refusal_a_table_comes_back_as_the_same(
    rest_catalog: RestServer, tmp_path: Path
) -> None:
    place = open_small(tmp_path)
    place.product.catalogs = {**place.product.catalogs, SOURCE: rest_catalog.settings(SOURCE)}
    table = place.add(2)
    place.backup()
    with pytest.raises(UnsupportedCatalogError):
        place.restore(target_catalog=SOURCE, overwrite=True)
    _drop(rest_catalog.server.address, "/v1/namespaces/db/tables/t")
    [restored] = place.restore(target_catalog=SOURCE, overwrite=True).tables
    assert restored.uuid == table.document["table-uuid"]
    assert restored.replaced is None


def test_places_do_not_grow_from_swap_to_swap() -> None:
    first, second = PitId("20260821T101530.123456Z"), PitId("20260822T101530.123456Z")
    assert place_beside("s3://b/db/t-x", first) == f"s3://b/db/t-x-{first}"
    assert place_beside(f"s3://b/db/t-x-{first}", second) == f"s3://b/db/t-x-{second}"
    assert place_beside("file:///t", first) == f"file:///t-{first}"
    with pytest.raises(UsageError, match="nothing is beside s3://bucket"):
        place_beside("s3://bucket", first)


@pytest.mark.spark
def test_spark_reads_and_writes_what_took_the_place(spark: Any, tmp_path: Path) -> None:
    add_sql_catalog(spark, "over", tmp_path / "over.db", tmp_path / "over")
    spark.sql("CREATE NAMESPACE over.db")
    for version in (2, 3):
        name = f"over.db.v{version}"
        spark.sql(
            f"CREATE TABLE {name} (id BIGINT, text STRING) USING iceberg TBLPROPERTIES"
            f" ('format-version'='{version}', 'write.delete.mode'='merge-on-read')"
        )
        spark.sql(f"INSERT INTO {name} SELECT id, 'x' FROM range(20)")
        spark.sql(f"DELETE FROM {name} WHERE id % 3 = 0")
        spark.sql(f"ALTER TABLE {name} CREATE TAG good")
    expected = {v: spark_rows(spark, f"over.db.v{v}") for v in (2, 3)}
    catalogs = {"over": sql_settings("over", tmp_path / "over.db", tmp_path / "over")}
    product = Product(tmp_path / "repository", catalogs)
    product.backup(Scope("over"))
    for version in expected:
        spark.sql(f"DELETE FROM over.db.v{version}")
        assert spark.table(f"over.db.v{version}").count() == 0
    report = product.restore(overwrite=True)
    (tmp_path / "over/db/v2").rename(tmp_path / "v2-away")
    (tmp_path / "over/db/v3").rename(tmp_path / "v3-away")
    for version, rows in expected.items():
        name = f"over.db.v{version}"
        spark.sql(f"REFRESH TABLE {name}")
        assert spark_rows(spark, name) == rows
        spark.sql(f"INSERT INTO {name} VALUES (100, 'new')")
        assert spark.table(name).count() == 14
        assert spark.sql(f"SELECT * FROM {name} VERSION AS OF 'good'").count() == 13
    assert [bool(table.replaced) for table in report.tables] == [True, True]
    assert product.backup().failed == ()
