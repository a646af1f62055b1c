"""Tables into a Hive Metastore and out of it; the source is gone before anything is compared."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from bcn.catalog.protocol import Pointer
from bcn.errors import TargetExistsError, UnsupportedCatalogError
from bcn.model import TableId
from bcn.repository.repository import Scope
from bcn.storage.local import local_path
from tests.support.compare import spark_rows
from tests.support.hive import HiveServer
from tests.support.product import Product, sql_settings
from tests.support.rigs import view_document
from tests.support.s3 import differences, mirrored
from tests.support.servers import S3Server
from tests.support.shapes.twin import write_twin
from tests.support.small import SOURCE, TARGET, InProcess, SmallPlace, open_small
from tests.support.spark import add_catalog, add_sql_catalog

T = TableId(("db",), "t")
VIEW = TableId(("db",), "v")


def place_with(folder: Path, **catalogs: Any) -> SmallPlace:
    place = open_small(folder)
    place.product.catalogs = {**place.product.catalogs, **catalogs}
    return place


@pytest.mark.parametrize("version", [1, 2, 3])
def test_from_sql_to_hive(hive_metastore: HiveServer, tmp_path: Path, version: int) -> None:
    place = place_with(tmp_path, target=hive_metastore.settings(TARGET, tmp_path / TARGET))
    table = place.add(version)
    place.backup()
    place.move_source_away()
    report = place.restore()
    assert place.differences(table, report) == []
    location = report.tables[0].metadata_location
    assert place.product.open(TARGET).find_pointer(T) == Pointer(T, location, "table")
    assert local_path(location).startswith(f"{tmp_path}/{TARGET}/db.db/t/metadata/")
    with pytest.raises(TargetExistsError):
        place.restore()


@pytest.mark.parametrize("version", [1, 2, 3])
def test_from_hive_to_sql(hive_metastore: HiveServer, tmp_path: Path, version: int) -> None:
    place = place_with(tmp_path, source=hive_metastore.settings(SOURCE, tmp_path / SOURCE))
    table = place.add(version)
    assert (place.backup().failed, place.backup().failed) == ((), ())
    hive_metastore.empty()
    place.move_source_away()
    assert place.differences(table, place.restore()) == []


def test_from_hive_to_another_database_of_the_same_metastore(
    hive_metastore: HiveServer, tmp_path: Path
) -> None:
    settings = hive_metastore.settings(SOURCE, tmp_path / SOURCE)
    place = place_with(tmp_path, source=settings)
    table = place.add(2)
    place.backup()
    hive_metastore.empty()
    place.move_source_away()
    home = tmp_path / "a home of its own"
    catalog = place.product.open(SOURCE)
    catalog.create_namespace(("other",), {"location": str(home)})
    report = place.restore(target_catalog=SOURCE, target_database=("other",))
    assert place.differences(table, report) == []
    assert local_path(report.tables[0].metadata_location).startswith(f"{home}/t/metadata/")
    assert [str(pointer.table) for pointer in catalog.iter_pointers()] == ["other.t"]


def test_a_view_and_its_database_come_back_as_they_were(
    hive_metastore: HiveServer, tmp_path: Path
) -> None:
    place = place_with(tmp_path, source=hive_metastore.settings(SOURCE, tmp_path / SOURCE))
    catalog = place.product.open(SOURCE)
    home = str(place.warehouse / "home")
    catalog.create_namespace(
        ("db",), {"location": home, "comment": "Sales", "hive.metastore.database.owner": "ada"}
    )
    before = catalog.load_namespace(("db",))
    path = Path(home, "v/metadata/00000-v.metadata.json")
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(view_document(str(path.parent.parent))))
    catalog.register_view(VIEW, str(path))
    place.backup()
    hive_metastore.empty()
    place.move_source_away()
    [view] = place.restore(target_catalog=SOURCE).views
    assert catalog.find_pointer(VIEW) == Pointer(VIEW, view.metadata_location, "view")
    assert catalog.load_namespace(("db",)) == before
    assert before["hive.metastore.database.owner"] == "ada"
    assert local_path(before["location"]) == home


def test_what_hive_cannot_hold_is_refused_before_a_byte_is_copied(
    hive_metastore: HiveServer, tmp_path: Path
) -> None:
    place = place_with(tmp_path, target=hive_metastore.settings(TARGET, tmp_path / TARGET))
    place.add(3, "Mixed")
    place.backup()
    with pytest.raises(UnsupportedCatalogError, match="cannot hold the name 'Mixed'"):
        place.restore()
    place.add(3, "nano").edit(_make_nano)
    place.backup()
    with pytest.raises(UnsupportedCatalogError, match="timestamp_ns, which Hive lacks"):
        place.restore(tables=("db.nano",))
    assert not (tmp_path / TARGET).exists()


def _make_nano(document: dict[str, Any]) -> None:
    for schema in document["schemas"]:
        schema["fields"].append(
            {"id": 999, "name": "at", "required": False, "type": "timestamp_ns"}
        )
    document["last-column-id"] = 999


def test_from_hive_to_hive_in_buckets(hive_s3: HiveServer, minio: S3Server, tmp_path: Path) -> None:
    hive_s3.empty()
    with mirrored(minio, tmp_path / "mirror") as bucket:
        catalogs = {
            name: hive_s3.settings(name, f"{bucket.location}/{name}", **minio.properties)
            for name in (SOURCE, TARGET)
        }
        product = Product(tmp_path / "repository", catalogs, InProcess())
        tables = {
            name: write_twin(f"{bucket.location}/{SOURCE}/db.db/{name}", version)
            for version, name in ((2, "two"), (3, "three"))
        }
        bucket.upload()
        source = product.open(SOURCE)
        source.create_namespace(("db",), {})
        for name, location in tables.items():
            assert source.default_location(TableId(("db",), name)) == location.split("/meta")[0]
            source.register(TableId(("db",), name), location)
        assert product.backup(Scope(SOURCE)).failed == ()
        bucket.empty()
        report = product.restore(target_catalog=TARGET, target_database=("other",))
        bucket.download()
        assert differences(tables, report) == []
        places = [table.metadata_location for table in report.tables]
        assert all(place.startswith(f"{bucket.location}/{TARGET}/other.db/") for place in places)
        found = product.open(TARGET).iter_pointers(("other",))
        assert sorted(pointer.metadata_location for pointer in found) == sorted(places)


# with Spark, by Iceberg's own HiveCatalog


def add_hive(spark: Any, name: str, server: HiveServer, warehouse: Path) -> None:
    properties = {"type": "hive", "uri": server.uri, "warehouse": str(warehouse)}
    add_catalog(spark, name, properties)


@pytest.mark.spark
def test_what_spark_wrote_through_hive_comes_back_in_sql_and_in_hive(
    spark: Any, hive_metastore: HiveServer, tmp_path: Path
) -> None:
    warehouse = tmp_path / "warehouse"
    add_hive(spark, "hive1", hive_metastore, warehouse)
    add_sql_catalog(spark, "hivesql", tmp_path / "target.db", tmp_path / "target")
    spark.sql("CREATE NAMESPACE hive1.db COMMENT 'Sales' WITH PROPERTIES ('team'='a')")
    for version in (2, 3):
        name = f"hive1.db.v{version}"
        spark.sql(
            f"CREATE TABLE {name} (id BIGINT, text STRING) USING iceberg"
            f" PARTITIONED BY (bucket(2, id)) TBLPROPERTIES ('format-version'='{version}',"
            " 'write.delete.mode'='merge-on-read')"
        )
        spark.sql(f"INSERT INTO {name} SELECT id, 'x' FROM range(20)")
        spark.sql(f"ALTER TABLE {name} CREATE TAG first")
        spark.sql(f"DELETE FROM {name} WHERE id % 3 = 0")
        spark.sql(f"ALTER TABLE {name} CREATE BRANCH side")
    spark.sql("CREATE VIEW hive1.db.big AS SELECT * FROM hive1.db.v2 WHERE id > 10")
    expected = {v: spark_rows(spark, f"hive1.db.v{v}") for v in (2, 3)}
    catalogs = {
        "hive1": hive_metastore.settings("hive1", warehouse),
        "hivesql": sql_settings("hivesql", tmp_path / "target.db", tmp_path / "target"),
    }
    product = Product(tmp_path / "repository", catalogs)
    report = product.backup(Scope("hive1"))
    assert (len(report.objects), report.failed) == (3, ())
    hive_metastore.empty()
    shutil.rmtree(warehouse)
    product.restore(target_catalog="hivesql")
    product.restore(target_catalog="hive1")
    for version, rows in expected.items():
        assert spark_rows(spark, f"hivesql.db.v{version}") == rows
        name = f"hive1.db.v{version}"
        assert spark_rows(spark, name) == rows
        spark.sql(f"INSERT INTO {name} VALUES (100, 'new'), (101, 'new')")
        spark.sql(f"DELETE FROM {name} WHERE id = 100")
        assert spark.table(name).count() == 14
    assert spark.table("hive1.db.big").count() == 7
    about = dict(spark.sql("DESCRIBE NAMESPACE EXTENDED hive1.db").collect())
    assert about["Comment"] == "Sales"
    assert "(team,a)" in about["Properties"]


_EVERY_TYPE = (
    "id BIGINT NOT NULL COMMENT 'the id', s STRING, d DECIMAL(9,2), ts TIMESTAMP, tn TIMESTAMP_NTZ,"
    " b BINARY, st STRUCT<A: INT, x: ARRAY<STRING>>, m MAP<STRING, STRUCT<y: DATE>>, bo BOOLEAN,"
    " f FLOAT, dd DOUBLE, `Odd Name` INT"
)
_CLOCKS = ("tableName", "createTime", "lastAccessTime")


@pytest.mark.spark
def test_records_are_those_that_icebergs_own_catalog_writes(
    spark: Any, hive_metastore: HiveServer, tmp_path: Path
) -> None:
    warehouse = tmp_path / "warehouse"
    add_hive(spark, "hive2", hive_metastore, warehouse)
    spark.sql("CREATE NAMESPACE hive2.db")
    spark.sql(
        f"CREATE TABLE hive2.db.t ({_EVERY_TYPE}) USING iceberg PARTITIONED BY (bucket(4, id))"
        " TBLPROPERTIES ('gc.enabled'='false', 'x'='1')"
    )
    spark.sql("CREATE TABLE hive2.db.engine (a INT) TBLPROPERTIES ('engine.hive.enabled'='true')")
    spark.sql("ALTER TABLE hive2.db.t WRITE ORDERED BY s")
    spark.sql("INSERT INTO hive2.db.t (id, s) VALUES (1, 'a')")
    spark.sql(
        "CREATE VIEW hive2.db.v (a COMMENT 'col a', b) COMMENT 'seen' TBLPROPERTIES ('p'='q')"
        " AS SELECT id, s FROM hive2.db.t"
    )
    catalog = Product(tmp_path, {"hive2": hive_metastore.settings("hive2", warehouse)}).open(
        "hive2"
    )
    with hive_metastore.client() as client:
        for name in ("t", "engine"):
            location = client.get_table("db", name).parameters["metadata_location"]
            spark.sql(f"CALL hive2.system.register_table('db.theirs_{name}', '{location}')")
            catalog.register(TableId(("db",), f"ours_{name}"), location)
            theirs = client.get_table("db", f"theirs_{name}")
            assert record(client.get_table("db", f"ours_{name}")) == record(theirs)
        view = client.get_table("db", "v")
        catalog.register_view(TableId(("db",), "ours_v"), view.parameters["metadata_location"])
        assert record(client.get_table("db", "ours_v")) == record(view)
    made = catalog.load_namespace(("db",))
    catalog.create_namespace(("made",), {"owner": made["owner"]})
    assert catalog.load_namespace(("made",)) == made
    assert spark.sql("SELECT * FROM hive2.db.ours_t").count() == 1
    assert spark.sql("SELECT a FROM hive2.db.ours_v").count() == 1


def record(table: Any) -> dict[str, Any]:
    """A record without its name and clocks; documents among its parameters are parsed."""
    parameters = {
        key: json.loads(value) if value.startswith("{") else value
        for key, value in table.parameters.items()
        if key != "transient_lastDdlTime"
    }
    fields = {key: value for key, value in vars(table).items() if key not in _CLOCKS}
    return {**fields, "parameters": parameters}
