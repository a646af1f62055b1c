"""Steps that keep a repository whole, one writer at a time, and secrets secret."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_REPOSITORY = "tests/repository/test_repository.py::"
_DOCUMENT = "tests/repository/test_document.py::"
_LEASE = "tests/repository/test_lease.py::"
_PIT = "tests/repository/test_pit.py::"
_STORAGE = "tests/contracts/test_storage_contract.py::"
_LOCAL = "tests/storage/test_local.py::"
_SECRETS = "tests/config/test_secrets.py::"

DOCUMENTS = (
    Mutant(
        "pit-checksum",
        "a PIT is compared with its checksum",
        "repository/pit.py",
        "    check_checksum(document, CHECKSUM_FIELD, key)\n",
        "",
        ("tests/repository/test_listing.py::test_an_edited_pit_is_damaged",),
    ),
    Mutant(
        "pit-is-no-marker",
        "what has a checksum is a PIT, not the marker of a lost run",
        "repository/pit.py",
        " and CHECKSUM_FIELD not in document",
        "",
        (_PIT + "test_a_pit_cannot_be_edited_into_a_marker",),
    ),
    Mutant(
        "pit-of-its-key",
        "a PIT is the one that its key names",
        "repository/repository.py",
        "            if manifest.pit != pit:\n",
        "            if False:\n",
        (_REPOSITORY + "test_a_pit_under_another_ones_key_is_damage",),
    ),
    Mutant(
        "entry-digest",
        "an entry is compared with its digest",
        "repository/repository.py",
        "        if sha256(data) != ref.sha256:\n",
        "        if False:\n",
        (_REPOSITORY + "test_an_entry_that_is_missing_or_changed_is_damage",),
    ),
    Mutant(
        "layer-digest",
        "a layer is compared with its digest",
        "repository/inventory.py",
        "    if sha256(data) != part.sha256:\n",
        "    if False:\n",
        ("tests/repository/test_inventory.py::test_a_part_with_a_flipped_byte_is_damage",),
    ),
    Mutant(
        "removed-manifests",
        "a manifest that is gone takes its rows with it",
        "repository/inventory.py",
        "pc.invert(pc.or_(gone, listed))",
        "pc.invert(gone)",
        ("tests/repository/test_inventory.py::test_folding_is_what_the_format_says",),
    ),
    Mutant(
        "removals-first",
        "a layer removes from those before it, never its own rows",
        "repository/inventory.py",
        "    return pa.concat_tables([state, added])\n\n\ndef distinct_files",
        "    both = pa.concat_tables([state, added])\n"
        "    return both if removals is None else removals.keep(both)\n\n\ndef distinct_files",
        ("tests/repository/test_inventory.py::test_folding_is_what_the_format_says",),
    ),
    Mutant(
        "newer-version",
        "documents of a newer version are refused",
        "repository/document.py",
        '    if int(document["version"]) > int(VERSION):\n',
        "    if False:\n",
        (_DOCUMENT + "test_a_newer_version_is_refused_with_a_hint_to_upgrade",),
    ),
    Mutant(
        "unknown-features",
        "a repository with features that nobody knows is refused",
        "repository/repository.py",
        "    if unknown:\n        raise NewerVersionError(",
        "    if False:\n        raise NewerVersionError(",
        (_REPOSITORY + "test_features_decide_who_may_read_and_who_may_write",),
    ),
    Mutant(
        "ids-grow",
        "ids grow though clocks run back",
        "repository/repository.py",
        "        moment = max(moment, max(existing).moment + timedelta(microseconds=1))\n",
        "        pass\n",
        (_REPOSITORY + "test_ids_grow_also_when_clocks_run_back",),
    ),
    Mutant(
        "empty-place",
        "a place that holds anything does not become a repository",
        "repository/repository.py",
        "    if found is not None:\n        raise RefusedError(",
        "    if False:\n        raise RefusedError(",
        (_REPOSITORY + "test_a_place_that_holds_anything_does_not_become_a_repository",),
    ),
    Mutant(
        "keys-stay-inside",
        "no path makes a key that leaves its prefix",
        "repository/layout.py",
        '    if name in {"", ".", ".."}:\n',
        "    if False:\n",
        (
            "tests/repository/test_layout.py::test_data_keys_never_leave_their_prefix",
            "tests/repository/test_layout.py::test_names_that_no_segment_can_spell_are_hashed",
        ),
    ),
    Mutant(
        "keys-as-they-are",
        "only paths without anything to escape are keys as they are",
        "repository/layout.py",
        '_PLAIN_SEGMENT = r"[A-Za-z0-9_=-]',
        '_PLAIN_SEGMENT = r"[A-Za-z0-9._=-]',
        ("tests/repository/test_layout.py::test_paths_without_escapes_go_by_the_same_rule",),
    ),
)

LEASES = (
    Mutant(
        "lease-before-publish",
        "the lease is checked before publishing",
        "repository/lease.py",
        "        self.check()\n        if not _create(",
        "        if not _create(",
        (_LEASE + "test_a_holder_finds_out_that_it_was_unlocked",),
    ),
    Mutant(
        "pit-is-created",
        "a PIT is created, never put in place of something",
        "repository/lease.py",
        "        if not _create(self._storage, self.lease.commit_key, data):\n",
        "        self._storage.replace(self.lease.commit_key, data)\n        if False:\n",
        (_LEASE + "test_a_marker_stops_a_holder_that_nothing_else_stopped",),
    ),
    Mutant(
        "abandoned-marker",
        "who takes a lease over marks the PIT of the lost one",
        "repository/lease.py",
        "            self._storage.claim(held.commit_key, render_document(marker))\n",
        "            pass\n",
        (
            _LEASE + "test_a_marker_stops_a_holder_that_nothing_else_stopped",
            _LEASE + "test_two_who_take_over_the_same_lease_leave_one_marker",
        ),
    ),
    Mutant(
        "takeover-marks",
        "a takeover does so before it goes on",
        "repository/lease.py",
        "                self.abandon(held)\n                return held.number",
        "                return held.number",
        (_LEASE + "test_two_who_take_over_the_same_lease_leave_one_marker",),
    ),
    Mutant(
        "whole-ttl",
        "a silent owner is watched for a whole TTL",
        "repository/lease.py",
        "        while self._monotonic() - started < held.ttl_seconds:\n",
        "        while False:\n",
        (_LEASE + "test_a_silent_owner_of_another_machine_is_watched_for_a_whole_ttl",),
    ),
    Mutant(
        "proven-dead",
        "nobody on another machine is proven dead",
        "repository/owner.py",
        "        return False\n    return process_start(owner.pid) != owner.process_start",
        "        pass\n    return process_start(owner.pid) != owner.process_start",
        (_LEASE + "test_nothing_can_be_proven_of_anybody_elsewhere",),
    ),
    Mutant(
        "race-waits",
        "who loses the race for a free lease waits for the winner",
        "repository/lease.py",
        "                if self._monotonic() >= deadline:\n                    raise\n",
        "                raise\n",
        (_LEASE + "test_who_loses_the_race_for_a_free_lease_waits_for_the_winner",),
    ),
    Mutant(
        "lease-after-the-one-seen",
        "who was overtaken while it read the catalog does not take the next lease",
        "repository/lease.py",
        "        if self._seen is None:\n",
        "        if True:\n",
        (_LEASE + "test_who_was_overtaken_while_it_read_the_catalog_does_not_take_the_lease",),
    ),
    Mutant(
        "lease-winner",
        "who loses the race for a lease is told who won it",
        "repository/lease.py",
        "return str(parse_lease(self._storage.read(key), key).owner)",
        "self._storage.read(key)",
        (_LEASE + "test_who_does_not_wait_is_told_of_the_lost_race",),
    ),
)

STORAGE = (
    Mutant(
        "create-only",
        "a key that is taken keeps its bytes",
        "storage/local.py",
        "            os.link(\n",
        "            with suppress(FileNotFoundError):\n"
        "                os.unlink(_encode(self._path))\n"
        "            os.link(\n",
        (_STORAGE + "test_a_taken_key_keeps_its_bytes",),
    ),
    Mutant(
        "documents-are-flushed",
        "documents are flushed before they appear",
        "storage/local.py",
        "            writer.sync()\n",
        "",
        (_LOCAL + "test_a_document_is_flushed_with_every_folder_that_was_made_for_it",),
    ),
    Mutant(
        "folders-are-flushed",
        "so are the folders that were made for them",
        "storage/local.py",
        "            self._sync_folder(folder)\n",
        "            pass\n",
        (_LOCAL + "test_a_document_is_flushed_with_every_folder_that_was_made_for_it",),
    ),
    Mutant(
        "nul-in-locations",
        "a NUL in a location is refused",
        "storage/local.py",
        '    if "\\0" in path:\n',
        "    if False:\n",
        (_LOCAL + "test_a_nul_in_a_location_is_refused",),
    ),
    Mutant(
        "links-are-followed",
        "places are compared with links followed",
        "storage/open.py",
        "os.path.realpath(local_path(location))",
        "os.path.normpath(local_path(location))",
        (_LOCAL + "test_places_overlap_when_one_is_in_the_other_links_followed",),
    ),
)

NAMES = (
    Mutant(
        "bad-names",
        "names with slashes, dots alone or NUL are refused",
        "model.py",
        'name in {"", ".", ".."} or "/" in name or "\\0" in name',
        'name == ""',
        ("tests/cli/test_commands.py::test_bad_names_are_refused_and_change_nothing",),
    ),
    Mutant(
        "secret-properties",
        "properties that may be secrets are not shown",
        "config/secrets.py",
        "return _SECRET_KEY.search(key) is not None",
        "return False",
        (_SECRETS + "test_names_that_speak_of_secrets_are_known",),
    ),
    Mutant(
        "passwords-in-addresses",
        "passwords in addresses are not shown",
        "config/secrets.py",
        r'_ADDRESS.sub(rf"\g<1>{HIDDEN}@", text)',
        "text",
        (_SECRETS + "test_no_password_survives_in_an_address",),
    ),
    Mutant(
        "settings-as-text",
        "the text of a catalog's settings holds no property",
        "catalog/protocol.py",
        "field(default_factory=dict, repr=False)",
        "field(default_factory=dict)",
        ("tests/catalog/test_open_catalog.py::test_the_text_form_of_settings_shows_no_property",),
    ),
    Mutant(
        "public-properties",
        "stored properties of a catalog hold no password",
        "catalog/sql_address.py",
        "URL.create(url.drivername, None, None, ",
        "URL.create(url.drivername, url.username, url.password, ",
        ("tests/catalog/test_sql_catalog.py::test_user_password_and_options_are_not_public",),
    ),
)

MUTANTS = (*DOCUMENTS, *LEASES, *STORAGE, *NAMES)
