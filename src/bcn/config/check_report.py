"""What `config check` found out, as people and programs are told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from bcn.config.secrets import redact_text
from bcn.errors import BcnError
from bcn.model import Json


class Status(Enum):
    """How a step ended. A note is worth knowing and stops nothing."""

    OK = "ok"
    NOTE = "note"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class CheckStep:
    """One thing that was tried."""

    name: str
    status: Status
    message: str
    error: BcnError | None = None

    @property
    def hint(self) -> str:
        """What to change."""
        return redact_text(self.error.hint) if self.error else ""

    def as_json(self) -> Json:
        """The documented object, docs/json-output.md."""
        return {
            "step": self.name,
            "status": self.status.value,
            "message": self.message,
            "hint": self.hint,
        }


@dataclass(slots=True)
class CheckedSection:
    """A catalog or repository, and what was tried with it, in order."""

    section: str  # catalogs, repositories
    name: str
    type: str
    place: str
    steps: list[CheckStep] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def failure(self) -> BcnError | None:
        """What went wrong first."""
        return next((step.error for step in self.steps if step.status is Status.FAILED), None)

    @property
    def status(self) -> Status:
        """The worst of its steps."""
        found = {step.status for step in self.steps}
        return next((s for s in (Status.FAILED, Status.NOTE) if s in found), Status.OK)

    def ok(self, name: str, message: str) -> None:
        """A step that worked."""
        self.steps.append(CheckStep(name, Status.OK, redact_text(message)))

    def note(self, name: str, message: str, error: BcnError | None = None) -> None:
        """A step that says something and stops nothing."""
        self.steps.append(CheckStep(name, Status.NOTE, redact_text(message), error))

    def fail(self, name: str, error: BcnError) -> None:
        """A step that did not work."""
        self.steps.append(CheckStep(name, Status.FAILED, redact_text(str(error)), error))

    def as_json(self) -> Json:
        """The documented object, docs/json-output.md."""
        return {
            "section": self.section,
            "name": self.name,
            "type": self.type,
            "location": self.place,
            "status": self.status.value,
            "seconds": round(self.seconds, 3),
            "steps": [step.as_json() for step in self.steps],
        }


@dataclass(frozen=True, slots=True)
class CheckReport:
    """All sections, catalogs first."""

    sections: Sequence[CheckedSection]

    @property
    def failure(self) -> BcnError | None:
        """What went wrong first; its exit code is the command's."""
        failures = (section.failure for section in self.sections)
        return next((failure for failure in failures if failure is not None), None)

    def as_json(self) -> Json:
        """The documented object, docs/json-output.md."""
        return {"sections": [section.as_json() for section in self.sections]}
