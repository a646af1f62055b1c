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
from bcn.model import PitId
from bcn.repository.lease import LeaseSettings, Lessor
from tests.cli.made import PITS, START, Folder, damage, make_repository, manifest, record


def test_the_version_is_told(folder: Folder) -> None:
    assert folder.invoke("--version").output.split()[-1] == bcn.__version__


def test_help_names_every_command(folder: Folder) -> None:
    text = folder.invoke("--help").output
    for name in ("init", "backup", "restore", "list", "describe", "verify", "unlock"):
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
    assert [line.split()[:4] for line in lines[2:]] == [
        ["hr", "ghosts", "table", "FAILED"],
        ["hr", "people", "table", "FAILED"],
        ["sales", "items", "table", "DELETED"],
        ["sales", "orders", "table", "UNCHANGED"],
    ]


def test_a_database_alone_means_the_newest_pit(stocked: Folder) -> None:
    lines = stocked.invoke("list", "--database", "sales").stdout.splitlines()
    assert lines[0] == f"PIT {PITS[2]}"
    assert len(lines) == 4


def test_a_description_names_scope_sizes_and_what_is_gone(stocked: Folder) -> None:
    text = stocked.invoke("describe").stdout
    for told in ("CATALOG", "catalog prod", "4.0 KiB by all", "8.0 KiB in the newest", "nobody"):
        assert told in text
    assert f"sales.items, last in {PITS[0]}" in text


def test_names_cannot_move_the_cursor_of_a_terminal(folder: Folder) -> None:
    pit = manifest(PITS[0], [record("`a\x1b[2J`.`b\nc`")])
    make_repository(folder.location, [pit])
    text = folder.invoke("list", "--pit", "latest").stdout
    assert "\x1b" not in text
    assert len(text.splitlines()) == 3
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
