"""The log of the engine: levels and names, no flood, no secrets (D9, P9, G14)."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from random import Random
from threading import Thread
from typing import Any, get_args

import pytest
from tests.cases import loop_over
from tests.lines import Lines, written_to

from redrive.engine.event_bus import EventBus
from redrive.engine.ids import Ids
from redrive.model import event as events
from redrive.model.decision import Explanation, Reason
from redrive.model.event import (
    BreakerChanged,
    Event,
    HeldReleased,
    LeaseLost,
    QueuePaused,
    QueueResumed,
    RetryScheduled,
    RunFinished,
    RunQueued,
    StepDied,
    StepHeld,
    StepRecovered,
    StepReleased,
    StepStarted,
    StepSucceeded,
    StoreFailed,
    StoreRecovered,
    TaskAbandoned,
    TaskUnknown,
    ThreadAbandoned,
    WorkerStarted,
    WorkerStopped,
    WorkerStopping,
)
from redrive.model.event import StepRef as Ref
from redrive.model.failure import Category, ErrorClass, Failure
from redrive.observe import throttle
from redrive.observe.log import LEVELS, LOGGER, MAX_FAILURES, LogListener
from redrive.testing import VirtualClock

D, I, W, E = logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR  # noqa: E741

STRIPE = "sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc"
REF = Ref("acme", "run-7", "orders", 1, "charge", "charge", "default", 3, "corr-9")
FAILURE = Failure(
    Category.PROVIDER_5XX,
    ErrorClass.RETRYABLE,
    "http.5xx",
    "HttpStatusError",
    "answered 503",
    "GW_5XX",
    "The service is not available.",
    http_status=503,
)
RETRY = Explanation(Reason.BACKOFF, "http.5xx", "provider_5xx", 1, 4)
SPENT = Explanation(Reason.ATTEMPTS_SPENT, "http.5xx", "provider_5xx", 4, 4)

ONE_OF_EACH: list[tuple[Event, int]] = [
    (RunQueued("acme", "run-7", "orders", "default", "corr-9"), D),
    (StepStarted(REF, 0), D),
    (StepStarted(REF, 2), D),
    (StepSucceeded(REF, 0.25), D),
    (StepRecovered(REF, 0.25, 2), I),
    (RunFinished("acme", "run-7", "orders", "default", "corr-9", "SUCCESS", 1.5), D),
    (RetryScheduled(REF, 0.25, FAILURE, RETRY, 2.0, True), I),
    (StepReleased(REF, "interrupted", 0.0), I),
    (StepHeld(REF, "breaker:smtp"), I),
    (HeldReleased("breaker:smtp", 12), I),
    (StepDied(REF, 0.25, FAILURE, SPENT, "DLQ_PENDING", "letter", "shop.py:7 in pay"), E),
    (LeaseLost(REF), W),
    (TaskUnknown(REF), W),
    (BreakerChanged("smtp", "CLOSED", "OPEN", "half of the calls failed"), W),
    (BreakerChanged("smtp", "HALF_OPEN", "OPEN", "a probe failed"), W),
    (BreakerChanged("smtp", "OPEN", "HALF_OPEN", "probing"), I),
    (BreakerChanged("smtp", "HALF_OPEN", "CLOSED", "recovered"), I),
    (QueuePaused("default", "ada", "migration"), I),
    (QueueResumed("default", "ada"), I),
    (WorkerStarted("w1", ("default", "slow"), 100), I),
    (WorkerStopping("w1", 3, 30.0, "SIGTERM"), I),
    (WorkerStopped("w1", 1), I),
    (StoreFailed("claim", "connection refused", 1.0), W),
    (StoreRecovered("claim", 4.0), I),
    (events.StreamFailed("acme", "orders", "redis_unreachable", "Redis can't be reached", 1.0), W),
    (events.StreamRecovered("acme", "orders", 4.0), I),
    (events.StreamGapFound("acme", "orders", "2-0", "9-0"), E),
    (ThreadAbandoned(REF), W),
    (events.TaskStoredSeparately("default", "dlq:default", "order-7", "order-7~2"), W),
    (TaskAbandoned(REF), W),
    (events.DeadLetterChanged("acme", "letter", "OPEN", "RESOLVED", "ada"), I),
    (events.ReplayRequested("acme", "letter", "run-7", "FROM_STEP", "ada"), D),
    (events.ReplayEnded("acme", "letter", "run-7", "SUCCEEDED"), D),
    (events.OperationChanged("acme", "operation", "RUNNING", "STOPPED", "too many failed"), I),
    (events.GroupChanged("acme", "v1:0123", "RESOLVED", "OPEN", "redrive"), I),
    (events.ProcessorChanged("p1", "running"), I),
    (events.AlertRaised("acme", "", "exhausted", "more than 100 are exhausted"), W),
]

ORDINARY = (RunQueued, StepStarted, StepSucceeded, RunFinished)


@pytest.fixture
def lines() -> Iterator[Lines]:
    with written_to(LOGGER, D) as written:
        yield written


def suppressed(lines: Lines) -> list[int | None]:
    return [fields.get("suppressed") for fields in lines.fields]


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def listener(clock: VirtualClock) -> LogListener:
    return LogListener(clock)


def written(listener: LogListener, lines: Lines, event: Event) -> dict[str, Any]:
    before = len(lines.records)
    listener(event)
    assert len(lines.records) == before + 1
    return lines.fields[-1]


class TestLevels:
    @loop_over(("event", "level"), ONE_OF_EACH)
    def test_of_each_event(self, lines: Lines, event: Event, level: int) -> None:
        lines.records.clear()
        LogListener(VirtualClock())(event)
        assert [(record.levelno, record.name) for record in lines.records] == [(level, "redrive.engine")]

    def test_every_kind_of_event_has_one(self) -> None:
        kinds = set(get_args(Event))
        assert set(LEVELS) == kinds
        assert {type(event) for event, _ in ONE_OF_EACH} == kinds

    @pytest.mark.parametrize("threshold", [D, I, W, E, logging.CRITICAL])
    def test_no_line_below_the_level_is_written(
        self, listener: LogListener, lines: Lines, threshold: int
    ) -> None:
        LOGGER.setLevel(threshold)
        for event, _ in ONE_OF_EACH:
            listener(event)
        assert [record.levelno for record in lines.records] == [
            level for _, level in ONE_OF_EACH if level >= threshold
        ]

    def test_work_that_simply_succeeds_is_silent_at_info(self, listener: LogListener, lines: Lines) -> None:
        LOGGER.setLevel(I)
        for event in (ONE_OF_EACH[0][0], StepStarted(REF, 0), StepSucceeded(REF, 1.0), ONE_OF_EACH[5][0]):
            listener(event)
        assert lines.records == []


class TestWants:
    @loop_over("threshold", [D, I, W, E, logging.CRITICAL])
    @loop_over("kind", get_args(Event))
    def test_the_decision_whether_a_line_would_be_written(
        self, listener: LogListener, lines: Lines, kind: type[Event], threshold: int
    ) -> None:
        LOGGER.setLevel(threshold)
        levels = [level for event, level in ONE_OF_EACH if type(event) is kind]
        level = D if kind in ORDINARY else max(levels)
        assert listener.wants(kind) is (level >= threshold)

    def test_ordinary_work_is_not_wanted_at_info(self, listener: LogListener, lines: Lines) -> None:
        LOGGER.setLevel(I)
        assert not any(listener.wants(kind) for kind in ORDINARY)

    def test_follows_a_change_of_the_level(self, listener: LogListener, lines: Lines) -> None:
        LOGGER.setLevel(I)
        assert not listener.wants(StepStarted)
        LOGGER.setLevel(D)
        assert listener.wants(StepStarted)

    def test_follows_logging_that_is_switched_off(self, listener: LogListener, lines: Lines) -> None:
        logging.disable(logging.CRITICAL)
        try:
            assert not listener.wants(StepDied)
            listener(ONE_OF_EACH[10][0])
        finally:
            logging.disable(logging.NOTSET)
        assert lines.records == []

    def test_the_engine_asks_for_it(self, lines: Lines) -> None:
        LOGGER.setLevel(I)
        event_bus = EventBus()
        event_bus.listen(LogListener())
        assert not event_bus.is_subscribed(StepStarted)
        assert event_bus.is_subscribed(StepDied)


class TestFields:
    def test_p9_of_a_retry(self, listener: LogListener, lines: Lines) -> None:
        fields = written(listener, lines, RetryScheduled(REF, 0.25, FAILURE, RETRY, 2.0, True))
        expected = {
            "event": "step.retry_scheduled",
            "org_id": "acme",
            "run_id": "run-7",
            "workflow": "orders",
            "step_index": 1,
            "step": "charge",
            "task": "charge",
            "correlation_id": "corr-9",
            "status": "RETRYING",
            "attempt": 3,
            "max_attempts": 4,
            "duration_ms": 250.0,
            "delay_ms": 2000.0,
            "http_status": 503,
            "error_code": "GW_5XX",
            "retryable": True,
            "reason": "backoff",
        }
        assert expected.items() <= fields.items()

    def test_d9_budget_used_up(self, listener: LogListener, lines: Lines) -> None:
        fields = written(
            listener, lines, StepDied(REF, 0.25, FAILURE, SPENT, "DLQ_PENDING", "letter", "shop.py:7 in pay")
        )
        assert fields["reason"] == "attempts_spent"
        assert fields["status"] == "DLQ_PENDING"
        assert (fields["attempt"], fields["max_attempts"], fields["error_code"]) == (3, 4, "GW_5XX")
        assert "all 4 attempts are used up" in fields["explanation"]

    def test_d9_success_after_retry(self, listener: LogListener, lines: Lines) -> None:
        fields = written(listener, lines, StepRecovered(REF, 0.25, 2))
        expected = {"status": "SUCCESS", "attempt": 3, "failures": 2, "duration_ms": 250.0}
        assert expected.items() <= fields.items()

    def test_d9_first_attempt_versus_retry(self, listener: LogListener, lines: Lines) -> None:
        first = written(listener, lines, StepStarted(REF.replace(attempt=1), 0))
        retry = written(listener, lines, StepStarted(REF.replace(attempt=2), 1))
        assert (first["attempt"], first["failures"]) == (1, 0)
        assert (retry["attempt"], retry["failures"]) == (2, 1)

    def test_p9_breaker_state(self, listener: LogListener, lines: Lines) -> None:
        fields = written(listener, lines, BreakerChanged("smtp", "CLOSED", "OPEN", "half failed"))
        assert fields == {
            "event": "breaker.changed",
            "breaker": "smtp",
            "breaker_state_before": "CLOSED",
            "breaker_state": "OPEN",
            "reason": "half failed",
        }

    @pytest.mark.parametrize(
        ("event", "status"),
        [
            (ONE_OF_EACH[0][0], "PENDING"),
            (StepStarted(REF, 0), "RUNNING"),
            (StepReleased(REF, "drained", 0.0), "PENDING"),
            (StepHeld(REF, "breaker:smtp"), "PENDING"),
            (TaskUnknown(REF), "PENDING"),
            (ONE_OF_EACH[5][0], "SUCCESS"),
            (LeaseLost(REF), None),
            (WorkerStopped("w1", 0), None),
        ],
        ids=lambda value: type(value).__name__,
    )
    def test_status(self, listener: LogListener, lines: Lines, event: Event, status: str | None) -> None:
        assert written(listener, lines, event).get("status") == status

    @loop_over("event", [event for event, _ in ONE_OF_EACH])
    def test_names_are_the_ones_that_all_logs_use(self, lines: Lines, event: Event) -> None:
        fields = written(LogListener(VirtualClock()), lines, event)
        assert fields.keys().isdisjoint({"org", "state", "seconds", "delay", "ref"})
        if isinstance(event, RunQueued | RunFinished) or hasattr(event, "ref"):
            assert (fields["org_id"], fields["run_id"], fields["correlation_id"]) == (
                "acme",
                "run-7",
                "corr-9",
            )

    @loop_over("event", [event for event, _ in ONE_OF_EACH])
    def test_the_line_agrees_with_the_fields(self, lines: Lines, event: Event) -> None:
        """Except defaults, and values that another field contains."""
        fields = dict(written(LogListener(VirtualClock()), lines, event))
        line = lines.records[-1].getMessage()
        assert line.startswith(fields["event"])
        for key, value in fields.items():
            pair = f" {key}={json.dumps(value, ensure_ascii=False)}"
            assert (
                pair in line
                or key in {"event", "org_id", "queue", "workflow", "step"}
                or "explanation" in fields
            )

    def test_real_ids_are_not_taken_for_secrets(
        self, listener: LogListener, lines: Lines, clock: VirtualClock
    ) -> None:
        ids = Ids(clock, Random(7))
        for _ in range(200):
            run, correlation = ids.new(), ids.new()
            fields = written(listener, lines, LeaseLost(REF.replace(run_id=run, correlation_id=correlation)))
            assert (fields["run_id"], fields["correlation_id"]) == (run, correlation)


class TestThrottle:
    def test_one_line_a_second_of_steps_held_by_the_same(
        self, listener: LogListener, lines: Lines, clock: VirtualClock
    ) -> None:
        for _ in range(1000):
            listener(StepHeld(REF, "breaker:smtp"))
        assert suppressed(lines) == [None]
        clock.advance(0.999)
        listener(StepHeld(REF, "breaker:smtp"))
        assert suppressed(lines) == [None]
        clock.advance(0.001)
        listener(StepHeld(REF, "breaker:smtp"))
        assert suppressed(lines) == [None, 1000]

    def test_the_count_starts_again(self, listener: LogListener, lines: Lines, clock: VirtualClock) -> None:
        for count in (3, 1, 2):
            for _ in range(count):
                listener(StepHeld(REF, "breaker:smtp"))
            clock.advance(1.0)
        assert suppressed(lines) == [None, 2, None]

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            (StepHeld(REF, "breaker:smtp"), StepHeld(REF, "breaker:crm")),
            (TaskUnknown(REF), TaskUnknown(REF.replace(task="refund"))),
            (StoreFailed("claim", "x", 1.0), StoreFailed("record", "x", 1.0)),
            (StepHeld(REF, "claim"), StoreFailed("claim", "x", 1.0)),
        ],
        ids=["held", "unknown", "failed", "kinds"],
    )
    def test_each_cause_has_its_own(
        self, listener: LogListener, lines: Lines, clock: VirtualClock, one: Event, other: Event
    ) -> None:
        for event in (one, other, one, one, other):
            listener(event)
        assert len(lines.records) == 2
        clock.advance(1.0)
        listener(one)
        listener(other)
        assert suppressed(lines) == [None, None, 2, 1]

    def test_it_is_the_cause_that_counts_and_not_the_run(self, listener: LogListener, lines: Lines) -> None:
        for number in range(10):
            ref = REF.replace(run_id=str(number), step_index=number)
            listener(StepHeld(ref, "breaker:smtp"))
            listener(TaskUnknown(ref))
            listener(StoreFailed("claim", f"error {number}", float(number)))
        assert len(lines.records) == 3

    def test_events_of_single_runs_are_always_logged(self, listener: LogListener, lines: Lines) -> None:
        for _ in range(50):
            listener(LeaseLost(REF))
        assert suppressed(lines) == [None] * 50

    @pytest.mark.parametrize("event", [ONE_OF_EACH[6][0], ONE_OF_EACH[10][0]])
    def test_twenty_a_second_of_failures_with_the_same_cause(
        self, listener: LogListener, lines: Lines, clock: VirtualClock, event: RetryScheduled | StepDied
    ) -> None:
        for _ in range(50):
            listener(event)
        assert suppressed(lines) == [None] * MAX_FAILURES
        clock.advance(1.0)
        listener(event)
        listener(event)
        other = event._replace(failure=event.failure._replace(error_type="AnotherError"))
        listener(other)
        assert suppressed(lines)[MAX_FAILURES:] == [50 - MAX_FAILURES, None, None]

    def test_lines_below_the_level_are_not_counted(
        self, listener: LogListener, lines: Lines, clock: VirtualClock
    ) -> None:
        LOGGER.setLevel(W)
        for _ in range(5):
            listener(StepHeld(REF, "breaker:smtp"))
        LOGGER.setLevel(I)
        listener(StepHeld(REF, "breaker:smtp"))
        assert suppressed(lines) == [None]

    def test_a_clock_that_goes_back_does_not_silence(
        self, listener: LogListener, lines: Lines, clock: VirtualClock
    ) -> None:
        clock.advance(100_000.0)
        listener(StepHeld(REF, "breaker:smtp"))
        clock.advance(-100_000.0)
        listener(StepHeld(REF, "breaker:smtp"))
        assert len(lines.records) == 2

    def test_any_number_of_causes_is_borne(
        self, listener: LogListener, lines: Lines, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(throttle, "MAX_CAUSES", 10)
        for number in range(100):
            listener(StepHeld(REF, f"limit:{number}"))
        listener(StepHeld(REF, "limit:99"))
        assert len(lines.records) == 100
        listener(StepHeld(REF, "limit:0"))
        assert len(lines.records) == 101

    def test_a_cause_that_continues_is_not_forgotten_for_new_ones(
        self, listener: LogListener, lines: Lines, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(throttle, "MAX_CAUSES", 2)
        for cause in ("a", "b"):
            listener(StepHeld(REF, cause))
        clock.advance(1.0)
        for cause in ("a", "c", "a"):
            listener(StepHeld(REF, cause))
        assert [fields["held_by"] for fields in lines.fields] == ["a", "b", "a", "c"]

    def test_threads_lose_no_count(self, listener: LogListener, lines: Lines, clock: VirtualClock) -> None:
        def flood() -> None:
            for _ in range(500):
                listener(StepHeld(REF, "breaker:smtp"))

        threads = [Thread(target=flood) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        clock.advance(1.0)
        listener(StepHeld(REF, "breaker:smtp"))
        assert suppressed(lines) == [None, 8 * 500 - 1]


class TestSecrets:
    @pytest.mark.parametrize(
        ("event", "secret"),
        [
            (
                StepDied(
                    REF, 0.1, FAILURE._replace(message=f"{STRIPE} refused"), SPENT, "FAILED", "letter", ""
                ),
                STRIPE,
            ),
            (RetryScheduled(REF, 0.1, FAILURE._replace(message=f"{STRIPE} ?"), RETRY, 1.0, True), STRIPE),
            (StoreFailed("claim", "cannot reach postgresql://app:hunter2-x9Qz@db/shop", 1.0), "hunter2-x9Qz"),
            (QueuePaused("default", "ada", "password=correct-horse-7"), "correct-horse-7"),
            (BreakerChanged("smtp", "CLOSED", "OPEN", f"token {STRIPE}"), STRIPE),
        ],
        ids=lambda value: type(value).__name__,
    )
    def test_are_in_neither_form(
        self, listener: LogListener, lines: Lines, event: Event, secret: str
    ) -> None:
        fields = written(listener, lines, event)
        assert secret not in lines.text
        assert secret not in repr(fields)


class TestHarmless:
    @pytest.mark.parametrize(
        "text", ["a\nERROR forged", "\x1b[2J", 'q" run_id="forged', "\ud800", "\x00", "x" * 1_000_000, "%s"]
    )
    def test_hostile_text_stays_in_its_line(self, listener: LogListener, lines: Lines, text: str) -> None:
        ref = REF.replace(task=text, correlation_id=text, step=text)
        listener(
            StepDied(ref, 0.1, FAILURE._replace(message=text, rule=text), SPENT, "FAILED", "letter", text)
        )
        listener(TaskUnknown(ref))
        listener(QueuePaused(text, text, text))
        assert len(lines.records) == 3
        for record in lines.records:
            assert record.getMessage().isascii()
            assert record.getMessage().isprintable()

    def test_a_handler_that_raises(self, listener: LogListener, lines: Lines) -> None:
        class Broken(logging.Handler):
            def handle(self, record: logging.LogRecord) -> bool:
                raise RuntimeError("broken handler")

        handler = Broken()
        LOGGER.addHandler(handler)
        try:
            listener(LeaseLost(REF))
        finally:
            LOGGER.removeHandler(handler)

    def test_a_value_of_a_wrong_type(self, listener: LogListener, lines: Lines) -> None:
        broken: Any = object()
        listener(LeaseLost(REF.replace(correlation_id=broken)))
        listener(WorkerStarted("w1", broken, broken))
        assert len(lines.records) == 2
