"""Notes of verifications: when a PIT was looked at, how deeply, and whether it was whole."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bcn.errors import StorageError
from bcn.model import Json, PitId, iso
from bcn.repository import layout
from bcn.repository.document import VERSION, render_document
from bcn.storage.protocol import Storage

WHOLE, DAMAGED = "whole", "damaged"


@dataclass(frozen=True, slots=True)
class Verification:
    """One look at a PIT; `at` is a moment in the form of a PIT's id."""

    pit: PitId
    at: PitId
    level: int
    outcome: str

    @property
    def key(self) -> str:
        """Where its note is."""
        return layout.verification_key(self.pit, self.at, self.level, self.outcome)

    def as_json(self) -> Json:
        """The documented object, docs/json-output.md."""
        at = iso(self.at.moment)
        return {"pit": str(self.pit), "at": at, "level": self.level, "outcome": self.outcome}


def find_verifications(storage: Storage) -> dict[PitId, Verification]:
    """The newest note of each PIT, by the names of notes alone; none where they cannot be read."""
    try:
        notes = list(_iter_notes(storage))
    except StorageError:
        return {}  # whether a PIT was looked at is no reason not to list it
    return {note.pit: note for note in sorted(notes, key=lambda note: (note.at, note.level))}


def _iter_notes(storage: Storage) -> Iterable[Verification]:
    for key in storage.iter_keys(layout.VERIFICATIONS_PREFIX):
        parsed = layout.parse_verification_key(key)
        if parsed is not None:
            yield Verification(*parsed)


def save_verifications(storage: Storage, notes: Iterable[Verification]) -> None:
    """Store notes, then remove those of the same PITs and levels before them.

    Raises StorageError.
    """
    added = {(note.pit, note.level): note for note in notes}
    earlier = [note for note in _iter_notes(storage) if (note.pit, note.level) in added]
    for note in added.values():
        document = {
            "version": VERSION,
            "pit": str(note.pit),
            "verified_at": iso(note.at.moment),
            "level": note.level,
            "outcome": note.outcome,
        }
        storage.replace(note.key, render_document(document))
    for note in earlier:
        if note.at < added[note.pit, note.level].at:
            storage.delete(note.key)
