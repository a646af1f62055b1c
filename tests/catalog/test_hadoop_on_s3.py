"""A Hadoop catalog whose folders are prefixes of keys."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from bcn.catalog.open import open_catalog
from bcn.catalog.protocol import Catalog, CatalogSettings
from bcn.errors import CatalogError, TargetExistsError, UnsupportedCatalogError
from bcn.model import TableId
from bcn.storage.open import open_storage
from bcn.storage.protocol import Storage
from tests.support.servers import SECRET_KEY, S3Server

TABLE = TableId(("db",), "t")
FIRST = "metadata/v1.metadata.json"


@pytest.fixture
def bucket(minio: S3Server) -> str:
    return minio.make_bucket()


@pytest.fixture
def store(minio: S3Server, bucket: str) -> Storage:
    return open_storage(settings_at(minio, f"s3://{bucket}").access().spec(f"s3://{bucket}/wh"))


def settings_at(server: S3Server, warehouse: str, **more: str) -> CatalogSettings:
    properties = {"warehouse": warehouse, **server.properties, **more}
    return CatalogSettings("prod", "hadoop", properties)


def open_at(server: S3Server, warehouse: str, **more: str) -> Catalog:
    return open_catalog(settings_at(server, warehouse, **more))


def listed(catalog: Catalog) -> list[str]:
    return [pointer.metadata_location for pointer in catalog.iter_pointers()]


@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n"])
def test_locations_keep_the_spelling_of_the_warehouse(
    minio: S3Server, bucket: str, store: Storage, scheme: str
) -> None:
    warehouse = f"{scheme}://{bucket}/wh"
    store.write_once(f"db/t/{FIRST}", b"{}")
    catalog = open_at(minio, f"{warehouse}/")
    catalog.register(TABLE, f"{warehouse}/db/t/{FIRST}")
    assert listed(open_at(minio, warehouse)) == [f"{warehouse}/db/t/{FIRST}"]
    assert catalog.default_location(TABLE) == f"{warehouse}/db/t"
    assert store.read("db/t/metadata/version-hint.text") == b"1"


def test_a_warehouse_may_be_a_whole_bucket(minio: S3Server, bucket: str, store: Storage) -> None:
    store.write_once(f"db/t/{FIRST}", b"{}")
    catalog = open_at(minio, f"s3://{bucket}")
    assert listed(catalog) == [f"s3://{bucket}/wh/db/t/{FIRST}"]
    assert list(catalog.iter_namespaces()) == [("wh",), ("wh", "db")]


def test_no_bucket_no_key_and_no_server_are_no_empty_catalog(minio: S3Server, bucket: str) -> None:
    catalogs = {
        "there is no warehouse at s3://": open_at(minio, f"s3://{bucket}/nothing"),
        "there is no such bucket": open_at(minio, "s3://no-such-bucket-here/wh"),
        "no connection": open_at(minio, f"s3://{bucket}/wh", **{"s3.endpoint": "http://[::1]:9"}),
        "credentials are not accepted": open_at(
            minio, f"s3://{bucket}/wh", **{"s3.access-key-id": "nobody"}
        ),
    }
    for words, catalog in catalogs.items():
        for read in (listed, lambda found: list(found.iter_namespaces())):
            with pytest.raises(CatalogError, match=words) as caught:
                read(catalog)
            assert caught.value.exit_code == 14
            assert caught.value.hint
            assert SECRET_KEY not in str(caught.value)


def test_objects_that_stand_for_folders_and_loose_ones_are_passed_over(
    minio: S3Server, bucket: str, store: Storage
) -> None:
    client = minio.client()
    for key in ("wh/", "wh/db/", "wh/db/t/", "wh/db/t/metadata/", "wh/README", "wh/.hidden/t/x"):
        client.put_object(Bucket=bucket, Key=key, Body=b"")
    store.write_once(f"db/t/{FIRST}", b"{}")
    store.write_once("db/half/metadata/snap-1.avro", b"")
    catalog = open_at(minio, f"s3://{bucket}/wh")
    assert listed(catalog) == [f"s3://{bucket}/wh/db/t/{FIRST}"]
    assert list(catalog.iter_namespaces()) == [("db",)]


def test_the_current_version_is_the_one_that_iceberg_reads(
    minio: S3Server, bucket: str, store: Storage
) -> None:
    expected = {
        "behind": ("2", ["v1", "v2", "v3", "v4.gz", "v6"], "v4.gz.metadata.json"),
        "lost": ("5", ["v3", "v4"], "v5.metadata.json"),
        "none": (None, ["v2", "v10", "v9"], "v10.metadata.json"),
        "odd": ("x", ["v1", "v7.gz"], "v7.gz.metadata.json"),
    }
    for name, (hint, versions, _current) in expected.items():
        for version in versions:
            store.write_once(f"db/{name}/metadata/{version}.metadata.json", b"{}")
        if hint is not None:
            store.write_once(f"db/{name}/metadata/version-hint.text", hint.encode())
    catalog = open_at(minio, f"s3://{bucket}/wh")
    assert listed(catalog) == [
        f"s3://{bucket}/wh/db/{name}/metadata/{expected[name][2]}" for name in sorted(expected)
    ]


def test_only_the_one_first_version_is_registered(
    minio: S3Server, bucket: str, store: Storage
) -> None:
    warehouse = f"s3://{bucket}/wh"
    catalog = open_at(minio, warehouse)
    with pytest.raises(CatalogError, match="missing"):
        catalog.register(TABLE, f"{warehouse}/db/t/{FIRST}")
    store.write_once(f"db/t/{FIRST}", b"{}")
    for elsewhere in (f"{warehouse}/db/u/{FIRST}", f"s3://other/wh/db/t/{FIRST}", f"/wh/{FIRST}"):
        with pytest.raises(UnsupportedCatalogError, match="only at"):
            catalog.register(TABLE, elsewhere)
    store.write_once("db/t/metadata/v4.metadata.json", b"{}")
    with pytest.raises(TargetExistsError, match="another table"):
        catalog.register(TABLE, f"{warehouse}/db/t/{FIRST}")
    assert store.find_stat("db/t/metadata/version-hint.text") is None


def test_a_thousand_tables_are_listed_in_seconds(
    minio: S3Server, bucket: str, store: Storage
) -> None:
    document = json.dumps({}).encode()

    def add(number: int) -> None:
        metadata = f"db{number % 40}/t{number}/metadata"
        store.replace(f"{metadata}/v1.metadata.json", document)
        store.replace(f"{metadata}/version-hint.text", b"1")

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(add, range(1000)))
    started = time.perf_counter()
    assert len(listed(open_at(minio, f"s3a://{bucket}/wh"))) == 1000
    assert time.perf_counter() - started < 15
