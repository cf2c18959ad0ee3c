"""Events for hooks: in the past tense, in order, without any effect on the call."""

from __future__ import annotations

import logging

import pytest
from tests.calls.script import Play, Script

from redrive import Attempt, Backoff, Category, Guard, RetryableError
from redrive.calls.event import AttemptFailed, CallEvent, CallRecovered, fields_of
from redrive.errors import FinalError, HttpStatusError, InvalidValueError
from redrive.model.decision import Reason
from redrive.policy import ErrorClass, Immediate, Linear
from redrive.testing import VirtualClock
from redrive.words.decision import explain

AT_ONCE = Backoff(Immediate())


@pytest.fixture
def events() -> list[CallEvent]:
    return []


class TestEvents:
    def test_none_while_all_is_well(self, play: Play, events: list[CallEvent]) -> None:
        play(Script("done"), Guard("work", hooks=[events.append]))
        assert events == []

    def test_recovery(self, play: Play, events: list[CallEvent], clock: VirtualClock) -> None:
        script = Script(ConnectionError("a"), TimeoutError("b"), "done", clock=clock, takes=(1.0, 2.0, 4.0))
        guard = Guard("charge", idempotency_key="key", hooks=[events.append], clock=clock, random=lambda: 1.0)
        play(script, guard)
        first, second, third = events
        assert isinstance(first, AttemptFailed)
        assert (first.operation, first.attempt, first.max_attempts) == ("charge", 1, 3)
        assert (first.idempotency_key, first.seconds, first.wait) == ("key", 1.0, 0.25)
        assert first.reason is Reason.BACKOFF
        assert first.failure.category is Category.NETWORK
        assert isinstance(second, AttemptFailed)
        assert (second.attempt, second.seconds, second.wait) == (2, 2.0, 0.5)
        assert second.failure.category is Category.TIMEOUT
        assert third == CallRecovered("charge", 3, 3, "key", 4.0)

    def test_giving_up(self, play: Play, events: list[CallEvent], clock: VirtualClock) -> None:
        script = Script(*[RetryableError() for _ in range(3)])
        with pytest.raises(RetryableError):
            play(script, Guard("work", hooks=[events.append], clock=clock))
        assert [type(event) for event in events] == [AttemptFailed] * 3
        reasons = [event.reason for event in events if isinstance(event, AttemptFailed)]
        assert reasons == [Reason.BACKOFF, Reason.BACKOFF, Reason.ATTEMPTS_SPENT]
        last = events[-1]
        assert isinstance(last, AttemptFailed)
        assert last.wait is None

    @pytest.mark.parametrize(
        ("error", "options", "reason"),
        [
            (FinalError(), {}, Reason.FINAL_ERROR),
            (RetryableError(), {"max_attempts": 1}, Reason.ATTEMPTS_SPENT),
            (RetryableError(retry_after=9.0), {"deadline": 5.0}, Reason.DEADLINE),
        ],
    )
    def test_the_reason_to_stop(
        self,
        play: Play,
        events: list[CallEvent],
        clock: VirtualClock,
        error: Exception,
        options: dict[str, float],
        reason: Reason,
    ) -> None:
        guard = Guard("work", hooks=[events.append], clock=clock, **options)  # type: ignore[arg-type]
        with pytest.raises(type(error)):
            play(Script(error), guard)
        (event,) = events
        assert isinstance(event, AttemptFailed)
        assert event.reason is reason

    def test_emitted_before_the_wait_starts(self, events: list[CallEvent]) -> None:
        order: list[str] = []

        class Watching(VirtualClock):
            def pause(self, seconds: float) -> None:
                order.append("wait")

        guard = Guard("work", clock=Watching(), hooks=[lambda event: order.append(type(event).__name__)])
        guard.call(Script(RetryableError(), "done"))
        assert order == ["AttemptFailed", "wait", "CallRecovered"]

    def test_the_explanation_can_be_printed(
        self, play: Play, events: list[CallEvent], clock: VirtualClock
    ) -> None:
        backoff = Backoff(Linear(2.0, 0.0))
        play(
            Script(TimeoutError(), "done"), Guard("work", backoff=backoff, clock=clock, hooks=[events.append])
        )
        event = events[0]
        assert isinstance(event, AttemptFailed)
        assert "2 s" in explain(event.explanation.facts())
        assert "timeout" in explain(event.explanation.facts())

    def test_all_hooks_receive_all_events_in_order(self, play: Play) -> None:
        heard: list[tuple[str, int]] = []
        hooks = [
            lambda event: heard.append(("first", event.attempt)),
            lambda event: heard.append(("second", event.attempt)),
        ]
        play(Script(RetryableError(), "done"), Guard("work", backoff=AT_ONCE, hooks=hooks))
        assert heard == [("first", 1), ("second", 1), ("first", 2), ("second", 2)]

    def test_hooks_receive_events_when_logging_is_off(
        self, play: Play, events: list[CallEvent], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(logging.getLogger("redrive.calls"), "disabled", True)
        play(Script(RetryableError(), "done"), Guard("work", backoff=AT_ONCE, hooks=[events.append]))
        assert len(events) == 2

    def test_events_cannot_be_changed(self, events: list[CallEvent]) -> None:
        Guard("work", backoff=AT_ONCE, hooks=[events.append]).call(Script(RetryableError(), "done"))
        with pytest.raises(AttributeError):
            events[0].attempt = 7  # type: ignore[misc]


class TestBadHooks:
    def test_a_hook_that_raises_does_not_affect_the_call(
        self, play: Play, events: list[CallEvent], caplog: pytest.LogCaptureFixture
    ) -> None:
        def broken(event: CallEvent) -> None:
            raise RuntimeError("broken hook")

        script = Script(RetryableError(), "done")
        guard = Guard("work", backoff=AT_ONCE, hooks=[broken, events.append])
        assert play(script, guard) == "done"
        assert len(events) == 2
        complaints = [record for record in caplog.records if "call.hook_failed" in record.getMessage()]
        assert [record.levelno for record in complaints] == [logging.ERROR] * 2
        fields = complaints[0].fields  # type: ignore[attr-defined]
        assert fields["operation"] == "work"
        assert fields["hook"].endswith("broken")
        assert fields["error"] == "RuntimeError: broken hook"

    def test_the_final_error_is_still_the_original(self, play: Play) -> None:
        def broken(event: CallEvent) -> None:
            raise KeyError("broken hook")

        error = FinalError("mine")
        with pytest.raises(FinalError) as caught:
            play(Script(error), Guard("work", hooks=[broken]))
        assert caught.value is error
        assert caught.value.__context__ is None

    def test_an_async_hook_is_refused_before_it_is_forgotten(self) -> None:
        async def hook(event: CallEvent) -> None:
            raise AssertionError

        with pytest.raises(InvalidValueError, match="hook"):
            Guard("work", hooks=[hook])

    def test_a_hook_may_make_guarded_calls(self, play: Play) -> None:
        reported: list[int] = []
        reporter = Guard("report")

        def report(event: CallEvent) -> None:
            reporter.call(lambda attempt: reported.append(event.attempt))

        play(Script(RetryableError(), "done"), Guard("work", backoff=AT_ONCE, hooks=[report]))
        assert reported == [1, 2]

    def test_a_hook_cannot_make_a_success_of_it(self, play: Play) -> None:
        with pytest.raises(FinalError):
            play(Script(FinalError()), Guard("work", hooks=[lambda event: "success"]))


class TestFields:
    def test_of_a_failed_attempt(self, events: list[CallEvent], clock: VirtualClock) -> None:
        error = HttpStatusError("GET / answered 503", status=503)
        guard = Guard("look", idempotency_key="key", clock=clock, random=lambda: 1.0, hooks=[events.append])
        guard.call(Script(error, "done", clock=clock, takes=(0.1234, 0.0)))
        assert fields_of(events[0]) == {
            "event": "call.attempt_failed",
            "operation": "look",
            "attempt": 1,
            "max_attempts": 3,
            "idempotency_key": "key",
            "latency_ms": 123.4,
            "retryable": True,
            "error_class": "retryable",
            "category": "provider_5xx",
            "rule": "status 503",
            "http_status": 503,
            "delivery": "seen",
            "reason": "backoff",
            "wait_ms": 250.0,
            "error": "redrive.errors.HttpStatusError: GET / answered 503",
        }

    def test_of_a_recovery(self, events: list[CallEvent], clock: VirtualClock) -> None:
        Guard("look", clock=clock, hooks=[events.append]).call(Script(TimeoutError(), "done"))
        assert fields_of(events[1]) == {
            "event": "call.recovered",
            "operation": "look",
            "attempt": 2,
            "max_attempts": 3,
            "latency_ms": 0.0,
        }

    def test_unknown_fields_are_omitted(self, events: list[CallEvent]) -> None:
        with pytest.raises(KeyError):
            Guard("look", hooks=[events.append]).call(Script(KeyError()))
        assert {"http_status", "wait_ms", "idempotency_key"}.isdisjoint(fields_of(events[0]))

    def test_plain_values_only(self, events: list[CallEvent]) -> None:
        Guard("look", backoff=AT_ONCE, hooks=[events.append]).call(Script(TimeoutError(), "done"))
        assert {type(value) for value in fields_of(events[0]).values()} <= {str, int, float, bool}
        event = events[0]
        assert isinstance(event, AttemptFailed)
        assert event.failure.error_class is ErrorClass.RETRYABLE

    def test_the_attempt_of_a_call_is_not_shared(self) -> None:
        seen: list[Attempt] = []
        Guard("look", backoff=AT_ONCE).call(Script(TimeoutError(), "done"))
        Guard("look", backoff=AT_ONCE).call(seen.append)
        assert seen[0].failures == ()
