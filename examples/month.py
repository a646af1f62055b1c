"""A month in the life of a catalog, played with the real commands and written down as a page.

`python -m examples.month [FOLDER] [--page FILE]` works in FOLDER (default: month) and starts over
each time. It ends with exit code 1 when a command does not do what the page says.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from examples.demo_proof import Reading, read_catalog
from examples.demo_warehouse import DemoFailedError, add_sqlite_catalog, start_spark
from examples.month_life import (
    ANOTHER_START,
    BEGINNING,
    GROWTH,
    LATE_ORDERS,
    MISTAKES,
    ORDER,
)

PAGE = Path(__file__).parents[1] / "docs" / "month.md"
MARKER = ".made-by-month"
SETTINGS = """\
[catalogs.prod]                  # the source
type = "sql"
uri = "sqlite:///prod.db"
warehouse = "warehouse"

[catalogs.dr]                    # where a database is brought back to
type = "sql"
uri = "sqlite:///dr.db"
warehouse = "dr"

[repositories.nightly]
location = "backups"
"""
INTRODUCTION = """\
# A month in the life of a catalog

Thirty days in a few minutes: tables come, go, are renamed, evolve, are compacted and expired; a
database is dropped and made again; a file gets lost. `make month` plays all of it with Spark and
the real commands and writes this page: the outputs are as they were, with their times and ids. What
is called *proved* was compared by Spark; had it not been equal, there would be no page.
Words: [format.md](format.md). Commands: [cli.md](cli.md).
"""


@dataclass
class Diary:
    """The folder that the month is played in, and the page that is written meanwhile."""

    folder: Path
    environment: Mapping[str, str]
    lines: list[str] = field(default_factory=lambda: [INTRODUCTION])

    def day(self, number: int, title: str, *prose: str) -> None:
        """A chapter."""
        sys.stdout.write(f"day {number}: {title}\n")
        sys.stdout.flush()
        self.lines += [f"## Day {number}: {title}", ""]
        self.say(*prose)

    def say(self, *prose: str) -> None:
        """Paragraphs."""
        for text in prose:
            self.lines += [text, ""]

    def show(self, language: str, text: str) -> None:
        """A block as it is; places of this machine become places in the folder."""
        for spelling in (f"file://{self.folder}/", f"file:{self.folder}/", f"{self.folder}/"):
            text = text.replace(spelling, "")
        text = text.replace(str(self.folder), ".")
        self.lines += [f"```{language}", text.rstrip("\n"), "```", ""]

    def sql(self, spark: Any, statements: Sequence[str]) -> None:
        """Statements that Spark runs in the source."""
        for statement in statements:
            spark.sql(statement)
        self.show("sql", ";\n".join(statements) + ";")

    def bcn(self, *words: str, code: int = 0) -> str:
        """A command with what it prints. Raises DemoFailedError if it ends in another way."""
        done = subprocess.run(  # noqa: S603  our own command, and words from this file
            [str(Path(sys.prefix) / "bin" / "bcn"), *words],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        told = [line for line in done.stderr.splitlines() if line.startswith(_TOLD)]
        if done.returncode != code:
            raise DemoFailedError(
                f"exit code {done.returncode} of bcn {' '.join(words)}:\n{done.stdout}{done.stderr}"
            )
        ending = [f"[exit code {code}]"] if code else []
        printed = done.stdout.rstrip("\n").splitlines()
        self.show("console", "\n".join([f"$ bcn {' '.join(words)}", *printed, *told, *ending]))
        return done.stdout

    def expect(self, text: str, *parts: str) -> None:
        """Raises DemoFailedError if something is missing in what was printed."""
        for part in parts:
            if part not in text:
                raise DemoFailedError(f"{part!r} is not in:\n{text}")

    def prove(self, what: str, source: Mapping[str, Reading], found: Mapping[str, Reading]) -> None:
        """Say that tables are equal, version by version. Raises DemoFailedError."""
        if source != found or not source:
            raise DemoFailedError(f"{what}: {dict(source)} is not {dict(found)}")
        versions = sum(len(reading) for reading in source.values())
        rows = sum(rows.count for reading in source.values() for rows in reading.values())
        self.say(
            f"*Proved:* {what}: {_count(len(source), 'table')}, {_count(versions, 'version')} "
            f"(snapshots, branches, tags), {rows:,} rows in all of them, each value the same."
        )


_TOLD = ("error:", "hint:", "warning:")


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def clear(folder: Path) -> None:
    """An empty folder; one with other things in it is refused. Raises DemoFailedError."""
    if folder.exists() and any(folder.iterdir()) and not (folder / MARKER).exists():
        raise DemoFailedError(f"{folder} was not made by the month: choose another folder")
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "scratch").mkdir(parents=True)
    (folder / MARKER).write_text("make month removes this folder and makes it again\n")
    (folder / "bcn.toml").write_text(SETTINGS)


def play(diary: Diary) -> None:
    """The whole month. Raises DemoFailedError."""
    clear(diary.folder)
    spark = start_spark(diary.folder / "scratch")
    try:
        for name in ("prod", "dr"):
            add_sqlite_catalog(
                spark, name, diary.folder / f"{name}.db", diary.folder / _WAREHOUSES[name]
            )
        spark.catalog.setCurrentCatalog("prod")
        for chapter in CHAPTERS:
            chapter(diary, spark)
    finally:
        spark.stop()
        shutil.rmtree(diary.folder / "scratch", ignore_errors=True)


_WAREHOUSES = {"prod": "warehouse", "dr": "dr"}


# the chapters


def begin(diary: Diary, spark: Any) -> None:
    """Day 1."""
    diary.day(1, "the first backup", "The settings, the first tables, and a view.")
    diary.show("toml", SETTINGS)
    diary.sql(spark, BEGINNING)
    diary.say("`--catalog` locks the repository to this catalog; no later run has to name it.")
    diary.bcn("backup", "--catalog", "prod", "--label", "day=1")
    diary.bcn("list", "--pit", "latest")
    diary.say("Another scope is refused, broader or narrower:")
    diary.bcn("backup", "--catalog", "prod", "--database", "sales", code=16)


def grow(diary: Diary, spark: Any) -> None:
    """Days 4 and 5."""
    diary.day(4, "tables grow, and one is new")
    diary.sql(spark, GROWTH)
    diary.bcn("backup", "--label", "day=4")
    diary.say("What the last backup found:")
    text = diary.bcn("diff", "latest~1")
    diary.expect(text, "column discount added", "NEW      table crm.campaigns", "bucket(4, host)")
    diary.day(5, "nothing happens", "Neither Spark nor Java is started for it.")
    diary.bcn("backup", "--label", "day=5")


def tidy(diary: Diary, spark: Any) -> None:
    """Day 9."""
    diary.day(
        9,
        "renamed, compacted, expired",
        "Two tables get other names, one of them in another database; a column is renamed; orders "
        "are compacted and their old snapshots expired. Files that are gone from the source stay "
        "in the points in time that need them.",
    )
    diary.sql(spark, ORDER)
    diary.bcn("backup", "--label", "day=9")
    text = diary.bcn("diff", "latest~1")
    diary.expect(
        text,
        "RENAMED  table crm.leads to sales.prospects",
        "column name renamed to full_name",
        "tag june made",
    )


def lose(diary: Diary, spark: Any) -> None:
    """Day 12."""
    diary.day(
        12,
        "mistakes",
        "Somebody drops a table, and somebody else a whole database, with all files.",
    )
    diary.sql(spark, MISTAKES)
    diary.bcn("backup", "--label", "day=12")
    text = diary.bcn("list", "--pit", "latest")
    diary.expect(text, "DELETED")


def start_again(diary: Diary, spark: Any) -> None:
    """Day 15."""
    diary.day(
        15,
        "a database made again",
        "It has the old name, and a table of the old name: another object, as its history shows.",
    )
    diary.sql(spark, ANOTHER_START)
    diary.bcn("backup", "--label", "day=15")
    text = diary.bcn("log", "ops.events")
    if text.count("table ops.events, id ") != 2:
        raise DemoFailedError(f"two tables were called ops.events:\n{text}")


def break_and_mend(diary: Diary, spark: Any) -> None:
    """Days 18 and 19."""
    diary.day(
        18,
        "a disk loses a file",
        "Orders come in, and one of their files is gone before the backup.",
    )
    earlier = _files(spark)
    diary.sql(spark, [LATE_ORDERS])
    lost = Path(min(_files(spark) - earlier))
    diary.show("console", f"$ mv {lost} lost.parquet")
    lost.rename(diary.folder / "lost.parquet")
    diary.say(
        "The others are backed up. Orders keep their last good version, and everybody is told."
    )
    text = diary.bcn("backup", "--label", "day=18", code=3)
    diary.expect(text, "FAILED", lost.name)
    diary.day(19, "the file is found")
    diary.show("console", f"$ mv lost.parquet {lost}")
    (diary.folder / "lost.parquet").rename(lost)
    diary.bcn("backup", "--label", "day=19")
    text = diary.bcn("log", "sales.orders", "--limit", "4")
    diary.expect(text, "FAILED", "snapshot")


def _files(spark: Any) -> set[str]:
    rows = spark.sql("SELECT file_path FROM sales.orders.files").collect()
    return {row.file_path.removeprefix("file:") for row in rows}


def bring_back(diary: Diary, spark: Any) -> None:
    """Day 22."""
    diary.day(
        22,
        "the dropped table comes back",
        "It is gone from the source since day 12; the last version before that returns under its "
        "own name, in its own place, with its uuid.",
    )
    diary.bcn("restore", "--table", "sales.returns", "--include-deleted")
    rows = spark.sql("SELECT count(*) AS n, sum(order_id) AS s FROM sales.returns").collect()[0]
    if (rows.n, rows.s) != (60, sum(number * 7 for number in range(60))):
        raise DemoFailedError(f"sales.returns has {rows.n} rows")
    diary.say("*Proved:* it has its 60 rows again. What is there already is never replaced:")
    diary.bcn("restore", "--table", "sales.returns", "--include-deleted", code=16)
    diary.bcn("backup", "--label", "day=22")
    text = diary.bcn("log", "returns")
    diary.expect(text, "is back", "DELETED")


def restore_elsewhere(diary: Diary, spark: Any) -> None:
    """Day 25."""
    diary.day(
        25,
        "a whole database, elsewhere",
        "`sales` as it is now goes into the catalog `dr`, and beside it `ops` as it was on day 1, "
        "which the source has no more.",
    )
    diary.bcn("restore", "--database", "sales", "--target-catalog", "dr")
    source = _tables(read_catalog(spark, "prod"), "sales.")
    diary.prove(
        "`sales` in `dr` is `sales` in `prod`", source, _tables(read_catalog(spark, "dr"), "sales.")
    )
    pits = _pits(diary)
    diary.bcn(
        *("restore", "--pit", pits[0].name, "--database", "ops"),
        *("--target-catalog", "dr", "--target-database", "ops_in_june"),
    )
    rows = spark.sql("SELECT count(*) AS n, count(host) AS h FROM dr.ops_in_june.events").collect()
    if (rows[0].n, rows[0].h) != (400, 400):
        raise DemoFailedError(f"dr.ops_in_june.events has {rows[0].n} rows")
    diary.say(
        "*Proved:* `ops_in_june.events` has the 400 rows, and the column, that it had on day 1."
    )


def _tables(found: Mapping[str, Reading], prefix: str) -> dict[str, Reading]:
    return {name: reading for name, reading in found.items() if name.startswith(prefix)}


def _pits(diary: Diary) -> list[Path]:
    return sorted((diary.folder / "backups/catalogs/prod/pit_manifests").iterdir())


def clean_up(diary: Diary, _spark: Any) -> None:
    """Day 28."""
    diary.day(
        28,
        "what nobody needs, and what can be made again",
        "The points in time of days 4 and 5 are given up by removing their folders, which hurts no "
        "other. What only they needed is named first, and then deleted.",
    )
    for pit in _pits(diary)[1:3]:
        diary.show("console", f"$ rm -r {pit}")
        shutil.rmtree(pit)
    text = diary.bcn("prune", "--dry-run")
    if "nothing to prune" in text:
        raise DemoFailedError(f"two points in time less, and nothing is left over:\n{text}")
    diary.bcn("prune", "--grace", "0")
    diary.say("Files that only repeat what points in time say may get lost; they are made again.")
    for name in ("manifest.json", "catalogs/prod/pits.jsonl"):
        diary.show("console", f"$ rm backups/{name}")
        (diary.folder / "backups" / name).unlink()
    diary.bcn("repair")


def look_back(diary: Diary, _spark: Any) -> None:
    """Day 30."""
    diary.day(30, "looking back", "Every byte is read and compared, and the month is told.")
    text = diary.bcn("verify", "--level", "3")
    diary.expect(text, "whole")
    text = diary.bcn("describe")
    diary.expect(text, "l3")
    diary.bcn("list")
    diary.bcn("log", "sales.prospects")
    diary.bcn("diff", _pits(diary)[0].name, "--database", "crm", "--database", "ops")
    diary.say("A name that is not quite right:")
    diary.bcn("log", "sales.ordres", code=14)


CHAPTERS: tuple[Callable[[Diary, Any], None], ...] = (
    *(begin, grow, tidy, lose, start_again),
    *(break_and_mend, bring_back, restore_elsewhere, clean_up, look_back),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Play the month; 0 if all of it went well, and then the page is written."""
    parser = argparse.ArgumentParser(prog="python -m examples.month", description=__doc__)
    parser.add_argument("folder", nargs="?", default="month", metavar="FOLDER")
    parser.add_argument("--page", default=str(PAGE), metavar="FILE")
    asked = parser.parse_args(arguments)
    own = {key: value for key, value in os.environ.items() if not key.startswith("BCN_")}
    diary = Diary(Path(asked.folder).absolute(), own)
    try:
        play(diary)
    except DemoFailedError as error:
        sys.stderr.write(f"the month failed: {error}\n")
        return 1
    Path(asked.page).write_text("\n".join(diary.lines).rstrip("\n") + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
