"""The circuit breaker: thresholds by example (P4, P5), and random histories against a model."""

import math

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.cases import loop_over

from redrive.errors import InvalidValueError
from redrive.model.breaker import (
    BREAKER_TRANSITIONS,
    BreakerState,
    CallOutcome,
    Permit,
    Refusal,
)
from redrive.model.failure import Category, Delivery, ErrorClass, Failure
from redrive.policy import Breaker, BreakerPolicy
from redrive.policy.breaker import outcome_of
from redrive.policy.window import BUCKETS

OK, BAD, NOTHING = CallOutcome.SUCCEEDED, CallOutcome.FAILED, CallOutcome.NOTHING
CLOSED, OPEN, HALF_OPEN = BreakerState.CLOSED, BreakerState.OPEN, BreakerState.HALF_OPEN


def permit(breaker: Breaker, now: float) -> Permit:
    answer = breaker.admit(now)
    assert isinstance(answer, Permit)
    return answer


def make_calls(breaker: Breaker, outcomes: str, now: float = 0.0, seconds: float = 0.0) -> None:
    """Make one call per letter: `+` succeeds, `-` fails, `?` reports no outcome."""
    for letter in outcomes:
        outcome = {"+": OK, "-": BAD, "?": NOTHING}[letter]
        breaker.report(permit(breaker, now), outcome, now, seconds)


def opened(policy: BreakerPolicy | None = None) -> Breaker:
    breaker = Breaker(policy)
    while breaker.state_at(0.0) is CLOSED:
        make_calls(breaker, "-")
    return breaker


COUNTING = BreakerPolicy(window_seconds=None)
"""A policy with only the window of calls, to test it separately."""


class TestOpening:
    def test_p4_half_of_the_last_twenty_calls(self) -> None:
        breaker = Breaker()
        make_calls(breaker, "+" * 10 + "-" * 9)
        assert breaker.snapshot(0.0).state is CLOSED
        make_calls(breaker, "-")
        assert breaker.snapshot(0.0).state is OPEN

    def test_less_than_half_stays_closed(self) -> None:
        breaker = Breaker(COUNTING)
        make_calls(breaker, "-" * 9 + "+" * 11 + "+++++----+" * 20)
        assert breaker.snapshot(0.0).state is CLOSED

    def test_too_few_calls_do_not_open_it(self) -> None:
        for policy, enough in ((COUNTING, 20), (BreakerPolicy(), 5)):
            breaker = Breaker(policy)
            make_calls(breaker, "-" * (enough - 1))
            assert breaker.snapshot(0.0).state is CLOSED
            make_calls(breaker, "-")
            assert breaker.snapshot(0.0).state is OPEN

    def test_16_p4_a_quiet_dependency_that_always_fails_opens_before_its_twentieth_call(self) -> None:
        breaker = Breaker()
        for call in range(5):
            assert breaker.state_at(call * 20.0) is CLOSED
            make_calls(breaker, "-", now=call * 20.0)
        assert breaker.state_at(80.0) is OPEN

    def test_p4_calls_further_apart_than_the_time_window_do_not_add_up(self) -> None:
        breaker = Breaker()
        for call in range(19):
            make_calls(breaker, "-", now=call * 31.0)
        assert breaker.state_at(19 * 31.0) is CLOSED
        make_calls(breaker, "-", now=19 * 31.0)
        assert breaker.state_at(19 * 31.0) is OPEN

    def test_p4_few_failures_among_many_recent_calls_do_not_open_it(self) -> None:
        breaker = Breaker()
        make_calls(breaker, "+" * 100)
        make_calls(breaker, "+-" * 9 + "+", now=60.0)
        assert breaker.state_at(60.0) is CLOSED

    def test_p4_the_minimum_of_the_time_window_can_be_set(self) -> None:
        for changes, enough in (
            ({"minimum_recent_calls": 8}, 8),
            ({"minimum_calls": 3}, 3),
            ({"window_calls": None, "minimum_calls": 7}, 7),
        ):
            policy = BreakerPolicy(**changes)
            assert policy.enough_recent_calls == enough
            breaker = Breaker(policy)
            make_calls(breaker, "-" * (enough - 1))
            assert breaker.state_at(0.0) is CLOSED
            make_calls(breaker, "-")
            assert breaker.state_at(0.0) is OPEN

    def test_the_count_window_forgets_the_oldest_call(self) -> None:
        breaker = Breaker(BreakerPolicy(window_seconds=None))
        make_calls(breaker, "-" * 9 + "+" * 31 + "-" * 9)
        assert breaker.snapshot(0.0).failures == 9
        assert breaker.snapshot(0.0).state is CLOSED

    def test_the_time_window_catches_failures_that_the_count_window_misses(self) -> None:
        policy = BreakerPolicy(window_calls=None, window_seconds=120.0, minimum_calls=100)
        breaker = Breaker(policy)
        make_calls(breaker, "-+" * 49, now=0.0)
        assert breaker.snapshot(0.0).state is CLOSED
        make_calls(breaker, "+-", now=100.0)
        assert breaker.snapshot(100.0).state is OPEN

    def test_the_time_window_forgets(self) -> None:
        breaker = Breaker(BreakerPolicy(window_calls=None, window_seconds=120.0))
        make_calls(breaker, "-" * 19, now=0.0)
        make_calls(breaker, "-" * 19, now=121.0)
        assert breaker.snapshot(121.0).state is CLOSED
        assert breaker.snapshot(121.0).calls == 19

    def test_slow_calls_open_it_too(self) -> None:
        breaker = Breaker(BreakerPolicy(window_seconds=None, slow_seconds=2.0, slow_rate=0.5))
        make_calls(breaker, "+" * 10, seconds=1.9)
        make_calls(breaker, "+" * 9, seconds=2.0)
        assert breaker.snapshot(0.0).state is CLOSED
        make_calls(breaker, "+", seconds=2.0)
        assert breaker.snapshot(0.0).state is OPEN

    def test_calls_without_an_outcome_do_not_count(self) -> None:
        breaker = Breaker(COUNTING)
        make_calls(breaker, "?" * 100 + "-" * 19)
        assert breaker.snapshot(0.0).state is CLOSED

    def test_a_rate_that_is_no_binary_fraction_is_met_exactly(self) -> None:
        breaker = Breaker(BreakerPolicy(window_calls=30, minimum_calls=30, failure_rate=0.1))
        make_calls(breaker, "+" * 27 + "---")
        assert breaker.snapshot(0.0).state is OPEN

    def test_a_full_window_is_enough_however_small(self) -> None:
        breaker = Breaker(BreakerPolicy(window_calls=4, window_seconds=None, minimum_calls=20))
        make_calls(breaker, "++--")
        assert breaker.snapshot(0.0).state is OPEN

    def test_the_time_window_moves_in_twelfths(self) -> None:
        breaker = Breaker(BreakerPolicy(window_calls=None, window_seconds=120.0))
        make_calls(breaker, "+" * 5, now=9.0)
        make_calls(breaker, "+" * 7, now=11.0)
        assert breaker.snapshot(119.0).calls == 12
        make_calls(breaker, "+", now=121.0)
        assert breaker.snapshot(121.0).calls == 8


class TestRecovery:
    def test_nothing_passes_until_the_cool_down_is_over(self) -> None:
        breaker = opened()
        assert breaker.admit(29.999) == Refusal(pytest.approx(0.001))  # type: ignore[arg-type]
        assert isinstance(breaker.admit(30.0), Permit)
        assert breaker.snapshot(30.0).state is HALF_OPEN

    def test_a_hint_of_the_server_keeps_it_open_longer_but_not_forever(self) -> None:
        for hint, until in ((10.0, 30.0), (90.0, 90.0), (1e9, 3600.0)):
            breaker = Breaker()
            make_calls(breaker, "-" * 4)
            breaker.report(permit(breaker, 0.0), BAD, 0.0, retry_after=hint)
            assert breaker.snapshot(0.0).open_until == until

    def test_probes_are_limited_and_enough_successes_close_it(self) -> None:
        breaker = opened()
        probes = [permit(breaker, 30.0) for _ in range(3)]
        assert isinstance(breaker.admit(30.0), Refusal)
        breaker.report(probes[0], OK, 31.0)
        probes.append(permit(breaker, 31.0))
        breaker.report(probes[1], OK, 31.0)
        assert breaker.snapshot(31.0).state is HALF_OPEN
        breaker.report(probes[2], OK, 31.0)
        assert breaker.snapshot(31.0).state is CLOSED
        assert breaker.snapshot(31.0).calls == 0

    def test_while_probes_are_in_progress_it_is_worth_asking_soon_again(self) -> None:
        breaker = opened(BreakerPolicy(probe_slots=1, probe_seconds=60.0))
        permit(breaker, 30.0)
        assert breaker.admit(31.0) == Refusal(1.0, probing=True)
        assert breaker.admit(89.5) == Refusal(0.5, probing=True)

    def test_one_failed_probe_opens_it_again(self) -> None:
        breaker = opened()
        first, second = permit(breaker, 30.0), permit(breaker, 30.0)
        breaker.report(first, BAD, 40.0)
        breaker.report(second, OK, 41.0)
        snapshot = breaker.snapshot(41.0)
        assert (snapshot.state, snapshot.open_until) == (OPEN, 70.0)

    def test_a_slow_probe_is_no_recovery(self) -> None:
        breaker = opened(BreakerPolicy(slow_seconds=2.0))
        breaker.report(permit(breaker, 30.0), OK, 33.0, 3.0)
        assert breaker.snapshot(33.0).state is OPEN

    def test_a_probe_that_never_reports_counts_as_failed_when_its_time_is_over(self) -> None:
        breaker = opened()
        silent = permit(breaker, 30.0)
        assert breaker.snapshot(89.9).state is HALF_OPEN
        snapshot = breaker.snapshot(95.0)
        assert (snapshot.state, snapshot.opened_at, snapshot.open_until) == (OPEN, 90.0, 120.0)
        breaker.report(silent, OK, 121.0)
        assert breaker.snapshot(121.0).probe_successes == 0

    def test_a_cancelled_probe_frees_its_slot(self) -> None:
        breaker = opened(BreakerPolicy(probe_slots=1))
        breaker.report(permit(breaker, 30.0), NOTHING, 31.0)
        assert isinstance(breaker.admit(31.0), Permit)

    def test_a_probe_reports_once(self) -> None:
        breaker = opened()
        probe = permit(breaker, 30.0)
        for _ in range(5):
            breaker.report(probe, OK, 31.0)
        assert breaker.snapshot(31.0).probe_successes == 1

    def test_results_of_an_old_generation_are_dropped(self) -> None:
        breaker = Breaker(BreakerPolicy(successes_to_close=1))
        old = permit(breaker, 0.0)
        make_calls(breaker, "-" * 5)
        breaker.report(permit(breaker, 30.0), OK, 30.0)
        assert breaker.snapshot(30.0).state is CLOSED
        for _ in range(40):
            breaker.report(old, BAD, 30.0)
        assert breaker.snapshot(30.0).calls == 0


class TestOutcome:
    @loop_over(
        ("category", "status", "delivery", "outcome"),
        [
            (Category.TIMEOUT, None, Delivery.MAYBE_SEEN, BAD),
            (Category.NETWORK, None, Delivery.NEVER_SEEN, BAD),
            (Category.PROVIDER_5XX, 503, Delivery.SEEN, BAD),
            (Category.PROVIDER_5XX, 200, Delivery.SEEN, BAD),
            (Category.PROVIDER_4XX, 404, Delivery.SEEN, OK),
            (Category.TIMEOUT, 408, Delivery.SEEN, OK),
            (Category.RATE_LIMIT, 429, Delivery.SEEN, OK),
            (Category.VALIDATION, 422, Delivery.SEEN, OK),
            (Category.VALIDATION, None, Delivery.NEVER_SEEN, NOTHING),
            (Category.UNKNOWN, None, Delivery.MAYBE_SEEN, NOTHING),
            (Category.CANCELLED, None, Delivery.SEEN, NOTHING),
        ],
    )
    def test_only_timeouts_network_and_5xx_speak_against_it(
        self, category: Category, status: int | None, delivery: Delivery, outcome: CallOutcome
    ) -> None:
        failure = Failure(
            category, ErrorClass.FINAL, "r", "E", "m", "C", "P", http_status=status, delivery=delivery
        )
        assert outcome_of(failure) is outcome

    def test_success_and_refusal(self) -> None:
        refused = Failure(Category.NETWORK, ErrorClass.FINAL, "r", "E", "m", "C", "P", unavailable=True)
        assert outcome_of(None) is OK
        assert outcome_of(refused) is NOTHING


@loop_over(
    "wrong",
    [
        {"window_calls": None, "window_seconds": None},
        {"window_calls": 0},
        {"window_seconds": 0.0},
        {"minimum_calls": 0},
        {"failure_rate": 0.0},
        {"failure_rate": 1.1},
        {"slow_rate": math.nan},
        {"cool_down": -1.0},
        {"longest_open": 5.0},
        {"probe_slots": 0},
        {"probe_slots": 1.5},
        {"probe_seconds": 0.0},
        {"successes_to_close": 0},
        {"slow_seconds": -1.0},
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, float | None]) -> None:
    with pytest.raises(InvalidValueError):
        BreakerPolicy(**wrong)  # type: ignore[arg-type]


class Model:
    """A second, simple implementation of the breaker: a list of calls and a list of probes."""

    def __init__(self, policy: BreakerPolicy) -> None:
        self.policy = policy
        self.state = CLOSED
        self.calls: list[tuple[float, bool, bool]] = []
        self.probes: dict[int, float] = {}
        self.successes = 0
        self.open_until = 0.0

    def pass_time(self, now: float) -> None:
        if self.state is HALF_OPEN and self.probes and min(self.probes.values()) <= now:
            self.open(min(self.probes.values()), None)
        if self.state is OPEN and self.open_until <= now:
            self.state, self.probes, self.successes = HALF_OPEN, {}, 0

    def open(self, at: float, hint: float | None) -> None:
        self.state, self.calls, self.probes = OPEN, [], {}
        wait = min(max(self.policy.cool_down, hint or 0.0), self.policy.longest_open)
        self.open_until = at + wait

    def record(self, now: float, failed: bool, slow: bool, hint: float | None) -> None:
        self.calls.append((now, failed, slow))
        policy = self.policy
        small = min(policy.minimum_calls, policy.minimum_recent_calls)
        recent = policy.minimum_calls if policy.window_calls is None else small
        if self.is_bad(self.last_calls(), policy.minimum_calls) or self.is_bad(
            self.last_seconds(now), recent
        ):
            self.open(now, hint)

    def last_calls(self) -> list[tuple[float, bool, bool]]:
        return self.calls[-self.policy.window_calls :] if self.policy.window_calls else []

    def last_seconds(self, now: float) -> list[tuple[float, bool, bool]]:
        if self.policy.window_seconds is None:
            return []
        width = self.policy.window_seconds / BUCKETS
        return [call for call in self.calls if int(call[0] / width) > int(now / width) - BUCKETS]

    def is_bad(self, calls: list[tuple[float, bool, bool]], minimum: int) -> bool:
        if len(calls) < minimum:
            return False
        failed, slow = sum(call[1] for call in calls), sum(call[2] for call in calls)
        too_many_failed = failed / len(calls) >= self.policy.failure_rate
        return too_many_failed or slow / len(calls) >= self.policy.slow_rate


class BreakerMachine(RuleBasedStateMachine):
    """Random calls, reports, pauses and times: the breaker behaves like the simple model."""

    @initialize(
        calls=st.none() | st.integers(3, 8),
        seconds=st.sampled_from([None, 12.0, 60.0]),
        minimum=st.integers(1, 3),
        recent=st.integers(1, 4),
        rate=st.sampled_from([0.25, 0.5, 1.0]),
        slow=st.sampled_from([None, 1.0]),
        slots=st.integers(1, 3),
        successes=st.integers(1, 3),
    )
    def start(
        self,
        calls: int | None,
        seconds: float | None,
        minimum: int,
        recent: int,
        rate: float,
        slow: float | None,
        slots: int,
        successes: int,
    ) -> None:
        if calls is None and seconds is None:
            calls = 5
        policy = BreakerPolicy(
            window_calls=calls,
            window_seconds=seconds,
            minimum_calls=minimum,
            minimum_recent_calls=recent,
            failure_rate=rate,
            slow_seconds=slow,
            cool_down=5.0,
            longest_open=50.0,
            probe_slots=slots,
            probe_seconds=7.0,
            successes_to_close=successes,
        )
        self.policy = policy
        self.breaker = Breaker(policy)
        self.model = Model(policy)
        self.now = 0.0
        self.permits: list[Permit] = []
        self.states = [CLOSED]

    @rule(passed=st.floats(0.0, 20.0))
    def wait(self, passed: float) -> None:
        self.now += passed

    @rule(times=st.integers(1, 6))
    def ask(self, times: int) -> None:
        for _ in range(times):
            self.model.pass_time(self.now)
            answer = self.breaker.admit(self.now)
            full = len(self.model.probes) >= self.policy.probe_slots
            refused = self.model.state is OPEN or (self.model.state is HALF_OPEN and full)
            assert isinstance(answer, Refusal) == refused
            if isinstance(answer, Permit):
                self.permits.append(answer)
                if self.model.state is HALF_OPEN:
                    self.model.probes[answer.probe] = self.now + self.policy.probe_seconds
            else:
                assert answer.retry_after >= 0.0

    @precondition(lambda self: bool(self.permits))
    @rule(
        data=st.data(),
        outcome=st.sampled_from([OK, OK, OK, BAD, BAD, NOTHING]),
        seconds=st.sampled_from([0.0, 0.5, 1.5]),
        hint=st.none() | st.sampled_from([1.0, 20.0, 1e9]),
        again=st.booleans(),
    )
    def report(
        self, data: st.DataObject, outcome: CallOutcome, seconds: float, hint: float | None, again: bool
    ) -> None:
        chosen = data.draw(st.sampled_from(self.permits))
        if not again:
            self.permits.remove(chosen)
        generation = self.breaker.snapshot(self.now).generation
        self.breaker.report(chosen, outcome, self.now, seconds, hint)
        self.model.pass_time(self.now)
        if chosen.generation == generation:
            self.follow(chosen, outcome, seconds, hint)

    def follow(self, chosen: Permit, outcome: CallOutcome, seconds: float, hint: float | None) -> None:
        slow = self.policy.slow_seconds is not None and seconds >= self.policy.slow_seconds
        if self.model.state is CLOSED and outcome is not NOTHING:
            self.model.record(self.now, outcome is BAD, slow, hint)
        elif self.model.state is HALF_OPEN and self.model.probes.pop(chosen.probe, None) is not None:
            if outcome is BAD or (slow and outcome is OK):
                self.model.open(self.now, hint)
            elif outcome is OK:
                self.model.successes += 1
                if self.model.successes >= self.policy.successes_to_close:
                    self.model.state, self.model.calls, self.model.probes = CLOSED, [], {}

    @invariant()
    def agrees_with_the_model(self) -> None:
        if not hasattr(self, "breaker"):
            return
        self.model.pass_time(self.now)
        snapshot = self.breaker.snapshot(self.now)
        assert snapshot.state is self.model.state
        assert snapshot.probes_in_progress == len(self.model.probes) <= self.policy.probe_slots
        if snapshot.state is OPEN:
            assert snapshot.open_until == self.model.open_until > self.now

    @invariant()
    def every_change_is_in_the_table(self) -> None:
        if not hasattr(self, "breaker"):
            return
        state = self.breaker.snapshot(self.now).state
        if state is not self.states[-1]:
            # Two changes may happen between two reads: an expired probe opens it, and its cool-down passes.
            direct = BREAKER_TRANSITIONS.allows(self.states[-1], state)
            between = BREAKER_TRANSITIONS.successors(self.states[-1])
            assert direct or any(BREAKER_TRANSITIONS.allows(each, state) for each in between)
            self.states.append(state)


TestBreakerModel = BreakerMachine.TestCase
TestBreakerModel.settings = settings(max_examples=300, stateful_step_count=60, deadline=None)


def test_quiet_successes_are_all_counted() -> None:
    breaker = Breaker(BreakerPolicy(window_calls=None, window_seconds=120.0))
    for number in range(1000):
        make_calls(breaker, "+", now=number * 0.05)
    assert breaker.snapshot(50.0).calls == 1000
    make_calls(breaker, "-", now=50.0)
    snapshot = breaker.snapshot(50.0)
    assert (snapshot.calls, snapshot.failures) == (1001, 1)


def test_a_clock_that_goes_back_breaks_nothing() -> None:
    breaker = Breaker()
    make_calls(breaker, "+-", now=1000.0)
    make_calls(breaker, "+-", now=10.0)
    assert breaker.snapshot(1000.0).calls == 4
