"""Copying and hashing files, at a pace."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

import pytest

from bcn.engine.transfer import Copied, Pace, Transfer
from bcn.errors import KeyExistsError, MissingKeyError
from bcn.storage.local import LocalStorage
from bcn.storage.protocol import CHUNK_BYTES


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(str(tmp_path))


@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES, 2 * CHUNK_BYTES + 7])
def test_a_copy_has_the_bytes_and_digest_of_its_source(storage: LocalStorage, size: int) -> None:
    data = os.urandom(size)
    storage.write_once("source", data)
    expected = Copied(size, hashlib.sha256(data).digest())
    assert Transfer().copy(storage, "source", storage, "folder/target") == expected
    assert storage.read("folder/target") == data
    assert Transfer().hash(storage, "source") == expected


def test_a_copy_does_not_overwrite(storage: LocalStorage) -> None:
    storage.write_once("source", b"new")
    storage.write_once("target", b"old")
    with pytest.raises(KeyExistsError):
        Transfer().copy(storage, "source", storage, "target")
    assert storage.read("target") == b"old"


def test_without_a_source_there_is_no_target(storage: LocalStorage) -> None:
    with pytest.raises(MissingKeyError):
        Transfer().copy(storage, "nothing", storage, "target")
    with pytest.raises(MissingKeyError):
        Transfer().hash(storage, "nothing")
    assert list(storage.iter_keys("")) == []


def test_a_pace_holds_back_and_none_does_not(storage: LocalStorage) -> None:
    storage.write_once("source", b"x" * 300_000)
    started = time.monotonic()
    Transfer(Pace(1_000_000)).hash(storage, "source")
    assert time.monotonic() - started >= 0.25
    pace = Pace(1e12)
    pace.spend(10)
    assert Pace().bytes_per_second is None
