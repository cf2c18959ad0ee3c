"""Awaiting any awaitable for a limited time, as if it were awaited directly."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Generator, Iterator
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.calls.script import run_through

from redrive import Attempt, Guard, RetryableError, retry
from redrive.callables import bounded
from redrive.errors import AttemptTimeoutError
from redrive.testing import VirtualClock


class CountingLoop(asyncio.SelectorEventLoop):
    """An event loop that counts timers."""

    def __init__(self) -> None:
        super().__init__()
        self.timers = 0

    def call_at(self, *arguments: Any, **options: Any) -> asyncio.TimerHandle:  # type: ignore[override]
        self.timers += 1
        return super().call_at(*arguments, **options)


@pytest.fixture
def loop() -> Iterator[CountingLoop]:
    with contextlib.closing(CountingLoop()) as loop:
        yield loop


class Steps:
    """A hand-written awaitable: yields the given steps, and keeps what is sent and thrown in."""

    def __init__(self, *yielded: object, result: object = "done") -> None:
        self._yielded = yielded
        self._result = result
        self.sent: list[object] = []
        self.thrown: list[BaseException] = []
        self.closed = False

    def __await__(self) -> Generator[Any, Any, Any]:
        try:
            for each in self._yielded:
                try:
                    self.sent.append((yield each))
                except GeneratorExit:
                    self.closed = True
                    raise
                except BaseException as error:
                    self.thrown.append(error)
                    raise
        finally:
            self.sent.append("the end")
        return self._result


class PlainIterator:
    """`__await__` may return any iterator, even one without send, throw and close."""

    def __init__(self, turns: int) -> None:
        self._turns = turns

    def __await__(self) -> Any:
        return iter([None] * self._turns)


def attempt(timeout: float = 5.0) -> Attempt:
    return Guard("work", timeout=timeout, max_attempts=1, clock=VirtualClock()).call(lambda attempt: attempt)


class TestKinds:
    async def test_coroutine(self) -> None:
        async def work() -> str:
            await asyncio.sleep(0.001)
            return "done"

        assert await bounded(work(), attempt()) == "done"

    async def test_future(self) -> None:
        future = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(0.005, future.set_result, "done")
        assert await bounded(future, attempt()) == "done"

    async def test_future_that_is_done(self) -> None:
        future = asyncio.get_running_loop().create_future()
        future.set_result("done")
        assert await bounded(future, attempt()) == "done"

    async def test_future_that_fails(self) -> None:
        future = asyncio.get_running_loop().create_future()
        error = KeyError("no")
        asyncio.get_running_loop().call_later(0.005, future.set_exception, error)
        with pytest.raises(KeyError) as caught:
            await bounded(future, attempt())
        assert caught.value is error

    async def test_future_that_hangs_is_cancelled(self) -> None:
        future = asyncio.get_running_loop().create_future()
        with pytest.raises(AttemptTimeoutError):
            await bounded(future, attempt(0.01))
        assert future.cancelled()

    async def test_task(self) -> None:
        task = asyncio.ensure_future(asyncio.sleep(0.001, "done"))
        assert await bounded(task, attempt()) == "done"

    async def test_task_that_hangs_is_cancelled(self) -> None:
        task = asyncio.ensure_future(asyncio.sleep(5))
        with pytest.raises(AttemptTimeoutError):
            await bounded(task, attempt(0.01))
        assert task.cancelled()

    async def test_gathered(self) -> None:
        both = asyncio.gather(asyncio.sleep(0.001, 1), asyncio.sleep(0, 2))
        assert list(await bounded(both, attempt())) == [1, 2]

    async def test_object_with_await(self) -> None:
        steps = Steps(None, None)
        assert await bounded(steps, attempt()) == "done"
        assert steps.sent == [None, None, "the end"]

    @pytest.mark.parametrize("turns", [0, 1, 5])
    async def test_plain_iterator(self, turns: int) -> None:
        assert await bounded(PlainIterator(turns), attempt()) is None

    async def test_plain_iterator_can_be_cancelled(self) -> None:
        task = asyncio.ensure_future(_as_coroutine(bounded(PlainIterator(1_000_000), attempt())))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def test_a_result_of_any_kind(self) -> None:
        for result in (None, False, StopAsyncIteration(), ValueError("a value"), (), asyncio.sleep):
            assert await bounded(Steps(None, result=result), attempt()) is result
            assert await bounded(Steps(result=result), attempt()) is result


class TestTimers:
    """A timer is set only if the coroutine really waits."""

    def test_none_without_a_wait(self, loop: CountingLoop) -> None:
        @retry(timeout=5.0)
        async def cached() -> int:
            return 1

        async def main() -> list[int]:
            return [await cached() for _ in range(10)]

        assert loop.run_until_complete(main()) == [1] * 10
        assert loop.timers == 0

    def test_none_for_a_failure_without_a_wait(self, loop: CountingLoop) -> None:
        @retry(timeout=5.0, max_attempts=1)
        async def work() -> int:
            raise RetryableError

        async def main() -> None:
            with pytest.raises(RetryableError):
                await work()

        loop.run_until_complete(main())
        assert loop.timers == 0

    @pytest.mark.parametrize("turns", [1, 2, 50])
    def test_one_per_attempt_however_often_it_waits(self, loop: CountingLoop, turns: int) -> None:
        @retry(timeout=5.0)
        async def work() -> None:
            for _ in range(turns):
                await asyncio.sleep(0)

        loop.run_until_complete(_as_coroutine(work()))
        assert loop.timers == 1

    def test_none_is_left_behind(self, loop: CountingLoop) -> None:
        @retry(timeout=5.0, max_attempts=2)
        async def work() -> None:
            await asyncio.sleep(0)
            raise KeyError

        with pytest.raises(KeyError):
            loop.run_until_complete(_as_coroutine(work()))
        assert all(handle.cancelled() for handle in loop._scheduled)  # type: ignore[attr-defined]


class TestTransparency:
    """Nothing between the function and the event loop is changed, added or lost."""

    async def test_an_exception_thrown_in_is_seen_inside(self) -> None:
        steps = Steps(None, None, None)
        waiting = bounded(steps, attempt())
        waiting.send(None)
        error = LookupError("thrown in")
        with pytest.raises(LookupError) as caught:
            waiting.throw(error)
        assert caught.value is error
        assert steps.thrown == [error]
        assert steps.sent == ["the end"]

    async def test_an_exception_may_be_caught_inside(self) -> None:
        async def work() -> str:
            try:
                await asyncio.sleep(5)
            except LookupError:
                await asyncio.sleep(0)
                return "caught"
            return "not thrown"

        waiting = bounded(work(), attempt())
        waiting.send(None)
        assert waiting.throw(LookupError()) is None
        with pytest.raises(StopIteration) as done:
            waiting.send(None)
        assert done.value.value == "caught"

    async def test_closing_closes_the_inner_awaitable(self) -> None:
        steps = Steps(None, None)
        waiting = bounded(steps, attempt())
        waiting.send(None)
        waiting.close()
        assert steps.closed
        assert steps.sent == ["the end"]

    async def test_a_coroutine_that_ignores_being_closed_is_an_error(self) -> None:
        async def stubborn() -> None:
            try:
                await asyncio.sleep(5)
            except GeneratorExit:
                await asyncio.sleep(0)

        waiting = bounded(stubborn(), attempt())
        waiting.send(None)
        with pytest.raises(RuntimeError, match="ignored GeneratorExit"):
            waiting.close()

    async def test_stop_iteration_inside_is_an_error_as_always(self) -> None:
        async def work(waits: bool) -> None:
            if waits:
                await asyncio.sleep(0)
            raise StopIteration("no")

        for waits in (True, False):
            with pytest.raises(RuntimeError, match="StopIteration"):
                await bounded(work(waits), attempt())

    async def test_it_runs_in_the_same_task(self) -> None:
        async def work() -> tuple[object, object]:
            before = asyncio.current_task()
            await asyncio.sleep(0)
            return before, asyncio.current_task()

        this = asyncio.current_task()
        assert await bounded(work(), attempt()) == (this, this)

    async def test_the_first_step_runs_at_once(self) -> None:
        seen: list[str] = []

        async def work() -> None:
            seen.append("started")
            await asyncio.sleep(0)

        waiting = bounded(work(), attempt())
        waiting.send(None)
        assert seen == ["started"]
        waiting.close()

    async def test_deep_chains(self) -> None:
        async def work(depth: int) -> int:
            if depth:
                return await bounded(work(depth - 1), attempt()) + 1
            await asyncio.sleep(0.001)
            return 0

        assert await work(50) == 50

    def test_without_a_wait_no_event_loop_is_needed(self) -> None:
        async def work() -> int:
            return 1

        assert run_through(bounded(work(), attempt())) == 1


class Recipe(NamedTuple):
    """A coroutine as data: what it does in each of its steps."""

    turns: list[str]

    async def cooked(self, log: list[object]) -> str:
        for turn in self.turns:
            try:
                if turn == "raise":
                    raise KeyError(turn)
                log.append(await Turn(turn))
            except LookupError as error:
                log.append(error)
                if turn != "forgive":
                    raise
        return "done"


class Turn:
    def __init__(self, name: str) -> None:
        self._name = name

    def __await__(self) -> Generator[str, object, object]:
        return (yield self._name)


def driven(coroutine: Any, drives: list[str]) -> list[object]:
    """Drive a coroutine by hand, and return its outputs."""
    seen: list[object] = []
    error = IndexError("thrown in")
    for drive in drives:
        try:
            if drive == "throw" and seen:
                seen.append(coroutine.throw(error))
            else:
                seen.append(coroutine.send(drive if drive == "value" and seen else None))
        except BaseException as ended:
            return [*seen, type(ended), ended.args]
    coroutine.close()
    return seen


@given(
    st.lists(st.sampled_from(["wait", "forgive", "raise"]), max_size=6),
    st.lists(st.sampled_from(["send", "send", "value", "throw"]), min_size=1, max_size=8),
)
def test_driven_by_hand_it_behaves_like_the_bare_coroutine(turns: list[str], drives: list[str]) -> None:
    async def compare() -> None:
        bare_log: list[object] = []
        log: list[object] = []
        bare = driven(Recipe(turns).cooked(bare_log), drives)
        assert driven(bounded(Recipe(turns).cooked(log), attempt()), drives) == bare
        assert [repr(each) for each in log] == [repr(each) for each in bare_log]

    asyncio.run(compare())


async def _as_coroutine(awaitable: Awaitable[Any]) -> Any:
    return await awaitable
