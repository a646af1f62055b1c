"""Sources that Spark and bcn share, and vaults: a repository, settings, where to restore to."""

from __future__ import annotations

import io
import itertools
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bcn.cli.main import run
from tests.support.command import Answer
from tests.support.compare import pyiceberg_rows, spark_rows
from tests.support.compare.rows import Rows
from tests.support.shapes.model import World
from tests.support.spark import add_hadoop_catalog, add_sql_catalog

Json = dict[str, Any]
_numbers = itertools.count(1)

_TOML = """
[catalogs.prod]
type = "sql"
name = "{source.catalog}"
uri = "sqlite:///{source.db_path}"
warehouse = "{source.warehouse}"
[catalogs.lake]
type = "hadoop"
name = "{source.hadoop_catalog}"
warehouse = "{source.hadoop_warehouse}"
[catalogs.dr]
type = "sql"
name = "{target.catalog}"
uri = "sqlite:///{target.db_path}"
warehouse = "{target.warehouse}"
[catalogs.dr_lake]
type = "hadoop"
name = "{target.hadoop_catalog}"
warehouse = "{target.hadoop_warehouse}"
[spark]
master = "local[2]"
"""


def open_catalogs(spark: Any, folder: Path) -> World:
    """A SQL catalog and a Hadoop catalog, both empty, under names that no other test has."""
    number = next(_numbers)
    world = World(spark, folder, f"seed{number}", f"seed{number}_lake")
    for path in (world.warehouse, world.hadoop_warehouse, world.external):
        path.mkdir(parents=True)
    add_sql_catalog(spark, world.catalog, world.db_path, world.warehouse)
    add_hadoop_catalog(spark, world.hadoop_catalog, world.hadoop_warehouse)
    return world


@contextmanager
def hidden(world: World) -> Iterator[None]:
    """The files of a source are gone while a restored table is read."""
    places = (world.warehouse, world.hadoop_warehouse, world.external)
    for place in places:
        place.rename(place.with_suffix(".away"))
    try:
        yield
    finally:
        for place in places:
            place.with_suffix(".away").rename(place)


@dataclass
class Vault:
    """A repository of a source; `prod` and `lake` are the source, `dr` and `dr_lake` the target."""

    folder: Path
    source: World
    target: World
    repository: Path

    # the command, in this process and on its Spark session

    def bcn(self, *arguments: str) -> Answer:
        """Run a command: its exit code, its JSON and what it told people."""
        out, err, started = io.StringIO(), io.StringIO(), time.monotonic()
        place = ("--config", str(self.folder / "bcn.toml"), "--repo", str(self.repository))
        with redirect_stdout(out), redirect_stderr(err):
            code = run([*arguments, *place, "--json", "--quiet"])
        text = out.getvalue()
        report = json.loads(text) if text.strip() else None
        return Answer(code, report, err.getvalue(), time.monotonic() - started)

    def done(self, *arguments: str) -> Json:
        """The report of a command that must succeed."""
        answer = self.bcn(*arguments)
        assert answer.code == 0, answer.stderr
        return dict(answer.report)

    def backup(self, *arguments: str) -> Json:
        return self.done("backup", *arguments)

    def restore(self, *arguments: str, to: str = "dr") -> Json:
        """Restore into the target's SQL catalog, unless told otherwise."""
        return self.done("restore", "--target-catalog", to, *arguments)

    def start(self, *arguments: str, hook: str = "") -> subprocess.Popen[str]:
        """Run a command as a process of its own; a hook is Python that it runs first."""
        place = ("--config", str(self.folder / "bcn.toml"), "--repo", str(self.repository))
        code = f"{hook}\nfrom bcn.cli.main import main\nmain()\n"
        return subprocess.Popen(
            [sys.executable, "-c", code, *arguments, *place, "--json", "--quiet"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    # what is stored

    def document(self, key: str) -> Json:
        return dict(json.loads((self.repository / key).read_bytes()))

    @property
    def manifest(self) -> Json:
        return self.document("manifest.json")

    def pits(self) -> list[str]:
        """Ids of the PITs, oldest first; abandoned ones are none."""
        keys = self.repository.glob("catalogs/*/pit_manifests/*/manifest.json")
        return sorted(k.parent.name for k in keys if "abandoned" not in json.loads(k.read_bytes()))

    def pit(self, pit: str | None = None) -> Json:
        """The manifest of a PIT, by default of the newest."""
        catalog = self.manifest["scope"]["catalog"]
        name = pit or self.pits()[-1]
        return self.document(f"catalogs/{catalog}/pit_manifests/{name}/manifest.json")

    def record(self, table: str, pit: str | None = None) -> Json:
        """What a PIT says of a table."""
        return next(dict(item) for item in self.pit(pit)["objects"] if item["name"] == table)

    def entry(self, table: str, pit: str | None = None) -> Json:
        """The table's own document as of a PIT."""
        return self.document(self.record(table, pit)["entry"]["key"])

    def deleted_tables(self, database: str) -> list[Json]:
        """The tables that `.deleted_tables.json` of a database names; none without that file."""
        catalog = self.manifest["scope"]["catalog"]
        key = f"catalogs/{catalog}/databases/{database}/.deleted_tables.json"
        found = (self.repository / key).exists()
        return list(self.document(key)["deleted_tables"]) if found else []

    def stored_data(self) -> set[str]:
        """Names of all stored files of tables."""
        data = self.repository / "data"
        return {str(path.relative_to(data)) for path in data.rglob("*") if path.is_file()}

    # what was restored

    def rows(self, table: str, catalog: str = "dr") -> Rows:
        """What Spark reads at every snapshot and ref of a table."""
        name = self.target.hadoop_catalog if catalog == "dr_lake" else self.target.catalog
        return spark_rows(self.source.spark, self.target.name(table, name))

    def arrow_rows(self, table: str) -> Rows:
        """What pyiceberg reads of a restored table."""
        return pyiceberg_rows(self.target.metadata_location(table))

    def tables(self) -> list[str]:
        """Names of all tables in the target's SQL catalog."""
        return tables_of(self.target)


def tables_of(world: World) -> list[str]:
    """Names of all tables that Spark finds in a SQL catalog."""
    databases = [row.namespace for row in world.sql(f"SHOW NAMESPACES IN {world.catalog}")]
    found = [
        f"{database}.{row.tableName}"
        for database in databases
        for row in world.sql(f"SHOW TABLES IN {world.catalog}.{database}")
    ]
    return sorted(found)


def open_vault(folder: Path, source: World, repository: Path | None = None) -> Vault:
    """A vault for a source; with a repository that others share, or with one of its own."""
    folder = folder / f"vault{next(_numbers)}"
    target = open_catalogs(source.spark, folder / "target")
    (folder / "bcn.toml").write_text(_TOML.format(source=source, target=target))
    return Vault(folder, source, target, repository or folder / "repository")
