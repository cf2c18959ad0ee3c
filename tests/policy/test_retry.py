"""The retry decision (W1, W2, D1, D4, D5, G9) and its explanation."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cases import loop_over

from redrive.errors import InvalidValueError
from redrive.model.decision import (
    Block,
    Bury,
    Complete,
    Decision,
    Explanation,
    Fail,
    Reason,
    Release,
    Retry,
)
from redrive.model.failure import Category, Delivery, ErrorClass, Failure
from redrive.model.step import Tally
from redrive.policy import (
    GATEWAY,
    PRESETS,
    REDRIVE_POLICIES,
    RUN,
    STEP,
    Backoff,
    Ending,
    Exponential,
    Linear,
    RetryPolicy,
    Triage,
    decide,
    next_retry_at,
    redrive_policy,
    triage,
)
from redrive.words.decision import explain

NOW = 1_700_000_000.0


def failure(
    category: Category = Category.TIMEOUT,
    error_class: ErrorClass = ErrorClass.RETRYABLE,
    retry_after: float | None = None,
    unavailable: bool = False,
    delivery: Delivery = Delivery.MAYBE_SEEN,
) -> Failure:
    return Failure(
        category,
        error_class,
        "a rule",
        "SomeError",
        "text",
        "CODE",
        "Public.",
        retry_after,
        None,
        delivery,
        unavailable,
    )


def rate_limited(retry_after: float | None) -> Failure:
    return failure(Category.RATE_LIMIT, ErrorClass.RATE_LIMITED, retry_after)


FINAL = failure(Category.VALIDATION, ErrorClass.FINAL)


class TestDecide:
    def test_success_completes(self) -> None:
        assert isinstance(decide(Tally(), None, STEP, now=NOW, draw=0.5), Complete)

    def test_w1_retriable_within_the_budget_is_due_at_a_stored_time(self) -> None:
        decision = decide(Tally(failures=1), failure(), STEP, now=NOW, draw=0.5)
        assert isinstance(decision, Retry)
        assert (decision.at, decision.delay, decision.counted) == (NOW + 4, 4, True)

    @pytest.mark.parametrize(
        ("policy", "executions"),
        [(STEP, 4), (RUN, 8), (GATEWAY, 3), (REDRIVE_POLICIES["linear"], 4), (REDRIVE_POLICIES["never"], 1)],
    )
    def test_counting_executions_in_all(self, policy: RetryPolicy, executions: int) -> None:
        done = 1
        while isinstance(decide(Tally(failures=done - 1), failure(), policy, now=NOW, draw=0.5), Retry):
            done += 1
        assert done == executions == policy.max_attempts == policy.max_retries + 1

    def test_w2_a_final_error_is_buried_at_once(self) -> None:
        decision = decide(Tally(), FINAL, STEP, now=NOW, draw=0.5)
        assert isinstance(decision, Bury)
        assert decision.explanation.reason is Reason.FINAL_ERROR

    @pytest.mark.parametrize(("ending", "kind"), [("bury", Bury), ("block", Block), ("fail", Fail)])
    def test_g9_the_setting_decides_the_ending(self, ending: str, kind: type) -> None:
        policy = replace(STEP, ending=Ending(ending))
        for tally, what in ((Tally(), FINAL), (Tally(failures=3), failure())):
            assert isinstance(decide(tally, what, policy, now=NOW, draw=0.5), kind)

    def test_d4_a_rate_limit_with_a_hint_waits_exactly_that_long_uncounted(self) -> None:
        decision = decide(Tally(failures=3), rate_limited(17.25), STEP, now=NOW, draw=0.9)
        assert isinstance(decision, Retry)
        assert (decision.at, decision.delay, decision.counted) == (NOW + 17.25, 17.25, False)

    def test_15_d4_a_hint_longer_than_a_day_is_honored_up_to_a_limit(self) -> None:
        day = 86_400.0
        for hint, longest, expected in (
            (3 * day, 7 * day, 3 * day),
            (8 * day, 7 * day, 7 * day),
            (9.0, 5.0, 5.0),
        ):
            for failed in (rate_limited(hint), failure(retry_after=hint)):
                decision = decide(Tally(), failed, STEP, now=NOW, draw=0.5, longest_hint=longest)
                assert isinstance(decision, Retry)
                assert decision.delay == expected
        by_default = decide(Tally(), rate_limited(8 * day), STEP, now=NOW, draw=0.5)
        assert isinstance(by_default, Retry)
        assert by_default.delay == 7 * day

    def test_d4_a_rate_limit_without_a_hint_backs_off_and_counts(self) -> None:
        decision = decide(Tally(failures=2), rate_limited(None), STEP, now=NOW, draw=0.5)
        assert isinstance(decision, Retry)
        assert (decision.delay, decision.counted) == (8, True)
        assert isinstance(decide(Tally(failures=3), rate_limited(None), STEP, now=NOW, draw=0.5), Bury)

    def test_rate_limit_waits_have_a_separate_limit(self) -> None:
        waits = STEP.max_rate_limit_waits
        last = decide(Tally(rate_limit_waits=waits - 1), rate_limited(1.0), STEP, now=NOW, draw=0.5)
        over = decide(Tally(rate_limit_waits=waits), rate_limited(1.0), STEP, now=NOW, draw=0.5)
        assert isinstance(last, Retry)
        assert isinstance(over, Bury)
        assert over.explanation.reason is Reason.RATE_LIMIT_WAITS_SPENT

    def test_a_hint_with_another_error_only_lengthens_the_wait(self) -> None:
        short = decide(Tally(), failure(retry_after=1.0), STEP, now=NOW, draw=0.5)
        long = decide(Tally(), failure(retry_after=30.0), STEP, now=NOW, draw=0.5)
        assert isinstance(short, Retry)
        assert isinstance(long, Retry)
        assert (short.delay, long.delay, long.counted) == (2, 30, True)

    def test_work_whose_dependency_was_not_asked_is_released_uncharged(self) -> None:
        held = failure(Category.NETWORK, retry_after=12.0, unavailable=True)
        decision = decide(Tally(failures=3), held, STEP, now=NOW, draw=0.5)
        assert isinstance(decision, Release)
        assert decision.at == NOW + 12

    def test_without_a_hint_it_comes_up_again_in_a_second(self) -> None:
        held = failure(Category.NETWORK, unavailable=True)
        decision = decide(Tally(), held, STEP, now=NOW, draw=0.5)
        assert isinstance(decision, Release)
        assert decision.at == NOW + 1.0

    def test_holds_have_a_generous_limit(self) -> None:
        held = failure(Category.NETWORK, unavailable=True)
        interrupted = failure(Category.CANCELLED, ErrorClass.FINAL)
        for what in (held, interrupted):
            decision = decide(Tally(holds=STEP.max_holds), what, STEP, now=NOW, draw=0.5)
            assert isinstance(decision, Bury)
            assert decision.explanation.reason is Reason.HOLDS_SPENT

    def test_an_interrupted_attempt_is_released_at_once(self) -> None:
        stopped = failure(Category.CANCELLED, ErrorClass.FINAL)
        decision = decide(Tally(failures=3), stopped, STEP, now=NOW, draw=0.5)
        assert isinstance(decision, Release)
        assert decision.at == NOW

    def test_p2_the_gateway_retries_unknown_errors_and_never_4xx(self) -> None:
        unknown = failure(Category.UNKNOWN, ErrorClass.FINAL)
        refused = failure(Category.PROVIDER_4XX, ErrorClass.FINAL)
        assert isinstance(decide(Tally(), unknown, GATEWAY, now=NOW, draw=0.5), Retry)
        assert isinstance(decide(Tally(), refused, GATEWAY, now=NOW, draw=0.5), Bury)
        assert isinstance(decide(Tally(), unknown, STEP, now=NOW, draw=0.5), Bury)

    def test_a_policy_can_treat_categories_differently(self) -> None:
        policy = replace(
            STEP,
            backoff_by_category={Category.RESOURCE: Backoff(Linear(300.0, 300.0))},
            never_retry=frozenset({Category.NETWORK}),
        )
        full = decide(Tally(failures=1), failure(Category.RESOURCE), policy, now=NOW, draw=0.5)
        assert isinstance(full, Retry)
        assert full.delay == 600
        assert isinstance(decide(Tally(), failure(Category.NETWORK), policy, now=NOW, draw=0.5), Bury)

    @given(
        failures=st.integers(0, 10**9),
        waits=st.integers(0, 10**9),
        error_class=st.sampled_from(ErrorClass),
        category=st.sampled_from(Category),
        hint=st.none() | st.floats(0, 1e9),
        draw=st.floats(0, 1),
        now=st.floats(0, 4e9),
        policy=st.sampled_from(list(PRESETS.values())),
    )
    def test_never_more_than_the_budget_never_in_the_past(
        self,
        failures: int,
        waits: int,
        error_class: ErrorClass,
        category: Category,
        hint: float | None,
        draw: float,
        now: float,
        policy: RetryPolicy,
    ) -> None:
        tally = Tally(failures=failures, rate_limit_waits=waits)
        what = failure(category, error_class, hint)
        decision = decide(tally, what, policy, now=now, draw=draw)
        if isinstance(decision, Retry):
            assert decision.at == now + decision.delay >= now
            assert not decision.counted or failures + 1 < policy.max_attempts
            assert decision.counted or waits < policy.max_rate_limit_waits
        assert explain(decision.explanation.facts())

    def test_d5_one_function_gives_the_next_time_or_none(self) -> None:
        assert next_retry_at(Tally(), failure(), RUN, now=NOW, draw=0.5) == NOW + 60
        assert next_retry_at(Tally(), FINAL, RUN, now=NOW, draw=0.5) is None
        assert next_retry_at(Tally(failures=7), failure(), RUN, now=NOW, draw=0.5) is None


FRESH = Tally()
INTERRUPTED = failure(Category.CANCELLED, ErrorClass.FINAL)
NOT_ASKED = failure(Category.NETWORK, retry_after=12.0, unavailable=True)


class TestNotRepeatable:
    """Work that must not take effect twice, without a key by which others could recognize a repetition."""

    @staticmethod
    def decide(what: Failure | None, tally: Tally = FRESH, policy: RetryPolicy = STEP) -> Decision:
        return decide(tally, what, policy, now=NOW, draw=0.5, repeatable=False)

    @pytest.mark.parametrize(("ending", "kind"), [("bury", Bury), ("block", Block), ("fail", Fail)])
    @pytest.mark.parametrize("what", [failure(), INTERRUPTED], ids=["failed", "interrupted"])
    def test_work_that_may_have_been_executed_ends(self, what: Failure, ending: str, kind: type) -> None:
        decision = self.decide(what, policy=replace(STEP, ending=Ending(ending)))
        assert isinstance(decision, kind)
        why = decision.explanation
        assert (why.reason, why.wait, why.at) == (Reason.NOT_REPEATABLE, None, None)

    @pytest.mark.parametrize(
        "what",
        [
            failure(delivery=Delivery.NEVER_SEEN),
            failure(Category.CANCELLED, ErrorClass.FINAL, delivery=Delivery.NEVER_SEEN),
            rate_limited(3.0)._replace(delivery=Delivery.SEEN),
            NOT_ASKED,
            NOT_ASKED._replace(delivery=Delivery.NEVER_SEEN),
            FINAL,
            None,
        ],
    )
    def test_in_all_other_cases_it_makes_no_difference(self, what: Failure | None) -> None:
        assert self.decide(what) == decide(Tally(), what, STEP, now=NOW, draw=0.5)

    def test_a_reason_that_ends_it_anyway_takes_precedence(self) -> None:
        assert self.decide(FINAL).explanation.reason is Reason.FINAL_ERROR
        assert self.decide(failure(), Tally(failures=3)).explanation.reason is Reason.ATTEMPTS_SPENT
        holds = Tally(holds=STEP.max_holds)
        assert self.decide(INTERRUPTED, holds).explanation.reason is Reason.HOLDS_SPENT

    def test_the_hint_of_the_server_is_still_in_the_explanation(self) -> None:
        decision = self.decide(failure(retry_after=30.0))
        assert explain(decision.explanation.facts()) == (
            "timeout (rule a rule); it may have been executed, and is not safe to execute twice; "
            "the server asked for 30 s; failure 1 of at most 4 attempts"
        )


class TestTally:
    BEFORE = Tally(failures=2, rate_limit_waits=3, holds=4, previous_delay=5.0)

    def after(self, what: Failure | None, policy: RetryPolicy = STEP) -> Tally:
        return self.BEFORE.after(decide(self.BEFORE, what, policy, now=NOW, draw=0.5))

    def test_a_retry_uses_up_an_attempt_and_is_remembered(self) -> None:
        assert self.after(failure()) == Tally(3, 3, 4, 8.0)

    def test_a_wait_for_a_rate_limit_is_counted_apart(self) -> None:
        assert self.after(rate_limited(17.0)) == Tally(2, 4, 4, 5.0)

    def test_work_that_was_released_is_released_again(self) -> None:
        assert self.after(NOT_ASKED) == self.after(INTERRUPTED) == Tally(2, 3, 5, 5.0)

    def test_an_ending_changes_nothing(self) -> None:
        assert self.after(None) == self.after(FINAL) == self.BEFORE
        why = Explanation(Reason.FINAL_ERROR)
        assert all(self.BEFORE.after(ending) == self.BEFORE for ending in (Bury(why), Block(why), Fail(why)))


class TestExplanation:
    def test_it_contains_rule_formula_draw_and_time(self) -> None:
        decision = decide(Tally(failures=2), failure(), STEP, now=NOW, draw=0.75)
        assert explain(decision.explanation.facts()) == (
            "timeout (rule a rule); a retry may help; failure 3 of at most 4 attempts; "
            "wait min(120, 2 · 2^(3 - 1)) = 8 s, jitter ±25% [6 … 10], draw 0.7500 → 9 s; "
            "due 2023-11-14T22:13:29.000Z"
        )

    def test_a_hint_is_in_the_explanation(self) -> None:
        decision = decide(Tally(), rate_limited(30.0), STEP, now=NOW, draw=0.5)
        assert "the server asked for 30 s" in explain(decision.explanation.facts())
        assert "not counted" in explain(decision.explanation.facts())

    def test_a_time_beyond_the_calendar_is_still_shown(self) -> None:
        decision = decide(Tally(), failure(), STEP, now=1e300, draw=0.5)
        assert "due 3237-07-19T23:06:40.000Z" in explain(decision.explanation.facts())


class TestSchedule:
    def test_every_attempt_with_its_earliest_typical_and_latest_time(self) -> None:
        rows = STEP.explain().attempts
        assert [row.number for row in rows] == [1, 2, 3, 4]
        assert [row.wait for row in rows[1:]] == [(1.5, 2, 2.5), (3, 4, 5), (6, 8, 10)]
        assert rows[-1].start == (10.5, 14, 17.5)

    def test_it_prints_as_a_table(self) -> None:
        text = str(GATEWAY.explain())
        assert text.splitlines()[:2] == [
            "policy gateway: at most 3 attempts",
            "waits 5 · 2^(failures - 1) s, jitter +0 to 5 s",
        ]
        assert "      3      10 s    12.5 s      15 s       15 s      20 s      25 s" in text
        assert max(map(len, text.splitlines())) <= 76

    def test_never_runs_once(self) -> None:
        assert str(REDRIVE_POLICIES["never"].explain()).startswith("policy never: one attempt, no retries")

    def test_the_schedule_equals_the_decisions(self) -> None:
        for policy in PRESETS.values():
            for row in policy.explain().attempts[1:]:
                for draw, expected in zip((0.0, 0.5, 1.0), row.wait, strict=True):
                    tally = Tally(failures=row.number - 2)
                    decision = decide(tally, failure(), policy, now=0.0, draw=draw)
                    assert isinstance(decision, Retry)
                    assert decision.delay == expected

    def test_a_huge_policy_prints_its_beginning(self) -> None:
        policy = RetryPolicy(max_attempts=1_000_000, backoff=Backoff(Exponential(1.0)))
        schedule = policy.explain()
        assert len(schedule.attempts) == 1000
        assert "up to attempt 1000000" in str(schedule)


class TestTriage:
    @loop_over(
        ("category", "kind", "policy"),
        [
            (Category.RATE_LIMIT, Triage.TRANSIENT, "exponential"),
            (Category.PROVIDER_5XX, Triage.TRANSIENT, "exponential"),
            (Category.NETWORK, Triage.NETWORK, "exponential"),
            (Category.TIMEOUT, Triage.NETWORK, "exponential"),
            (Category.RESOURCE, Triage.RESOURCE, "linear"),
            (Category.PERMISSION, Triage.PERMISSION, "never"),
            (Category.VALIDATION, Triage.VALIDATION, "never"),
            (Category.UNKNOWN, Triage.PERMANENT, "never"),
            (Category.PROVIDER_4XX, Triage.PERMANENT, "never"),
        ],
    )
    def test_m4_default_policies(self, category: Category, kind: Triage, policy: str) -> None:
        assert triage(category) is kind
        assert redrive_policy(category).name == policy


@pytest.mark.parametrize("attempts", [0, -1, 1.5, True, 10**7])
def test_a_wrong_number_of_attempts_is_refused(attempts: object) -> None:
    with pytest.raises(InvalidValueError, match="max_attempts"):
        RetryPolicy(max_attempts=attempts, backoff=Backoff(Exponential(1.0)))  # type: ignore[arg-type]
