"""Hadoop's folders: which are tables, which version is current, what a target must look like."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from bcn.catalog.folders import Folders
from bcn.catalog.hadoop import HadoopCatalog, find_metadata
from bcn.catalog.protocol import CatalogSettings
from bcn.errors import (
    CatalogError,
    TargetExistsError,
    UnsupportedCatalogError,
    UnsupportedSchemeError,
)
from bcn.model import TableId
from bcn.storage.protocol import StorageSpec

TABLE = TableId(("db",), "t")


def open_at(warehouse: Path | str) -> HadoopCatalog:
    return HadoopCatalog(CatalogSettings("prod", "hadoop", {"warehouse": str(warehouse)}))


def make_table(folder: Path, *names: str, hint: str | bytes | None = None) -> Path:
    metadata = folder / "metadata"
    metadata.mkdir(parents=True)
    for name in names:
        (metadata / name).write_text("{}")
    if hint is not None:
        content = hint if isinstance(hint, bytes) else hint.encode()
        (metadata / "version-hint.text").write_bytes(content)
    return folder


def listed(warehouse: Path) -> list[str]:
    return [str(pointer.table) for pointer in open_at(warehouse).iter_pointers()]


def listed_namespaces(warehouse: Path) -> list[tuple[str, ...]]:
    return list(open_at(warehouse).iter_namespaces())


@pytest.mark.parametrize(
    ("hint", "files", "current"),
    [
        ("1", ["v1.metadata.json"], "v1.metadata.json"),
        ("2\n", ["v1.metadata.json", "v2.metadata.json"], "v2.metadata.json"),
        ("2\r\n", ["v1.metadata.json", "v2.metadata.json"], "v2.metadata.json"),
        # the hint is behind: later versions are looked for one by one
        ("1", ["v1.metadata.json", "v2.metadata.json", "v3.metadata.json"], "v3.metadata.json"),
        ("1", ["v1.metadata.json", "v2.metadata.json", "v9.metadata.json"], "v2.metadata.json"),
        ("1", ["v1.metadata.json", "v2.gz.metadata.json"], "v2.gz.metadata.json"),
        # no hint, or none that can be read: the highest version
        (None, ["v1.metadata.json", "v2.metadata.json", "v10.metadata.json"], "v10.metadata.json"),
        ("garbage", ["v1.metadata.json", "v7.metadata.json"], "v7.metadata.json"),
        ("", ["v1.metadata.json", "v7.metadata.json"], "v7.metadata.json"),
        (b"\xff\xfe", ["v1.metadata.json", "v7.metadata.json"], "v7.metadata.json"),
        ("-1", ["v1.metadata.json"], "v1.metadata.json"),
        ("0", ["v1.metadata.json"], "v1.metadata.json"),
        (None, ["v1.metadata.json", "v2.metadata.json.gz"], "v2.metadata.json.gz"),
        (None, ["v3.gz.metadata.json"], "v3.gz.metadata.json"),
        (
            None,
            ["v1.metadata.json", "vx.metadata.json", "v2.metadata.json.bak"],
            "v1.metadata.json",
        ),
        # no names that Iceberg reads
        (
            None,
            ["v2.metadata.json", "v3.gz.metadata.json.gz", "v04.metadata.json"],
            "v2.metadata.json",
        ),
        # plain before gzip, as Iceberg has it
        ("1", ["v1.gz.metadata.json", "v1.metadata.json"], "v1.metadata.json"),
        # the version that the hint names is lost: the table is damaged, an older one is not it
        ("5", ["v3.metadata.json", "v4.metadata.json"], "v5.metadata.json"),
        # nothing that is a version
        ("5", [], None),
        (None, ["00001-abc.metadata.json", "snap-1.avro"], None),
    ],
)
def test_the_current_version_is_the_one_that_iceberg_reads(
    tmp_path: Path, hint: str | bytes | None, files: list[str], current: str | None
) -> None:
    make_table(tmp_path / "t", *files, hint=hint)
    assert find_metadata(Folders(StorageSpec(str(tmp_path))), "t") == current


def test_an_unreadable_hint_is_no_hint(tmp_path: Path) -> None:
    folder = make_table(tmp_path / "t", "v1.metadata.json", "v2.metadata.json")
    (folder / "metadata" / "version-hint.text").mkdir()
    assert find_metadata(Folders(StorageSpec(str(tmp_path))), "t") == "v2.metadata.json"


def test_folders_that_are_no_tables_are_namespaces(tmp_path: Path) -> None:
    make_table(tmp_path / "db" / "t", "v1.metadata.json")
    (tmp_path / "db" / "t" / "data" / "day=1").mkdir(parents=True)
    (tmp_path / "db" / "empty" / "deeper").mkdir(parents=True)
    (tmp_path / "db" / "README").write_text("hello")
    assert listed(tmp_path) == ["db.t"]
    assert listed_namespaces(tmp_path) == [("db",), ("db", "empty"), ("db", "empty", "deeper")]


def test_a_half_written_table_and_another_catalogs_table_are_neither(tmp_path: Path) -> None:
    make_table(tmp_path / "db" / "half", "snap-1.avro")
    (tmp_path / "db" / "half" / "data").mkdir()
    make_table(tmp_path / "db" / "other", "00000-abc.metadata.json")
    assert listed(tmp_path) == []
    assert listed_namespaces(tmp_path) == [("db",)]


def test_hidden_folders_and_lost_and_found_are_skipped(tmp_path: Path) -> None:
    for name in (".snapshot", ".Trash", "lost+found"):
        make_table(tmp_path / name / "t", "v1.metadata.json")
    make_table(tmp_path / "_db" / "_t", "v1.metadata.json")
    assert listed(tmp_path) == ["_db._t"]


def test_a_table_without_a_namespace_is_listed_too(tmp_path: Path) -> None:
    make_table(tmp_path / "t", "v1.metadata.json")
    make_table(tmp_path / "a" / "t", "v1.metadata.json")
    assert listed(tmp_path) == ["t", "a.t"]
    assert open_at(tmp_path).find_pointer(TableId((), "t")) is not None


def test_tables_inside_a_table_are_not_seen_and_cannot_be_made(tmp_path: Path) -> None:
    make_table(tmp_path / "db" / "t", "v1.metadata.json")
    make_table(tmp_path / "db" / "t" / "inner", "v1.metadata.json")
    catalog = open_at(tmp_path)
    inner = TableId(("db", "t"), "inner")
    assert listed(tmp_path) == ["db.t"]
    assert catalog.find_pointer(inner) is None
    with pytest.raises(UnsupportedCatalogError, match="inside the table"):
        catalog.check_target(inner, catalog.default_location(inner))
    with pytest.raises(UnsupportedCatalogError, match="inside the table"):
        catalog.create_namespace(("db", "t", "x"), {})


def test_a_link_that_leads_back_up_is_not_followed_for_ever(tmp_path: Path) -> None:
    make_table(tmp_path / "db" / "t", "v1.metadata.json")
    (tmp_path / "db" / "loop").symlink_to(tmp_path)
    (tmp_path / "db" / "self").symlink_to(tmp_path / "db")
    assert listed(tmp_path) == ["db.t"]


def test_a_linked_table_folder_is_a_table(tmp_path: Path) -> None:
    make_table(tmp_path / "elsewhere", "v1.metadata.json")
    (tmp_path / "wh" / "db").mkdir(parents=True)
    (tmp_path / "wh" / "db" / "t").symlink_to(tmp_path / "elsewhere")
    assert listed(tmp_path / "wh") == ["db.t"]


def test_a_folder_that_may_not_be_read_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_table(tmp_path / "db" / "t", "v1.metadata.json")
    real = os.scandir

    def refuse(path: bytes) -> object:
        if path.endswith(b"/db"):
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(CatalogError, match=r"cannot list .*/db: permission denied"):
        listed(tmp_path)


def test_a_folder_whose_name_is_not_utf_8_is_an_error(tmp_path: Path) -> None:
    os.mkdir(os.fsencode(tmp_path) + b"/bad\xff")
    with pytest.raises(CatalogError, match="not UTF-8"):
        listed(tmp_path)


@pytest.mark.parametrize("prefix", ["", "file:", "file://"])
def test_locations_keep_the_spelling_of_the_warehouse(tmp_path: Path, prefix: str) -> None:
    make_table(tmp_path / "db" / "t", "v1.metadata.json")
    catalog = open_at(f"{prefix}{tmp_path}/")
    [pointer] = catalog.iter_pointers()
    assert pointer.metadata_location == f"{prefix}{tmp_path}/db/t/metadata/v1.metadata.json"
    assert catalog.default_location(TABLE) == f"{prefix}{tmp_path}/db/t"
    assert catalog.warehouse_roots() == (f"{prefix}{tmp_path}",)


def test_a_percent_sign_in_the_warehouse_is_taken_literally(tmp_path: Path) -> None:
    make_table(tmp_path / "a%20b" / "db" / "t", "v1.metadata.json")
    assert listed(tmp_path / "a%20b") == ["db.t"]


def test_a_warehouse_on_an_unknown_service_is_refused_when_opened() -> None:
    with pytest.raises(UnsupportedSchemeError, match="hdfs://host"):
        open_at("hdfs://host/wh")


def test_a_target_has_no_free_location(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedCatalogError, match="only, not at /elsewhere") as caught:
        open_at(tmp_path).check_target(TABLE, "/elsewhere")
    assert "--target-location" in caught.value.hint


@pytest.mark.parametrize("name", [".hidden", "a:b", "x" * 256, "lost+found"])
def test_names_that_hadoop_cannot_hold_are_refused(tmp_path: Path, name: str) -> None:
    catalog = open_at(tmp_path)
    for table in (TableId(("db",), name), TableId((name,), "t")):
        with pytest.raises(UnsupportedCatalogError, match="cannot hold the name"):
            catalog.check_target(table, catalog.default_location(table))


def test_a_namespace_with_tables_never_becomes_a_table(tmp_path: Path) -> None:
    make_table(tmp_path / "db" / "t" / "deep" / "x", "v1.metadata.json")
    catalog = open_at(tmp_path)
    with pytest.raises(TargetExistsError, match=r"holds db\.t\.deep\.x"):
        catalog.check_target(TABLE, catalog.default_location(TABLE))


def test_leftovers_of_a_restore_that_was_killed_do_not_take_the_name(tmp_path: Path) -> None:
    make_table(tmp_path / "db" / "t", "snap-1.avro")
    (tmp_path / "db" / "t" / "data").mkdir()
    catalog = open_at(tmp_path)
    catalog.check_target(TABLE, catalog.default_location(TABLE))


def test_registering_writes_the_hint_and_nothing_else(tmp_path: Path) -> None:
    make_table(tmp_path / "db" / "t", "v1.metadata.json")
    open_at(tmp_path).register(TABLE, f"{tmp_path}/db/t/metadata/v1.metadata.json")
    metadata = tmp_path / "db" / "t" / "metadata"
    assert sorted(os.listdir(metadata)) == ["v1.metadata.json", "version-hint.text"]
    assert (metadata / "version-hint.text").read_bytes() == b"1"


@pytest.mark.parametrize(
    ("files", "place"),
    [
        (["v1.metadata.json"], "{t}/metadata/v2.metadata.json"),
        (["v2.metadata.json"], "{t}/metadata/v2.metadata.json"),
        (["v1.metadata.json"], "{t}/v1.metadata.json"),
        (["v1.metadata.json"], "{t}/../u/metadata/v1.metadata.json"),
        ([], "{t}/metadata/v1.metadata.json"),
        (["v1.metadata.json", "v1.gz.metadata.json"], "{t}/metadata/v1.gz.metadata.json"),
        (["v1.metadata.json", "v4.metadata.json"], "{t}/metadata/v1.metadata.json"),
    ],
)
def test_registering_anything_but_the_one_first_version_is_refused(
    tmp_path: Path, files: list[str], place: str
) -> None:
    folder = make_table(tmp_path / "db" / "t", *files)
    with pytest.raises((CatalogError, TargetExistsError)):
        open_at(tmp_path).register(TABLE, place.format(t=folder))
    assert not (folder / "metadata" / "version-hint.text").exists()


def test_a_file_in_the_way_of_a_namespace_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "db").write_text("")
    with pytest.raises(CatalogError, match="cannot create"):
        open_at(tmp_path).create_namespace(("db", "inner"), {})


def test_a_thousand_tables_are_listed_in_well_under_a_second(tmp_path: Path) -> None:
    for number in range(1000):
        make_table(tmp_path / f"db{number % 10}" / f"t{number}", "v1.metadata.json", hint="1")
    started = time.perf_counter()
    assert len(listed(tmp_path)) == 1000
    assert time.perf_counter() - started < 1
