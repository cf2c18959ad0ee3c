"""What a guard accepts, and how the guarded function looks (G1)."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest
from tests.calls.script import Script, run_through
from tests.cases import loop_over

import redrive
from redrive import Attempt, Backoff, Guard, RetryPolicy, call, retry
from redrive.calls import current_attempt
from redrive.errors import InvalidValueError, RetryableError
from redrive.policy import CALL, Exponential, Immediate
from redrive.testing import VirtualClock

AT_ONCE = Backoff(Immediate())


def fails_once(result: object = "done") -> Script:
    return Script(RetryableError("not yet"), result)


class Account:
    """Methods of every kind. Each fails once and then succeeds."""

    def __init__(self) -> None:
        self.script = fails_once()
        self.seen: list[object] = []

    @retry(backoff=AT_ONCE)
    def balance(self, currency: str, *, rounded: bool = False) -> str:
        """Return the balance."""
        self.seen.append((currency, rounded))
        return f"{_play(self.script)} {currency}"

    @retry(backoff=AT_ONCE)
    async def balance_async(self, currency: str) -> str:
        await asyncio.sleep(0)
        return f"{_play(self.script)} {currency}"

    @staticmethod
    @retry(backoff=AT_ONCE)
    def plain(script: Script) -> object:
        return _play(script)

    @classmethod
    @retry(backoff=AT_ONCE)
    def named(cls, script: Script) -> tuple[str, object]:
        return cls.__name__, _play(script)

    @retry(backoff=AT_ONCE)
    @staticmethod
    def plain_below(script: Script) -> object:
        return _play(script)

    @retry(backoff=AT_ONCE)
    @classmethod
    def named_below(cls, script: Script) -> tuple[str, object]:
        return cls.__name__, _play(script)


class Savings(Account):
    pass


def _play(script: Script) -> object:
    attempt = current_attempt()
    assert attempt is not None
    return script(attempt)


class Sender:
    """A callable object."""

    def __init__(self, script: Script) -> None:
        self.script = script

    def __call__(self, text: str) -> str:
        return f"{_play(self.script)} {text}"


class AsyncSender(Sender):
    async def __call__(self, text: str) -> str:  # type: ignore[override]
        await asyncio.sleep(0)
        return f"{_play(self.script)} {text}"


class TestDecorator:
    def test_bare(self, monkeypatch: pytest.MonkeyPatch) -> None:
        script = Script("done")

        @retry
        def work() -> object:
            return _play(script)

        assert work() == "done"
        assert script.attempts[0].max_attempts == CALL.max_attempts == 3
        assert script.attempts[0].operation == work.__qualname__

    def test_with_a_name_and_options(self) -> None:
        script = fails_once()

        @retry("charge card", max_attempts=7, backoff=AT_ONCE, timeout=3.0)
        def work() -> object:
            return _play(script)

        assert work() == "done"
        assert [attempt.number for attempt in script.attempts] == [1, 2]
        assert {attempt.operation for attempt in script.attempts} == {"charge card"}
        assert {attempt.max_attempts for attempt in script.attempts} == {7}
        assert script.attempts[0].expires - script.attempts[0].started == pytest.approx(3.0)

    def test_with_options_and_no_name_is_named_after_the_function(self) -> None:
        script = Script(None)

        @retry(backoff=AT_ONCE)
        def settle() -> object:
            return _play(script)

        settle()
        assert script.attempts[0].operation.endswith("settle")

    async def test_bare_on_an_async_function(self) -> None:
        script = Script("done")

        @retry
        async def work() -> object:
            await asyncio.sleep(0)
            return _play(script)

        assert await work() == "done"

    def test_keeps_name_docstring_signature_and_the_function(self) -> None:
        guarded = Account.balance
        assert guarded.__name__ == "balance"
        assert guarded.__qualname__ == "Account.balance"
        assert guarded.__doc__ == "Return the balance."
        assert guarded.__module__ == __name__
        assert list(inspect.signature(guarded).parameters) == ["self", "currency", "rounded"]
        assert inspect.unwrap(guarded) is not guarded

    def test_an_async_function_stays_one(self) -> None:
        assert inspect.iscoroutinefunction(Account.balance_async)
        assert not inspect.iscoroutinefunction(Account.balance)

    def test_method(self) -> None:
        account = Account()
        assert account.balance("EUR", rounded=True) == "done EUR"
        assert account.seen == [("EUR", True), ("EUR", True)]

    async def test_async_method(self) -> None:
        account = Account()
        assert await account.balance_async("EUR") == "done EUR"
        assert account.script.executions == 2

    @pytest.mark.parametrize("name", ["plain", "plain_below"])
    def test_static_method_in_either_order(self, name: str) -> None:
        for owner in (Account, Account()):
            script = fails_once()
            assert getattr(owner, name)(script) == "done"
            assert script.executions == 2

    @pytest.mark.parametrize("name", ["named", "named_below"])
    def test_class_method_in_either_order(self, name: str) -> None:
        for owner in (Savings, Savings()):
            script = fails_once()
            assert getattr(owner, name)(script) == ("Savings", "done")
            assert script.executions == 2

    def test_bare_above_a_class_method(self) -> None:
        class Holder:
            @retry
            @classmethod
            def name(cls) -> str:
                return cls.__name__

        assert Holder.name() == "Holder"

    @pytest.mark.parametrize("decorate", [retry, retry(backoff=AT_ONCE), Guard("send", backoff=AT_ONCE)])
    def test_callable_object(self, decorate: Callable[..., Any]) -> None:
        script = Script("done")
        assert decorate(Sender(script))("hello") == "done hello"
        assert "send" in script.attempts[0].operation.lower()

    @pytest.mark.parametrize("decorate", [retry, retry(backoff=AT_ONCE), Guard("send", backoff=AT_ONCE)])
    async def test_async_callable_object(self, decorate: Callable[..., Any]) -> None:
        assert await decorate(AsyncSender(Script("done")))("hello") == "done hello"

    async def test_async_callable_object_is_retried(self) -> None:
        script = fails_once()
        assert await retry(backoff=AT_ONCE)(AsyncSender(script))("hello") == "done hello"
        assert script.executions == 2

    @pytest.mark.parametrize("decorate", [retry, retry(backoff=AT_ONCE), Guard("add")])
    def test_partial(self, decorate: Callable[..., Any]) -> None:
        def add(first: int, second: int) -> int:
            return first + second

        assert decorate(functools.partial(add, 1))(2) == 3

    @pytest.mark.parametrize("decorate", [retry, retry(backoff=AT_ONCE), Guard("add")])
    async def test_partial_of_an_async_function(self, decorate: Callable[..., Any]) -> None:
        async def add(first: int, second: int) -> int:
            await asyncio.sleep(0)
            return first + second

        assert await decorate(functools.partial(add, 1))(2) == 3

    async def test_partial_of_an_async_callable_object_is_retried(self) -> None:
        script = fails_once()
        guarded = Guard("send", backoff=AT_ONCE)(functools.partial(AsyncSender(script), "hello"))
        assert await guarded() == "done hello"
        assert script.executions == 2

    async def test_mocks_of_both_colors(self) -> None:
        """Mocks that replace functions in the tests of an application."""
        asynchronous = AsyncMock(side_effect=[RetryableError(), 2])
        assert await retry(backoff=AT_ONCE)(asynchronous)("argument") == 2
        synchronous = Mock(side_effect=[RetryableError(), 3])
        assert retry(backoff=AT_ONCE)(synchronous)("argument") == 3
        assert asynchronous.await_count == synchronous.call_count == 2

    def test_bound_method_and_builtin_and_class(self) -> None:
        account = Account()
        assert retry(account.balance)("EUR") == "done EUR"
        assert retry(len)([1, 2]) == 2
        assert retry(int)("12") == 12

    def test_refuses_generators(self) -> None:
        def numbers() -> Iterator[int]:
            yield 1

        async def numbers_async() -> AsyncIterator[int]:
            yield 1

        for function in (numbers, numbers_async, functools.partial(numbers)):
            with pytest.raises(InvalidValueError, match="generator"):
                retry(function)
            with pytest.raises(InvalidValueError, match="generator"):
                Guard("numbers")(function)

    def test_rejects_objects_that_cannot_be_called(self) -> None:
        for thing in (12, object(), property(lambda self: 1)):
            with pytest.raises(InvalidValueError):
                retry(thing)  # type: ignore[call-overload]
            with pytest.raises(InvalidValueError):
                Guard("thing")(thing)  # type: ignore[arg-type]

    def test_one_guard_for_several_functions(self) -> None:
        guard = Guard("both", backoff=AT_ONCE)
        first, second = fails_once(1), fails_once(2)
        assert guard(lambda: _play(first))() == 1
        assert guard(lambda: _play(second))() == 2
        assert first.executions == second.executions == 2

    def test_calls_do_not_remember_each_other(self) -> None:
        """The attempts of one call don't count for the next."""
        guard = Guard("work", max_attempts=2, backoff=AT_ONCE)
        for _ in range(5):
            script = fails_once()
            assert guard.call(script) == "done"
            assert [attempt.number for attempt in script.attempts] == [1, 2]

    def test_arguments_are_the_same_objects_on_every_attempt(self) -> None:
        seen: list[tuple[object, object]] = []

        @retry(backoff=AT_ONCE)
        def work(first: object, *, second: object) -> None:
            seen.append((first, second))
            if len(seen) < 3:
                raise RetryableError

        first, second = object(), object()
        work(first, second=second)
        assert seen == [(first, second)] * 3

    def test_keyword_arguments_may_have_any_name(self) -> None:
        @retry
        def work(**names: int) -> dict[str, int]:
            return names

        names = {"function": 1, "self": 2, "args": 3, "kwargs": 4, "controller": 5, "attempt": 6}
        assert work(**names) == names


class TestCall:
    def test_sync_hands_over_the_attempt(self) -> None:
        script = fails_once(12)
        result: int = call("count", script, backoff=AT_ONCE)
        assert result == 12
        assert [attempt.number for attempt in script.attempts] == [1, 2]
        assert all(isinstance(attempt, Attempt) for attempt in script.attempts)

    async def test_async_hands_over_the_attempt(self) -> None:
        script = fails_once(12)

        async def work(attempt: Attempt) -> object:
            await asyncio.sleep(0)
            return script(attempt)

        assert await call("count", work, backoff=AT_ONCE) == 12
        assert [attempt.number for attempt in script.attempts] == [1, 2]

    async def test_async_callable_object(self) -> None:
        class Work:
            async def __call__(self, attempt: Attempt) -> int:
                return attempt.number

        assert await call("count", Work()) == 1

    def test_without_options_it_has_the_defaults_of_g2(self) -> None:
        attempt = call("look", lambda attempt: attempt)
        assert attempt.max_attempts == 3
        assert attempt.expires - attempt.started == pytest.approx(10.0)
        assert attempt.deadline is None

    def test_without_options_the_same_operation_keeps_its_budget(self) -> None:
        for _ in range(3):
            call("look", lambda attempt: attempt)
        assert redrive.dependency("look").retry_tokens == 500.0

    def test_a_name_made_for_every_call_does_not_fill_the_memory(self) -> None:
        from redrive.calls import guard as module

        for number in range(3000):
            assert call(f"look {number}", lambda attempt: attempt.number) == 1
        assert len(module._PLAIN_GUARDS) <= 1024

    async def test_a_coroutine_from_a_sync_function_is_not_let_through_unguarded(self) -> None:
        """`call(…, lambda attempt: fetch())` looks guarded, and its mistake would go unnoticed."""

        async def fetch() -> int:
            return 1

        with pytest.raises(InvalidValueError, match="async"):
            await call("fetch", lambda attempt: fetch())

    def test_refuses_generators(self) -> None:
        def numbers(attempt: Attempt) -> Iterator[int]:
            yield attempt.number

        with pytest.raises(InvalidValueError, match="generator"):
            call("numbers", numbers)


class TestOptions:
    @loop_over(
        "options",
        [
            {"timeout": 0},
            {"timeout": -1},
            {"timeout": float("nan")},
            {"timeout": float("inf")},
            {"timeout": True},
            {"timeout": "10"},
            {"deadline": 0},
            {"deadline": float("nan")},
            {"longest_wait": -0.1},
            {"max_attempts": 0},
            {"max_attempts": -1},
        ],
    )
    def test_a_bad_value_is_refused_with_its_bounds(self, options: dict[str, Any]) -> None:
        with pytest.raises(InvalidValueError, match=next(iter(options))):
            Guard("work", **options)

    def test_a_partial_policy_changes_only_what_it_names(self) -> None:
        own = RetryPolicy(max_attempts=9, backoff=AT_ONCE, max_rate_limit_waits=4)
        assert Guard("work", policy=own).policy is own
        assert Guard("work", policy=own, max_attempts=2).policy.backoff is AT_ONCE
        assert Guard("work", policy=own, max_attempts=2).policy.max_attempts == 2
        assert Guard("work", policy=own, max_attempts=2).policy.max_rate_limit_waits == 4
        assert Guard("work", backoff=AT_ONCE).policy.max_attempts == 3
        slower = Backoff(Exponential(9.0))
        assert Guard("work", policy=own, backoff=slower).policy.max_attempts == 9
        assert Guard("work", policy=own, backoff=slower).policy.backoff is slower

    def test_hooks_may_be_any_iterable_and_are_read_once(self) -> None:
        seen: list[object] = []
        guard = Guard("work", backoff=AT_ONCE, hooks=(hook for hook in [seen.append]))
        guard.call(fails_once())
        guard.call(fails_once())
        assert len(seen) == 4

    def test_operation_is_readable(self) -> None:
        assert Guard("charge card").operation == "charge card"


class TestColors:
    def test_a_coroutine_function_is_not_run_before_it_is_awaited(self) -> None:
        started: list[int] = []

        @retry
        async def work() -> None:
            started.append(1)

        waiting = work()
        assert started == []
        waiting.close()

    def test_an_async_call_that_never_waits_needs_no_event_loop(self, clock: VirtualClock) -> None:
        script = fails_once()

        async def work(attempt: Attempt) -> object:
            return script(attempt)

        result: Awaitable[object] = call("work", work, clock=clock)
        assert run_through(result) == "done"  # type: ignore[arg-type]
