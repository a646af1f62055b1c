"""Small local files by the handful: the same bytes, digests and versions as one by one."""

from __future__ import annotations

import hashlib
import os
import random
import resource
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numba
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bcn.engine import handful as handful_module
from bcn.engine import sha256
from bcn.engine.handful import (
    HANDFUL_FILES,
    NOWHERE,
    ROOM_BYTES,
    Handful,
    find_handful,
    in_handfuls,
    pair_of,
)
from bcn.engine.transfer import Transfer
from bcn.storage.local import LocalStorage
from bcn.storage.open import open_storage
from bcn.storage.protocol import StorageSpec

KEYS = {"s3.access-key-id": "k", "s3.secret-access-key": "s", "s3.region": "us-east-1"}


def write(folder: Path, sizes: list[int], seed: int = 0) -> list[tuple[str, str]]:
    """Files of such sizes, and pairs to copy them."""
    chance = random.Random(seed)
    pairs = []
    for number, size in enumerate(sizes):
        source = folder / f"from-{seed}-{number}"
        source.write_bytes(chance.randbytes(size))
        pairs.append((str(source), str(folder / f"to-{seed}" / f"{number % 3}" / f"{number}")))
    return pairs


def check(pairs: list[tuple[str, str]], copied: list[object]) -> None:
    """Compare with the ordinary way, which is compared with hashlib elsewhere, and with hashlib."""
    root = LocalStorage("/")
    for (source, target), found in zip(pairs, copied, strict=True):
        expected = Transfer().hash(root, source[1:])
        assert found is not None
        assert (found.size_bytes, found.version) == (expected.size_bytes, expected.version)
        data = Path(source).read_bytes()
        assert found.sha256 == hashlib.sha256(data).digest() == expected.sha256
        assert Path(target).read_bytes() == data
        assert stat.S_IMODE(Path(target).stat().st_mode) == 0o644


SIZES = [0, 1, 54, 55, 56, 63, 64, 65, 100_000, 118, 119, 120, 128, 300_000, 7, 99_999]
SIZES += [400_000, 5, 400_000, 400_000, 6, 900_000]  # more than there is room for


@pytest.mark.parametrize("has_kernel", [True, False], ids=["loops", "openssl"])
def test_files_of_every_size_arrive_with_their_digests(
    tmp_path: Path, has_kernel: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_kernel:
        monkeypatch.setattr(sha256, "load", lambda: None)
    pairs = write(tmp_path, SIZES)
    check(pairs, Handful().copy(pairs))
    assert [path.name for path in tmp_path.rglob(".*")] == []


def test_few_files_are_left_to_openssl_where_it_is_quicker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel, calls = sha256.load(), []
    if kernel is None:
        return
    digests = kernel.digests
    monkeypatch.setattr(kernel, "pays_from", 3)
    monkeypatch.setattr(kernel, "digests", lambda some: calls.append(len(some)) or digests(some))
    for count in (2, 3):
        pairs = write(tmp_path, [1_000] * count, seed=count)
        check(pairs, Handful().copy(pairs))
    assert calls == [3]


@given(sizes=st.lists(st.integers(0, 3_000), max_size=3 * HANDFUL_FILES), seed=st.integers(1))
def test_any_number_of_files_arrives(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], seed: int
) -> None:
    pairs = write(tmp_path_factory.mktemp("files"), sizes, seed)
    check(pairs, Handful().copy(pairs))


def test_names_of_any_bytes(tmp_path: Path) -> None:
    names = ["a b", "ä", "%41", "'\"", "\udcff\udcfe", "x" * 250, "\n"]
    pairs = [(str(tmp_path / name), str(tmp_path / "to" / name)) for name in names]
    for source, _ in pairs:
        Path(source).write_bytes(os.fsencode(source))
    check(pairs, Handful().copy(pairs))


def test_what_cannot_be_copied_is_left_and_hurts_no_other(tmp_path: Path) -> None:
    good = write(tmp_path, [10, 100_000, 0, 5_000])
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_bytes(bytes(ROOM_BYTES))
    (tmp_path / "file").write_bytes(b"no folder")
    (tmp_path / "taken").write_bytes(b"as it was")
    bad = [
        NOWHERE,
        (str(tmp_path / "missing"), str(tmp_path / "to" / "missing")),
        (str(tmp_path), str(tmp_path / "to" / "folder")),
        (str(tmp_path / "pipe"), str(tmp_path / "to" / "pipe")),
        (str(tmp_path / "large"), str(tmp_path / "to" / "large")),
        (good[0][0], str(tmp_path / "file" / "below")),
        (good[0][0], str(tmp_path / "taken")),
        (good[0][0], f"{tmp_path}/to/n\0ul"),
        (f"{good[0][0]}\0", str(tmp_path / "to" / "nul")),
        (good[0][0], f"{tmp_path}/{'x' * 300}"),
    ]
    mixed = [pair for pairs in zip(bad, good * 3, strict=False) for pair in pairs]
    handful = Handful()
    copied = handful.copy(mixed)
    assert copied[::2] == [None] * len(bad)
    assert [item is not None for item in copied[1::2]] == [True] * 4 + [False] * (len(bad) - 4)
    check(good, copied[1:8:2])
    assert (tmp_path / "taken").read_bytes() == b"as it was"
    assert sorted(path.name for path in (tmp_path / "to").iterdir() if path.is_file()) == []
    more = write(tmp_path, [3, 4], seed=1)
    check(more, handful.copy(more))


def test_files_that_are_not_as_long_as_they_say(tmp_path: Path) -> None:
    pairs = write(tmp_path, [1_000])
    shorter = "/sys/kernel/mm/transparent_hugepage/enabled"
    assert Path(shorter).stat().st_size > len(Path(shorter).read_bytes())
    odd = [(shorter, str(tmp_path / "shorter")), ("/proc/self/status", str(tmp_path / "longer"))]
    copied = Handful().copy([*odd, *pairs])
    assert copied[0] is None
    assert not (tmp_path / "shorter").exists()
    assert copied[1].size_bytes == 0  # as the ordinary way has it
    check(pairs, copied[2:])


def test_where_nothing_can_be_written_nothing_more_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []

    def watch(*arguments: object) -> int:
        calls.append(1)
        return read_files(*arguments)

    read_files = handful_module.read_files
    monkeypatch.setattr(handful_module, "read_files", watch)
    pairs = write(tmp_path, [10] * 3 * HANDFUL_FILES)
    (tmp_path / "to-0").write_bytes(b"no folder")
    handful = Handful()
    assert handful.copy([NOWHERE] * HANDFUL_FILES + pairs) == [None] * 4 * HANDFUL_FILES
    assert len(calls) == 2  # of the first nothing could be read, which tells nothing
    assert handful.copy(pairs) == [None] * len(pairs)


@contextmanager
def _few_bytes_a_file(most: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_file_that_cannot_be_written_whole_has_no_name(tmp_path: Path) -> None:
    pairs = write(tmp_path, [5_000, 100_000, 20_000, 4_000])
    with _few_bytes_a_file(10_000):
        copied = Handful().copy(pairs)
    assert [item is None for item in copied] == [False, True, True, False]
    assert [Path(target).exists() for _, target in pairs] == [True, False, False, True]


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    pairs = [*write(tmp_path, [10, ROOM_BYTES // 2, ROOM_BYTES // 2, 10]), NOWHERE]
    taken = [(source, source) for source, _ in pairs]
    before = os.listdir("/proc/self/fd")
    handful = Handful()
    handful.copy([*pairs, *taken, (str(tmp_path), str(tmp_path / "x"))])
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_it_is_for_many_files_whatever_was_copied_before() -> None:
    Handful().copy([NOWHERE])
    assert find_handful(handful_module._WORTH_FILES - 1) is None
    assert find_handful(handful_module._WORTH_FILES) is not None


def test_without_compiled_loops_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numba.config, "DISABLE_JIT", True)
    assert find_handful(1_000_000) is None


def test_only_local_storages_have_paths(tmp_path: Path) -> None:
    local, far = LocalStorage(str(tmp_path)), open_storage(StorageSpec("s3://far", KEYS))
    assert pair_of(local, "a", local, "b/c") == (f"{tmp_path}/a", f"{tmp_path}/b/c")
    assert pair_of(local, "a", far, "b") == pair_of(far, "a", local, "b") == NOWHERE


def test_handfuls_hold_all_files_in_their_order() -> None:
    parts = list(in_handfuls(range(2 * HANDFUL_FILES + 1)))
    assert [len(part) for part in parts] == [HANDFUL_FILES, HANDFUL_FILES, 1]
    assert [number for part in parts for number in part] == [*range(2 * HANDFUL_FILES + 1)]
    assert list(in_handfuls([])) == []
