"""Position deletes: the paths of all rows move, and nothing else does."""

import decimal
import io
from datetime import date
from pathlib import Path

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import orc

from bcn.errors import MalformedFileError, UnknownRootError, UnsupportedTableError
from bcn.iceberg.deletes import _append_user_metadata, _translated, relocate_position_deletes
from bcn.iceberg.relocate import Move, Moves

FIXTURES = Path(__file__).parents[1] / "fixtures/deletes"
MOVES = Moves([Move("/tmp/warehouse/db", "s3://other/d\u00e9p\u00f4t")])
PATH, POSITION, ROW = "2147483546", "2147483545", "2147483544"
SWAP = Moves([Move("/a", "/y"), Move("/b", "/x")])
OWN = {"delete-type": "position", "iceberg.schema": '{"type":"struct"}', "writer": "\u00e9"}


def field(name, kind, number, *, nullable=False):
    both = {"PARQUET:field_id": number, "iceberg.id": number, "iceberg.required": "x"}
    return pa.field(name, kind, nullable, both)


SCHEMA = pa.schema(
    [field("file_path", pa.string(), PATH), field("pos", pa.int64(), POSITION)], metadata=OWN
)
NESTED = pa.struct(
    [
        field("price", pa.decimal128(9, 2), "1", nullable=True),
        field("tags", pa.list_(field("element", pa.string(), "3")), "2", nullable=True),
        field("day", pa.date32(), "4"),
    ]
)
WITH_ROW = SCHEMA.append(field("row", NESTED, ROW, nullable=True))
ROWS = [
    {"price": decimal.Decimal("1.10"), "tags": ["x", "\u00e9"], "day": date(1, 1, 1)},
    None,
    {"price": None, "tags": None, "day": date(9999, 12, 31)},
    {"price": decimal.Decimal("-9999999.99"), "tags": [], "day": date(2026, 1, 1)},
]


AVRO_FIELDS = [
    {"name": "file_path", "type": "string", "field-id": int(PATH)},
    {"name": "pos", "type": "long", "field-id": int(POSITION)},
]
AVRO = {"type": "record", "name": "table", "fields": AVRO_FIELDS}


def write_avro(rows, *, codec="deflate", schema=AVRO, block_bytes=100):
    sink = io.BytesIO()
    names = [each["name"] for each in schema["fields"]]
    records = [dict(zip(names, row, strict=True)) for row in rows]
    fastavro.writer(sink, schema, records, codec, sync_interval=block_bytes, metadata=dict(OWN))
    return sink.getvalue()


def write(table, file_format, **options):
    if file_format == "avro":
        return write_avro(zip(*(column.to_pylist() for column in table.columns), strict=True))
    sink = pa.BufferOutputStream()
    (orc if file_format == "orc" else pq).write_table(table, sink, **options)
    return bytes(sink.getvalue())


def read(data, file_format):
    if file_format == "orc":
        return orc.ORCFile(pa.BufferReader(data)).read()
    return pq.ParquetFile(pa.BufferReader(data)).read()


def deletes(rows, schema=SCHEMA):
    columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in schema]
    return pa.table(columns, schema=schema)


def rows_of(data, file_format):
    if file_format == "avro":
        return [tuple(record.values()) for record in fastavro.reader(io.BytesIO(data))]
    table = read(data, file_format)
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


COLUMNAR = pytest.mark.parametrize("file_format", ["parquet", "orc"])
FORMATS = pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])


def real(file_format):
    return (FIXTURES / f"spark.{file_format}").read_bytes()


@COLUMNAR
def test_a_real_file_keeps_everything_but_its_paths(file_format):
    data = real(file_format)
    moved = relocate_position_deletes(data, file_format, MOVES)
    old, new = read(data, file_format), read(moved.data, file_format)
    assert new.schema.equals(old.schema, check_metadata=True)
    assert new["pos"] == old["pos"]
    paths = [MOVES.apply(path) for path in old["file_path"].to_pylist()]
    assert new["file_path"].to_pylist() == paths
    assert len(set(paths)) == 3
    assert (moved.lower, moved.upper) == (min(paths), max(paths))
    assert b"/tmp/warehouse" not in moved.data
    back = relocate_position_deletes(moved.data, file_format, MOVES.reversed())
    assert read(back.data, file_format).equals(old, check_metadata=True)


def test_a_real_parquet_file_keeps_ids_required_columns_codec_and_metadata():
    data = real("parquet")
    moved = relocate_position_deletes(data, "parquet", MOVES).data
    old, new = (pq.ParquetFile(pa.BufferReader(one)) for one in (data, moved))
    assert str(new.schema).splitlines()[2:] == str(old.schema).splitlines()[2:]
    assert "required binary field_id=2147483546 file_path (String);" in str(new.schema)
    assert new.metadata.metadata == old.metadata.metadata
    assert set(new.metadata.metadata) == {b"delete-type", b"iceberg.schema"}
    assert new.metadata.row_group(0).column(0).compression == "ZSTD"


def test_a_real_orc_file_keeps_attributes_codec_and_metadata():
    moved = relocate_position_deletes(real("orc"), "orc", MOVES).data
    new = orc.ORCFile(pa.BufferReader(moved))
    assert new.schema.field("pos").metadata[b"iceberg.id"] == POSITION.encode()
    assert dict(new.metadata) == {b"delete-type": b"position"}
    assert new.compression == "ZLIB"


def test_a_real_avro_file_keeps_its_header_and_everything_but_its_paths():
    data = real("avro")
    moved = relocate_position_deletes(data, "avro", MOVES)
    old, new = (fastavro.reader(io.BytesIO(one)) for one in (data, moved.data))
    assert new.metadata == old.metadata
    expected = [record | {"file_path": MOVES.apply(record["file_path"])} for record in old]
    assert list(new) == expected
    assert (moved.lower, moved.upper) == (expected[0]["file_path"], expected[-1]["file_path"])
    back = relocate_position_deletes(moved.data, "avro", MOVES.reversed())
    assert rows_of(back.data, "avro") == rows_of(data, "avro")


# rows


@pytest.mark.parametrize("codec", ["ZSTD", "SNAPPY", "GZIP", "NONE"])
def test_parquet_keeps_its_codec_and_metadata_but_not_pyarrows_own(codec):
    data = write(deletes([("/a/1", 5)]), "parquet", compression=codec)
    assert b"ARROW:schema" in pq.ParquetFile(pa.BufferReader(data)).metadata.metadata
    moved = relocate_position_deletes(data, "parquet", SWAP).data
    metadata = pq.ParquetFile(pa.BufferReader(moved)).metadata
    found = [metadata.row_group(0).column(index).compression for index in range(2)]
    assert found == [{"NONE": "UNCOMPRESSED"}.get(codec, codec)] * 2
    assert metadata.metadata == {key.encode(): value.encode() for key, value in OWN.items()}


@pytest.mark.parametrize("codec", ["ZLIB", "ZSTD", "SNAPPY", "LZ4", "UNCOMPRESSED"])
def test_orc_keeps_its_codec_and_metadata_however_long(codec):
    noted = {b"delete-type": b"position", b"long": bytes(range(256)) * 1000, b"empty": b""}
    data = _append_user_metadata(write(deletes([("/a/1", 5)]), "orc", compression=codec), noted)
    moved = orc.ORCFile(pa.BufferReader(relocate_position_deletes(data, "orc", SWAP).data))
    assert dict(moved.metadata) == noted
    assert moved.compression == codec
    assert moved.read()["file_path"].to_pylist() == ["/y/1"]


@COLUMNAR
def test_other_columns_stay_with_their_rows_ids_and_types(file_format):
    paths = ["/a/1", "/a/1", "/b/2", "/b/2"]
    options = {"store_decimal_as_integer": True} if file_format == "parquet" else {}
    table = deletes(list(zip(paths, [1, 2, 1, 7], ROWS, strict=True)), WITH_ROW)
    data = write(table, file_format, **options)
    moved = relocate_position_deletes(data, file_format, SWAP)
    expected = zip(["/x/2", "/x/2", "/y/1", "/y/1"], [1, 7, 1, 2], ROWS[2:] + ROWS[:2], strict=True)
    assert rows_of(moved.data, file_format) == list(expected)
    back = relocate_position_deletes(moved.data, file_format, SWAP.reversed())
    assert read(back.data, file_format).equals(read(data, file_format))
    if file_format == "parquet":
        trees = [str(pq.ParquetFile(pa.BufferReader(one)).schema) for one in (data, moved.data)]
        assert trees[0].splitlines()[1:] == trees[1].splitlines()[1:]
        assert "optional int32 field_id=1 price (Decimal(precision=9, scale=2))" in trees[1]
    else:
        schemas = [read(one, file_format).schema for one in (data, moved.data)]
        assert schemas[0].equals(schemas[1], check_metadata=True)


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "bzip2"])
@pytest.mark.parametrize("moves", [SWAP, Moves([Move("/a", "/y"), Move("/b", "/z")])])
def test_avro_keeps_other_columns_codec_and_header_sorted_or_not(codec, moves):
    row = {"type": "array", "items": ["null", "double", "string"]}
    schema = AVRO | {"fields": [*AVRO_FIELDS, {"name": "row", "type": row, "x": 1}]}
    rows = [(f"/{'ab'[n // 20]}/{n:02}", n, [None, n / 7, "x" * n][: n % 4]) for n in range(40)]
    data = write_avro(rows, codec=codec, schema=schema)
    moved = relocate_position_deletes(data, "avro", moves).data
    expected = [(moves.apply(row[0]), *row[1:]) for row in rows]
    assert rows_of(moved, "avro") == sorted(expected)
    old, new = (fastavro.block_reader(io.BytesIO(one)) for one in (data, moved))
    assert new.metadata == old.metadata
    blocks = [block.num_records for block in old]
    assert [block.num_records for block in new] == blocks
    assert len(blocks) > 5


def test_avro_rows_that_cannot_be_cut_out_are_refused_only_if_they_must_be_sorted():
    schema = AVRO | {"fields": AVRO_FIELDS[::-1]}
    data = write_avro([(5, "/a/1"), (0, "/b/1")], schema=schema)
    in_order = Moves([Move("/a", "/c"), Move("/b", "/d")])
    moved = relocate_position_deletes(data, "avro", in_order)
    assert rows_of(moved.data, "avro") == [(5, "/c/1"), (0, "/d/1")]
    with pytest.raises(UnsupportedTableError, match="sorted"):
        relocate_position_deletes(data, "avro", SWAP)


def test_avro_rows_without_path_or_position_are_malformed():
    path, position = AVRO_FIELDS
    no_path = {"name": "file_path", "type": ["null", "string"]}
    no_position = {"name": "pos", "type": ["null", "long"]}
    for fields, rows in (
        ([position], [(5,)]),
        ([no_path, position], [("/a/1", 1), (None, 5)]),
        ([path], [("/a/1",), ("/b/1",)]),
        ([path, no_position], [("/a/1", 5), ("/b/1", None)]),
    ):
        data = write_avro(rows, schema=AVRO | {"fields": fields})
        with pytest.raises(MalformedFileError, match=r"name no data|no position"):
            relocate_position_deletes(data, "avro", SWAP)


def test_columns_that_would_change_are_refused():
    schema = SCHEMA.append(field("at", pa.timestamp("ns"), "9"))
    table = deletes([("/a/1", 5, 1)], schema)
    data = write(table, "parquet", use_deprecated_int96_timestamps=True)
    with pytest.raises(UnsupportedTableError, match="int96"):
        relocate_position_deletes(data, "parquet", SWAP)


@FORMATS
def test_roots_that_change_places_leave_the_rows_sorted(file_format):
    data = write(deletes([("/a/1", 5), ("/a/2", 1), ("/b/1", 0), ("/b/1", 9)]), file_format)
    moved = relocate_position_deletes(data, file_format, SWAP)
    expected = [("/x/1", 0), ("/x/1", 9), ("/y/1", 5), ("/y/2", 1)]
    assert rows_of(moved.data, file_format) == expected
    assert (moved.lower, moved.upper) == ("/x/1", "/y/2")


@FORMATS
def test_roots_that_meet_leave_the_rows_sorted(file_format):
    data = write(deletes([("/a/1", 5), ("/b/1", 0), ("/b/1", 9)]), file_format)
    meet = Moves([Move("/a", "/c"), Move("/b", "/c")])
    moved = relocate_position_deletes(data, file_format, meet)
    assert rows_of(moved.data, file_format) == [("/c/1", 0), ("/c/1", 5), ("/c/1", 9)]


@FORMATS
def test_rows_that_keep_their_order_are_not_sorted(file_format):
    rows = [("/a/2", 7), ("/a/1", 3), ("/a/1", 1)]
    moved = relocate_position_deletes(write(deletes(rows), file_format), file_format, SWAP)
    assert rows_of(moved.data, file_format) == [("/y/2", 7), ("/y/1", 3), ("/y/1", 1)]
    assert (moved.lower, moved.upper) == ("/y/1", "/y/2")


TAIL = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
PATHS = st.tuples(st.sampled_from(["/a", "/b", "/b/c"]), TAIL).map("/".join)


@settings(max_examples=60)
@given(
    st.sampled_from(["parquet", "orc", "avro"]),
    st.sets(st.tuples(PATHS, st.integers(0, 2**62)), max_size=12),
    st.permutations(["/x", "s3://\u00e9/\U0001f600", "/\uffff"]),
)
def test_there_and_back_is_the_same_rows_always_sorted(file_format, rows, targets):
    there = Moves(Move(*pair) for pair in zip(["/a", "/b", "/b/c"], targets, strict=True))
    by_bytes = sorted(rows, key=lambda row: (row[0].encode(), row[1]))
    moved = relocate_position_deletes(write(deletes(by_bytes), file_format), file_format, there)
    found = rows_of(moved.data, file_format)
    expected = [(there.apply(path), position) for path, position in rows]
    assert found == sorted(expected, key=lambda row: (row[0].encode(), row[1]))
    ends = (found[0][0], found[-1][0]) if rows else (None, None)
    assert (moved.lower, moved.upper) == ends
    back = relocate_position_deletes(moved.data, file_format, there.reversed())
    assert rows_of(back.data, file_format) == by_bytes


@COLUMNAR
def test_more_rows_than_are_written_at_once_all_arrive(file_format):
    count = (1 << 20) + 5000
    paths = pa.DictionaryArray.from_arrays(
        np.repeat(np.arange(2, dtype=np.int32), count // 2), ["/a/1" * 20, "/b/1"]
    ).cast(pa.string())
    table = pa.table([paths, pa.array(np.tile(np.arange(count // 2), 2))], schema=SCHEMA)
    moved = relocate_position_deletes(write(table, file_format), file_format, SWAP)
    found = read(moved.data, file_format)
    assert found["pos"].equals(table["pos"])
    halves = found["file_path"].slice(count // 2 - 1, 2).to_pylist()
    assert (len(found), halves) == (count, ["/x/1", "/y/1" + "/a/1" * 19])
    assert len(moved.data) < 20_000_000


@FORMATS
def test_bytes_stay_when_no_path_moves_or_there_is_none_but_the_bounds_are_told(file_format):
    data = write(deletes([("/a/1", 5), ("/b/1", 0)]), file_format)
    for moves in (
        Moves([Move("/a", "/a"), Move("/b", "/b")]),
        Moves([Move("", ""), Move("/c", "/d")]),
    ):
        same = relocate_position_deletes(data, file_format, moves)
        assert same.data is data
        assert (same.lower, same.upper) == ("/a/1", "/b/1")
    empty = write(deletes([]), file_format)
    same = relocate_position_deletes(empty, file_format, SWAP)
    assert (same.data, same.lower, same.upper) == (empty, None, None)


def test_a_path_that_no_row_uses_is_neither_moved_nor_kept():
    column = pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), ["/a/1", "/gone/2"])
    schema = SCHEMA.set(0, SCHEMA.field(0).with_type(column.type))
    data = write(pa.table([column, [5]], schema=schema), "parquet")
    assert b"/gone/2" in data
    moved = relocate_position_deletes(data, "parquet", SWAP)
    assert (moved.lower, moved.upper) == ("/y/1", "/y/1")
    assert b"/gone/2" not in moved.data


# what is refused


@FORMATS
def test_an_unknown_root_is_an_error(file_format):
    data = write(deletes([("/a/1", 5), ("/elsewhere", 0)]), file_format)
    with pytest.raises(UnknownRootError, match="/elsewhere"):
        relocate_position_deletes(data, file_format, SWAP)


@COLUMNAR
def test_columns_are_found_by_id_whatever_their_name_and_by_name_without_ids(file_format):
    renamed = SCHEMA.set(0, SCHEMA.field(0).with_name("p")).set(1, SCHEMA.field(1).with_name("q"))
    plain = pa.schema([("file_path", pa.string()), ("pos", pa.int64())])
    for schema in (renamed, plain):
        data = write(deletes([("/a/1", 5), ("/b/1", 0)], schema), file_format)
        moved = relocate_position_deletes(data, file_format, SWAP)
        assert rows_of(moved.data, file_format) == [("/x/1", 0), ("/y/1", 5)]


@COLUMNAR
def test_a_file_of_other_columns_is_malformed(file_format):
    other = pa.schema([field("file_path", pa.string(), "7"), field("pos", pa.int64(), "8")])
    data = write(deletes([("/a/1", 5)], other), file_format)
    with pytest.raises(MalformedFileError, match="without the column file_path"):
        relocate_position_deletes(data, file_format, SWAP)


@COLUMNAR
def test_a_row_without_a_path_or_position_or_of_other_types_is_malformed(file_format):
    paths, positions = ["/a/1", "/b/1"], [1, 2]
    bad_paths = [[["/a/1", None], positions], [positions, positions]]
    for columns in (*bad_paths, [paths, [1, None]], [paths, paths]):
        data = write(pa.table(columns, names=["file_path", "pos"]), file_format)
        with pytest.raises(MalformedFileError, match="position deletes with rows"):
            relocate_position_deletes(data, file_format, SWAP)


@FORMATS
def test_bytes_that_are_cut_short_or_of_another_format_are_malformed(file_format):
    data = real(file_format)
    damaged = [data[:length] for length in range(0, len(data), 50)]
    damaged += [b"junk" * 50, real("puffin"), data[:100] + data[200:], bytes(60) + data[60:300]]
    for one in damaged:
        with pytest.raises(MalformedFileError):
            relocate_position_deletes(one, file_format, MOVES)


def test_the_format_may_be_in_capitals_and_an_unknown_one_is_refused():
    assert relocate_position_deletes(real("orc"), "ORC", MOVES).lower is not None
    with pytest.raises(UnsupportedTableError, match="vortex"):
        relocate_position_deletes(b"", "vortex", MOVES)


def test_a_type_that_pyarrow_lacks_or_a_lack_of_memory_does_not_say_that_a_file_is_damaged():
    with pytest.raises(UnsupportedTableError), _translated("orc"):
        raise pa.ArrowNotImplementedError("union")
    with pytest.raises(MemoryError), _translated("orc"):
        raise pa.ArrowMemoryError("malloc")


def test_an_orc_postscript_in_another_order_is_not_guessed_at():
    data = write(deletes([("/a/1", 5)]), "orc", compression="ZLIB")
    start = len(data) - 1 - data[-1]
    length, codec = data[start : start + 3], data[start + 3 : start + 5]
    assert codec == b"\x10\x01"
    swapped = data[:start] + codec + length + data[start + 5 :]
    with pytest.raises(MalformedFileError, match="postscript"):
        _append_user_metadata(swapped, {b"delete-type": b"position"})
