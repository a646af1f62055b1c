"""Metadata documents: nothing is lost, and nothing but paths changes."""

import copy
import gzip
import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bcn.errors import MalformedFileError, UnknownRootError, UnsupportedTableError
from bcn.iceberg.metadata import (
    NumberText,
    SnapshotFacts,
    StatisticsFile,
    check_supported,
    declared_roots,
    parse_json,
    parse_metadata,
    paths_in_other_properties,
    read_facts,
    relocate_metadata,
    render_json,
    render_metadata,
)
from bcn.iceberg.relocate import Move, Moves

HUGE = 9223372036854775807
EMBEDDED = ["s3://b/t/metadata/m0.avro", "s3://m/t/m1.avro"]
DOCUMENT = {
    "unknown-first": {"deep": [None, True, {}]},
    "format-version": 2,
    "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
    "location": "s3://b/t/",
    "last-sequence-number": 34,
    "last-updated-ms": 1602638573590,
    "schemas": [{"schema-id": 0, "fields": []}, {"schema-id": 3, "fields": []}],
    "current-schema-id": 3,
    "partition-specs": [{"spec-id": 0, "fields": []}, {"spec-id": 2, "fields": []}],
    "properties": {
        "owner": "s3://b/t/not-a-path-property",
        "write.data.path": "s3://b/t/inside/",
        "write.metadata.path": "s3://m/t",
        "write.object-storage.path": "s3://o/t//",
        "write.folder-storage.path": "s3://m/t/below",
    },
    "current-snapshot-id": HUGE,
    "snapshots": [
        {
            "snapshot-id": 5,
            "timestamp-ms": 1515100955770,
            "summary": {"operation": "append", "note": "s3://b/t/summary"},
            "manifests": EMBEDDED,
        },
        {
            "snapshot-id": HUGE,
            "parent-snapshot-id": 5,
            "sequence-number": 34,
            "timestamp-ms": 1555100955770,
            "manifest-list": "s3://b/t/metadata/s2.avro",
        },
    ],
    "snapshot-log": [{"snapshot-id": 5, "timestamp-ms": 1515100955770}],
    "metadata-log": [{"metadata-file": "s3://b/t/metadata/1.json", "timestamp-ms": 1515100}],
    "refs": {"main": {"snapshot-id": HUGE, "type": "branch"}, "old": {"snapshot-id": 5}},
    "statistics": [
        {"snapshot-id": 5, "statistics-path": "s3://b/t/5.stats", "file-size-in-bytes": 413}
    ],
    "partition-statistics": [{"snapshot-id": HUGE, "statistics-path": "s3://m/t/p.parquet"}],
    "unknown-last": None,
}
OLDEST = {
    "format-version": 1,
    "location": "/wh/t",
    "schema": {"type": "struct", "fields": []},
    "partition-spec": [{"name": "p", "source-id": 1}],
}
MOVES = Moves([Move("s3://b/t", "/new/t"), Move("s3://m/t", "/new/m"), Move("s3://o/t", "gs://o")])


def changed(**fields):
    """The document with other values; None takes a key away."""
    renamed = {key.replace("_", "-"): value for key, value in fields.items()}
    kept = {key: value for key, value in (DOCUMENT | renamed).items() if value is not None}
    return copy.deepcopy(kept)


# JSON without loss

NUMBERS = ["1.10", "1e400", "-0.0", "0.1000", "1E+2", "1.7976931348623157e308", "5e-324", "-0"]
TEXT = st.text(st.characters(codec=None)) | st.sampled_from(
    ["\ud800", "\udfff\ud800", "number-0:1", '"number-0:1.5"', "number-1:", "\\", "\u2028", "\0"]
)
PLAIN = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | TEXT
VALUE = st.recursive(
    PLAIN | st.sampled_from(NUMBERS).map(NumberText),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


@given(TEXT)
def test_any_text_survives_also_half_of_a_surrogate_pair(text):
    rendered = render_json([text])
    rendered.decode("utf-8")
    # Two halves that meet are one character in JSON.
    assert utf_16(parse_json(rendered)[0]) == utf_16(text)


def utf_16(text):
    return text.encode("utf-16", "surrogatepass")


@given(VALUE, st.sampled_from(["v1.metadata.json", "1.gz.metadata.json", "1.metadata.json.gz"]))
def test_render_and_parse_are_inverse_for_what_parse_gives(value, name):
    document = parse_metadata(render_metadata({"format-version": 2, "x": value}, name=name))
    data = render_metadata(document, name=name)
    again = parse_metadata(data)
    assert again == document
    assert render_metadata(again, name=name) == data


@pytest.mark.parametrize("number", NUMBERS)
def test_a_number_keeps_its_spelling(number):
    data = f'{{"format-version":3,"initial-default":{number},"list":[{number}]}}'.encode()
    assert render_metadata(parse_metadata(data), name="v1.metadata.json") == data


def test_text_that_looks_like_a_held_number_stays_text():
    data = b'{"format-version":3,"a":"number-0:1.5","b":2.50,"c":"\\"number-1:2","d":"number-2:"}'
    assert render_metadata(parse_metadata(data), name="v1.metadata.json") == data


def test_null_absent_order_int64_and_letters_survive_but_no_byte_order_mark():
    data = f'{{"z":null,"format-version":2,"a":{HUGE},"b":-{HUGE + 1},"é":"日本 😀"}}'.encode()
    parsed = parse_metadata(b"\xef\xbb\xbf" + data)
    assert render_metadata(parsed, name="v1.metadata.json") == data


def test_a_parsed_document_can_be_sent_to_an_executor():
    document = parse_metadata(b'{"format-version":3,"x":1.50}')
    assert pickle.loads(pickle.dumps(document)) == document


def test_what_is_no_json_is_not_rendered():
    for bad in (float("nan"), {1, 2}, b"bytes"):
        with pytest.raises((TypeError, ValueError)):
            render_json({"x": bad})


def test_the_name_decides_whether_a_file_is_compressed():
    for name in ("00001-x.gz.metadata.json", "v3.metadata.json.gz"):
        data = render_metadata(DOCUMENT, name=name)
        assert data.startswith(b"\x1f\x8b")
        assert data[4:8] == bytes(4)  # not the time
        assert parse_metadata(data) == DOCUMENT
    for name in ("00001-x.metadata.json", "v3.gz.json", "v3.gz.metadata.json.bak"):
        assert render_metadata(DOCUMENT, name=name).startswith(b"{")


WHOLE = b'{"format-version":2}'
NO_JSON = [b"", b"{", b"\xff\xfe", WHOLE + b"x", b'{"format-version":2,"x":' + b"[" * 200_000]
NO_NUMBERS = [WHOLE[:-1] + b',"x":' + x + b"}" for x in (b"NaN", b"-Infinity", b"9" * 5000)]
NO_VERSION = [b'{"format-version":' + x + b"}" for x in (b"null", b'"2"', b"true", b"2.0")]
# Without a time: it would be part of the tests' names, and two workers would collect others.
ZIPPED = gzip.compress(WHOLE, mtime=0)
NO_GZIP = [b"\x1f\x8b", b"\x1f\x8bjunk, no gzip", ZIPPED[:-9], ZIPPED[:-12] + bytes(12)]
NO_DOCUMENT = [b"[]", b"null", b'{"x":1}', gzip.compress(b"x", mtime=0)]


@pytest.mark.parametrize("data", [*NO_JSON, *NO_NUMBERS, *NO_VERSION, *NO_GZIP, *NO_DOCUMENT])
def test_what_is_no_metadata_is_malformed(data):
    with pytest.raises(MalformedFileError):
        parse_metadata(data)


@given(st.integers(0, 400))
def test_a_document_cut_short_is_malformed(length):
    data = render_metadata(DOCUMENT, name="v1.metadata.json")
    with pytest.raises(MalformedFileError):
        parse_metadata(data[:length])


# what is supported


def test_other_format_versions_are_refused():
    for version in (-1, 0, 4, 99):
        with pytest.raises(UnsupportedTableError, match=f"format version {version} .* nothing"):
            check_supported({"format-version": version})


def test_plain_tables_are_supported_and_empty_traces_of_encryption_are_none():
    empty = changed(encryption_keys=[], properties={"encryption.key-id": ""})
    empty["snapshots"][0]["key-id"] = empty["statistics"][0]["key-metadata"] = None
    for document in (DOCUMENT, OLDEST, empty):
        check_supported(document)
        check_supported(document | {"format-version": 3})


@pytest.mark.parametrize(
    ("fields", "trace"),
    [
        ({"encryption_keys": [{"key-id": "k"}]}, "encryption-keys"),
        ({"properties": {"encryption.key-id": "k"}}, "property encryption.key-id"),
        ({"snapshots": [{}, {"snapshot-id": 7, "key-id": "k"}]}, "snapshot 7 has a key-id"),
        ({"statistics": [{"snapshot-id": 7, "key-metadata": "k"}]}, "statistics of snapshot 7"),
        ({"partition_statistics": [{"key-metadata": "k"}]}, "partition-statistics"),
    ],
)
def test_encrypted_tables_are_refused_with_the_trace_that_was_seen(fields, trace):
    with pytest.raises(UnsupportedTableError, match=f"encrypted .*{trace}.*nothing"):
        check_supported(changed(**fields))


# facts


def test_the_facts_of_a_table():
    facts = read_facts(DOCUMENT)
    assert facts.format_version == 2
    assert facts.uuid == "9c12d441-03fe-4693-9a96-a0705ddf69c1"
    assert facts.location == "s3://b/t/"
    assert facts.current_snapshot_id == HUGE
    assert facts.snapshots == (
        SnapshotFacts(5, None, None, 1515100955770, None, tuple(EMBEDDED)),
        SnapshotFacts(HUGE, 5, 34, 1555100955770, "s3://b/t/metadata/s2.avro", ()),
    )
    assert facts.refs == DOCUMENT["refs"]
    assert facts.statistics == (
        StatisticsFile("s3://b/t/5.stats", 413, "statistics", 5),
        StatisticsFile("s3://m/t/p.parquet", None, "partition_statistics", HUGE),
    )
    assert (facts.schema_ids, facts.current_schema_id, facts.schema_count) == ((0, 3), 3, 2)
    assert facts.specs == tuple(DOCUMENT["partition-specs"])
    assert facts.properties == DOCUMENT["properties"]
    assert facts.last_updated_ms == 1602638573590


def test_the_oldest_tables_may_lack_nearly_everything():
    facts = read_facts(OLDEST)
    assert (facts.uuid, facts.current_snapshot_id, facts.last_updated_ms) == (None, None, None)
    assert (facts.snapshots, facts.refs, facts.statistics) == ((), {}, ())
    assert (facts.schema_ids, facts.current_schema_id) == ((0,), None)
    assert facts.specs == ({"spec-id": 0, "fields": OLDEST["partition-spec"]},)
    assert facts.properties == {}
    odd = changed(properties={"a": "1", "b": None, "c": 3})
    assert read_facts(odd).properties == {"a": "1"}


def test_a_table_without_a_current_snapshot_has_no_main():
    for none in (-1, None):
        facts = read_facts({"format-version": 1, "location": "/t", "current-snapshot-id": none})
        assert facts.current_snapshot_id is None
        assert (facts.refs, facts.schema_ids, facts.specs) == ({}, (), ())


def test_a_table_from_before_there_were_refs_has_main_and_others_only_what_they_have():
    main = {"main": {"snapshot-id": HUGE, "type": "branch"}}
    assert read_facts(changed(refs=None)).refs == main
    assert read_facts(changed(refs={})).refs == {}


BAD_SNAPSHOTS = [
    {"timestamp-ms": 5},
    {"snapshot-id": 5},
    {"snapshot-id": 5, "timestamp-ms": 5, "manifests": [5]},
    {"snapshot-id": 5, "timestamp-ms": 5, "manifest-list": 5},
    5,
]


@pytest.mark.parametrize(
    "fields",
    [
        *({"location": bad} for bad in (None, "", 5)),
        *({"current_snapshot_id": bad} for bad in ("5", True)),
        *({"snapshots": [bad]} for bad in BAD_SNAPSHOTS),
        *(
            {"snapshots": {}},
            {"properties": []},
            {"refs": []},
            {"statistics": [{"snapshot-id": 5}]},
        ),
    ],
)
def test_facts_of_the_wrong_type_are_malformed(fields):
    with pytest.raises(MalformedFileError):
        read_facts(changed(**fields))
    with pytest.raises(MalformedFileError):
        relocate_metadata(changed(**fields), MOVES, uuid=None)


# roots


def test_declared_roots_are_the_location_and_what_lies_outside_of_it():
    assert declared_roots(DOCUMENT) == ("s3://b/t", "s3://m/t", "s3://o/t")


def test_a_root_beside_or_above_the_location_is_a_root_too_but_an_empty_path_is_none():
    for path, more in (("/w/t_x//", ["/w/t_x"]), ("/w/", ["/w"]), ("", []), ("/w/t//", [])):
        document = changed(location="/w/t", properties={"write.data.path": path, "x.path": "/x"})
        assert declared_roots(document) == ("/w/t", *more)


def test_roots_in_other_properties_are_found():
    properties = {
        "custom.path": "s3://b/t/custom",
        "list": "x, s3://m/t, y",
        "exact": "s3://b/t",
        "sibling": "s3://b/t_backup/x",
        "dotted": "s3://b/t.old",
        "write.data.path": "s3://b/t/data",
    }
    found = paths_in_other_properties(changed(properties=properties), ["s3://b/t", "s3://m/t"])
    assert found == {key: properties[key] for key in ("custom.path", "list", "exact")}
    assert (
        paths_in_other_properties(DOCUMENT, []) == paths_in_other_properties(DOCUMENT, [""]) == {}
    )
    assert paths_in_other_properties(DOCUMENT, ["s3:/+b/t"]) == {}  # a root is no pattern


# moving


def test_exactly_the_paths_move():
    expected = copy.deepcopy(DOCUMENT)
    expected["location"] = "/new/t/"
    expected["properties"] |= {
        "write.data.path": "/new/t/inside/",
        "write.metadata.path": "/new/m",
        "write.object-storage.path": "gs://o//",
        "write.folder-storage.path": "/new/m/below",
    }
    expected["snapshots"][0]["manifests"] = ["/new/t/metadata/m0.avro", "/new/m/m1.avro"]
    expected["snapshots"][1]["manifest-list"] = "/new/t/metadata/s2.avro"
    expected["statistics"][0]["statistics-path"] = "/new/t/5.stats"
    expected["partition-statistics"][0]["statistics-path"] = "/new/m/p.parquet"
    expected["metadata-log"] = []
    moved = relocate_metadata(DOCUMENT, MOVES, uuid=None)
    assert moved == expected
    assert json.dumps(moved) == json.dumps(expected)  # the order of the keys too


def test_the_input_is_not_changed():
    before = copy.deepcopy(DOCUMENT)
    moved = relocate_metadata(DOCUMENT, MOVES, uuid="new")
    moved["properties"]["x"] = "y"
    moved["snapshots"].clear()
    assert before == DOCUMENT


def test_null_and_absent_stay_as_they_are():
    document = {
        "format-version": 1,
        "location": "s3://b/t",
        "properties": {"write.data.path": None, "write.metadata.path": ""},
        "snapshots": [{"snapshot-id": 1, "timestamp-ms": 2, "manifest-list": None}],
        "statistics": None,
        "table-uuid": None,
    }
    assert relocate_metadata(document, MOVES, uuid="new") == document | {"location": "/new/t"}


def test_a_uuid_is_replaced_but_never_invented():
    assert relocate_metadata(DOCUMENT, MOVES, uuid="new")["table-uuid"] == "new"
    moves = Moves([Move("/wh/t", "/n")])
    assert relocate_metadata(OLDEST, moves, uuid="new") == OLDEST | {"location": "/n"}


@pytest.mark.parametrize("root", ["s3://b/t", "s3://m/t", "s3://o/t"])
def test_every_root_needs_a_move(root):
    moves = Moves(move for move in MOVES.moves if move.old != root)
    with pytest.raises(UnknownRootError, match=root):
        relocate_metadata(DOCUMENT, moves, uuid=None)


SEGMENT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/"), min_size=1)


@given(SEGMENT, st.lists(SEGMENT, max_size=5), st.dictionaries(SEGMENT, VALUE, max_size=3))
def test_there_and_back_is_the_same_document(root, files, unknown):
    location = f"s3://b/{root}"
    snapshots = [
        {"snapshot-id": n, "timestamp-ms": n, "manifest-list": f"{location}/{file}"}
        for n, file in enumerate(files)
    ]
    document = unknown | {"format-version": 2, "location": location, "snapshots": snapshots}
    document["properties"] = {"write.data.path": f"{location}/d/"}
    document["statistics"] = [{"snapshot-id": 0, "statistics-path": f"{location}//s"}]
    there = Moves([Move(location, "gs://elsewhere/x")])
    moved = relocate_metadata(document, there, uuid=None)
    assert all(one["manifest-list"].startswith("gs://elsewhere/x/") for one in moved["snapshots"])
    back = relocate_metadata(moved, there.reversed(), uuid=None)
    assert back == document
    assert list(back) == list(document)
