"""Moving manifests: locations change, and what follows from them; nothing else does."""

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bcn.errors import MalformedFileError, UnknownRootError
from bcn.iceberg.manifest import (
    RewrittenDelete,
    decode_manifest,
    relocate_manifest,
)
from bcn.iceberg.relocate import Move, Moves
from tests.support.avro_files import (
    CODECS,
    change_blocks,
    encode,
    read_avro,
    read_header,
    write_avro,
)
from tests.support.manifest_files import (
    FILE_PATH_ID,
    POSITION_ID,
    ROOT,
    data_entries,
    entry,
    entry_schema,
    manifest,
    pairs,
)

MOVES = Moves([Move(ROOT, "s3://other-bucket/a/longer/place")])
FUTURE = {
    "name": "content_stats",
    "field-id": 146,
    "type": [
        {"type": "map", "values": ["double", {"type": "array", "items": "float"}]},
        "null",
        {"type": "enum", "name": "e", "symbols": ["A", "B"]},
    ],
}


def moved(entries, moves=MOVES):
    """The entries with their locations moved, made without the walker."""
    entries = copy.deepcopy(entries)
    for each in entries:
        for key in ("file_path", "referenced_data_file"):
            if each["data_file"].get(key) is not None:
                each["data_file"][key] = moves.apply(each["data_file"][key])
    return entries


# Moving data manifests


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("null_last", [False, True])
@pytest.mark.parametrize("codec", CODECS)
def test_only_locations_change_and_the_way_back_gives_the_same_records(version, null_last, codec):
    entries = data_entries(version) * 3
    options = {"null_last": null_last, "sync_interval": 300, "extra": (FUTURE,)}
    data = manifest(entries, version, codec, **options)
    there = relocate_manifest(data, MOVES, {})
    back = relocate_manifest(there, MOVES.reversed(), {})
    expected = moved(read_avro(data))
    assert read_avro(there) == expected
    assert expected != read_avro(data)
    assert read_avro(back) == read_avro(data)
    assert read_header(there) == read_header(back) == read_header(data)


def test_unknown_fields_of_the_future_pass_through():
    stats = [{"a": 1.5, "b": [1.0, 2.0]}, None, "B"]
    entries = [entry(f"{ROOT}/{place}", content_stats=each) for place, each in enumerate(stats)]
    out = relocate_manifest(manifest(entries, 3, extra=(FUTURE,)), MOVES, {})
    assert [each["data_file"]["content_stats"] for each in read_avro(out)] == stats


def test_without_a_codec_nothing_but_locations_and_their_lengths_differs():
    data = manifest([entry(f"{ROOT}/data/a.parquet")], codec="null")
    moves = Moves([Move(ROOT, "s3://c/u")])
    assert relocate_manifest(data, moves, {}) == data.replace(b"s3://b/t/data", b"s3://c/u/data")


def test_roots_match_at_slashes_only_and_the_longest_first():
    paths = ["/w/t/a", "/w/t_backup/a", "/w/t/inner/a", "/w/t", "/w/t/inner", "/w/t/inner2"]
    moves = Moves(
        [Move("/w/t", "/x"), Move("/w/t_backup", "/backup/of/t"), Move("/w/t/inner", "/in")]
    )
    data = manifest([entry(path) for path in paths])
    out = decode_manifest(relocate_manifest(data, moves, {}))
    assert out.file_path.to_pylist() == [
        "/x/a",
        "/backup/of/t/a",
        "/in/a",
        "/x",
        "/in",
        "/x/inner2",
    ]


@settings(max_examples=60)
@given(
    st.lists(st.text("ab/", max_size=4).map(lambda text: "/r" + text.rstrip("/")), max_size=5),
    st.lists(st.text("ab/\u00e9", max_size=6).map(lambda text: "/r" + text), max_size=6),
)
def test_any_path_goes_where_moves_say_or_is_an_unknown_root(roots, paths):
    moves = Moves([Move(root, f"/new{place}") for place, root in enumerate(dict.fromkeys(roots))])
    data = manifest([entry(path) for path in paths], codec="null")
    if moves.moves and any(moves.find(path) is None for path in paths):
        with pytest.raises(UnknownRootError):
            relocate_manifest(data, moves, {})
    else:
        out = decode_manifest(relocate_manifest(data, moves, {})).file_path.to_pylist()
        assert out == [moves.apply(path) if moves.moves else path for path in paths]


def test_a_path_of_no_root_is_named_even_on_a_tombstone():
    data = manifest([entry(f"{ROOT}/a"), entry("s3://b/t_backup/lost", status=2)])
    with pytest.raises(UnknownRootError, match="s3://b/t_backup/lost"):
        relocate_manifest(data, MOVES, {})


def test_when_nothing_moves_the_bytes_are_the_same():
    data = manifest(data_entries(2))
    assert relocate_manifest(data, Moves([Move(ROOT, ROOT)]), {}) is data


def test_a_file_cut_anywhere_but_between_blocks_is_malformed():
    data = manifest([entry(f"{ROOT}/a", lower_bounds=pairs({1: b"x"}))], codec="deflate")
    header_end = data.index(data[-16:]) + 16
    for size in range(len(data)):
        if size != header_end:
            with pytest.raises(MalformedFileError):
                relocate_manifest(data[:size], MOVES, {})


# Moving delete manifests


def bounds(lower, upper):
    """Bounds of a position delete file, between those of another column."""
    return {
        "lower_bounds": pairs({1: b"\x01", FILE_PATH_ID: lower, POSITION_ID: bytes(8)}),
        "upper_bounds": pairs({1: b"\x02", FILE_PATH_ID: upper, POSITION_ID: b"\x07" + bytes(7)}),
    }


def relocate_one(values, deletes=None, moves=MOVES, **options):
    """The data file of a delete manifest with one entry, after moving."""
    data = manifest([entry(f"{ROOT}/d.parquet", **values)], content="deletes", **options)
    records = read_avro(relocate_manifest(data, moves, deletes or {}))
    return records[0]["data_file"]


def path_bounds(data_file):
    """The bounds of locations, and the ids of all bounds that are left."""
    maps = [data_file["lower_bounds"], data_file["upper_bounds"]]
    found = [{each["key"]: each["value"] for each in listed} for listed in maps]
    return tuple(each.get(FILE_PATH_ID) for each in found), [sorted(each) for each in found]


ONE = f"{ROOT}/data/1.parquet".encode()
TWO = f"{ROOT}/data/2.parquet".encode()
NEW = "s3://other-bucket/a/longer/place"
ALL_IDS = [[1, POSITION_ID, FILE_PATH_ID]] * 2
NO_PATHS = [[1, POSITION_ID]] * 2


def test_a_rewritten_delete_file_has_its_new_size_and_bounds():
    written = RewrittenDelete(99_999, f"{NEW}/data/1.parquet", f"{NEW}/data/2.parquet")
    values = {"content": 1, "status": 1, **bounds(ONE, TWO)}
    out = relocate_one(values, {f"{ROOT}/d.parquet": written})
    assert out["file_path"] == f"{NEW}/d.parquet"
    assert out["file_size_in_bytes"] == 99_999
    expected = (f"{NEW}/data/1.parquet".encode(), f"{NEW}/data/2.parquet".encode())
    assert path_bounds(out) == (expected, ALL_IDS)


@pytest.mark.parametrize("status", [0, 1, 2])
def test_equal_bounds_of_a_delete_file_that_was_not_rewritten_move(status):
    out = relocate_one({"content": 1, "status": status, **bounds(ONE, ONE)})
    assert path_bounds(out) == ((f"{NEW}/data/1.parquet".encode(),) * 2, ALL_IDS)
    assert out["file_size_in_bytes"] == 1234


@pytest.mark.parametrize(
    ("lower", "upper"),
    [(ONE, TWO), (b"s3://elsewhere/x",) * 2, (b"s3://b/t_backup/x",) * 2, (b"s3://b/t/\xff",) * 2],
)
def test_bounds_that_cannot_be_known_are_dropped_and_others_stay(lower, upper):
    out = relocate_one({"content": 1, **bounds(lower, upper)})
    assert path_bounds(out) == ((None, None), NO_PATHS)


@pytest.mark.parametrize(
    ("has", "lacks"), [("lower_bounds", "upper_bounds"), ("upper_bounds", "lower_bounds")]
)
def test_a_bound_without_its_partner_is_dropped(has, lacks):
    out = relocate_one({"content": 1, has: pairs({FILE_PATH_ID: ONE}), lacks: pairs({1: ONE})})
    assert out[has] == []
    assert out[lacks] == pairs({1: ONE})
    out = relocate_one({"content": 1, has: pairs({FILE_PATH_ID: ONE})})
    assert out[has] == []
    assert out[lacks] is None


def test_a_map_that_loses_its_last_bound_stays_as_an_empty_map():
    one, two = pairs({FILE_PATH_ID: ONE}), pairs({FILE_PATH_ID: TWO})
    out = relocate_one({"content": 1, "lower_bounds": one, "upper_bounds": two}, null_last=True)
    assert out["lower_bounds"] == out["upper_bounds"] == []


def test_a_delete_file_rewritten_in_place_keeps_the_bounds_of_its_neighbours():
    here = Moves([Move(ROOT, ROOT)])
    entries = [entry(f"{ROOT}/{n}", content=1, **bounds(ONE, TWO)) for n in range(2)]
    data = manifest(entries, content="deletes")
    written = {f"{ROOT}/0": RewrittenDelete(5, "a", "b")}
    first, second = read_avro(relocate_manifest(data, here, written))
    assert path_bounds(first["data_file"])[0] == (b"a", b"b")
    assert second == read_avro(data)[1]


def test_bounds_of_data_files_and_equality_deletes_are_never_touched():
    for content in (0, 2):
        out = relocate_one({"content": content, **bounds(ONE, TWO)})
        assert path_bounds(out) == ((ONE, TWO), ALL_IDS)


def test_bounds_in_blocks_that_say_their_size_are_found_too():
    """The map is written by hand: two blocks, the first with a negative count and its size."""
    values = {"content": 1, "lower_bounds": pairs({FILE_PATH_ID: ONE, 1: b"\x01"})}
    data = manifest([entry(f"{ROOT}/d", **values)], content="deletes", codec="null")
    first = encode("int", FILE_PATH_ID) + encode("bytes", ONE)
    second = b"\x02\x02\x01"
    sized = encode("long", -1) + encode("long", len(first)) + first + b"\x02" + second
    changed = change_blocks(data, b"\x04" + first + second, sized)
    assert read_avro(changed) == read_avro(data)
    out = read_avro(relocate_manifest(changed, MOVES, {}))[0]["data_file"]
    assert out["lower_bounds"] == pairs({1: b"\x01"})


def test_deletion_vectors_that_share_a_file_all_get_its_size_and_move():
    blob = {"content_size_in_bytes": 40, "file_format": "PUFFIN"}
    entries = [
        entry(
            f"{ROOT}/dv.puffin",
            content=1,
            referenced_data_file=f"{ROOT}/data/{n}.parquet",
            content_offset=4 + 40 * n,
            **blob,
        )
        for n in range(3)
    ]
    data = manifest(entries, 3, content="deletes")
    written = {f"{ROOT}/dv.puffin": RewrittenDelete(777, None, None)}
    expected = moved(read_avro(data))
    for each in expected:
        each["data_file"]["file_size_in_bytes"] = 777
    assert read_avro(relocate_manifest(data, MOVES, written)) == expected


def test_a_delete_manifest_with_bounds_of_another_shape_is_malformed():
    schema = entry_schema(2)
    data_file = schema["fields"][-1]["type"]["fields"]
    place = next(i for i, each in enumerate(data_file) if each["name"] == "lower_bounds")
    data_file[place]["type"] = {"type": "map", "values": "bytes"}
    values = {"lower_bounds": {"k": b"v"}}
    kept = write_avro(schema, [entry(f"{ROOT}/d", **values)])
    assert read_avro(relocate_manifest(kept, MOVES, {}))[0]["data_file"]["lower_bounds"] == {
        "k": b"v"
    }
    refused = write_avro(schema, [entry(f"{ROOT}/d", content=1, **values)])
    with pytest.raises(MalformedFileError, match="125"):
        relocate_manifest(refused, MOVES, {})
