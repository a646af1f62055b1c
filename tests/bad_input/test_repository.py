"""Repositories that are newer, edited or damaged: refused with 13, or read and not written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bcn.errors import BcnError, DamagedRepositoryError
from bcn.repository.repository import Scope, open_repository
from bcn.storage.protocol import StorageSpec
from tests.support.command import Desk
from tests.support.small import InProcess

pytestmark = pytest.mark.long


def edit(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def only(desk: Desk, pattern: str) -> Path:
    return next(iter(sorted(desk.location.glob(pattern))))


@pytest.mark.parametrize("document", ["manifest.json", "catalogs/*/pit_manifests/*/manifest.json"])
@pytest.mark.parametrize("change", ["version", "feature"])
def test_what_a_newer_bcn_wrote_is_refused_with_a_hint_to_upgrade(
    desk: Desk, document: str, change: str
) -> None:
    features = {"read": ["encryption"], "write": []}
    changes: dict[str, Callable[[dict[str, Any]], None]] = {
        "version": lambda found: found.update(version="2"),
        "feature": lambda found: (found.get("repository") or found).update(features=features),
    }
    edit(only(desk, document), changes[change])
    before = desk.kept()
    lines = [("backup",), ("restore", "--target-catalog", "dr")]
    for line in lines:
        answer = desk.run(*line)
        assert answer.code == 13
        # An edited PIT has another checksum; only its version is looked at before that.
        if change == "version" or document == "manifest.json":
            assert answer.error == "NewerVersionError"
            assert "upgrade" in answer.hint
    assert desk.kept() == before


def test_an_unknown_feature_for_writers_makes_the_repository_read_only(desk: Desk) -> None:
    features = {"read": [], "write": ["append-only-index"]}
    edit(desk.location / "manifest.json", lambda found: found.update(features=features))
    before = desk.kept()
    refused = desk.run("backup")
    assert (refused.code, refused.error) == (16, "RefusedError")
    assert "append-only-index" in refused.message
    assert "upgrade" in refused.hint
    assert len(desk.run("list").report["pits"]) == 1
    restored = desk.product(InProcess()).restore(target_catalog="dr")
    assert len(restored.tables) == 1
    assert desk.kept() == before


@pytest.mark.parametrize(
    "pattern",
    ["catalogs/*/pit_manifests/*/manifest.json", "catalogs/*/databases/*/*/entries/*.json"],
    ids=["pit", "entry"],
)
@pytest.mark.parametrize("damage", ["cut", "edited"])
def test_a_damaged_document_is_refused_by_restore_and_told_by_verify(
    desk: Desk, pattern: str, damage: str
) -> None:
    path = only(desk, pattern)
    if damage == "cut":
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    else:
        path.write_bytes(path.read_bytes().replace(b"orders", b"ordersX", 1))
    before = desk.kept()
    restored = desk.run("restore", "--target-catalog", "dr")
    assert (restored.code, restored.error) == (13, "DamagedRepositoryError")
    assert "verify" in restored.hint
    assert not desk.target.exists()
    verified = desk.run("verify", "--level", "1")
    assert (verified.code, verified.report["ok"]) == (13, False)
    assert verified.report["findings"]
    assert desk.kept() == before


@pytest.mark.spark
def test_damaged_layers_and_files_are_told_by_the_command_too(desk: Desk) -> None:
    layer, data = (
        only(desk, "catalogs/*/databases/*/*/snapshots/*"),
        only(desk, "data/**/*.parquet"),
    )
    for path in (layer, data):
        whole = path.read_bytes()
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        before = desk.kept()
        answer = desk.run("restore", "--target-catalog", "dr")
        assert (answer.code, answer.error) == (13, "DamagedRepositoryError")
        assert path.name in answer.message
        assert desk.kept() == before
        assert not (desk.root / "dr.db").exists()
        path.write_bytes(whole)


@pytest.mark.parametrize(
    "change",
    [
        {"repository_id": 7},
        {"scope": {"catalog": 7}},
        {"scope": {"catalog": "prod", "database": "shop"}},
        {"scope": []},
        {"features": {"read": 1}},
        {"features": {"read": [], "write": 1}},
        {"features": {"read": [[]]}},
        {"features": None},
    ],
)
def test_values_of_the_wrong_type_in_the_repository_document_are_damage(
    desk: Desk, change: dict[str, Any]
) -> None:
    edit(desk.location / "manifest.json", lambda found: found.update(change))
    with pytest.raises(DamagedRepositoryError, match=r"manifest\.json"):
        open_repository(StorageSpec(str(desk.location)))


def test_an_edited_scope_does_not_overrule_the_newest_pit(desk: Desk) -> None:
    scope = Scope("prod", ("shop",)).document()
    edit(desk.location / "manifest.json", lambda found: found.update(scope=scope))
    before = desk.kept()
    answer = desk.run("backup")
    assert (answer.code, answer.error) == (13, "DamagedRepositoryError")
    assert "remove manifest.json" in answer.hint
    assert desk.kept() == before
    (desk.location / "manifest.json").unlink()
    assert desk.run("backup").code == 0
    assert desk.repository.scope == Scope("prod")


@pytest.mark.parametrize("content", [b"", b"[" * 100_000, b"\xff", b"null", b'{"version": "1"}'])
@pytest.mark.parametrize("document", ["manifest.json", "leases/00000001.json", "pit"])
def test_whatever_is_in_a_document_no_command_fails_without_saying_why(
    desk: Desk, document: str, content: bytes
) -> None:
    path = only(desk, "catalogs/*/pit_manifests/*/*") if document == "pit" else None
    (path or desk.location / document).write_bytes(content)
    with pytest.raises(BcnError):
        desk.product(InProcess()).backup()
