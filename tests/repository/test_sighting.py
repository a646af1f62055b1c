"""Objects found in the bytes of a PIT are those that its whole document has."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bcn.errors import DamagedRepositoryError
from bcn.model import TableId
from bcn.repository.document import render_document, with_checksum
from bcn.repository.pit import (
    CHECKSUM_FIELD,
    DeletedObject,
    FailedObject,
    Namespace,
    PitManifest,
    render_pit,
)
from bcn.repository.sighting import Sighting, find_called, find_named, find_sightings
from tests.cli.made import PITS, manifest, record

NAMES = ("sales.orders", 'sales.`or"de\\rs`', "hr.`пример`", "hr.`a{b}`", '`x: {"`.orders')


def made(**more: Any) -> PitManifest:
    gone = DeletedObject("gone-1", TableId.parse("sales.items"), "2026-08-21", PITS[0])
    failed = FailedObject("sales.orders", TableId.parse("sales.orders"), "E", "no", PITS[0])
    lost = FailedObject("", TableId.parse("hr.ghosts"), "E", "never read", None)
    objects = [record(name) for name in NAMES]
    values: Any = {"deleted": (gone,), "failed": (failed, lost), **more}
    return manifest(PITS[1], objects, PITS[0], **values)


def rendered(pit: PitManifest) -> bytes:
    return render_document(render_pit(pit))


@pytest.mark.parametrize("name", NAMES)
def test_a_record_is_found_by_id_by_name_and_by_its_last_part(name: str) -> None:
    pit = made()
    data = rendered(pit)
    expected = next(item for item in pit.objects if item.object_id == name)
    by_id = find_sightings(data, "key", [name])
    assert by_id[name].record == expected
    assert find_named(data, "key", expected.table)[name].record == expected
    assert find_called(data, "key", expected.table.name)[name].record == expected


def test_what_is_gone_and_what_failed_is_found_too() -> None:
    pit = made()
    found = find_sightings(rendered(pit), "key", ["gone-1", "sales.orders", "nobody"])
    assert found == {
        "gone-1": Sighting(deleted=pit.deleted[0]),
        "sales.orders": Sighting(pit.objects[0], failed=pit.failed[0]),
    }
    assert found["gone-1"].table == TableId.parse("sales.items")
    assert Sighting().table is None


def test_a_table_that_could_not_be_identified_is_no_object() -> None:
    assert find_named(rendered(made()), "key", TableId.parse("hr.ghosts")) == {}


def test_what_people_call_labels_and_properties_is_no_object() -> None:
    odd = {"object_id": "gone-1", "name": "sales.orders", "deleted": '"object_id": "gone-1"'}
    pit = made(labels=odd)
    pit = PitManifest(
        **{name: getattr(pit, name) for name in PitManifest.__dataclass_fields__}
        | {"namespaces": (Namespace(("sales",), odd),)}
    )
    data = rendered(pit)
    assert find_sightings(data, "key", ["gone-1"]) == {"gone-1": Sighting(deleted=pit.deleted[0])}
    assert find_named(data, "key", TableId.parse("sales.orders")).keys() == {"sales.orders"}


@pytest.mark.parametrize("layout", ["compact", "sorted", "reversed"])
def test_a_document_laid_out_otherwise_is_read_the_slow_way(layout: str) -> None:
    pit = made()
    document = render_pit(pit)
    if layout == "reversed":
        document["objects"] = [dict(reversed(item.items())) for item in document["objects"]]
        data = render_document(with_checksum(document, CHECKSUM_FIELD))
    else:
        indent = 2 if layout == "sorted" else None
        separators = None if layout == "sorted" else (",", ":")
        text = json.dumps(
            document, sort_keys=layout == "sorted", indent=indent, separators=separators
        )
        data = text.encode()
    for item in pit.objects:
        assert find_sightings(data, "key", [item.object_id])[item.object_id].record == item
        assert find_named(data, "key", item.table)[item.object_id].record == item


def test_a_record_longer_than_a_piece_is_read_the_slow_way() -> None:
    long = record("sales." + "é" * 20_000)
    data = rendered(manifest(PITS[0], [long]))
    assert find_sightings(data, "key", [long.object_id])[long.object_id].record == long


def test_a_marker_of_a_lost_lease_has_no_objects() -> None:
    marker = render_document({"version": "1", "abandoned": True, "pit": str(PITS[0])})
    assert find_sightings(marker, "key", ["sales.orders"]) == {}


@pytest.mark.parametrize("share", [0.3, 0.99])
def test_a_document_that_was_cut_is_damaged(share: float) -> None:
    data = rendered(made())
    with pytest.raises(DamagedRepositoryError):
        find_sightings(data[: int(len(data) * share)], "key", ["sales.orders"])


def test_a_document_without_its_lists_is_damaged() -> None:
    with pytest.raises(DamagedRepositoryError, match="not a whole PIT"):
        find_sightings(b'{"version": "1"}', "key", ["sales.orders"])


def test_a_record_without_its_keys_is_damaged() -> None:
    document = render_pit(made())
    del document["objects"][0]["entry"]["sha256"]
    data = render_document(with_checksum(document, CHECKSUM_FIELD))
    with pytest.raises(DamagedRepositoryError, match="sha256"):
        find_sightings(data, "key", ["sales.orders"])
