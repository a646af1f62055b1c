"""Pre-built catalogs: the shop, which nobody changes, and a timeline of backups."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.seed003.places import open_catalogs, open_vault
from tests.seed003.tables import (
    add_database,
    add_evolved,
    add_rows,
    add_table,
    all_rows,
    drop,
    drop_database,
    rename,
)
from tests.support.compare.rows import Rows
from tests.support.shapes.model import World

SHOP = ("hr.people", "hr.teams", "sales.customers", "sales.items", "sales.orders")


def build_shop(world: World) -> World:
    """`orders` has a past, `customers` has version 1, `people` version 3; `teams` is elsewhere."""
    add_database(world, "sales", comment="what is sold", team="shop")
    add_database(world, "hr")
    add_database(world, "archive", comment="nothing yet")
    add_evolved(world, "sales.orders")
    add_table(world, "sales.items")
    add_table(world, "sales.customers", version=1)
    add_table(world, "hr.people", 5, version=3)
    world.sql(f"DELETE FROM {world.name('hr.people')} WHERE id = 2")
    add_table(world, "hr.teams", location=str(world.external / "teams"))
    return world


@dataclass
class Timeline:
    """A source as it is now, and what its tables held at each PIT."""

    source: World
    repository: Path
    pits: list[str] = field(default_factory=list)
    rows: list[dict[str, Rows]] = field(default_factory=list)
    uuids: dict[str, str] = field(default_factory=dict)


# What the catalog of the timeline holds at each of its PITs.
MOMENTS = (
    ("hr.people", "sales.items", "sales.old", "sales.orders", "sales.stable", "temp.scratch"),
    ("hr.people", "sales.fresh", "sales.goods", "sales.orders", "sales.stable", "web.visits"),
    ("hr.people", "sales.fresh", "sales.goods", "sales.orders", "sales.stable", "web.visits"),
    ("hr.people", "sales.fresh", "sales.goods", "sales.orders", "sales.stable", "web.visits"),
)


def build_timeline(spark: Any, folder: Path) -> Timeline:
    """Four PITs: the first, a busy day, a table that evolves, and one of nothing new."""
    source = open_catalogs(spark, folder / "source")
    vault = open_vault(folder, source)
    story = Timeline(source, vault.repository)
    for steps, tables in zip((_found, _busy_day, _evolve, None), MOMENTS, strict=True):
        if steps is not None:
            steps(source)
        story.rows.append(all_rows(source, *tables) if steps else story.rows[-1])
        story.uuids |= {name: str(source.tree(name).document["table-uuid"]) for name in tables}
        names = () if story.pits else ("--catalog", "prod")
        story.pits.append(vault.backup(*names)["pit"])
    return story


def _found(world: World) -> None:
    for name in ("sales", "hr", "temp"):
        add_database(world, name)
    for name in ("sales.orders", "sales.items", "sales.old", "sales.stable", "temp.scratch"):
        add_table(world, name)
    add_table(world, "hr.people", version=1)


def _busy_day(world: World) -> None:
    """Rows come, a table is renamed, one is dropped, a database goes, another comes."""
    add_rows(world, "sales.orders")
    rename(world, "sales.items", "sales.goods")
    drop(world, "sales.old")
    drop_database(world, "temp")
    add_table(world, "sales.fresh")
    add_database(world, "web")
    add_table(world, "web.visits", 8)


def _evolve(world: World) -> None:
    """A column more, rows with it, and the next format version."""
    people = world.name("hr.people")
    world.sql(f"ALTER TABLE {people} ADD COLUMN city string")
    world.sql(f"ALTER TABLE {people} SET TBLPROPERTIES ('format-version' = '2', 'team' = 'hr')")
    world.sql(f"INSERT INTO {people} VALUES (50, 'fifty', 'Ulm')")
