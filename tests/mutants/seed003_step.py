"""How the steps of seed 003 are written down: one for each of its tests."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

Step = tuple[str, str, str, str, str]


def steps(file: str, *rows: Step) -> tuple[Mutant, ...]:
    """Mutants of one group: its test, the step, the file, the text with the step and without."""
    return tuple(
        Mutant(f"seed003-{test}", step, source, old, new, (f"tests/seed003/{file}::test_{test}",))
        for test, step, source, old, new in rows
    )
