"""How a bulk replay proceeds: canary, ramp, stop, finish (W9, "bulk replay as a durable operation")."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cases import loop_over

from redrive.errors import InvalidValueError
from redrive.policy.rollout import (
    FIRST_RUNNING,
    MAX_BATCH_SIZE,
    MAX_RUNNING,
    POLL_SECONDS,
    CanaryPassed,
    Finish,
    ItemRelease,
    RolloutFigures,
    RolloutOptions,
    RolloutPlan,
    RolloutWait,
    Score,
    Stop,
    next_move,
)
from redrive.words.fact import text_of

NOW = 1_700_000_000.0
OPTIONS = RolloutOptions()


def figures(
    succeeded: int = 0, failed: int = 0, *, running: int = 0, repeated: int = 0, **others: Any
) -> RolloutFigures:
    score = Score(succeeded + failed + running, succeeded, failed, repeated)
    known = RolloutFigures(score, ready=MAX_BATCH_SIZE, running=running, ramping=False)
    return known._replace(**others)


def ramping(succeeded: int = 10, failed: int = 0, **others: Any) -> RolloutFigures:
    return figures(succeeded, failed, **{"ramping": True, "released_at": NOW, **others})


def about(number: float) -> Any:
    return pytest.approx(number)


def stopped(known: RolloutFigures, options: RolloutOptions = OPTIONS) -> str:
    move = next_move(known, options, NOW)
    assert isinstance(move, Stop), move
    return text_of(move.reason)


# The canary


def test_a_canary_is_started_at_once_and_no_more_than_it() -> None:
    assert next_move(figures(), OPTIONS, NOW) == ItemRelease(10, NOW)
    assert next_move(figures(running=4), OPTIONS, NOW) == ItemRelease(6, NOW)
    assert next_move(figures(running=10), OPTIONS, NOW) == RolloutWait(POLL_SECONDS)


def test_all_of_the_canary_must_end_before_the_others_begin() -> None:
    assert next_move(figures(9, running=1), OPTIONS, NOW) == RolloutWait(POLL_SECONDS)
    assert next_move(figures(10), OPTIONS, NOW) == CanaryPassed()


def test_an_operation_without_a_canary_begins_with_the_ramp() -> None:
    assert next_move(figures(), replace(OPTIONS, canary=0), NOW) == CanaryPassed()


def test_a_canary_larger_than_a_batch_takes_several() -> None:
    options = replace(OPTIONS, canary=700)

    assert next_move(figures(), options, NOW) == ItemRelease(FIRST_RUNNING, NOW)
    assert next_move(figures(500), options, NOW) == ItemRelease(200, NOW)


def test_a_canary_is_judged_when_it_has_ended_however_small_it_is() -> None:
    options = replace(OPTIONS, canary=2, minimum=50)

    assert stopped(figures(1, 1), options) == "1 of 2 items failed: 50%, more than 20%"
    assert next_move(figures(0, 1, running=1), options, NOW) == RolloutWait(POLL_SECONDS)
    assert next_move(figures(2), options, NOW) == CanaryPassed()


def test_a_canary_that_failed_as_often_as_is_allowed_continues() -> None:
    assert next_move(figures(8, 2), OPTIONS, NOW) == CanaryPassed()
    assert stopped(figures(7, 3)) == "3 of 10 items failed: 30%, more than 20%"


# The ramp


def test_without_a_rate_as_many_are_in_progress_as_the_engine_can_take() -> None:
    assert next_move(ramping(), OPTIONS, NOW) == ItemRelease(FIRST_RUNNING, NOW)
    assert next_move(ramping(9_000), OPTIONS, NOW) == ItemRelease(MAX_BATCH_SIZE, NOW)
    assert next_move(ramping(9_000, running=MAX_RUNNING - 3), OPTIONS, NOW) == ItemRelease(3, NOW)
    assert next_move(ramping(9_000, running=MAX_RUNNING), OPTIONS, NOW) == RolloutWait(POLL_SECONDS)
    assert next_move(ramping(ready=7), OPTIONS, NOW) == ItemRelease(7, NOW)


def test_more_are_in_progress_at_once_the_more_have_ended() -> None:
    assert next_move(ramping(10, running=FIRST_RUNNING - 1), OPTIONS, NOW) == ItemRelease(1, NOW)
    assert next_move(ramping(10, running=FIRST_RUNNING), OPTIONS, NOW) == RolloutWait(POLL_SECONDS)
    assert next_move(ramping(700, running=FIRST_RUNNING), OPTIONS, NOW) == ItemRelease(200, NOW)


def test_with_a_rate_items_are_started_as_time_passes() -> None:
    options = replace(OPTIONS, rate=10.0)

    assert next_move(ramping(), options, NOW) == RolloutWait(about(0.1))
    assert next_move(ramping(), options, NOW + 0.35) == ItemRelease(3, about(NOW + 0.3))
    assert next_move(ramping(ready=1), options, NOW + 0.35) == ItemRelease(1, about(NOW + 0.1))


def test_a_pause_is_not_made_up_for() -> None:
    """One second's worth of items at once, or one item, whichever is more."""
    assert next_move(ramping(), replace(OPTIONS, rate=20.0), NOW + 3600.0) == ItemRelease(20, NOW + 3600.0)
    assert next_move(ramping(), replace(OPTIONS, rate=0.01), NOW + 3600.0) == ItemRelease(1, NOW + 3600.0)


def test_a_slow_rate_is_looked_at_often_enough_to_be_stopped() -> None:
    assert next_move(ramping(), replace(OPTIONS, rate=0.01), NOW) == RolloutWait(1.0)


def test_a_clock_that_was_put_back_does_not_hold_it_up() -> None:
    options = replace(OPTIONS, rate=10.0)

    assert next_move(ramping(released_at=NOW + 9e6), options, NOW) == RolloutWait(about(0.1))


# Automatic stop


def test_it_stops_when_too_many_failed_but_not_before_enough_have_ended() -> None:
    assert isinstance(next_move(ramping(5, 4), OPTIONS, NOW), ItemRelease)
    assert stopped(ramping(7, 3)) == "3 of 10 items failed: 30%, more than 20%"
    assert isinstance(next_move(ramping(800, 200), OPTIONS, NOW), ItemRelease)
    assert stopped(ramping(799, 201)).startswith("201 of 1,000 items failed")


def test_no_failure_at_all_may_be_allowed_and_so_may_every_one() -> None:
    assert stopped(ramping(99, 1), replace(OPTIONS, failure_rate=0.0))
    assert isinstance(next_move(ramping(0, 99), replace(OPTIONS, failure_rate=1.0), NOW), ItemRelease)


def test_it_stops_when_items_fail_as_they_had_failed_before() -> None:
    assert isinstance(next_move(ramping(996, 4, repeated=4), OPTIONS, NOW), ItemRelease)
    assert stopped(ramping(995, 5, repeated=5)) == "5 items failed with the same error as before"
    assert stopped(figures(0, 1, repeated=1, running=9), replace(OPTIONS, same_failures=1))
    unlimited = replace(OPTIONS, same_failures=None)
    assert isinstance(next_move(ramping(995, 5, repeated=5), unlimited, NOW), ItemRelease)


def test_it_stops_when_a_breaker_is_open_that_its_items_depend_on() -> None:
    reason = "the breaker 'bank' opened, and remaining items depend on it"

    assert stopped(ramping(open_breaker="bank")) == reason
    assert stopped(figures(open_breaker="bank")) == reason
    careless = replace(OPTIONS, stop_on_breaker=False)
    assert isinstance(next_move(ramping(open_breaker="bank"), careless, NOW), ItemRelease)


def test_when_nothing_is_left_to_be_started_there_is_nothing_to_stop() -> None:
    assert next_move(ramping(0, 99, ready=0, running=1), OPTIONS, NOW) == RolloutWait(POLL_SECONDS)
    assert next_move(ramping(0, 99, ready=0, open_breaker="bank"), OPTIONS, NOW) == Finish()


def test_a_plan_without_items_finishes_at_once() -> None:
    assert next_move(figures(ready=0), OPTIONS, NOW) == Finish()


# Pardon


def test_pardoned_failures_no_longer_count() -> None:
    whole, pardoned = Score(30, 20, 10, 7), Score(25, 16, 9, 7)

    assert whole.since(pardoned) == Score(5, 4, 1, 0)
    assert whole.since(Score()) == whole
    assert pardoned.since(whole) == Score()


def test_options_and_pardon_are_stored_as_they_are() -> None:
    for rollout in (
        RolloutPlan(OPTIONS),
        RolloutPlan(
            RolloutOptions(canary=0, rate=0.5, same_failures=None, stop_on_breaker=False), Score(4, 3, 2, 1)
        ),
    ):
        assert RolloutPlan.from_json(json.loads(json.dumps(rollout.to_json()))) == rollout


@loop_over(
    "wrong",
    [
        {"canary": -1},
        {"canary": 100_001},
        {"canary": 1.5},
        {"rate": 0},
        {"rate": 1e9},
        {"rate": float("nan")},
        {"failure_rate": 1.01},
        {"failure_rate": -0.1},
        {"minimum": 0},
        {"same_failures": 0},
        {"stop_on_breaker": 1},
    ],
)
def test_options_beyond_their_bounds_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidValueError, match=next(iter(wrong))):
        RolloutOptions(**wrong)


# Whole operations


class Rehearsal:
    """An operation of `items` items that succeed, and end after a while."""

    def __init__(self, items: int, options: RolloutOptions) -> None:
        self.planned, self.options = items, options
        self.now = self.released_at = NOW
        self.running = self.ended = self.most_running = 0
        self.ramping = self.finished = False
        self.begun = 0

    def tick(self, ending: int) -> None:
        """End this many running items, then evaluate."""
        ending = min(ending, self.running)
        self.running, self.ended = self.running - ending, self.ended + ending
        score = Score(self.running + self.ended, self.ended)
        ready = min(self.planned, MAX_BATCH_SIZE)
        move = next_move(
            RolloutFigures(score, ready, self.running, self.ramping, self.released_at), self.options, self.now
        )
        match move:
            case RolloutWait(seconds):
                assert 0.0 < seconds <= 1.0
                self.now += seconds
            case ItemRelease(number, released_at):
                assert 0 < number <= ready
                assert released_at <= self.now
                self.released_at = released_at
                self.planned, self.running = self.planned - number, self.running + number
                self.begun += number
            case CanaryPassed():
                assert not self.running
                self.ramping, self.released_at = True, self.now
            case Finish():
                self.finished = True
            case Stop():
                raise AssertionError(move)
        self.most_running = max(self.most_running, self.running)


@given(
    items=st.integers(0, 3_000),
    canary=st.integers(0, 800),
    rate=st.none() | st.floats(2.0, 5_000.0),
    ending=st.integers(5, 700),
)
def test_every_item_is_started_once_and_none_too_early(
    items: int, canary: int, rate: float | None, ending: int
) -> None:
    played = Rehearsal(items, RolloutOptions(canary=canary, rate=rate))
    ramped_at = None
    for _ in range(10_000):
        if played.finished:
            break
        played.tick(ending)
        if not played.ramping:
            assert played.begun <= canary
        elif ramped_at is None:
            ramped_at, before = played.now, played.begun
        elif rate is not None:
            allowed = (played.now - ramped_at) * rate + 1.0  # rounding
            assert played.begun - before <= allowed
    assert played.finished
    assert (played.planned, played.running, played.ended) == (0, 0, items)
    assert played.most_running <= MAX_RUNNING
