"""Seed 003, groups 1 to 5: the step without which each test fails."""

from __future__ import annotations

from tests.mutants.seed003_step import steps

SINGLE_TABLE = steps(
    "test_single_table.py",
    (
        "backup_single_table_first_time",
        "a TABLE scope takes its table and no other of the database",
        "backup/capture.py",
        ("pointers = [pointer for pointer in pointers if pointer.table == table_of(scope)]"),
        "pointers = list(pointers)",
    ),
    (
        "incremental_backup_single_table",
        "a table whose pointer moved is read again",
        "backup/plan.py",
        (
            "        and record.metadata_location == pointer.metadata_location\n"
            "        and record.metadata_version == version\n"
        ),
        "",
    ),
    (
        "incremental_backup_no_changes",
        "a table whose pointer is as before is UNCHANGED",
        "backup/plan.py",
        "        version is not None\n",
        "        version is None\n",
    ),
    (
        "restore_single_table",
        "a table that comes back where it was keeps its uuid",
        "restore/register.py",
        " or (policy is UuidPolicy.AUTO and target.keeps_uuid)",
        "",
    ),
    (
        "restore_single_table_to_different_location",
        "a place that is asked for is where the table goes",
        "restore/prepare.py",
        ("if self._request.target_location is not None:\n            return"),
        ("if False:\n            return"),
    ),
    (
        "backup_single_table_idempotent",
        "what is UNCHANGED keeps the entry that it has",
        "backup/survey.py",
        'replace(item, status="UNCHANGED") for item in self.comparison.unchanged',
        'replace(item, status="NEW") for item in self.comparison.unchanged',
    ),
)

DATABASE_LEVEL = steps(
    "test_database_level.py",
    (
        "backup_entire_database",
        "a DATABASE scope takes the tables of its database alone",
        "backup/capture.py",
        (
            "pointers = [pointer for namespace in levels for pointer in "
            "catalog.iter_pointers(namespace)]"
        ),
        "pointers = list(catalog.iter_pointers())",
    ),
    (
        "incremental_database_with_new_tables",
        "a table that the parent does not know is read",
        "backup/plan.py",
        ("        else:\n            to_read.append(pointer)"),
        ("        elif record is not None or parent is None:\n            to_read.append(pointer)"),
    ),
    (
        "incremental_database_with_deleted_tables",
        "what the parent has and the source has no more is deleted",
        "backup/plan.py",
        "        if record.object_id not in present\n",
        "        if record.object_id in {}\n",
    ),
    (
        "incremental_database_with_renamed_tables",
        "a PIT says what was renamed",
        "backup/plan.py",
        "        if item.object_id in held and held[item.object_id] != item.table\n",
        "        if item.object_id in held and held[item.object_id] is None\n",
    ),
    (
        "restore_partial_database_subset",
        "--table chooses",
        "restore/choose.py",
        "    if wanted.tables:\n",
        "    if False:\n",
    ),
    (
        "restore_database_to_different_catalog",
        "a Hadoop catalog finds tables by the name of their first metadata",
        "restore/register.py",
        "new_name = catalog.metadata_name(name)",
        "new_name = name",
    ),
)

CATALOG_LEVEL = steps(
    "test_catalog_level.py",
    (
        "backup_entire_catalog",
        "databases without tables are part of a catalog",
        "backup/capture.py",
        "        pointers = list(catalog.iter_pointers())\n",
        (
            "        pointers = list(catalog.iter_pointers())\n"
            "        levels = sorted({pointer.table.namespace for pointer in "
            "pointers})\n"
        ),
    ),
    (
        "incremental_catalog_backup",
        "a PIT names its parent",
        "backup/run.py",
        ("parent=parent.pit if parent else None,\n            captured_at"),
        ("parent=None,\n            captured_at"),
    ),
    (
        "incremental_catalog_with_new_database",
        "databases are those of the capture",
        "backup/run.py",
        "            namespaces=captured.namespaces,\n",
        ("            namespaces=parent.namespaces if parent else captured.namespaces,\n"),
    ),
    (
        "incremental_catalog_with_deleted_database",
        "a PIT says which databases are gone",
        "backup/plan.py",
        "    return tuple(sorted({name for name in known if name not in present}))",
        "    return ()",
    ),
    (
        "restore_full_catalog",
        "databases come back with their properties",
        "restore/run.py",
        "create_namespace(namespace.levels, namespace.properties)",
        "create_namespace(namespace.levels, {})",
    ),
    (
        "restore_catalog_subset_to_new_location",
        "tables go to the database that is asked for",
        "restore/plan.py",
        "request.target_database or table.namespace",
        "table.namespace",
    ),
)

GRANULARITY = steps(
    "test_granularity.py",
    (
        "repository_granularity_is_locked",
        "an edited manifest.json does not overrule PITs",
        "backup/scope.py",
        "known is not None and known != scope:",
        "known is None:",
    ),
    (
        "reject_broader_scope_on_existing_repo",
        "a TABLE repository takes no DATABASE",
        "backup/scope.py",
        "    if asked is not None and asked != locked:\n",
        ('    if asked is not None and asked != locked and asked.granularity != "DATABASE":\n'),
    ),
    (
        "reject_narrower_scope_on_existing_repo",
        "a CATALOG repository takes no TABLE",
        "backup/scope.py",
        "    if asked is not None and asked != locked:\n",
        ('    if asked is not None and asked != locked and asked.granularity != "TABLE":\n'),
    ),
    (
        "incremental_same_granularity_accepted",
        "the same names again are the same scope",
        "backup/scope.py",
        "    if asked is not None and asked != locked:\n",
        "    if asked is not None and asked is not locked:\n",
    ),
    (
        "manifest_integrity_across_pits",
        "a checksum is over sorted keys, as the format says",
        "repository/document.py",
        "sort_keys=True, ",
        "",
    ),
    (
        "concurrent_backup_prevention",
        "a lease that is held is waited for",
        "repository/lease.py",
        (
            "            held = _find_held(self._storage, self._seen)\n"
            "            if held is None:\n"
            "                return None\n"
            "            say"
        ),
        (
            "            held = _find_held(self._storage, self._seen)\n"
            "            if held is None or held:\n"
            "                return None\n"
            "            say"
        ),
    ),
)

EDGE_CASES = steps(
    "test_edge_cases.py",
    (
        "deleted_table_tracking",
        "what was deleted before stays deleted",
        "backup/plan.py",
        ("before = [item for item in parent.deleted if item.object_id not in present]"),
        "before: list[DeletedObject] = []",
    ),
    (
        "deleted_database_tracking",
        "databases that went before stay gone",
        "backup/plan.py",
        "known = [*parent.deleted_namespaces, *(",
        "known = [*(",
    ),
    (
        "renamed_table_detection_with_object_id",
        "a uuid that the capture has once is the object's id",
        "backup/plan.py",
        "if uuid is not None and (unique or held.get(uuid) == pointer.table):",
        "if uuid is not None and held.get(uuid) == pointer.table:",
    ),
    (
        "unnamed_table_without_object_id_treated_as_delete_create",
        "without a uuid the name makes the id",
        "repository/layout.py",
        "(kind, catalog, *table.namespace, table.name, location)",
        "(kind, catalog, location)",
    ),
    (
        "unchanged_object_in_manifest",
        "a PIT has the checksum of what is UNCHANGED",
        "repository/pit.py",
        ('"checksums": {str(item.table): item.metadata_sha256 for item in unchanged},'),
        '"checksums": {},',
    ),
    (
        "schema_evolution_tracking",
        "an entry names every schema",
        "backup/publish.py",
        '"schemas": list(facts.schema_ids),',
        '"schemas": [facts.current_schema_id],',
    ),
    (
        "table_format_change_detection",
        "an entry has the properties of its table",
        "backup/publish.py",
        '"properties": dict(facts.properties),',
        '"properties": {},',
    ),
    (
        "orphaned_data_detection",
        "prune looks at stored data",
        "maintenance/orphans.py",
        "    yield DATA, _dead(storage.iter_keys(layout.DATA_PREFIX), live)\n",
        "",
    ),
    (
        "large_table_partial_backup",
        "a history keeps its snapshots and no others",
        "iceberg/history.py",
        "    return None if covered == known.keys() else frozenset(covered)",
        "    return None",
    ),
)

MUTANTS = (*SINGLE_TABLE, *DATABASE_LEVEL, *CATALOG_LEVEL, *GRANULARITY, *EDGE_CASES)
