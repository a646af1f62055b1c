"""What people get wrong, through the command itself: exit code, class, hint, nothing changed."""

from __future__ import annotations

import pytest

from tests.support.command import Answer, Desk

pytestmark = pytest.mark.long


def check(answer: Answer, code: int, error: str) -> None:
    assert (answer.code, answer.error) == (code, error), answer.stderr
    assert answer.report["error"]["exit_code"] == code
    assert answer.hint
    assert answer.stderr.startswith("error: ")
    assert "Traceback" not in answer.stderr


@pytest.mark.parametrize(
    ("line", "code", "error"),
    [
        ("backup --repo new --catalog nope", 2, "UnknownCatalogError"),
        ("backup --repo new --catalog a/b", 2, "BadNameError"),
        ("backup --repo new --catalog prod --database ..", 2, "BadNameError"),
        ("backup --repo new --catalog prod --database shop --table EMPTY", 2, "BadNameError"),
        ("backup --repo new --catalog prod --database nope", 14, "NoSuchNamespaceError"),
        ("backup --repo new --catalog prod --database shop --table nope", 14, "NoSuchTableError"),
        ("backup --repo new --catalog dr", 14, "CatalogError"),
        ("backup --repo warehouse/backups --catalog prod", 16, "OverlapError"),
        ("backup --repo warehouse/shop/orders --catalog prod", 16, "OverlapError"),
        ("backup --repo . --catalog prod", 16, "OverlapError"),
        ("backup --catalog prod --database shop", 16, "ScopeMismatchError"),
        ("restore --pit 2020-01-01 --target-catalog dr", 2, "UnknownPitError"),
        ("restore --target-catalog nope", 2, "UnknownCatalogError"),
        ("restore --target-catalog dr --table orders --target-table a/b", 2, "BadNameError"),
        ("restore --target-catalog dr --table nope", 14, "NoSuchTableError"),
        ("restore --target-catalog dr --database nope", 14, "NoSuchNamespaceError"),
        ("restore --table orders", 16, "TargetExistsError"),
        ("restore --table orders --target-table x INSIDE_SOURCE", 16, "OverlapError"),
        ("restore --table orders --target-catalog dr INSIDE_REPOSITORY", 16, "OverlapError"),
        ("restore --table orders --target-catalog dr AROUND_ALL", 16, "OverlapError"),
        ("restore --repo nowhere", 10, "NoRepositoryError"),
    ],
)
def test_a_mistake_is_told_with_a_hint_and_changes_nothing(
    stocked: Desk, line: str, code: int, error: str
) -> None:
    places = {
        "INSIDE_SOURCE": stocked.root / "warehouse/shop/orders/copy",
        "INSIDE_REPOSITORY": stocked.location / "data/copy",
        "AROUND_ALL": stocked.root,
    }
    words = ["" if word == "EMPTY" else word for word in line.split()]
    if words[-1] in places:
        words[-1:] = ["--target-location", str(places[words[-1]])]
    check(stocked.run(*words), code, error)
    assert not (stocked.root / "new").exists()
    assert not (stocked.root / "dr.db").exists()
    assert not stocked.target.exists()


def test_names_with_nul_in_the_settings_or_the_environment_are_refused(stocked: Desk) -> None:
    config = stocked.root / "nul.toml"
    text = (
        (stocked.root / "bcn.toml").read_text().replace("[catalogs.prod]", '[catalogs."p\\u0000"]')
    )
    config.write_text(text)
    answer = stocked.run("backup", "--config", "nul.toml", "--repo", "new", "--catalog", "prod")
    assert answer.code == 2
    assert answer.hint
    assert not (stocked.root / "new").exists()


def test_a_catalog_whose_tables_all_vanished_is_not_believed(desk: Desk) -> None:
    desk.drop("orders")
    before = desk.kept()
    check(desk.run("backup"), 16, "MassDeletionError")
    assert desk.kept() == before
    accepted = desk.run("backup", "--accept-deletions")
    assert accepted.code == 0
    assert [table["status"] for table in accepted.report["tables"]] == ["DELETED"]


def test_a_catalog_whose_database_file_vanished_is_an_error_and_no_deletion(desk: Desk) -> None:
    (desk.root / "prod.db").rename(desk.root / "away.db")
    before = desk.kept()
    check(desk.run("backup", "--accept-deletions"), 14, "CatalogError")
    assert desk.kept() == before
