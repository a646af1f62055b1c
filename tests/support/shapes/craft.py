"""Files and commits that no engine writes for us: by hand, or through the JVM's table API."""

from __future__ import annotations

import gzip
import io
import json
import os
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import cramjam
import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard
from pyroaring import BitMap

from tests.support.compare.avro import AvroFile, plain_schema
from tests.support.shapes.model import World

_HEADER = fastavro.parse_schema({"type": "map", "values": "bytes"})
_VECTOR_MAGIC = bytes.fromhex("d1d33964")
_PUFFIN_MAGIC = b"PFA1"

PATH_FIELD = pa.field(
    "file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": "2147483546"}
)
POS_FIELD = pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "2147483545"})


def column(name: str, kind: pa.DataType, field_id: int | None) -> pa.Field:
    """A Parquet column, with an Iceberg field id or without."""
    metadata = None if field_id is None else {"PARQUET:field_id": str(field_id)}
    return pa.field(name, kind, metadata=metadata)


def write_parquet(
    path: Path,
    fields: Sequence[pa.Field],
    values: Sequence[Iterable[Any]],
    keys: Mapping[str, str] | None = None,
) -> Path:
    """A small Parquet file of these columns; `keys` go to the footer."""
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = [pa.array(list(v), type=f.type) for f, v in zip(fields, values, strict=True)]
    table = pa.Table.from_arrays(arrays, schema=pa.schema(list(fields)))
    with pq.ParquetWriter(path, table.schema, store_schema=False, compression="zstd") as writer:
        writer.write_table(table)
        writer.add_key_value_metadata(dict(keys or {}))
    return path


def write_position_deletes(
    path: Path, rows: Iterable[tuple[str, int]], row: tuple[pa.Field, list[Any]] | None = None
) -> Path:
    """A position delete file in Parquet; `row` is the optional column of whole deleted rows."""
    pairs = list(rows)
    fields, values = [PATH_FIELD, POS_FIELD], [[p for p, _ in pairs], [n for _, n in pairs]]
    if row is not None:
        fields, values = [*fields, row[0]], [*values, row[1]]
    return write_parquet(path, fields, values, {"delete-type": "position"})


def vector_blob(positions: Iterable[int]) -> bytes:
    """A `deletion-vector-v1` blob of row positions below 2**32."""
    bitmap = BitMap(sorted(positions)).serialize()
    vector = (1).to_bytes(8, "little") + (0).to_bytes(4, "little") + bitmap
    body = _VECTOR_MAGIC + vector
    return len(body).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")


def puffin_bytes(blobs: Sequence[tuple[dict[str, Any], bytes]], *, lz4: bool = False) -> bytes:
    """A Puffin file; each blob comes with what its footer entry says beside offset and length."""
    data, entries = _PUFFIN_MAGIC, []
    for entry, blob in blobs:
        entries.append({**entry, "offset": len(data), "length": len(blob)})
        data += blob
    payload = json.dumps({"blobs": entries, "properties": {"created-by": "by hand"}}).encode()
    if lz4:
        payload = bytes(cramjam.lz4.compress(payload))
    tail = len(payload).to_bytes(4, "little") + bytes([int(lz4), 0, 0, 0]) + _PUFFIN_MAGIC
    return data + _PUFFIN_MAGIC + payload + tail


def vector_entry(data_path: str, cardinality: int) -> dict[str, Any]:
    """The footer entry of a deletion vector."""
    return {
        "type": "deletion-vector-v1",
        "fields": [2147483645],
        "snapshot-id": -1,
        "sequence-number": -1,
        "properties": {"referenced-data-file": data_path, "cardinality": str(cardinality)},
    }


def write_avro(path: Path, file: AvroFile, codec: str | None = None) -> int:
    """Writes a container file with the header keys and records of `file`. Its size."""
    header = dict(file.header)
    if codec is not None:
        header["avro.codec"] = codec.encode()
    schema = fastavro.parse_schema(plain_schema(json.loads(header["avro.schema"])))
    block = (len(file.records), encode(schema, file.records))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(container_bytes(header, *([block] if file.records else [])))
    forget_checksum(path)
    return path.stat().st_size


def encode(schema: Any, records: Iterable[Any]) -> bytes:
    """Records one after the other, by a parsed schema without logical types."""
    body = io.BytesIO()
    for record in records:
        fastavro.schemaless_writer(body, schema, record)
    return body.getvalue()


def forget_checksum(path: Path) -> None:
    """Hadoop keeps a checksum beside a local file, and refuses the file when its bytes changed."""
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def container_bytes(header: Mapping[str, bytes], *blocks: tuple[int, bytes]) -> bytes:
    """A container file; each block comes as its number of records and their bytes."""
    sync = bytes(range(16))
    out = io.BytesIO()
    out.write(b"Obj\x01")
    fastavro.schemaless_writer(out, _HEADER, dict(header))
    out.write(sync)
    for count, body in blocks:
        packed = compress(header.get("avro.codec", b"null").decode(), body)
        out.write(zigzag(count) + zigzag(len(packed)) + packed + sync)
    return out.getvalue()


def zigzag(number: int) -> bytes:
    """Avro's long."""
    rest, out = (number << 1) ^ (number >> 63), bytearray()
    while rest > 0x7F:
        out.append((rest & 0x7F) | 0x80)
        rest >>= 7
    return bytes([*out, rest])


def compress(codec: str, data: bytes) -> bytes:
    """One block's bytes as the codec stores them."""
    if codec == "deflate":
        packer = zlib.compressobj(level=6, wbits=-15)
        return packer.compress(data) + packer.flush()
    if codec == "snappy":
        return bytes(cramjam.snappy.compress_raw(data)) + zlib.crc32(data).to_bytes(4, "big")
    if codec == "zstandard":
        return zstandard.ZstdCompressor().compress(data)
    return data


def edit_document(world: World, table: str, change: Any, suffix: str = ".metadata.json") -> str:
    """Writes a changed copy of the current metadata file, and makes it current. Its location."""
    tree = world.tree(table)
    document = change(tree.document) or tree.document
    old = tree.file(tree.location)
    number = int(old.name.split("-")[0]) + 1
    path = old.with_name(f"{number:05d}-{document.get('last-updated-ms', 0):032x}{suffix}")
    data = json.dumps(document).encode()
    path.write_bytes(gzip.compress(data, mtime=0) if ".gz" in suffix else data)
    location = tree.location[: -len(old.name)] + path.name
    world.point_at(table, location)
    return location


def java_spec(table: Any, spec_id: int | None = None) -> Any:
    """A table's partition spec, the current one unless told."""
    return table.spec() if spec_id is None else table.specs().get(spec_id)


def java_data_file(world: World, spec: Any, location: str, path: Path, **more: Any) -> Any:
    """A `DataFile` for a Parquet file; `partition` is like `p=1`, `values` a JVM struct."""
    builder = world.spark._jvm.org.apache.iceberg.DataFiles.builder(spec)
    builder = builder.withPath(location).withFormat(more.get("file_format", "parquet"))
    builder = builder.withFileSizeInBytes(path.stat().st_size)
    builder = builder.withRecordCount(more.get("rows") or pq.read_metadata(path).num_rows)
    if "partition" in more:
        builder = builder.withPartitionPath(more["partition"])
    if "values" in more:
        builder = builder.withPartition(more["values"])
    return builder.build()


def java_append(table: Any, *files: Any) -> None:
    """Commits data files as one append, into a manifest of their own."""
    append = table.newFastAppend()
    for file in files:
        append = append.appendFile(file)
    append.commit()


def java_deletes(world: World, spec: Any, path: Path, **more: Any) -> Any:
    """A `DeleteFile`: of positions, or of the `equality` field ids; see the keys used below."""
    builder = world.spark._jvm.org.apache.iceberg.FileMetadata.deleteFileBuilder(spec)
    equality = more.get("equality")
    if equality:
        ids = world.spark._sc._gateway.new_array(world.spark._jvm.int, len(equality))
        for index, field_id in enumerate(equality):
            ids[index] = field_id
        builder = builder.ofEqualityDeletes(ids)
    else:
        builder = builder.ofPositionDeletes()
    builder = builder.withPath(more.get("location", str(path)))
    builder = builder.withFormat(more.get("file_format", "parquet"))
    builder = builder.withFileSizeInBytes(os.stat(path).st_size).withRecordCount(more["rows"])
    if "path_bounds" in more:
        builder = builder.withMetrics(_path_metrics(world, more["rows"], more["path_bounds"]))
    for key, method in _DELETE_OPTIONS.items():
        if key in more:
            builder = getattr(builder, method)(more[key])
    return builder.build()


_DELETE_OPTIONS = {
    "partition": "withPartitionPath",
    "reference": "withReferencedDataFile",
    "offset": "withContentOffset",
    "length": "withContentSizeInBytes",
}


def _path_metrics(world: World, rows: int, bounds: tuple[str, str]) -> Any:
    jvm = world.spark._jvm
    low, high = ({2147483546: jvm.java.nio.ByteBuffer.wrap(bound.encode())} for bound in bounds)
    return jvm.org.apache.iceberg.Metrics(rows, None, None, None, None, low, high)


def java_add_deletes(table: Any, *files: Any) -> None:
    """Commits delete files as one row delta."""
    delta = table.newRowDelta()
    for file in files:
        delta = delta.addDeletes(file)
    delta.commit()


def expire_all_but_current(table: Any) -> None:
    """Expires every snapshot that no ref names, and deletes the files that only they needed."""
    now = 2**62
    table.expireSnapshots().expireOlderThan(now).retainLast(1).commit()
