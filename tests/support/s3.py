"""Small tables in buckets: written and judged in a folder that mirrors the bucket."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bcn.catalog.protocol import CatalogSettings
from bcn.model import TableId
from bcn.restore.report import RestoreReport
from bcn.storage.protocol import StorageSpec
from tests.support.compare import compare_tables
from tests.support.compare.paths import MIRRORS, local_path
from tests.support.product import Product
from tests.support.servers import S3Server
from tests.support.shapes.twin import write_twin


@dataclass(frozen=True)
class Mirrored:
    """A bucket, and a folder with the same files."""

    server: S3Server
    bucket: str
    folder: Path

    @property
    def location(self) -> str:
        return f"s3://{self.bucket}"

    def upload(self) -> None:
        client = self.server.client()
        for path in sorted(self.folder.rglob("*")):
            if path.is_file():
                key = str(path.relative_to(self.folder))
                client.put_object(Bucket=self.bucket, Key=key, Body=path.read_bytes())

    def download(self) -> None:
        client = self.server.client()
        for key in self.keys():
            path = self.folder / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(client.get_object(Bucket=self.bucket, Key=key)["Body"].read())

    def keys(self) -> list[str]:
        pages = self.server.client().get_paginator("list_objects_v2").paginate(Bucket=self.bucket)
        return [item["Key"] for page in pages for item in page.get("Contents", ())]

    def empty(self) -> None:
        for key in self.keys():
            self.server.client().delete_object(Bucket=self.bucket, Key=key)


@contextmanager
def mirrored(server: S3Server, folder: Path) -> Iterator[Mirrored]:
    """A new bucket; its locations are known to the comparison while the block lasts."""
    place = Mirrored(server, server.make_bucket(), folder)
    folder.mkdir(parents=True, exist_ok=True)
    MIRRORS[place.location] = folder
    try:
        yield place
    finally:
        del MIRRORS[place.location]


@dataclass
class CloudProduct(Product):
    """A product whose repository is wherever its location says."""

    repository_spec: StorageSpec = field(default_factory=lambda: StorageSpec(""))

    @property
    def spec(self) -> StorageSpec:
        return self.repository_spec


def sql_catalog(
    name: str, db_path: Path, warehouse: str, properties: Mapping[str, str]
) -> CatalogSettings:
    return CatalogSettings(
        name, "sql", {"uri": f"sqlite:///{db_path}", "warehouse": warehouse, **properties}
    )


def add_twins(product: Product, catalog: str, warehouse: str) -> dict[str, str]:
    """A version 2 and a version 3 table, registered; their metadata files by name."""
    opened = product.open(catalog)
    opened.create_namespace(("db",), {})
    found = {}
    for version, name in ((2, "two"), (3, "three")):
        found[name] = write_twin(f"{warehouse}/db/{name}", version)
        metadata = local_path(found[name])
        own = f"00000000-0000-0000-0000-00000000000{version}"
        metadata.write_text(
            metadata.read_text().replace(f"{'0' * 8}-0000-0000-0000-{'0' * 11}1", own)
        )
        opened.register(TableId(("db",), name), found[name])
    return found


def differences(sources: Mapping[str, str], report: RestoreReport) -> list[str]:
    """How restored tables differ from their sources, both as they are in folders."""
    found = []
    for table in report.tables:
        roots = [(move.old, move.new) for move in table.roots]
        source = sources[table.table.name]
        found += [str(item) for item in compare_tables(source, table.metadata_location, roots)]
    return found
