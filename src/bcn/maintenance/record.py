"""Noting a verification in the repository, where that can be written to."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from bcn.errors import RefusedError, StorageError
from bcn.maintenance.report import VerifyReport
from bcn.model import PitId
from bcn.repository.repository import Repository
from bcn.repository.verification import DAMAGED, WHOLE, Verification, save_verifications


def record_verification(repository: Repository, report: VerifyReport, at: datetime) -> VerifyReport:
    """The report, saying whether each PIT that was checked whole has a note of it by now."""
    hurt = report.hurt
    notes = [
        Verification(pit, PitId.of(at), report.level, DAMAGED if pit in hurt else WHOLE)
        for pit in report.pits
    ]
    try:
        repository.check_writable()
        save_verifications(repository.storage, notes)
    except (RefusedError, StorageError):
        return report  # a repository that is read-only can be verified all the same
    return replace(report, is_recorded=True)
