"""Steps that keep what is needed, delete the rest when that is safe, and make anew what repeats."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_PRUNE = "tests/maintenance/test_prune.py::"
_LIVE = "tests/maintenance/test_live.py::"
_STEPS = "tests/maintenance/test_prune_steps.py::"
_REPAIR = "tests/maintenance/test_repair.py::"
_LOSSES = "tests/maintenance/test_repair_losses.py::"
_DERIVED = "tests/repository/test_derived.py::"

PRUNE = (
    Mutant(
        "prune-folds",
        "a file that a later layer took away is needed only by PITs before that layer",
        "maintenance/live.py",
        "            state = fold_layer(state, parts)\n",
        "            added = [part.filter(pc.equal(part['change'], ADDED)) for part in parts]\n"
        "            state = fold_layer(state, added)\n",
        (_PRUNE + "test_what_only_a_removed_pit_needed_goes_and_all_else_stays",),
    ),
    Mutant(
        "prune-older-versions",
        "what an older PIT needs is needed though the newest does not need it",
        "maintenance/live.py",
        '        fresh = state.filter(pc.greater_equal(state["layer"], len(known)))\n',
        "        fresh = state.slice(0, 0 if len(chain) == 1 else None)\n",
        (_STEPS + "test_a_file_that_a_backup_adopted_since_it_was_listed_stays",),
    ),
    Mutant(
        "prune-full-layer",
        "a full layer begins an inventory anew",
        "maintenance/live.py",
        "        if chain[: len(known)] != known:\n",
        "        if False:\n",
        (_LIVE + "test_the_keys_of_every_folded_inventory_and_no_others_are_needed",),
    ),
    Mutant(
        "prune-slots",
        "removals reach every share of an inventory",
        "maintenance/live.py",
        'pc.or_(pc.invert(is_added), pa.array(slot_of(rows["path"], slot)))',
        'pa.array(slot_of(rows["path"], slot))',
        (_LIVE + "test_the_keys_of_every_folded_inventory_and_no_others_are_needed",),
    ),
    Mutant(
        "prune-needs-layers",
        "the layers that PITs fold are needed",
        "maintenance/live.py",
        "        yield (part.key for layer in entry.layers for part in layer.parts)\n",
        "",
        (_PRUNE + "test_after_backups_that_went_well_there_is_nothing_to_prune",),
    ),
    Mutant(
        "prune-damaged-layer",
        "nothing is deleted while a layer or an entry cannot be read",
        "maintenance/live.py",
        "    if problems:\n",
        "    if False:\n",
        (_PRUNE + "test_while_anything_needed_cannot_be_read_nothing_is_listed_or_deleted",),
    ),
    Mutant(
        "prune-damaged-pit",
        "nothing is deleted while a PIT cannot be read",
        "maintenance/prune.py",
        "    if history.unreadable:\n",
        "    if False:\n",
        (_PRUNE + "test_while_anything_needed_cannot_be_read_nothing_is_listed_or_deleted",),
    ),
    Mutant(
        "prune-other-catalog",
        "PITs of a catalog that manifest.json does not name are not overlooked",
        "maintenance/prune.py",
        "        if layout.parse_pit_key(key) and (own is None or not key.startswith(own)):\n",
        "        if False:\n",
        (_PRUNE + "test_a_manifest_json_of_another_catalog_does_not_make_everything_unneeded",),
    ),
    Mutant(
        "prune-no-pit",
        "nothing is deleted when every PIT is gone",
        "maintenance/prune.py",
        '    if history.newest is None and repository.document.get("last_pit") is not None:\n',
        "    if False:\n",
        (_PRUNE + "test_when_every_pit_is_gone_nothing_is_deleted",),
    ),
    Mutant(
        "prune-grace",
        "what was listed waits for the grace period",
        "maintenance/prune.py",
        "        return not grace or listed_at + grace <= now\n",
        "        return True\n",
        (_STEPS + "test_the_first_run_lists_and_a_run_after_the_grace_period_deletes",),
    ),
    Mutant(
        "prune-changed",
        "a file that changed since it was listed waits anew",
        "maintenance/prune.py",
        "if item.versions.get(orphan.key) == orphan.version)",
        "if orphan.key in item.versions)",
        (_STEPS + "test_a_file_that_changed_since_it_was_listed_waits_anew",),
    ),
    Mutant(
        "prune-lists-first",
        "what is to be deleted is listed first",
        "maintenance/prune.py",
        "        if plan.unlisted:\n            lease.publish(",
        "        if False:\n            lease.publish(",
        (_STEPS + "test_the_first_run_lists_and_a_run_after_the_grace_period_deletes",),
    ),
    Mutant(
        "prune-lease",
        "a prune that lost its lease stops deleting",
        "maintenance/prune.py",
        "                self._lease.check()\n",
        "                pass\n",
        (_STEPS + "test_a_prune_that_lost_its_lease_stops_deleting",),
    ),
    Mutant(
        "prune-prefixes",
        "only what lies in entries, snapshots and deltas is deleted under catalogs/",
        "maintenance/orphans.py",
        "    return (key for key in keys if layout.find_stored_folder(key) is not None)\n",
        "    return (key for key in keys)\n",
        (_PRUNE + "test_nothing_outside_its_prefixes_is_named",),
    ),
    Mutant(
        "prune-meanwhile",
        "a dry run looks again when a PIT was published meanwhile",
        "maintenance/prune.py",
        "            if repository.pit_ids() == before:\n",
        "            if True:\n",
        (_STEPS + "test_a_dry_run_does_not_name_what_is_published_while_it_looks",),
    ),
)

REPAIR = (
    Mutant(
        "repair-pits-hold",
        "where manifest.json and PITs disagree, PITs hold",
        "maintenance/repair.py",
        "**stored, **said,",
        "**stored,",
        (_REPAIR + "test_where_manifest_json_and_points_in_time_disagree_they_hold",),
    ),
    Mutant(
        "repair-stale",
        "documents that nothing calls for go",
        "maintenance/repair.py",
        "        if is_known:\n",
        "        if False:\n",
        (_REPAIR + "test_documents_that_nothing_calls_for_and_half_written_ones_go",),
    ),
    Mutant(
        "repair-keeps-traces",
        "while something cannot be read, documents that may be its only trace stay",
        "maintenance/repair.py",
        "        if is_known:\n",
        "        if True:\n",
        (_LOSSES + "test_a_damaged_or_missing_entry_is_named_with_the_pits_that_need_it",),
    ),
    Mutant(
        "quarantine-damaged-only",
        "only a damaged PIT is set aside",
        "maintenance/repair.py",
        '        raise RefusedError(\n            f"{pit} is whole',
        '        return pit\n        raise RefusedError(\n            f"{pit} is whole',
        (_LOSSES + "test_what_is_whole_or_unknown_is_not_set_aside",),
    ),
    Mutant(
        "quarantine-keeps-bytes",
        "the bytes of a PIT that is set aside are kept",
        "maintenance/repair.py",
        "            storage.write_once(key, storage.read(place))\n",
        "            pass\n",
        (_LOSSES + "test_several_damaged_manifests_of_one_pit_are_all_kept",),
    ),
    Mutant(
        "quarantine-marker",
        "a marker keeps the id of a PIT that is set aside",
        "maintenance/repair.py",
        "        storage.replace(place, render_document(marker))\n",
        "        storage.delete(place)\n",
        (_LOSSES + "test_the_id_of_a_pit_that_was_set_aside_is_not_used_again",),
    ),
    Mutant(
        "gone-is-no-time",
        "the id of a PIT that is gone is not taken for a time",
        "repository/resolve.py",
        "    if not matches and PitId.find(text) is not None:",
        "    if False:",
        (_LOSSES + "test_asking_for_a_pit_that_was_set_aside_never_gives_another",),
    ),
    Mutant(
        "held-by-whole-versions",
        "only whole versions of a table count as held",
        "maintenance/losses.py",
        "            held.update([] if found else version.pits)\n",
        "            held.update(version.pits)\n",
        (_LOSSES + "test_a_damaged_layer_is_named_with_every_pit_that_folds_it",),
    ),
)

DERIVED = (
    Mutant(
        "derived-after-a-cut",
        "what a killed run did not bring up to date is made anew",
        "repository/refresh.py",
        "    if parent is not None and _find_last_pit(storage) == str(parent.pit):\n",
        "    if parent is not None:\n",
        (_DERIVED + "test_what_a_cut_run_did_not_write_is_written_by_the_next",),
    ),
    Mutant(
        "derived-back-again",
        "a table that comes back leaves the list of deleted ones",
        "repository/refresh.py",
        "            for namespace in {**before, **after}\n",
        "            for namespace in after\n",
        (_DERIVED + "test_deleted_tables_are_listed_until_they_come_back",),
    ),
    Mutant(
        "derived-old-name",
        "the document under an old name goes",
        "repository/refresh.py",
        "                documents[layout.table_manifest_key(self.catalog, old)] = None\n",
        "                pass\n",
        (_DERIVED + "test_a_table_has_a_document_with_its_names_versions_and_layers",),
    ),
    Mutant(
        "derived-names",
        "names are kept when their document is lost",
        "repository/refresh.py",
        "        known = self._history.objects.get(record.object_id)\n",
        "        known = None\n",
        (_DERIVED + "test_garbage_in_a_document_does_not_stop_a_backup_or_lose_names",),
    ),
    Mutant(
        "derived-last-pit-of-a-database",
        "a deleted database names the last PIT that has it",
        "repository/derived.py",
        "        self.gone = {name: self.gone.get(name, item) for name, item in gone.items()}\n",
        "        self.gone = gone\n",
        (_DERIVED + "test_small_changes_give_what_all_pits_say",),
    ),
    Mutant(
        "derived-only-changes",
        "a backup writes only documents of what changed",
        "repository/refresh.py",
        "            if record.object_id not in read and old == record.table:\n",
        "            if False:\n",
        (_DERIVED + "test_a_backup_reads_and_writes_only_documents_of_what_changed",),
    ),
)

MUTANTS: tuple[Mutant, ...] = (*PRUNE, *REPAIR, *DERIVED)
