"""Steps of the table format: what must be rewritten, what must be kept, what must be refused."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_DELETES = "tests/iceberg/test_deletes.py::"
_MOVES = "tests/iceberg/test_manifest_moves.py::"
_LISTS = "tests/iceberg/test_manifest.py::"
_METADATA = "tests/iceberg/test_metadata.py::"
_PUFFIN = "tests/iceberg/test_puffin.py::"
_ROOTS = "tests/iceberg/test_relocate.py::"
_SMALL = "tests/restore/test_rewrites.py::test_a_small_table_differs_in_its_places_only"

_REAL_DELETES = (_DELETES + "test_a_real_file_keeps_everything_but_its_paths",)
_ONLY_PATHS = (_METADATA + "test_exactly_the_paths_move",)
_ONLY_LOCATIONS = (
    _MOVES + "test_only_locations_change_and_the_way_back_gives_the_same_records",
    _MOVES + "test_equal_bounds_of_a_delete_file_that_was_not_rewritten_move",
)
_REFERENCED = "path_edits(walk, _REFERENCED_DATA_FILE, moves)]"
_EDITS = "    if walk.numbers(_CONTENT).any():\n        edits += _delete_edits("

DELETE_FILES = (
    Mutant(
        "rewrite-parquet-deletes",
        "rows of position deletes in Parquet name the new data files",
        "iceberg/deletes.py",
        "    if not paths.moved:\n        return paths.of(data)\n    written = _write_parquet(",
        "    if True:\n        return paths.of(data)\n    written = _write_parquet(",
        _REAL_DELETES,
    ),
    Mutant(
        "rewrite-orc-deletes",
        "the same in ORC",
        "iceberg/deletes.py",
        "    if not paths.moved:\n        return paths.of(data)\n    written = _write_orc(",
        "    if True:\n        return paths.of(data)\n    written = _write_orc(",
        _REAL_DELETES,
    ),
    Mutant(
        "rewrite-avro-deletes",
        "the same in Avro",
        "iceberg/deletes.py",
        "    if not paths.moved:\n        return paths.of(data)\n    spliced = [",
        "    if True:\n        return paths.of(data)\n    spliced = [",
        (_DELETES + "test_a_real_avro_file_keeps_its_header_and_everything_but_its_paths",),
    ),
    Mutant(
        "sort-deletes",
        "delete rows are sorted again where roots change places",
        "iceberg/deletes.py",
        "    if paths.ordered:\n        return table\n",
        "    if True:\n        return table\n",
        (_DELETES + "test_roots_that_change_places_leave_the_rows_sorted",),
    ),
    Mutant(
        "sort-avro-deletes",
        "the same in Avro",
        "iceberg/deletes.py",
        "written if paths.ordered else _sort_avro(written, paths)",
        "written",
        (_DELETES + "test_roots_that_change_places_leave_the_rows_sorted",),
    ),
    Mutant(
        "keep-delete-columns",
        "delete files whose other columns would change are refused",
        "iceberg/deletes.py",
        "    if old != new:\n        raise UnsupportedTableError(",
        "    if False:\n        raise UnsupportedTableError(",
        (_DELETES + "test_columns_that_would_change_are_refused",),
    ),
    Mutant(
        "rewrite-puffin-footer",
        "footers of deletion vectors name the new data files",
        "iceberg/puffin.py",
        "    if moved == document:\n",
        "    if True:\n",
        (_PUFFIN + "test_a_real_file_names_the_new_data_files_and_keeps_all_else",),
    ),
    Mutant(
        "puffin-flag",
        "a footer that is written plain says so",
        "iceberg/puffin.py",
        "footer.flags & ~_COMPRESSED",
        "footer.flags",
        (_PUFFIN + "test_a_compressed_footer_is_read_and_written_plain",),
    ),
)

MANIFESTS = (
    Mutant(
        "manifest-bounds",
        "bounds of delete files name the new data files",
        "iceberg/manifest.py",
        "    return [make_edits(splices), make_edits(_bound_splices(bounds, positions, moves, "
        "rewritten))]",
        "    return [make_edits(splices)]",
        (_MOVES + "test_a_rewritten_delete_file_has_its_new_size_and_bounds",),
    ),
    Mutant(
        "manifest-unknown-bounds",
        "bounds that are not one data file's are dropped, not moved",
        "iceberg/manifest.py",
        "lower is not None and upper is not None and lower.path == upper.path",
        "lower is not None",
        (_MOVES + "test_bounds_that_cannot_be_known_are_dropped_and_others_stay",),
    ),
    Mutant(
        "manifest-kept-bounds",
        "equal bounds of a delete file that stays as it is are moved",
        "iceberg/manifest.py",
        "None if only is None else _moved(only, moves)",
        "only",
        (_MOVES + "test_equal_bounds_of_a_delete_file_that_was_not_rewritten_move",),
    ),
    Mutant(
        "manifest-referenced-data-file",
        "entries of deletion vectors refer to the new data files",
        "iceberg/manifest.py",
        ", " + _REFERENCED,
        "]",
        (_MOVES + "test_deletion_vectors_that_share_a_file_all_get_its_size_and_move",),
    ),
    Mutant(
        "manifest-referenced-data-file-v2",
        "entries of v2 position deletes do so too",
        "iceberg/manifest.py",
        ", " + _REFERENCED,
        "]\n    if container.header.get('format-version') == b'3':\n        edits.append("
        "path_edits(walk, _REFERENCED_DATA_FILE, moves))",
        (_SMALL + "[2]",),
    ),
    Mutant(
        "manifest-file-size",
        "entries have the sizes of rewritten delete files",
        "iceberg/manifest.py",
        "    return [make_edits(splices), make_edits(_bound_splices(",
        "    return [make_edits([]), make_edits(_bound_splices(",
        (_MOVES + "test_a_rewritten_delete_file_has_its_new_size_and_bounds",),
    ),
    Mutant(
        "manifest-shared-file-size",
        "all entries of a file that several share do",
        "iceberg/manifest.py",
        "for row, delete in rewritten.items()",
        "for row, delete in list(rewritten.items())[:1]",
        (_MOVES + "test_deletion_vectors_that_share_a_file_all_get_its_size_and_move",),
    ),
    Mutant(
        "manifest-length",
        "lists have the lengths of rewritten manifests",
        "iceberg/manifest.py",
        "        if lengths[path] != old:\n",
        "        if False:\n",
        (_LISTS + "test_only_locations_and_lengths_of_a_list_change",),
    ),
    Mutant(
        "manifest-path",
        "lists name the new manifests",
        "iceberg/manifest.py",
        "[path_edits(walk, _MANIFEST_PATH, moves), make_edits(changed)]",
        "[make_edits(changed)]",
        (_LISTS + "test_only_locations_and_lengths_of_a_list_change",),
    ),
    Mutant(
        "manifest-unknown-length",
        "a manifest whose new length nobody knows is refused",
        "iceberg/manifest.py",
        "        if path not in lengths:\n",
        "        if path not in lengths:\n            continue\n        if False:\n",
        (_LISTS + "test_a_list_with_a_manifest_of_no_length_or_root_is_refused",),
    ),
    Mutant(
        "manifest-sequence-numbers",
        "explicit sequence numbers stay explicit",
        "iceberg/manifest.py",
        _EDITS,
        "    numbers = walk_file(container, (_SEQUENCE_NUMBER,)).spans_of(_SEQUENCE_NUMBER)\n"
        "    edits.append(make_edits((s - 1, e, b'\\x00') for s, e, _ in numbers.tolist() if s > 0)"
        ")\n" + _EDITS,
        _ONLY_LOCATIONS,
    ),
    Mutant(
        "manifest-tombstones",
        "tombstones stay tombstones",
        "iceberg/manifest.py",
        _EDITS,
        "    states = walk_file(container, (_STATUS,)).spans_of(_STATUS).tolist()\n"
        "    edits.append(make_edits((s, e, b'\\x00') for s, e, state in states if state == 2))\n"
        + _EDITS,
        _ONLY_LOCATIONS,
    ),
    Mutant(
        "manifest-tombstone-paths",
        "tombstones move like all entries",
        "iceberg/manifest.py",
        "    edits = [path_edits(walk, _FILE_PATH, moves), ",
        "    live = walk_file(container, (_STATUS,)).numbers(_STATUS) != 2\n"
        "    paths = path_edits(walk, _FILE_PATH, moves)\n"
        "    edits = [Edits(paths.rows[live], paths.pool), ",
        _ONLY_LOCATIONS,
    ),
    Mutant(
        "manifest-key-metadata",
        "encrypted files are refused",
        "iceberg/manifest.py",
        "    if not walk.is_null(key_metadata).all():\n",
        "    if False:\n",
        (_LISTS + "test_key_metadata_is_refused_wherever_it_is_met",),
    ),
    Mutant(
        "splice-boundary",
        "roots match paths in manifests at a slash only",
        "iceberg/splice.py",
        "size < end - start and buf[start + size] != 0x2F",
        "size < end - start and buf[start + size] == 0x00",
        (_MOVES + "test_roots_match_at_slashes_only_and_the_longest_first",),
    ),
    Mutant(
        "splice-unknown-root",
        "a path without a root is refused",
        "iceberg/avro.py",
        "    if lost >= 0:\n",
        "    if False:\n",
        (_MOVES + "test_a_path_of_no_root_is_named_even_on_a_tombstone",),
    ),
    Mutant(
        "kept-memory",
        "memory of one file is kept for the next",
        "iceberg/avro.py",
        "np.empty(_KEPT_BYTES, np.uint8)\n",
        "",
        ("tests/iceberg/test_memory.py::test_a_second_manifest_needs_no_new_pages",),
    ),
    Mutant(
        "inflate-large-blocks",
        "a block that is larger than most is unpacked too",
        "iceberg/codec.py",
        "with suppress(deflate.DeflateError):",
        "with suppress(KeyError):",
        ("tests/iceberg/test_codec.py",),
    ),
)

METADATA = (
    Mutant(
        "metadata-location",
        "the location is rebased",
        "iceberg/metadata.py",
        '        "location": moves.apply,\n',
        "",
        _ONLY_PATHS,
    ),
    Mutant(
        "metadata-properties",
        "properties that hold paths are rebased",
        "iceberg/metadata.py",
        '        "properties": lambda found: _edit(found, properties),\n',
        "",
        _ONLY_PATHS,
    ),
    Mutant(
        "metadata-manifest-list",
        "snapshots name the new lists",
        "iceberg/metadata.py",
        '        "manifest-list": moves.apply,\n',
        "",
        _ONLY_PATHS,
    ),
    Mutant(
        "metadata-embedded-manifests",
        "snapshots without a list name the new manifests",
        "iceberg/metadata.py",
        '        "manifests": lambda paths: [moves.apply(path) for path in paths],\n',
        "",
        _ONLY_PATHS,
    ),
    Mutant(
        "metadata-statistics",
        "statistics are rebased",
        "iceberg/metadata.py",
        '        "statistics": statistics,\n',
        "",
        _ONLY_PATHS,
    ),
    Mutant(
        "metadata-partition-statistics",
        "partition statistics are rebased",
        "iceberg/metadata.py",
        '        "partition-statistics": statistics,\n',
        "",
        _ONLY_PATHS,
    ),
    Mutant(
        "metadata-log",
        "the log of older metadata files is emptied",
        "iceberg/metadata.py",
        '        "metadata-log": lambda _: [],\n',
        "",
        _ONLY_PATHS,
    ),
    Mutant(
        "metadata-uuid",
        "a new uuid is written",
        "iceberg/metadata.py",
        '        "table-uuid": lambda found: found if uuid is None else uuid,\n',
        "",
        (_METADATA + "test_a_uuid_is_replaced_but_never_invented",),
    ),
    Mutant(
        "metadata-numbers",
        "numbers keep their spelling",
        "iceberg/metadata.py",
        "parse_float=NumberText",
        "parse_float=float",
        (_METADATA + "test_a_number_keeps_its_spelling",),
    ),
    Mutant(
        "metadata-gzip-name",
        "the name decides whether a metadata file is compressed",
        "iceberg/metadata.py",
        "gzip.compress(data, mtime=0) if name.endswith(_GZIP_NAMES) else data",
        "data",
        (_METADATA + "test_the_name_decides_whether_a_file_is_compressed",),
    ),
    Mutant(
        "refuse-version-4",
        "format versions that nobody knows are refused",
        "iceberg/metadata.py",
        "    if not 1 <= version <= 3:\n",
        "    if not 1 <= version <= 4:\n",
        (_METADATA + "test_other_format_versions_are_refused",),
    ),
    Mutant(
        "refuse-encrypted",
        "encrypted tables are refused",
        "iceberg/metadata.py",
        "    if mark is not None:\n",
        "    if False:\n",
        (_METADATA + "test_encrypted_tables_are_refused_with_the_trace_that_was_seen",),
    ),
    Mutant(
        "roots-boundary",
        "roots match at a slash only",
        "iceberg/relocate.py",
        'location[len(root)] == "/"',
        "True",
        (_ROOTS + "test_a_root_ends_at_a_slash_only",),
    ),
    Mutant(
        "roots-longest",
        "the longest root that matches decides",
        "iceberg/relocate.py",
        "key=lambda move: (-len(move.old.encode()), move.old)",
        "key=lambda move: move.old",
        (_ROOTS + "test_the_longest_root_decides_whatever_the_order",),
    ),
)

MUTANTS = (*DELETE_FILES, *MANIFESTS, *METADATA)
