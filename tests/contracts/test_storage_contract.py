"""What every storage promises, on every storage there is."""

from __future__ import annotations

import multiprocessing
import os
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from bcn.errors import KeyExistsError, MissingKeyError, StorageError
from bcn.storage.cloud_stream import PART_BYTES
from bcn.storage.open import open_storage
from bcn.storage.protocol import CHUNK_BYTES, Storage, StorageSpec
from tests.support.azurite import AzureServer
from tests.support.gcs import GcsServer
from tests.support.servers import S3Server


@pytest.fixture(scope="session")
def buckets() -> dict[str, str]:
    """One a server: places in it are told apart by prefix."""
    return {}


@pytest.fixture(params=["file", "seaweed", "minio", "gcs", "azurite"])
def kind(request: pytest.FixtureRequest) -> str:
    """A place of each kind; other kinds of storage join here."""
    return str(request.param)


@pytest.fixture
def spec(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, buckets: dict[str, str]
) -> StorageSpec:
    if kind == "file":
        return StorageSpec(f"file://{tmp_path}/store")
    server: S3Server | GcsServer | AzureServer = request.getfixturevalue(kind)
    if kind not in buckets:
        buckets[kind] = server.location(server.make_bucket())
    return StorageSpec(f"{buckets[kind]}/{uuid.uuid4()}/store", server.properties)


@pytest.fixture
def storage(spec: StorageSpec) -> Storage:
    return open_storage(spec)


def test_what_was_written_is_read(storage: Storage) -> None:
    storage.write_once("a/b", b"bytes")
    assert storage.read("a/b") == b"bytes"


def test_a_key_may_be_empty(storage: Storage) -> None:
    storage.write_once("empty", b"")
    assert storage.read("empty") == b""
    stat = storage.find_stat("empty")
    assert stat is not None
    assert stat.size_bytes == 0


def test_a_taken_key_keeps_its_bytes(storage: Storage) -> None:
    storage.write_once("key", b"first")
    with pytest.raises(KeyExistsError):
        storage.write_once("key", b"second")
    assert storage.read("key") == b"first"


def test_a_key_that_is_not_there_is_missing(storage: Storage) -> None:
    storage.write_once("folder/key", b"x")
    for key in ("nothing", "folder/nothing", "folder/key/below"):
        assert storage.find_stat(key) is None
        with pytest.raises(MissingKeyError):
            storage.read(key)
        with pytest.raises(MissingKeyError), storage.open_reader(key):
            pytest.fail("there is nothing to read")


def test_a_folder_is_no_key(storage: Storage) -> None:
    storage.write_once("folder/key", b"x")
    assert storage.find_stat("folder") is None


def test_a_reader_fills_its_buffer_until_the_end(storage: Storage) -> None:
    data = bytes(range(256)) * (CHUNK_BYTES // 200)
    storage.write_once("large", data)
    buffer = memoryview(bytearray(CHUNK_BYTES))
    with storage.open_reader("large") as reader:
        assert reader.readinto(buffer) == CHUNK_BYTES
        first = bytes(buffer)
        count = reader.readinto(buffer)
        assert first + bytes(buffer[:count]) == data
        assert reader.readinto(buffer) == 0


def test_a_written_stream_appears_when_it_is_committed(storage: Storage) -> None:
    with storage.open_writer("stream") as writer:
        writer.write(b"one ")
        writer.write(memoryview(b"two"))
        assert storage.find_stat("stream") is None
        writer.commit()
        assert storage.read("stream") == b"one two"


@pytest.mark.parametrize("size_bytes", [0, 1, CHUNK_BYTES, PART_BYTES, PART_BYTES + 1])
def test_what_is_read_into_a_writers_room_is_written_where_it_belongs(
    storage: Storage, size_bytes: int
) -> None:
    data = os.urandom(size_bytes)
    rest, own = memoryview(data), memoryview(bytearray(CHUNK_BYTES))
    with storage.open_writer("large") as writer:
        writer.write(b"before")
        while rest:
            room = writer.room(own)[: len(rest)]
            room[:] = rest[: len(room)]
            writer.write(room)
            rest = rest[len(room) :]
        writer.room(own)[:1] = b"x"  # what nobody writes is nobody's
        writer.write(b"after")
        writer.commit()
    assert storage.read("large") == b"before" + data + b"after"


def test_a_stream_that_is_not_committed_leaves_nothing(storage: Storage) -> None:
    with storage.open_writer("folder/stream") as writer:
        writer.write(b"half")
    with suppress(ZeroDivisionError), storage.open_writer("folder/other") as writer:
        writer.write(b"half")
        raise ZeroDivisionError
    assert list(storage.iter_keys("")) == []


def test_a_stream_does_not_overwrite(storage: Storage) -> None:
    with storage.open_writer("key") as writer:
        writer.write(b"late")
        storage.write_once("key", b"early")
        with pytest.raises(KeyExistsError):
            writer.commit()
    assert storage.read("key") == b"early"


def test_replacing_gives_new_bytes_and_another_version(storage: Storage) -> None:
    storage.replace("folder/key", b"one")
    before = storage.find_stat("folder/key")
    storage.replace("folder/key", b"other")
    assert storage.read("folder/key") == b"other"
    assert storage.find_stat("folder/key") != before
    assert list(storage.iter_keys("")) == ["folder/key"]


def test_keys_are_listed_by_prefix_sorted_by_segment(storage: Storage) -> None:
    keys = ["a/b/c", "a/b.d", "a/x", "b", "ab/c"]
    for key in keys:
        storage.write_once(key, b"")
    found = list(storage.iter_keys(""))
    assert sorted(found) == sorted(keys)
    assert found == sorted(keys, key=lambda key: key.split("/"))
    assert list(storage.iter_keys("a/")) == ["a/b/c", "a/b.d", "a/x"]
    assert list(storage.iter_keys("nowhere/")) == []


def test_children_are_keys_and_folders_directly_under_a_prefix(storage: Storage) -> None:
    for key in ("a/b/c", "a/b.d", "a/x", "b", "ab/c", "a/ünï cöde%20/c/d"):
        storage.write_once(key, b"")
    assert list(storage.iter_children("")) == ["a/", "ab/", "b"]
    assert list(storage.iter_children("a/")) == ["a/b.d", "a/b/", "a/x", "a/ünï cöde%20/"]
    assert list(storage.iter_children("a/ünï cöde%20/")) == ["a/ünï cöde%20/c/"]
    for nothing in ("nowhere/", "b/", "a/b/c/"):
        assert list(storage.iter_children(nothing)) == []


def test_children_that_fill_more_than_a_page_are_all_listed(storage: Storage, kind: str) -> None:
    count = 20 if kind == "seaweed" else 1100
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: storage.replace(f"a/{number:04d}/x", b""), range(count)))
    assert list(storage.iter_children("a/")) == [f"a/{number:04d}/" for number in range(count)]


def test_a_half_written_key_is_no_child(storage: Storage) -> None:
    storage.write_once("a/key", b"")
    with storage.open_writer("a/half") as writer:
        writer.write(b"x")
        assert list(storage.iter_children("a/")) == ["a/key"]


def test_a_folder_is_there_with_its_keys_or_if_it_was_made(storage: Storage) -> None:
    assert not storage.has_folder("")
    storage.make_folder("made/inner/")
    storage.make_folder("made/inner/")
    storage.write_once("a/b/c", b"")
    for folder in ("", "a/", "a/b/", "made/", "made/inner/"):
        assert storage.has_folder(folder)
    for nothing in ("mad/", "a/b/c/", "made/inner/x/", "b/"):
        assert not storage.has_folder(nothing)
    assert list(storage.iter_children("")) == ["a/", "made/"]
    assert list(storage.iter_children("made/")) == ["made/inner/"]
    assert list(storage.iter_children("made/inner/")) == []


def test_a_folder_that_was_made_is_no_key_and_keeps_what_is_put_into_it(storage: Storage) -> None:
    storage.make_folder("made/")
    assert list(storage.iter_keys("")) == []
    assert storage.find_stat("made") is None
    storage.write_once("made/key", b"x")
    storage.make_folder("made/")
    assert list(storage.iter_keys("")) == ["made/key"]
    storage.delete_all("made/")
    assert not storage.has_folder("made/")


def test_a_deleted_key_is_gone_and_deleting_again_is_fine(storage: Storage) -> None:
    storage.write_once("key", b"x")
    storage.delete("key")
    storage.delete("key")
    assert storage.find_stat("key") is None


def test_everything_under_a_prefix_can_be_deleted(storage: Storage) -> None:
    for key in ("a/b/c", "a/d", "ab"):
        storage.write_once(key, b"x")
    storage.delete_all("a/")
    storage.delete_all("a/")
    assert list(storage.iter_keys("")) == ["ab"]


def test_flushing_returns(storage: Storage) -> None:
    storage.write_once("key", b"x")
    storage.flush()


# Object stores know UTF-8 only; SeaweedFS and Azure take a back slash for a
# slash; Google has no line ends in names, Azure no control characters.
NOT_UTF_8, BACK_SLASH = "not utf-8 \udcff\udc80", "back\\slash"
CONTROLS = "new\nline\ttab"
UNKNOWN = {
    "minio": {NOT_UTF_8},
    "seaweed": {NOT_UTF_8, BACK_SLASH},
    "gcs": {NOT_UTF_8, CONTROLS},
    "azurite": {NOT_UTF_8, CONTROLS, BACK_SLASH},
}


@pytest.mark.parametrize(
    "key",
    [
        "with space",
        "percent%20and%",
        "plus+amp&comma,semi;",
        "question?hash#",
        "quote'\"`",
        CONTROLS,
        "\u0301combining",
        "\u00e9precomposed",
        "e\u0301 decomposed",
        "\U0001f600",
        "\u202eright to left",
        BACK_SLASH,
        NOT_UTF_8,
        "-dash",
        "*star",
        "x" * 255,
    ],
)
def test_odd_characters_in_names_are_kept(storage: Storage, kind: str, key: str) -> None:
    if key in UNKNOWN.get(kind, ()):
        with pytest.raises(StorageError):
            storage.write_once(f"folder/{key}", b"x")
        assert list(storage.iter_keys("")) == []
        return
    storage.write_once(f"folder/{key}", b"x")
    assert storage.read(f"folder/{key}") == b"x"
    assert list(storage.iter_keys("folder/")) == [f"folder/{key}"]


def test_spellings_that_look_alike_are_different_keys(storage: Storage) -> None:
    for key, data in {"\u00e9": b"1", "e\u0301": b"2", "E\u0301": b"3"}.items():
        storage.write_once(key, data)
    assert [storage.read(key) for key in ("\u00e9", "e\u0301", "E\u0301")] == [b"1", b"2", b"3"]


# more than one at once


def _create(spec: StorageSpec, name: bytes, barrier: threading.Barrier) -> bool:
    storage = open_storage(spec)
    barrier.wait(timeout=30)
    try:
        storage.write_once("prize", name * 1000)
    except KeyExistsError:
        return False
    return True


def _race(spec: StorageSpec, name: bytes, barrier: threading.Barrier, wins: list[bytes]) -> None:
    if _create(spec, name, barrier):
        wins.append(name)


# SeaweedFS lets writers that race wait for two seconds.
TURNS = {"file": 20, "minio": 20, "seaweed": 2, "gcs": 20, "azurite": 10}


def test_of_many_writers_that_race_one_wins(spec: StorageSpec, kind: str) -> None:
    for turn in range(TURNS[kind]):
        wins: list[bytes] = []
        place = StorageSpec(f"{spec.location}/{turn}", spec.properties)
        barrier = threading.Barrier(6)
        threads = [
            threading.Thread(target=_race, args=(place, b"%d" % number, barrier, wins))
            for number in range(6)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        (winner,) = wins
        assert open_storage(place).read("prize") == winner * 1000


def _rewrite(spec: StorageSpec, stop: threading.Event) -> None:
    storage, number = open_storage(spec), 0
    while not stop.is_set():
        number += 1
        storage.replace("replaced", b"%d" % (number % 10) * 200_000)
        storage.write_once(f"once/{number}", b"%d" % (number % 10) * 200_000)


@pytest.fixture
def writer_process(spec: StorageSpec) -> Iterator[None]:
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    process = context.Process(target=_rewrite, args=(spec, stop))
    process.start()
    yield
    stop.set()
    process.join(timeout=30)
    assert process.exitcode == 0


@pytest.mark.usefixtures("writer_process")
def test_a_reader_never_sees_half_a_file(storage: Storage) -> None:
    seen = 0
    while seen < 300:
        for key in list(storage.iter_keys(""))[-20:]:
            data = storage.read(key)
            assert len(data) == 200_000
            assert data == data[:1] * 200_000
            seen += 1


def test_a_whole_key_is_no_leftover_and_a_half_written_one_no_key(storage: Storage) -> None:
    storage.write_once("folder/whole", b"x")
    with storage.open_writer("folder/half") as writer:
        writer.write(b"x")
        assert list(storage.iter_keys("")) == ["folder/whole"]
        assert all("whole" not in key for key in storage.iter_leftovers(""))
    assert list(storage.iter_leftovers("")) == []
    assert list(storage.iter_leftovers("nothing/")) == []


def test_removing_empty_folders_never_removes_a_key(storage: Storage, kind: str) -> None:
    storage.write_once("a/b/c/key", b"x")
    storage.write_once("a/b/d/e/key", b"x")
    storage.delete("a/b/d/e/key")
    storage.delete_empty("a/")
    assert list(storage.iter_keys("")) == ["a/b/c/key"]
    storage.delete("a/b/c/key")
    storage.delete_empty("a/")
    storage.delete_empty("nothing/")
    assert list(storage.iter_keys("")) == []
    if kind != "seaweed":  # which keeps folders of its own for a while
        storage.write_once("a", b"x")  # no folder is in its way


def test_a_reader_knows_the_size_and_version_of_what_it_reads(storage: Storage) -> None:
    for size in (0, 1, CHUNK_BYTES + 1):
        storage.write_once(f"key-{size}", b"x" * size)
        with storage.open_reader(f"key-{size}") as reader:
            assert reader.stat == storage.find_stat(f"key-{size}")
