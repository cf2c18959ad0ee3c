"""Holding an idempotency key: whoever has it executes the request, and says what came of it.

async with hold:                     its lease is renewed as long as the block lasts
    await hold.complete({"id": 7})   kept, and given to whoever comes with the same request

Left without a word, the key is released, as if nobody had come with it. When the key is lost, because its
lease could not be renewed, the block is cancelled and LeaseLostError raised: somebody else may be executing
it by now.
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
"""A key, and the token that it is held by."""


class HeldKeys:
    """The keys that this process holds. Their leases are renewed on a thread, from the first key on until
    `stop`; a database in memory cannot be reached from there."""

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
    """What executing requests under a key needs."""

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
        """Tokens make it safe to try again: what was written already is written again."""
        return await self.retrier.run("idempotency", action, errors=StoreUnavailableError, tries=MAX_TRIES)

    def begin(self, work: Coroutine[Any, Any, T]) -> asyncio.Future[T]:
        """Whoever waits for it may be cancelled: the work goes on nevertheless."""
        return asyncio.shield(self._task(work))

    async def finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Cancelled, it is finished first."""
        task = self._task(work)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait({task})
            raise

    def _task(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """The loop itself would forget a task that nobody waits for."""
        task = asyncio.create_task(work)
        self.unfinished.add(task)
        task.add_done_callback(self.unfinished.discard)
        return task


class Hold:
    """`since` is when the key was taken, at the latest, by the monotonic clock."""

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
        """Keep the value, as JSON. NotStorableError where it has no such form: then nothing has happened."""
        plain, text = json_and_text(value, limits=self._services.limits)
        await self._end(self._keys.complete_if_held, self._services.encryption.encrypt(text))
        return plain

    async def fail(self, failure: JsonValue) -> None:
        """Keep the failure: the request is not executed again."""
        await self._end(self._keys.fail_if_held, self._services.encryption.encrypt(encode(failure)))

    async def release(self) -> None:
        """Let others execute it. Should that not reach the database, the lease ends by itself."""
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
        """From here on the token alone decides whether the key is still ours."""
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
            f"the idempotency key {self._name.key!r} was not renewed in time, and somebody else may have it "
            f"by now; what was done here is not kept. Ask again with the same key for what is"
        )
