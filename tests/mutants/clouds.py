"""Steps that keep Google's and Azure's stores honest: what is there stays, nothing is mixed."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_GCS = "tests/storage/test_gcs.py::"
_AZURE = "tests/storage/test_azure.py::"
_REPLACED = "test_an_object_that_is_replaced_while_it_is_read_is_never_mixed"

GCS = (
    Mutant(
        "gcs-create",
        "what must be new is sent with the condition",
        "storage/gcs.py",
        '"uploadType": "multipart", **(_NEW if create_only else {})',
        '"uploadType": "multipart"',
        (_GCS + "test_every_create_carries_the_condition_and_no_replacement_does",),
    ),
    Mutant(
        "gcs-create-large",
        "large objects have the condition, too",
        "storage/gcs.py",
        '"name": name, **_NEW}',
        '"name": name}',
        (_GCS + "test_a_large_object_that_must_be_new_never_replaces_one",),
    ),
    Mutant(
        "gcs-order",
        "parts go one after the other",
        "storage/gcs.py",
        "self._next == number or self._failed is not None",
        "True",
        (_GCS + "test_a_part_waits_for_those_before_it",),
    ),
    Mutant(
        "gcs-stored",
        "a part is sent on from where the server is",
        "storage/gcs.py",
        "rest[stored - self._sent :], stored",
        "rest[:0], end",
        (_GCS + "test_a_part_that_went_wrong_is_sent_from_where_the_server_is",),
    ),
    Mutant(
        "gcs-generation",
        "all ranges are of one generation",
        "storage/gcs.py",
        '            options["version"] = span.tag\n',
        "            pass\n",
        (_GCS + _REPLACED,),
    ),
    Mutant(
        "gcs-mark",
        "a write whose answer was lost knows its own work",
        "storage/gcs.py",
        '"metadata": {_MARK: mark}',
        '"metadata": {}',
        (_GCS + "test_a_lost_answer_to_a_create_is_found_again_by_its_mark",),
    ),
    Mutant(
        "gcs-pages",
        "listings go on where a page ends",
        "storage/gcs.py",
        'not page.get("nextPageToken")',
        "True",
        (_GCS + "test_a_listing_goes_on_where_a_page_ends",),
    ),
    Mutant(
        "gcs-session",
        "the address of a session is not sent a token",
        "storage/gcs.py",
        "            body=data,\n            is_signed=False,\n",
        "            body=data,\n",
        (_GCS + "test_parts_go_in_order_and_the_last_one_says_how_many_bytes_there_are",),
    ),
)
AZURE = (
    Mutant(
        "azure-create-large",
        "lists of blocks have the condition, too",
        "storage/azure.py",
        "            **(_NEW if create_only else {}),\n",
        "",
        (_AZURE + "test_a_large_object_that_must_be_new_never_replaces_one",),
    ),
    Mutant(
        "azure-create-odd",
        "odd names that must be new have the condition, too",
        "storage/azure.py",
        "            headers |= _NEW if create_only else {}\n",
        "",
        (_AZURE + "test_every_create_carries_the_condition_and_no_replacement_does",),
    ),
    Mutant(
        "azure-blocks",
        "blocks of two writers of one name are told apart",
        "storage/azure.py",
        'f"{self._mark}-{number:06d}"',
        'f"block-{number:06d}"',
        (_AZURE + "test_of_two_large_objects_of_one_name_one_wins_whole",),
    ),
    Mutant(
        "azure-tag",
        "all ranges are of one object",
        "storage/azure.py",
        '            options["if_match"] = span.tag\n',
        "            pass\n",
        (_AZURE + _REPLACED,),
    ),
    Mutant(
        "azure-slashes",
        "no other object is read in place of one",
        "storage/azure.py",
        '            if "\\\\" in name\n',
        "            if False\n",
        (_AZURE + "test_no_other_object_is_read_in_place_of_one",),
    ),
    Mutant(
        "azure-folders",
        "folders that Hadoop marks are no keys",
        "storage/azure.py",
        '    is_marked = marks.get(_FOLDER, "").lower() == "true"\n',
        "    is_marked = False\n",
        (_AZURE + "test_folders_that_hadoop_marks_are_no_keys",),
    ),
    Mutant(
        "azure-pages",
        "listings go on where a page ends",
        "storage/azure.py",
        "            if not marker:\n",
        "            if True:\n",
        (_AZURE + "test_a_listing_goes_on_where_a_page_ends",),
    ),
    Mutant(
        "azure-other-account",
        "a signature for another account is not sent",
        "storage/azure_settings.py",
        '            if name.removeprefix("adls.sas-token.").partition(".")[0] == account:\n',
        "            if True:\n",
        (_AZURE + "test_a_signature_of_another_account_is_not_used",),
    ),
)
MUTANTS: tuple[Mutant, ...] = (*GCS, *AZURE)
