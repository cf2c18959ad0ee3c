"""Unsafe calls: Redrive repeats an attempt that may have executed only with an idempotency key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.calls.script import Play, Script

from redrive import Attempt, Backoff, Category, Effect, Guard, Rule, idempotency_key, retry
from redrive.calls.event import AttemptFailed, CallEvent
from redrive.errors import HttpStatusError, InvalidValueError, RateLimitedError, RetryableError
from redrive.model.decision import Reason
from redrive.policy import Classifier, Delivery, ErrorClass, Immediate
from redrive.testing import VirtualClock

AT_ONCE = Backoff(Immediate())


def status(number: int) -> HttpStatusError:
    return HttpStatusError(f"POST /charges answered {number}", status=number)


NEVER_SEEN: list[Callable[[], Exception]] = [lambda: ConnectionRefusedError("refused")]
REFUSED: list[Callable[[], Exception]] = [
    lambda: status(425),
    lambda: status(429),
    lambda: RateLimitedError("slow down"),
    lambda: RateLimitedError("slow down", retry_after=0.5),
]
MAY_HAVE_EXECUTED: list[Callable[[], Exception]] = [
    lambda: ConnectionResetError("reset"),
    lambda: TimeoutError("no answer"),
    lambda: status(408),
    lambda: status(500),
    lambda: status(502),
    lambda: status(503),
    lambda: status(504),
    lambda: RetryableError("somehow"),
]


def name_of(make: object) -> str:
    assert callable(make)
    error = make()
    return f"{type(error).__name__} {error}"


def executions(
    make: Callable[[], Exception], play: Play, effect: Effect, key: str | None, clock: VirtualClock
) -> int:
    script = Script(make(), make(), make())
    guard = Guard("charge", effect=effect, idempotency_key=key, clock=clock)
    with pytest.raises((OSError, HttpStatusError, RetryableError)):
        play(script, guard)
    return script.executions


class TestUnsafe:
    @pytest.mark.parametrize("make", NEVER_SEEN + REFUSED, ids=name_of)
    def test_an_attempt_that_cannot_have_executed_is_repeated(
        self, make: Callable[[], Exception], play: Play, clock: VirtualClock
    ) -> None:
        script = Script(make(), make(), "charged")
        assert play(script, Guard("charge", effect=Effect.UNSAFE, clock=clock)) == "charged"

    @pytest.mark.parametrize("make", MAY_HAVE_EXECUTED, ids=name_of)
    def test_an_attempt_that_may_have_executed_is_not_repeated(
        self, make: Callable[[], Exception], play: Play, clock: VirtualClock
    ) -> None:
        assert executions(make, play, Effect.UNSAFE, None, clock) == 1
        assert clock.waits == []

    @pytest.mark.parametrize("make", MAY_HAVE_EXECUTED, ids=name_of)
    def test_with_a_key_it_is(self, make: Callable[[], Exception], play: Play, clock: VirtualClock) -> None:
        assert executions(make, play, Effect.UNSAFE, "charge:7", clock) == 3

    @pytest.mark.parametrize("make", MAY_HAVE_EXECUTED, ids=name_of)
    @pytest.mark.parametrize("effect", [Effect.NONE, Effect.IDEMPOTENT])
    def test_without_harm_it_is(
        self, make: Callable[[], Exception], play: Play, effect: Effect, clock: VirtualClock
    ) -> None:
        assert executions(make, play, effect, None, clock) == 3

    def test_idempotent_is_the_default(self, clock: VirtualClock) -> None:
        script = Script(TimeoutError(), "done")
        assert Guard("look", clock=clock).call(script) == "done"

    def test_one_doubtful_attempt_ends_it(self, play: Play, clock: VirtualClock) -> None:
        """Refused, refused, lost: the third may have executed."""
        script = Script(ConnectionRefusedError(), ConnectionRefusedError(), ConnectionResetError(), "never")
        with pytest.raises(ConnectionResetError) as caught:
            play(script, Guard("charge", effect=Effect.UNSAFE, max_attempts=9, clock=clock))
        assert script.executions == 3
        assert "may have been executed" in caught.value.__notes__[0]

    def test_it_is_told(self, play: Play) -> None:
        events: list[CallEvent] = []
        with pytest.raises(TimeoutError):
            play(Script(TimeoutError()), Guard("charge", effect=Effect.UNSAFE, hooks=[events.append]))
        (event,) = events
        assert isinstance(event, AttemptFailed)
        assert event.reason is Reason.NOT_REPEATABLE
        assert event.failure.delivery is Delivery.MAYBE_SEEN

    def test_final_errors_stay_final_with_a_key(self, play: Play) -> None:
        script = Script(status(400))
        with pytest.raises(HttpStatusError):
            play(script, Guard("charge", effect=Effect.UNSAFE, idempotency_key="key"))
        assert script.executions == 1

    def test_the_classifier_of_the_application_may_know_better(self, play: Play, clock: VirtualClock) -> None:
        never = Rule("not sent", lambda error: True, Category.NETWORK, None, None, Delivery.NEVER_SEEN)
        script = Script(KeyError(), "done")
        guard = Guard("charge", effect=Effect.UNSAFE, classifier=Classifier([never]), clock=clock)
        assert play(script, guard) == "done"

    def test_also_for_errors_that_only_the_policy_retries(self, play: Play, clock: VirtualClock) -> None:
        classifier = Classifier(unknown=ErrorClass.RETRYABLE)
        for key, expected in ((None, 1), ("key", 3)):
            script = Script(KeyError(), KeyError(), KeyError())
            guard = Guard(
                "charge", effect=Effect.UNSAFE, classifier=classifier, idempotency_key=key, clock=clock
            )
            with pytest.raises(KeyError):
                play(script, guard)
            assert script.executions == expected

    def test_without_a_key_it_is_not_repeated(self, play: Play, clock: VirtualClock) -> None:
        assert executions(lambda: TimeoutError(), play, Effect.UNSAFE, None, clock) == 1

    @pytest.mark.parametrize("key", ["", "a\nb", 5, True])
    def test_an_unrecognizable_value_is_not_accepted_as_a_key(self, key: Any) -> None:
        with pytest.raises(InvalidValueError, match="idempotency key must be a printable"):
            Guard("charge", effect="unsafe", idempotency_key=key)
        with pytest.raises(InvalidValueError, match="idempotency key must be a printable"):
            Guard("charge", effect="unsafe", idempotency_key=lambda: key)(print)()

    def test_a_key_that_must_be_awaited_is_refused(self) -> None:
        async def key_of() -> str:
            return "key"

        with pytest.raises(InvalidValueError, match="sync function"):
            Guard("charge", idempotency_key=key_of)  # type: ignore[arg-type]


class TestKey:
    def test_is_the_same_on_every_attempt(self, play: Play, clock: VirtualClock) -> None:
        script = Script(TimeoutError(), TimeoutError(), "done")
        play(script, Guard("charge", idempotency_key="charge:7", clock=clock))
        assert [attempt.idempotency_key for attempt in script.attempts] == ["charge:7"] * 3

    def test_may_be_given_with_the_call(self, play: Play) -> None:
        guard = Guard("charge", idempotency_key="of the guard")
        assert guard.call(lambda attempt: attempt.idempotency_key, idempotency_key="mine") == "mine"
        assert guard.call(lambda attempt: attempt.idempotency_key) == "of the guard"

    def test_a_key_given_with_the_call_makes_it_repeatable(self, clock: VirtualClock) -> None:
        script = Script(TimeoutError(), "done")
        guard = Guard("charge", effect=Effect.UNSAFE, clock=clock)
        assert guard.call(script, idempotency_key="charge:7") == "done"

    def test_is_a_function_of_the_arguments(self) -> None:
        made: list[tuple[int, str]] = []
        seen: list[str | None] = []

        def key_of(order: int, *, currency: str) -> str:
            made.append((order, currency))
            return f"{order}:{currency}"

        @retry("charge", effect=Effect.UNSAFE, idempotency_key=key_of, backoff=AT_ONCE)
        def charge(order: int, *, currency: str) -> None:
            seen.append(_current_key())
            if len(seen) < 3:
                raise TimeoutError

        charge(7, currency="EUR")
        assert made == [(7, "EUR")]
        assert seen == ["7:EUR"] * 3

    async def test_is_a_function_of_the_arguments_of_an_async_method(self) -> None:
        class Shop:
            name = "shop"

            @retry(
                effect=Effect.UNSAFE,
                idempotency_key=lambda shop, order: f"{shop.name}:{order}",
                backoff=AT_ONCE,
            )
            async def charge(self, order: int) -> str | None:
                return _current_key()

        assert await Shop().charge(7) == "shop:7"

    def test_a_function_may_give_none(self, clock: VirtualClock) -> None:
        guard = Guard("charge", effect=Effect.UNSAFE, idempotency_key=lambda order: None, clock=clock)
        seen: list[str | None] = []

        @guard
        def charge(order: int) -> None:
            seen.append(_current_key())
            raise TimeoutError

        with pytest.raises(TimeoutError):
            charge(7)
        assert seen == [None]

    def test_a_function_that_fails_ends_the_call_before_anything_is_done(self) -> None:
        done: list[int] = []

        @retry(idempotency_key=lambda order: f"{order['id']}", backoff=AT_ONCE)
        def charge(order: dict[str, int]) -> None:
            done.append(1)

        with pytest.raises(KeyError):
            charge({})
        assert done == []

    def test_each_call_has_its_own(self) -> None:
        @retry(idempotency_key=lambda order: f"charge:{order}")
        def charge(order: int) -> str | None:
            return _current_key()

        assert [charge(1), charge(2), charge(1)] == ["charge:1", "charge:2", "charge:1"]

    def test_by_the_convention_of_g5(self) -> None:
        @retry(
            effect=Effect.UNSAFE,
            idempotency_key=lambda user, order: idempotency_key("billing", user, order, "charge", 1),
        )
        def charge(user: str, order: str) -> str | None:
            return _current_key()

        assert charge("u1", "o7") == "billing:u1:o7:charge:1"


def _current_key() -> str | None:
    from redrive.calls import current_attempt

    attempt = current_attempt()
    assert isinstance(attempt, Attempt)
    return attempt.idempotency_key
