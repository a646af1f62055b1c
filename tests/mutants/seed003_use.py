"""Seed 003, groups 6 to 10: the step without which each test fails."""

from __future__ import annotations

from tests.mutants.seed003_step import steps

RESTORE_FLEXIBILITY = steps(
    "test_restore_flexibility.py",
    (
        "restore_subset_from_full_catalog_backup",
        "a table is known by its full name too",
        "restore/choose.py",
        ("_Names((*full.own, *name.own), (*full.shared, *name.shared), item.object_id)"),
        "_Names(name.own, name.shared, item.object_id)",
    ),
    (
        "restore_subset_from_full_database_backup",
        "a table gets the name that is asked for",
        "restore/plan.py",
        "name = table.name if template is None else fill_name(template, table)",
        "name = table.name",
    ),
    (
        "restore_with_object_filters",
        "--exclude leaves out",
        "restore/choose.py",
        "    if wanted.exclude:\n",
        "    if False:\n",
    ),
    (
        "restore_with_deleted_objects_included",
        "--include-deleted brings back what is gone",
        "restore/choose.py",
        "        if wanted.include_deleted:\n",
        "        if False:\n",
    ),
    (
        "restore_with_deleted_objects_excluded",
        "without it, what is gone stays gone",
        "restore/choose.py",
        "        if wanted.include_deleted:\n",
        "        if gone:\n",
    ),
    (
        "restore_schema_validation_and_migration",
        "what the target cannot hold is refused first",
        "catalog/hadoop.py",
        'if (document.get("properties") or {}).get("write.metadata.path"):',
        "if False:",
    ),
)

TOOLING = steps(
    "test_tooling.py",
    (
        "describe_shows_granularity",
        "describe says what a repository is locked to",
        "repository/listing.py",
        "        granularity=scope.granularity if scope else None,\n",
        "        granularity=None,\n",
    ),
    (
        "describe_shows_all_pits",
        "describe says what is gone",
        "repository/listing.py",
        "        deleted=(*_deleted_databases(newest), *_deleted(newest)) if newest else (),\n",
        "        deleted=(),\n",
    ),
    (
        "list_databases_for_pit",
        "--pit takes the PIT whose id it is",
        "repository/resolve.py",
        "return matches[0] if matches else",
        "return pits[-1] if matches else",
    ),
    (
        "list_tables_for_database_pit",
        "--database of list chooses",
        "repository/listing.py",
        "objects = [item for item in objects if item.database == wanted]",
        "objects = list(objects)",
    ),
    (
        "list_shows_object_status",
        "list tells UNCHANGED from ACTIVE",
        "repository/listing.py",
        "status = item.status if item.status in {UNCHANGED, FAILED} else ACTIVE",
        "status = ACTIVE",
    ),
    (
        "restore_with_pit_selection",
        "latest~N counts back",
        "repository/resolve.py",
        "    return pits[-1 - steps]",
        "    return pits[-1]",
    ),
    (
        "restore_with_database_filter",
        "--database of restore chooses",
        "restore/choose.py",
        "        inside = scene.within(picked)\n",
        "        inside = scene\n",
    ),
    (
        "restore_to_different_location",
        "the metadata names the table's new place",
        "iceberg/metadata.py",
        '        "location": moves.apply,\n',
        '        "location": lambda found: found,\n',
    ),
)

PERFORMANCE = steps(
    "test_performance.py",
    (
        "incremental_backup_performance_large_catalog",
        "Spark starts only if there is anything to read",
        "backup/survey.py",
        "        sources: list[Source] = []\n",
        "        on_change()\n        sources: list[Source] = []\n",
    ),
    (
        "restore_performance_large_dataset",
        "all tables are restored together",
        "restore/run.py",
        "                self._restore(tables)\n",
        "                for one in tables:\n                    self._restore([one])\n",
    ),
    (
        "concurrent_read_during_backup",
        "describe says who writes",
        "repository/listing.py",
        "        lease=lease,\n",
        "        lease=None,\n",
    ),
    (
        "pit_manifest_query_performance",
        "PITs are found by the index",
        "repository/repository.py",
        ('            return {line["pit"]: line for line in lines}\n        except'),
        ('            return {line["pit"]: line for line in lines[:0]}\n        except'),
    ),
)

ERRORS = steps(
    "test_errors.py",
    (
        "reject_backup_narrower_than_previous",
        "a DATABASE repository takes no TABLE",
        "backup/scope.py",
        "    if asked is not None and asked != locked:\n",
        ('    if asked is not None and asked != locked and asked.granularity != "TABLE":\n'),
    ),
    (
        "reject_backup_broader_than_previous",
        "a DATABASE repository takes no CATALOG",
        "backup/scope.py",
        "    if asked is not None and asked != locked:\n",
        ('    if asked is not None and asked != locked and asked.granularity != "CATALOG":\n'),
    ),
    (
        "invalid_catalog_name",
        "names that cannot be are refused as such",
        "api/parts.py",
        "        check_name(catalog),\n",
        "        catalog,\n",
    ),
    (
        "invalid_database_name",
        "a database that is not there is told",
        "backup/capture.py",
        ("        catalog.load_namespace(scope.database)\n        levels"),
        "        levels",
    ),
    (
        "corrupted_pit_manifest_recovery",
        "repair writes what repeats PITs",
        "maintenance/repair.py",
        "            self._apply(repository, plan, lease)\n",
        "",
    ),
    (
        "missing_referenced_data_error",
        "verify names a stored file that is gone",
        "maintenance/inspection.py",
        '            self._find(2, chain, key, f"stored file {key} is missing")\n',
        "            pass\n",
    ),
    (
        "insufficient_storage_error",
        "a full disk is told as such",
        "storage/local.py",
        ("    if error.errno in _FULL:\n        return StorageFullError(text)\n"),
        "",
    ),
)

MUTANTS = (*RESTORE_FLEXIBILITY, *TOOLING, *PERFORMANCE, *ERRORS)
