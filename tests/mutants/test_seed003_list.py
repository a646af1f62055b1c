"""The tests that seed 003 names are all there, under its names, and each has its step."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from tests.mutants.seed003 import MUTANTS

FOLDER = Path(__file__).parents[1] / "seed003"

GROUPS = {
    "test_single_table.py": """
        test_backup_single_table_first_time
        test_incremental_backup_single_table
        test_incremental_backup_no_changes
        test_restore_single_table
        test_restore_single_table_to_different_location
        test_backup_single_table_idempotent
    """,
    "test_database_level.py": """
        test_backup_entire_database
        test_incremental_database_with_new_tables
        test_incremental_database_with_deleted_tables
        test_incremental_database_with_renamed_tables
        test_restore_partial_database_subset
        test_restore_database_to_different_catalog
    """,
    "test_catalog_level.py": """
        test_backup_entire_catalog
        test_incremental_catalog_backup
        test_incremental_catalog_with_new_database
        test_incremental_catalog_with_deleted_database
        test_restore_full_catalog
        test_restore_catalog_subset_to_new_location
    """,
    "test_granularity.py": """
        test_repository_granularity_is_locked
        test_reject_broader_scope_on_existing_repo
        test_reject_narrower_scope_on_existing_repo
        test_incremental_same_granularity_accepted
        test_manifest_integrity_across_pits
        test_concurrent_backup_prevention
    """,
    "test_edge_cases.py": """
        test_deleted_table_tracking
        test_deleted_database_tracking
        test_renamed_table_detection_with_object_id
        test_unnamed_table_without_object_id_treated_as_delete_create
        test_unchanged_object_in_manifest
        test_schema_evolution_tracking
        test_table_format_change_detection
        test_orphaned_data_detection
        test_large_table_partial_backup
    """,
    "test_restore_flexibility.py": """
        test_restore_subset_from_full_catalog_backup
        test_restore_subset_from_full_database_backup
        test_restore_with_object_filters
        test_restore_with_deleted_objects_included
        test_restore_with_deleted_objects_excluded
        test_restore_schema_validation_and_migration
    """,
    "test_multi_stack.py": """
        test_local_minio_backup_single_table
        test_local_minio_incremental_backup
        test_local_hive_metadata_restore
        test_aws_s3_backup_single_table
        test_aws_s3_incremental_backup
        test_aws_glue_metadata_handling
        test_aws_glue_vs_hive_compatibility
        test_restore_from_local_to_aws
    """,
    "test_tooling.py": """
        test_describe_shows_granularity
        test_describe_shows_all_pits
        test_list_databases_for_pit
        test_list_tables_for_database_pit
        test_list_shows_object_status
        test_restore_with_pit_selection
        test_restore_with_database_filter
        test_restore_to_different_location
    """,
    "test_performance.py": """
        test_incremental_backup_performance_large_catalog
        test_restore_performance_large_dataset
        test_concurrent_read_during_backup
        test_pit_manifest_query_performance
    """,
    "test_errors.py": """
        test_reject_backup_narrower_than_previous
        test_reject_backup_broader_than_previous
        test_invalid_catalog_name
        test_invalid_database_name
        test_corrupted_pit_manifest_recovery
        test_missing_referenced_data_error
        test_insufficient_storage_error
    """,
}


@pytest.mark.parametrize("file", GROUPS)
def test_a_file_has_the_tests_of_its_group_in_their_order(file: str) -> None:
    parsed = ast.parse((FOLDER / file).read_text()).body
    functions = [item.name for item in parsed if isinstance(item, ast.FunctionDef)]
    assert [name for name in functions if name.startswith("test_")] == GROUPS[file].split()


def test_each_of_them_names_one_step_without_which_it_fails() -> None:
    wanted = {f"tests/seed003/{file}::{name}" for file in GROUPS for name in GROUPS[file].split()}
    named = Counter(test for mutant in MUTANTS for test in mutant.tests)
    assert named == Counter(wanted)
