"""Folders of local disks as a Hadoop catalog needs them: names that are UTF-8, errors of ours."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from bcn.errors import CatalogError

_GONE = {errno.ENOENT, errno.ENOTDIR}
NOT_NAMESPACES = {"lost+found"}  # the root of a mount has one that only root may read


def file_names(folder: str) -> list[str]:
    """Names of visible files; none if the folder is gone."""
    names = []
    with translated(folder, "list"), _scanned(folder) as entries:
        for entry in entries:
            if not entry.name.startswith(b".") and entry.is_file():
                names.append(entry.name.decode("utf-8", "surrogateescape"))
    return names


def visible_folders(folder: str) -> list[str]:
    """Names of folders in a folder, sorted. Links that lead back up are left out."""
    names = []
    with translated(folder, "list"), _scanned(folder) as entries:
        for entry in entries:
            if not entry.name.startswith(b".") and entry.is_dir() and not _leads_up(entry, folder):
                names.append(_decode(entry.name, folder))
    return sorted(set(names) - NOT_NAMESPACES)


def _leads_up(entry: os.DirEntry[bytes], folder: str) -> bool:
    if not entry.is_symlink():
        return False
    target = os.path.realpath(entry.path)
    here = os.path.realpath(encode(folder))
    return here == target or here.startswith(target.rstrip(b"/") + b"/")


@contextmanager
def _scanned(folder: str) -> Iterator[Iterator[os.DirEntry[bytes]]]:
    try:
        scan = os.scandir(encode(folder))
    except OSError as error:
        if error.errno not in _GONE:
            raise
        yield iter(())  # dropped by somebody since its parent was listed
        return
    with scan:
        yield scan


def exists(path: str) -> bool:
    return _find_stat(path) is not None


def is_folder(path: str) -> bool:
    found = _find_stat(path)
    return found is not None and stat.S_ISDIR(found.st_mode)


def _find_stat(path: str) -> os.stat_result | None:
    with translated(path, "read"):
        try:
            return os.stat(encode(path))  # noqa: PTH116  bytes path
        except OSError as error:
            if error.errno not in _GONE:
                raise
    return None


def make_folder(path: bytes) -> None:
    """Make a folder and those above it, each flushed."""
    if os.path.isdir(path):  # noqa: PTH112  bytes path
        return
    parent = os.path.dirname(path)  # noqa: PTH120  bytes path
    make_folder(parent)
    try:
        os.mkdir(path)  # noqa: PTH102  bytes path
    except FileExistsError:
        if not os.path.isdir(path):  # noqa: PTH112  bytes path
            raise
    descriptor = os.open(parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def translated(path: str, verb: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise CatalogError(f"cannot {verb} {path}: {reason}") from error


def encode(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")


def _decode(name: bytes, folder: str) -> str:
    try:
        return name.decode("utf-8")
    except UnicodeDecodeError:
        raise CatalogError(
            f"the folder {name!r} in {folder} has a name that is not UTF-8",
            hint="rename it; Iceberg cannot open tables there either",
        ) from None
