"""The commands that need no Spark: what they print, and where."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

import bcn
from bcn.errors import (
    BadNameError,
    BcnError,
    DamagedRepositoryError,
    LeaseLostError,
    NewerVersionError,
    NoRepositoryError,
    NoSuchNamespaceError,
    NoSuchTableError,
    OverlapError,
    RefusedError,
    RepositoryLockedError,
    ScopeMismatchError,
    SettingsError,
    UnknownCatalogError,
    UnknownPitError,
    UsageError,
)
from bcn.model import PitId, TableId
from bcn.repository.lease import LeaseSettings, Lessor
from bcn.repository.pit import DeletedObject, FailedObject
from bcn.repository.verification import Verification, save_verifications
from tests.changes.places import World, append, open_world
from tests.cli.made import PITS, START, Folder, damage, make_repository, manifest, record


@pytest.fixture
def lively(folder: Folder) -> World:
    """A source of real tables, which backups in this process put into the folder's repository."""
    return open_world(folder.root)


def test_the_version_is_told(folder: Folder) -> None:
    assert folder.invoke("--version").output.split()[-1] == bcn.__version__


def test_help_names_every_command(folder: Folder) -> None:
    text = folder.invoke("--help").output
    for name in (
        "init",
        "backup",
        "restore",
        "list",
        "describe",
        "diff",
        "log",
        "verify",
        "unlock",
    ):
        assert f"\n  {name} " in text


# list and describe


def test_a_list_ends_with_the_line_that_restores_the_newest(stocked: Folder) -> None:
    lines = stocked.invoke("list").stdout.splitlines()
    assert [line.split()[0] for line in lines[1:4]] == [str(pit) for pit in PITS]
    assert lines[2].endswith("by=cron")
    restore = f"bcn restore --repo nightly --pit {PITS[2]} --target-catalog dr"
    assert lines[-1].strip() == restore


def test_the_line_that_restores_passes_over_what_is_damaged(stocked: Folder) -> None:
    damage(stocked.repository, PITS[2])
    result = stocked.invoke("list")
    assert f"--pit {PITS[1]}" in result.stdout
    assert "DAMAGED" in result.stdout
    assert f"warning: {PITS[2]} is damaged" in result.stderr
    assert result.exit_code == 0


def test_the_line_that_restores_repeats_the_flags_that_were_needed(stocked: Folder) -> None:
    (stocked.root / "bcn.toml").rename(stocked.root / "my settings.toml")
    result = stocked.invoke("list", "--config", "my settings.toml", "--repo", "repository")
    assert f"--config 'my settings.toml' --repo {stocked.location} --pit" in result.stdout


def test_a_repository_without_backups_is_listed_as_such(folder: Folder) -> None:
    make_repository(folder.location, [])
    assert "no point in time yet" in folder.invoke("list").stdout
    assert "PIT " not in folder.invoke("describe").stdout


def test_the_objects_of_a_pit_are_listed(stocked: Folder) -> None:
    lines = stocked.invoke("list", "--pit", "latest").stdout.splitlines()
    assert lines[0] == f"PIT {PITS[2]}"
    assert [line.split()[:4] for line in lines[2:-2]] == [
        ["hr", "ghosts", "table", "FAILED"],
        ["hr", "people", "table", "FAILED"],
        ["sales", "items", "table", "DELETED"],
        ["sales", "orders", "table", "UNCHANGED"],
    ]
    assert lines[4].split()[4:] == ["-", "-", "-", "last", "in", str(PITS[0])]
    assert lines[5].endswith("1 snapshot damaged")
    assert lines[-1] == "1 UNCHANGED, 1 DELETED, 2 FAILED; verified never"


def test_a_database_alone_means_the_newest_pit(stocked: Folder) -> None:
    lines = stocked.invoke("list", "--database", "sales").stdout.splitlines()
    assert lines[0] == f"PIT {PITS[2]}"
    assert len(lines) == 6


def test_a_description_names_scope_sizes_and_what_is_gone(stocked: Folder) -> None:
    text = stocked.invoke("describe").stdout
    for told in ("CATALOG", "catalog prod", "4.0 KiB by all", "8.0 KiB in the newest", "nobody"):
        assert told in text
    assert f"sales.items, last in {PITS[0]}" in text


def test_a_description_counts_what_each_point_in_time_holds(stocked: Folder) -> None:
    lines = stocked.invoke("describe").stdout.splitlines()
    newest = next(line for line in lines if line.startswith("newest"))
    assert newest.endswith(f"{PITS[2]}: 2 databases, 2 tables, 0 views, 4 snapshots")
    assert "verified    never" in lines
    header = next(line for line in lines if line.startswith("PIT"))
    assert header.split() == [
        *("PIT", "DATABASES", "TABLES", "VIEWS", "SNAPSHOTS", "STORED", "TOTAL"),
    ]
    assert lines[-1].split() == [str(PITS[2]), "2", "2", "0", "4", "0", "B", "8.0", "KiB"]


def test_a_database_that_is_gone_is_told_too(folder: Folder) -> None:
    pit = manifest(PITS[0], [record("sales.orders")], deleted_namespaces=("ops", "old.ops"))
    make_repository(folder.location, [pit])
    lines = folder.invoke("describe").stdout.splitlines()
    assert [line for line in lines if line.startswith("deleted")] == [
        "deleted     database ops",
        "deleted     database old.ops",
    ]
    deleted = json.loads(folder.invoke("describe", "--json").stdout)["deleted"]
    assert [(item["type"], item["name"]) for item in deleted] == [
        ("database", "ops"),
        ("database", "old.ops"),
    ]


def test_a_list_says_what_changed_and_what_is_rare_beside_the_labels(folder: Folder) -> None:
    objects = [record("sales.orders", "RENAMED"), record("sales.items", "CHANGED")]
    failed = FailedObject("x", TableId.parse("sales.x"), "StorageError", "no", None)
    pit = manifest(PITS[0], objects, failed=(failed,), labels={"by": "cron"})
    make_repository(folder.location, [pit])
    header, row = folder.invoke("list").stdout.splitlines()[:2]
    assert header.split() == [
        *("PIT", "TABLES", "NEW", "CHANGED", "SAME", "DELETED", "STORED", "TOTAL", "LABELS"),
    ]
    assert row.split()[1:6] == ["2", "0", "1", "0", "0"]
    assert row.endswith("1 renamed, 1 failed, by=cron")


def test_partial_history_is_shown_beside_an_object(folder: Folder) -> None:
    objects = [record("sales.orders", coverage="last:3"), record("sales.items")]
    make_repository(folder.location, [manifest(PITS[0], objects)])
    lines = folder.invoke("list", "--pit", "latest").stdout.splitlines()
    assert [line.endswith("history last:3") for line in lines[2:4]] == [False, True]
    report = json.loads(folder.invoke("list", "--pit", "latest", "--json").stdout)
    assert [item["coverage"] for item in report["objects"]] == ["all", "last:3"]


def test_lists_fit_a_terminal_where_names_allow(folder: Folder) -> None:
    size = 987 << 30
    values = {"size_bytes": size, "files": 123_456, "snapshots": 12_345, "bytes_new": size}
    objects = [record(f"warehouse.clients_{number}", "CHANGED", **values) for number in range(9)]
    objects += [record(f"sales.order_{number}", "UNCHANGED", **values) for number in range(999)]
    gone = [
        DeletedObject(f"g{number}", TableId.parse(f"sales.gone_{number}"), "2026", PITS[0])
        for number in range(10)
    ]
    repository = make_repository(
        folder.location, [manifest(pit, objects, deleted=tuple(gone)) for pit in PITS]
    )
    notes = [Verification(pit, PITS[2], 3, "whole") for pit in PITS]
    save_verifications(repository.storage, notes)
    for words in (("list",), ("list", "--pit", "latest"), ("describe",)):
        lines = folder.invoke(*words).stdout.splitlines()
        table = [line for line in lines if not line.startswith(("  ", "repository"))]
        assert max(len(line) for line in table) <= 100, words


# verifications


@pytest.mark.long
def test_what_was_verified_is_noted_and_shown(lively: World, folder: Folder) -> None:
    lively.add("t")
    first, second = lively.backup(), lively.backup()
    done = folder.run("verify", "--level", "2", "--pit", str(first))
    assert (done.returncode, "noted   for" in done.stdout) == (0, True)
    lines = folder.invoke("list").stdout.splitlines()
    assert lines[1].split()[-1] == "l2"
    assert lines[2].split()[0] == str(second)
    assert lines[2].split()[-1] != "l2"
    report = json.loads(folder.invoke("describe", "--json").stdout)
    assert report["pits"][0]["verified"] == report["last_verification"]
    assert report["last_verification"]["outcome"] == "whole"
    assert report["last_verification"]["pit"] == str(first)
    assert report["pits"][1]["verified"] is None
    text = folder.invoke("list", "--pit", str(first)).stdout.splitlines()[-1]
    assert text.endswith("UTC, level 2: whole")
    code, report = folder.json("verify", "--level", "1")
    assert (code, report["recorded"]) == (0, True)


@pytest.mark.long
def test_a_verification_that_found_damage_is_noted_for_those_it_hurts(
    lively: World, folder: Folder
) -> None:
    table = lively.add("t")
    first = lively.backup()
    lively.commit("t", append)
    second = lively.backup()
    kept = {row["key"] for row in lively.inventory("t") if row["first_pit"] == str(second)}
    assert table is not None
    Path(folder.location, min(kept)).unlink()
    assert folder.run("verify", "--level", "2").returncode == 13
    pits = json.loads(folder.invoke("list", "--json").stdout)["pits"]
    assert [pit["verified"]["outcome"] for pit in pits] == ["whole", "damaged"]
    assert [pit["pit"] for pit in pits] == [str(first), str(second)]
    assert "l2 DAMAGED" in folder.invoke("list").stdout


@pytest.mark.long
def test_a_part_of_a_point_in_time_that_was_verified_is_not_noted(
    lively: World, folder: Folder
) -> None:
    lively.add("t")
    lively.backup()
    code, report = folder.json("verify", "--level", "2", "--table", "t")
    assert (code, report["recorded"]) == (0, False)
    assert not (folder.location / "verifications").exists()


@pytest.mark.long
def test_a_repository_that_is_read_only_is_verified_without_a_note(
    lively: World, folder: Folder
) -> None:
    lively.add("t")
    lively.backup()
    repository = folder.repository
    repository.update(features={"read": [], "write": ["of-a-later-bcn"]})
    code, report = folder.json("verify", "--level", "2")
    assert (code, report["recorded"]) == (0, False)
    (folder.location / "verifications").write_text("in the way")
    repository.update(features={"read": [], "write": []})
    code, report = folder.json("verify", "--level", "2")
    assert (code, report["recorded"]) == (0, False)
    assert folder.run("list").returncode == 0


def test_names_cannot_move_the_cursor_of_a_terminal(folder: Folder) -> None:
    pit = manifest(PITS[0], [record("`a\x1b[2J`.`b\nc`")])
    make_repository(folder.location, [pit])
    text = folder.invoke("list", "--pit", "latest").stdout
    assert "\x1b" not in text
    assert len(text.splitlines()) == 5
    assert json.loads(folder.invoke("list", "--pit", "latest", "--json").stdout)["objects"][0][
        "name"
    ] == ("b\nc")


# flags before and after


@pytest.mark.parametrize(
    "arguments",
    [
        ("--repo", "nightly", "--json", "list"),
        ("list", "--repo", "nightly", "--json"),
        ("--json", "list", "--repo", "nightly"),
        ("list", "--json"),
        ("--repo", "elsewhere", "list", "--json", "--repo", "repository"),
    ],
)
def test_flags_may_stand_before_or_after_the_command(
    stocked: Folder, arguments: tuple[str, ...]
) -> None:
    report = json.loads(stocked.invoke(*arguments).stdout)
    assert [pit["pit"] for pit in report["pits"]] == [str(pit) for pit in PITS]


def test_the_repository_may_come_from_the_environment(
    stocked: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    (stocked.root / "bcn.toml").unlink()
    monkeypatch.setenv("BCN_REPO", "repository")
    assert stocked.invoke("list").exit_code == 0
    monkeypatch.setenv("BCN_REPO", "elsewhere")
    assert stocked.invoke("--repo", "repository", "list").exit_code == 0
    with pytest.raises(NoRepositoryError, match="elsewhere"):
        stocked.invoke("list")


# init


def test_init_makes_a_repository_for_whatever_comes_first(folder: Folder) -> None:
    report = json.loads(folder.invoke("init", "--json").stdout)
    assert report["repository_id"] == folder.repository.id
    assert folder.repository.scope is None


def test_init_refuses_a_place_that_is_taken(folder: Folder) -> None:
    folder.location.mkdir()
    (folder.location / "thesis.txt").write_text("years of work")
    with pytest.raises(RefusedError, match=r"thesis\.txt"):
        folder.invoke("init")
    assert [path.name for path in folder.location.iterdir()] == ["thesis.txt"]


def test_init_locks_only_names_that_exist(folder: Folder) -> None:
    settings = bcn.load_settings(None, {}, folder.root)
    catalog = bcn.api.parts.catalogs_of(settings)("prod")
    catalog.create_namespace(("sales",), {})
    for arguments, error in (
        (("--catalog", "prd"), UnknownCatalogError),
        (("--catalog", "prod", "--database", "sale"), NoSuchNamespaceError),
        (("--catalog", "prod", "--database", "sales", "--table", "x"), NoSuchTableError),
        (("--catalog", "prod", "--repo", "warehouse/x"), OverlapError),
    ):
        with pytest.raises(error):
            folder.invoke("init", *arguments)
        assert not folder.location.exists()
    folder.invoke("init", "--catalog", "prod", "--database", "sales")
    assert folder.repository.document["granularity"] == "DATABASE"


# unlock


def test_unlock_without_a_lease_says_so(stocked: Folder) -> None:
    assert "nobody holds" in stocked.invoke("unlock").stdout
    assert json.loads(stocked.invoke("unlock", "--json").stdout)["unlocked"] is False


def test_unlock_refuses_a_living_owner_unless_it_is_forced(stocked: Folder) -> None:
    repository = stocked.repository
    later = PitId.of(datetime(2026, 9, 1, tzinfo=UTC))
    lessor = Lessor(repository.storage, LeaseSettings(0.5), lambda: START)
    with lessor.hold(later, repository.pit_key(later), None) as lease:
        with pytest.raises(RepositoryLockedError, match=f"process {os.getpid()}"):
            stocked.invoke("unlock")
        lease.check()
        assert f"process {os.getpid()}" in stocked.invoke("unlock", "--force").stdout
        with pytest.raises(LeaseLostError):
            lease.publish(b"late")
    assert repository.find_pit(later) is None


# bad input


@pytest.mark.parametrize("name", ["a/b", "..", "", "a\0b"])
@pytest.mark.parametrize(
    "arguments",
    [
        ("backup", "--catalog", "NAME"),
        ("backup", "--catalog", "prod", "--database", "NAME"),
        ("backup", "--catalog", "prod", "--database", "d", "--table", "NAME"),
        ("init", "--catalog", "NAME"),
        ("restore", "--database", "NAME"),
        ("restore", "--table", "NAME"),
        ("restore", "--target-database", "NAME"),
        ("restore", "--target-table", "NAME"),
        ("verify", "--table", "NAME"),
        ("list", "--database", "NAME"),
    ],
)
def test_bad_names_are_refused_and_change_nothing(
    stocked: Folder, arguments: tuple[str, ...], name: str
) -> None:
    before = _tree(stocked.root)
    with pytest.raises(BadNameError) as caught:
        stocked.invoke(*(name if word == "NAME" else word for word in arguments))
    assert caught.value.exit_code == 2
    assert _tree(stocked.root) == before


def _tree(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("arguments", "error", "code"),
    [
        (("backup", "--catalog", "prd"), ScopeMismatchError, 16),
        (("backup", "--catalog", "prd", "--repo", "new"), UnknownCatalogError, 2),
        (("backup", "--repo", "new"), UsageError, 2),
        (("backup", "--database", "sales"), UsageError, 2),
        (("backup", "--catalog", "prod", "--table", "orders"), UsageError, 2),
        (("backup", "--label", "plain"), UsageError, 2),
        (("backup", "--label", "a=1", "--label", "a=2"), UsageError, 2),
        (("backup", "--limit-rate", "fast"), UsageError, 2),
        (("backup", "--lock-wait", "long"), UsageError, 2),
        (("restore", "--map-root", "/old"), UsageError, 2),
        (("restore", "--pit", "2020"), UnknownPitError, 2),
        (("restore", "--database", "nope"), NoSuchNamespaceError, 14),
        (("restore", "--table", "nope"), NoSuchTableError, 14),
        (("restore", "--table", "sales.items"), NoSuchTableError, 14),
        (("restore", "--exclude", "nope"), NoSuchTableError, 14),
        (("restore", "--exclude", "a/b"), BadNameError, 2),
        (("restore", "--exclude", "*"), UsageError, 2),
        (("restore", "--target-table", "{tabel}"), UsageError, 2),
        (("restore", "--target-table", "same"), UsageError, 2),
        (("restore", "--target-catalog", "nope"), UnknownCatalogError, 2),
        (("verify", "--pit", "2020"), UnknownPitError, 2),
        (("list", "--pit", "2020"), UnknownPitError, 2),
        (("list", "--pit", "latest", "--database", "nope"), NoSuchNamespaceError, 14),
        (("list", "--config", "nope.toml"), SettingsError, 2),
        (("list", "--repo", ""), UsageError, 2),
        (("list", "--repo", "nowhere"), NoRepositoryError, 10),
        (("describe", "--repo", "nowhere"), NoRepositoryError, 10),
        (("restore", "--repo", "nowhere"), NoRepositoryError, 10),
        (("verify", "--repo", "nowhere"), NoRepositoryError, 10),
        (("unlock", "--repo", "nowhere"), NoRepositoryError, 10),
    ],
)
def test_each_mistake_has_its_own_error_and_changes_nothing(
    stocked: Folder, arguments: tuple[str, ...], error: type[BcnError], code: int
) -> None:
    before = _tree(stocked.root)
    with pytest.raises(error) as caught:
        stocked.invoke(*arguments)
    assert caught.value.exit_code == code
    assert caught.value.hint
    assert _tree(stocked.root) == before


def test_which_repository_must_be_clear(stocked: Folder) -> None:
    with (stocked.root / "bcn.toml").open("a") as file:
        file.write('[repositories.weekly]\nlocation = "weekly"\n')
    with pytest.raises(UsageError, match="nightly, weekly"):
        stocked.invoke("list")


def test_a_repository_of_a_newer_version_is_refused(stocked: Folder) -> None:
    path = stocked.location / "manifest.json"
    path.write_text(path.read_text().replace('"version": "1"', '"version": "2"'))
    for command in ("list", "describe", "restore", "verify", "unlock"):
        with pytest.raises(NewerVersionError, match="version 2"):
            stocked.invoke(command)


def test_a_damaged_pit_is_not_restored(stocked: Folder) -> None:
    damage(stocked.repository, PITS[2])
    with pytest.raises(DamagedRepositoryError, match=str(PITS[2])):
        stocked.invoke("restore")
