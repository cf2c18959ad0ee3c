"""A block of code that is retried: `for attempt in redrive.attempts("fetch"): with attempt: …`."""

from __future__ import annotations

from contextlib import suppress
from contextvars import Token
from types import TracebackType
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from redrive.calls.attempt import CURRENT, Attempt
from redrive.calls.controller import CallController
from redrive.errors import InvalidValueError
from redrive.model.breaker import Permit

if TYPE_CHECKING:
    from asyncio import Timeout


B = TypeVar("B", bound="AttemptBlock")


class AttemptBlock:
    """One attempt of a block. `error` is set when it failed and another follows after `wait` seconds."""

    def __init__(self, controller: CallController, attempt: Attempt) -> None:
        self._controller = controller
        self._attempt = attempt
        self._token: Token[Attempt | None] | None = None
        self._permit: Permit | None = None
        self.entered = False
        self.error: Exception | None = None
        self.wait = 0.0

    @property
    def number(self) -> int:
        """1 is the first attempt."""
        return self._attempt.number

    @property
    def idempotency_key(self) -> str | None:
        """The key that all attempts share."""
        return self._attempt.idempotency_key

    def remaining(self) -> float:
        """Return the seconds left. Pass them to your client as its timeout."""
        return self._attempt.remaining()

    def __repr__(self) -> str:
        return repr(self._attempt)

    def admit(self) -> bool:
        """Ask the breaker; False if it refused and the attempt is to be made again later."""
        if not self._controller.breaks:
            return True
        try:
            self._permit = self._controller.dependency.admit()
        except Exception as error:
            if not self._failed(error):
                raise
            return False
        return True

    def next(self) -> Attempt:
        """Return the attempt after this one, or raise its error when the wait has used up the time."""
        error = cast("Exception", self.error)
        following = self._controller.next(self._attempt, error)
        if following is None:
            raise error
        return following

    def _begin(self) -> None:
        if self.entered:
            raise InvalidValueError("an attempt is one execution of the block; enter it once")
        self.entered = True
        self._token = CURRENT.set(self._attempt)

    def _end(self, error: BaseException | None) -> bool:
        """Whether the error is to be suppressed, because another attempt follows."""
        if self._token is not None:
            # A coroutine that is discarded may end in another context, where a token cannot be reset.
            with suppress(ValueError):
                CURRENT.reset(self._token)
        if error is None:
            self._controller.succeeded(self._attempt, self._permit)
            return False
        if not isinstance(error, Exception):
            self._controller.abandoned(self._attempt, self._permit)
            return False
        return self._failed(error)

    def _failed(self, error: Exception) -> bool:
        wait = self._controller.failed(self._attempt, self._permit, error)
        if wait is None:
            return False
        self.error, self.wait = error, wait
        return True


class SyncAttemptBlock(AttemptBlock):
    def __enter__(self) -> SyncAttemptBlock:
        self._begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        return self._end(error)


class AsyncAttemptBlock(AttemptBlock):
    """Its timeout cancels the block and counts as a failure."""

    _limit: Timeout

    async def __aenter__(self) -> AsyncAttemptBlock:
        from asyncio import timeout  # sync calls must not pay for asyncio

        self._begin()
        self._limit = timeout(self.remaining())
        await self._limit.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        try:
            await self._limit.__aexit__(kind, error, trace)
        except TimeoutError as timed_out:
            late = self._attempt.out_of_time()
            late.__cause__ = timed_out
            if self._end(late):
                return True
            raise late from timed_out
        return self._end(error)


class Attempts:
    """The attempts of one block, to be iterated with `for` or `async for`."""

    def __init__(self, controller: CallController) -> None:
        self._controller = controller

    def __iter__(self) -> SyncAttemptBlocks:
        return SyncAttemptBlocks(self._controller)

    def __aiter__(self) -> AsyncAttemptBlocks:
        return AsyncAttemptBlocks(self._controller)


class AttemptBlocks(Generic[B]):
    """One attempt after the other, as long as the last one failed and may be repeated.

    An iterator and not a generator: a loop that is left early leaves nothing behind that has to be closed.
    """

    _kind: type[B]

    def __init__(self, controller: CallController) -> None:
        self._controller = controller
        self._last: B | None = None

    def _wait(self) -> float | None:
        """Seconds until the next attempt; None when there is none."""
        last = self._last
        if last is None:
            return 0.0
        if not last.entered and last.error is None:
            raise InvalidValueError("the body of the loop must enter its attempt: `with attempt:`")
        return None if last.error is None else last.wait

    def _next(self) -> B | None:
        """The next attempt; None if the breaker has refused it."""
        last = self._last
        attempt = self._controller.first((), {}) if last is None else last.next()
        self._last = block = self._kind(self._controller, attempt)
        return block if block.admit() else None


class SyncAttemptBlocks(AttemptBlocks[SyncAttemptBlock]):
    _kind = SyncAttemptBlock

    def __iter__(self) -> SyncAttemptBlocks:
        return self

    def __next__(self) -> SyncAttemptBlock:
        while (wait := self._wait()) is not None:
            if wait > 0.0:
                self._controller.clock.pause(wait)
            if (block := self._next()) is not None:
                return block
        raise StopIteration


class AsyncAttemptBlocks(AttemptBlocks[AsyncAttemptBlock]):
    _kind = AsyncAttemptBlock

    def __aiter__(self) -> AsyncAttemptBlocks:
        return self

    async def __anext__(self) -> AsyncAttemptBlock:
        while (wait := self._wait()) is not None:
            if wait > 0.0:
                await self._controller.clock.sleep(wait)
            if (block := self._next()) is not None:
                return block
        raise StopAsyncIteration
