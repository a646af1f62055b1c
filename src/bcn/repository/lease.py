"""One writer at a time: leases by create-only documents, heartbeats, takeover. docs/format.md 8."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TypeVar

from bcn.errors import (
    BcnError,
    DamagedRepositoryError,
    KeyExistsError,
    LeaseLostError,
    MissingKeyError,
    RepositoryLockedError,
    StorageError,
    UsageError,
)
from bcn.model import Json, PitId, iso
from bcn.repository import layout
from bcn.repository.document import VERSION, parse_document, render_document
from bcn.repository.owner import Owner, is_proven_dead, is_proven_running, this_process
from bcn.storage.protocol import Storage

Prepared = TypeVar("Prepared")

BEATS_PER_TTL = 5


@dataclass(frozen=True, slots=True)
class LeaseSettings:
    """How long a silent owner is believed to be alive."""

    ttl_seconds: float = 60.0


@dataclass(frozen=True, slots=True)
class Claim:
    """What a lease is wanted for: the id of a PIT, and the key that publishes it."""

    pit: PitId
    commit_key: str


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write, as a document."""

    number: int
    lease_uuid: str
    owner: Owner
    commit_key: str
    pit: PitId
    ttl_seconds: float
    taken_at: str
    takes_over: int | None

    def document(self) -> Json:
        """The stored form."""
        return {
            "version": VERSION,
            "lease": self.number,
            "lease_uuid": self.lease_uuid,
            "owner": asdict(self.owner),
            "pit": str(self.pit),
            "commit_key": self.commit_key,
            "ttl_seconds": self.ttl_seconds,
            "taken_at": self.taken_at,
            "takes_over": self.takes_over,
        }


def parse_lease(data: bytes, key: str) -> Lease:
    """From the stored form. Raises DamagedRepositoryError."""
    document = parse_document(data, key)
    try:
        owner = {name: document["owner"][name] for name in Owner.__slots__}
        return Lease(
            int(document["lease"]),
            document["lease_uuid"],
            Owner(**owner),
            document["commit_key"],
            PitId.parse(document["pit"]),
            float(document["ttl_seconds"]),
            document["taken_at"],
            document["takes_over"],
        )
    except (KeyError, TypeError, ValueError, UsageError) as error:
        raise DamagedRepositoryError(f"{key} is not a whole lease: {error!r}") from error


def highest_lease(storage: Storage) -> int:
    """The number of the newest lease, 0 if there was none."""
    numbers = (layout.parse_lease_key(key) for key in storage.iter_keys(layout.LEASES_PREFIX))
    return max((number for number in numbers if number is not None), default=0)


def find_held_lease(storage: Storage) -> Lease | None:
    """The newest lease if it was not released."""
    return _find_held(storage, highest_lease(storage))


def _find_held(storage: Storage, number: int) -> Lease | None:
    if number == 0 or storage.find_stat(layout.released_key(number)) is not None:
        return None
    key = layout.lease_key(number)
    return parse_lease(storage.read(key), key)


def leased_pits(storage: Storage) -> Iterator[PitId]:
    """Ids that leases were taken for: none of them may be used again."""
    for key in storage.iter_keys(layout.LEASES_PREFIX):
        if layout.parse_lease_key(key) is not None:
            yield parse_lease(storage.read(key), key).pit


def _create(storage: Storage, key: str, data: bytes) -> bool:
    """Whether the key now holds our bytes; a store may report our own write as somebody else's."""
    try:
        storage.claim(key, data)
    except KeyExistsError:
        with suppress(MissingKeyError):  # whoever was let in has yet to write
            return storage.read(key) == data
        return False
    return True


class Lessor:
    """Waits for the lease, takes it, takes it over. Time comes in as functions."""

    def __init__(
        self,
        storage: Storage,
        settings: LeaseSettings,
        now: Callable[[], datetime],
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._storage = storage
        self._settings = settings
        self._now = now
        self._monotonic = monotonic
        self._sleep = sleep
        self._seen: int | None = None
        self._caveats_told = False
        self.me = this_process()

    def wait_until_free(self, wait_seconds: float, say: Callable[[str], None]) -> int | None:
        """Return when nobody holds the lease: the number taken over, if any.

        An owner whose heart beats keeps it: RepositoryLockedError after `wait_seconds`. One that is
        dead, or silent for a whole TTL of ours to watch, is marked as abandoned.
        """
        self._tell_caveats(say)
        deadline = self._monotonic() + wait_seconds
        while True:
            self._seen = highest_lease(self._storage)
            held = _find_held(self._storage, self._seen)
            if held is None:
                return None
            say(f"waiting for the lease of {held.owner}, taken {held.taken_at}")
            if self._watch(held, deadline):
                self.abandon(held)
                return held.number

    def _tell_caveats(self, say: Callable[[str], None]) -> None:
        if not self._caveats_told:
            for line in self._storage.caveats():
                say(line)
        self._caveats_told = True

    def _watch(self, held: Lease, deadline: float) -> bool:
        """True if the owner is gone, False if it released; raises when the wait is over."""
        if is_proven_dead(held.owner, self.me):
            return True
        if self._monotonic() >= deadline and is_proven_running(held.owner, self.me):
            raise RepositoryLockedError(f"locked by {held.owner} since {held.taken_at}")
        started, beat = self._monotonic(), self._heartbeat(held)
        while self._monotonic() - started < held.ttl_seconds:
            self._sleep(min(0.2, held.ttl_seconds / BEATS_PER_TTL / 4))
            if self._storage.find_stat(layout.released_key(held.number)) is not None:
                return False
            if is_proven_dead(held.owner, self.me):
                return True
            if self._heartbeat(held) != beat:
                if self._monotonic() >= deadline:
                    raise RepositoryLockedError(f"locked by {held.owner} since {held.taken_at}")
                started, beat = self._monotonic(), self._heartbeat(held)
        return True

    def _next_number(self) -> int:
        if self._seen is None:
            self._seen = highest_lease(self._storage)
            held = _find_held(self._storage, self._seen)
            if held is not None:
                raise RepositoryLockedError(f"locked by {held.owner} since {held.taken_at}")
        seen, self._seen = self._seen, None
        return seen + 1

    def _heartbeat(self, held: Lease) -> bytes:
        with suppress(StorageError):
            return self._storage.read(layout.heartbeat_key(held.number))
        return b""

    def is_alive(self, held: Lease) -> bool:
        """Whether the owner's heart beats, watched for two beats at most."""
        if is_proven_dead(held.owner, self.me):
            return False
        beat, end = self._heartbeat(held), self._monotonic() + 2 * held.ttl_seconds / BEATS_PER_TTL
        while self._monotonic() < end:
            self._sleep(min(0.2, held.ttl_seconds / BEATS_PER_TTL / 4))
            if self._heartbeat(held) != beat:
                return True
        return False

    def abandon(self, held: Lease) -> None:
        """Put a marker at the PIT key of a lost lease: its owner cannot publish any more."""
        marker = {
            "version": VERSION,
            "abandoned": True,
            "pit": str(held.pit),
            "lease": held.number,
            "by": str(self.me),
            "at": iso(self._now()),
        }
        with suppress(KeyExistsError):  # it published just before, or another watcher was quicker
            self._storage.claim(held.commit_key, render_document(marker))

    def release(self, number: int, outcome: str) -> None:
        """Mark a lease as free."""
        document = {"version": VERSION, "at": iso(self._now()), "outcome": outcome}
        with suppress(KeyExistsError):
            self._storage.write_once(layout.released_key(number), render_document(document))
        if highest_lease(self._storage) == number:
            self._storage.delete(layout.IN_PROGRESS_KEY)

    @contextmanager
    def hold_when_free(
        self,
        wait_seconds: float,
        say: Callable[[str], None],
        prepare: Callable[[], tuple[Claim, Prepared]],
    ) -> Iterator[tuple[HeldLease, Prepared]]:
        """Hold the lease as soon as it is free. Raises RepositoryLockedError after `wait_seconds`.

        `prepare` reads what the lease is for while nobody writes. If another process takes the
        lease meanwhile, that is stale: it is waited for, and all is prepared anew.
        """
        deadline = self._monotonic() + wait_seconds
        while True:
            takes_over = self.wait_until_free(deadline - self._monotonic(), say)
            claim, prepared = prepare()
            try:
                lease = self._take(claim, takes_over)
                break
            except RepositoryLockedError:
                if self._monotonic() >= deadline:
                    raise
        with self._beating(lease) as held:
            yield held, prepared

    @contextmanager
    def hold(self, pit: PitId, commit_key: str, takes_over: int | None) -> Iterator[HeldLease]:
        """Take the next lease and keep its heart beating. Raises RepositoryLockedError."""
        with self._beating(self._take(Claim(pit, commit_key), takes_over)) as held:
            yield held

    def _take(self, claim: Claim, takes_over: int | None) -> Lease:
        """Create the lease after the one that `wait_until_free` saw.

        Whoever took a lease since then may have published, and what was read meanwhile is stale.
        """
        number, ttl = self._next_number(), self._settings.ttl_seconds
        nonce, at = str(uuid.uuid4()), iso(self._now())
        lease = Lease(number, nonce, self.me, claim.commit_key, claim.pit, ttl, at, takes_over)
        if not _create(self._storage, layout.lease_key(number), render_document(lease.document())):
            raise RepositoryLockedError(f"{self._who_took(number)} took the lease first")
        return lease

    def _who_took(self, number: int) -> str:
        key = layout.lease_key(number)
        with suppress(StorageError, DamagedRepositoryError):  # let in, but yet to write its name
            return str(parse_lease(self._storage.read(key), key).owner)
        return "another process"

    @contextmanager
    def _beating(self, lease: Lease) -> Iterator[HeldLease]:
        held = HeldLease(self._storage, lease)
        outcome = "failed"
        try:
            self._storage.replace(layout.IN_PROGRESS_KEY, render_document(lease.document()))
            held.start()
            yield held
            outcome = "done"
        finally:
            held.stop()
            with suppress(BcnError):
                self.release(lease.number, outcome)


class HeldLease:
    """A lease of this process, its heart beating in a thread."""

    def __init__(self, storage: Storage, lease: Lease) -> None:
        self._storage = storage
        self.lease = lease
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="bcn-lease", daemon=True)

    def start(self) -> None:
        """Begin to beat."""
        self._thread.start()

    def stop(self) -> None:
        """Beat no more."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)

    def check(self) -> None:
        """Raises LeaseLostError if another process has taken over."""
        if highest_lease(self._storage) != self.lease.number:
            raise LeaseLostError(f"lease {self.lease.number} was taken over")
        if self._storage.find_stat(layout.released_key(self.lease.number)) is not None:
            raise LeaseLostError(f"lease {self.lease.number} was released by somebody else")

    def publish(self, data: bytes) -> None:
        """Create the PIT this lease is for. Raises LeaseLostError if it was given up."""
        self.check()
        if not _create(self._storage, self.lease.commit_key, data):
            raise LeaseLostError(f"{self.lease.pit} was given up by another process")

    def _beat(self) -> None:
        beat = 0
        interval = self.lease.ttl_seconds / BEATS_PER_TTL
        while True:
            beat += 1
            with suppress(BcnError):  # a missed beat is what the TTL is for
                data = json.dumps({"version": VERSION, "beat": beat}).encode()
                self._storage.replace(layout.heartbeat_key(self.lease.number), data)
            if self._stopped.wait(interval):
                return
