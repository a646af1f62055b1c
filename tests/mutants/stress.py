"""Steps by which backups and restores outlast what happens to servers, and tell what is wrong."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_STORES = "tests/stress/test_stores_under_stress.py::"
_CATALOGS = "tests/stress/test_catalogs_under_stress.py::"
_ROOM = (
    "tests/contracts/test_storage_contract.py::"
    "test_what_is_read_into_a_writers_room_is_written_where_it_belongs"
)
_WIRE = "tests/storage/test_wire.py::"
_KEYS = "tests/stress/test_credentials_that_end.py::"
_TOLD = "tests/bad_input/test_stacks.py::"
_KILLED = "test_a_catalog_that_is_killed_while_it_is_read_or_registered_into_is_waited_for"

_SHARED = ("tests/storage/test_shared_memory.py",)
_COPIES = "tests/storage/test_s3_copy.py::"
_SIGNALS = "tests/crash/test_signals.py::"

MUTANTS = (
    Mutant(
        "signal-dropped",
        "a stop that a library dropped comes again",
        "cli/signals.py",
        "        weakref.finalize(interrupted, self._wait_and_repeat, number).atexit = False\n",
        "",
        (_SIGNALS + "test_a_signal_that_a_library_drops_is_not_lost",),
    ),
    Mutant(
        "signal-told",
        "a stop that was told does not come again",
        "cli/main.py",
        "    stops.end()\n",
        "",
        (_SIGNALS + "test_a_stop_that_was_told_does_not_come_again",),
    ),
    Mutant(
        "sent-by-tls",
        "the kernel sends memory by itself only where it need not be enciphered",
        "storage/wire.py",
        "file is not None and not isinstance(self.socket, ssl.SSLSocket)",
        "file is not None",
        _SHARED,
    ),
    Mutant(
        "sent-from-its-start",
        "bytes are sent from where they are in their memory",
        "storage/shared_memory.py",
        "_place_of(memoryview(data)) - memory.place",
        "0",
        _SHARED,
    ),
    Mutant(
        "doubtful-memory",
        "memory that nobody answered for is doubtful",
        "storage/wire.py",
        "            leave_alone(body)\n            if line",
        "            if line",
        _SHARED,
    ),
    Mutant(
        "doubtful-refusals",
        "memory that was refused is doubtful",
        "storage/wire.py",
        "            leave_alone(body)  #",
        "            pass  #",
        _SHARED,
    ),
    Mutant(
        "parts-of-a-fork",
        "a process that was forked has parts of its own",
        "storage/cloud_stream.py",
        "os.register_at_fork(after_in_child=_free.clear)",
        "",
        _SHARED,
    ),
    Mutant(
        "sliced-bodies",
        "each bit of a body has its own time, not all of it",
        "storage/http.py",
        "data=_sliced(call.body),",
        "data=call.body,",
        ("tests/storage/test_http.py",),
    ),
    Mutant(
        "doubtful-parts",
        "doubtful memory is not used again",
        "storage/cloud_stream.py",
        " and not is_doubtful(self.view)",
        "",
        _SHARED,
    ),
    Mutant(
        "copy-asked-first",
        "a reader is let go of only where the server may copy the object itself",
        "storage/cloud.py",
        "        if not self.bucket.may_copy_from(origin):\n",
        "        if not origin.size_bytes:\n",
        (_COPIES + "test_what_has_to_be_streamed_is_asked_for_once",),
    ),
    Mutant(
        "copies-compared",
        "a copy whose digest is not told is compared with its origin",
        "storage/s3_copy.py",
        "return digest if digest == again else None",
        "return digest",
        (_COPIES + "test_a_copy_without_digest_that_is_not_the_same_is_made_anew",),
    ),
    Mutant(
        "copies-kept",
        "a whole copy whose digest is not told is not deleted",
        "storage/s3_copy.py",
        " or self._compare(origin, name)",
        "",
        (_COPIES + "test_a_whole_copy_without_digest_is_never_deleted",),
    ),
    Mutant(
        "slow-down",
        "a store that asks to slow down is asked again",
        "storage/requests.py",
        "    Kind.BUSY: 180.0,\n",
        "",
        (_STORES + "test_every_tenth_request_is_asked_to_slow_down[minio]",),
    ),
    Mutant(
        "store-restart",
        "a store that breaks off is asked again",
        "storage/requests.py",
        "    Kind.CONNECTION: 60.0,\n",
        "",
        (_STORES + "test_a_server_that_is_killed_while_files_are_copied_is_waited_for",),
    ),
    Mutant(
        "caveats",
        "a store without conditional writes is told",
        "repository/lease.py",
        "                say(line)\n",
        "                pass\n",
        (_STORES + "test_a_store_without_conditional_writes_is_told_once_and_serves",),
    ),
    Mutant(
        "rest-restart",
        "a REST catalog that is being restarted is waited for",
        "catalog/rest_client.py",
        "            time.sleep(pause)\n",
        "            deadline = began = float('-inf')\n",
        (f"{_CATALOGS}{_KILLED}[rest]",),
    ),
    Mutant(
        "moved-on-stack",
        "a table that changed meanwhile is walked again from its new pointer",
        "backup/survey.py",
        "        if source.uuid != work.source.uuid:\n",
        "        if source.uuid:\n",
        (
            _CATALOGS
            + "test_a_commit_by_another_writer_leaves_one_of_the_two_states_and_that_whole",
        ),
    ),
    Mutant(
        "renewed",
        "keys that a catalog handed out and a store refuses are renewed",
        "storage/cloud.py",
        "if self._renew is None or fault.kind not in _REFUSED:",
        "if True:",
        (_KEYS + "test_those_that_a_catalog_hands_out_are_renewed_and_the_backup_succeeds",),
    ),
    Mutant(
        "failure-hint",
        "what is wrong with a source's store is told with its hint",
        "backup/survey.py",
        "str(error), kept_pit, error.hint)",
        "str(error), kept_pit)",
        (_TOLD + "test_a_store_that_is_set_up_wrongly_is_told[wrong secret]",),
    ),
    Mutant(
        "task-hint",
        "what went wrong in a task is told with its hint",
        "backup/walk.py",
        "message, location, error.hint)",
        "message, location)",
        ("tests/backup/test_decisions.py::test_a_failure_in_a_task_keeps_its_hint",),
    ),
    Mutant(
        "given-up",
        "a store that is not there is waited for once",
        "storage/requests.py",
        "        self._check_given_up()\n",
        "",
        ("tests/storage/test_requests.py",),
    ),
    Mutant(
        "rest-of-another",
        "what breaks off is gone on with only while it is the same object",
        "storage/s3.py",
        '            headers["if-match"] = tag\n',
        "            headers = dict(headers)\n",
        (_WIRE + "test_the_rest_of_an_object_is_asked_for",),
    ),
    Mutant(
        "chunk-longer",
        "a chunk that is longer than it says is not cut off",
        "storage/wire.py",
        'if line.endswith(b"\\n") and line not in {b"\\r\\n", b"\\n"}:',
        "if False:",
        (_WIRE + "test_a_chunk_of_another_size_than_it_says_is_a_fault",),
    ),
    Mutant(
        "chunk-sizes",
        "the size of a chunk may be anything",
        "storage/wire.py",
        "if not 0 <= size_bytes <= _CHUNK_BYTES:",
        "if False:",
        (_WIRE + "test_a_chunk_of_another_size_than_it_says_is_a_fault",),
    ),
    Mutant(
        "whole-for-rest",
        "a server that knows no ranges is not believed to send the rest",
        "storage/s3.py",
        "if start and answer.status != _PARTIAL:",
        "if False:",
        (_WIRE + "test_the_whole_is_not_taken_for_the_rest",),
    ),
    Mutant(
        "room-of-a-part",
        "bytes that are read into a part come after those that are in it",
        "storage/cloud_stream.py",
        "rest = self._part.view[self._filled :]\n",
        "rest = self._part.view\n",
        (_ROOM + "[minio-4194304]",),
    ),
    Mutant(
        "full-tasks",
        "tasks of large files hold twice as many as go at once",
        "engine/chunks.py",
        "fewest = full if ordered[start].is_large else 0",
        "fewest = 0",
        (
            "tests/engine/test_chunks.py::test_tasks_of_large_files_hold_twice_as_many_as_go_at_once",
        ),
    ),
    Mutant(
        "end-between-chunks",
        "an answer that ends in a chunk or between two broke off",
        "storage/wire.py",
        "        if not line:\n            raise ConnectionResetError\n        size_bytes",
        "        size_bytes",
        ("tests/storage/test_wire.py::test_half_a_body_is_a_fault",),
    ),
    Mutant(
        "put-checksum",
        "an object is sent with the checksum of its bytes",
        "storage/s3.py",
        "headers = {MARK_HEADER: mark, _CHECKSUM: _checksum(data)}",
        "headers = {MARK_HEADER: mark}",
        ("tests/storage/test_s3.py::test_bytes_that_suffered_on_their_way_are_not_stored",),
    ),
    Mutant(
        "part-memory",
        "memory of a part is used again only when the part was sent",
        "storage/cloud_stream.py",
        "        self._waiting.append(\n            threads.submit(",
        "        self._part.release()\n        self._waiting.append(\n            threads.submit(",
        ("tests/storage/test_s3.py::test_a_large_key_goes_in_parts_and_comes_back",),
    ),
    Mutant(
        "part-held",
        "memory of a part is used again only when its bytes are not needed any more",
        "storage/cloud_stream.py",
        "            self._part.hold()\n",
        "",
        ("tests/storage/test_s3.py::test_memory_of_parts_keeps_its_bytes_until_it_is_let_go",),
    ),
    Mutant(
        "part-used-again",
        "memory of a part is used again",
        "storage/cloud_stream.py",
        "            _keep_part(self)\n",
        "            return\n",
        ("tests/storage/test_s3.py::test_memory_of_parts_keeps_its_bytes_until_it_is_let_go",),
    ),
    Mutant(
        "long-request-again",
        "a request that took long is tried again",
        "storage/requests.py",
        "                    since, has_failed = time.monotonic(), True\n",
        "                    has_failed = True\n",
        ("tests/storage/test_requests.py::test_a_request_that_took_long_is_tried_again",),
    ),
    Mutant(
        "part-exchanged",
        "memory of other sizes goes when new memory comes",
        "storage/cloud_stream.py",
        "        _drop_parts(size_bytes)\n",
        "",
        ("tests/storage/test_s3.py::test_new_memory_comes_in_the_place_of_what_is_free",),
    ),
    Mutant(
        "whole-object",
        "an object of known size goes by one request",
        "storage/cloud.py",
        "        return CloudWriter(self, self.name_of(key), size_bytes)\n",
        "        return CloudWriter(self, self.name_of(key))\n",
        ("tests/storage/test_s3.py::test_a_key_of_known_size_goes_by_one_request",),
    ),
)
