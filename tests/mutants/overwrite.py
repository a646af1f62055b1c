"""Steps of a restore in the place of a table."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_OVERWRITE = "tests/restore/test_overwrite.py::"
_CONTRACT = "tests/contracts/test_catalog_contract.py::"
_SEEN = _CONTRACT + "test_only_what_was_seen_is_replaced"
_HIVE = "tests/catalog/test_hive_catalog.py::"
_GLUE = (
    "tests/catalog/test_glue_catalog.py"
    "::test_a_swap_names_the_version_it_saw_and_keeps_what_others_said"
)
_COMMIT = (_OVERWRITE + "test_a_commit_meanwhile_is_not_lost",)
_BESIDE = (_OVERWRITE + "test_it_is_built_beside_and_nothing_of_the_old_one_goes",)

MUTANTS = (
    Mutant(
        "overwrite-beside",
        "it is built beside the old one",
        "restore/plan.py",
        'return f"{base}-{pit}"',
        "return location",
        _BESIDE,
    ),
    Mutant(
        "overwrite-keeps-uuid",
        "in its own catalog under its own name it is the same table",
        "restore/plan.py",
        " or self.comes_back",
        "",
        _BESIDE,
    ),
    Mutant(
        "overwrite-copies-differ",
        "a copy that is refreshed is another table",
        "restore/prepare.py",
        "comes_back=comes_back and self._is_same(old, data)",
        "comes_back=True",
        (_OVERWRITE + "test_a_copy_elsewhere_is_refreshed_and_stays_another_table",),
    ),
    Mutant(
        "overwrite-another",
        "another table that has the name does not pass its identity on",
        "restore/prepare.py",
        "comes_back=comes_back and self._is_same(old, data)",
        "comes_back=comes_back",
        (_OVERWRITE + "test_another_table_of_the_name_does_not_give_its_place_and_its_identity",),
    ),
    Mutant(
        "overwrite-not-inside",
        "it is not built where the old one is",
        "restore/prepare.py",
        "        check_beside(item.target for item in todo)\n",
        "",
        (_OVERWRITE + "test_it_is_not_built_where_the_old_one_is",),
    ),
    Mutant(
        "overwrite-commit-on-top",
        "a commit right after the swap is no loss",
        "restore/register.py",
        "if found == location or not is_or_follows(found, document, location):",
        "if True:",
        (_OVERWRITE + "test_a_commit_right_after_the_swap_is_no_lost_history",),
    ),
    Mutant(
        "overwrite-not-the-old-one",
        "the table that is to be replaced is not taken for its successor",
        "restore/register.py",
        "    if pointer.metadata_location == replaced:\n        return None\n",
        "",
        (
            _OVERWRITE
            + "test_the_old_table_is_not_taken_for_the_new_one_whose_metadata_is_beside_its_own",
        ),
    ),
    Mutant(
        "overwrite-old-place",
        "where the old one is is told by the run that ends it, too",
        "restore/prepare.py",
        "item.replaced = item.marker.replaced() if item.is_back else None",
        "item.replaced = None",
        (_OVERWRITE + "test_a_run_that_was_stopped_after_the_swap_is_finished",),
    ),
    Mutant(
        "overwrite-goes-on",
        "what was built is found though the old one was dropped since",
        "restore/prepare.py",
        "return target if Marker(self._stores, target, pit).is_ours() else None",
        "return None",
        (
            _OVERWRITE
            + "test_a_rest_server_that_cannot_leaves_all_as_it_was_and_the_work_is_not_lost",
        ),
    ),
    Mutant(
        "overwrite-no-views",
        "a view is not replaced",
        "restore/prepare.py",
        "found is not None and found.kind == TABLE and found.metadata_location",
        "found is not None and found.metadata_location",
        (_OVERWRITE + "test_a_view_is_not_in_the_way_of_a_swap_but_refused",),
    ),
    Mutant(
        "overwrite-asked-first",
        "a catalog that cannot is asked before anything is copied",
        "restore/prepare.py",
        "        if target.replaces is not None:\n"
        "            self._catalog.check_replace(target.table)\n",
        "",
        (_OVERWRITE + "test_a_hadoop_catalog_cannot_and_says_so_before_anything_is_copied",),
    ),
    Mutant(
        "overwrite-sql-seen",
        "SQL: a row that has another place by now stays",
        "catalog/sql_statements.py",
        '" AND metadata_location = :old"',
        '""',
        _COMMIT,
    ),
    Mutant(
        "overwrite-sql-counted",
        "SQL: a swap of no row is no swap",
        "catalog/sql.py",
        "if changed != 1:",
        "if changed > 1:",
        (_SEEN + "[sql-v1]",),
    ),
    Mutant(
        "overwrite-hive-seen",
        "Hive: a record that has another place by now stays",
        "catalog/hive_swap.py",
        "if found is None or _place(found) != record.parameters[PREVIOUS_LOCATION]:",
        "if found is None:",
        (_SEEN + "[hive]",),
    ),
    Mutant(
        "overwrite-hive-locked",
        "Hive: a lock is held meanwhile",
        "catalog/hive_swap.py",
        "with locked(metastore, table):",
        "if True:",
        (_HIVE + "test_a_locked_table_is_not_replaced",),
    ),
    Mutant(
        "overwrite-hive-unlocked",
        "Hive: and given back",
        "catalog/hive_swap.py",
        "metastore.write(lambda client: client.unlock(UnlockRequest(answer.lockid)))",
        "pass",
        (_HIVE + "test_a_locked_table_is_not_replaced",),
    ),
    Mutant(
        "overwrite-hive-columns",
        "Hive: columns of other types are no obstacle",
        "catalog/hive_swap.py",
        "if _OTHER_TYPES not in error.reason:",
        "if True:",
        (_HIVE + "test_a_table_of_other_columns_takes_the_place",),
    ),
    Mutant(
        "overwrite-glue-seen",
        "Glue: a record that has another place by now stays",
        "catalog/glue.py",
        "if record is None or _place(record) != old:",
        "if record is None:",
        (_SEEN + "[glue]",),
    ),
    Mutant(
        "overwrite-glue-version",
        "Glue: the version that was seen is named",
        "catalog/glue.py",
        'version = {"VersionId": record["VersionId"]} if record.get("VersionId") else {}',
        "version: dict[str, str] = {}",
        (_GLUE,),
    ),
    Mutant(
        "overwrite-glue-keeps",
        "Glue: what others said of a table is kept",
        "catalog/glue.py",
        '            **record["Parameters"],\n',
        "",
        (_GLUE,),
    ),
    Mutant(
        "overwrite-hive-handler",
        "Hive: what makes a table readable there is kept",
        "catalog/hive_swap.py",
        "        _keep(found, record)\n",
        "",
        (_HIVE + "test_what_makes_a_table_readable_in_hive_outlives_a_swap",),
    ),
    Mutant(
        "overwrite-rest-seen",
        "REST: a table that has another place by now stays",
        "catalog/rest.py",
        "if found is None or found.metadata_location != old:",
        "if found is None:",
        (_SEEN + "[rest]",),
    ),
    Mutant(
        "overwrite-rest-asks",
        "REST: the server is asked to overwrite",
        "catalog/rest.py",
        '"overwrite": True',
        '"overwrite": False',
        (_OVERWRITE + "test_in_a_rest_catalog_whose_server_can",),
    ),
)
