"""Folders of a warehouse as a Hadoop catalog needs them: names that are UTF-8, errors of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from bcn.errors import CatalogError, StorageError
from bcn.storage.local import LocalStorage
from bcn.storage.open import open_storage
from bcn.storage.protocol import StorageSpec

Item = TypeVar("Item")
Answer = TypeVar("Answer")

NOT_NAMESPACES = {"lost+found"}  # the root of a mount has one that only root may read
_AT_ONCE = 16  # requests to a store; a local disk is asked faster without threads


class Folders:
    """What is under one root, by paths without slashes at their ends; the root's own is empty."""

    def __init__(self, spec: StorageSpec) -> None:
        self._storage = open_storage(spec)
        self._is_local = isinstance(self._storage, LocalStorage)

    def each(self, ask: Callable[[Item], Answer], items: Iterable[Item]) -> Sequence[Answer]:
        """Answers in the order of the items; a store is asked for several at once."""
        items = list(items)
        if self._is_local or len(items) < 2:
            return [ask(item) for item in items]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return list(pool.map(ask, items))

    def has(self, folder: str) -> bool:
        """Whether a folder is there."""
        with _translated():
            return self._storage.has_folder(_prefix(folder))

    def has_file(self, path: str) -> bool:
        """Whether a file is there."""
        with _translated():
            return self._storage.find_stat(path) is not None

    def file_names(self, folder: str) -> list[str]:
        """Names of visible files; none if the folder is gone."""
        return [name for name in self._names(folder) if not name.endswith("/")]

    def folder_names(self, folder: str) -> list[str]:
        """Names of visible folders, sorted."""
        found = (name[:-1] for name in self._names(folder) if name.endswith("/"))
        names = {_checked(name, folder) for name in found if name}  # a store may have `a//b`
        return sorted(names - NOT_NAMESPACES)

    def _names(self, folder: str) -> list[str]:
        prefix = _prefix(folder)
        with _translated():
            names = [key[len(prefix) :] for key in self._storage.iter_children(prefix)]
        return [name for name in names if not name.startswith(".")]

    def find_bytes(self, path: str) -> bytes | None:
        """The bytes of a small file; None if it cannot be read."""
        try:
            return self._storage.read(path)
        except StorageError:
            return None

    def make(self, folder: str) -> None:
        """Make a folder and those above it; flushed."""
        with _translated():
            self._storage.make_folder(_prefix(folder))

    def create(self, path: str, data: bytes) -> None:
        """Store a new file; flushed. Raises KeyExistsError."""
        self._storage.write_once(path, data)


def join_path(*names: str) -> str:
    """A path from names, the root's own among them."""
    return "/".join(name for name in names if name)


def _prefix(folder: str) -> str:
    return f"{folder}/" if folder else ""


@contextmanager
def _translated() -> Iterator[None]:
    """What goes wrong with the folders of a catalog goes wrong with the catalog."""
    try:
        yield
    except StorageError as error:
        raise CatalogError(str(error), hint=error.hint) from error


def _checked(name: str, folder: str) -> str:
    try:
        name.encode()
    except UnicodeEncodeError:
        raise CatalogError(
            f"the folder {name!r} in {folder or 'the warehouse'} has a name that is not UTF-8",
            hint="rename it; Iceberg cannot open tables there either",
        ) from None
    return name
