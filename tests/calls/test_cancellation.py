"""Cancellation passes straight through: it is not a failure, and is never retried, noted or charged."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import logging
import weakref
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from redrive import Attempt, Backoff, BreakerPolicy, Guard, RetryableError, retry
from redrive.calls import Dependency, current_attempt
from redrive.calls.event import CallEvent
from redrive.errors import BreakerOpenError
from redrive.model.breaker import BreakerState
from redrive.policy import Immediate, Linear
from redrive.testing import VirtualClock

AT_ONCE = Backoff(Immediate())
LONG_WAIT = Backoff(Linear(5.0, 0.0))


class Watched:
    """A guard that hangs, or fails and waits, and everything that it could leave behind."""

    def __init__(self, *, backoff: Backoff = AT_ONCE) -> None:
        self.events: list[CallEvent] = []
        self.dependency = Dependency("watched")
        self.started = asyncio.Event()
        self.executions = 0
        self.guard = Guard(
            "work", backoff=backoff, timeout=5.0, dependency=self.dependency, hooks=[self.events.append]
        )

    async def hang(self, attempt: Attempt) -> None:
        self.executions += 1
        self.started.set()
        await asyncio.get_running_loop().create_future()

    async def fail(self, attempt: Attempt) -> None:
        self.executions += 1
        self.started.set()
        raise RetryableError("once")


async def cancelled(task: asyncio.Task[object]) -> asyncio.CancelledError:
    task.cancel("stop it")
    with pytest.raises(asyncio.CancelledError) as caught:
        await task
    assert task.cancelled()
    return caught.value


class TestCancel:
    async def test_during_the_attempt(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.DEBUG, "redrive")
        watched = Watched()
        task = asyncio.ensure_future(watched.guard.call(watched.hang))
        await watched.started.wait()
        error = await cancelled(task)
        assert watched.executions == 1
        assert not hasattr(error, "__notes__")
        assert error.args == ("stop it",)
        assert watched.events == []
        assert caplog.records == []
        assert watched.dependency.retry_tokens == 500.0
        assert watched.dependency.snapshot().calls == 0

    async def test_during_the_wait_between_attempts(self) -> None:
        watched = Watched(backoff=LONG_WAIT)
        task = asyncio.ensure_future(watched.guard.call(watched.fail))
        await watched.started.wait()
        await asyncio.sleep(0.01)
        error = await cancelled(task)
        assert watched.executions == 1
        assert not hasattr(error, "__notes__")
        assert len(watched.events) == 1

    async def test_before_it_began(self) -> None:
        watched = Watched()
        task = asyncio.ensure_future(watched.guard.call(watched.hang))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert watched.executions == 0

    async def test_inside_the_function_it_is_seen_as_one(self) -> None:
        seen: list[BaseException] = []

        @retry
        async def work() -> None:
            try:
                await asyncio.sleep(5)
            except asyncio.CancelledError as error:
                seen.append(error)
                raise

        task = asyncio.ensure_future(work())
        await asyncio.sleep(0)
        error = await cancelled(task)
        assert len(seen) == 1
        assert type(error) is asyncio.CancelledError

    async def test_raised_by_the_function_itself(self) -> None:
        """An inner task was cancelled, not this one: still not a failure of the dependency."""
        watched = Watched()

        async def work(attempt: Attempt) -> None:
            watched.executions += 1
            raise asyncio.CancelledError

        with pytest.raises(asyncio.CancelledError):
            await watched.guard.call(work)
        assert watched.executions == 1
        assert watched.events == []

    async def test_of_an_awaited_task_is_not_a_timeout(self) -> None:
        inner = asyncio.ensure_future(asyncio.sleep(5))

        async def work(attempt: Attempt) -> None:
            await inner

        task = asyncio.ensure_future(Guard("work").call(work))
        await asyncio.sleep(0)
        inner.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    @pytest.mark.parametrize("timer_first", [True, False])
    async def test_at_the_same_time_as_the_timeout(self, timer_first: bool) -> None:
        """The timer fires and the caller cancels in the same iteration of the loop: cancellation wins."""
        watched = Watched()
        task = asyncio.ensure_future(watched.guard.call(watched.hang))
        await watched.started.wait()
        (timer,) = _pending_timers()
        together = [timer._run, task.cancel]
        for act in together if timer_first else reversed(together):
            act()
        timer.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        assert watched.executions == 1
        assert watched.events == []
        assert not hasattr(caught.value, "__notes__")

    async def test_a_task_that_continues_can_uncancel(self) -> None:
        watched = Watched()

        async def shielded() -> int:
            task = asyncio.current_task()
            assert task is not None
            try:
                await watched.guard.call(watched.hang)
            except asyncio.CancelledError:
                assert task.cancelling() == 1
                assert task.uncancel() == 0
            assert await Guard("again", timeout=1.0).call(one_after_a_wait) == 1
            return task.cancelling()

        task = asyncio.ensure_future(shielded())
        await watched.started.wait()
        task.cancel()
        assert await task == 0

    async def test_twice(self) -> None:
        watched = Watched()
        task = asyncio.ensure_future(watched.guard.call(watched.hang))
        await watched.started.wait()
        task.cancel()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelling() == 2

    async def test_shielded_the_call_continues(self) -> None:
        release = asyncio.Event()

        async def work(attempt: Attempt) -> str:
            await release.wait()
            return "done"

        inner = asyncio.ensure_future(Guard("work", timeout=5.0).call(work))
        outer = asyncio.ensure_future(asyncio.shield(inner))
        await asyncio.sleep(0)
        outer.cancel()
        with pytest.raises(asyncio.CancelledError):
            await outer
        release.set()
        assert await inner == "done"


class TestTaskGroup:
    async def test_a_failing_sibling_cancels_a_hanging_call(self) -> None:
        watched = Watched()

        async def fail() -> None:
            await watched.started.wait()
            raise KeyError("sibling")

        with pytest.raises(ExceptionGroup) as caught:
            async with asyncio.TaskGroup() as group:
                group.create_task(_as_coroutine(watched.guard.call(watched.hang)))
                group.create_task(fail())
        assert [type(error) for error in caught.value.exceptions] == [KeyError]
        assert watched.events == []

    async def test_a_failing_sibling_cancels_a_waiting_retry(self) -> None:
        watched = Watched(backoff=LONG_WAIT)

        async def fail() -> None:
            await watched.started.wait()
            await asyncio.sleep(0.01)
            raise KeyError("sibling")

        with pytest.raises(ExceptionGroup):
            async with asyncio.TaskGroup() as group:
                group.create_task(_as_coroutine(watched.guard.call(watched.fail)))
                group.create_task(fail())
        assert watched.executions == 1

    async def test_a_guarded_call_that_fails_cancels_its_siblings(self) -> None:
        async def fail(attempt: Attempt) -> None:
            raise RetryableError("for good")

        with pytest.raises(ExceptionGroup) as caught:
            async with asyncio.TaskGroup() as group:
                group.create_task(_as_coroutine(Guard("work", backoff=AT_ONCE).call(fail)))
                hanging = group.create_task(asyncio.sleep(5))
        assert hanging.cancelled()
        assert isinstance(caught.value.exceptions[0], RetryableError)

    async def test_a_group_inside_an_attempt_is_stopped_with_it(self) -> None:
        ended: list[str] = []

        async def member(name: str) -> None:
            try:
                await asyncio.sleep(5)
            finally:
                ended.append(name)

        @retry(timeout=0.03, max_attempts=2, backoff=AT_ONCE)
        async def work() -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(member("a"))
                group.create_task(member("b"))

        with pytest.raises(TimeoutError):
            await work()
        assert sorted(ended) == ["a", "a", "b", "b"]


class TestHalfOpen:
    """A cancelled probe reports nothing about the dependency, and returns its slot."""

    POLICY = BreakerPolicy(
        window_calls=2, minimum_calls=2, cool_down=0.01, probe_slots=1, successes_to_close=1
    )

    async def half_open(self) -> Dependency:
        clock = VirtualClock()
        dependency = Dependency("shop", breaker=self.POLICY, clock=clock)
        guard = Guard("fail", max_attempts=1, dependency=dependency)
        for _ in range(2):
            with pytest.raises(ConnectionError):
                guard.call(_refuse)
        assert dependency.snapshot().state is BreakerState.OPEN
        clock.advance(self.POLICY.cool_down)
        return dependency

    async def test_its_slot_is_free_again(self) -> None:
        dependency = await self.half_open()
        watched = Watched()
        guard = Guard("probe", dependency=dependency, max_attempts=1)
        task = asyncio.ensure_future(guard.call(watched.hang))
        await watched.started.wait()
        assert dependency.snapshot().probes_in_progress == 1
        with pytest.raises(BreakerOpenError):
            await guard.call(one_after_a_wait)
        await cancelled(task)
        assert dependency.snapshot().state is BreakerState.HALF_OPEN
        assert dependency.snapshot().probes_in_progress == 0
        assert await guard.call(one_after_a_wait) == 1
        assert dependency.snapshot().state is BreakerState.CLOSED

    async def test_also_when_the_coroutine_is_thrown_away(self) -> None:
        dependency = await self.half_open()
        coroutine = Guard("probe", dependency=dependency).call(one_after_a_wait)
        coroutine.send(None)
        assert dependency.snapshot().probes_in_progress == 1
        coroutine.close()
        assert dependency.snapshot().probes_in_progress == 0

    async def test_also_of_a_dependency_used_as_a_decorator(self) -> None:
        dependency = await self.half_open()
        watched = Watched()
        task = asyncio.ensure_future(dependency(watched.hang)(None))  # type: ignore[arg-type]
        await watched.started.wait()
        await cancelled(task)
        assert dependency.snapshot().probes_in_progress == 0
        assert dependency.snapshot().state is BreakerState.HALF_OPEN

    async def test_a_timed_out_probe_is_no_cancellation(self) -> None:
        dependency = await self.half_open()
        watched = Watched()
        with pytest.raises(TimeoutError):
            await Guard("probe", dependency=dependency, timeout=0.01, max_attempts=1).call(watched.hang)
        assert dependency.snapshot().state is BreakerState.OPEN

    @pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
    async def test_also_on_interruption_of_sync_code(self, kind: type[BaseException]) -> None:
        dependency = await self.half_open()

        def work(attempt: Attempt) -> None:
            raise kind

        for guarded in (Guard("probe", dependency=dependency).call, _without_attempt(dependency)):
            with pytest.raises(kind):
                guarded(work)
            assert dependency.snapshot().probes_in_progress == 0
            assert dependency.snapshot().state is BreakerState.HALF_OPEN


class TestInterruption:
    @pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError])
    def test_passes_through_sync_code(self, kind: type[BaseException]) -> None:
        events: list[CallEvent] = []
        executions: list[int] = []

        @retry(backoff=AT_ONCE, hooks=[events.append])
        def work() -> None:
            executions.append(1)
            raise kind

        with pytest.raises(kind) as caught:
            work()
        assert len(executions) == 1
        assert events == []
        assert not hasattr(caught.value, "__notes__")
        assert current_attempt() is None

    def test_passes_through_the_wait_between_attempts(self) -> None:
        class Interrupted:
            now = staticmethod(lambda: 0.0)
            monotonic = staticmethod(lambda: 0.0)

            def pause(self, seconds: float) -> None:
                raise KeyboardInterrupt

            async def sleep(self, seconds: float) -> None:
                raise AssertionError

        with pytest.raises(KeyboardInterrupt):
            Guard("work", clock=Interrupted()).call(_raise_retryable)
        assert current_attempt() is None

    async def test_system_exit_passes_through_async_code(self) -> None:
        @retry(backoff=AT_ONCE)
        async def work() -> None:
            raise SystemExit(3)

        with pytest.raises(SystemExit) as caught:
            await work()
        assert caught.value.code == 3
        assert current_attempt() is None


class TestThrownAway:
    """Coroutines that are never finished. Warnings are errors in these tests."""

    async def test_closed_during_the_attempt(self) -> None:
        seen: list[str] = []

        @retry(timeout=5.0)
        async def work() -> None:
            try:
                await asyncio.sleep(5)
            finally:
                seen.append("closed")

        coroutine = work()
        coroutine.send(None)
        coroutine.close()
        assert seen == ["closed"]
        assert _pending_timers() == []

    async def test_closed_in_the_same_context_leaves_no_attempt_behind(self) -> None:
        coroutine = Guard("work", timeout=5.0).call(one_after_a_wait)
        coroutine.send(None)
        coroutine.close()
        assert current_attempt() is None

    async def test_closed_inside_another_attempt_the_attempt_around_is_there_again(self) -> None:
        async def outer(attempt: Attempt) -> bool:
            coroutine = Guard("inner", timeout=5.0).call(one_after_a_wait)
            coroutine.send(None)
            coroutine.close()
            return current_attempt() is attempt

        assert await Guard("outer").call(outer)

    async def test_closed_during_the_wait(self) -> None:
        @retry(backoff=LONG_WAIT)
        async def work() -> None:
            raise RetryableError

        coroutine = work()
        coroutine.send(None)
        coroutine.close()
        assert current_attempt() is None

    async def test_closed_from_another_context(self) -> None:
        """The garbage collector closes the rest of a task like this."""
        coroutine = Guard("work", timeout=5.0).call(one_after_a_wait)
        contextvars.copy_context().run(coroutine.send, None)
        coroutine.close()
        assert current_attempt() is None

    async def test_never_started(self) -> None:
        coroutine = Guard("work").call(one_after_a_wait)
        coroutine.close()

    def test_collected_after_its_loop_has_gone(self) -> None:
        """The garbage collector collects them without a warning."""

        async def hang() -> None:
            await asyncio.get_running_loop().create_future()

        loop = asyncio.new_event_loop()
        coroutine = retry(timeout=5.0)(hang)()
        reference = weakref.ref(coroutine)
        task = loop.create_task(coroutine)
        loop.run_until_complete(asyncio.sleep(0))
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        loop.close()
        del task, coroutine, loop
        gc.collect()
        assert reference() is None
        assert current_attempt() is None


async def one_after_a_wait(attempt: Attempt) -> int:
    await asyncio.sleep(0.001)
    return 1


async def _as_coroutine(awaitable: Awaitable[object]) -> object:
    return await awaitable


def _refuse(attempt: Attempt) -> None:
    raise ConnectionError("refused")


def _raise_retryable(attempt: Attempt) -> None:
    raise RetryableError


def _without_attempt(dependency: Dependency) -> Callable[[Callable[..., None]], None]:
    return lambda function: dependency(lambda: function(None))()


def _pending_timers() -> list[Any]:
    loop = asyncio.get_running_loop()
    return [handle for handle in loop._scheduled if not handle.cancelled()]  # type: ignore[attr-defined]
