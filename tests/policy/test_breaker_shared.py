"""A breaker that is saved and loaded between any two events, and one that an operator forces."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.cases import loop_over

from redrive.calls.dependency import Dependency
from redrive.errors import BreakerOpenError, InvalidValueError
from redrive.model.breaker import BreakerState, CallOutcome, Force, Permit, Refusal
from redrive.policy import Breaker, BreakerPolicy
from redrive.policy.breaker import FORCED_OPEN_DELAY
from redrive.policy.codec import decode, encode
from redrive.testing import VirtualClock

OK, BAD, NOTHING = CallOutcome.SUCCEEDED, CallOutcome.FAILED, CallOutcome.NOTHING
CLOSED, OPEN, HALF_OPEN = BreakerState.CLOSED, BreakerState.OPEN, BreakerState.HALF_OPEN
POLICY = BreakerPolicy(minimum_recent_calls=20)


def permit(breaker: Breaker, now: float) -> Permit:
    answer = breaker.admit(now)
    assert isinstance(answer, Permit)
    return answer


def make_calls(breaker: Breaker, outcomes: str, now: float = 0.0) -> None:
    """Make one call per letter: `+` succeeds, `-` fails."""
    for letter in outcomes:
        breaker.report(permit(breaker, now), OK if letter == "+" else BAD, now)


def stored(breaker: Breaker) -> dict[str, Any]:
    dumped = decode(encode(breaker.dump()))
    assert isinstance(dumped, dict)
    return dumped


def passed_on(breaker: Breaker, policy: BreakerPolicy = POLICY) -> Breaker:
    return Breaker.restored(policy, stored(breaker))


def opened() -> Breaker:
    breaker = Breaker(POLICY)
    make_calls(breaker, "-" * 20)
    return breaker


def forced(state: BreakerState, until: float | None = None) -> Force:
    return Force(state, "maintenance", "ada", until)


class TestShared:
    def test_workers_count_together(self) -> None:
        row = Breaker(POLICY).dump()
        for _ in range(20):
            worker = Breaker.restored(POLICY, row)
            make_calls(worker, "-")
            row = worker.dump()
        assert Breaker.restored(POLICY, row).state_at(0.0) is OPEN

    def test_a_permit_of_another_worker_counts(self) -> None:
        breaker = Breaker(POLICY)
        others = Permit(permit(breaker, 0.0).generation)
        make_calls(breaker, "+++")
        for outcome in (OK, BAD, OK):
            breaker.report(others, outcome, 0.0)
        make_calls(breaker, "+")
        snapshot = breaker.snapshot(0.0)
        assert (snapshot.calls, snapshot.failures) == (7, 1)

    def test_a_probe_of_one_worker_is_seen_and_reported_by_others(self) -> None:
        breaker = passed_on(opened())
        probes = [permit(breaker, 30.0) for _ in range(3)]
        breaker = passed_on(breaker)
        assert isinstance(breaker.admit(30.0), Refusal)
        for probe in probes:
            breaker = passed_on(breaker)
            breaker.report(Permit(*probe), OK, 31.0)
        assert breaker.state_at(31.0) is CLOSED

    def test_successes_that_were_only_added_up_are_dumped(self) -> None:
        breaker = Breaker(POLICY)
        make_calls(breaker, "+" * 15)
        assert passed_on(breaker).snapshot(0.0).calls == 15

    def test_the_largest_window_is_plain_json(self) -> None:
        policy = BreakerPolicy(window_calls=10_000, minimum_calls=10_000)
        breaker = Breaker(policy)
        make_calls(breaker, "-++" * 3000)
        assert passed_on(breaker, policy).snapshot(0.0) == breaker.snapshot(0.0)

    def test_an_ordinary_row_is_small(self) -> None:
        assert len(encode(opened().dump())) < 500


class TestChangedPolicy:
    @pytest.mark.parametrize(
        "changed",
        [
            replace(POLICY, window_calls=30),
            replace(POLICY, window_calls=10),
            replace(POLICY, window_calls=None),
            replace(POLICY, window_seconds=60.0),
            replace(POLICY, window_seconds=None),
        ],
    )
    def test_other_windows_start_empty_and_the_state_stays(self, changed: BreakerPolicy) -> None:
        breaker = Breaker(POLICY)
        make_calls(breaker, "+-" * 5)
        restored = passed_on(breaker, changed)
        assert restored.snapshot(0.0) == breaker.snapshot(0.0)._replace(calls=0, failures=0)
        assert passed_on(opened(), changed).snapshot(1.0).open_until == 30.0

    def test_any_other_change_keeps_the_windows(self) -> None:
        breaker = Breaker(POLICY)
        make_calls(breaker, "+-" * 5)
        changed = replace(POLICY, failure_rate=0.9, cool_down=5.0)
        assert passed_on(breaker, changed).snapshot(0.0) == breaker.snapshot(0.0)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
FRESH = Breaker(POLICY).snapshot(0.0)


class TestGarbage:
    @given(JSON)
    def test_it_gives_a_fresh_breaker(self, garbage: Any) -> None:
        assert Breaker.restored(POLICY, garbage).snapshot(0.0) == FRESH

    @loop_over(
        ("field", "value"),
        [
            ("state", "AJAR"),
            ("state", []),
            ("generation", -1),
            ("generation", 1.5),
            ("generation", True),
            ("opened_at", None),
            ("open_until", math.nan),
            ("open_until", math.inf),
            ("open_until", 10**400),
            ("last_probe", "3"),
            ("probes", []),
            ("probes", {"x": 1.0}),
            ("probes", {"1": "soon"}),
            ("probe_successes", None),
            ("force", "OPEN"),
            ("force", {"state": "OPEN"}),
            ("force", {"state": "HALF_OPEN", "reason": "", "by": "", "until": None}),
            ("force", {"state": "OPEN", "reason": 1, "by": "", "until": None}),
            ("force", {"state": "OPEN", "reason": "", "by": "", "until": math.nan}),
        ],
    )
    def test_so_does_one_wrong_field(self, field: str, value: object) -> None:
        dumped = {**stored(opened()), field: value}
        assert Breaker.restored(POLICY, dumped).snapshot(0.0) == FRESH

    @loop_over("field", sorted(Breaker(POLICY).dump()))
    def test_and_a_missing_one(self, field: str) -> None:
        dumped = stored(opened())
        del dumped[field]
        assert Breaker.restored(POLICY, dumped).snapshot(0.0) == FRESH

    @loop_over(
        "windows",
        [
            None,
            [],
            [{}, {}],
            [{"calls": -1}, {"newest": 0.5}],
            [{"failed": "-1"}, {}],
            [{"failed": "1ffff"}, {}],
            [{"slow": "zz"}, {}],
            [{"calls": 21}, {}],
            [{}, {"buckets": [[1, 2, 0]] * 12}],
            [{}, {"buckets": [[0, 0, 0]] * 11}],
            [{}, {"buckets": [[0, 0]] * 12}],
            [{}, {"seconds": "120"}],
        ],
    )
    def test_wrong_windows_start_empty_and_the_state_stays(self, windows: Any) -> None:
        breaker = Breaker(POLICY)
        make_calls(breaker, "+-" * 5)
        dumped = stored(breaker)
        right = dumped["windows"]
        if windows and windows != [{}, {}]:
            windows = [{**good, **bad} for good, bad in zip(right, windows, strict=True)]
        restored = Breaker.restored(POLICY, {**dumped, "windows": windows})
        assert restored.snapshot(0.0) == breaker.snapshot(0.0)._replace(calls=0, failures=0)


class TestForcedOpen:
    def test_nothing_passes_and_people_ask_again_within_a_minute(self) -> None:
        breaker = Breaker(POLICY)
        breaker.force(forced(OPEN, until=1000.0), 0.0)
        assert breaker.closed_permit is None
        assert breaker.admit(0.0) == Refusal(60.0)
        assert breaker.admit(990.0) == Refusal(10.0)
        assert breaker.state_at(999.9) is OPEN

    def test_without_an_end_it_stays_open_until_it_is_lifted(self) -> None:
        breaker = Breaker(POLICY)
        breaker.force(forced(OPEN), 0.0)
        assert breaker.admit(1e9) == Refusal(FORCED_OPEN_DELAY)
        assert breaker.snapshot(1e9).open_until == 1e9 + FORCED_OPEN_DELAY
        breaker.force(None, 1e9)
        assert breaker.state_at(1e9) is HALF_OPEN

    @pytest.mark.parametrize("lifted", [True, False])
    def test_afterwards_it_must_prove_itself(self, lifted: bool) -> None:
        breaker = Breaker(POLICY)
        breaker.force(forced(OPEN, until=100.0), 0.0)
        if lifted:
            breaker.force(None, 100.0)
        probes = [permit(breaker, 100.0) for _ in range(3)]
        assert isinstance(breaker.admit(100.0), Refusal)
        for probe in probes:
            breaker.report(probe, OK, 101.0)
        assert breaker.state_at(101.0) is CLOSED

    def test_calls_that_were_in_progress_are_not_counted(self) -> None:
        breaker = Breaker(POLICY)
        early = permit(breaker, 0.0)
        breaker.force(forced(OPEN, until=10.0), 0.0)
        breaker.report(early, BAD, 5.0)
        breaker.report(early, BAD, 15.0)
        snapshot = breaker.snapshot(15.0)
        assert (snapshot.state, snapshot.calls) == (HALF_OPEN, 0)

    def test_a_call_in_this_process_is_refused(self) -> None:
        clock = VirtualClock()
        service = Dependency("billing", clock=clock)
        assert service.admit()
        service._breaker.force(forced(OPEN), clock.monotonic())
        with pytest.raises(BreakerOpenError, match="next try in 60 s"):
            service.admit()
        assert service.is_open_for(30.0)

    def test_how_long_it_stays_open_can_be_asked_with_a_timedelta(self) -> None:
        service = Dependency("billing", clock=VirtualClock())
        service._breaker.force(forced(OPEN, until=90.0), 0.0)
        assert service.is_open_for(timedelta(minutes=1))
        assert not service.is_open_for(timedelta(minutes=2))


class TestForcedClosed:
    def test_everything_passes_and_nothing_counts(self) -> None:
        breaker = opened()
        breaker.force(forced(CLOSED, until=100.0), 1.0)
        make_calls(breaker, "-" * 100, now=50.0)
        snapshot = breaker.snapshot(99.0)
        assert (snapshot.state, snapshot.calls, snapshot.opened_at) == (CLOSED, 0, None)

    @pytest.mark.parametrize("lifted", [True, False])
    def test_afterwards_it_counts_from_the_beginning(self, lifted: bool) -> None:
        breaker = opened()
        breaker.force(forced(CLOSED, until=100.0), 1.0)
        meanwhile = permit(breaker, 99.0)
        if lifted:
            breaker.force(None, 99.0)
        breaker.report(meanwhile, BAD, 100.0)
        make_calls(breaker, "-" * 19, now=100.0)
        assert breaker.state_at(100.0) is CLOSED
        make_calls(breaker, "-", now=100.0)
        assert breaker.state_at(100.0) is OPEN

    def test_a_probe_that_was_in_progress_changes_nothing(self) -> None:
        breaker = opened()
        probe = permit(breaker, 30.0)
        breaker.force(forced(CLOSED), 31.0)
        breaker.report(probe, BAD, 32.0)
        assert breaker.state_at(1e6) is CLOSED


class TestForce:
    def test_it_is_told(self) -> None:
        breaker = Breaker(POLICY)
        force = forced(OPEN, until=10.0)
        breaker.force(force, 0.0)
        assert breaker.snapshot(5.0).force == force == passed_on(breaker).snapshot(5.0).force
        assert breaker.snapshot(10.0).force is None

    def test_a_new_override_replaces_the_previous_one(self) -> None:
        breaker = Breaker(POLICY)
        breaker.force(forced(OPEN), 0.0)
        breaker.force(forced(CLOSED), 1.0)
        assert isinstance(breaker.admit(1.0), Permit)
        breaker.force(None, 2.0)
        assert breaker.closed_permit is not None

    def test_removing_a_missing_override_changes_nothing(self) -> None:
        breaker = opened()
        before = breaker.snapshot(1.0)
        breaker.force(None, 1.0)
        assert breaker.snapshot(1.0) == before

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            (forced(HALF_OPEN), "OPEN or CLOSED"),
            (forced("AJAR"), "state must be one of"),  # type: ignore[arg-type]
            (forced(OPEN, until=100.0), "until must be later than now"),
            (forced(OPEN, until=math.nan), "must be a number"),
            (forced(OPEN, until=math.inf), "must be a number"),
            (Force(OPEN, "why", None), "by must be of type str"),  # type: ignore[arg-type]
        ],
    )
    def test_an_invalid_override_is_rejected(self, wrong: Force, message: str) -> None:
        breaker = Breaker(POLICY)
        with pytest.raises(InvalidValueError, match=message):
            breaker.force(wrong, 100.0)
        assert breaker.snapshot(100.0) == FRESH

    def test_the_name_of_a_state_is_accepted(self) -> None:
        breaker = Breaker(POLICY)
        breaker.force(forced("OPEN"), 0.0)  # type: ignore[arg-type]
        assert breaker.admit(0.0) == Refusal(60.0)


class SharedMachine(RuleBasedStateMachine):
    """Random histories: a breaker that is sometimes saved and loaded behaves like one that is not."""

    @initialize(
        calls=st.none() | st.integers(3, 8),
        seconds=st.sampled_from([None, 12.0, 60.0]),
        slow=st.sampled_from([None, 1.0]),
        slots=st.integers(1, 3),
    )
    def start(self, calls: int | None, seconds: float | None, slow: float | None, slots: int) -> None:
        self.policy = BreakerPolicy(
            window_calls=calls or (None if seconds else 5),
            window_seconds=seconds,
            minimum_calls=3,
            slow_seconds=slow,
            cool_down=5.0,
            longest_open=50.0,
            probe_slots=slots,
            probe_seconds=7.0,
            successes_to_close=2,
        )
        self.staying = Breaker(self.policy)
        self.moving = Breaker(self.policy)
        self.now = 1_700_000_000.0
        self.permits: list[Permit] = []

    @rule(passed=st.floats(-1.0, 20.0))
    def wait(self, passed: float) -> None:
        self.now += passed

    @rule(times=st.integers(1, 6))
    def ask(self, times: int) -> None:
        for _ in range(times):
            answer = self.staying.admit(self.now)
            assert self.moving.admit(self.now) == answer
            if isinstance(answer, Permit):
                self.permits.append(answer)

    @precondition(lambda self: bool(self.permits))
    @rule(
        data=st.data(),
        outcome=st.sampled_from([OK, OK, OK, BAD, BAD, NOTHING]),
        seconds=st.sampled_from([0.0, 1.5]),
        hint=st.none() | st.sampled_from([1.0, 20.0]),
    )
    def report(self, data: st.DataObject, outcome: CallOutcome, seconds: float, hint: float | None) -> None:
        chosen = data.draw(st.sampled_from(self.permits))
        self.staying.report(chosen, outcome, self.now, seconds, hint)
        self.moving.report(Permit(*chosen), outcome, self.now, seconds, hint)

    @rule(state=st.sampled_from([None, OPEN, CLOSED]), lasting=st.none() | st.floats(0.5, 30.0))
    def force(self, state: BreakerState | None, lasting: float | None) -> None:
        until = None if lasting is None else self.now + lasting
        force = None if state is None else forced(state, until)
        self.staying.force(force, self.now)
        self.moving.force(force, self.now)

    @rule()
    def pass_on(self) -> None:
        self.moving = passed_on(self.moving, self.policy)

    @rule()
    def look(self) -> None:
        assert self.moving.snapshot(self.now) == self.staying.snapshot(self.now)
        assert self.moving.dump() == self.staying.dump()

    @invariant()
    def the_fast_path_is_the_same(self) -> None:
        if not hasattr(self, "staying"):
            return
        assert self.moving.closed_permit == self.staying.closed_permit
        snapshot = passed_on(self.moving, self.policy).snapshot(self.now)
        if snapshot.force is not None:
            assert self.moving.closed_permit is None
            assert snapshot.state is snapshot.force.state
            assert isinstance(passed_on(self.moving, self.policy).admit(self.now), Refusal) == (
                snapshot.state is OPEN
            )

    def teardown(self) -> None:
        if hasattr(self, "staying"):
            self.look()


TestSharedBreaker = SharedMachine.TestCase
TestSharedBreaker.settings = settings(max_examples=300, stateful_step_count=50, deadline=None)
