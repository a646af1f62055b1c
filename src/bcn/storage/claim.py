"""Who may make an object, where the store cannot say: unique claims, a wait, the lowest wins."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager

from bcn.storage.bucket import Bucket, Buffer
from bcn.storage.fault import Fault, Kind
from bcn.storage.local import TEMPORARY_PREFIX

# Longer than a request and its answer take: who looked before our claim was there has claimed by
# the end of it.
SETTLE_SECONDS = 2.0
_STALE_SECONDS = 60.0  # its process was killed


def claim(bucket: Bucket, name: str, data: Buffer, mark: str) -> None:
    """Make an object that must be new. Fault EXISTS for all but one of those who try at once."""
    if bucket.find(name) is not None:
        raise Fault(Kind.EXISTS)
    folder = name[: name.rfind("/") + 1]
    tag = hashlib.sha256(name.encode()).hexdigest()[:16]
    prefix = f"{folder}{TEMPORARY_PREFIX}claim-{tag}-"
    with _claimed(bucket, f"{prefix}{secrets.token_hex(16)}") as mine:
        time.sleep(SETTLE_SECONDS)
        if _winner(bucket, prefix, mine) != mine:
            raise Fault(Kind.EXISTS)
        bucket.put(name, data, mark, create_only=True)
        time.sleep(SETTLE_SECONDS)
        if bucket.find_mark(name) != mark:  # somebody was slower than the wait is long
            raise Fault(Kind.EXISTS)


@contextmanager
def _claimed(bucket: Bucket, mine: str) -> Iterator[str]:
    bucket.put(mine, b"", "", create_only=False)
    try:
        yield mine
    finally:
        bucket.delete([mine])


def _winner(bucket: Bucket, prefix: str, mine: str) -> str:
    """The lowest claim that is not stale, by the server's own clock."""
    claims = {item.name: item.modified_at for item in bucket.list(prefix)}
    born = claims.get(mine)
    if born is None:  # a listing that is behind: nothing can be said
        raise Fault(Kind.EXISTS)
    return min(name for name, at in claims.items() if at >= born - _STALE_SECONDS)
