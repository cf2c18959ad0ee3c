"""Retry a block of code: `for attempt in redrive.attempts("fetch"): with attempt: …`."""

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
    """One attempt of a block. `error` is set if it failed and the next attempt follows in `wait` seconds."""

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
        """The number of the attempt; the first is 1."""
        return self._attempt.number

    @property
    def idempotency_key(self) -> str | None:
        """The key that all attempts share."""
        return self._attempt.idempotency_key

    def remaining(self) -> float:
        """Return the seconds left. Pass them to your client as the timeout."""
        return self._attempt.remaining()

    def __repr__(self) -> str:
        return repr(self._attempt)

    def admit(self) -> bool:
        """Ask the breaker for a permit. Return False if it refused and another attempt follows later."""
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
        """Return the next attempt, or raise the error of this one if no time is left after the wait."""
        error = cast("Exception", self.error)
        following = self._controller.next(self._attempt, error)
        if following is None:
            raise error
        return following

    def _begin(self) -> None:
        if self.entered:
            raise InvalidValueError("this attempt was already entered; use a new attempt for each execution")
        self.entered = True
        self._token = CURRENT.set(self._attempt)

    def _end(self, error: BaseException | None) -> bool:
        """Finish the attempt. Return True, which suppresses the error, if another attempt follows."""
        if self._token is not None:
            # A discarded coroutine may finish in another context, where the token cannot be reset.
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
    """An attempt without a timeout of its own: a block that returns a value cannot be executed again."""

    def __enter__(self) -> SyncAttemptBlock:
        self._begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        return self._end(error)


class AsyncAttemptBlock(AttemptBlock):
    """An attempt whose timeout cancels the block and counts as a failure."""

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
        except TimeoutError as cause:
            timeout_error = self._attempt.out_of_time()
            timeout_error.__cause__ = cause
            if self._end(timeout_error):
                return True
            raise timeout_error from cause
        return self._end(error)


class Attempts:
    """The attempts of one block: iterate over them with `for` or `async for`."""

    def __init__(self, controller: CallController) -> None:
        self._controller = controller

    def __iter__(self) -> SyncAttemptBlocks:
        return SyncAttemptBlocks(self._controller)

    def __aiter__(self) -> AsyncAttemptBlocks:
        return AsyncAttemptBlocks(self._controller)


class AttemptBlocks(Generic[B]):
    """Yields attempts as long as the last one failed and may be retried.

    This is an iterator, not a generator, so leaving the loop early leaves nothing to close.
    """

    _kind: type[B]

    def __init__(self, controller: CallController) -> None:
        self._controller = controller
        self._last: B | None = None

    def _wait(self) -> float | None:
        """Seconds until the next attempt; None if there is no further attempt."""
        last = self._last
        if last is None:
            return 0.0
        if not last.entered and last.error is None:
            raise InvalidValueError("the body of the loop must enter its attempt: `with attempt:`")
        return None if last.error is None else last.wait

    def _next(self) -> B | None:
        """The next attempt; None if the breaker refused it."""
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
