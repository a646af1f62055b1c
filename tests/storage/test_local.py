"""Local files: what the operating system may answer, and what becomes of it."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bcn.errors import (
    KeyExistsError,
    MissingKeyError,
    ReadOnlyStorageError,
    StorageError,
    StorageFullError,
    UnsupportedSchemeError,
)
from bcn.storage import local
from bcn.storage.local import TEMPORARY_PREFIX, LocalStorage, local_path, storage_error
from bcn.storage.open import Stores, canonical_location, open_storage, overlaps
from bcn.storage.protocol import Access, StorageSpec


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    mount = tmp_path / "small"
    mount.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(mount)], check=True)
    yield mount
    subprocess.run(["umount", str(mount)], check=True)


def _remount_read_only(mount: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(mount)], check=True)


def _used(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


# locations


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("/a/b", "/a/b"),
        ("file:/a/b", "/a/b"),
        ("file:///a/b", "/a/b"),
        ("file:///a%20b", "/a%20b"),
        ("/a//b/", "/a//b/"),
    ],
)
def test_a_location_is_taken_literally(location: str, path: str) -> None:
    assert local_path(location) == path


@pytest.mark.parametrize("location", ["s3://b/k", "relative", "", "file://host", "hdfs:/x"])
def test_other_schemes_are_refused(location: str) -> None:
    with pytest.raises(UnsupportedSchemeError):
        local_path(location)


def test_a_nul_in_a_location_is_refused() -> None:
    with pytest.raises(StorageError, match="NUL"):
        local_path("/a\0b")


def test_stores_resolve_any_spelling_to_the_same_bytes(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"x")
    stores = Stores(Access())
    for location in (f"{tmp_path}/x", f"file:{tmp_path}/x", f"file://{tmp_path}/x"):
        storage, key = stores.resolve(location)
        assert storage.read(key) == b"x"


def test_places_overlap_when_one_is_in_the_other_links_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert overlaps(f"{tmp_path}/real", f"file://{tmp_path}/link/x")
    assert overlaps(f"{tmp_path}/link/x/y", f"{tmp_path}/real/x")
    assert not overlaps(f"{tmp_path}/real", f"{tmp_path}/real_too")
    assert canonical_location(f"file:{tmp_path}/link/") == str(tmp_path / "real")


def test_the_whole_file_system_can_be_a_root(tmp_path: Path) -> None:
    storage = open_storage(StorageSpec("file:///"))
    storage.write_once(f"{tmp_path}/key"[1:], b"x")
    assert (tmp_path / "key").read_bytes() == b"x"
    storage.flush()


# errors


@pytest.mark.parametrize(
    ("code", "verb", "kind"),
    [
        (errno.ENOSPC, "write", StorageFullError),
        (errno.EDQUOT, "write", StorageFullError),
        (errno.EROFS, "write", ReadOnlyStorageError),
        (errno.EACCES, "write", ReadOnlyStorageError),
        (errno.EEXIST, "create", KeyExistsError),
        (errno.ENOENT, "read", MissingKeyError),
        (errno.ENOTDIR, "read", MissingKeyError),
        (errno.EIO, "read", StorageError),
    ],
)
def test_errors_of_the_system_become_ours(code: int, verb: str, kind: type[StorageError]) -> None:
    error = storage_error(OSError(code, os.strerror(code)), "/x", verb)
    assert type(error) is kind
    assert "/x" in str(error)


def test_a_file_where_a_folder_should_be_is_no_missing_key(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path))
    storage.write_once("file", b"x")
    for key in ("file/below", "file/far/below"):
        with pytest.raises(StorageError) as caught:
            storage.write_once(key, b"x")
        assert not isinstance(caught.value, MissingKeyError | KeyExistsError)


def test_a_folder_cannot_be_read_listed_as_a_key_or_deleted(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path))
    storage.write_once("folder/key", b"x")
    with pytest.raises(StorageError):
        storage.read("folder")
    with pytest.raises(StorageError), storage.open_reader("folder") as reader:
        reader.readinto(memoryview(bytearray(10)))
    with pytest.raises(StorageError):
        storage.delete("folder")


def test_names_that_are_too_long_are_storage_errors(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path))
    with pytest.raises(StorageError):
        storage.find_stat("x" * 300)
    with pytest.raises(StorageError):
        list(storage.iter_keys("x" * 300 + "/"))


# full and read-only disks


@pytest.mark.parametrize("way", ["once", "stream", "replace"])
def test_a_full_disk_is_told_and_nothing_is_left(small_disk: Path, way: str) -> None:
    storage, data = LocalStorage(str(small_disk)), os.urandom(3 << 20)
    with pytest.raises(StorageFullError, match="no space left"):
        _write(storage, way, data)
    assert _used(small_disk) == []
    storage.write_once("small", b"x")


def _write(storage: LocalStorage, way: str, data: bytes) -> None:
    if way == "once":
        storage.write_once("key", data)
    elif way == "replace":
        storage.replace("key", data)
    else:
        with storage.open_writer("key") as writer:
            writer.write(data)


@pytest.mark.parametrize("way", ["once", "stream", "replace"])
def test_a_read_only_mount_is_told_and_still_read(small_disk: Path, way: str) -> None:
    storage = LocalStorage(str(small_disk))
    storage.write_once("there", b"x")
    _remount_read_only(small_disk)
    with pytest.raises(ReadOnlyStorageError, match="read-only"):
        _write(storage, way, b"x")
    with pytest.raises(ReadOnlyStorageError):
        storage.delete("there")
    assert storage.read("there") == b"x"
    assert list(storage.iter_keys("")) == ["there"]


def test_a_folder_without_permission_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o555)
    tmp_path.chmod(0o755)
    script = """
        import os, sys
        from bcn.errors import ReadOnlyStorageError
        from bcn.storage.local import LocalStorage
        os.setgroups([]); os.setgid(65534); os.setuid(65534)
        try:
            LocalStorage(sys.argv[1]).write_once("key", b"x")
        except ReadOnlyStorageError:
            sys.exit(42)
    """
    # A user who may not even look into the folders above gets the same answer.
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script), str(folder)], check=False)
    assert done.returncode == 42


# processes that die


def test_a_killed_writer_leaves_nothing_behind(tmp_path: Path) -> None:
    script = """
        import sys, time
        from bcn.storage.local import LocalStorage
        with LocalStorage(sys.argv[1]).open_writer("folder/key") as writer:
            writer.write(b"x" * 1000000)
            print("written", flush=True)
            time.sleep(60)
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), str(tmp_path)], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"written\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert _used(tmp_path) == []


# file systems without unnamed files


@pytest.fixture
def no_unnamed_files(monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def refuse(path: Any, flags: int, *args: Any, **more: Any) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, "not supported")
        return real(path, flags, *args, **more)

    monkeypatch.setattr(local.os, "open", refuse)


@pytest.mark.usefixtures("no_unnamed_files")
def test_where_there_are_no_unnamed_files_a_temporary_one_serves(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path))
    with storage.open_writer("folder/key") as writer:
        writer.write(b"x")
        (temporary,) = _used(tmp_path)
        assert temporary.name.startswith(TEMPORARY_PREFIX)
        assert list(storage.iter_keys("")) == []
        writer.commit()
    assert [path.name for path in _used(tmp_path)] == ["key"]
    with pytest.raises(KeyExistsError):
        storage.write_once("folder/key", b"y")
    assert storage.read("folder/key") == b"x"


@pytest.mark.usefixtures("no_unnamed_files")
def test_a_temporary_file_goes_when_nothing_is_committed(tmp_path: Path) -> None:
    with LocalStorage(str(tmp_path)).open_writer("key") as writer:
        writer.write(b"x")
    assert _used(tmp_path) == []


# removing


@pytest.mark.parametrize("times", [1, 1000])
def test_a_folder_goes_though_others_write_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    """If they never stop it does not, and that is told."""
    storage = LocalStorage(str(tmp_path))
    storage.write_once("made/inner/key", b"x")
    real, left = os.rmdir, iter(range(times))

    def write_first(path: Any, **more: Any) -> None:
        if (number := next(left, None)) is not None:
            storage.write_once(f"made/inner/late{number}", b"x")
        real(path, **more)

    monkeypatch.setattr(os, "rmdir", write_first)
    if times == 1:
        storage.delete_all("made/")
        assert list(tmp_path.iterdir()) == []
    else:
        with pytest.raises(StorageError, match="cannot delete"):
            storage.delete_all("made/")


def test_a_folder_goes_though_others_delete_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = LocalStorage(str(tmp_path))
    for key in ("one", "two"):
        storage.write_once(f"made/{key}", b"x")
    real = os.unlink

    def delete_first(path: Any, **more: Any) -> None:
        real(path, **more)
        if len(_used(tmp_path)) == 1:
            real(_used(tmp_path)[0])

    monkeypatch.setattr(os, "unlink", delete_first)
    storage.delete_all("made/")
    assert list(tmp_path.iterdir()) == []


# flushing


def test_a_document_is_flushed_with_every_folder_that_was_made_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[str] = []
    real = os.fsync

    def note(descriptor: int) -> None:
        flushed.append(os.readlink(f"/proc/self/fd/{descriptor}").split(" ")[0])
        real(descriptor)

    monkeypatch.setattr(local.os, "fsync", note)
    storage = LocalStorage(str(tmp_path))
    storage.write_once("a/b/key", b"x")
    assert flushed[1:] == [f"{tmp_path}/a/b", f"{tmp_path}/a", str(tmp_path)]
    flushed.clear()
    storage.write_once("a/b/other", b"x")
    assert flushed[1:] == [f"{tmp_path}/a/b"]


def test_where_syncfs_is_missing_everything_is_flushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = []
    monkeypatch.setattr(local.ctypes, "CDLL", lambda *_args, **_more: object())
    monkeypatch.setattr(local.os, "sync", lambda: called.append("sync"))
    LocalStorage(str(tmp_path)).flush()
    assert called == ["sync"]


def test_a_flush_that_fails_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Library:
        def syncfs(self, _descriptor: int) -> int:
            return -1

    monkeypatch.setattr(local.ctypes, "CDLL", lambda *_args, **_more: Library())
    monkeypatch.setattr(local.ctypes, "get_errno", lambda: errno.EIO)
    with pytest.raises(StorageError, match="cannot flush"):
        LocalStorage(str(tmp_path)).flush()


def test_the_version_changes_with_the_bytes(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path))
    storage.replace("key", b"one")
    before = storage.find_stat("key")
    time.sleep(0.01)
    storage.replace("key", b"two")
    after = storage.find_stat("key")
    assert before is not None
    assert after is not None
    assert before.size_bytes == after.size_bytes
    assert before.version != after.version


def test_a_pipe_is_no_file_and_nobody_waits_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    storage = LocalStorage(str(tmp_path))
    with pytest.raises(StorageError, match="not a file"):
        storage.read("pipe")
    with pytest.raises(StorageError, match="not a file"), storage.open_reader("pipe"):
        raise AssertionError("a pipe was opened")
