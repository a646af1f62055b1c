"""Local files as a storage: created by link(2), any byte in a name, flushed by fsync and syncfs."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import secrets
import stat as stat_module
from collections.abc import Iterator
from contextlib import suppress

from bcn.errors import (
    KeyExistsError,
    MissingKeyError,
    ReadOnlyStorageError,
    StorageError,
    StorageFullError,
    UnsupportedSchemeError,
)
from bcn.storage.local_folders import list_folder, make_folder, remove_folder
from bcn.storage.protocol import CHUNK_BYTES, Stat

TEMPORARY_PREFIX = ".bcn-tmp-"

_FULL = {errno.ENOSPC, errno.EDQUOT}
_DENIED = {errno.EROFS, errno.EACCES, errno.EPERM}
_MISSING = {errno.ENOENT, errno.ENOTDIR}
_WRITING = {"write", "create", "flush"}  # a folder that is gone is no missing key then


def local_path(location: str) -> str:
    """The path that a location means: `/x`, `file:/x` or `file:///x`, never decoded."""
    path = location
    if location.startswith("file:"):
        path = location[len("file:") :]
        if path.startswith("//"):
            path = path[2:]
    if not path.startswith("/"):
        raise UnsupportedSchemeError(f"{location!r} is not a local path or file: URI")
    if "\0" in path:
        raise StorageError(f"NUL in location {location!r}")
    return path


def storage_error(error: OSError, path: str, verb: str) -> StorageError:
    """An operating system's error as ours."""
    text = f"cannot {verb} {path}: {(error.strerror or str(error)).lower()}"
    if error.errno in _FULL:
        return StorageFullError(text)
    if error.errno in _MISSING and verb not in _WRITING:
        return MissingKeyError(text)
    if error.errno == errno.EEXIST:
        return KeyExistsError(f"{path} is there already")
    if error.errno in _DENIED:
        return ReadOnlyStorageError(text)
    return StorageError(text)


class _translated:  # noqa: N801  reads as a function; a class is quicker, and each file needs six
    __slots__ = ("_path", "_verb")

    def __init__(self, path: str, verb: str) -> None:
        self._path = path
        self._verb = verb

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            raise storage_error(error, self._path, self._verb) from error


class LocalStorage:
    """A folder. Keys become paths by joining, byte for byte."""

    small_in_flight = 1

    def __init__(self, root: str) -> None:
        self.root = root.rstrip("/")

    def path(self, key: str) -> str:
        """Where a key is."""
        return f"{self.root}/{key}"

    def read(self, key: str) -> bytes:
        """All bytes of a key."""
        path = self.path(key)
        with _translated(path, "read"), open(_open_file(path)[0], "rb", buffering=0) as file:
            return file.readall()

    def open_reader(self, key: str) -> _LocalReader:
        """The bytes of a key as a stream."""
        path = self.path(key)
        with _translated(path, "read"):
            return _LocalReader(*_open_file(path), path)

    def open_writer(self, key: str, size_bytes: int = 0) -> _LocalWriter:
        """Begin a key in an unnamed file, or a temporary one where there are none."""
        return _LocalWriter(self.path(key))

    def copy_from(self, reader: object, key: str) -> None:
        """A file system computes no digests."""

    def write_once(self, key: str, data: bytes) -> None:
        """Store and flush `data` and its folder entry, whole or not at all."""
        folders = self._unflushed_folders(key)
        with self.open_writer(key) as writer:
            writer.write(data)
            writer.sync()
            writer.commit()
        for folder in folders:
            self._sync_folder(folder)

    def claim(self, key: str, data: bytes) -> None:
        """link(2) lets only one win."""
        self.write_once(key, data)

    def caveats(self) -> tuple[str, ...]:
        """None."""
        return ()

    def replace(self, key: str, data: bytes) -> None:
        """Store `data` in place of what was there, by rename(2)."""
        path = self.path(key)
        folder = os.path.dirname(path)
        temporary = f"{folder}/{TEMPORARY_PREFIX}{secrets.token_hex(8)}"
        with _translated(path, "write"):
            os.makedirs(_encode(folder), exist_ok=True)
            descriptor = os.open(_encode(temporary), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
            try:
                _write_all(descriptor, data)
                os.rename(_encode(temporary), _encode(path))
            except BaseException:
                with suppress(OSError):
                    os.unlink(_encode(temporary))
                raise
            finally:
                os.close(descriptor)

    def find_stat(self, key: str) -> Stat | None:
        """Size, and size with mtime as the version."""
        path = self.path(key)
        try:
            found = os.stat(_encode(path))
        except OSError as error:
            if error.errno in _MISSING:
                return None
            raise storage_error(error, path, "look at") from error
        if stat_module.S_ISDIR(found.st_mode):
            return None
        return _stat_of(found)

    def iter_keys(self, prefix: str) -> Iterator[str]:
        """All keys under the prefix, without temporary files."""
        return (key for key, is_temporary in self._walk(prefix) if not is_temporary)

    def iter_leftovers(self, prefix: str) -> Iterator[str]:
        """Temporary files, where they had to have a name."""
        return (key for key, is_temporary in self._walk(prefix) if is_temporary)

    def _walk(self, prefix: str) -> Iterator[tuple[str, bool]]:
        """All files under the prefix, and whether they are temporary."""
        path = self.path(prefix).rstrip("/") or "/"
        try:
            found = sorted(os.scandir(_encode(path)), key=lambda entry: entry.name)
        except OSError as error:
            if error.errno in _MISSING:
                return
            raise storage_error(error, path, "list") from error
        for entry in found:
            name = entry.name.decode("utf-8", "surrogateescape")
            if entry.is_dir(follow_symlinks=False):
                yield from self._walk(f"{prefix}{name}/")
            else:
                yield prefix + name, name.startswith(TEMPORARY_PREFIX)

    def iter_children(self, prefix: str) -> Iterator[str]:
        """What is directly in a folder, without temporary files; links are followed."""
        path = self.path(prefix).rstrip("/") or "/"
        try:
            names = list_folder(_encode(path))
        except OSError as error:
            if error.errno in _MISSING:
                return
            raise storage_error(error, path, "list") from error
        yield from (prefix + name for name in names if not name.startswith(TEMPORARY_PREFIX))

    def has_folder(self, prefix: str) -> bool:
        """Whether it is a folder, or a link to one."""
        path = self.path(prefix)
        try:
            return stat_module.S_ISDIR(os.stat(_encode(path)).st_mode)
        except OSError as error:
            if error.errno in _MISSING:
                return False
            raise storage_error(error, path, "look at") from error

    def make_folder(self, prefix: str) -> None:
        """Make it and those above it, flushed."""
        path = self.path(prefix).rstrip("/") or "/"
        with _translated(path, "create"):
            make_folder(_encode(path))

    def delete(self, key: str) -> None:
        """Remove a file."""
        path = self.path(key)
        with _translated(path, "delete"), suppress(FileNotFoundError):
            os.unlink(_encode(path))

    def delete_all(self, prefix: str) -> None:
        """Remove a folder and all that is in it."""
        path = self.path(prefix).rstrip("/")
        with _translated(path, "delete"):
            remove_folder(_encode(path))

    def delete_empty(self, prefix: str) -> None:
        """Remove folders by rmdir(2), which leaves those that hold anything."""
        path = self.path(prefix).rstrip("/")
        for folder, _, _ in os.walk(_encode(path), topdown=False):
            with suppress(OSError):
                os.rmdir(folder)

    def flush(self) -> None:
        """One syncfs(2) for the whole mount: far cheaper than an fsync for each of many files."""
        with _translated(self.root, "flush"):
            descriptor = os.open(_encode(self.root or "/"), os.O_RDONLY)
            try:
                sync_mount(descriptor)
            finally:
                os.close(descriptor)

    def _unflushed_folders(self, key: str) -> list[str]:
        """The folder of a key, then those above it as long as the one below has yet to be made."""
        folders = [os.path.dirname(self.path(key))]
        while not os.path.isdir(_encode(folders[-1])) and folders[-1] != "/":
            folders.append(os.path.dirname(folders[-1]))
        return folders

    def _sync_folder(self, folder: str) -> None:
        with _translated(folder, "flush"):
            descriptor = os.open(_encode(folder), os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def sync_mount(descriptor: int) -> None:
    """Flush the file system that an open file belongs to; where syncfs is missing, everything."""
    syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if syncfs is None:
        os.sync()
    elif syncfs(descriptor) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def _stat_of(found: os.stat_result) -> Stat:
    return Stat(found.st_size, f"{found.st_size}-{found.st_mtime_ns}")


def _open_file(path: str) -> tuple[int, os.stat_result]:
    """A file open for reading. A pipe or a device is none: reading it could wait for ever."""
    descriptor = os.open(_encode(path), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    found = os.fstat(descriptor)
    if stat_module.S_ISREG(found.st_mode):
        return descriptor, found
    os.close(descriptor)
    code = errno.EISDIR if stat_module.S_ISDIR(found.st_mode) else errno.EINVAL
    raise OSError(code, os.strerror(code) if code == errno.EISDIR else "not a file")


def _encode(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")


def _write_all(descriptor: int, data: bytes | memoryview) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view[:CHUNK_BYTES]) :]


def _write_direct(descriptor: int, data: bytes | memoryview) -> bool:
    """Write a chunk by O_DIRECT; False, with nothing written, where the file system has none."""
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | os.O_DIRECT)
        written = os.write(descriptor, data)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        written = 0
    finally:
        fcntl.fcntl(descriptor, fcntl.F_SETFL, flags)
    if 0 < written < len(data):
        _write_all(descriptor, memoryview(data)[written:])
    return written > 0


class _LocalReader:
    def __init__(self, descriptor: int, found: os.stat_result, path: str) -> None:
        self.stat = _stat_of(found)
        self._descriptor = descriptor
        self._path = path
        self._left = found.st_size

    def __enter__(self) -> _LocalReader:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def readinto(self, buffer: memoryview) -> int:
        """What a file grows by while it is read is not read."""
        filled, wanted = 0, min(len(buffer), self._left)
        with _translated(self._path, "read"):
            while filled < wanted:
                count = os.readv(self._descriptor, [buffer[filled:wanted]])
                if count == 0:
                    break
                filled += count
        self._left -= filled
        return filled


class _LocalWriter:
    """An O_TMPFILE that link(2) gives its name: a killed process leaves nothing behind."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._folder = path.rpartition("/")[0] or "/"
        self._temporary: str | None = None
        self._direct = True
        with _translated(path, "write"):
            self._descriptor = self._open()

    def __enter__(self) -> _LocalWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self) -> int:
        try:
            return self._open_unnamed()
        except FileNotFoundError:
            os.makedirs(_encode(self._folder), exist_ok=True)
            return self._open_unnamed()

    def _open_unnamed(self) -> int:
        flags = os.O_WRONLY | os.O_CLOEXEC
        try:
            return os.open(_encode(self._folder), flags | os.O_TMPFILE, 0o644)
        except OSError as error:
            if error.errno not in {errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL}:
                raise
        temporary = f"{self._folder}/{TEMPORARY_PREFIX}{secrets.token_hex(8)}"
        descriptor = os.open(_encode(temporary), flags | os.O_CREAT | os.O_EXCL, 0o644)
        self._temporary = temporary
        return descriptor

    def room(self, own: memoryview) -> memoryview:
        """The kernel takes bytes from anywhere."""
        return own

    def let_go(self, memory: object) -> None:
        """Nothing is lent."""

    def write(self, data: bytes | memoryview) -> None:
        """Whole chunks go past the page cache, so that a flush at the end has little left to do."""
        with _translated(self._path, "write"):
            whole = len(data) == CHUNK_BYTES
            self._direct = self._direct and whole and _write_direct(self._descriptor, data)
            if not self._direct:
                _write_all(self._descriptor, data)

    def sync(self) -> None:
        with _translated(self._path, "flush"):
            os.fsync(self._descriptor)

    def commit(self) -> None:
        source = self._temporary or f"/proc/self/fd/{self._descriptor}"
        with _translated(self._path, "create"):
            # A directory descriptor makes Python call linkat(2), which follows the /proc link.
            os.link(
                _encode(source),
                _encode(self._path),
                src_dir_fd=self._descriptor,
                follow_symlinks=True,
            )

    def close(self) -> None:
        os.close(self._descriptor)
        if self._temporary is not None:
            with suppress(OSError):
                os.unlink(_encode(self._temporary))
