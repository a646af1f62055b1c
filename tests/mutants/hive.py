"""Steps of the Hive Metastore as a catalog."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_RECORDS = "tests/catalog/test_hive_catalog.py::"
_WIRE = "tests/catalog/test_hive_wire.py::"
_RESTORE = "tests/restore/test_hive.py::"

MUTANTS = (
    Mutant(
        "hive-looked-up-after-loss",
        "a register whose answer was lost is looked up before it is sent again",
        "catalog/hive.py",
        "            if self._is_ours(table, record):\n                return None\n",
        "",
        (_WIRE + "test_a_register_whose_answer_is_lost_is_looked_up_and_not_done_twice",),
    ),
    Mutant(
        "hive-late-is-ours",
        "a name that our own lost request took is no other's",
        "catalog/hive.py",
        "if not lost or not self._is_ours(table, record):",
        "if True:",
        (_WIRE + "test_a_register_that_is_done_late_is_ours_and_not_anothers",),
    ),
    Mutant(
        "hive-case-of-tables",
        "a table is found by its name in its own case only",
        "catalog/hive.py",
        "(record.dbName, record.tableName) != (*table.namespace, table.name)",
        "False",
        (_RECORDS + "test_names_are_found_in_their_own_case_only",),
    ),
    Mutant(
        "hive-batches",
        "tables beyond the first answer are read too",
        "catalog/hive.py",
        "range(0, len(names), _BATCH)",
        "range(0, min(len(names), _BATCH), _BATCH)",
        (_RECORDS + "test_more_tables_than_one_answer_holds_are_all_read",),
    ),
    Mutant(
        "hive-dropped-database",
        "a database that is dropped while it is read does not end the backup",
        "catalog/hive.py",
        "            if self._find_database((database,)) is not None:\n"
        "                raise\n            return []",
        "            raise",
        (_RECORDS + "test_a_database_that_is_dropped_while_it_is_read_is_left_out",),
    ),
    Mutant(
        "hive-usual-location",
        "a database where the warehouse has it has no location of its own",
        "catalog/hive.py",
        "            del properties[LOCATION]",
        "            pass",
        (_RECORDS + "test_a_new_table_goes_where_icebergs_own_catalog_would_put_it",),
    ),
    Mutant(
        "hive-waited-for",
        "a metastore that answered once is waited for",
        "catalog/hive_client.py",
        "if not self._has_answered or time.monotonic() >= deadline:",
        "if True:",
        (_WIRE + "test_a_register_while_the_metastore_is_away_is_sent_when_it_is_back",),
    ),
    Mutant(
        "hive-not-waited-for",
        "one that never answered is not waited for",
        "catalog/hive_client.py",
        "if not self._has_answered or time.monotonic() >= deadline:",
        "if time.monotonic() >= deadline:",
        (_WIRE + "test_nobody_there",),
    ),
    Mutant(
        "hive-last-first",
        "of several servers the one that answered last is asked first",
        "catalog/hive_client.py",
        "self._order = [address, *(item for item in self.addresses if item != address)]",
        "self._order = list(self.addresses)",
        (_WIRE + "test_of_several_addresses_the_first_may_be_dead",),
    ),
    Mutant(
        "hive-asked-again",
        "a question whose answer was lost is asked again",
        "catalog/hive_client.py",
        "                if time.monotonic() >= deadline:\n                    raise\n",
        "                raise\n",
        (_WIRE + "test_a_question_whose_answer_is_lost_is_asked_again",),
    ),
    Mutant(
        "hive-silent-http",
        "an HTTP server that hangs up is known as one",
        "catalog/hive_diagnosis.py",
        "(probes and not start and speaks_http(address))",
        "False",
        (_WIRE + "test_an_http_server_that_hangs_up_on_what_it_does_not_know",),
    ),
    Mutant(
        "hive-waiting-http",
        "an HTTP server that waits is not waited for",
        "catalog/hive_client.py",
        "if speaks_http(address):",
        "if False:",
        (_WIRE + "test_an_http_server_that_waits_for_the_end_of_a_line_is_not_waited_for",),
    ),
    Mutant(
        "hive-statistics",
        "records are those that Iceberg's own catalog writes, statistics too",
        "catalog/hive_table.py",
        '        "DO_NOT_UPDATE_STATS": "true",\n',
        "",
        (_RESTORE + "test_records_are_those_that_icebergs_own_catalog_writes",),
    ),
)
