"""What a verification found, as people and programs are told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from bcn.model import Json, PitId, iso

LEVELS: Mapping[int, str] = {
    1: "documents: every manifest, entry and layer is whole, and they agree with each other",
    2: "files: every stored file is there, with the size that the inventory says",
    3: "bytes: every stored file has the SHA-256 that was taken when it was backed up",
    4: "metadata: all files that the stored tables name are in the inventory, none is missing",
    5: "reading: every snapshot and ref of a scratch restore was read by Spark and pyiceberg, "
    "with the row counts that the stored manifests give",
}


class Severity(StrEnum):
    """How bad it is: only an ERROR means that something stored is hurt."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a check noticed: `pits` are all checked ones it concerns, `pit` is one."""

    level: int
    severity: Severity
    pit: str | None
    object: str | None
    key: str | None
    message: str
    pits: tuple[str, ...] = ()

    def as_json(self) -> Json:
        """The documented object."""
        return {
            "level": self.level,
            "severity": str(self.severity),
            "pit": self.pit,
            "pits": list(self.pits),
            "object": self.object,
            "key": self.key,
            "message": self.message,
        }


@dataclass(frozen=True, slots=True)
class Reading:
    """A snapshot or ref that was read: rows as recorded, and by each reader that could."""

    pit: str
    object: str
    target: str
    rows_recorded: int
    delete_files: int
    rows: Mapping[str, int]


@dataclass(frozen=True)
class VerifyReport:
    """The sum of a verification. `omitted` counts findings beyond those that one task may list."""

    repository: str
    level: int
    started_at: datetime
    pits: tuple[PitId, ...]
    objects: int
    findings: tuple[Finding, ...]
    omitted: int
    files_checked: int
    bytes_checked: int
    files_hashed: int
    bytes_hashed: int
    manifests_walked: int
    readings: tuple[Reading, ...]
    seconds: Mapping[str, float] = field(default_factory=dict)
    is_recorded: bool = False  # whether the repository has a note of it

    @property
    def ok(self) -> bool:
        """Whether nothing that was checked is hurt."""
        return not self.omitted and not any(
            item.severity is Severity.ERROR for item in self.findings
        )

    @property
    def hurt(self) -> frozenset[PitId]:
        """The PITs that an error concerns: all of them where not every error was listed."""
        if self.omitted:
            return frozenset(self.pits)
        errors = [item for item in self.findings if item.severity is Severity.ERROR]
        named = {pit for item in errors for pit in (*item.pits, item.pit)}
        return frozenset(pit for pit in self.pits if str(pit) in named)

    def count(self, severity: Severity) -> int:
        """How many findings are listed as that bad."""
        return Counter(item.severity for item in self.findings)[severity]

    def as_json(self) -> Json:
        """The documented object, docs/json-output.md."""
        return {
            "repository": self.repository,
            "level": self.level,
            "proves": [text for level, text in LEVELS.items() if level <= self.level],
            "started_at": iso(self.started_at),
            "ok": self.ok,
            "pits": [str(pit) for pit in self.pits],
            "objects": self.objects,
            "errors": self.count(Severity.ERROR),
            "warnings": self.count(Severity.WARNING),
            "findings": [item.as_json() for item in self.findings],
            "findings_omitted": self.omitted,
            "files_checked": self.files_checked,
            "bytes_checked": self.bytes_checked,
            "files_hashed": self.files_hashed,
            "bytes_hashed": self.bytes_hashed,
            "manifests_walked": self.manifests_walked,
            "snapshots_read": len(self.readings),
            "recorded": self.is_recorded,
            "seconds": dict(self.seconds),
        }


@dataclass
class Findings:
    """Collects findings, each once; what is beyond the limit is only counted."""

    limit: int | None = None
    items: dict[Finding, None] = field(default_factory=dict)
    omitted: int = 0

    def add(self, finding: Finding) -> None:
        """Keep a finding, or count it."""
        if finding in self.items:
            return
        if self.limit is not None and len(self.items) >= self.limit:
            self.omitted += 1
        else:
            self.items[finding] = None

    def merge(self, items: tuple[Finding, ...], omitted: int) -> None:
        """Take over what a task found."""
        for item in items:
            self.add(item)
        self.omitted += omitted
