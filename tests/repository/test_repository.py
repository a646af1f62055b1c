"""Repositories: created, opened, rebuilt, and what their listing says."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bcn.errors import (
    DamagedRepositoryError,
    NewerVersionError,
    NoRepositoryError,
    RefusedError,
)
from bcn.model import Json, PitId, TableId, sha256
from bcn.repository import layout
from bcn.repository.document import render_document
from bcn.repository.entry import Entry, Layer, LayerPart, Root, render_entry
from bcn.repository.pit import EntryRef, PitManifest, render_pit
from bcn.repository.repository import (
    Repository,
    Scope,
    create_repository,
    next_pit_id,
    open_repository,
    rebuild_repository,
    summary_line,
)
from bcn.storage.local import LocalStorage
from bcn.storage.protocol import StorageSpec

MOMENT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
SCOPE = Scope("prod")


@pytest.fixture
def spec(tmp_path: Path) -> StorageSpec:
    return StorageSpec(str(tmp_path / "repository"))


@pytest.fixture
def repository(spec: StorageSpec) -> Repository:
    return create_repository(spec, SCOPE, MOMENT)


def _manifest(repository: Repository, seconds: int, **more: Any) -> PitManifest:
    fields: dict[str, Any] = {
        "pit": PitId.of(MOMENT + timedelta(seconds=seconds)),
        "pit_uuid": "u",
        "parent": None,
        "captured_at": "",
        "repository": {
            "id": repository.id,
            "granularity": "CATALOG",
            "scope": SCOPE.document(),
            "features": {"read": [], "write": []},
        },
        "consistency": {},
        "bcn_version": "0",
        "objects": (),
    }
    return PitManifest(**{**fields, **more})


def _publish(repository: Repository, manifest: PitManifest) -> str:
    key = layout.pit_key("prod", manifest.pit)
    repository.storage.write_once(key, render_document(render_pit(manifest)))
    return key


# opening


def test_what_was_created_is_opened(spec: StorageSpec, repository: Repository) -> None:
    found = open_repository(spec)
    assert found.id == repository.id
    assert found.scope == SCOPE
    assert found.document["last_pit"] is None
    found.check_writable()


def test_an_empty_place_is_no_repository(spec: StorageSpec) -> None:
    for find in (open_repository, rebuild_repository):
        with pytest.raises(NoRepositoryError, match="no repository at"):
            find(spec)


def test_a_place_that_holds_anything_does_not_become_a_repository(spec: StorageSpec) -> None:
    LocalStorage(spec.location).write_once("photo.jpg", b"x")
    with pytest.raises(RefusedError, match=r"photo\.jpg"):
        create_repository(spec, SCOPE, MOMENT)


def test_of_two_who_create_a_repository_one_is_refused(
    spec: StorageSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_repository(spec, SCOPE, MOMENT)
    monkeypatch.setattr(LocalStorage, "iter_keys", lambda *_: iter(()))
    with pytest.raises(RefusedError, match="another process"):
        create_repository(spec, SCOPE, MOMENT)


def test_a_repository_without_scope_has_no_pits_yet(spec: StorageSpec) -> None:
    repository = create_repository(spec, None, MOMENT)
    assert repository.scope is None
    assert repository.pit_ids() == []
    assert repository.find_newest() is None
    assert repository.summaries() == []
    with pytest.raises(NoRepositoryError, match="no backup yet"):
        repository.pit_key(PitId.of(MOMENT))


def test_the_scope_is_locked_and_unknown_keys_stay(spec: StorageSpec) -> None:
    create_repository(spec, None, MOMENT).update(later={"x": 1})
    locked = open_repository(spec).locked_to(Scope("prod", ("a", "b"), "t"))
    assert open_repository(spec).scope is None
    locked.update(last_pit="x")
    found = open_repository(spec)
    assert found.identity() == locked.identity()
    assert found.identity()["granularity"] == "TABLE"
    assert found.scope == Scope("prod", ("a", "b"), "t")
    assert found.document["granularity"] == "TABLE"
    assert found.document["later"] == {"x": 1}


@pytest.mark.parametrize(
    ("scope", "granularity"),
    [
        (Scope("c"), "CATALOG"),
        (Scope("c", ("d",)), "DATABASE"),
        (Scope("c", ("d", "e"), "t"), "TABLE"),
    ],
)
def test_a_scope_survives_being_stored(scope: Scope, granularity: str) -> None:
    assert scope.granularity == granularity
    assert Scope.parse(json.loads(json.dumps(scope.document()))) == scope


def _edit(spec: StorageSpec, **changes: object) -> None:
    path = Path(spec.location) / layout.REPOSITORY_KEY
    document = json.loads(path.read_bytes())
    document = {**document, **changes}
    path.write_text(json.dumps({k: v for k, v in document.items() if v is not ...}))


@pytest.mark.parametrize(
    "changes",
    [
        {"scope": ...},
        {"repository_id": ...},
        {"features": None},
        {"features": {}},
        {"features": {"read": 7}},
        {"scope": None},
        {"scope": {"catalog": "c", "database": 7}},
    ],
)
@pytest.mark.usefixtures("repository")
def test_a_repository_document_that_is_not_whole_is_damage(
    spec: StorageSpec, changes: Json
) -> None:
    _edit(spec, **changes)
    with pytest.raises(DamagedRepositoryError, match=r"manifest\.json"):
        open_repository(spec)


@pytest.mark.usefixtures("repository")
def test_a_newer_version_is_refused(spec: StorageSpec) -> None:
    _edit(spec, version="2")
    with pytest.raises(NewerVersionError):
        open_repository(spec)


@pytest.mark.usefixtures("repository")
def test_features_decide_who_may_read_and_who_may_write(spec: StorageSpec) -> None:
    _edit(spec, features={"read": [], "write": ["locked-down"]})
    with pytest.raises(RefusedError, match="locked-down"):
        open_repository(spec).check_writable()
    _edit(spec, features={"read": ["hidden-names"], "write": []})
    with pytest.raises(NewerVersionError, match="hidden-names"):
        open_repository(spec)


# rebuilding


def test_a_lost_document_is_rebuilt_from_the_newest_whole_pit(
    spec: StorageSpec, repository: Repository
) -> None:
    first = _manifest(repository, 1)
    _publish(repository, first)
    hurt = _publish(repository, _manifest(repository, 2))
    Path(spec.location, hurt).write_bytes(b"{")
    repository.storage.write_once(
        layout.pit_key("prod", PitId.of(MOMENT + timedelta(seconds=3))),
        b'{"version": "1", "abandoned": true}',
    )
    repository.storage.delete(layout.REPOSITORY_KEY)
    found = open_repository(spec)
    assert (found.id, found.scope) == (repository.id, SCOPE)
    assert found.document["last_pit"] == str(first.pit)
    assert found.storage.find_stat(layout.REPOSITORY_KEY) is None
    assert found.document.keys() == repository.document.keys()


def test_after_a_crash_before_the_scope_was_stored_the_pit_holds(spec: StorageSpec) -> None:
    repository = create_repository(spec, None, MOMENT)
    repository.update(later={"x": 1})
    manifest = _manifest(repository, 1)
    _publish(repository, manifest)
    found = open_repository(spec)
    assert found.scope == SCOPE
    assert found.document["granularity"] == "CATALOG"
    assert found.document["last_pit"] == str(manifest.pit)
    assert found.document["later"] == {"x": 1}


# PITs


def test_pits_are_found_and_listed_oldest_first(repository: Repository) -> None:
    later, earlier = _manifest(repository, 9), _manifest(repository, 1)
    _publish(repository, later)
    _publish(repository, earlier)
    assert repository.pit_ids() == [earlier.pit, later.pit]
    assert repository.find_newest() == later
    assert repository.find_pit(earlier.pit) == earlier
    assert repository.find_pit(PitId.of(MOMENT)) is None
    assert repository.summaries() == [summary_line(earlier), summary_line(later)]


def test_an_abandoned_run_uses_an_id_but_is_no_pit(repository: Repository) -> None:
    whole, marker = _manifest(repository, 1), PitId.of(MOMENT + timedelta(seconds=2))
    _publish(repository, whole)
    repository.storage.write_once(
        layout.pit_key("prod", marker), b'{"version": "1", "abandoned": true}'
    )
    assert repository.pit_ids() == [whole.pit, marker]
    assert repository.find_pit(marker) is None
    assert repository.find_newest() == whole
    assert repository.summaries() == [summary_line(whole)]


def test_a_damaged_pit_is_an_error_when_read_and_a_line_when_listed(
    repository: Repository,
) -> None:
    manifest = _manifest(repository, 1)
    key = _publish(repository, manifest)
    Path(repository.spec.location, key).write_bytes(b"{")
    with pytest.raises(DamagedRepositoryError):
        repository.find_newest()
    (line,) = repository.summaries()
    assert line["pit"] == str(manifest.pit)
    assert key in line["damaged"]


def test_a_pit_under_another_ones_key_is_damage(repository: Repository) -> None:
    data = render_document(render_pit(_manifest(repository, 1)))
    other = PitId.of(MOMENT + timedelta(seconds=2))
    repository.storage.write_once(layout.pit_key("prod", other), data)
    with pytest.raises(DamagedRepositoryError, match="another point in time"):
        repository.find_pit(other)


@pytest.mark.parametrize(
    ("features", "error"),
    [({"read": ["later"], "write": []}, NewerVersionError), (None, DamagedRepositoryError)],
)
def test_a_pit_with_features_that_nobody_knows_is_refused(
    repository: Repository, features: object, error: type[Exception]
) -> None:
    manifest = _manifest(repository, 1)
    manifest = replace(manifest, repository={**manifest.repository, "features": features})
    _publish(repository, manifest)
    with pytest.raises(error):
        repository.find_pit(manifest.pit)


def test_the_index_is_used_where_it_has_a_pit_and_never_where_the_pit_is_gone(
    repository: Repository,
) -> None:
    known, unknown = _manifest(repository, 1), _manifest(repository, 2)
    _publish(repository, known)
    _publish(repository, unknown)
    lines = [
        {**summary_line(known), "labels": {"from": "index"}},
        {**summary_line(known), "pit": "20200101T000000.000000Z"},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    repository.storage.replace(layout.pits_index_key("prod"), text.encode())
    assert repository.summaries() == [lines[0], summary_line(unknown)]


@pytest.mark.parametrize("content", [b"\xff", b"{", b"[]", b'"x"', b"{}"])
def test_a_broken_index_is_ignored(repository: Repository, content: bytes) -> None:
    manifest = _manifest(repository, 1)
    _publish(repository, manifest)
    repository.storage.replace(layout.pits_index_key("prod"), content)
    assert repository.summaries() == [summary_line(manifest)]


# entries


def test_an_entry_that_is_missing_or_changed_is_damage(repository: Repository) -> None:
    ref = EntryRef("entry.json", sha256(b"whole"), 5)
    with pytest.raises(DamagedRepositoryError, match=r"entry\.json is missing"):
        repository.load_entry(ref)
    repository.storage.write_once("entry.json", b"other")
    with pytest.raises(DamagedRepositoryError, match="SHA-256"):
        repository.load_entry(ref)


def test_an_entry_is_loaded_by_its_reference(repository: Repository) -> None:
    pit = PitId.of(MOMENT)
    layer = Layer("full", pit, (LayerPart("k", "s", 1, 1),))
    entry = Entry(
        object_id="o",
        type="table",
        uuid=None,
        table=TableId(("db",), "t"),
        pit=pit,
        metadata_location="/m",
        metadata_key="data/m",
        metadata_sha256="s",
        metadata_version="v",
        roots=(Root(0, "/t"),),
        layers=(layer,),
        files=1,
        size_bytes=1,
        damaged=(),
        table_facts={},
    )
    data = render_document(render_entry(entry))
    repository.storage.write_once("entry.json", data)
    assert repository.load_entry(EntryRef("entry.json", sha256(data), len(data))) == entry


# ids

moments = st.integers(0, 100 * 365 * 86400 * 10**6).map(
    lambda microseconds: MOMENT + timedelta(microseconds=microseconds)
)


@given(moments, st.lists(moments, max_size=5))
def test_ids_grow_also_when_clocks_run_back(now: datetime, before: list[datetime]) -> None:
    existing = [PitId.of(moment) for moment in before]
    found = next_pit_id(now, existing)
    assert all(found > pit for pit in existing)
    assert found >= PitId.of(now)
    assert PitId.parse(str(found)) == found
    if all(moment < now for moment in before):
        assert found.moment == now
