"""T48: a table of many snapshots, manifests and files, made without Spark; its data is sparse."""

from __future__ import annotations

from pathlib import Path

import pytest

from bcn.model import TableId
from bcn.repository.repository import Scope
from tests.support.compare.tree import Tree
from tests.support.product import Product, sql_settings
from tests.support.shapes.synthetic import DataFiles, SyntheticTable, write_synthetic

pytestmark = pytest.mark.spark


def journey(folder: Path, snapshots: int, entries: int) -> tuple[Product, Tree, Tree]:
    """Such a table, backed up and restored after its source was moved away."""
    table = SyntheticTable(
        str(folder / "source/db/t"),
        snapshots=snapshots,
        manifests=snapshots,
        entries=entries,
        manifests_per_list=20,
        data=DataFiles.SPARSE,
    )
    location = write_synthetic(table)
    product = Product(
        folder / "repository",
        {
            "src": sql_settings("src", folder / "src.db", folder / "source"),
            "dst": sql_settings("dst", folder / "dst.db", folder / "target"),
        },
    )
    catalog = product.open("src")
    catalog.create_namespace(("db",), {})
    catalog.register(TableId(("db",), "t"), location)
    product.backup(Scope("src"))
    away = folder / "away"
    (folder / "source").rename(away)
    restored = product.restore(target_catalog="dst").tables[0].metadata_location
    source = Tree(location, lambda place: away / Path(place).relative_to(folder / "source"))
    return product, source, Tree(restored)


def check(product: Product, source: Tree, restored: Tree, entries: int) -> None:
    root = str(source.document["location"])
    new = str(restored.document["location"])
    moved = [new + place.removeprefix(root) for place in source.manifests()]
    assert restored.manifests() == moved
    assert len(restored.snapshots) == len(source.snapshots)
    files = {entry.path for entry in restored.iter_entries() if entry.is_live}
    assert len(files) == entries
    assert all(restored.file(path).is_file() for path in files)
    again = product.repository.find_newest()
    assert again is not None
    assert again.objects[0].files > entries


def test_a_table_of_many_snapshots_and_files_is_walked_by_executors(
    spark: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bcn.backup.round.SMALL_ENTRIES", 1_000)
    monkeypatch.setattr("bcn.backup.round.ROWS_PER_GROUP", 2_000)
    monkeypatch.setattr("bcn.restore.run.ROWS_PER_GROUP", 2_000)
    monkeypatch.setattr("bcn.restore.run.SMALL_ROWS", 1_000)
    product, source, restored = journey(tmp_path, snapshots=400, entries=6_000)
    check(product, source, restored, 6_000)
    newest = product.repository.find_newest()
    assert newest is not None
    entry = product.repository.load_entry(newest.objects[0].entry)
    assert len(entry.layers[0].parts) == 4


@pytest.mark.slow
def test_a_table_of_ten_thousand_snapshots_and_a_hundred_thousand_files(
    spark: object, tmp_path: Path
) -> None:
    check(*journey(tmp_path, snapshots=10_000, entries=100_000), 100_000)
