"""PITs: a value that survives being stored, and nothing that is not whole is one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bcn.errors import DamagedRepositoryError
from bcn.model import PitId, TableId
from bcn.repository.document import render_document, with_checksum
from bcn.repository.pit import (
    CHECKSUM_FIELD,
    DeletedObject,
    EntryRef,
    FailedObject,
    Namespace,
    ObjectRecord,
    PitManifest,
    RenamedObject,
    parse_pit,
    render_pit,
)

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
names = text.filter(lambda name: name not in {"", ".", ".."} and not {"/", "\0"} & set(name))
tables = st.builds(TableId, st.lists(names, min_size=1, max_size=3).map(tuple), names)
pits = st.datetimes().filter(lambda moment: moment.year >= 1000).map(PitId.of)
counts = st.integers(0, 2**62)
strings = st.dictionaries(text, text, max_size=3)
records = st.builds(
    ObjectRecord,
    object_id=text,
    type=st.sampled_from(["table", "view"]),
    table=tables,
    status=st.sampled_from(["NEW", "CHANGED", "UNCHANGED", "RENAMED", "FAILED"]),
    entry=st.builds(EntryRef, text, text, counts),
    metadata_location=text,
    metadata_version=text,
    metadata_sha256=text,
    files=counts,
    size_bytes=counts,
    snapshots=counts,
    files_new=counts,
    bytes_new=counts,
    damaged=counts,
)
manifests = st.builds(
    PitManifest,
    pit=pits,
    pit_uuid=text,
    parent=st.none() | pits,
    captured_at=text,
    repository=strings,
    consistency=strings,
    bcn_version=text,
    objects=st.lists(records, max_size=3).map(tuple),
    namespaces=st.lists(
        st.builds(Namespace, st.lists(names, min_size=1, max_size=3).map(tuple), strings),
        max_size=2,
    ).map(tuple),
    deleted=st.lists(st.builds(DeletedObject, text, tables, text, pits), max_size=2).map(tuple),
    deleted_namespaces=st.lists(text, max_size=2).map(tuple),
    renamed=st.lists(st.builds(RenamedObject, text, tables, tables), max_size=2).map(tuple),
    failed=st.lists(
        st.builds(FailedObject, text, tables, text, text, st.none() | pits), max_size=2
    ).map(tuple),
    labels=strings,
)


@given(manifests)
def test_a_pit_survives_being_stored(manifest: PitManifest) -> None:
    assert parse_pit(render_document(render_pit(manifest)), "key") == manifest


def _manifest(**more: Any) -> PitManifest:
    fields: dict[str, Any] = {
        "pit": PitId("20260102T030405.000006Z"),
        "pit_uuid": "u",
        "parent": None,
        "captured_at": "2026-01-02T03:04:05.000006Z",
        "repository": {"id": "r", "features": {"read": [], "write": []}},
        "consistency": {"exact": True},
        "bcn_version": "0",
        "objects": (),
    }
    return PitManifest(**{**fields, **more})


def _record(name: str, status: str, **more: Any) -> ObjectRecord:
    fields: dict[str, Any] = {
        "object_id": name,
        "type": "table",
        "table": TableId(("db",), name),
        "status": status,
        "entry": EntryRef("k", "s", 1),
        "metadata_location": "/m",
        "metadata_version": "1-2",
        "metadata_sha256": f"sha of {name}",
        "files": 10,
        "size_bytes": 100,
        "snapshots": 2,
        "files_new": 1,
        "bytes_new": 7,
    }
    return ObjectRecord(**{**fields, **more})


def test_a_stored_pit_tells_people_what_it_holds() -> None:
    manifest = _manifest(
        objects=(
            _record("a", "NEW"),
            _record("b", "UNCHANGED"),
            _record("v", "CHANGED", type="view"),
        ),
        namespaces=(Namespace(("db",), {"owner": "me"}),),
        deleted=(DeletedObject("x", TableId(("db",), "old one"), "then", manifest_id()),),
        deleted_namespaces=("gone",),
    )
    document = render_pit(manifest)
    assert document["included_objects"] == {
        "databases": ["db"],
        "tables": {"db": ["a", "b"]},
        "views": {"db": ["v"]},
    }
    assert document["unchanged_objects"] == {
        "tables": ["db.b"],
        "checksums": {"db.b": "sha of b"},
    }
    assert document["deleted_in_source"] == {"tables": ["db.`old one`"], "databases": ["gone"]}
    assert document["pit_timestamp"] == "2026-01-02T03:04:05.000006Z"
    assert document["summary"] == {
        "databases": 1,
        "tables": 2,
        "views": 1,
        "snapshots": 6,
        "new": 1,
        "changed": 1,
        "unchanged": 1,
        "renamed": 0,
        "deleted": 1,
        "failed": 0,
        "files_new": 3,
        "bytes_new": 21,
        "files_total": 30,
        "bytes_total": 300,
    }


def manifest_id() -> PitId:
    return PitId("20250102T030405.000006Z")


def test_a_marker_of_an_abandoned_run_is_no_pit() -> None:
    assert parse_pit(b'{"version": "1", "abandoned": true}', "key") is None


def test_a_pit_cannot_be_edited_into_a_marker() -> None:
    document = {"abandoned": True, **render_pit(_manifest())}
    with pytest.raises(DamagedRepositoryError, match="was changed"):
        parse_pit(render_document(document), "key")


@pytest.mark.parametrize("position", range(0, 1400, 97))
def test_a_pit_that_is_cut_anywhere_is_damage(position: int) -> None:
    data = render_document(render_pit(_manifest(objects=(_record("a", "NEW"),))))
    with pytest.raises(DamagedRepositoryError):
        parse_pit(data[:position], "key")


@pytest.mark.parametrize("key", ["objects", "pit", "labels", "deleted_in_source", "namespaces"])
def test_a_pit_that_lacks_a_key_is_damage_even_with_a_right_checksum(key: str) -> None:
    document = render_pit(_manifest())
    del document[key], document[CHECKSUM_FIELD]
    data = json.dumps(with_checksum(document, CHECKSUM_FIELD)).encode()
    with pytest.raises(DamagedRepositoryError, match="not a whole PIT"):
        parse_pit(data, "key")
