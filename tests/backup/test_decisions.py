"""What a backup decides before it reads a byte: pure, and told by tables of cases."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from bcn.backup.plan import check_deletions, compare, deletions, object_ids
from bcn.backup.roots import UNRESOLVED, Roots, external_roots
from bcn.backup.round import error_of, error_of_all
from bcn.backup.scope import check_places, settle_scope
from bcn.backup.walk import failure
from bcn.catalog.protocol import TABLE, Pointer
from bcn.errors import (
    MassDeletionError,
    MissingSourceFileError,
    OverlapError,
    ScopeMismatchError,
    StorageError,
    UsageError,
)
from bcn.model import PitId, TableId
from bcn.repository.entry import Root
from bcn.repository.pit import EntryRef, FailedObject, ObjectRecord, PitManifest
from bcn.repository.repository import Scope, create_repository
from bcn.storage.protocol import StorageSpec

MOMENT = datetime(2026, 8, 20, tzinfo=UTC)
PIT = PitId.of(MOMENT)
UUID = "00000000-0000-0000-0000-000000000001"


def record(name: str = "t", **more: object) -> ObjectRecord:
    table = TableId(("db",), name)
    found = ObjectRecord(
        UUID if name == "t" else name,
        TABLE,
        table,
        "NEW",
        EntryRef("k", "0" * 64, 1),
        f"/wh/{name}/v1.json",
        "10-20",
        "0" * 64,
        files=1,
        size_bytes=1,
        snapshots=1,
    )
    return replace(found, **more)  # type: ignore[arg-type]


def parent(*records: ObjectRecord) -> PitManifest:
    return PitManifest(PIT, "u", None, "now", {}, {}, "0", records)


def pointer(name: str = "t", location: str = "/wh/t/v1.json", kind: str = TABLE) -> Pointer:
    return Pointer(TableId(("db",), name), location, kind)


# what is unchanged


def decide(known: ObjectRecord, found: Pointer, version: str | None = "10-20") -> str:
    result = compare([found], {found.metadata_location: version}, parent(known))
    names = [name for name in ("unchanged", "renamed", "to_read") if getattr(result, name)]
    assert len(names) == 1
    return names[0]


def test_the_same_place_and_version_mean_the_same_table() -> None:
    assert decide(record(), pointer()) == "unchanged"
    assert decide(record(), pointer("other")) == "renamed"


@pytest.mark.parametrize(
    ("known", "found", "version"),
    [
        (record(), pointer(location="/wh/t/v2.json"), "10-20"),
        (record(), pointer(), "10-21"),
        (record(), pointer(), None),
        (record(), pointer(kind="view"), "10-20"),
        (record(damaged=1), pointer(), "10-20"),
        (record(status="FAILED"), pointer(), "10-20"),
    ],
    ids=["moved", "other bytes", "unknown bytes", "a view now", "was damaged", "had failed"],
)
def test_whatever_may_have_changed_is_read_again(
    known: ObjectRecord, found: Pointer, version: str | None
) -> None:
    assert decide(known, found, version) == "to_read"


def test_a_second_name_beside_the_first_is_no_rename() -> None:
    versions: dict[str, str | None] = {"/wh/t/v1.json": "10-20"}
    result = compare([pointer(), pointer("twin")], versions, parent(record()))
    assert [item.table.name for item in result.unchanged] == ["t"]
    assert [item.table.name for item in result.to_read] == ["twin"]


def test_of_two_tables_with_one_uuid_the_one_that_had_it_keeps_it() -> None:
    both = [(pointer("t"), UUID, "/wh/t"), (pointer("twin"), UUID, "/wh/twin")]
    first, second = object_ids(both, {}, parent(record()), "c")
    assert first == UUID
    assert second.startswith("n-")
    first, second = object_ids(both, {}, None, "c")
    assert first.startswith("n-")
    assert second.startswith("n-")
    assert first != second


def test_an_id_that_an_unchanged_table_holds_is_not_given_away() -> None:
    taken = {UUID: TableId(("db",), "t")}
    (given,) = object_ids([(pointer("twin"), UUID, "/wh/twin")], taken, parent(record()), "c")
    assert given.startswith("n-")


def test_what_is_gone_stays_told_until_it_comes_back() -> None:
    gone = deletions(parent(record()), set(), PIT)
    assert [item.last_pit_included for item in gone] == [PIT]
    later = replace(parent(), deleted=gone)
    assert deletions(later, set(), PIT) == gone
    assert deletions(later, {UUID}, PIT) == ()


# refusals


@pytest.mark.parametrize(("known", "gone"), [(1, 1), (5, 5), (10, 6), (100, 51)])
def test_so_many_tables_do_not_vanish_by_themselves(known: int, gone: int) -> None:
    objects = [record(f"t{number}") for number in range(known)]
    with pytest.raises(MassDeletionError, match=f"{gone} of {known}"):
        check_deletions(parent(*objects), gone)


@pytest.mark.parametrize(("known", "gone"), [(0, 0), (5, 0), (5, 4), (9, 8), (10, 5), (100, 50)])
def test_some_tables_may_go(known: int, gone: int) -> None:
    check_deletions(parent(*(record(f"t{number}") for number in range(known))), gone)


def test_a_repository_is_locked_to_its_first_scope(tmp_path: Path) -> None:
    whole, database, table = Scope("c"), Scope("c", ("d",)), Scope("c", ("d",), "t")
    locked = create_repository(StorageSpec(str(tmp_path)), database, MOMENT)
    assert settle_scope(locked, None) == settle_scope(locked, database) == database
    for other in (whole, table, Scope("other", ("d",)), Scope("c", ("e",))):
        with pytest.raises(ScopeMismatchError):
            settle_scope(locked, other)


def test_a_first_backup_has_to_say_what_it_is_of(tmp_path: Path) -> None:
    empty = create_repository(StorageSpec(str(tmp_path)), None, MOMENT)
    for repository in (None, empty):
        with pytest.raises(UsageError):
            settle_scope(repository, None)
        assert settle_scope(repository, Scope("c")) == Scope("c")


@pytest.mark.parametrize(
    ("repository", "root"),
    [("/a/b", "/a"), ("/a", "/a/b"), ("/a", "file:///a/"), ("/x/../a/b", "file:/a")],
)
def test_a_repository_and_a_table_may_not_lie_in_each_other(repository: str, root: str) -> None:
    with pytest.raises(OverlapError):
        check_places(StorageSpec(repository), ["/elsewhere", root], "warehouse")
    check_places(StorageSpec(repository), ["/elsewhere", "/a_b"], "warehouse")


# roots


def test_a_root_matches_at_a_slash_only_one_by_one_and_all_at_once() -> None:
    roots = Roots([Root(0, "/wh/t"), Root(1, "/wh/t_backup")])
    places = ["/wh/t/a", "/wh/t_backup/a", "/wh/tx/a", "/wh/t//a", "/wh/t"]
    found = [roots.find(place) for place in places]
    assert found == [(0, "a"), (1, "a"), None, (0, "/a"), None]
    ids, paths = roots.split_all(pa.array(places))
    assert ids.tolist() == [0, 1, UNRESOLVED, 0, UNRESOLVED]
    assert paths.to_pylist() == ["a", "a", "/wh/tx/a", "/a", "/wh/t"]


def test_the_lowest_root_decides_so_that_old_splits_never_change() -> None:
    roots = Roots([Root(1, "/wh/t/data"), Root(0, "/wh/t")])
    assert roots.find("/wh/t/data/f") == (0, "data/f")
    ids, paths = roots.split_all(pa.array(["/wh/t/data/f"]))
    assert (ids.tolist(), paths.to_pylist()) == ([0], ["data/f"])
    roots.add("/wh/t/more")
    assert len(roots.roots) == 2


def test_a_new_root_gets_an_id_that_none_had() -> None:
    roots = Roots([Root(0, "/a"), Root(7, "/b")])
    assert roots.split("s3://bucket/x/f") == (8, "f")
    assert roots.roots[-1] == Root(8, "s3://bucket/x")


def test_places_of_a_service_and_folder_share_a_root() -> None:
    places = ["s3://b/x/1/f", "s3://b/x/2/f", "s3://b/y/f", "s3a://b/x/f", "/x/1/f", "/x/1/2/f"]
    assert external_roots(places) == ["/x/1", "s3://b/x", "s3://b/y", "s3a://b/x"]


def test_a_failure_in_a_task_keeps_its_hint() -> None:
    error = StorageError("cannot read s3://b/k: the credentials have expired", hint="get new ones")
    found = error_of(failure(1, error, "s3://b/k"))
    assert (type(found), str(found), found.hint) == (StorageError, str(error), "get new ones")
    plain = error_of(failure(1, MissingSourceFileError("s3://b/k is missing"), "s3://b/k"))
    assert "--skip-damaged" in plain.hint


def test_where_every_table_failed_one_error_tells_how_many() -> None:
    failed = [
        FailedObject("", TableId(("db",), f"t{n}"), "StorageError", "gone", None, "look")
        for n in range(3)
    ]
    one, all_ = error_of_all(failed[:1]), error_of_all(failed)
    assert (str(one), one.hint, one.exit_code) == ("db.t0: gone", "look", 15)
    assert str(all_) == "db.t0: gone (and 2 more tables failed)"
