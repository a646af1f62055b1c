"""Manifests and lists: what is decoded is what they say; moved lists."""

import pytest

from bcn.errors import (
    BcnError,
    MalformedFileError,
    UnknownLengthError,
    UnknownRootError,
    UnsupportedTableError,
)
from bcn.iceberg.manifest import (
    decode_manifest,
    decode_manifest_list,
    decode_references,
    relocate_manifest,
    relocate_manifest_list,
)
from bcn.iceberg.relocate import Move, Moves
from tests.support.avro_files import CODECS, read_avro, read_header, write_avro
from tests.support.manifest_files import (
    ROOT,
    data_entries,
    entry,
    entry_schema,
    list_row,
    list_schema,
    manifest,
    manifest_list,
)

MOVES = Moves([Move(ROOT, "s3://other-bucket/a/longer/place")])


def columns_of(entries, version):
    """What decoding should give, from the entries themselves."""
    files = [each["data_file"] for each in entries]
    top = [each if version > 1 else each | {"sequence_number": None} for each in entries]
    return {
        "status": [each["status"] for each in entries],
        "snapshot_id": [each["snapshot_id"] or 0 for each in entries],
        "snapshot_id_null": [each["snapshot_id"] is None for each in entries],
        "sequence_number": [each["sequence_number"] or 0 for each in top],
        "sequence_number_null": [each["sequence_number"] is None for each in top],
        "file_content": [each["content"] for each in files],
        "file_format": [each["file_format"].lower() for each in files],
        "file_path": [each["file_path"] for each in files],
        "record_count": [each["record_count"] for each in files],
        "file_size_bytes": [each["file_size_in_bytes"] for each in files],
    }


# Decoding


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("null_last", [False, True])
@pytest.mark.parametrize("sync_interval", [1, 16000])
def test_columns_are_what_the_entries_say(version, null_last, sync_interval):
    entries = data_entries(version)
    data = manifest(entries, version, null_last=null_last, sync_interval=sync_interval)
    decoded = decode_manifest(data)
    for name, expected in columns_of(entries, version).items():
        assert list(getattr(decoded, name).tolist()) == expected, name
    assert decoded.content == 0
    assert decoded.header["a key of no spec"] == "kept \u00e9".encode()
    assert decoded.header == read_header(data)


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_gives_the_same_columns(codec):
    entries = data_entries(2) * 50
    decoded = decode_manifest(manifest(entries, codec=codec))
    assert decoded.file_path.to_pylist() == [each["data_file"]["file_path"] for each in entries]


def test_a_file_without_field_ids_is_read_by_names():
    def strip(schema):
        if isinstance(schema, dict):
            return {key: strip(value) for key, value in schema.items() if key != "field-id"}
        return [strip(part) for part in schema] if isinstance(schema, list) else schema

    entries = data_entries(1)
    decoded = decode_manifest(write_avro(strip(entry_schema(1)), entries))
    for name, expected in columns_of(entries, 1).items():
        assert list(getattr(decoded, name).tolist()) == expected, name


def test_a_manifest_of_no_entries_has_empty_columns():
    decoded = decode_manifest(manifest([], content="deletes"))
    assert decoded.content == 1
    assert len(decoded.file_path) == len(decoded.status) == 0


def test_references_are_null_where_entries_have_none():
    blob = {"content_offset": 4, "content_size_in_bytes": 40}
    entries = [
        entry(f"{ROOT}/a.parquet", first_row_id=0),
        entry(f"{ROOT}/dv.puffin", content=1, referenced_data_file=f"{ROOT}/a.parquet", **blob),
    ]
    found = decode_references(manifest(entries, 3))
    assert found.referenced_data_file.to_pylist() == [None, f"{ROOT}/a.parquet"]
    assert found.first_row_id_null.tolist() == [False, True]
    assert found.content_offset.tolist() == [0, 4]
    assert found.content_offset_null.tolist() == [True, False]
    assert found.content_size_bytes.tolist() == [0, 40]


def test_key_metadata_is_refused_wherever_it_is_met():
    data = manifest([entry(f"{ROOT}/a"), entry(f"{ROOT}/b", key_metadata=b"")])
    listed = manifest_list([list_row(f"{ROOT}/m.avro", key_metadata=b"k")])
    for action in (
        lambda: decode_manifest(data),
        lambda: relocate_manifest(data, MOVES, {}),
        lambda: decode_manifest_list(listed),
        lambda: relocate_manifest_list(listed, MOVES, {f"{ROOT}/m.avro": 1}),
    ):
        with pytest.raises(UnsupportedTableError, match="encrypted"):
            action()


def test_a_path_that_is_not_utf_8_is_malformed():
    data = manifest([entry(f"{ROOT}/XX")], codec="null").replace(b"/t/XX", b"/t/\xff\xfe")
    with pytest.raises(MalformedFileError, match="UTF-8"):
        decode_manifest(data)


def test_a_header_with_an_unknown_content_is_malformed():
    with pytest.raises(MalformedFileError, match="content"):
        decode_manifest(manifest([], content="neither"))


def test_an_entry_without_a_path_is_malformed():
    schema = entry_schema(2)
    schema["fields"][-1]["type"]["fields"][1]["field-id"] = 9999
    with pytest.raises(MalformedFileError, match=r"no field 100 \(file_path\)"):
        decode_manifest(write_avro(schema, [entry(f"{ROOT}/a")]))


# Manifest lists


@pytest.mark.parametrize("version", [1, 2, 3])
def test_rows_of_a_list_are_what_it_says(version):
    rows = [list_row(f"{ROOT}/m1.avro", version), list_row(f"{ROOT}/m2.avro", version, content=1)]
    data = manifest_list(rows, version)
    decoded = decode_manifest_list(data)
    assert decoded.manifest_path == [f"{ROOT}/m1.avro", f"{ROOT}/m2.avro"]
    assert decoded.manifest_length == [7000, 7000]
    assert decoded.content == ([0, 0] if version == 1 else [0, 1])
    assert decoded.sequence_number == ([0, 0] if version == 1 else [9, 9])
    assert decoded.partition_spec_id == [1, 1]
    assert decoded.added_snapshot_id == [77, 77]
    assert decoded.live_files_count == [9, 9]
    assert decoded.header == read_header(data)


def test_counts_of_a_list_that_does_not_say_are_unknown():
    unsaid = {"added_data_files_count": None, "added_snapshot_id": None}
    decoded = decode_manifest_list(manifest_list([list_row(f"{ROOT}/m", 1, **unsaid)], 1))
    assert decoded.live_files_count == [None]
    assert decoded.added_snapshot_id == [None]


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("codec", CODECS)
def test_only_locations_and_lengths_of_a_list_change(version, codec):
    rows = [list_row(f"{ROOT}/m{n}.avro", version) for n in range(40)]
    lengths = {f"{ROOT}/m{n}.avro": 7000 + n * 5000 for n in range(40)}
    data = manifest_list(rows, version, codec)
    out = relocate_manifest_list(data, MOVES, lengths)
    expected = [
        row | {"manifest_path": MOVES.apply(path), "manifest_length": lengths[path]}
        for row in read_avro(data)
        for path in [row["manifest_path"]]
    ]
    assert read_avro(out) == expected
    assert read_header(out) == read_header(data)


def test_a_list_that_stays_as_it_is_keeps_its_bytes():
    data = manifest_list([list_row(f"{ROOT}/m.avro")])
    here = Moves([Move(ROOT, ROOT)])
    assert relocate_manifest_list(data, here, {f"{ROOT}/m.avro": 7000}) is data
    other = relocate_manifest_list(data, here, {f"{ROOT}/m.avro": 7001})
    assert decode_manifest_list(other).manifest_length == [7001]


def test_a_list_with_a_manifest_of_no_length_or_root_is_refused():
    data = manifest_list([list_row(f"{ROOT}/m.avro")])
    with pytest.raises(UnknownLengthError, match=r"s3://b/t/m\.avro"):
        relocate_manifest_list(data, MOVES, {})
    assert issubclass(UnknownLengthError, BcnError)
    elsewhere = Moves([Move("s3://b/other", "s3://c/t")])
    with pytest.raises(UnknownRootError):
        relocate_manifest_list(data, elsewhere, {f"{ROOT}/m.avro": 1})


def test_an_empty_list_has_no_rows():
    data = write_avro(list_schema(2), [])
    assert decode_manifest_list(data).manifest_path == []
    assert read_avro(relocate_manifest_list(data, MOVES, {})) == []
