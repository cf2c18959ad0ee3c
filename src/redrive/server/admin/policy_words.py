"""A stored retry policy in words: how often, how long apart, and what it makes of certain failures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from redrive.errors import RedriveError
from redrive.policy.codec import decode
from redrive.policy.retry import RetryPolicy
from redrive.policy.schedule import Schedule
from redrive.policy.stored import policy_from_json
from redrive.server.admin.words import duration, plural

MAX_WAITS = 5


def policy_words(text: str | None) -> tuple[str, ...]:
    """Sentences; none for what cannot be read."""
    if not text:
        return ()
    try:
        return tuple(_sentences(policy_from_json(decode(text))))
    except (RedriveError, LookupError, TypeError, ValueError):
        return ()


def _sentences(policy: RetryPolicy) -> Iterator[str]:
    schedule = policy.explain()
    if len(schedule.attempts) == 1:
        yield "One attempt, no retries."
    else:
        yield f"At most {plural(policy.max_attempts, 'attempt')}, {_waits(schedule)} apart."
        yield f"Wait: {schedule.formula}."
    for category, backoff in policy.backoff_by_category.items():
        yield f"After {category}: {backoff.formula('failures')} s, {backoff.jitter.describe()}."
    if policy.also_retry:
        yield f"Retries {_listed(policy.also_retry)}, too."
    if policy.never_retry:
        yield f"Never retries {_listed(policy.never_retry)}."


def _waits(schedule: Schedule) -> str:
    """The typical ones."""
    waits = [duration(each.wait[1]) for each in schedule.attempts[1:]]
    shown = ", ".join(waits[:MAX_WAITS])
    return f"{shown} …" if len(waits) > MAX_WAITS else shown


def _listed(categories: Iterable[str]) -> str:
    return ", ".join(sorted(categories))
