"""Calls and the breaker of their dependency (P4, P5)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from tests.calls.script import Play, Script

from redrive import Attempt, Backoff, BreakerPolicy, Category, Guard, RateLimitedError, Rule, retry
from redrive.calls import Dependency
from redrive.calls.event import AttemptFailed, CallEvent
from redrive.errors import (
    BreakerOpenError,
    FinalError,
    HttpContentError,
    HttpStatusError,
    RetryableError,
    UnavailableError,
)
from redrive.model.breaker import BreakerState
from redrive.model.decision import Reason
from redrive.policy import Classifier, Immediate, Linear
from redrive.testing import VirtualClock

AT_ONCE = Backoff(Immediate())
CLOSED, OPEN, HALF_OPEN = BreakerState.CLOSED, BreakerState.OPEN, BreakerState.HALF_OPEN

SMALL = BreakerPolicy(
    window_calls=4, window_seconds=None, minimum_calls=4, cool_down=30.0, probe_slots=2, successes_to_close=2
)


def shop(clock: VirtualClock, policy: BreakerPolicy = SMALL) -> Dependency:
    return Dependency("shop", breaker=policy, clock=clock)


def single(where: Dependency, clock: VirtualClock) -> Guard:
    """One attempt per call, so every call is one result."""
    return Guard("work", max_attempts=1, dependency=where, clock=clock)


def break_it(where: Dependency, clock: VirtualClock) -> None:
    guard = single(where, clock)
    for _ in range(4):
        with pytest.raises(ConnectionError):
            guard.call(Script(ConnectionError()))
    assert where.snapshot().state is OPEN


class TestOpening:
    def test_half_of_the_last_20_calls(self, clock: VirtualClock, play: Play) -> None:
        where = Dependency("shop", breaker=BreakerPolicy(window_seconds=None), clock=clock)
        guard = single(where, clock)
        for number in range(19):
            play(Script("fine"), guard) if number % 2 else _failing(play, guard, ConnectionError())
            assert where.snapshot().state is CLOSED
        play(Script("fine"), guard)
        assert where.snapshot().state is OPEN

    def test_open_it_fails_fast_without_calling(self, clock: VirtualClock, play: Play) -> None:
        where = shop(clock)
        break_it(where, clock)
        clock.time += 10.0
        script = Script("never")
        with pytest.raises(BreakerOpenError, match=r"'shop'.* 20 s") as caught:
            play(script, Guard("work", dependency=where, clock=clock))
        assert script.executions == 0
        assert clock.waits == []
        assert caught.value.dependency == "shop"
        assert caught.value.retry_after == 20.0
        assert isinstance(caught.value, UnavailableError)

    def test_the_retry_loop_stops_with_the_original_error(self, clock: VirtualClock, play: Play) -> None:
        where = shop(clock)
        for _ in range(2):
            _failing(play, single(where, clock), ConnectionError())
        errors = [ConnectionError(str(number)) for number in range(9)]
        script = Script(*errors)
        guard = Guard("work", max_attempts=9, dependency=where, clock=clock)
        with pytest.raises(ConnectionError) as caught:
            play(script, guard)
        assert script.executions == 2
        assert caught.value is errors[1]
        assert "breaker" in caught.value.__notes__[0]

    @pytest.mark.parametrize("wait", [30.0, 40.0])
    def test_the_retry_loop_waits_when_the_wait_outlasts_the_cool_down(
        self, clock: VirtualClock, play: Play, wait: float
    ) -> None:
        where = shop(clock)
        for _ in range(3):
            _failing(play, single(where, clock), ConnectionError())
        script = Script(ConnectionError(), "probed", clock=clock)
        guard = Guard("work", backoff=Backoff(Linear(wait, 0.0)), dependency=where, clock=clock)
        assert play(script, guard) == "probed"
        assert where.snapshot().state is HALF_OPEN

    def test_opened_by_others_during_the_wait(self, clock: VirtualClock, play: Play) -> None:
        """The dependency is not called again: the caller gets an error with the time to wait."""
        where = shop(clock)

        class Meanwhile(VirtualClock):
            def pause(self, seconds: float) -> None:
                super().pause(seconds)
                clock.time += seconds
                break_it(where, clock)

        script = Script(ConnectionError(), "never")
        with pytest.raises(BreakerOpenError) as caught:
            play(script, Guard("work", dependency=where, clock=Meanwhile()))
        assert script.executions == 1
        assert caught.value.retry_after == 30.0

    @pytest.mark.parametrize(
        "make",
        [
            lambda: ConnectionError(),
            lambda: TimeoutError(),
            lambda: HttpStatusError("500", status=500),
            lambda: HttpStatusError("503", status=503),
        ],
    )
    def test_timeouts_network_and_5xx_count(
        self, clock: VirtualClock, play: Play, make: Callable[[], Exception]
    ) -> None:
        where = shop(clock)
        for _ in range(4):
            _failing(play, single(where, clock), make())
        assert where.snapshot().state is OPEN

    @pytest.mark.parametrize(
        "make",
        [
            lambda: HttpStatusError("400", status=400),
            lambda: HttpStatusError("404", status=404),
            lambda: HttpStatusError("408", status=408),
            lambda: HttpStatusError("409", status=409),
            lambda: HttpStatusError("429", status=429),
            lambda: RateLimitedError("429"),
            lambda: HttpContentError("not JSON"),
            lambda: ValueError("bad"),
            lambda: KeyError("who knows"),
            lambda: FinalError("no"),
            lambda: PermissionError("no"),
            lambda: MemoryError(),
            lambda: BreakerOpenError("another", "open"),
        ],
    )
    def test_no_other_failure_opens_it(
        self, clock: VirtualClock, play: Play, make: Callable[[], Exception]
    ) -> None:
        where = shop(clock)
        for _ in range(30):
            _failing(play, single(where, clock), make())
        assert where.snapshot().state is CLOSED
        assert where.snapshot().failures == 0

    def test_every_attempt_counts_not_every_call(self, clock: VirtualClock, play: Play) -> None:
        where = shop(clock)
        guard = Guard("work", dependency=where, clock=clock)
        assert play(Script(ConnectionError(), ConnectionError(), "done"), guard) == "done"
        assert (where.snapshot().calls, where.snapshot().failures) == (3, 2)

    def test_a_custom_classifier_decides_what_counts(self, clock: VirtualClock, play: Play) -> None:
        where = shop(clock)
        classifier = Classifier([Rule.for_type(KeyError, Category.NETWORK)])
        guard = Guard("work", max_attempts=1, dependency=where, classifier=classifier, clock=clock)
        for _ in range(4):
            _failing(play, guard, KeyError())
        assert where.snapshot().state is OPEN

    def test_slow_calls_open_it_too(self, clock: VirtualClock, play: Play) -> None:
        policy = BreakerPolicy(window_calls=4, minimum_calls=4, slow_seconds=2.0)
        where = shop(clock, policy)
        for _ in range(4):
            play(Script("slow", clock=clock, takes=(3.0,)), single(where, clock))
        assert where.snapshot().state is OPEN

    def test_quick_calls_do_not_however_late_it_is(self, clock: VirtualClock, play: Play) -> None:
        where = shop(clock, BreakerPolicy(window_calls=4, minimum_calls=4, slow_seconds=2.0))
        clock.time = 1000.0
        for _ in range(4):
            play(Script("quick"), single(where, clock))
            _failing(play, single(where, clock), KeyError())
        assert where.snapshot().slow_calls == 0
        assert where.snapshot().state is CLOSED

    def test_a_server_that_names_its_return_is_believed(self, clock: VirtualClock, play: Play) -> None:
        where = shop(clock)
        for _ in range(4):
            error = HttpStatusError("503", status=503, headers={"retry-after": "90"})
            _failing(play, single(where, clock), error)
        assert where.snapshot().open_until == 90.0

    def test_without_a_dependency_there_is_none(self, clock: VirtualClock, play: Play) -> None:
        guard = Guard("work", max_attempts=1, clock=clock)
        for _ in range(100):
            _failing(play, guard, ConnectionError())
        assert play(Script("called"), guard) == "called"

    def test_it_is_distinguished_from_a_failure(self, clock: VirtualClock, play: Play) -> None:
        where = shop(clock)
        break_it(where, clock)
        events: list[CallEvent] = []
        guard = Guard("work", dependency=where, clock=clock, hooks=[events.append])
        with pytest.raises(BreakerOpenError):
            play(Script(), guard)
        (event,) = events
        assert isinstance(event, AttemptFailed)
        assert event.reason is Reason.UNAVAILABLE
        assert event.failure.unavailable


class TestClosing:
    def test_after_enough_probes(self, clock: VirtualClock, play: Play) -> None:
        where = shop(clock)
        break_it(where, clock)
        clock.time += 30.0
        guard = single(where, clock)
        assert play(Script("first"), guard) == "first"
        assert where.snapshot().state is HALF_OPEN
        assert play(Script("second"), guard) == "second"
        assert where.snapshot().state is CLOSED

    def test_a_failing_probe_opens_it_again(self, clock: VirtualClock, play: Play) -> None:
        where = shop(clock)
        break_it(where, clock)
        clock.time += 30.0
        play(Script("first"), single(where, clock))
        _failing(play, single(where, clock), ConnectionError())
        assert where.snapshot().state is OPEN
        clock.time += 29.9
        with pytest.raises(BreakerOpenError):
            play(Script(), single(where, clock))

    def test_a_probe_that_fails_for_our_own_mistake_does_not_count(
        self, clock: VirtualClock, play: Play
    ) -> None:
        where = shop(clock)
        break_it(where, clock)
        clock.time += 30.0
        for _ in range(5):
            _failing(play, single(where, clock), KeyError("mistake"))
            assert where.snapshot().state is HALF_OPEN
            assert where.snapshot().probes_in_progress == 0

    def test_a_refusal_shows_that_it_is_alive(self, clock: VirtualClock, play: Play) -> None:
        where = shop(clock)
        break_it(where, clock)
        clock.time += 30.0
        for _ in range(2):
            _failing(play, single(where, clock), HttpStatusError("404", status=404))
        assert where.snapshot().state is CLOSED

    def test_a_result_from_before_it_opened_is_dropped(self, clock: VirtualClock) -> None:
        where = shop(clock)

        def slow(attempt: Attempt) -> str:
            break_it(where, clock)
            return "old"

        assert single(where, clock).call(slow) == "old"
        assert where.snapshot().state is OPEN

    def test_a_probe_that_never_reports_counts_as_failed(self, clock: VirtualClock) -> None:
        policy = BreakerPolicy(
            window_calls=4, minimum_calls=4, cool_down=30.0, probe_slots=1, probe_seconds=5.0
        )
        where = shop(clock, policy)
        break_it(where, clock)
        clock.time += 30.0

        def lost(attempt: Attempt) -> None:
            clock.time += 6.0
            assert where.snapshot().state is OPEN

        single(where, clock).call(lost)
        assert where.snapshot().state is OPEN


class TestDecorator:
    """A dependency can guard a function with only its breaker."""

    def test_sync(self, clock: VirtualClock) -> None:
        where = shop(clock)
        calls: list[int] = []

        @where
        def work(number: int) -> int:
            """Do the work."""
            calls.append(number)
            raise ConnectionError

        for number in range(4):
            with pytest.raises(ConnectionError):
                work(number)
        with pytest.raises(BreakerOpenError):
            work(4)
        assert calls == [0, 1, 2, 3]
        assert (work.__name__, work.__doc__) == ("work", "Do the work.")

    async def test_async(self, clock: VirtualClock) -> None:
        where = shop(clock)

        @where
        async def work() -> None:
            await asyncio.sleep(0)
            raise ConnectionError

        for _ in range(4):
            with pytest.raises(ConnectionError):
                await work()
        with pytest.raises(BreakerOpenError):
            await work()

    async def test_async_successes_close_it_again(self, clock: VirtualClock) -> None:
        where = shop(clock)
        break_it(where, clock)
        clock.time += 30.0

        @where
        async def work() -> str:
            await asyncio.sleep(0)
            return "done"

        assert [await work(), await work()] == ["done", "done"]
        assert where.snapshot().state is CLOSED

    async def test_async_callable_object(self, clock: VirtualClock) -> None:
        """A function that looks sync but returns a coroutine would count as a success before it starts."""
        where = shop(clock)

        class Work:
            async def __call__(self) -> None:
                raise ConnectionError

        for _ in range(4):
            with pytest.raises(ConnectionError):
                await where(Work())()
        assert where.snapshot().state is OPEN

    def test_no_retries(self, clock: VirtualClock) -> None:
        where = shop(clock)
        script = Script(RetryableError())
        with pytest.raises(RetryableError) as caught:
            where(script)(None)  # type: ignore[arg-type]
        assert script.executions == 1
        assert not hasattr(caught.value, "__notes__")

    def test_below_retry_both_work_together(self, clock: VirtualClock) -> None:
        where = shop(clock)
        script = Script(ConnectionError(), "done")
        guarded = retry("work", backoff=AT_ONCE, clock=clock)(where(lambda: script(None)))  # type: ignore[arg-type]
        assert guarded() == "done"
        assert where.snapshot().calls == 2

    def test_shares_the_breaker_with_guards(self, clock: VirtualClock) -> None:
        where = shop(clock)
        break_it(where, clock)
        with pytest.raises(BreakerOpenError):
            where(lambda: 1)()

    def test_its_own_classifier_decides_what_counts(self, clock: VirtualClock) -> None:
        classifier = Classifier([Rule.for_type(KeyError, Category.NETWORK)])
        where = Dependency("shop", breaker=SMALL, classifier=classifier, clock=clock)
        for _ in range(4):
            with pytest.raises(KeyError):
                where(Script(KeyError()))(None)  # type: ignore[arg-type]
        assert where.snapshot().state is OPEN


class Crowd:
    """Counts callers that are inside at the same time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self.most = 0
        self.entered = 0

    def enter(self) -> None:
        with self._lock:
            self.entered += 1
            self._inside += 1
            self.most = max(self.most, self._inside)

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1


class TestConcurrency:
    THREADS = 8
    ENDLESS = BreakerPolicy(
        window_calls=4, minimum_calls=4, cool_down=30.0, probe_slots=3, successes_to_close=1000
    )

    def test_probes_of_threads_never_exceed_their_slots(self, clock: VirtualClock) -> None:
        where = shop(clock, self.ENDLESS)
        break_it(where, clock)
        clock.time += 30.0
        crowd, refused, ready = Crowd(), Crowd(), threading.Barrier(self.THREADS, timeout=5)

        def work(attempt: Attempt) -> None:
            crowd.enter()
            threading.Event().wait(0.002)
            crowd.leave()

        def hammer() -> None:
            guard = single(where, clock)
            ready.wait()
            for _ in range(40):
                try:
                    guard.call(work)
                except BreakerOpenError:
                    refused.enter()
                    threading.Event().wait(0.0005)

        self.run_in_threads(hammer)
        assert 1 <= crowd.most <= 3
        assert refused.entered > 0
        assert crowd.entered + refused.entered == self.THREADS * 40
        assert where.snapshot().probe_successes == crowd.entered
        assert where.snapshot().probes_in_progress == 0

    async def test_probes_of_tasks_never_exceed_their_slots(self, clock: VirtualClock) -> None:
        where = shop(clock, self.ENDLESS)
        break_it(where, clock)
        clock.time += 30.0
        crowd, refused = Crowd(), Crowd()

        async def work(attempt: Attempt) -> None:
            crowd.enter()
            await asyncio.sleep(0.001)
            crowd.leave()

        async def hammer() -> None:
            for _ in range(5):
                try:
                    await single(where, clock).call(work)
                except BreakerOpenError:
                    refused.enter()
                    await asyncio.sleep(0.0005)

        await asyncio.gather(*(hammer() for _ in range(30)))
        assert 1 <= crowd.most <= 3
        assert crowd.entered + refused.entered == 150
        assert where.snapshot().probe_successes == crowd.entered

    def test_no_result_of_a_thread_is_lost(self, clock: VirtualClock) -> None:
        policy = BreakerPolicy(window_calls=10_000, minimum_calls=10_000, window_seconds=None)
        where = shop(clock, policy)
        ready = threading.Barrier(self.THREADS, timeout=5)

        def hammer() -> None:
            guard = single(where, clock)
            ready.wait()
            for number in range(200):
                if number % 4:
                    guard.call(lambda attempt: None)
                else:
                    with pytest.raises(HttpStatusError):
                        guard.call(Script(HttpStatusError("500", status=500)))

        self.run_in_threads(hammer)
        snapshot = where.snapshot()
        assert snapshot.calls == self.THREADS * 200
        assert snapshot.failures == self.THREADS * 50

    def test_no_call_passes_an_open_breaker(self, clock: VirtualClock) -> None:
        """After the breaker opens, it rejects every call in every thread."""
        where = shop(clock, BreakerPolicy(window_calls=4, minimum_calls=4, cool_down=1000.0))
        opened = threading.Event()
        late = Crowd()
        ready = threading.Barrier(self.THREADS, timeout=5)

        @where
        def guarded(is_late: bool) -> None:
            if is_late:
                late.enter()
            raise ConnectionError

        def hammer() -> None:
            ready.wait()
            for _ in range(200):
                is_late = opened.is_set()
                try:
                    guarded(is_late)
                except ConnectionError:
                    if where.snapshot().state is OPEN:
                        opened.set()
                except BreakerOpenError:
                    opened.set()

        self.run_in_threads(hammer)
        assert late.entered == 0

    def run_in_threads(self, work: Callable[[], None]) -> None:
        with ThreadPoolExecutor(self.THREADS) as pool:
            for future in [pool.submit(work) for _ in range(self.THREADS)]:
                future.result()


def _failing(play: Play, guard: Guard, error: Exception) -> None:
    with pytest.raises(type(error)):
        play(Script(error), guard)


def test_the_original_error_survives_when_others_open_the_breaker_during_the_wait() -> None:
    clock = VirtualClock()
    shared = Dependency("shop", breaker=BreakerPolicy(window_calls=2, minimum_calls=2), clock=clock)
    first = ConnectionError("the first failure")
    executions = []

    class OthersFail(VirtualClock):
        def pause(self, seconds: float) -> None:
            with suppress(ConnectionError):
                shared(_refuse)()
            super().pause(seconds)

    def fail(attempt: Attempt) -> None:
        executions.append(attempt.number)
        raise first

    with pytest.raises(ConnectionError) as caught:
        Guard("work", dependency=shared, clock=OthersFail()).call(fail)
    assert caught.value is first
    assert executions == [1]
    assert "the circuit breaker of the dependency opened" in first.__notes__[0]


def test_the_classifier_of_a_dependency_serves_where_the_guard_has_none() -> None:
    class Down(Exception):
        pass

    rules = Classifier([Rule.for_type(Down, Category.NETWORK)])
    shared = Dependency("shop", breaker=BreakerPolicy(window_calls=1, minimum_calls=1), classifier=rules)

    def fail(attempt: Attempt) -> None:
        raise Down

    with pytest.raises(Down):
        Guard("work", dependency=shared, max_attempts=1).call(fail)
    assert shared.snapshot().state == "OPEN"


def _refuse() -> None:
    raise ConnectionError("another one")
