"""Catalogs that are killed halfway, and tables that change while they are backed up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.table import StaticTable

from bcn.catalog.protocol import Catalog, CatalogSettings
from bcn.model import TableId
from bcn.stack.hive import start_hive
from bcn.stack.process import Server, free_port
from bcn.stack.rest import start_rest
from bcn.storage.protocol import StorageSpec
from tests.stress.lakes import SOURCE, TARGET, Lake, Restarts, Told, open_lake
from tests.support.rest import RestServer
from tests.support.s3 import CloudProduct, Mirrored, mirrored, sql_catalog
from tests.support.servers import S3Server, server_folder
from tests.support.small import InProcess, Wrapped

# killed halfway


@dataclass
class Mortal:
    """A catalog's server that can be killed, and the settings of its catalog."""

    restarts: Restarts
    settings: Callable[[str, str], CatalogSettings]


def _hive(folder: Path, bucket: Mirrored) -> Mortal:
    port, properties = free_port(), bucket.server.properties
    warehouse = f"{bucket.location}/warehouse"
    start = lambda: start_hive(folder, warehouse, properties, port)  # noqa: E731  twice

    def settings(name: str, place: str) -> CatalogSettings:
        uri = f"thrift://127.0.0.1:{port}"
        return CatalogSettings(name, "hive", {"uri": uri, "warehouse": place, **properties})

    return Mortal(Restarts(start(), start, 0.5), settings)


def _rest(folder: Path, bucket: Mirrored) -> Mortal:
    port, properties = free_port(), bucket.server.properties
    start = lambda: _start_rest(folder, bucket, port)  # noqa: E731  twice

    def settings(name: str, place: str) -> CatalogSettings:
        uri = f"http://127.0.0.1:{port}"
        return CatalogSettings(name, "rest", {"uri": uri, "warehouse": place, **properties})

    return Mortal(Restarts(start(), start, 0.5), settings)


def _start_rest(folder: Path, bucket: Mirrored, port: int) -> Server:
    own = {**bucket.server.properties, "io-impl": "org.apache.iceberg.aws.s3.S3FileIO"}
    return start_rest(folder, f"{bucket.location}/warehouse", own, port)


@pytest.mark.parametrize("start", [_hive, _rest], ids=["hive", "rest"])
def test_a_catalog_that_is_killed_while_it_is_read_or_registered_into_is_waited_for(
    start: Callable[[Path, Mirrored], Mortal], minio: S3Server, tmp_path: Path
) -> None:
    with mirrored(minio, tmp_path / "mirror") as bucket, server_folder() as folder:
        mortal = start(folder, bucket)
        try:
            _kill_twice(mortal, bucket, tmp_path)
        finally:
            mortal.restarts.stop()


def _kill_twice(mortal: Mortal, bucket: Mirrored, folder: Path) -> None:
    restarts = mortal.restarts
    place = f"{bucket.location}/warehouse"
    lake = open_mortal(mortal, bucket, folder, place)
    catalog = lake.product.open(SOURCE)

    def kill_first(*arguments: Any) -> Iterator[Any]:
        if restarts.count == 0:
            restarts.kill()  # after the databases were listed, before the tables are
        return catalog.iter_pointers(*arguments)

    backup = lake.backup(catalog=Wrapped(catalog, "iter_pointers", kill_first))
    assert (backup.failed, len(backup.objects), restarts.count) == ((), 2, 1)
    told = Told("registering", restarts.kill)
    report = lake.restore(told, target_catalog=SOURCE, target_database=("back",))
    assert restarts.count == 2
    assert lake.differences(report) == []
    found = {str(pointer.table) for pointer in lake.product.open(SOURCE).iter_pointers()}
    assert found == {"db.two", "db.three", "back.two", "back.three"}


def open_mortal(mortal: Mortal, bucket: Mirrored, folder: Path, place: str) -> Lake:
    return open_lake(
        bucket, folder, bucket.server.properties, source=mortal.settings(SOURCE, place)
    )


# another writer

OLD, NEW = pa.table({"id": [1, 2, 3]}), pa.table({"id": [4, 5]})


@pytest.fixture(scope="module")
def warehouse(minio: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mirrored]:
    with mirrored(minio, tmp_path_factory.mktemp("rest") / "mirror") as bucket:
        yield bucket


@pytest.fixture(scope="module")
def rest(warehouse: Mirrored) -> Iterator[RestServer]:
    """A REST catalog with its tables in a bucket."""
    with server_folder() as folder:
        server = _start_rest(folder, warehouse, free_port())
        yield RestServer(server)
        server.stop()


class Writer:
    """Another engine at work on one table: pyiceberg, by the catalog's own rules."""

    def __init__(self, rest: RestServer, bucket: Mirrored, name: str) -> None:
        self._bucket = bucket
        catalog = load_catalog("w", type="rest", uri=rest.uri, **bucket.server.properties)
        catalog.create_namespace_if_not_exists("db")
        self._table = catalog.create_table(f"db.{name}", schema=OLD.schema)
        self._table.append(OLD)
        self.pointer = self._table.metadata_location

    def replace(self) -> None:
        """Other rows in place of the old ones: two snapshots more."""
        self._table.overwrite(NEW)
        self.pointer = self._table.metadata_location

    def replace_and_expire(self) -> None:
        """And nothing is left of what there was."""
        before = set(self._files())
        self.replace()
        with self._table.maintenance.expire_snapshots() as expiry:
            keep = self._table.current_snapshot()
            assert keep is not None
            for snapshot in self._table.snapshots():
                if snapshot.snapshot_id != keep.snapshot_id:
                    expiry.by_id(snapshot.snapshot_id)
        self._table.refresh()
        self.pointer = self._table.metadata_location
        client = self._bucket.server.client()
        for key in before:
            client.delete_object(Bucket=self._bucket.bucket, Key=key)

    def _files(self) -> Iterator[str]:
        start = self._table.location().removeprefix(f"{self._bucket.location}/")
        return (key for key in self._bucket.keys() if key.startswith(start))  # noqa: SIM118


@pytest.mark.parametrize("phase", ["reading metadata", "copying"])
@pytest.mark.parametrize("expires", [False, True], ids=["commit", "commit-and-expire"])
def test_a_commit_by_another_writer_leaves_one_of_the_two_states_and_that_whole(
    rest: RestServer, warehouse: Mirrored, tmp_path: Path, phase: str, expires: bool
) -> None:
    name = f"t_{phase.replace(' ', '_')}_{expires}".lower()
    writer = Writer(rest, warehouse, name)
    old = writer.pointer
    properties = warehouse.server.properties
    source = CatalogSettings(SOURCE, "rest", {"uri": rest.uri, **properties})
    place = f"{warehouse.location}/back-{name}"
    target = sql_catalog(TARGET, tmp_path / "target.db", place, properties)
    spec = StorageSpec(str(tmp_path / "repository"))
    product = CloudProduct(Path(), {SOURCE: source, TARGET: target}, InProcess(), spec)
    lake = Lake(warehouse, product, {})
    committed: list[str] = []

    def commit() -> None:
        if not committed:
            (writer.replace_and_expire if expires else writer.replace)()
            committed.append(writer.pointer)

    told = Told(phase, commit)
    only = _only(product.open(SOURCE), name)
    report = lake.backup(told, only)
    assert report.failed == ()
    entry = product.repository.load_entry(report.objects[0].entry)
    assert entry.metadata_location == (committed[0] if expires else old)
    assert any("moved on" in line for line in told.messages) == expires
    [restored] = lake.restore().tables
    assert rows_of(restored.metadata_location, properties) == ([4, 5] if expires else [1, 2, 3])
    # The next backup has the new state in any case.
    lake.backup(catalog=only)
    assert (
        product.repository.load_entry(
            product.repository.find_newest().objects[0].entry  # type: ignore[union-attr]
        ).metadata_location
        == committed[0]
    )


def _only(catalog: Catalog, name: str) -> Wrapped:
    """The catalog with nothing but one table: others belong to other tests."""
    table = TableId(("db",), name)

    def iter_pointers(*_: Any) -> Iterator[Any]:
        found = catalog.find_pointer(table)
        assert found is not None
        return iter([found])

    return Wrapped(catalog, "iter_pointers", iter_pointers)


def rows_of(location: str, properties: dict[str, str]) -> list[int]:
    table = StaticTable.from_metadata(location, properties)
    return sorted(table.scan().to_arrow()["id"].to_pylist())
