"""Steps that the tests of seed 003 need: each test names one without which it fails."""

from __future__ import annotations

from tests.mutants import seed003_backup, seed003_stacks, seed003_use

MUTANTS = (*seed003_backup.MUTANTS, *seed003_use.MUTANTS, *seed003_stacks.MUTANTS)
