"""The attempt as context of running code, and other context variables."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.calls.script import Play, Script

from redrive import Attempt, Backoff, Guard, RetryableError, retry
from redrive.calls import current_attempt
from redrive.policy import Immediate
from redrive.testing import VirtualClock

AT_ONCE = Backoff(Immediate())

COLOR: contextvars.ContextVar[str] = contextvars.ContextVar("color", default="none")


class TestCurrentAttempt:
    def test_none_outside(self) -> None:
        assert current_attempt() is None

    def test_inside_the_call_it_is_the_attempt_that_is_passed(self, play: Play) -> None:
        class Looking(Script):
            def __call__(self, attempt: Attempt) -> object:
                assert current_attempt() is attempt
                return super().__call__(attempt)

        play(Looking(RetryableError(), RetryableError(), "done"), Guard("work", backoff=AT_ONCE))
        assert current_attempt() is None

    def test_none_after_a_failure(self, play: Play) -> None:
        with pytest.raises(KeyError):
            play(Script(KeyError()), Guard("work"))
        assert current_attempt() is None

    def test_none_in_the_hooks_and_in_the_classifier(self, play: Play) -> None:
        seen: list[object] = []
        guard = Guard("work", backoff=AT_ONCE, hooks=[lambda event: seen.append(current_attempt())])
        play(Script(RetryableError(), "done"), guard)
        assert seen == [None, None]

    def test_nested(self) -> None:
        outer, inner = Guard("outer"), Guard("inner")

        def work(attempt: Attempt) -> None:
            assert inner.call(lambda nested: (nested is current_attempt(), nested.operation)) == (
                True,
                "inner",
            )
            assert current_attempt() is attempt
            for error in (KeyError(), KeyboardInterrupt()):
                with pytest.raises(type(error)):
                    inner.call(Script(error))
                assert current_attempt() is attempt

        outer.call(work)

    async def test_nested_async(self) -> None:
        @retry("inner")
        async def inner() -> str:
            await asyncio.sleep(0)
            attempt = current_attempt()
            assert attempt is not None
            return attempt.operation

        @retry("outer")
        async def outer() -> list[str]:
            around = current_attempt()
            results = [await inner()]
            for kind in (KeyError, asyncio.CancelledError):
                assert current_attempt() is around
                with pytest.raises(kind):
                    await failing(kind)
            assert current_attempt() is around
            return results

        @retry("failing")
        async def failing(kind: type[BaseException]) -> None:
            await asyncio.sleep(0)
            raise kind

        assert await outer() == ["inner"]
        assert current_attempt() is None

    async def test_calls_side_by_side_each_see_their_own(self) -> None:
        async def work(attempt: Attempt) -> None:
            for _ in range(5):
                assert current_attempt() is attempt
                await asyncio.sleep(0)

        await asyncio.gather(*(Guard(f"work {number}").call(work) for number in range(5)))

    async def test_a_task_started_inside_belongs_to_the_attempt(self) -> None:
        async def look() -> Attempt | None:
            await asyncio.sleep(0)
            return current_attempt()

        async def work(attempt: Attempt) -> bool:
            return await asyncio.create_task(look()) is attempt

        assert await Guard("work").call(work)

    async def test_a_task_that_outlives_the_attempt_is_no_longer_part_of_it(self) -> None:
        """A thread that a pool starts during a call, for example, must not inherit its limit forever."""
        clock = VirtualClock()
        proceed = asyncio.Event()

        async def background() -> tuple[object, float]:
            await proceed.wait()
            left = Guard("later", timeout=7.0, clock=clock).call(lambda attempt: attempt.remaining())
            return current_attempt(), left

        async def work(attempt: Attempt) -> asyncio.Task[tuple[object, float]]:
            assert current_attempt() is attempt
            return asyncio.create_task(background())

        task = await Guard("work", timeout=5.0, clock=clock).call(work)
        clock.time += 100.0
        proceed.set()
        assert await task == (None, 7.0)

    @pytest.mark.parametrize("ending", [KeyError, KeyboardInterrupt])
    def test_the_same_after_a_failure_or_an_interruption(self, ending: type[BaseException]) -> None:
        clock = VirtualClock()
        contexts: list[contextvars.Context] = []

        def work(attempt: Attempt) -> None:
            contexts.append(contextvars.copy_context())
            raise ending

        with pytest.raises(ending):
            Guard("work", timeout=5.0, clock=clock).call(work)
        clock.time += 100.0
        later = Guard("later", timeout=7.0, clock=clock)
        assert contexts[0].run(later.call, lambda attempt: attempt.remaining()) == 7.0
        assert contexts[0].run(current_attempt) is None

    async def test_to_thread_belongs_to_the_attempt(self) -> None:
        async def work(attempt: Attempt) -> bool:
            return await asyncio.to_thread(current_attempt) is attempt

        assert await Guard("work").call(work)

    def test_a_bare_thread_does_not(self) -> None:
        def work(attempt: Attempt) -> object:
            with ThreadPoolExecutor(1) as pool:
                return pool.submit(current_attempt).result()

        assert Guard("work").call(work) is None

    def test_a_thread_with_a_copied_context_does(self) -> None:
        def work(attempt: Attempt) -> bool:
            context = contextvars.copy_context()
            with ThreadPoolExecutor(1) as pool:
                return pool.submit(context.run, current_attempt).result() is attempt

        assert Guard("work").call(work)

    def test_threads_do_not_see_each_other(self) -> None:
        barrier = threading.Barrier(4, timeout=5)

        def work(attempt: Attempt) -> bool:
            barrier.wait()
            same = current_attempt() is attempt
            barrier.wait()
            return same

        with ThreadPoolExecutor(4) as pool:
            futures = [pool.submit(Guard(f"work {number}").call, work) for number in range(4)]
            assert all(future.result() for future in futures)

    def test_no_thread_is_started(self, play: Play) -> None:
        before = threading.active_count()
        play(Script(RetryableError(), "done"), Guard("work", clock=VirtualClock()))
        assert threading.active_count() == before


class TestContextVariables:
    def test_variables_set_outside_are_visible_inside(self) -> None:
        token = COLOR.set("red")
        try:
            assert Guard("work").call(lambda attempt: COLOR.get()) == "red"
        finally:
            COLOR.reset(token)

    def test_variables_set_inside_survive(self) -> None:
        def main() -> str:
            Guard("work").call(lambda attempt: COLOR.set("green"))
            return COLOR.get()

        assert contextvars.copy_context().run(main) == "green"

    async def test_variables_set_inside_survive_waits_and_attempts(self) -> None:
        seen: list[str] = []

        @retry(backoff=AT_ONCE)
        async def work() -> None:
            seen.append(COLOR.get())
            await asyncio.sleep(0)
            COLOR.set(f"attempt {len(seen)}")
            await asyncio.sleep(0)
            if len(seen) < 3:
                raise RetryableError

        COLOR.set("red")
        await work()
        assert seen == ["red", "attempt 1", "attempt 2"]
        assert COLOR.get() == "attempt 3"

    async def test_it_survives_a_timeout(self) -> None:
        @retry(timeout=0.01, max_attempts=1)
        async def work() -> None:
            COLOR.set("blue")
            await asyncio.sleep(5)

        with pytest.raises(TimeoutError):
            await work()
        assert COLOR.get() == "blue"

    async def test_a_token_of_the_caller_can_be_reset_inside(self) -> None:
        token = COLOR.set("red")

        @retry
        async def work() -> None:
            await asyncio.sleep(0)
            COLOR.reset(token)

        await work()
        assert COLOR.get() == "none"


class TestAttempt:
    def test_its_representation_names_the_attempt(self, clock: VirtualClock) -> None:
        script = Script(RetryableError(), "done", clock=clock)
        Guard("charge card", idempotency_key="key", clock=clock).call(script)
        first, second = script.attempts
        assert (first.number, second.number) == (1, 2)
        assert (first.operation, first.max_attempts, first.idempotency_key) == ("charge card", 3, "key")
        assert "charge card" in repr(second)
        assert "2" in repr(second)
        assert [len(attempt.failures) for attempt in script.attempts] == [1, 1]
        assert second.failures == first.failures

    def test_has_no_room_for_mistakes(self) -> None:
        attempt = Guard("work").call(lambda attempt: attempt)
        with pytest.raises(AttributeError):
            attempt.timeout = 3  # type: ignore[attr-defined]
