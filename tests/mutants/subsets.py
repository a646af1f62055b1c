"""Steps of a restore that choose, name and refuse; and those of views and databases."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_CHOOSE = "tests/restore/test_choose.py::"
_SUBSETS = "tests/restore/test_subsets.py::"
_NAMES = "tests/restore/test_names.py::"
_VIEWS = "tests/restore/test_views.py::"
_VIEW = "tests/iceberg/test_view.py::"
_CONTRACT = "tests/contracts/test_catalog_contract.py::"

CHOOSING = (
    Mutant(
        "exclude",
        "what is excluded is left out",
        "restore/choose.py",
        "if not left_out & {item, item.table.namespace}]",
        "if True]",
        (_SUBSETS + "test_what_is_excluded_does_not_appear",),
    ),
    Mutant(
        "names-before-globs",
        "a name is a name before it is a glob",
        "restore/choose.py",
        "strict=True) if rank == best]",
        "strict=True) if rank is not None]",
        (_CHOOSE + "test_tables_are_picked_by_name_full_name_glob_or_id",),
    ),
    Mutant(
        "back-again-is-not-gone",
        "what came back is not chosen a second time",
        "restore/choose.py",
        "[item for item in pit.deleted if item.object_id not in living]",
        "list(pit.deleted)",
        (_CHOOSE + "test_an_object_that_came_back_is_not_gone",),
    ),
    Mutant(
        "deleted-record",
        "what was deleted comes from the last PIT that held it",
        "restore/prepare.py",
        "            if record.object_id == item.object_id:\n",
        "            if record.table != item.table:\n",
        (_SUBSETS + "test_a_deleted_table_comes_back_in_its_place_with_its_uuid",),
    ),
    Mutant(
        "one-object-a-name",
        "two objects are never restored under one name",
        "restore/prepare.py",
        "        check_names(sources, names)\n",
        "",
        (_SUBSETS + "test_two_tables_of_one_name_are_never_mixed",),
    ),
    Mutant(
        "all-in-the-way",
        "everything that is in the way is named",
        "restore/prepare.py",
        "            refused.append((item, error))\n",
        "            refused[:] = [(item, error)]\n",
        (_SUBSETS + "test_all_that_is_still_there_is_named_in_one_error",),
    ),
)

PLACES = (
    Mutant(
        "files-in-use",
        "files of a living table never get a second name",
        "restore/prepare.py",
        "        check_unused(spread, self._pointers())\n",
        "",
        (_SUBSETS + "test_a_table_that_was_renamed_since_is_not_registered_a_second_time",),
    ),
    Mutant(
        "inside-of-another",
        "nothing is restored into another table",
        "restore/place.py",
        "        for index in (*around, *_run(places, place)):\n",
        "        for index in _run(places, place):\n",
        (_SUBSETS + "test_a_copy_is_never_put_into_another_table_or_around_it",),
    ),
    Mutant(
        "ended-restore",
        "a run that was killed while it ended is recognised",
        "restore/prepare.py",
        "            for item in items if all(found) else ():\n",
        "            for item in ():\n",
        ("tests/crash/test_catalog_restores.py",),
    ),
)

NAMING = (
    Mutant(
        "unknown-placeholder",
        "an unknown placeholder is a mistake",
        "restore/template.py",
        "        if match[1] not in values:\n",
        "        if False:\n",
        (_NAMES + "test_an_unknown_placeholder_is_a_mistake",),
    ),
    Mutant(
        "one-place-for-many",
        "a place without placeholders is for one table",
        "restore/plan.py",
        " and count != 1 and not is_template(text):",
        " and False:",
        (_NAMES + "test_templates_that_cannot_be_are_refused_before_anything_is_written",),
    ),
    Mutant(
        "empty-databases",
        "databases without tables are restored",
        "restore/prepare.py",
        "        for namespace in chosen if new is None or len(chosen) == 1 else ():\n",
        "        for namespace in ():\n",
        (_NAMES + "test_empty_databases_come_back_with_their_properties",),
    ),
    Mutant(
        "database-location",
        "a database in another catalog loses its location",
        "restore/namespaces.py",
        " and not origin.is_in_place:",
        " and False:",
        (_NAMES + "test_empty_databases_come_back_with_their_properties",),
    ),
    Mutant(
        "database-names",
        "names of databases are checked before anything is copied",
        "restore/namespaces.py",
        "    catalog.check_namespace(origin.new)\n",
        "",
        (_NAMES + "test_an_empty_database_with_a_dot_is_refused_before_anything_is_copied",),
    ),
    Mutant(
        "long-names",
        "names that a SQL catalog's columns do not hold are refused",
        "catalog/sql.py",
        "    if len(name) > _MAX_NAME:\n",
        "    if False:\n",
        (_CONTRACT + "test_names_that_are_too_long_are_refused",),
    ),
    Mutant(
        "odd-types",
        "types that a format version lacks are told",
        "restore/prepare.py",
        "            notes += self._catalog.check_table(item.target.table, item.document)\n",
        "",
        (_NAMES + "test_types_that_a_format_version_lacks_are_told",),
    ),
)

VIEWS = (
    Mutant(
        "view-location",
        "a view moves to its new place",
        "iceberg/view.py",
        '        "location": moves.apply(document["location"]),\n',
        "",
        (_VIEWS + "test_a_view_is_restored_beside_its_tables",),
    ),
    Mutant(
        "view-defaults",
        "the names that a view is resolved by are mapped",
        "iceberg/view.py",
        "[_rename_defaults(item, renaming) for item in _versions(document)]",
        "_versions(document)",
        (_VIEWS + "test_names_that_its_sql_loses_are_told",),
    ),
    Mutant(
        "view-references",
        "names that a view's SQL loses are told",
        "restore/prepare.py",
        "            notes += note_references(item.document, item.target, renaming)\n",
        "            pass\n",
        (_VIEWS + "test_names_that_its_sql_loses_are_told",),
    ),
    Mutant(
        "view-strings",
        "strings and comments name nothing",
        "iceberg/view.py",
        """rf"'(?:[^'\\\\]|\\\\.|'')*'|--[^\\n]*|/\\*.*?\\*/|""",
        'rf"',
        (_VIEW + "test_names_that_are_not_found_any_more_are_told",),
    ),
    Mutant(
        "view-uuid",
        "a copy of a view gets a new uuid",
        "iceberg/view.py",
        '        changed["view-uuid"] = uuid\n',
        "        pass\n",
        (_VIEWS + "test_a_copy_of_a_view_is_another_view_unless_told_otherwise",),
    ),
    Mutant(
        "view-format",
        "views of a format that bcn does not know are refused",
        "iceberg/view.py",
        "    if version != VIEW_FORMAT:\n",
        "    if False:\n",
        (_VIEWS + "test_a_view_of_another_format_is_refused_and_nothing_appears",),
    ),
    Mutant(
        "view-asked-again",
        "the catalog is asked for the view again",
        "restore/run.py",
        "            check_registered_view(self._stores, self._catalog, target, document)\n",
        "",
        (_VIEWS + "test_a_catalog_that_gives_back_something_else_is_found_out",),
    ),
    Mutant(
        "view-marker",
        "a run that was stopped between views can go on",
        "restore/run.py",
        "            view.marker.set()\n",
        "",
        (_VIEWS + "test_a_restore_that_was_stopped_between_two_views_goes_on",),
    ),
    Mutant(
        "views-not-in-v0",
        "a catalog that cannot tell views from tables gets none",
        "catalog/sql.py",
        '        return not columns or "iceberg_type" in columns\n',
        "        return True\n",
        (_VIEWS + "test_a_catalog_of_the_older_schema_says_that_views_stay_behind",),
    ),
)

MUTANTS = (*CHOOSING, *PLACES, *NAMING, *VIEWS)
