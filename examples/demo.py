"""The demo: back a warehouse up, lose it, get it back elsewhere, and prove that it is the same.

`python -m examples.demo [FOLDER]` works in FOLDER (default: demo) and starts over each time. It
ends with exit code 1 when a command fails or one row differs.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from examples.demo_proof import Reading, Verdict, count_catalog, judge, read_catalog
from examples.demo_warehouse import (
    AT_ONCE,
    FIRST_WEEKS,
    NEXT_DAY,
    Chapter,
    DemoFailedError,
    add_hadoop_catalog,
    add_sqlite_catalog,
    make_databases,
    start_spark,
    tell,
)

MARKER = ".made-by-demo"
MADE = (
    *("bcn.toml", "warehouse", "warehouse.gone", "backups", "scratch"),
    *("dr", "dr.db", "yesterday", "yesterday.db"),
)
SETTINGS = """\
[catalogs.prod]                  # the source: a folder, as Spark's Hadoop catalogs are
type = "hadoop"
warehouse = "warehouse"

[catalogs.dr]                    # where the newest point in time comes back
type = "sql"
uri = "sqlite:///{folder}/dr.db"
warehouse = "dr"

[catalogs.yesterday]             # where the one before comes back
type = "sql"
uri = "sqlite:///{folder}/yesterday.db"
warehouse = "yesterday"

[repositories.nightly]
location = "backups/nightly"
"""


@dataclass
class Stage:
    """The folder that the demo plays in, and how it speaks: steps with their times, commands."""

    folder: Path
    environment: Mapping[str, str]
    started: float = field(default_factory=time.monotonic)
    steps: int = 0

    @property
    def bcn(self) -> str:
        """How a person in the folder types `bcn`."""
        script = Path(sys.prefix) / "bin" / "bcn"
        if not script.exists():
            raise DemoFailedError(f"{script} is missing: run make install")
        is_near = self.folder.is_relative_to(script.parents[2])
        return os.path.relpath(script, self.folder) if is_near else str(script)

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        """A numbered headline before, the seconds after."""
        self.steps += 1
        begun = time.monotonic()
        say("", f"{self.steps}. {title}")
        yield
        say(f"   [{time.monotonic() - begun:.1f} s]")

    def run(self, *words: str) -> None:
        """Run a bcn command for all to see. Raises DemoFailedError."""
        line = " ".join([shlex.quote(self.bcn), *words])
        say(f"$ {line}")
        code = subprocess.run(  # noqa: S603  our own command, and words from this file
            [self.bcn, *words], cwd=self.folder, env=self.environment, check=False
        ).returncode
        if code:
            raise DemoFailedError(f"exit code {code} of: {line}")


def say(*lines: str) -> None:
    """Print, at once: commands print to the same place."""
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def clear(folder: Path) -> None:
    """Remove what an earlier demo made; all else stays. Raises DemoFailedError."""
    found = [folder / name for name in MADE if (folder / name).exists()]
    if found and not (folder / MARKER).exists():
        raise DemoFailedError(f"{found[0]} was not made by the demo: choose another folder")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARKER).write_text("make demo removes what it made here before\n")
    for path in found:
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    (folder / "scratch").mkdir()


def play(stage: Stage) -> None:
    """All of the demo. Raises DemoFailedError."""
    clear(stage.folder)
    say(f"Everything happens in {stage.folder}; commands are typed in there.")
    with open_spark(stage) as spark:
        with stage.step("Three databases, changed merge-on-read: v2 and v3 deletes in them"):
            make_databases(spark, "prod")
            first = write(spark, FIRST_WEEKS)
        back_up(stage)
        with stage.step("A day goes by"):
            newest = write(spark, NEXT_DAY)
        back_up_again(stage)
        lose_and_restore(stage)
        with stage.step("Proof: every version of every table, compared with the lost source"):
            prove(stage, spark, {"dr": newest, "yesterday": first})
    show_ways_on(stage)


@contextmanager
def open_spark(stage: Stage) -> Iterator[Any]:
    """A session that knows the demo's catalogs; gone afterwards, with all that it left behind."""
    folder = stage.folder
    with stage.step("Spark starts"):
        spark = start_spark(folder / "scratch")
    try:
        add_hadoop_catalog(spark, "prod", folder / "warehouse")
        for name in ("dr", "yesterday"):
            add_sqlite_catalog(spark, name, folder / f"{name}.db", folder / name)
        yield spark
    finally:
        spark.stop()
        shutil.rmtree(folder / "scratch")


def write(spark: Any, chapters: Sequence[Chapter]) -> dict[str, Reading]:
    """Write to the source, say what, and give back all of its tables as they are then."""
    with ThreadPoolExecutor(AT_ONCE) as threads:
        for line in threads.map(partial(tell, spark), chapters):
            say(f"   {line}")
    tables = read_catalog(spark, "prod")
    rows = sum(reading["branch main"].count for reading in tables.values())
    versions = sum(len(reading) for reading in tables.values())
    say(
        f"   {len(tables)} tables, {rows:,} rows; {versions} snapshots, branches and tags, read and"
    )
    say("   noted for the proof: number of rows and SHA-256 of all values")
    return tables


def back_up(stage: Stage) -> None:
    """The settings and the first backup."""
    with stage.step("Settings, and a backup of the whole catalog"):
        text = SETTINGS.format(folder=stage.folder)
        (stage.folder / "bcn.toml").write_text(text, encoding="utf-8")
        say("$ cat bcn.toml", *filter(None, text.splitlines()), "")
        stage.run("backup", "--repo", "nightly", "--catalog", "prod")


def back_up_again(stage: Stage) -> None:
    """The second backup, and what the repository has then."""
    with stage.step("The second backup needs no names, and copies what is new"):
        stage.run("backup", "--label", "reason=demo")
    with stage.step("What the repository holds; whether every byte is what it was"):
        stage.run("list", "--pit", "latest")
        stage.run("describe")
        stage.run("verify", "--level", "3")


def lose_and_restore(stage: Stage) -> None:
    """The source goes; both points in time come back, each in a place of its own."""
    with stage.step("Disaster: the warehouse is gone. The newest PIT comes back in catalog dr"):
        say("$ mv warehouse warehouse.gone")
        (stage.folder / "warehouse").rename(stage.folder / "warehouse.gone")
        stage.run("restore", "--pit", "latest", "--target-catalog", "dr")
    with stage.step("The PIT before, with the table that was dropped, in catalog yesterday"):
        stage.run("restore", "--pit", "latest~1", "--target-catalog", "yesterday")


def prove(stage: Stage, spark: Any, sources: Mapping[str, dict[str, Reading]]) -> None:
    """Compare catalogs with the source as it was then. Raises DemoFailedError."""
    databases = [stage.folder / f"{catalog}.db" for catalog in sources]
    with ThreadPoolExecutor(1) as other:  # pyiceberg counts while Spark reads
        counted = other.map(count_catalog, sources, databases)
        read = [read_catalog(spark, catalog) for catalog in sources]
        verdicts = [
            verdict
            for (catalog, source), restored, counts in zip(
                sources.items(), read, counted, strict=True
            )
            for verdict in judge(catalog, source, restored, counts)
        ]
    show_verdicts(verdicts)
    if wrong := [verdict.table for verdict in verdicts if not verdict.is_equal]:
        raise DemoFailedError(f"not as in the source: {', '.join(wrong)}")


def show_verdicts(verdicts: Sequence[Verdict]) -> None:
    """A line for each table, and one for each difference."""
    width = max(len(item.table) for item in verdicts)
    say(f"   {'TABLE':<{width}}  SNAPSHOTS  ROWS READ  SPARK      PYICEBERG  READ BY NAME, TOO")
    for item in verdicts:
        spark = "DIFFERENT" if item.spark_differences else "equal"
        other = "DIFFERENT" if item.pyiceberg_differences else "equal"
        figures = f"{item.snapshots:>9}  {item.rows:>9,}  {spark:<9}  {other:<9}"
        say(f"   {item.table:<{width}}  {figures}  {item.refs}")
        say(*(f"      Spark: {text}" for text in item.spark_differences))
        say(*(f"      pyiceberg: {text}" for text in item.pyiceberg_differences))
    say("   SPARK: number of rows and SHA-256 of all values. PYICEBERG: number of rows.")


def show_ways_on(stage: Stage) -> None:
    """The time it took, and commands to go on with; they work in this order, too."""
    folder, here, bcn = stage.folder, Path.cwd(), shlex.quote(stage.bcn)
    other = shlex.quote(str(Path(stage.bcn).with_name("pyiceberg")))
    say("", f"Done in {time.monotonic() - stage.started:.0f} s, all equal. Go on by hand:", "")
    say(
        f"  cd {shlex.quote(str(folder.relative_to(here) if here in folder.parents else folder))}",
        f"  {bcn} list",
        f"  {bcn} restore --pit latest~1 --table segments --target-catalog dr",
        f"  {bcn} verify --level 5 --pit latest",
        f"  mv warehouse.gone warehouse && {bcn} backup",
        f"  {other} --catalog dr --uri sqlite:///dr.db describe sales.orders",
        f"  {bcn} --help",
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Play the demo; 0 if all of it went well."""
    parser = argparse.ArgumentParser(prog="python -m examples.demo", description=__doc__)
    parser.add_argument("folder", nargs="?", default="demo", metavar="FOLDER")
    folder = Path(parser.parse_args(arguments).folder).absolute()
    own = {key: value for key, value in os.environ.items() if not key.startswith("BCN_")}
    try:
        play(Stage(folder, own))
    except DemoFailedError as error:
        sys.stderr.write(f"demo failed: {error}\n")
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
