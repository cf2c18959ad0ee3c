"""Holding an idempotency key: whoever has it executes the request, and says what came of it.

async with hold:                     its lease is renewed as long as the block lasts
    await hold.complete({"id": 7})   kept, and given to whoever comes with the same request

Left without a word, the key is released, as if nobody had come with it. When the key is lost, because its
lease could not be renewed, the block is cancelled and LeaseLostError raised: somebody else may be executing
it by now.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from types import TracebackType
from typing import Any, Self, TypeVar

from redrive.clock import Clock
from redrive.engine.encryption import Encryption
from redrive.engine.ids import Ids
from redrive.engine.payload import json_and_text
from redrive.engine.store_retrier import StoreRetrier
from redrive.errors import LeaseLostError, StoreError, StoreUnavailableError
from redrive.idempotency.key_keeper import Kept, KeyLeaseRenewer
from redrive.model.idempotency import KeyName
from redrive.policy.codec import JsonLimits, JsonValue, encode
from redrive.policy.redact import Redactor
from redrive.store.idempotency import IdempotencyKeys

MAX_TRIES = 4

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class KeyServices:
    """What holding keys takes. `open` makes the tables ready."""

    keys: IdempotencyKeys
    lease_renewer: KeyLeaseRenewer
    clock: Clock
    ids: Ids
    retrier: StoreRetrier
    encryption: Encryption
    redactor: Redactor
    limits: JsonLimits
    open: Callable[[], Awaitable[None]]
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
    def __init__(
        self, kit: KeyServices, name: KeyName, token: int, since: float, *, lease_seconds: float, ttl: float
    ) -> None:
        self._kit = kit
        self._name = name
        self._token = token
        self._since = since
        self._lease_seconds = lease_seconds
        self._ttl = ttl
        self._loop = asyncio.get_running_loop()
        self._limit = asyncio.timeout(None)
        self._told = False
        self.lost = False

    def __repr__(self) -> str:
        return f"<Hold {self._name.key!r}>"

    async def __aenter__(self) -> Self:
        await self._limit.__aenter__()
        kept = Kept(self._name, self._token, self._lease_seconds, self._since, self._lose_from_outside)
        self._kit.lease_renewer.hold(kept)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._kit.lease_renewer.drop(self._token)
        try:
            await self._limit.__aexit__(kind, error, trace)
        except TimeoutError:
            raise self._gone() from None
        finally:
            if not self._told and not self.lost:
                await self.release()

    async def complete(self, value: object) -> JsonValue:
        """Keep the value, as JSON. NotStorableError where it has no such form: then nothing has happened."""
        plain, text = json_and_text(value, limits=self._kit.limits)
        await self._tell(self._kit.keys.complete_if_held, self._kit.encryption.encrypt(text))
        return plain

    async def fail(self, failure: JsonValue) -> None:
        """Keep the failure: the request is not executed again."""
        await self._tell(self._kit.keys.fail_if_held, self._kit.encryption.encrypt(encode(failure)))

    async def release(self) -> None:
        """Let others execute it. Should that not reach the database, the lease ends by itself."""
        self._settle()
        with suppress(StoreError):
            await self._kit.finish(self._kit.keys.release_if_held(self._name, self._token))

    async def _tell(self, write: Callable[..., Awaitable[bool]], text: str) -> None:
        self._settle()
        if self.lost:
            raise self._gone()
        action = partial(write, self._name, self._token, text, ttl=self._ttl)
        if not await self._kit.finish(self._kit.persist(action)):
            self.lost = True
            raise self._gone()

    def _settle(self) -> None:
        """From here on the token alone decides whether the key is still ours."""
        self._told = True
        self._kit.lease_renewer.drop(self._token)

    def _lose_from_outside(self) -> None:
        with suppress(RuntimeError):  # the loop has been closed
            self._loop.call_soon_threadsafe(self._lose)

    def _lose(self) -> None:
        if not self._told:
            self.lost = True
            self._limit.reschedule(self._loop.time())

    def _gone(self) -> LeaseLostError:
        return LeaseLostError(
            f"the idempotency key {self._name.key!r} was not renewed in time, and somebody else may have it "
            f"by now; what was done here is not kept. Ask again with the same key for what is"
        )
