"""Steps that keep Glue, PostgreSQL and settings honest: nothing is overlooked, nothing stays."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_GLUE = "tests/catalog/test_glue_catalog.py::"
_RESTORE = "tests/restore/test_glue.py::"
_POSTGRES = "tests/catalog/test_postgres_catalog.py::"
_BORROWED = "tests/config/test_borrowed.py::"
_CHECK = "tests/config/test_check.py::"

GLUE = (
    Mutant(
        "glue-pages",
        "lists are read to their last page",
        "catalog/glue_client.py",
        '            if not page.get("NextToken"):\n',
        "            if True:\n",
        (_GLUE + "test_lists_are_read_to_their_last_page",),
    ),
    Mutant(
        "glue-is-glue",
        "an answer without what Glue always has is no empty list",
        "catalog/glue_client.py",
        "        if name not in answer:\n",
        "        answer = {name: [], **answer}\n        if False:\n",
        (_GLUE + "test_a_web_page_is_not_glue",),
    ),
    Mutant(
        "glue-throttling",
        "throttling is waited for",
        "catalog/glue_client.py",
        "    if code in _BUSY:\n        return _BUSY_SECONDS\n",
        "",
        (_GLUE + "test_throttling_is_waited_for",),
    ),
    Mutant(
        "glue-lost-answer",
        "what became of a registration whose answer was lost is looked up",
        "catalog/glue.py",
        "not failure.is_unsure or not self._is_at(table, metadata_location)",
        "True",
        (_GLUE + "test_a_lost_answer_to_a_registration_is_looked_up",),
    ),
    Mutant(
        "glue-whose-table",
        "a table that somebody else registered is not taken for ours",
        "catalog/glue.py",
        "not failure.is_unsure or not self._is_at(table, metadata_location)",
        "not failure.is_unsure",
        (_GLUE + "test_a_lost_answer_does_not_take_another_ones_table",),
    ),
    Mutant(
        "glue-other-tables",
        "tables of other kinds are not Iceberg's",
        "catalog/glue.py",
        "for record in records if is_iceberg(record)]",
        "for record in records]",
        (_GLUE + "test_other_tables_of_glue_are_not_listed_but_their_names_are_taken",),
    ),
    Mutant(
        "glue-lower-case",
        "a name that Glue would change is refused",
        "catalog/glue.py",
        "    if name != name.lower():\n",
        "    if False:\n",
        (_GLUE + "test_names_that_glue_would_change_are_refused_before",),
    ),
    Mutant(
        "glue-secrets",
        "secrets are taken out of what AWS answers",
        "catalog/glue_client.py",
        'line.replace(value, "***")',
        "line",
        (_GLUE + "test_refusals_of_aws_are_told_in_plain_words",),
    ),
    Mutant(
        "glue-account",
        "the account is named in every call",
        "catalog/glue_client.py",
        '            arguments["CatalogId"] = self._properties["glue.id"]\n',
        "            pass\n",
        (_GLUE + "test_an_account_is_named_in_every_call",),
    ),
    Mutant(
        "glue-database-location",
        "a table goes into its database's own location",
        "catalog/glue.py",
        'if record and record.get("LocationUri"):',
        "if False and record:",
        (_GLUE + "test_a_databases_location_and_description_are_its_properties",),
    ),
    Mutant(
        "glue-columns",
        "Glue's users see the columns",
        "catalog/glue_table.py",
        '{"Columns": list(_columns(document))}',
        '{"Columns": []}',
        (_RESTORE + "test_from_sql_to_glue",),
    ),
)

POSTGRESQL = (
    Mutant(
        "postgres-driver",
        "a driver that is not here is stood in for",
        "catalog/sql_address.py",
        "        except (ImportError, NoSuchModuleError):\n"
        "            return url.set(drivername=_PSYCOPG)\n",
        "        except NoSuchModuleError:\n            return url\n",
        (_POSTGRES + "test_any_spelling_of_the_driver_connects",),
    ),
    Mutant(
        "postgres-timeout",
        "a server that says nothing is not waited for",
        "catalog/sql_address.py",
        '"connect_timeout": _CONNECT_SECONDS, ',
        "",
        (_POSTGRES + "test_a_server_that_says_nothing",),
    ),
    Mutant(
        "postgres-first-tables",
        "two that make the catalog's tables at once both go on",
        "catalog/sql.py",
        "        except (IntegrityError, CatalogError):\n            # Two may",
        "        except KeyError:\n            # Two may",
        (_POSTGRES + "test_many_who_make_the_first_tables_of_a_database_all_succeed",),
    ),
)

SETTINGS = (
    Mutant(
        "own-section-first",
        "a section of bcn.toml alone counts",
        "config/pyiceberg.py",
        '        sections.setdefault(("catalogs", name), section)\n',
        '        sections["catalogs", name] = section\n',
        (_BORROWED + "test_bcns_own_section_of_a_name_is_the_only_one",),
    ),
    Mutant(
        "borrowed-faults",
        "a catalog of another program that cannot be used stops nothing",
        "config/load.py",
        "            if not section.is_borrowed:\n",
        "            if True:\n",
        (_BORROWED + "test_what_bcn_cannot_use_is_told_when_it_is_asked_for",),
    ),
    Mutant(
        "store-variables",
        "variables of the store alone say nothing",
        "config/variables.py",
        '_SAYING = ("HIVE_METASTORE_URI",',
        '_SAYING = ("S3_ENDPOINT", "HIVE_METASTORE_URI",',
        (_BORROWED + "test_variables_of_the_store_alone_say_nothing",),
    ),
    Mutant(
        "implied-repository",
        "an implied repository does not hide the only configured one",
        "api/parts.py",
        "if not repository.is_implied]",
        "if True]",
        (_BORROWED + "test_an_implied_repository_does_not_hide_the_only_configured_one",),
    ),
)  # fmt: skip

CHECK = (
    Mutant(
        "probe-removed",
        "the probe is removed",
        "config/check.py",
        "        storage.delete(key)\n",
        "        pass\n",
        (_CHECK + "test_a_catalog_that_works_is_listed_read_and_written_to_and_left_as_it_was",),
    ),
    Mutant(
        "probe-not-in-a-table",
        "no probe is written into a table",
        "config/check.py",
        '    if _is_table(storage, f"{prefix}metadata/"):\n',
        "    if False:\n",
        (_CHECK + "test_no_probe_is_written_into_a_table",),
    ),
    Mutant(
        "check-in-time",
        "a section that hangs ends after its time",
        "config/check.py",
        "    run.join(max(0.0, run.start_time + limit_seconds - time.monotonic()))\n",
        "    run.join()\n",
        (_CHECK + "test_a_section_that_hangs_costs_its_time_and_not_the_others",),
    ),
    Mutant(
        "check-bug",
        "a bug in a check is no success",
        "config/check.py",
        "        raise run.bug\n",
        "        pass\n",
        (_CHECK + "test_a_bug_in_a_check_is_not_taken_for_success",),
    ),
    Mutant(
        "shown-secrets",
        "secrets are hidden where settings are shown",
        "config/show.py",
        "redact({item.key: value})[item.key]",
        "value",
        (_CHECK + "test_settings_are_shown_with_where_they_come_from_and_without_secrets",),
    ),
)

MUTANTS = (*GLUE, *POSTGRESQL, *SETTINGS, *CHECK)
