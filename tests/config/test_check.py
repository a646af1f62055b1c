"""Trying settings out: what works, what is wrong, what to change; and nothing stays behind."""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bcn.catalog.open import open_catalog
from bcn.catalog.protocol import CatalogSettings
from bcn.config.check import run_check
from bcn.config.check_report import CheckedSection
from bcn.config.load import load_settings
from bcn.config.settings import RepositorySettings, Settings
from bcn.config.show import show_settings
from bcn.errors import ReadOnlyStorageError, UsageError
from bcn.model import TableId
from bcn.repository.repository import Scope, create_repository
from bcn.stack.process import free_port
from bcn.storage.local import LocalStorage
from bcn.storage.protocol import StorageSpec
from tests.cli.made import Folder, make_folder
from tests.cli.pages import differences, examples
from tests.support.glue import GlueServer
from tests.support.hive import HiveServer
from tests.support.rest import RestServer
from tests.support.rigs import table_document
from tests.support.servers import S3Server
from tests.support.silent import silent_port

ORDERS = TableId(("sales",), "orders")


def hadoop(folder: Path, name: str = "lake") -> CatalogSettings:
    return CatalogSettings(name, "hadoop", {"warehouse": str(folder)})


def add_table(catalog: CatalogSettings) -> Path:
    """A table whose files are local."""
    opened = open_catalog(catalog)
    opened.create_namespace(ORDERS.namespace, {})
    place = opened.default_location(ORDERS)
    path = Path(place, "metadata", opened.metadata_name("x.metadata.json"))
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(table_document(place)))
    opened.register(ORDERS, str(path))
    return path


def settings_of(*sections: CatalogSettings | RepositorySettings, **more: Any) -> Settings:
    return Settings(
        catalogs={s.name: s for s in sections if isinstance(s, CatalogSettings)},
        repositories={s.name: s for s in sections if isinstance(s, RepositorySettings)},
        **more,
    )


def check_one(section: CatalogSettings | RepositorySettings) -> CheckedSection:
    start = time.monotonic()
    [found] = run_check(settings_of(section)).sections
    assert time.monotonic() - start < 15
    return found


def told(section: CheckedSection) -> dict[str, str]:
    return {step.name: step.status.value for step in section.steps}


def tree(folder: Path) -> set[str]:
    return {str(path) for path in folder.rglob("*")}


def test_a_catalog_that_works_is_listed_read_and_written_to_and_left_as_it_was(
    tmp_path: Path,
) -> None:
    catalog = hadoop(tmp_path)
    add_table(catalog)
    before = tree(tmp_path)
    found = check_one(catalog)
    assert told(found) == {"settings": "ok", "list": "ok", "read": "ok", "write": "ok"}
    assert found.steps[1].message == "1 database"
    assert "sales.orders" in found.steps[2].message
    assert tree(tmp_path) == before
    assert list(open_catalog(catalog).iter_namespaces()) == [("sales",)]


def test_the_probe_is_really_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    write_once = LocalStorage.write_once

    def write(self: LocalStorage, key: str, data: bytes) -> None:
        written.append(key)
        write_once(self, key, data)

    monkeypatch.setattr(LocalStorage, "write_once", write)
    (tmp_path / "sales").mkdir()
    check_one(hadoop(tmp_path))
    assert len(written) == 2  # the second must be refused
    assert written[0].startswith(str(tmp_path)[1:] + "/.bcn-probe-")


def test_no_probe_is_written_into_a_table(tmp_path: Path) -> None:
    catalog = CatalogSettings(
        "c", "sql", {"uri": f"sqlite:///{tmp_path}/c.db", "warehouse": str(tmp_path / "t")}
    )
    opened = open_catalog(catalog)
    opened.create_namespace(("db",), {})
    (tmp_path / "t" / "metadata").mkdir(parents=True)
    (tmp_path / "t" / "metadata" / "v1.metadata.json").write_text("{}")
    os.utime(tmp_path / "t", (1, 1))
    found = check_one(catalog)
    assert told(found)["write"] == "note"
    assert "looks like a table" in found.steps[-1].message
    assert (tmp_path / "t").stat().st_mtime == 1


def test_a_namespace_called_metadata_is_no_table(tmp_path: Path) -> None:
    (tmp_path / "metadata" / "t" / "metadata").mkdir(parents=True)
    (tmp_path / "metadata" / "t" / "metadata" / "v1.metadata.json").write_text("{}")
    assert told(check_one(hadoop(tmp_path)))["write"] == "ok"


def test_a_warehouse_that_takes_no_files_is_good_enough_for_backups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_storage: LocalStorage, key: str, _data: bytes) -> None:
        raise ReadOnlyStorageError(f"cannot write {key}: read-only file system")

    monkeypatch.setattr(LocalStorage, "write_once", refuse)
    found = check_one(hadoop(tmp_path))
    assert told(found)["write"] == "note"
    assert found.failure is None
    [repository] = run_check(settings_of(RepositorySettings("r", str(tmp_path)))).sections
    assert told(repository)["write"] == "failed"
    assert repository.failure is not None
    assert repository.failure.exit_code == 15


def test_tables_whose_files_are_not_where_the_catalog_says_are_told(tmp_path: Path) -> None:
    properties = {"uri": f"sqlite:///{tmp_path}/c.db", "warehouse": str(tmp_path / "wh")}
    catalog = CatalogSettings("c", "sql", properties)
    path = add_table(catalog)
    assert told(check_one(catalog))["read"] == "ok"
    path.unlink()
    found = check_one(catalog)
    assert told(found)["read"] == "failed"
    assert "sales.orders" in found.steps[-1].message
    assert "endpoint" in found.steps[-1].hint


def test_a_repository_is_opened_and_written_to_and_left_as_it_was(tmp_path: Path) -> None:
    place = tmp_path / "r"
    create_repository(StorageSpec(str(place)), Scope("prod"), datetime.now(UTC))
    before = tree(tmp_path)
    found = check_one(RepositorySettings("r", str(place)))
    assert told(found) == {"open": "ok", "write": "ok"}
    assert "catalog prod" in found.steps[0].message
    assert tree(tmp_path) == before


def test_a_place_that_is_not_there_yet_is_not_made(tmp_path: Path) -> None:
    found = check_one(RepositorySettings("r", str(tmp_path / "a" / "b")))
    assert told(found) == {"open": "note", "write": "note"}
    assert "first backup makes it" in found.steps[-1].message
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("")
    found = check_one(RepositorySettings("r", str(tmp_path / "file" / "b")))
    assert told(found)["write"] == "failed"


def test_an_empty_folder_for_a_repository_stays_empty(tmp_path: Path) -> None:
    assert told(check_one(RepositorySettings("r", str(tmp_path)))) == {
        "open": "note",
        "write": "ok",
    }
    assert list(tmp_path.iterdir()) == []


def test_a_repository_inside_a_warehouse_is_told(tmp_path: Path) -> None:
    sections = (hadoop(tmp_path), RepositorySettings("r", str(tmp_path / "r")))
    [_catalog, repository] = run_check(settings_of(*sections)).sections
    assert "overlaps with the warehouse of lake" in repository.steps[1].message
    odd = CatalogSettings("odd", "sql", {"uri": "sqlite:////x.db", "warehouse": "hdfs://nn/wh"})
    [_catalog, repository] = run_check(settings_of(odd, sections[1])).sections
    assert repository.failure is None


def test_a_repository_and_a_warehouse_on_s3_work_and_are_left_empty(
    minio: S3Server, glue: GlueServer
) -> None:
    bucket = minio.make_bucket()
    repository = RepositorySettings("r", f"s3://{bucket}/r", minio.properties)
    catalog = glue.settings("g", f"s3://{bucket}/wh", **minio.properties)
    report = run_check(settings_of(catalog, repository))
    assert [section.status.value for section in report.sections] == ["note", "note"]
    assert [told(section)["write"] for section in report.sections] == ["ok", "ok"]
    assert minio.client().list_objects_v2(Bucket=bucket)["KeyCount"] == 0


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"s3.secret-access-key": "wrong-secret-hunter2"}, "secret"),
        ({"s3.access-key-id": "nobody-hunter2"}, "access-key"),
        ({"s3.endpoint": "http://127.0.0.1:1"}, "s3.endpoint"),
    ],
)
def test_what_is_wrong_with_a_store_is_told_with_what_to_change(
    minio: S3Server, changes: dict[str, str], word: str
) -> None:
    place = f"s3://{minio.make_bucket()}/r"
    found = check_one(RepositorySettings("r", place, {**minio.properties, **changes}))
    assert found.failure is not None
    assert found.failure.exit_code == 15
    assert word in found.steps[-1].hint
    text = json.dumps(found.as_json())
    assert "hunter2" not in text
    assert minio.properties["s3.secret-access-key"] not in text


def test_a_bucket_that_is_missing_is_told(minio: S3Server) -> None:
    found = check_one(RepositorySettings("r", "s3://no-such-bucket-at-all/r", minio.properties))
    assert found.failure is not None
    assert found.failure.exit_code == 15
    assert "no-such-bucket-at-all" in found.steps[-1].message


def test_the_first_failure_gives_the_exit_code_and_the_rest_is_told_too(
    glue: GlueServer, tmp_path: Path
) -> None:
    nobody = f"http://127.0.0.1:{free_port()}"
    wrong = glue.settings("g", str(tmp_path), **{"glue.endpoint": nobody})
    place = RepositorySettings("r", "s3://b/r", {"s3.endpoint": nobody, "s3.region": "x"})
    report = run_check(settings_of(hadoop(tmp_path), wrong, place))
    assert [section.failure is None for section in report.sections] == [True, False, False]
    assert report.failure is not None
    assert report.failure.exit_code == 14
    assert run_check(settings_of(hadoop(tmp_path))).failure is None


def test_a_section_that_hangs_costs_its_time_and_not_the_others(
    glue: GlueServer, tmp_path: Path
) -> None:
    with silent_port() as port:
        hung = glue.settings("g", "", **{"glue.endpoint": f"http://127.0.0.1:{port}"})
        start = time.monotonic()
        report = run_check(settings_of(hung, hadoop(tmp_path)), section_seconds=1.5)
        assert time.monotonic() - start < 5
    first, second = report.sections
    assert told(first) == {"settings": "ok", "list": "failed"}
    assert "no answer within" in first.steps[-1].message
    assert report.failure is not None
    assert report.failure.exit_code == 14
    assert second.failure is None


def test_a_bug_in_a_check_is_not_taken_for_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(LocalStorage, "write_once", crash)
    with pytest.raises(RuntimeError, match="a bug"):
        run_check(settings_of(hadoop(tmp_path)))


def test_only_what_was_named_is_checked_and_a_wrong_name_is_refused(tmp_path: Path) -> None:
    settings = settings_of(
        hadoop(tmp_path), hadoop(tmp_path, "other"), RepositorySettings("r", str(tmp_path / "r"))
    )
    assert [item.name for item in run_check(settings, ["r", "lake"]).sections] == ["lake", "r"]
    assert [item.name for item in run_check(settings, ["r"], str(tmp_path)).sections] == [
        "r",
        str(tmp_path),
    ]
    with pytest.raises(UsageError, match=r"did you mean 'lake'.*known: lake, other, r"):
        run_check(settings, ["laek"])
    with pytest.raises(UsageError, match="nothing is configured"):
        run_check(Settings())


def test_a_catalog_that_bcn_cannot_use_matters_only_when_it_is_named(tmp_path: Path) -> None:
    settings = settings_of(hadoop(tmp_path), faults={"odd": "x.yaml: unknown type of catalog"})
    report = run_check(settings)
    assert report.failure is None
    assert report.sections[1].steps[0].status.value == "note"
    failure = run_check(settings, ["odd"]).failure
    assert failure is not None
    assert failure.exit_code == 2


# as commands


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return make_folder(tmp_path)


def test_the_commands_print_what_is_documented(folder: Folder) -> None:
    code, printed = folder.json("config", "check")
    assert code == printed.pop("error")["exit_code"] == 14
    assert differences(printed, examples()["config check"]) == []
    assert [item["name"] for item in printed["sections"]] == ["prod", "dr", "nightly"]
    code, printed = folder.json("config", "check", "nightly")
    assert (code, printed["sections"][0]["status"]) == (0, "note")
    (folder.root / ".pyiceberg.yaml").write_text("catalog:\n  odd:\n    type: other\n")
    code, printed = folder.json("config", "show", HOME=str(folder.root))
    assert code == 0
    assert differences(printed, examples()["config show"]) == []
    assert [item["name"] for item in printed["unusable"]] == ["odd"]


def test_people_are_told_in_lines(folder: Folder) -> None:
    done = folder.run("config", "check")
    assert done.returncode == 14
    lines = done.stdout.splitlines()
    assert lines[0].startswith("catalog prod (sql), ")
    assert lines[-1] == "3 sections checked, 2 failed"
    assert any(line.startswith("          to do     check 'uri'") for line in lines)
    assert "error: catalog 'prod': there is no database" in done.stderr
    assert folder.run("config", "check", "nigtly").returncode == 2


def test_settings_are_shown_with_where_they_come_from_and_without_secrets(tmp_path: Path) -> None:
    (tmp_path / "bcn.toml").write_text(
        '[catalogs.c]\ntype = "sql"\nuri = "postgresql://ada:hunter2@h/d"\n'
        's3.secret-access-key = "hunter2"\nwarehouse = "wh"\n'
    )
    environ = {"BCN_SPARK__SPARK__HADOOP__SECRET__KEY": "hunter2", "BCN_CATALOGS__C__NAME": "n"}
    report = show_settings(load_settings(None, environ, tmp_path))
    assert "hunter2" not in json.dumps(report.as_json())
    shown = {(item.title, item.key): (item.value, item.source) for item in report.settings}
    file = str(tmp_path / "bcn.toml")
    assert shown["[catalogs.c]", "uri"] == ("postgresql://***@h/d", file)
    assert shown["[catalogs.c]", "warehouse"] == (str(tmp_path / "wh"), file)
    assert shown["[catalogs.c]", "name"] == ("n", "BCN_CATALOGS__C__NAME")
    assert shown["[lease]", "ttl-seconds"] == ("60", "default")
    assert shown["[spark]", "master"] == ("local[*]", "default")


# with the servers of real stacks


def test_the_variables_of_a_stack_of_hive_and_minio_work_unchanged(
    hive_metastore: HiveServer, minio: S3Server, tmp_path: Path
) -> None:
    properties = minio.properties
    environ = {
        "HIVE_METASTORE_URI": hive_metastore.uri,
        "S3_ENDPOINT": properties["s3.endpoint"],
        "S3_ACCESS_KEY": properties["s3.access-key-id"],
        "S3_SECRET_KEY": properties["s3.secret-access-key"],
        "BACKUP_BUCKET": minio.make_bucket(),
        "WAREHOUSE_BUCKET": minio.make_bucket(),
    }
    report = run_check(load_settings(None, environ, tmp_path))
    assert report.failure is None
    catalog, repository = report.sections
    assert catalog.name == "hive_catalog"
    assert (told(catalog)["list"], told(catalog)["write"]) == ("ok", "ok")
    assert (repository.name, told(repository)) == ("backup", {"open": "note", "write": "ok"})
    assert properties["s3.secret-access-key"] not in json.dumps(report.as_json())


def test_servers_that_are_taken_for_each_other_are_told_in_time(
    hive_metastore: HiveServer, rest_catalog: RestServer, glue: GlueServer, minio: S3Server
) -> None:
    web, thrift = minio.server.address, hive_metastore.uri.removeprefix("thrift://")
    other = f"http://{thrift}"
    sections = (
        CatalogSettings("hive", "hive", {"uri": f"thrift://{web}"}),
        CatalogSettings("rest", "rest", {"uri": other}),
        CatalogSettings("store", "rest", {"uri": f"http://{web}"}),
        glue.settings("glue", "", **{"glue.endpoint": other}),
        glue.settings("web", "", **{"glue.endpoint": minio.endpoint}),
        CatalogSettings("sql", "sql", {"uri": f"postgresql://u@{web}/d"}),
        CatalogSettings("good", "rest", {"uri": rest_catalog.uri}),
        RepositorySettings("s3", "s3://b/r", {**minio.properties, "s3.endpoint": other}),
    )
    start = time.monotonic()
    report = run_check(settings_of(*sections))
    assert time.monotonic() - start < 15
    failures = {section.name: section.failure for section in report.sections}
    assert failures.pop("good") is None
    for name, failure in failures.items():
        assert failure is not None, name
        assert failure.exit_code == (15 if name == "s3" else 14)
        assert failure.hint
        assert "\n" not in str(failure)
