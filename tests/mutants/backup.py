"""Steps of a backup: what is live, what is read again, what is hashed, what is refused."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_DECISIONS = "tests/backup/test_decisions.py::"
_TABLES = "tests/backup/test_small_tables.py::"
_REWRITES = "tests/restore/test_rewrites.py::"
_OVER_TIME = "tests/backup/test_over_time.py::"
_CRASH = "tests/crash/test_between_steps.py::"

_REPLACED = (_TABLES + "test_metadata_that_was_replaced_at_its_own_path_is_read_again",)
_LEFTOVER = (_TABLES + "test_what_somebody_else_left_is_never_taken_for_the_file",)
_HISTORY = ("tests/backup/test_partial_history.py",)
_READ_AGAIN = (_DECISIONS + "test_whatever_may_have_changed_is_read_again",)
_AT_A_SLASH = (_DECISIONS + "test_a_root_matches_at_a_slash_only_one_by_one_and_all_at_once",)
_LENGTHS = (_TABLES + "test_a_manifest_of_another_length_at_a_known_path_is_another_manifest",)

LIVE_FILES = (
    Mutant(
        "tombstones-not-copied",
        "files that only tombstones name are not asked for",
        "backup/walk.py",
        "pa.array(entries.status != _DELETED)",
        "pa.array(entries.status >= 0)",
        (_REWRITES + "test_a_small_table_differs_in_its_places_only[2]",),
    ),
    Mutant(
        "existing-entries",
        "entries that a manifest carried over are live",
        "backup/walk.py",
        "pa.array(entries.status != _DELETED)",
        "pa.array(entries.status == 1)",
        (_REWRITES + "test_existing_entries_are_live_too",),
    ),
    Mutant(
        "live-by-membership",
        "manifests are live because a list names them, whatever snapshot added them",
        "backup/walk.py",
        "            manifests.setdefault(path, ManifestRef(",
        "            if snapshot in dict(task.lists):\n"
        "                manifests.setdefault(path, ManifestRef(",
        (_REWRITES + "test_files_of_an_expired_snapshot_live_as_long_as_a_manifest_lists_them",),
    ),
    Mutant(
        "external-roots",
        "files outside of the table's places get roots of their own",
        "backup/walk.py",
        "for root in external_roots(unresolved",
        "for root in external_roots([]) and (unresolved",
        (_REWRITES + "test_files_of_other_places_come_along[elsewhere]",),
    ),
    Mutant(
        "backup-roots-boundary",
        "roots match at a slash only",
        "backup/roots.py",
        'if location.startswith(root.spelling + "/"):',
        "if location.startswith(root.spelling):",
        _AT_A_SLASH,
    ),
    Mutant(
        "backup-columns-boundary",
        "roots match columns of paths at a slash only",
        "backup/roots.py",
        'prefix = root.spelling + "/"',
        "prefix = root.spelling",
        _AT_A_SLASH,
    ),
    Mutant(
        "lowest-root",
        "the lowest root that matches decides, so that old splits never change",
        "backup/roots.py",
        " & (ids == UNRESOLVED)",
        "",
        (_DECISIONS + "test_the_lowest_root_decides_so_that_old_splits_never_change",),
    ),
    Mutant(
        "root-ids",
        "the id of a root is never given to another",
        "backup/roots.py",
        "max((root.id for root in self.roots), default=-1) + 1",
        "len(self.roots)",
        (_DECISIONS + "test_a_new_root_gets_an_id_that_none_had",),
    ),
)

CHANGES = (
    Mutant(
        "known-manifests",
        "a known manifest is not decoded again",
        "backup/work.py",
        "    return row.recorded_size_bytes == work.known[identity]",
        "    return False",
        (_TABLES + "test_a_manifest_that_is_known_is_not_decoded_again",),
    ),
    Mutant(
        "manifest-of-another-length",
        "a manifest of another length at a known path is read",
        "backup/work.py",
        "    return row.recorded_size_bytes == work.known[identity]",
        "    return True",
        _LENGTHS,
    ),
    Mutant(
        "path-used-again",
        "a file of another size at a known path is stored again",
        "backup/tasks.py",
        '(*FILE_IDENTITY, "recorded_size_bytes")',
        "FILE_IDENTITY",
        _LENGTHS,
    ),
    Mutant(
        "metadata-not-carried",
        "metadata is read anew though its path is known",
        "backup/work.py",
        'row.kind == "metadata" or identity not in work.known',
        "identity not in work.known",
        _REPLACED,
    ),
    Mutant(
        "metadata-not-known",
        "metadata is stored anew though its path is known",
        "backup/stage.py",
        'inventory.filter(pc.not_equal(inventory["kind"], "metadata"))',
        "inventory",
        _REPLACED,
    ),
    Mutant(
        "store-version",
        "a metadata file of another version is read",
        "backup/plan.py",
        "        and record.metadata_version == version\n",
        "",
        _READ_AGAIN,
    ),
    Mutant(
        "damaged-parent",
        "a table that was damaged is read again",
        "backup/plan.py",
        "        and not record.damaged\n",
        "",
        _READ_AGAIN,
    ),
    Mutant(
        "failed-parent",
        "a table that had failed is read again",
        "backup/plan.py",
        'if record.status != "FAILED" and (record.coverage',
        "if (record.coverage",
        _READ_AGAIN,
    ),
    Mutant(
        "kept-history",
        "only what the kept snapshots need is stored",
        "backup/work.py",
        "facts = read_facts(trim_metadata(document, covered))",
        "facts = read_facts(document)",
        _HISTORY,
    ),
    Mutant(
        "other-history",
        "a table of which more or less is asked for is read again",
        "backup/plan.py",
        'and (record.coverage == history or record.type != "table")',
        "",
        _HISTORY,
    ),
    Mutant(
        "lasting-history",
        "a backup keeps as much as the one before",
        "backup/run.py",
        "before = History.parse(parent.history) if parent else ALL_HISTORY",
        "before = ALL_HISTORY",
        _HISTORY,
    ),
    Mutant(
        "restored-history",
        "a restored table has the kept snapshots and no others",
        "restore/register.py",
        "trim_metadata(parse_metadata(data), covered)",
        "parse_metadata(data)",
        _HISTORY,
    ),
    Mutant(
        "verified-history",
        "a verification follows the kept snapshots",
        "maintenance/walk.py",
        "read_facts(trim_metadata(document, covered))",
        "read_facts(document)",
        _HISTORY,
    ),
    Mutant(
        "gap-in-log",
        "what lies before a gap leaves the log of snapshots",
        "iceberg/history.py",
        "return log[gaps[-1] + 1 :] if gaps else log",
        "return [item for number, item in enumerate(log) if number not in gaps]",
        ("tests/iceberg/test_history.py",),
    ),
    Mutant(
        "no-direct-writing",
        "where a disk takes nothing past the page cache, chunks are written through it",
        "storage/local.py",
        "            if not self._direct:\n                _write_all",
        "            if not whole:\n                _write_all",
        ("tests/engine/test_transfer.py",),
    ),
    Mutant(
        "damaged-rows",
        "rows of a damaged table are not taken over",
        "backup/work.py",
        "return self.parent is not None and not self.parent.damaged",
        "return self.parent is not None",
        (_TABLES + "test_damage_that_was_mended_is_read_again",),
    ),
    Mutant(
        "removed-rows",
        "a delta says which manifests and files are gone",
        "backup/work.py",
        "[identity for identity in work.known if identity not in carried]",
        "[]",
        (_TABLES + "test_files_of_a_manifest_that_is_gone_are_gone_with_it",),
    ),
    Mutant(
        "moved-on",
        "a table that moved on is read again",
        "backup/run.py",
        "surveyor.moved_on(work) if failures and number < MAX_ROUNDS else None",
        "None",
        (_TABLES + "test_a_table_that_moved_on_is_read_again",),
    ),
    Mutant(
        "metadata-replaced-meanwhile",
        "metadata that was replaced while a table was read is noticed",
        "backup/run.py",
        "if not failures and stored_metadata(",
        "if failures and stored_metadata(",
        (_OVER_TIME + "test_metadata_that_is_replaced_while_the_table_is_read_is_read_again",),
    ),
    Mutant(
        "two-passes",
        "pointers are read until two passes agree",
        "backup/capture.py",
        "        if current == previous:\n",
        "        if True:\n",
        (_TABLES + "test_pointers_that_change_between_two_passes_are_read_once_more",),
    ),
    Mutant(
        "last-good-version",
        "a table that fails keeps its last good version",
        "backup/survey.py",
        "        if item.kept_pit is not None\n",
        "        if item.kept_pit is not None and False\n",
        (_TABLES + "test_a_table_that_fails_keeps_its_last_good_version",),
    ),
    Mutant(
        "missing-file-fails",
        "a table with a missing file is not published",
        "backup/run.py",
        "elif failures and not self._may_skip(work, failures):",
        "elif failures and not self._may_skip(work, failures) and work.parent:",
        (_TABLES + "test_a_missing_file_fails_the_table_and_publishes_nothing",),
    ),
    Mutant(
        "one-uuid-two-tables",
        "an id that another table holds is not given away",
        "backup/plan.py",
        " and uuid not in taken",
        "",
        (_DECISIONS + "test_an_id_that_an_unchanged_table_holds_is_not_given_away",),
    ),
)

STORING = (
    Mutant(
        "adopted-is-hashed",
        "what lies at a key is adopted only if it hashes equal",
        "backup/copy.py",
        "if self._transfer.hash(self._repository, key).is_same(content):",
        "if self._transfer.hash(self._repository, key).size_bytes == content.size_bytes:",
        _LEFTOVER,
    ),
    Mutant(
        "alternative-key",
        "other bytes at a known path get a key of their own",
        "backup/copy.py",
        "                or self._try_key(source, layout.alternative_data_key(key, self._pit))\n",
        "",
        _LEFTOVER,
    ),
    Mutant(
        "untouched",
        "keys of a table are taken to be free only if nothing is stored under them",
        "backup/stage.py",
        " if next(repository.iter_keys(prefixes[number]), None) is None",
        "",
        (_TABLES + "test_what_a_killed_run_left_is_adopted_if_it_is_the_same",),
    ),
    Mutant(
        "derived-after-pit",
        "documents that repeat PITs are written after the PIT",
        "backup/run.py",
        "            publish(repository, lease, manifest)\n"
        "            properties = self._catalog.public_properties()\n"
        "            write_derived(repository, manifest, start.parent, properties, entries)\n",
        "            properties = self._catalog.public_properties()\n"
        "            write_derived(repository, manifest, start.parent, properties, entries)\n"
        "            publish(repository, lease, manifest)\n",
        (_TABLES + "test_a_writer_that_lost_its_lease_publishes_nothing",),
    ),
    Mutant(
        "flush-before-pit",
        "all that a PIT needs is flushed before it appears",
        "backup/publish.py",
        "    repository.storage.flush()\n    lease.publish(",
        "    lease.publish(",
        (_CRASH + "test_everything_a_pit_needs_is_flushed_before_it_appears",),
    ),
    Mutant(
        "pit-after-flush",
        "the PIT comes last, after the flush",
        "backup/publish.py",
        "    repository.storage.flush()\n    lease.publish(render_document(render_pit(pit)))\n",
        "    lease.publish(render_document(render_pit(pit)))\n    repository.storage.flush()\n",
        (_CRASH + "test_everything_a_pit_needs_is_flushed_before_it_appears",),
    ),
    Mutant(
        "ids-of-failed-runs",
        "the id of a run that failed is not used again",
        "backup/run.py",
        "[*repository.pit_ids(), *leased_pits(repository.storage)]",
        "repository.pit_ids()",
        (_TABLES + "test_the_id_of_a_run_that_failed_is_not_used_again",),
    ),
)

REFUSALS = (
    Mutant(
        "all-gone",
        "a source of which all tables are gone is not believed",
        "backup/plan.py",
        "gone == known or ",
        "",
        (_DECISIONS + "test_so_many_tables_do_not_vanish_by_themselves",),
    ),
    Mutant(
        "half-gone",
        "nor one of which over half are gone",
        "backup/plan.py",
        "gone * 2 > known",
        "gone > known",
        (_DECISIONS + "test_so_many_tables_do_not_vanish_by_themselves",),
    ),
    Mutant(
        "deletions-are-checked",
        "deletions are checked before a PIT is made",
        "backup/run.py",
        "            surveyor.check_gone(survey)\n",
        "            pass\n",
        (_TABLES + "test_when_all_tables_seem_gone_the_backup_refuses",),
    ),
    Mutant(
        "overlap-warehouse",
        "a repository in a warehouse is refused",
        "backup/run.py",
        "        check_places(self._request.repository, self._catalog.warehouse_roots(), "
        '"warehouse")\n',
        "",
        (_TABLES + "test_a_repository_in_a_warehouse_or_around_it_is_refused",),
    ),
    Mutant(
        "overlap-table",
        "a repository in a table is refused",
        "backup/survey.py",
        "                check_places(self._spec, source.declared, ",
        "                check_places(self._spec, (), ",
        (_TABLES + "test_a_repository_in_a_table_outside_of_the_warehouse_is_refused",),
    ),
    Mutant(
        "scope-lock",
        "a repository stays locked to its scope",
        "backup/scope.py",
        "    if asked is not None and asked != locked:\n",
        "    if False:\n",
        (_DECISIONS + "test_a_repository_is_locked_to_its_first_scope",),
    ),
    Mutant(
        "unsupported-is-refused",
        "what cannot be kept exactly is refused before it is read",
        "backup/work.py",
        "    check_supported(document)\n",
        "",
        (_TABLES + "test_what_cannot_be_kept_exactly_is_refused",),
    ),
)

MUTANTS = (*LIVE_FILES, *CHANGES, *STORING, *REFUSALS)
