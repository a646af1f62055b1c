"""Sources that are damaged: the table fails with 17, the others and the repository do not."""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bcn.errors import DamagedSourceError, MalformedFileError
from bcn.repository.repository import Scope
from tests.support.command import Desk, Source, open_desk
from tests.support.small import InProcess

pytestmark = pytest.mark.long


def check_failed(desk: Desk, error: str) -> str:
    """Alone, a damaged table fails the command and publishes nothing. What people are told."""
    before = desk.kept()
    answer = desk.run("backup", "--catalog", "prod")
    assert (answer.code, answer.error) == (17, error)
    assert "--skip-damaged" in answer.hint
    assert desk.pits() == []
    assert {name: value for name, value in desk.kept().items() if name in before} == before
    return answer.message


@pytest.mark.spark
def test_a_missing_live_file_is_named_and_nothing_is_published(tmp_path: Path) -> None:
    desk = open_desk(tmp_path)
    table = desk.add_table()
    table.data_file(3).unlink()
    message = check_failed(desk, "MissingSourceFileError")
    assert str(table.data_file(3)) in message


@pytest.mark.spark
def test_a_manifest_that_is_not_avro_is_told_and_nothing_is_published(tmp_path: Path) -> None:
    desk = open_desk(tmp_path)
    table = desk.add_table()
    Path(table.shape.manifest_location(1)).write_bytes(b"PAR1 is no Avro")
    check_failed(desk, "MalformedFileError")


@pytest.mark.spark
def test_a_damaged_table_among_others_makes_the_backup_partial(tmp_path: Path) -> None:
    desk = open_desk(tmp_path)
    desk.add_table("good")
    bad, worse = desk.add_table("bad"), desk.add_table("worse")
    Path(bad.shape.metadata_location).write_text('{"format-version": 2, "location": 7}')
    Path(worse.shape.manifest_location(0)).write_bytes(b"")
    answer = desk.run("backup", "--catalog", "prod")
    assert (answer.code, answer.error) == (3, "IncompleteBackupError")
    found = {table["name"]: table["status"] for table in answer.report["tables"]}
    assert found == {"good": "NEW", "bad": "FAILED", "worse": "FAILED"}


# whatever bytes the metadata has, the table fails and not the run


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Desk, Source]:
    """A good table, and one to be damaged."""
    desk = open_desk(tmp_path_factory.mktemp("pair"))
    desk.add_table("good", snapshots=1, files=1, file_bytes=100)
    return desk, desk.add_table("bad", snapshots=2, files=2, file_bytes=100)


def iter_damage(data: bytes, chance: random.Random) -> Iterator[bytes]:
    yield from (b"", b"null", b"[" * 100_000, b"\xff\xfe", b"Obj\x01", b"\x1f\x8b\x08\0", b"{}")
    yield from (data[: chance.randrange(len(data))] for _ in range(6))
    for _ in range(20):
        changed = bytearray(data)
        changed[chance.randrange(len(data))] = chance.choice([0, 0x7F, 0x80, 0xFF])
        yield bytes(changed)


@pytest.mark.parametrize("kind", ["metadata", "list", "manifest"])
def test_random_damage_never_stops_the_backup_of_other_tables(
    pair: tuple[Desk, Source], tmp_path: Path, kind: str
) -> None:
    desk, table = pair
    shape = table.shape
    places = {
        "metadata": shape.metadata_location,
        "list": shape.list_location(1),
        "manifest": shape.manifest_location(1),
    }
    path = Path(places[kind])
    whole, failed = path.read_bytes(), 0
    for number, damaged in enumerate(iter_damage(whole, random.Random(kind))):
        path.write_bytes(damaged)
        product = open_desk(desk.root, location=tmp_path / str(number)).product(InProcess())
        report = product.backup(Scope("prod"))
        assert [item.table.name for item in report.objects][-1] == "good"
        assert all(item.error_class in _DAMAGE for item in report.failed)
        failed += len(report.failed)
    path.write_bytes(whole)
    open_desk(desk.root)
    assert failed > 20


_DAMAGE = {"MalformedFileError", "MissingSourceFileError"}


def _set(*keys: Any, value: Any) -> Callable[[Any], None]:
    def change(document: Any) -> None:
        for key in keys[:-1]:
            document = document[key]
        document[keys[-1]] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        _set("snapshots", 0, "snapshot-id", value=2**70),
        _set("snapshots", 0, "manifest-list", value=""),
        _set("snapshots", 0, "manifest-list", value=7),
        _set("snapshots", 0, value=None),
        _set("refs", "main", value="/etc/passwd"),
        _set("refs", "main", value={}),
        _set("refs", value=[]),
        _set("sort-orders", value={"a": 1}),
        _set("sort-orders", value=["x"]),
        _set("sort-orders", 0, "order-id", value=1.5),
        _set("partition-specs", 0, "spec-id", value=1.5),
        _set("location", value=""),
        _set("current-snapshot-id", value=[]),
    ],
)
def test_values_of_the_wrong_type_in_a_metadata_file_are_damage(
    tmp_path: Path, change: Callable[[Any], None]
) -> None:
    desk = open_desk(tmp_path)
    table = desk.add_table(snapshots=1, files=1, file_bytes=100)
    path = Path(table.shape.metadata_location)
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    with pytest.raises(MalformedFileError) as caught:
        desk.product(InProcess()).backup(Scope("prod"))
    assert isinstance(caught.value, DamagedSourceError)
    assert desk.pits() == []


@pytest.mark.parametrize("change", [{"view-uuid": 7}, {"location": None}, {"location": []}])
def test_a_view_that_is_none_fails_alone(tmp_path: Path, change: dict[str, Any]) -> None:
    desk = open_desk(tmp_path)
    desk.add_table(snapshots=1, files=1, file_bytes=100)
    place = tmp_path / "warehouse/shop/v"
    document = {"format-version": 1, "view-uuid": str(uuid.uuid4()), "location": str(place)}
    desk.add_view("v", place / "metadata/v1.metadata.json", document | change)
    report = desk.product(InProcess()).backup(Scope("prod"))
    assert [item.table.name for item in report.objects] == ["t"]
    assert [item.error_class for item in report.failed] == ["MalformedFileError"]
