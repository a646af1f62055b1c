"""Folders of local disks: what is directly in one, new ones that survive a power cut, their end."""

from __future__ import annotations

import errno
import os
import shutil

_TRIES = 20
_MEANWHILE = {errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST}


def list_folder(path: bytes) -> list[str]:
    """Names of files, and of folders with a slash at the end, sorted.

    Links are followed, but for those that lead back up: who walks down must come to an end.
    """
    with os.scandir(path) as entries:
        return sorted(
            entry.name.decode("utf-8", "surrogateescape") + ("/" if entry.is_dir() else "")
            for entry in entries
            if not (entry.is_symlink() and _leads_up(entry.path, path))
        )


def _leads_up(link: bytes, folder: bytes) -> bool:
    target, here = os.path.realpath(link), os.path.realpath(folder)
    return here == target or here.startswith(target.rstrip(b"/") + b"/")


def make_folder(path: bytes) -> None:
    """Make a folder and those above it, each flushed. One that is there stays as it is."""
    if os.path.isdir(path):  # noqa: PTH112  bytes path
        return
    parent = os.path.dirname(path)  # noqa: PTH120  bytes path
    make_folder(parent)
    try:
        os.mkdir(path)  # noqa: PTH102  bytes path
    except FileExistsError:
        if not os.path.isdir(path):  # noqa: PTH112  bytes path
            raise NotADirectoryError(errno.ENOTDIR, "a file is in the way") from None
    descriptor = os.open(parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_folder(path: bytes) -> None:
    """Remove a folder and all that is in it, also while others still write or delete there."""
    tries = _TRIES
    while os.path.lexists(path):
        try:
            shutil.rmtree(path)
        except OSError as error:
            tries -= 1
            if error.errno not in _MEANWHILE or tries == 0:
                raise
