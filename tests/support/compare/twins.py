"""A source and its perfect restore, and how to change one field of the restore."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.compare.avro import AvroFile, read_avro
from tests.support.compare.documents import Policy
from tests.support.compare.paths import local_path
from tests.support.compare.tables import compare_tables
from tests.support.shapes.craft import write_avro
from tests.support.shapes.twin import write_twin

Record = dict[str, Any]


@dataclass(frozen=True)
class Twins:
    """A source and its perfect restore."""

    old: str
    new: str
    source: str
    restored: str

    def differences(self, **policy: Any) -> list[str]:
        moves = [(self.old, self.new)]
        found = compare_tables(self.source, self.restored, moves, policy=Policy(**policy))
        return [str(difference) for difference in found]

    def path(self, relative: str) -> Path:
        return local_path(self.new) / relative


def make_twins(folder: Path, version: int, new: str | None = None) -> Twins:
    old = str(folder / "source" / "t")
    root = new or str(folder / "target" / "t")
    return Twins(old, root, write_twin(old, version), write_twin(root, version))


def edit_document(twins: Twins, change: Callable[[Record], None]) -> None:
    path = local_path(twins.restored)
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def edit_avro(path: Path, change: Callable[[AvroFile], None]) -> int:
    file = read_avro(path)
    change(file)
    return write_avro(path, file)


def edit_manifest(twins: Twins, change: Callable[[AvroFile], None], name: str = "m1") -> None:
    """Changes a manifest; lists get its new length, so that only the change itself is wrong."""
    size = edit_avro(twins.path(f"metadata/{name}.avro"), change)

    def set_length(file: AvroFile) -> None:
        for record in file.records:
            if record["manifest_path"].endswith(f"/{name}.avro"):
                record["manifest_length"] = size

    for number in (0, 1):
        edit_avro(twins.path(f"metadata/snap-{number}.avro"), set_length)


def edit_entry(twins: Twins, name: str, change: Callable[[Record], None]) -> None:
    """Changes the live entry of the delete file called `name`."""

    def edit(file: AvroFile) -> None:
        for record in file.records:
            if record["data_file"]["file_path"].endswith(f"/{name}") and record["status"] != 2:
                change(record["data_file"])
                return

    edit_manifest(twins, edit)
