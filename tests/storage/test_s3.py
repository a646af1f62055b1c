"""What is special about S3: names, parts, lost answers, throttling, spellings of places."""

from __future__ import annotations

import os
import threading
import uuid
from collections import defaultdict, deque
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from bcn.errors import KeyExistsError, StorageError
from bcn.storage import cloud_stream
from bcn.storage.cloud import sort_by_segment
from bcn.storage.cloud_stream import PART_BYTES
from bcn.storage.open import Stores, canonical_location, open_storage, overlaps
from bcn.storage.protocol import CHUNK_BYTES, Access, Storage, StorageSpec, Writer
from bcn.storage.requests import request_counts
from bcn.storage.s3 import S3Bucket, _checksum
from tests.support.proxy import SLOW_DOWN, Lose, Proxy, Refuse, Request, open_proxy
from tests.support.servers import S3Server

WHOLE_BYTES = S3Bucket.whole_bytes


@pytest.fixture(scope="module")
def bucket(minio: S3Server) -> str:
    return minio.make_bucket()


@pytest.fixture
def spec(minio: S3Server, bucket: str) -> StorageSpec:
    return StorageSpec(f"s3://{bucket}/{uuid.uuid4()}", minio.properties)


@pytest.fixture
def storage(spec: StorageSpec) -> Storage:
    return open_storage(spec)


@pytest.fixture
def proxy(minio: S3Server) -> Iterator[Proxy]:
    with open_proxy(minio.server.address) as found:
        yield found


@pytest.fixture
def troubled(spec: StorageSpec, proxy: Proxy) -> Storage:
    """The same place, through the proxy."""
    return open_storage(
        StorageSpec(spec.location, {**spec.properties, "s3.endpoint": proxy.endpoint})
    )


# names

ODD = ["a//b", "a/./b", "a/../b", "/lead", "trail/", ".", "..", "a//", "x\x01y", "x\x7fy", "b\\s"]


@pytest.mark.parametrize("server", ["minio", "seaweed"])
@pytest.mark.parametrize("key", ODD)
def test_a_name_is_kept_exactly_or_refused(
    server: str, key: str, request: pytest.FixtureRequest
) -> None:
    found: S3Server = request.getfixturevalue(server)
    name = found.make_bucket()
    storage, _ = Stores(Access(found.properties)).resolve(f"s3://{name}/x")
    refused: StorageError | None = None
    try:
        storage.write_once(key, b"bytes")
    except StorageError as error:
        refused = error
    if refused is not None:
        assert not isinstance(refused, KeyExistsError)
        assert list(storage.iter_keys("")) == []
    else:
        assert list(storage.iter_keys("")) == [key]
        assert storage.read(key) == b"bytes"
        with storage.open_reader(key) as reader:
            buffer = memoryview(bytearray(10))
            assert reader.readinto(buffer) == 5
        assert storage.find_stat(key) is not None
        with pytest.raises(KeyExistsError):
            storage.write_once(key, b"other")
        storage.delete(key)
        assert list(storage.iter_keys("")) == []


def test_a_folder_that_a_console_made_is_no_key(
    storage: Storage, spec: StorageSpec, minio: S3Server
) -> None:
    place = spec.location.removeprefix("s3://")
    bucket, _, root = place.partition("/")
    minio.client().put_object(Bucket=bucket, Key=f"{root}/folder/", Body=b"")
    storage.write_once("folder/key", b"x")
    assert list(storage.iter_keys("")) == ["folder/key"]
    storage.delete_all("folder/")
    found = minio.client().list_objects_v2(Bucket=bucket, Prefix=root)
    assert found["KeyCount"] == 0


def test_keys_are_sorted_by_segment_over_many_pages(storage: Storage) -> None:
    keys = [f"{top}/{number:04d}" for top in ("a", "a-b", "a.b/c", "ab") for number in range(600)]
    threads = [
        threading.Thread(target=lambda part=part: [storage.replace(k, b"") for k in part])  # type: ignore[misc]
        for part in (keys[0::8], keys[1::8], keys[2::8], keys[3::8], keys[4::8], keys[5::8])
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    written = [key for index, key in enumerate(keys) if index % 8 < 6]
    assert list(storage.iter_keys("")) == sorted(written, key=lambda key: key.split("/"))
    storage.delete_all("")
    assert list(storage.iter_keys("")) == []


def test_sorting_holds_back_only_what_it_must() -> None:
    seen: list[str] = []

    def listing() -> Iterator[str]:
        for key in ("p/a", "p/b-c", "p/b/d", "p/c", "p/d"):
            seen.append(key)
            yield key

    ordered = sort_by_segment(listing(), len("p/"))
    assert next(ordered) == "p/a"
    assert len(seen) == 2
    assert list(ordered) == ["p/b/d", "p/b-c", "p/c", "p/d"]


# streams


@pytest.fixture
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """As small as S3 takes them, and none from before."""
    monkeypatch.setattr(cloud_stream, "PART_BYTES", 5 << 20)
    monkeypatch.setattr(cloud_stream, "_free", defaultdict(deque))


def _fill(writer: Writer, byte: bytes, pieces: int) -> list[memoryview]:
    """Write such bytes through the writer's own memory; gives the pieces of it."""
    own, lent = memoryview(bytearray(CHUNK_BYTES)), []
    for _ in range(pieces):
        room = writer.room(own)
        room[:] = byte * len(room)
        writer.write(room)
        lent += [room] if room.obj is not own.obj else []
    return lent


@pytest.mark.usefixtures("_small_parts")
def test_memory_of_parts_keeps_its_bytes_until_it_is_let_go(storage: Storage) -> None:
    with storage.open_writer("first") as writer:
        lent = _fill(writer, b"a", 45)
        writer.commit()
    memories = {id(piece.obj): piece.obj for piece in lent}
    assert len(memories) >= 3
    with storage.open_writer("second") as other:
        others = _fill(other, b"b", 45)
        other.commit()
    assert {bytes(piece) for piece in lent} == {b"a" * len(lent[0])}  # sent, and not used again
    assert set(memories).isdisjoint(id(piece.obj) for piece in others)
    for memory in memories.values():
        writer.let_go(memory)
    with storage.open_writer("third") as third:
        again = _fill(third, b"c", 45)
        third.commit()
    assert set(memories) == {id(piece.obj) for piece in again}
    for number, key in enumerate(("first", "second", "third")):
        assert set(storage.read(key)) == {b"abc"[number]}


@pytest.mark.usefixtures("_small_parts")
def test_memory_that_is_let_go_before_it_was_sent_is_sent_first(storage: Storage) -> None:
    with storage.open_writer("key") as writer:
        lent = _fill(writer, b"a", 12)
        current = lent[-1].obj
        writer.let_go(current)
        assert not any(cloud_stream._free.values())
        writer.commit()
    assert [part.view.obj for part in cloud_stream._free[5 << 20]] == [current]
    assert set(storage.read("key")) == set(b"a")


def _pattern(size_bytes: int) -> bytes:
    return os.urandom(1 << 20) * (size_bytes >> 20) + b"end"


@pytest.mark.parametrize("ranged_bytes", [1, 1 << 40], ids=["by ranges", "as it comes"])
def test_a_large_key_goes_in_parts_and_comes_back(
    ranged_bytes: int,
    storage: Storage,
    spec: StorageSpec,
    minio: S3Server,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bcn.storage.cloud_stream.RANGED_BYTES", ranged_bytes)
    data = b"".join(_pattern(PART_BYTES) for _ in range(4))
    with storage.open_writer("large") as writer:
        for start in range(0, len(data), CHUNK_BYTES):
            writer.write(memoryview(data)[start : start + CHUNK_BYTES])
        assert storage.find_stat("large") is None
        writer.commit()
    bucket, _, root = spec.location.removeprefix("s3://").partition("/")
    assert minio.client().head_object(Bucket=bucket, Key=f"{root}/large")["ETag"].endswith('-5"')
    assert storage.read("large") == data
    found, buffer = bytearray(), memoryview(bytearray(CHUNK_BYTES - 1))
    with storage.open_reader("large") as reader:
        while count := reader.readinto(buffer):
            found += buffer[:count]
    assert found == data


@pytest.mark.parametrize(
    ("told", "size_bytes", "parts"),
    [
        (PART_BYTES + 3, PART_BYTES + 3, 0),
        (WHOLE_BYTES, WHOLE_BYTES, 0),
        (WHOLE_BYTES, WHOLE_BYTES + 3, 2),
        (WHOLE_BYTES + 3, WHOLE_BYTES + 3, 3),
        (0, PART_BYTES + 3, 2),
    ],
    ids=["known", "largest", "longer than told", "too large", "not known"],
)
def test_a_key_of_known_size_goes_by_one_request(
    storage: Storage, spec: StorageSpec, minio: S3Server, told: int, size_bytes: int, parts: int
) -> None:
    data = _pattern(size_bytes)[:size_bytes]
    with storage.open_writer("whole", told) as writer:
        for start in range(0, size_bytes, CHUNK_BYTES):
            writer.write(memoryview(data)[start : start + CHUNK_BYTES])
        assert storage.find_stat("whole") is None
        writer.commit()
    bucket, _, root = spec.location.removeprefix("s3://").partition("/")
    tag = minio.client().head_object(Bucket=bucket, Key=f"{root}/whole")["ETag"].strip('"')
    assert int(tag.partition("-")[2] or 0) == parts
    assert storage.read("whole") == data


def test_new_memory_comes_in_the_place_of_what_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    free: defaultdict[int, deque[cloud_stream._Part]] = defaultdict(deque)
    monkeypatch.setattr(cloud_stream, "_free", free)
    whole, *small = [cloud_stream._Part(size) for size in (WHOLE_BYTES, *[PART_BYTES] * 4)]
    for part in (whole, *small):
        part.release()
    assert cloud_stream._take_part(PART_BYTES) is small[3]
    assert cloud_stream._take_part(WHOLE_BYTES) is whole
    assert len(cloud_stream._take_part(WHOLE_BYTES).view) == WHOLE_BYTES
    assert [*free[PART_BYTES]] == [small[0]]
    assert [*free[WHOLE_BYTES]] == []


def test_a_reader_can_be_left_halfway(storage: Storage) -> None:
    storage.write_once("large", _pattern(2 * PART_BYTES))
    with storage.open_reader("large") as reader:
        assert reader.readinto(memoryview(bytearray(100))) == 100


def test_what_changes_while_it_is_read_is_not_mixed(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bcn.storage.cloud_stream.RANGED_BYTES", 1)
    storage.write_once("large", _pattern(4 * PART_BYTES))
    with storage.open_reader("large") as reader:
        assert reader.readinto(memoryview(bytearray(100))) == 100
        storage.replace("large", _pattern(4 * PART_BYTES))
        rest = memoryview(bytearray(4 * PART_BYTES))
        with pytest.raises(StorageError, match="changed"):
            reader.readinto(rest)


def test_a_large_key_that_is_taken_is_left_alone(
    storage: Storage, spec: StorageSpec, minio: S3Server
) -> None:
    bucket, _, root = spec.location.removeprefix("s3://").partition("/")
    uploads = partial(minio.client().list_multipart_uploads, Bucket=bucket, Prefix=f"{root}/large")
    with storage.open_writer("large") as writer:
        writer.write(_pattern(2 * PART_BYTES))
        assert len(uploads()["Uploads"]) == 1
        storage.write_once("large", b"early")
        with pytest.raises(KeyExistsError):
            writer.commit()
    assert storage.read("large") == b"early"
    assert "Uploads" not in uploads()


@pytest.mark.parametrize("server", ["minio", "seaweed"])
def test_an_upload_that_nobody_ended_is_a_leftover(
    server: str, request: pytest.FixtureRequest
) -> None:
    found: S3Server = request.getfixturevalue(server)
    bucket = found.make_bucket()
    storage = open_storage(StorageSpec(f"s3://{bucket}/root", found.properties))
    client = found.client()
    begun = client.create_multipart_upload(Bucket=bucket, Key="root/data/large")
    client.upload_part(
        Bucket=bucket,
        Key="root/data/large",
        UploadId=begun["UploadId"],
        PartNumber=1,
        Body=b"x" * 1000,
    )
    leftovers = list(storage.iter_leftovers("data/"))
    if server == "minio":  # it lists uploads by whole names only, and ends old ones by itself
        assert leftovers == []
        return
    (leftover,) = leftovers
    stat = storage.find_stat(leftover)
    assert stat is not None
    assert stat.size_bytes == 1000
    storage.delete(leftover)
    assert list(storage.iter_leftovers("")) == []
    assert storage.find_stat(leftover) is None


# answers that get lost


def _lose_once(method: str, path: str) -> Any:
    lost: list[str] = []

    def rule(request: Request) -> None:
        if request.method == method and path in request.path and not lost:
            lost.append(request.path)
            raise Lose

    return rule


def test_a_write_whose_answer_was_lost_is_no_taken_key(troubled: Storage, proxy: Proxy) -> None:
    proxy.rule = _lose_once("PUT", "/key")
    troubled.write_once("key", b"mine")
    assert troubled.read("key") == b"mine"
    puts = [request for request in proxy.seen if request.method == "PUT"]
    assert sum(request.path.endswith("/key") for request in puts) == 2


def test_equal_bytes_of_somebody_else_are_no_success(
    troubled: Storage, storage: Storage, proxy: Proxy
) -> None:
    storage.write_once("key", b"same")

    def rule(request: Request) -> None:
        if request.method == "PUT" and sum(item.method == "PUT" for item in proxy.seen) == 1:
            raise Refuse(503, SLOW_DOWN)

    proxy.rule = rule
    with pytest.raises(KeyExistsError):
        troubled.write_once("key", b"same")


def test_an_upload_whose_end_was_lost_is_there_once(troubled: Storage, proxy: Proxy) -> None:
    proxy.rule = _lose_once("POST", "uploadId=")
    data = _pattern(2 * PART_BYTES)
    with troubled.open_writer("large") as writer:
        writer.write(data)
        writer.commit()
    assert troubled.read("large") == data


def test_a_whole_object_that_is_taken_is_left_alone(storage: Storage) -> None:
    data = _pattern(PART_BYTES)
    _write(storage, "whole", b"early")
    for _ in range(5):
        with storage.open_writer("whole", len(data)) as late:
            late.write(data)
            with pytest.raises(KeyExistsError):
                late.commit()
    assert storage.read("whole") == b"early"


def test_a_whole_object_whose_answer_was_lost_is_there_once_and_its_memory_is_left_alone(
    troubled: Storage, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    free: defaultdict[int, deque[cloud_stream._Part]] = defaultdict(deque)
    monkeypatch.setattr(cloud_stream, "_free", free)
    proxy.rule = _lose_once("PUT", "whole")
    data = _pattern(PART_BYTES)
    with troubled.open_writer("whole", len(data)) as writer:
        writer.write(data)
        writer.commit()
    assert [item.method for item in proxy.seen if "whole" in item.path].count("PUT") >= 2
    assert troubled.read("whole") == data
    assert not any(free.values())


def test_a_reader_goes_on_after_a_broken_connection(
    troubled: Storage, storage: Storage, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bcn.storage.cloud_stream.RANGED_BYTES", 1)
    data = _pattern(3 * PART_BYTES)
    storage.write_once("large", data)
    gets: list[int] = []

    def rule(request: Request) -> None:
        if request.method == "GET":
            gets.append(request.number)
            if len(gets) in {2, 3}:
                raise Lose

    proxy.rule = rule
    buffer = memoryview(bytearray(len(data)))
    with troubled.open_reader("large") as reader:
        assert reader.readinto(buffer) == len(data)
    assert buffer == data


def _write(storage: Storage, key: str, data: bytes) -> None:
    with storage.open_writer(key) as writer:
        writer.write(data)
        writer.commit()


@pytest.mark.parametrize("size_bytes", [1 << 20, 2 * PART_BYTES])
def test_bytes_that_suffered_on_their_way_are_not_stored(
    storage: Storage, size_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bcn.storage.s3._checksum", lambda data: _checksum(b"!" + bytes(data)))
    with pytest.raises(StorageError, match=r"[Cc]hecksum"):
        _write(storage, "key", _pattern(size_bytes))
    assert storage.find_stat("key") is None


def test_a_server_that_asks_to_slow_down_is_waited_for(troubled: Storage, proxy: Proxy) -> None:
    def rule(request: Request) -> None:
        if request.number % 3 == 0:
            raise Refuse(503, SLOW_DOWN)

    proxy.rule = rule
    before = request_counts()
    for number in range(12):
        troubled.write_once(f"key-{number:02d}", b"x")
    assert len(list(troubled.iter_keys(""))) == 12
    assert all(troubled.find_stat(f"key-{number:02d}") for number in range(12))
    after = request_counts()
    assert after["retry"] - before.get("retry", 0) >= 8
    assert after["put"] - before.get("put", 0) >= 12


def test_requests_are_counted_by_kind(storage: Storage) -> None:
    storage.write_once("first", b"")
    before = request_counts()
    storage.write_once("key", b"x")
    storage.read("key")
    storage.find_stat("key")
    list(storage.iter_keys(""))
    storage.delete("key")
    after = request_counts()
    kinds = ("put", "get", "head", "list", "delete")
    assert {kind: after[kind] - before.get(kind, 0) for kind in kinds} == dict.fromkeys(kinds, 1)


# spellings


def test_spellings_of_one_place_are_one_place() -> None:
    places = ["s3://b/x", "s3a://b/x/", "s3n://b//x", "S3://b/x"]
    assert {canonical_location(place) for place in places} == {"s3://b/x"}
    assert overlaps("s3a://b/warehouse", "s3://b/warehouse/db/t")
    assert overlaps("s3://b", "s3n://b/warehouse")
    assert not overlaps("s3://b/warehouse", "s3://b/warehouse2")
    assert not overlaps("s3://b/warehouse", "s3://c/warehouse")
    assert not overlaps("s3://b/x", "/b/x")


def test_every_spelling_opens_the_same_bytes(spec: StorageSpec, storage: Storage) -> None:
    storage.write_once("key", b"x")
    stores = Stores(Access(spec.properties))
    for scheme in ("s3", "s3a", "s3n"):
        found, key = stores.resolve(f"{scheme}{spec.location.removeprefix('s3')}/key")
        assert found.read(key) == b"x"


def test_secrets_are_not_in_the_text_of_a_storage(storage: Storage, minio: S3Server) -> None:
    bucket = storage.bucket  # type: ignore[attr-defined]
    text = repr(vars(storage)) + repr(vars(bucket)) + repr(bucket.connection.settings)
    assert minio.properties["s3.secret-access-key"] not in text
