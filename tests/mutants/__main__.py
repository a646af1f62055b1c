"""Runs mutants: `python -m tests.mutants [--list] [--why] [--only NAME]`; exit 1 if one lives."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.catalogue import MUTANTS
from tests.mutants.mutant import Mutant, MutantError, applied

ROOT = Path(__file__).parents[2]
COPIED = ("src", "tests", "pyproject.toml")
COMPILED = ("engine/handful.py", "iceberg/kernel.py", "iceberg/splice.py")
TIMEOUT_SECONDS = 300

KILLED, SURVIVED, BROKEN = "killed", "SURVIVED", "BROKEN"
_PASSED, _FAILED = 0, 1  # what pytest exits with; anything else means that it could not run


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a mutant."""

    mutant: Mutant
    verdict: str
    seconds: float
    told: str


class Workshop:
    """A copy of source and tests, in which nothing but the mutant differs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "copy"
        self._scratch = folder / "scratch"
        self._cache = folder / "numba"
        self._folder.mkdir()
        for name in COPIED:
            _copy(ROOT / name, self._folder / name)

    def check_own_source(self) -> None:
        """Raises MutantError if Python would import the product from elsewhere."""
        command = [sys.executable, "-c", "import bcn; print(bcn.__file__)"]
        done = self._run(command, self._cache, TIMEOUT_SECONDS)
        if not done.stdout.startswith(str(self._folder)):
            raise MutantError(f"the copy is not what is imported: {done.stdout}{done.stderr}")

    def run_tests(
        self, tests: Sequence[str], cache: Path | None = None, timeout: int | None = None
    ) -> tuple[int, str]:
        """Exit code and output of pytest; it stops at the first failure."""
        options = ["-x", "-q", "--no-header", "--tb=line", "--hypothesis-seed=0"]
        place = [f"--basetemp={self._scratch}"]
        command = [sys.executable, "-m", "pytest", *options, *place, *tests]
        try:
            done = self._run(command, cache or self._cache, timeout)
        except subprocess.TimeoutExpired:
            return -1, f"not done after {timeout} seconds"
        return done.returncode, done.stdout + done.stderr

    def try_mutant(self, mutant: Mutant) -> Outcome:
        """Leave the step out and see whether a test notices."""
        started = time.monotonic()
        compiled = mutant.file in COMPILED
        cache = self._cache.with_name(f"numba-{mutant.name}") if compiled else None
        try:
            with applied(mutant, self._folder / "src/bcn"):
                code, output = self.run_tests(mutant.tests, cache, TIMEOUT_SECONDS)
        except MutantError as error:
            return Outcome(mutant, BROKEN, 0.0, str(error))
        verdict = {_PASSED: SURVIVED, _FAILED: KILLED}.get(code, BROKEN)
        return Outcome(mutant, verdict, time.monotonic() - started, _last_lines(output))

    def _run(
        self, command: Sequence[str], cache: Path, timeout: int | None
    ) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {
            "PYTHONPATH": str(self._folder / "src"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "NUMBA_CACHE_DIR": str(cache),
            "LC_ALL": "C.UTF-8",
        }
        return subprocess.run(
            command,
            cwd=self._folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
        )


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        ignored = shutil.ignore_patterns("__pycache__", ".*")
        shutil.copytree(source, target, ignore=ignored)
    else:
        shutil.copy2(source, target)


def _last_lines(output: str) -> str:
    return "\n".join(f"    {line}" for line in output.strip().splitlines()[-6:])


def _tests_of(mutants: Sequence[Mutant]) -> list[str]:
    """Every test once, without the words that choose among its cases."""
    nodes = (test for mutant in mutants for test in mutant.tests if test.startswith("tests/"))
    return list(dict.fromkeys(nodes))


def _select(names: Sequence[str]) -> list[Mutant]:
    unknown = set(names) - {mutant.name for mutant in MUTANTS}
    if unknown:
        raise MutantError(f"no such mutant: {', '.join(sorted(unknown))}")
    return [mutant for mutant in MUTANTS if not names or mutant.name in names]


def _show(*words: object) -> None:
    print(*words, flush=True)  # noqa: T201  what a person waits for


def run(mutants: Sequence[Mutant], *, why: bool) -> int:
    """Try them one by one; 0 if all were killed."""
    with tempfile.TemporaryDirectory(prefix="bcn-mutants-") as folder:
        workshop = Workshop(Path(folder))
        workshop.check_own_source()
        _show(f"{len(mutants)} mutants; first their tests on the product as it is …")
        started = time.monotonic()
        code, output = workshop.run_tests(_tests_of(mutants))
        if code != _PASSED:
            _show(_last_lines(output), "\nthe tests fail without any mutant")
            return 1
        _show(f"passed in {time.monotonic() - started:.0f} s")
        outcomes = []
        for number, mutant in enumerate(mutants, 1):
            outcome = workshop.try_mutant(mutant)
            outcomes.append(outcome)
            _show(
                f"{number:4}/{len(mutants)} {outcome.verdict:9}"
                f"{outcome.seconds:5.0f} s  {mutant.name}"
            )
    return _report(outcomes, why=why)


def _report(outcomes: Sequence[Outcome], *, why: bool) -> int:
    counts = Counter(outcome.verdict for outcome in outcomes)
    seconds = sum(outcome.seconds for outcome in outcomes)
    _show(f"\n{counts[KILLED]} of {len(outcomes)} killed in {seconds / 60:.1f} minutes")
    for outcome in outcomes:
        if why or outcome.verdict != KILLED:
            mutant = outcome.mutant
            _show(f"\n{outcome.verdict} {mutant.name} ({mutant.file}): {mutant.step}")
            _show(f"  {' '.join(mutant.tests)}\n{outcome.told}")
    return 0 if counts[KILLED] == len(outcomes) else 1


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    parser.add_argument("--list", action="store_true", help="show the steps and end")
    parser.add_argument("--why", action="store_true", help="show how each one was noticed")
    options = parser.parse_args()
    try:
        mutants = _select(options.only)
        if options.list:
            _show("\n".join(f"{mutant.name:32} {mutant.step}" for mutant in mutants))
            return 0
        return run(mutants, why=options.why)
    except MutantError as error:
        _show(error)
        return 1


if __name__ == "__main__":
    sys.exit(main())
