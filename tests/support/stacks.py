"""Stacks: a catalog of each type on each store, as bcn and as Spark know it, and how it is emptied.

What Spark is told is written here by hand, so that it does not depend on what bcn derives.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bcn.catalog.protocol import CatalogSettings
from bcn.model import TableId
from tests.support.compare.paths import local_path
from tests.support.glue import ACCESS_KEY, SECRET_KEY, GlueServer
from tests.support.hive import HiveServer
from tests.support.rest import RestServer
from tests.support.servers import S3Server
from tests.support.spark import add_catalog

CATALOGS = ("hadoop", "sql", "hive", "rest", "glue")
LOCAL, MINIO = "local", "minio"
STORES = (LOCAL, MINIO)
_REGIONS = {LOCAL: "us-east-1", MINIO: "eu-west-1"}  # a Glue for each store
_S3_IO = "org.apache.iceberg.aws.s3.S3FileIO"
_LOCAL_IO = "org.apache.iceberg.hadoop.HadoopFileIO"


def _nothing() -> None:
    """Where the files are the catalog, there is nothing else to forget."""


@dataclass(frozen=True)
class Stack:
    """A catalog on a store."""

    kind: str
    store: str
    place: str
    """Where it puts tables, as it spells that."""

    settings: CatalogSettings
    spark: Mapping[str, str] = field(repr=False)
    server: S3Server | None = field(default=None, repr=False)
    forget: Callable[[], None] = field(default=_nothing, repr=False)
    """Drops the catalog's records behind everybody's back; files stay."""

    record: Callable[[TableId], str] = field(default=lambda _: "", repr=False)
    """All that the catalog itself has written down of a table."""

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.store}"

    @property
    def catalog(self) -> str:
        """What bcn and Spark call it."""
        return self.settings.name

    @property
    def keeps_views(self) -> bool:
        return self.kind in {"sql", "hive", "rest"}

    @property
    def is_lower_case(self) -> bool:
        return self.kind in {"hive", "glue"}

    def spark_name(self, table: TableId) -> str:
        return ".".join(f"`{level}`" for level in (self.catalog, *table.namespace, table.name))

    # its files

    def names(self, under: str = "") -> dict[str, int]:
        """Sizes of all files in a folder of its place, by their names from the place on."""
        if self.server is None:
            root = local_path(self.place)
            paths = (path for path in (root / under).rglob("*") if path.is_file())
            return {str(path.relative_to(root)): path.stat().st_size for path in paths}
        return {key: size for key, size in self._objects(under) if not key.endswith("/")}

    def _objects(self, under: str = "") -> list[tuple[str, int]]:
        """Keys and sizes, also of the empty objects that Hadoop makes for folders."""
        assert self.server is not None
        _, bucket, key = _split(self.place)
        listed = self.server.client().get_paginator("list_objects_v2")
        pages = listed.paginate(Bucket=bucket, Prefix=f"{key}/{under}")
        items = [item for page in pages for item in page.get("Contents", ())]
        return [(item["Key"].removeprefix(f"{key}/"), item["Size"]) for item in items]

    def copy_to(self, folder: Path, under: str = "") -> None:
        """All files of a folder of its place, into a folder."""
        if self.server is None:
            shutil.copytree(local_path(self.place) / under, folder / under, dirs_exist_ok=True)
            return
        _, bucket, key = _split(self.place)
        client = self.server.client()
        for name in self.names(under):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            found = client.get_object(Bucket=bucket, Key=f"{key}/{name}")
            path.write_bytes(found["Body"].read())

    def remove(self) -> None:
        """All files and all records: nothing is left of what was there."""
        self.forget()
        if self.server is None:
            shutil.rmtree(local_path(self.place))
            return
        _, bucket, key = _split(self.place)
        client = self.server.client()
        for name, _ in self._objects():
            client.delete_object(Bucket=bucket, Key=f"{key}/{name}")

    def resolve_in(self, folder: Path) -> Callable[[str], Path]:
        """Where `copy_to` put what a location names."""

        def resolve(location: str) -> Path:
            if self.server is None:
                return folder / local_path(location).relative_to(local_path(self.place))
            scheme, bucket, key = _split(location)
            expected = _split(self.place)
            assert (scheme, bucket) == expected[:2], location
            return folder / Path(key).relative_to(expected[2])

        return resolve

    def reading(self) -> dict[str, str]:
        """Properties by which pyiceberg opens its files."""
        return {} if self.server is None else dict(self.server.properties)


def _split(location: str) -> tuple[str, str, str]:
    parts = urlsplit(location)
    return parts.scheme, parts.netloc, parts.path.strip("/")


# how they are made


@dataclass
class Servers:
    """The servers of a run, and a folder for what is local."""

    folder: Path
    minio: S3Server
    hive: Mapping[str, HiveServer]
    rest: Mapping[str, RestServer]
    rest_places: Mapping[str, str]  # a REST server decides by itself where tables are
    glue: GlueServer
    prefix: str = ""
    """Before the catalogs' names: Spark keeps a name for the whole session."""

    def open(self, kind: str, store: str) -> Stack:
        makers = {
            "hadoop": self._hadoop,
            "sql": self._sql,
            "hive": self._hive,
            "rest": self._rest,
            "glue": self._glue,
        }
        return makers[kind](f"{self.prefix}{kind}_{store}", store)

    def _place(self, name: str, store: str, scheme: str = "s3") -> str:
        if store == LOCAL:
            return str(self.folder / name / "warehouse")
        return f"{scheme}://{self.minio.make_bucket()}/warehouse"

    def _stack(self, kind: str, store: str, settings: CatalogSettings, **more: Any) -> Stack:
        server = self.minio if store == MINIO else None
        return Stack(
            kind, store, str(settings.properties["warehouse"]), settings, server=server, **more
        )

    def _both(self, store: str) -> dict[str, str]:
        """What bcn's sections have of the store."""
        return dict(self.minio.properties) if store == MINIO else {}

    def _io(self, store: str) -> dict[str, str]:
        """What Spark's catalogs have of the store."""
        return s3_for_spark(self.minio) if store == MINIO else {"io-impl": _LOCAL_IO}

    def _hadoop(self, name: str, store: str) -> Stack:
        place = self._place(name, store, "s3a")
        settings = CatalogSettings(name, "hadoop", {"warehouse": place, **self._both(store)})
        spark = {"type": "hadoop", "warehouse": place}
        if store == MINIO:
            spark |= {f"hadoop.{key}": value for key, value in hadoop_for_spark(self.minio).items()}
        return self._stack("hadoop", store, settings, spark=spark)

    def _sql(self, name: str, store: str) -> Stack:
        database, place = self.folder / f"{name}.db", self._place(name, store)
        properties = {"uri": f"sqlite:///{database}", "warehouse": place, **self._both(store)}
        spark = {
            "type": "jdbc",
            "uri": f"jdbc:sqlite:{database}",
            "jdbc.schema-version": "V1",
            "warehouse": place,
            **self._io(store),
        }
        return self._stack(
            "sql",
            store,
            CatalogSettings(name, "sql", properties),
            spark=spark,
            forget=lambda: _empty_database(database),
            record=lambda table: _database_row(database, table),
        )

    def _hive(self, name: str, store: str) -> Stack:
        server, place = self.hive[store], self._place(name, store)
        settings = server.settings(name, place, **self._both(store))
        spark = {"type": "hive", "uri": server.uri, "warehouse": place, **self._io(store)}

        def record(table: TableId) -> str:
            with server.client() as client:
                return str(client.get_table(*table.namespace, table.name))

        return self._stack("hive", store, settings, spark=spark, forget=server.empty, record=record)

    def _rest(self, name: str, store: str) -> Stack:
        server = self.rest[store]
        database = Path(server.server.folder) / "catalog.db"
        place = self.rest_places[store]
        settings = server.settings(name, **{**self._both(store), "warehouse": place})
        spark = {"type": "rest", "uri": server.uri, **self._io(store)}
        return self._stack(
            "rest",
            store,
            settings,
            spark=spark,
            forget=lambda: _empty_database(database),
            record=lambda table: _database_row(database, table),
        )

    def _glue(self, name: str, store: str) -> Stack:
        place, region = self._place(name, store), _REGIONS[store]
        place = f"file://{place}" if store == LOCAL else place
        client = self.glue.client(region)
        own = {**self.glue.properties(region), "warehouse": place, **self._both(store)}
        spark = {
            "type": "glue",
            "warehouse": place,
            "glue.endpoint": self.glue.endpoint,
            **self._io(store),
            "client.region": region,
        }

        def forget() -> None:
            for database in client.get_databases()["DatabaseList"]:
                client.delete_database(Name=database["Name"])

        def record(table: TableId) -> str:
            return str(client.get_table(DatabaseName=table.namespace[0], Name=table.name)["Table"])

        settings = CatalogSettings(name, "glue", own)
        return self._stack("glue", store, settings, spark=spark, forget=forget, record=record)


def s3_for_spark(server: S3Server) -> dict[str, str]:
    """Iceberg's own names for files on S3."""
    return {
        "io-impl": _S3_IO,
        "s3.endpoint": server.endpoint,
        "s3.access-key-id": server.properties["s3.access-key-id"],
        "s3.secret-access-key": server.properties["s3.secret-access-key"],
        "s3.path-style-access": "true",
        "client.region": "us-east-1",
    }


def hadoop_for_spark(server: S3Server) -> dict[str, str]:
    """Hadoop's own names for files on S3."""
    return {
        "fs.s3a.endpoint": server.endpoint,
        "fs.s3a.endpoint.region": "us-east-1",
        "fs.s3a.path.style.access": "true",
        "fs.s3a.access.key": server.properties["s3.access-key-id"],
        "fs.s3a.secret.key": server.properties["s3.secret-access-key"],
    }


def add_to_spark(spark: Any, stack: Stack) -> None:
    """Makes it known to Spark; keys of Glue's own are taken from Java's properties."""
    if stack.kind == "glue":
        for key, value in {"accessKeyId": ACCESS_KEY, "secretAccessKey": SECRET_KEY}.items():
            spark._jvm.System.setProperty(f"aws.{key}", value)
    add_catalog(spark, stack.catalog, dict(stack.spark))


def current_metadata(spark: Any, quoted: str) -> str:
    """The table's metadata file, by Iceberg's own catalog."""
    util = spark._jvm.org.apache.iceberg.spark.Spark3Util
    table = util.loadIcebergTable(spark._jsparkSession, quoted)
    return str(table.operations().current().metadataFileLocation())


def _empty_database(path: Path) -> None:
    with closing(sqlite3.connect(path, timeout=30)) as connection, connection:
        connection.execute("DELETE FROM iceberg_tables")
        connection.execute("DELETE FROM iceberg_namespace_properties")


def _database_row(path: Path, table: TableId) -> str:
    query = "SELECT * FROM iceberg_tables WHERE table_namespace = ? AND table_name = ?"
    values = (".".join(table.namespace), table.name)
    with closing(sqlite3.connect(path, timeout=30)) as connection:
        return str(connection.execute(query, values).fetchall())
