"""Steps of a restore: what is rewritten, compared, checked, and asked again."""

from __future__ import annotations

from tests.mutants import subsets
from tests.mutants.mutant import Mutant

_REWRITES = "tests/restore/test_rewrites.py::"
_CHECKS = "tests/restore/test_small_checks.py::"
_RACES = "tests/restore/test_races.py::"
_OVERTAKEN = _RACES + "test_who_is_overtaken_in_any_phase_is_told_so_and_leaves_the_winner_alone"
_SMALL = _REWRITES + "test_a_small_table_differs_in_its_places_only"

_DAMAGE = _CHECKS + "test_one_changed_byte_is_found_and_nothing_appears"
_LEFTOVER = (_CHECKS + "test_what_a_stopped_restore_left_is_hashed_before_it_is_adopted",)
_INCOMPLETE = (
    _CHECKS + "test_a_file_that_is_not_there_or_too_short_is_noticed_before_the_table_appears",
)
_INSIDE = (_CHECKS + "test_a_target_in_the_repository_or_the_source_is_refused",)

REWRITING = (
    Mutant(
        "restore-position-deletes",
        "position deletes are rewritten",
        "restore/tasks.py",
        '"position_deletes": DELETES,',
        '"position_deletes": COPY,',
        (_SMALL + "[2]",),
    ),
    Mutant(
        "restore-deletion-vectors",
        "deletion vectors are rewritten",
        "restore/tasks.py",
        '"deletion_vectors": DELETES,',
        '"deletion_vectors": COPY,',
        (_SMALL + "[3]",),
    ),
    Mutant(
        "restore-puffin-footer",
        "their footers are",
        "restore/stage.py",
        "return relocate_puffin(data, recipe.moves), None, None",
        "return data, None, None",
        (_REWRITES + "test_pyiceberg_reads_the_deletion_vectors_of_a_restored_table",),
    ),
    Mutant(
        "restore-manifests",
        "manifests are rewritten",
        "restore/tasks.py",
        '"manifest": MANIFESTS,',
        '"manifest": COPY,',
        (_SMALL + "[2]",),
    ),
    Mutant(
        "restore-new-sizes",
        "sizes of what was rewritten go up into manifests and lists",
        "restore/stage.py",
        '"size_bytes": len(new),',
        '"size_bytes": row["size_bytes"],',
        (_SMALL + "[2]",),
    ),
    Mutant(
        "restore-order",
        "deletes are rewritten before the manifests that hold their sizes",
        "restore/tasks.py",
        "STEPS = (COPY, DELETES, MANIFESTS, LISTS)",
        "STEPS = (COPY, MANIFESTS, DELETES, LISTS)",
        (_SMALL + "[2]",),
    ),
    Mutant(
        "restore-inside",
        "no path leads out of its target",
        "restore/stage.py",
        '".." in row["location"][len(move.old) :].split("/")',
        "False",
        (_REWRITES + "test_a_path_that_leads_out_of_its_root_is_not_followed_out_of_the_target",),
    ),
    Mutant(
        "restore-new-uuid",
        "a copy gets a new uuid",
        "restore/register.py",
        "return None if keep else str(uuid.uuid4())",
        "return None",
        (_REWRITES + "test_a_copy_is_another_table_unless_told_otherwise",),
    ),
    Mutant(
        "restore-same-uuid",
        "a table that comes back to its place keeps its uuid",
        "restore/register.py",
        " or (policy is UuidPolicy.AUTO and target.keeps_uuid)",
        "",
        (_REWRITES + "test_a_table_that_comes_back_to_its_place_is_the_same_table",),
    ),
    Mutant(
        "restore-scratch",
        "nothing but the table is left at a target",
        "restore/place.py",
        '        self._storage.delete_all(f"{self._prefix}/{SCRATCH}/")\n',
        "        pass\n",
        (_CHECKS + "test_a_restore_that_was_stopped_goes_on_with_what_it_has",),
    ),
    Mutant(
        "restore-scratch-of-others",
        "nor at one that an earlier run has finished",
        "restore/run.py",
        "        for table in (*back, *tables[:1]):",
        "        for table in tables[:1]:",
        (_CHECKS + "test_a_restore_that_was_stopped_between_two_tables_leaves_nothing_but_them",),
    ),
)

COMPARING = (
    Mutant(
        "sha256-of-copies",
        "files are compared with their SHA-256 while they are copied",
        "restore/stage.py",
        '        if copied.sha256 != row["sha256"]:\n',
        "        if False:\n",
        (_DAMAGE, "-k", "f0"),
    ),
    Mutant(
        "damaged-copies-go",
        "a damaged copy is not left for the next run to find",
        "restore/stage.py",
        "            target.delete(key)\n",
        "",
        (_CHECKS + "test_a_damaged_file_is_not_left_at_the_target",),
    ),
    Mutant(
        "sha256-of-manifests",
        "files are compared with their SHA-256 before they are rewritten",
        "restore/stage.py",
        '        if sha256(data) != row["sha256"].hex():\n',
        "        if False:\n",
        (_DAMAGE, "-k", "m0 or one.parquet"),
    ),
    Mutant(
        "sha256-of-metadata",
        "the metadata document is compared with its SHA-256",
        "restore/register.py",
        "    if sha256(data) != entry.metadata_sha256:\n",
        "    if False:\n",
        (_DAMAGE, "-k", "metadata.json"),
    ),
    Mutant(
        "leftover-copies",
        "copies that an earlier run left are hashed before they are adopted",
        "restore/stage.py",
        '        if self._transfer.hash(target, key).sha256 != row["sha256"]:\n',
        "        if False:\n",
        _LEFTOVER,
    ),
    Mutant(
        "leftover-rewrites",
        "so are files that an earlier run rewrote",
        "restore/stage.py",
        "            if storage.read(key) != data:\n",
        "            if False:\n",
        _LEFTOVER,
    ),
)

PLACES = (
    Mutant(
        "target-not-empty",
        "a target that is not empty is refused",
        "restore/place.py",
        "        if found is not None:\n            raise TargetExistsError(",
        "        if False:\n            raise TargetExistsError(",
        (_CHECKS + "test_a_target_that_is_not_empty_is_refused_and_left_alone",),
    ),
    Mutant(
        "marker",
        "a restore that is under way is marked",
        "restore/run.py",
        "        tables[0].marker.set()  #",
        "        #",
        (_CHECKS + "test_a_restore_that_was_stopped_goes_on_with_what_it_has",),
    ),
    Mutant(
        "marker-of-another-pit",
        "the mark of a restore of another PIT is not ours",
        "restore/place.py",
        '            "pit": str(pit),\n',
        "",
        (_CHECKS + "test_an_unfinished_restore_of_another_pit_is_not_gone_on_with",),
    ),
    Mutant(
        "target-name",
        "a name that is taken is refused",
        "restore/prepare.py",
        "            if target.replaces is None:\n                raise\n",
        "",
        (_CHECKS + "test_a_name_that_is_taken_is_refused_before_anything_is_copied",),
    ),
    Mutant(
        "target-in-repository",
        "a target in the repository is refused",
        "restore/place.py",
        "    if overlaps(target.location, repository.location):\n",
        "    if False:\n",
        _INSIDE,
    ),
    Mutant(
        "target-in-source",
        "a target in the source is refused",
        "restore/place.py",
        "        if overlaps(target.location, root):\n",
        "        if False:\n",
        _INSIDE,
    ),
    Mutant(
        "targets-apart",
        "two tables are not restored into each other",
        "restore/place.py",
        "        if second.startswith(first):\n",
        "        if False:\n",
        (_CHECKS + "test_two_tables_are_never_restored_into_each_other",),
    ),
)

RACES = (
    Mutant(
        "race-own-notes",
        "two restores of one table do not share working files",
        "restore/place.py",
        '        return f"{self._target.location}/{SCRATCH}/{self._run}"\n',
        '        return f"{self._target.location}/{SCRATCH}"\n',
        (_RACES + "test_what_a_restore_of_fewer_tables_notes_meanwhile_is_not_taken_for_ones_own",),
    ),
    Mutant(
        "race-told",
        "who is overtaken while files are copied is told so",
        "restore/run.py",
        "            with told_of_others(self._catalog, tables):\n",
        "            if True:\n",
        (_OVERTAKEN + "[copying-sql]",),
    ),
    Mutant(
        "race-told-late",
        "so is who is overtaken before a table is registered",
        "restore/run.py",
        "            with told_of_others(self._catalog, [table]):\n",
        "            if True:\n",
        (_OVERTAKEN + "[registering-hadoop]",),
    ),
    Mutant(
        "race-told-of-views",
        "or a view",
        "restore/run.py",
        "            with told_of_others(self._catalog, [view]):\n",
        "            if True:\n",
        (_RACES + "test_of_two_that_bring_a_view_one_does",),
    ),
    Mutant(
        "race-at-work",
        "who finds bytes of a restore that has not ended is told whose",
        "restore/race.py",
        "            _raise_rival(items, error)\n",
        "            pass\n",
        (_RACES + "test_who_finds_other_bytes_of_a_restore_that_is_at_work_is_told_whose",),
    ),
    Mutant(
        "race-leaves-nothing",
        "who was overtaken takes its working files back",
        "restore/race.py",
        "            lost.marker.abandon()\n",
        "",
        (_RACES + "test_who_loses_takes_working_files_back_that_the_winner_did_not_look_for",),
    ),
    Mutant(
        "race-leaves-no-mark",
        "and its mark",
        "restore/place.py",
        '            if self._load().get("run") == self._run:\n',
        "            if False:\n",
        (_RACES + "test_who_loses_where_a_table_was_takes_its_mark_back",),
    ),
    Mutant(
        "race-looks-again",
        "what has come to a place before it was marked is not adopted",
        "restore/place.py",
        "            self._look_again()\n",
        "            pass\n",
        (_RACES + "test_files_of_a_restore_under_another_name_are_not_adopted",),
    ),
    Mutant(
        "race-own-table",
        "a table that this very run has registered is no other's",
        "restore/race.py",
        "pointer is not None and pointer.metadata_location != item.metadata_location",
        "pointer is not None",
        (_RACES + "test_what_goes_wrong_after_ones_own_registering_is_told_as_it_is",),
    ),
    Mutant(
        "race-removing",
        "a folder goes though others write there",
        "storage/local_folders.py",
        "            if error.errno not in _MEANWHILE or tries == 0:\n",
        "            if True:\n",
        ("tests/storage/test_local.py::test_a_folder_goes_though_others_write_there",),
    ),
)

CHECKING = (
    Mutant(
        "check-before-register",
        "restored manifests are walked before the table appears",
        "restore/run.py",
        "            self._check()\n",
        "            pass\n",
        _INCOMPLETE,
    ),
    Mutant(
        "check-files",
        "files that restored manifests name are there",
        "restore/stage.py",
        "    if stat is None:\n        raise DamagedRepositoryError(",
        "    if stat is None:\n        return\n        raise DamagedRepositoryError(",
        _INCOMPLETE,
    ),
    Mutant(
        "check-sizes",
        "and as long as recorded",
        "restore/stage.py",
        "    if stat.size_bytes != size:\n",
        "    if False:\n",
        _INCOMPLETE,
    ),
    Mutant(
        "check-in-place",
        "manifests that stayed as they were are walked too",
        "restore/run.py",
        "for step in (MANIFESTS, COPY):",
        "for step in (MANIFESTS,):",
        (_CHECKS + "test_in_place_the_manifests_that_were_copied_are_checked_too",),
    ),
    Mutant(
        "odd-sizes",
        "a file that never was as long as recorded is no damage",
        "restore/stage.py",
        "task.odd_sizes.get(path, size)",
        "size",
        (_REWRITES + "test_a_file_that_is_not_as_long_as_recorded_is_kept_as_it_is",),
    ),
    Mutant(
        "flush-before-register",
        "all that a table needs is flushed before it appears",
        "restore/run.py",
        "flush_places(move.new for table in tables for move in table.target.moves.moves)\n",
        "pass\n",
        (_CHECKS + "test_a_table_is_on_the_disk_before_it_appears",),
    ),
    Mutant(
        "ask-again",
        "the catalog is asked again after registering",
        "restore/run.py",
        "            check_registered(self._stores, self._catalog, target, location, document)\n",
        "",
        (_CHECKS + "test_a_catalog_that_forgets_a_table_at_once_is_found_out",),
    ),
    Mutant(
        "ask-for-history",
        "and must give back every snapshot",
        "restore/register.py",
        "    if (kept, len(found.snapshots)) != (len(wanted.snapshots),) * 2:\n",
        "    if False:\n",
        (_CHECKS + "test_a_catalog_that_drops_history_is_found_out",),
    ),
)

MUTANTS = (*REWRITING, *COMPARING, *PLACES, *RACES, *CHECKING, *subsets.MUTANTS)
