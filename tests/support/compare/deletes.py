"""Position delete files of the three formats, read as rows and as what their schema says."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq

from tests.support.compare.avro import read_avro

PATH_ID, POS_ID = 2147483546, 2147483545
_ARROW_KEYS = (b"ARROW:schema", b"org.apache.arrow.schema")


@dataclass(frozen=True)
class DeleteFile:
    """Rows (path, position, the rest as text) in file order, the schema, the file's own keys."""

    rows: list[tuple[str, int, str]]
    schema: str
    keys: dict[str, str]

    @property
    def is_sorted(self) -> bool:
        keys = [row[:2] for row in self.rows]
        return keys == sorted(keys, key=lambda key: (key[0].encode(), key[1]))


def read_deletes(path: Path, file_format: str) -> DeleteFile:
    """Reads a position delete file of format `parquet`, `orc` or `avro`."""
    return _READERS[file_format.lower()](path)


def _read_parquet(path: Path) -> DeleteFile:
    with pq.ParquetFile(path) as file:
        return _from_arrow(file.read(), dict(file.metadata.metadata or {}), file.schema_arrow)


def _read_orc(path: Path) -> DeleteFile:
    file = orc.ORCFile(path)
    return _from_arrow(file.read(), dict(file.metadata or {}), file.schema)


def _from_arrow(table: pa.Table, keys: dict[bytes, bytes], schema: pa.Schema) -> DeleteFile:
    names = table.column_names
    rest = [name for name in names if name not in ("file_path", "pos")]
    paths, positions = table["file_path"].to_pylist(), table["pos"].to_pylist()
    others = table.select(rest).to_pylist() if rest else [{}] * len(paths)
    rows = [
        (path, position, repr(other))
        for path, position, other in zip(paths, positions, others, strict=True)
    ]
    text = {k.decode(): v.decode() for k, v in keys.items() if k not in _ARROW_KEYS}
    return DeleteFile(rows, _schema_text(schema), text)


def _schema_text(fields: Any) -> str:
    """Names, types, nullability and ids, at every depth."""
    return json.dumps([_field(field) for field in fields])


def _field(field: pa.Field) -> list[Any]:
    metadata = {k.decode(): v.decode() for k, v in (field.metadata or {}).items()}
    inner = [field.type.field(i) for i in range(field.type.num_fields)]
    kind = [_field(child) for child in inner] if inner else str(field.type)
    return [field.name, kind, field.nullable, sorted(metadata.items())]


def _read_avro(path: Path) -> DeleteFile:
    file = read_avro(path)
    rows = [
        (record["file_path"], record["pos"], repr({k: v for k, v in record.items() if k == "row"}))
        for record in file.records
    ]
    keys = {key: value.decode() for key, value in file.header.items() if key != "avro.schema"}
    return DeleteFile(rows, file.header["avro.schema"].decode(), keys)


_READERS = {"parquet": _read_parquet, "orc": _read_orc, "avro": _read_avro}
