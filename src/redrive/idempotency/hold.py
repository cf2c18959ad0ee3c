"""Hold an idempotency key: execute the request while holding its lease, then store the outcome.

async with hold:                     renews the lease during the block
    await hold.complete({"id": 7})   stores the outcome and returns it to later requests with the same key

A block that stores no outcome releases the key, as if the request had never come. If the lease can't be
renewed, the key is lost: the block is cancelled and raises LeaseLostError, because another caller may be
executing the request by now.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from types import TracebackType
from typing import Any, Self, TypeVar

from redrive.clock import Clock
from redrive.engine.encryption import Encryption
from redrive.engine.ids import Ids
from redrive.engine.lease_renewer import LeaseRenewer
from redrive.engine.payload import json_and_text
from redrive.engine.store_retrier import StoreRetrier
from redrive.errors import LeaseLostError, StoreError, StoreUnavailableError
from redrive.model.idempotency import KeyName
from redrive.policy.codec import JsonLimits, JsonValue, encode
from redrive.policy.redact import Redactor
from redrive.store.database import Database, Session
from redrive.store.idempotency import IdempotencyKeys, KeyRenewal

MAX_TRIES = 4

T = TypeVar("T")


HeldKey = tuple[KeyName, int]
"""A key, and the token of its holder."""


class HeldKeys:
    """The keys that this process holds. A thread renews their leases, from the first key until `stop`.

    An in-memory database has no such thread, because the thread can't reach the database.
    """

    def __init__(self, database: Database, clock: Clock) -> None:
        self._holds: dict[HeldKey, Hold] = {}
        self._renewed_by_thread = not database.in_memory
        self.lease_renewer = LeaseRenewer("redrive-keys", database, clock, renew_keys, self._lost)

    def add(self, hold: Hold) -> None:
        self._holds[hold.key] = hold
        self.lease_renewer.hold(hold.key, hold.lease_seconds, hold.since)
        if self._renewed_by_thread:
            self.lease_renewer.start()

    def remove(self, hold: Hold) -> None:
        self._holds.pop(hold.key, None)
        self.lease_renewer.drop(hold.key)

    def stop(self) -> None:
        self.lease_renewer.stop()

    def _lost(self, keys: Sequence[HeldKey]) -> None:
        for key in keys:
            hold = self._holds.pop(key, None)
            if hold is not None:
                hold.lose_from_thread()


async def renew_keys(session: Session, leases: Sequence[tuple[HeldKey, float]]) -> Mapping[HeldKey, bool]:
    rows = [KeyRenewal(*name, token, seconds) for (name, token), seconds in leases]
    renewed = await IdempotencyKeys(session).renew_if_held(rows)
    return {key: True for key, _ in leases if key[1] in renewed}


@dataclass(frozen=True, slots=True)
class KeyServices:
    """Dependencies of Hold and Idempotency.

    executed    counts the executed requests
    unfinished  tasks that must not be garbage-collected before they finish
    """

    held_keys: HeldKeys
    clock: Clock
    ids: Ids
    retrier: StoreRetrier
    encryption: Encryption
    redactor: Redactor
    limits: JsonLimits
    executed: Iterator[int] = field(default_factory=lambda: count(1))
    unfinished: set[asyncio.Task[Any]] = field(default_factory=set)

    async def persist(self, action: Callable[[], Awaitable[T]]) -> T:
        """Retry a write while the database is unavailable. The token makes the write idempotent."""
        return await self.retrier.run("idempotency", action, errors=StoreUnavailableError, tries=MAX_TRIES)

    def begin(self, work: Coroutine[Any, Any, T]) -> asyncio.Future[T]:
        """Start the work. It continues even if the awaiting caller is cancelled."""
        return asyncio.shield(self._task(work))

    async def finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Await the work. On cancellation, wait until the work is done before raising."""
        task = self._task(work)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait({task})
            raise

    def _task(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Create a task and keep a reference to it: the event loop has only weak references to tasks."""
        task = asyncio.create_task(work)
        self.unfinished.add(task)
        task.add_done_callback(self.unfinished.discard)
        return task


class Hold:
    """A held idempotency key. `since` is a monotonic time not later than the start of the lease."""

    def __init__(
        self,
        services: KeyServices,
        keys: IdempotencyKeys,
        name: KeyName,
        token: int,
        since: float,
        *,
        lease_seconds: float,
        ttl: float,
    ) -> None:
        self.key: HeldKey = name, token
        self.since = since
        self.lease_seconds = lease_seconds
        self._services = services
        self._keys = keys
        self._name = name
        self._token = token
        self._ttl = ttl
        self._loop = asyncio.get_running_loop()
        self._limit = asyncio.timeout(None)
        self._ended = False
        self.lost = False

    def __repr__(self) -> str:
        return f"<Hold {self._name.key!r}>"

    async def __aenter__(self) -> Self:
        await self._limit.__aenter__()
        self._services.held_keys.add(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._services.held_keys.remove(self)
        try:
            await self._limit.__aexit__(kind, error, trace)
        except TimeoutError:
            raise self._gone() from None
        finally:
            if not self._ended and not self.lost:
                await self.release()

    async def complete(self, value: object) -> JsonValue:
        """Store the value as JSON, and return it as later requests will get it.

        NotStorableError if the value can't be stored as JSON; the key then stays held.
        """
        plain, text = json_and_text(value, limits=self._services.limits)
        await self._end(self._keys.complete_if_held, self._services.encryption.encrypt(text))
        return plain

    async def fail(self, failure: JsonValue) -> None:
        """Store a failure. The request is not executed again."""
        await self._end(self._keys.fail_if_held, self._services.encryption.encrypt(encode(failure)))

    async def release(self) -> None:
        """Release the key, so that the request can be executed again.

        If the database is unavailable, the key becomes free when the lease expires.
        """
        self._settle()
        with suppress(StoreError):
            await self._services.finish(self._keys.release_if_held(self._name, self._token))

    async def _end(self, write: Callable[..., Awaitable[bool]], text: str) -> None:
        self._settle()
        if self.lost:
            raise self._gone()
        action = partial(write, self._name, self._token, text, ttl=self._ttl)
        if not await self._services.finish(self._services.persist(action)):
            self.lost = True
            raise self._gone()

    def _settle(self) -> None:
        """Stop renewing the lease. From here on, only the token decides whether the key is still held."""
        self._ended = True
        self._services.held_keys.remove(self)

    def lose_from_thread(self) -> None:
        with suppress(RuntimeError):  # the loop has been closed
            self._loop.call_soon_threadsafe(self._lose)

    def _lose(self) -> None:
        if not self._ended:
            self.lost = True
            self._limit.reschedule(self._loop.time())

    def _gone(self) -> LeaseLostError:
        return LeaseLostError(
            f"the lease on the idempotency key {self._name.key!r} was not renewed in time, so another caller "
            f"may hold the key. The result of this execution was not stored. Repeat the request with the "
            f"same key"
        )
