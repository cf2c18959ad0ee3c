"""Policies as sentences: retry policies by category of error, breakers, and bulk replays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from redrive.errors import RedriveError
from redrive.model.failure import Category, ErrorClass, Failure
from redrive.policy.breaker_policy import BreakerPolicy
from redrive.policy.codec import JsonValue
from redrive.policy.known_errors import CLASS_OF_CATEGORY
from redrive.policy.policy_json import policy_from_json
from redrive.policy.retry import Ending, RetryPolicy
from redrive.policy.rollout import RolloutOptions
from redrive.policy.schedule import Schedule
from redrive.words.number import number, percent, plural
from redrive.words.time import duration, pace

MAX_WAITS = 5


def describe_stored_policy(stored: JsonValue) -> tuple[str, ...]:
    """Return the sentences about a retry policy in stored JSON; none if it cannot be read."""
    if not stored:
        return ()
    try:
        return tuple(describe_retry_policy(policy_from_json(stored)))
    except (RedriveError, LookupError, TypeError, ValueError):
        return ()


def describe_override(stored: JsonValue) -> tuple[str, ...]:
    """Return the sentences about the policy override of a bulk replay: a whole policy, or some fields."""
    if isinstance(stored, Mapping) and "max_attempts" not in stored:
        changes = ", ".join(f"{name} {value}" for name, value in stored.items())
        return (f"Each first step keeps its policy, except for {changes}.",)
    return describe_stored_policy(stored)


def describe_retry_policy(policy: RetryPolicy) -> Iterator[str]:
    schedule = policy.explain()
    if len(schedule.attempts) == 1:
        yield "One attempt, no retries."
    else:
        yield f"At most {plural(policy.max_attempts, 'attempt')}, {_typical_waits(schedule)} apart."
        yield f"Wait: {schedule.formula}."
    for category, backoff in policy.backoff_by_category.items():
        yield f"After {category}: {backoff.formula('failures')} s, {backoff.jitter.describe()}."
    if policy.also_retry:
        yield f"Also retries {', '.join(sorted(policy.also_retry))}."
    if policy.never_retry:
        yield f"Never retries {', '.join(sorted(policy.never_retry))}."


def _typical_waits(schedule: Schedule) -> str:
    waits = [duration(attempt.wait[1]) for attempt in schedule.attempts[1:]]
    first = ", ".join(waits[:MAX_WAITS])
    return f"{first} …" if len(waits) > MAX_WAITS else first


def describe_opening(policy: BreakerPolicy) -> str:
    """Describe when a breaker opens: "Opens when at least 50% of the last 20 calls fail."."""
    windows = list(_windows(policy))
    comma = "," if len(windows) > 1 else ""
    slow = ""
    if policy.slow_seconds is not None:
        slow = f", or at least {percent(policy.slow_rate)} take {duration(policy.slow_seconds)} or longer"
    return f"Opens when at least {percent(policy.failure_rate)} {', or '.join(windows)}{comma} fail{slow}."


def _windows(policy: BreakerPolicy) -> Iterator[str]:
    """Name the windows, each with the calls that it needs, unless it needs as many as it has."""
    calls, recent = policy.enough_calls, policy.enough_recent_calls
    if policy.window_calls is not None:
        least = "" if calls in (None, policy.window_calls) else f" (at least {calls:,})"
        yield f"of the last {plural(policy.window_calls, 'call')}{least}"
    if recent is not None:
        yield f"of the calls in the last {duration(policy.window_seconds or 0.0)} (at least {recent:,})"


def describe_closing(policy: BreakerPolicy) -> str:
    return (
        f"Probed after {duration(policy.cool_down)}; closes after "
        f"{plural(policy.successes_to_close, 'successful probe')}."
    )


ENDINGS = {
    Ending.BURY: "the step becomes a dead letter",
    Ending.BLOCK: "the step becomes a dead letter and blocks its run until a person decides",
    Ending.FAIL: "the step becomes a dead letter and its run fails",
}


class CategoryConsequence(NamedTuple):
    """The consequence of errors of one category under a policy.

    retries  the maximum number of attempts after the first; None: not counted
    waits    the formula of the waits between them
    note     a special rule
    """

    category: Category
    retried: bool
    retries: int | None
    waits: str
    note: str = ""


def consequences(policy: RetryPolicy) -> tuple[CategoryConsequence, ...]:
    """Describe the consequences by category. A classifier may still give an error another class."""
    return tuple(_consequence(policy, category) for category in Category)


def _consequence(policy: RetryPolicy, category: Category) -> CategoryConsequence:
    if category is Category.CANCELLED:
        note = (
            f"interrupted, not failed: returned to the queue, not counted, up to {policy.max_holds:,} times"
        )
        return CategoryConsequence(category, True, None, "", note)
    backoff = policy.backoff_for(category)
    failure = Failure(category, CLASS_OF_CATEGORY.get(category, ErrorClass.FINAL), "", "", "", "", "")
    if not (policy.retries(failure) and policy.max_retries > 0 and backoff.planned(1) is not None):
        return CategoryConsequence(category, False, 0, "", _why_not(policy, category))
    note = _hint(policy) if category is Category.RATE_LIMIT else ""
    waits = f"{backoff.formula('failures')} s, {backoff.jitter.describe()}"
    return CategoryConsequence(category, True, policy.max_retries, waits, note)


def _why_not(policy: RetryPolicy, category: Category) -> str:
    if category in policy.never_retry:
        return "the policy never retries this category"
    if category is Category.RATE_LIMIT and policy.max_retries == 0:
        return _hint(policy)
    return "" if policy.max_retries else "the policy never retries"


def _hint(policy: RetryPolicy) -> str:
    times = f"up to {policy.max_rate_limit_waits:,} times"
    return f"if the server says when to retry: exactly then, not counted, {times}"


def describe_rollout(rollout: RolloutOptions, will_run: int) -> Iterator[str]:
    """Describe how a replay of `will_run` dead letters starts, its rate, and when it stops automatically."""
    rest = max(0, will_run - rollout.canary)
    if will_run <= 1:
        yield "Starts immediately."
    elif rest and rollout.canary:
        yield f"Starts with a canary of {number(rollout.canary)}; the rest follows if it passes."
    elif not rest or rollout.rate is None:
        yield f"Starts all {number(will_run)} immediately."
    if rollout.rate is not None and rest:
        yield f"At most {pace(rollout.rate)}, so {duration(rest / rollout.rate)} or longer."
    if will_run > 1:
        yield f"Stops automatically {_describe_stop(rollout)}."


def _describe_stop(rollout: RolloutOptions) -> str:
    checked = f"checked once {rollout.minimum:,} have finished, and at the end of a canary"
    causes = [f"if more than {percent(rollout.failure_rate)} fail ({checked})"]
    if rollout.same_failures is not None:
        causes.append(f"if {plural(rollout.same_failures, 'item')} failed again with the same error")
    if rollout.stop_on_breaker:
        causes.append("if a breaker opens that the rest depends on")
    return causes[0] if len(causes) == 1 else f"{', '.join(causes[:-1])}, or {causes[-1]}"
