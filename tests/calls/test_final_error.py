"""The error that the caller gets: the original one, with notes, and nothing that keeps it alive."""

from __future__ import annotations

import asyncio
import copy
import gc
import logging
import pickle
import traceback
import tracemalloc
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from tests.calls.script import Play, Script

from redrive import Attempt, Backoff, BreakerPolicy, Guard, RetryableError, retry
from redrive.calls import Dependency
from redrive.calls.event import LOGGER
from redrive.errors import (
    AttemptTimeoutError,
    BreakerOpenError,
    DeferredError,
    FinalError,
    HttpContentError,
    HttpStatusError,
    RateLimitedError,
    UnavailableError,
)
from redrive.policy import BudgetPolicy, Immediate
from redrive.testing import VirtualClock

AT_ONCE = Backoff(Immediate())
SECRET = "sk_live_4eC39HqLyjWDarjtT1zdp7dc"


def raise_from_below(message: str) -> None:
    raise ConnectionError(message)


class TestIdentity:
    def test_it_is_the_very_object_of_the_last_attempt(self, play: Play) -> None:
        errors = [ConnectionError(str(number)) for number in range(3)]
        with pytest.raises(ConnectionError) as caught:
            play(Script(*errors), Guard("work", backoff=AT_ONCE))
        assert caught.value is errors[-1]
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None

    def test_the_same_object_on_every_attempt(self, play: Play) -> None:
        error = ConnectionError("always")
        with pytest.raises(ConnectionError) as caught:
            play(Script(error, error, error), Guard("work", backoff=AT_ONCE))
        assert caught.value is error
        assert len(error.__notes__) == 1

    def test_its_traceback_leads_to_where_it_was_raised(self) -> None:
        @retry(backoff=AT_ONCE)
        def work() -> None:
            raise_from_below("here")

        with pytest.raises(ConnectionError) as caught:
            work()
        names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
        assert names[-2:] == ["work", "raise_from_below"]
        assert names.count("work") == 1

    async def test_its_traceback_in_async_code(self) -> None:
        @retry(backoff=AT_ONCE)
        async def work() -> None:
            await asyncio.sleep(0)
            raise_from_below("here")

        with pytest.raises(ConnectionError) as caught:
            await work()
        names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
        assert names[-2:] == ["work", "raise_from_below"]

    def test_its_own_cause_and_context_stay(self) -> None:
        cause = KeyError("cause")

        @retry(backoff=AT_ONCE)
        def work() -> None:
            try:
                raise cause
            except KeyError as error:
                raise ConnectionError("made from it") from error

        with pytest.raises(ConnectionError) as caught:
            work()
        assert caught.value.__cause__ is cause

    def test_an_exception_group_is_passed_whole(self, play: Play) -> None:
        group = ExceptionGroup("several", [ConnectionError(), TimeoutError()])
        with pytest.raises(ExceptionGroup) as caught:
            play(Script(group, group, group), Guard("work", backoff=AT_ONCE))
        assert caught.value is group


class TestNotes:
    def test_they_list_every_attempt(self, play: Play, clock: VirtualClock) -> None:
        script = Script(ConnectionRefusedError("a"), TimeoutError("b"), ValueError("c"))
        with pytest.raises(ValueError) as caught:
            play(script, Guard("charge card", max_attempts=9, clock=clock))
        (note,) = caught.value.__notes__
        first, *attempts = note.splitlines()
        assert first == "redrive: 'charge card' failed after 3 attempts: a retry won't help"
        assert ["network" in attempts[0], "timeout" in attempts[1], "validation" in attempts[2]] == [True] * 3
        assert len(attempts) == 3

    def test_one_attempt_is_one_attempt(self, play: Play) -> None:
        with pytest.raises(FinalError) as caught:
            play(Script(FinalError("no")), Guard("work"))
        assert "after 1 attempt:" in caught.value.__notes__[0]

    @pytest.mark.parametrize("message", [SECRET, "two\nlines", "x" * 10_000])
    def test_they_do_not_repeat_the_message(self, play: Play, message: str) -> None:
        errors = [ConnectionError(message) for _ in range(3)]
        with pytest.raises(ConnectionError) as caught:
            play(Script(*errors), Guard("work", backoff=AT_ONCE))
        assert message not in "".join(caught.value.__notes__)
        assert len("".join(caught.value.__notes__)) < 1000

    def test_many_attempts_do_not_make_an_endless_note(self, clock: VirtualClock) -> None:
        """A call that is retried for days doesn't fill the memory with its failures, either."""
        script = Script(*[ConnectionError() for _ in range(90)], TimeoutError(), *[ConnectionError()] * 9)
        with pytest.raises(ConnectionError) as caught:
            Guard("work", max_attempts=100, backoff=AT_ONCE, clock=clock).call(script)
        first, *attempts = caught.value.__notes__[0].splitlines()
        assert "after 100 attempts" in first
        assert len(attempts) == len(script.attempts[-1].failures) == 20
        assert attempts[0].startswith("  attempt 81: network")
        assert attempts[10].startswith("  attempt 91: timeout")
        assert attempts[-1].startswith("  attempt 100: network")

    def test_notes_that_are_there_stay(self, play: Play) -> None:
        error = FinalError("no")
        error.add_note("mine")
        with pytest.raises(FinalError) as caught:
            play(Script(error), Guard("work"))
        assert caught.value.__notes__[0] == "mine"
        assert len(caught.value.__notes__) == 2

    def test_an_error_raised_again_and_again_does_not_collect_notes(self, play: Play) -> None:
        """Futures and caches raise the same object forever."""
        error = FinalError("no")
        for _ in range(50):
            with pytest.raises(FinalError):
                play(Script(error), Guard("work"))
        assert len(error.__notes__) == 1

    @pytest.mark.parametrize("notes", [5, None, "text", (), {"a": 1}])
    def test_notes_of_the_wrong_kind(self, play: Play, notes: object) -> None:
        error = FinalError("no")
        error.__notes__ = notes  # type: ignore[assignment]
        with pytest.raises(FinalError) as caught:
            play(Script(error), Guard("work"))
        assert caught.value is error

    def test_errors_that_refuse_notes(self, play: Play) -> None:
        class Closed(FinalError):
            def add_note(self, note: str, /) -> None:
                raise RuntimeError("no notes")

        class Frozen(FinalError):
            def __setattr__(self, name: str, value: object) -> None:
                raise AttributeError(name)

            def __init__(self) -> None:
                Exception.__init__(self)

        class Lying(FinalError):
            @property
            def __notes__(self) -> list[str]:  # type: ignore[override]
                raise SystemExit("never")

            @property
            def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
                raise RuntimeError("never")

        for error in (Closed(), Frozen(), Lying()):
            assert passes_unchanged(error, play)

    def test_hostile_errors_are_passed_as_they_are(self, play: Play) -> None:
        class Hostile(Exception):
            def __str__(self) -> str:
                raise RuntimeError("no text")

            def __repr__(self) -> str:
                raise RuntimeError("no text")

            def __eq__(self, other: object) -> bool:
                raise RuntimeError("not comparable")

            def __bool__(self) -> bool:
                raise RuntimeError("neither true nor false")

            def __getattr__(self, name: str) -> object:
                raise RuntimeError(name)

            __hash__ = None  # type: ignore[assignment]

        assert passes_unchanged(Hostile(), play)


def passes_unchanged(error: Exception, play: Play) -> bool:
    """Play the script and compare the errors here: pytest would inspect this error, which fails."""
    try:
        play(Script(error), Guard("work", hooks=[lambda event: None]))
    except BaseException as caught:
        return caught is error
    return False


class Witness:
    """Lives in the frame that raised; dies when nothing references that frame."""


@contextmanager
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class TestNothingIsHeld:
    """Objects of the failing code are freed as soon as the caller drops the error."""

    def watched(self, *, fails: int) -> tuple[list[weakref.ref[Witness]], Callable[[Attempt], str]]:
        references: list[weakref.ref[Witness]] = []

        def work(attempt: Attempt) -> str:
            witness = Witness()
            references.append(weakref.ref(witness))
            if len(references) <= fails:
                raise ConnectionError("with a witness")
            return "done"

        return references, work

    def alive(self, references: list[weakref.ref[Witness]]) -> int:
        return sum(reference() is not None for reference in references)

    def test_after_the_final_error(self) -> None:
        references, work = self.watched(fails=3)
        guard = Guard("work", backoff=AT_ONCE)
        with no_collector():
            try:
                guard.call(work)
            except ConnectionError:
                assert self.alive(references) == 1
            assert self.alive(references) == 0
        assert len(references) == 3

    def test_after_a_recovery(self) -> None:
        references, work = self.watched(fails=2)
        with no_collector():
            assert Guard("work", backoff=AT_ONCE).call(work) == "done"
            assert self.alive(references) == 0

    def test_after_a_deferred_error(self) -> None:
        references: list[weakref.ref[Witness]] = []

        def work(attempt: Attempt) -> None:
            witness = Witness()
            references.append(weakref.ref(witness))
            raise RateLimitedError(retry_after=1000.0)

        with no_collector():
            with suppress(DeferredError):
                Guard("work").call(work)
            assert self.alive(references) == 0

    def test_before_the_last_attempt_the_earlier_errors_are_gone(self) -> None:
        references: list[weakref.ref[Witness]] = []
        alive: list[int] = []

        def work(attempt: Attempt) -> None:
            alive.append(self.alive(references))
            witness = Witness()
            references.append(weakref.ref(witness))
            raise ConnectionError

        with no_collector(), pytest.raises(ConnectionError):
            Guard("work", backoff=AT_ONCE).call(work)
        assert alive == [0, 0, 0]

    @pytest.mark.parametrize("waits", [False, True])
    async def test_in_async_code(self, waits: bool) -> None:
        references, work = self.watched(fails=3)

        async def waiting(attempt: Attempt) -> str:
            if waits:
                await asyncio.sleep(0)
            return work(attempt)

        with no_collector():
            try:
                await Guard("work", backoff=AT_ONCE).call(waiting)
            except ConnectionError:
                assert self.alive(references) == 1
            assert self.alive(references) == 0

    async def test_in_a_separate_task(self) -> None:
        """The task references its error; the error must not reference the task."""
        references, work = self.watched(fails=3)

        async def waiting(attempt: Attempt) -> str:
            await asyncio.sleep(0.001)
            return work(attempt)

        with no_collector():
            task = asyncio.ensure_future(Guard("work", backoff=AT_ONCE).call(waiting))
            await asyncio.wait([task])
            assert isinstance(task.exception(), ConnectionError)
            del task
            await asyncio.sleep(0)
            assert self.alive(references) == 0

    async def test_when_the_awaited_object_references_the_error(self) -> None:
        references: list[weakref.ref[Witness]] = []

        def made() -> ConnectionError:
            witness = Witness()
            references.append(weakref.ref(witness))
            try:
                raise ConnectionError
            except ConnectionError as error:
                return error

        def future() -> asyncio.Future[None]:
            loop = asyncio.get_running_loop()
            future = loop.create_future()
            loop.call_soon(future.set_exception, errors.pop())
            return future

        async def waiting(attempt: Attempt) -> None:
            await future()

        errors = [made()]

        with no_collector():
            with suppress(ConnectionError):
                await Guard("work", max_attempts=1).call(waiting)
            await asyncio.sleep(0)
            assert self.alive(references) == 0

    async def test_after_a_timeout(self) -> None:
        references: list[weakref.ref[Witness]] = []

        async def hanging(attempt: Attempt) -> None:
            witness = Witness()
            references.append(weakref.ref(witness))
            await asyncio.sleep(5)

        with no_collector():
            with suppress(AttemptTimeoutError):
                await Guard("work", timeout=0.01, max_attempts=2, backoff=AT_ONCE).call(hanging)
            await asyncio.sleep(0)
            assert self.alive(references) == 0
        assert len(references) == 2


@pytest.fixture
def unheard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drop log records, which pytest would keep during a test."""
    monkeypatch.setattr(LOGGER, "propagate", False)


@pytest.mark.usefixtures("unheard")
class TestMemory:
    @pytest.mark.parametrize("succeeds_at", [2, 99])
    def test_does_not_grow(self, monkeypatch: pytest.MonkeyPatch, succeeds_at: int) -> None:
        guard = Guard("work", backoff=AT_ONCE, clock=VirtualClock(), dependency=plenty())
        monkeypatch.setattr(LOGGER, "handlers", [logging.NullHandler()])
        LOGGER.setLevel(logging.INFO)
        try:
            self.fail_often(guard, 50, succeeds_at)
            tracemalloc.start()
            self.fail_often(guard, 50, succeeds_at)
            before = tracemalloc.get_traced_memory()[0]
            self.fail_often(guard, 200, succeeds_at)
            grown = tracemalloc.get_traced_memory()[0] - before
        finally:
            tracemalloc.stop()
            LOGGER.setLevel(logging.NOTSET)
        assert grown < 20_000

    def test_a_hundred_thousand_failing_calls_leave_no_object(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(LOGGER, "disabled", True)
        guard = Guard("work", max_attempts=1, clock=VirtualClock(), dependency=plenty())
        self.fail_often(guard, 100)
        before = len(gc.get_objects())
        self.fail_often(guard, 100_000)
        assert len(gc.get_objects()) - before < 100

    def fail_often(self, guard: Guard, count: int, succeeds_at: int = 99) -> None:
        def fail(attempt: Attempt) -> None:
            if attempt.number < succeeds_at:
                raise ConnectionError("reset by peer")

        for _ in range(count):
            with suppress(ConnectionError):
                guard.call(fail)
        gc.collect()


def plenty() -> Dependency:
    """A dependency whose breaker never opens and whose budget never runs out."""
    return Dependency(
        "plenty",
        breaker=BreakerPolicy(window_calls=None, minimum_calls=1_000_000),
        budget=BudgetPolicy(retry_cost=0.0),
    )


@pytest.mark.parametrize(
    "error",
    [
        AttemptTimeoutError("late"),
        RetryableError("again", retry_after=3.0),
        RateLimitedError("slow down", retry_after=3.0),
        HttpContentError("not JSON"),
        DeferredError("later", retry_after=90.0),
        UnavailableError("shop", "not asked", retry_after=2.0),
        BreakerOpenError("shop", "open", retry_after=2.0),
        HttpStatusError("GET / answered 503", status=503, headers={"retry-after": "1"}, body="busy"),
    ],
    ids=lambda error: type(error).__name__,
)
class TestTravel:
    """Errors cross process boundaries, and tools copy them."""

    def test_pickle(self, error: Exception) -> None:
        self.check(error, pickle.loads(pickle.dumps(error)))

    def test_copy(self, error: Exception) -> None:
        self.check(error, copy.copy(error))

    def check(self, error: Exception, other: Exception) -> None:
        assert type(other) is type(error)
        assert str(other) == str(error)
        assert vars(other) == vars(error)
