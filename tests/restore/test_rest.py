"""Tables into a REST catalog and out of it; the source is gone before anything is compared."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from bcn.catalog.protocol import CatalogSettings
from bcn.errors import CatalogError, TargetExistsError
from bcn.model import TableId
from bcn.repository.repository import Scope
from bcn.storage.local import local_path
from tests.support.compare import compare_tables, spark_rows
from tests.support.nessie import NessieServer
from tests.support.product import Product, sql_settings
from tests.support.rest import RestServer
from tests.support.rigs import view_document
from tests.support.servers import S3Server
from tests.support.small import SOURCE, TARGET, SmallPlace, open_small
from tests.support.spark import add_catalog, add_sql_catalog

T = TableId(("db",), "t")
VIEW = TableId(("db",), "v")


def place_with(folder: Path, **catalogs: Any) -> SmallPlace:
    place = open_small(folder)
    place.product.catalogs = {**place.product.catalogs, **catalogs}
    return place


@pytest.mark.parametrize("version", [2, 3])
def test_from_sql_to_rest(rest_catalog: RestServer, tmp_path: Path, version: int) -> None:
    place = place_with(tmp_path, target=rest_catalog.settings(TARGET))
    table = place.add(version)
    place.backup()
    place.move_source_away()
    report = place.restore()
    assert place.differences(table, report) == []
    found = place.product.open(TARGET).find_pointer(T)
    assert found is not None
    assert found.metadata_location == report.tables[0].metadata_location
    assert local_path(found.metadata_location).startswith(f"{rest_catalog.warehouse}/db/t/")
    with pytest.raises(TargetExistsError):
        place.restore()


@pytest.mark.parametrize("version", [2, 3])
def test_from_rest_to_sql(rest_catalog: RestServer, tmp_path: Path, version: int) -> None:
    place = place_with(tmp_path, source=rest_catalog.settings(SOURCE))
    table = place.add(version)
    first = place.backup()
    assert (first.failed, place.backup().failed) == ((), ())
    rest_catalog.empty()
    place.move_source_away()
    assert place.differences(table, place.restore()) == []


def test_a_view_and_the_properties_of_its_database_come_along(
    rest_catalog: RestServer, tmp_path: Path
) -> None:
    place = place_with(tmp_path, source=rest_catalog.settings(SOURCE))
    catalog = place.product.open(SOURCE)
    catalog.create_namespace(("db",), {"owner": "ada"})
    path = place.warehouse / "db/v/metadata/00000-v.metadata.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(view_document(str(path.parent.parent))))
    catalog.register_view(VIEW, str(path))
    place.backup()
    rest_catalog.empty()
    place.move_source_away()
    back = place_with(tmp_path, target=rest_catalog.settings(TARGET))
    report = back.restore()
    assert [str(view.view) for view in report.views] == ["db.v"]
    found = back.product.open(TARGET)
    pointer = found.find_pointer(VIEW)
    assert pointer is not None
    assert pointer.kind == "view"
    assert found.load_namespace(("db",))["owner"] == "ada"


def test_two_spellings_of_one_place_do_not_keep_a_view_from_where_it_was(
    rest_catalog: RestServer, tmp_path: Path
) -> None:
    place = place_with(tmp_path, source=rest_catalog.settings(SOURCE))
    catalog = place.product.open(SOURCE)
    catalog.create_namespace(("db",), {})
    path = place.warehouse / "db/v/metadata/00000-v.metadata.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(view_document(f"file://{path.parent.parent}")))
    catalog.register_view(VIEW, f"file:{path}")
    place.backup()
    rest_catalog.empty()
    place.move_source_away()
    [view] = place.restore(target_catalog=SOURCE).views
    assert view.metadata_location.startswith(f"file:{path.parent}/00000-")


def test_a_table_that_the_server_cannot_load_fails_alone(
    rest_catalog: RestServer, tmp_path: Path
) -> None:
    place = place_with(tmp_path, source=rest_catalog.settings(SOURCE))
    table = place.add(2)
    broken = place.add(2, "broken")
    broken.edit(lambda document: document.update({"table-uuid": _OTHER}))
    assert place.backup().failed == ()
    broken.metadata.unlink()
    report = place.backup()
    [failed] = report.failed
    assert "db.broken" in str(failed)
    assert "the catalog cannot load db.broken" in failed.message
    assert str(broken.metadata) in failed.message
    place.move_source_away()
    [restored] = place.restore(tables=("db.t",)).tables
    roots = [(move.old, move.new) for move in restored.roots]
    assert not compare_tables(
        table.location, restored.metadata_location, roots, place.relocated_source
    )


def test_a_catalog_that_drops_history_is_no_place_to_restore_to(
    nessie: NessieServer, minio: S3Server, tmp_path: Path
) -> None:
    settings = CatalogSettings(TARGET, "rest", {"uri": nessie.uri, **minio.properties})
    place = place_with(tmp_path, target=settings)
    table = place.add(2)
    first = table.document["snapshots"][0]["snapshot-id"]
    tag = {"snapshot-id": first, "type": "tag"}
    table.edit(lambda document: document["refs"].update({"first": tag}))
    place.backup()
    with pytest.raises(CatalogError) as caught:
        place.restore()
    assert "target gives back db.t with another history" in str(caught.value)
    assert "1 of 2 snapshots; other refs: first" in str(caught.value)
    assert "that keeps history" in caught.value.hint
    assert caught.value.exit_code == 14
    with pytest.raises(CatalogError, match="1 of 2 snapshots"):
        place.restore()  # the table is there by now, but it is still no restore
    newer = place_with(tmp_path / "newer", target=settings)
    newer.add(3, "three")
    newer.backup()
    with pytest.raises(CatalogError, match="spec version 3"):
        newer.restore()


_OTHER = "11111111-0000-0000-0000-000000000000"


@pytest.mark.spark
def test_what_spark_wrote_through_rest_comes_back_in_sql_and_in_rest(
    spark: Any, rest_catalog: RestServer, tmp_path: Path
) -> None:
    add_catalog(spark, "rest1", {"type": "rest", "uri": rest_catalog.uri})
    add_sql_catalog(spark, "restsql", tmp_path / "target.db", tmp_path / "target")
    spark.sql("CREATE NAMESPACE rest1.db.inner")
    for version in (2, 3):
        name = f"rest1.db.inner.v{version}"
        spark.sql(
            f"CREATE TABLE {name} (id BIGINT, text STRING) USING iceberg"
            f" PARTITIONED BY (bucket(2, id)) TBLPROPERTIES ('format-version'='{version}',"
            " 'write.delete.mode'='merge-on-read')"
        )
        spark.sql(f"INSERT INTO {name} SELECT id, 'x' FROM range(20)")
        spark.sql(f"ALTER TABLE {name} CREATE TAG first")
        spark.sql(f"DELETE FROM {name} WHERE id % 3 = 0")
        spark.sql(f"ALTER TABLE {name} CREATE BRANCH side")
    spark.sql("CREATE VIEW rest1.db.big AS SELECT * FROM rest1.db.inner.v2 WHERE id > 10")
    expected = {v: spark_rows(spark, f"rest1.db.inner.v{v}") for v in (2, 3)}
    catalogs = {
        "rest1": rest_catalog.settings("rest1"),
        "restsql": sql_settings("restsql", tmp_path / "target.db", tmp_path / "target"),
    }
    product = Product(tmp_path / "repository", catalogs)
    report = product.backup(Scope("rest1"))
    assert (len(report.objects), report.failed) == (3, ())
    rest_catalog.warehouse.rename(tmp_path / "away")
    product.restore(target_catalog="restsql")
    for version, rows in expected.items():
        assert spark_rows(spark, f"restsql.db.inner.v{version}") == rows
    rest_catalog.empty()
    shutil.rmtree(tmp_path / "away")
    product.restore(target_catalog="rest1")
    for version, rows in expected.items():
        name = f"rest1.db.inner.v{version}"
        assert spark_rows(spark, name) == rows
        spark.sql(f"INSERT INTO {name} VALUES (100, 'new')")
        spark.sql(f"DELETE FROM {name} WHERE id = 100")
        assert spark.table(name).count() == 13
    assert spark.table("rest1.db.big").count() == 6
