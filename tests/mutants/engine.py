"""Steps of the engine: what is hashed together, and when its memory is another's."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_DIGEST = ("tests/engine/test_digest.py",)
_TRANSFER = ("tests/engine/test_transfer.py",)

MUTANTS = (
    Mutant(
        "digest-lent-memory",
        "what a writer lent is hashed before it is sent and lent to others",
        "engine/transfer.py",
        "if lent is not None and lent is not buffer.obj:",
        "if lent is not None and lent is buffer:",
        _TRANSFER,
    ),
    Mutant(
        "digest-lent-last",
        "so is the last piece of a file",
        "engine/transfer.py",
        "if is_last and lent is not None:",
        "if is_last and lent is buffer:",
        _TRANSFER,
    ),
    Mutant(
        "digest-own-memory",
        "memory is read to again when what lies there is hashed",
        "engine/transfer.py",
        "last.settle(self.next.obj)",
        "last.settle(self)",
        _TRANSFER,
    ),
    Mutant(
        "digest-two-memories",
        "a thread reads to two places by turns",
        "engine/transfer.py",
        "        self.next, self._later = self._later, self.next\n",
        "",
        _TRANSFER,
    ),
    Mutant(
        "digest-one-behind",
        "results of small files come when the next one is done",
        "engine/transfer.py",
        "if len(waiting) > 1:",
        "if waiting:",
        _TRANSFER,
    ),
    Mutant(
        "digest-in-work",
        "a stream that another thread hashes is left to it",
        "engine/digest.py",
        "if own.is_in_work or not own.pieces:",
        "if not own.pieces:",
        _DIGEST,
    ),
    Mutant(
        "digest-rest",
        "what is left of the longer stream is hashed later",
        "engine/digest.py",
        "                    if digest.pieces and not digest.is_broken:\n",
        "                    if digest.is_broken:\n",
        _DIGEST,
    ),
    Mutant(
        "digest-broken",
        "what was interrupted has no digest",
        "engine/digest.py",
        "                digest.is_broken = True\n",
        "                digest.is_broken = False\n",
        _DIGEST,
    ),
    Mutant(
        "digest-begun-block",
        "blocks that begin in one piece and end in the next",
        "engine/digest.py",
        "        if self._begun:\n            piece = self._complete(piece)\n",
        "",
        _DIGEST,
    ),
    Mutant(
        "digest-after-settling",
        "a block over two pieces comes after the pieces before it",
        "engine/digest.py",
        "            self.settle()\n            self._hash_bytes(self._begun)\n",
        "            self._hash_bytes(self._begun)\n",
        _DIGEST,
    ),
    Mutant(
        "digest-pays",
        "few bytes are left to OpenSSL",
        "engine/digest.py",
        "size_bytes < _PAIRED_BYTES or _Alone.hashed_bytes < _COMPILED_AFTER_BYTES",
        "size_bytes < _PAIRED_BYTES",
        _DIGEST,
    ),
    Mutant(
        "digest-avx",
        "the loops for SHA are compiled without AVX, which does not go with them",
        "engine/sha256.py",
        'features="+sha,+sse4.1"',
        'features="+sha,+avx"',
        _DIGEST,
    ),
    Mutant(
        "digest-checked",
        "loops that give other results than OpenSSL are not used",
        "engine/sha256.py",
        "kernel if kernel is not None and _is_right(kernel) else None",
        "kernel",
        _DIGEST,
    ),
    Mutant(
        "digest-instructions",
        "a CPU without the instructions is not asked for them",
        "engine/sha256.py",
        '    if not llvm.get_host_cpu_features().get("sha"):\n        return None\n',
        "",
        _DIGEST,
    ),
    Mutant(
        "digest-verify",
        "verify compares what it hashed",
        "maintenance/inspection.py",
        '    if content.sha256 != row["sha256"]:\n        return f"stored file',
        '    if content.size_bytes != row["size_bytes"]:\n        return f"stored file',
        ("tests/maintenance/test_verify_files.py",),
    ),
)
