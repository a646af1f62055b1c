"""Notes of verifications: the newest of each PIT, and no more than one a level."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from bcn.model import PitId
from bcn.repository.verification import (
    DAMAGED,
    WHOLE,
    Verification,
    find_verifications,
    save_verifications,
)
from bcn.storage.local import LocalStorage

START = datetime(2026, 8, 20, tzinfo=UTC)
FIRST, SECOND = PitId.of(START), PitId.of(START + timedelta(days=1))


def note(pit: PitId, day: int, level: int, outcome: str = WHOLE) -> Verification:
    return Verification(pit, PitId.of(START + timedelta(days=day)), level, outcome)


def test_the_newest_note_of_each_pit_counts_whatever_its_level(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path))
    save_verifications(storage, [note(FIRST, 1, 3), note(SECOND, 1, 3, DAMAGED)])
    save_verifications(storage, [note(FIRST, 2, 1)])
    assert find_verifications(storage) == {
        FIRST: note(FIRST, 2, 1),
        SECOND: note(SECOND, 1, 3, DAMAGED),
    }


def test_a_note_takes_the_place_of_those_of_its_level(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path))
    for day in range(1, 5):
        save_verifications(storage, [note(FIRST, day, 2), note(FIRST, day, 3, DAMAGED)])
    save_verifications(storage, [note(FIRST, 2, 3)])  # by a clock that runs behind
    assert sorted(storage.iter_keys("verifications/")) == [
        f"verifications/{FIRST}/20260822T000000.000000Z-l3-whole.json",
        f"verifications/{FIRST}/20260824T000000.000000Z-l2-whole.json",
        f"verifications/{FIRST}/20260824T000000.000000Z-l3-damaged.json",
    ]
    assert find_verifications(storage)[FIRST] == note(FIRST, 4, 3, DAMAGED)


def test_other_files_there_are_no_notes(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path))
    for name in ("x", f"{FIRST}/x.json", f"{FIRST}/20269920T000000.000000Z-l3-whole.json"):
        storage.replace(f"verifications/{name}", b"{}")
    assert find_verifications(storage) == {}


def test_where_notes_cannot_be_read_there_are_none(tmp_path: Path) -> None:
    (tmp_path / "verifications").write_text("a file in the way")
    assert find_verifications(LocalStorage(str(tmp_path))) == {}
