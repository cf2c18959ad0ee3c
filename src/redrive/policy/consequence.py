"""Consequences of an error under a policy, by category: whether, how often and when it is retried."""

from __future__ import annotations

from typing import NamedTuple

from redrive.model.failure import Category, ErrorClass, Failure
from redrive.policy.backoff import Backoff
from redrive.policy.known_errors import CLASS_OF_CATEGORY
from redrive.policy.retry import Ending, RetryPolicy

ENDINGS = {
    Ending.BURY: "the step becomes a dead letter",
    Ending.BLOCK: "the step becomes a dead letter and blocks its run until somebody decides",
    Ending.FAIL: "the step becomes a dead letter and its run has failed",
}


class CategoryConsequence(NamedTuple):
    """What becomes of errors of one category.

    retries  maximum attempts after the first; None: not counted
    waits    the formula of the waits between them
    note     a special rule
    """

    category: Category
    retried: bool
    retries: int | None
    waits: str
    note: str = ""


def consequences(policy: RetryPolicy) -> tuple[CategoryConsequence, ...]:
    """Describe errors whose class follows from their category; a classifier may decide otherwise."""
    return tuple(_consequence(policy, category) for category in Category)


def _consequence(policy: RetryPolicy, category: Category) -> CategoryConsequence:
    if category is Category.CANCELLED:
        note = f"interrupted, not failed: given back uncounted, up to {policy.max_holds:,} times"
        return CategoryConsequence(category, True, None, "", note)
    backoff = policy.backoff_for(category)
    retried = policy.retries(_failure(category)) and policy.max_retries > 0 and backoff.planned(1) is not None
    if not retried:
        return CategoryConsequence(category, False, 0, "", _why_not(policy, category))
    note = _hint(policy) if category is Category.RATE_LIMIT else ""
    return CategoryConsequence(category, True, policy.max_retries, _formula(backoff), note)


def _failure(category: Category) -> Failure:
    error_class = CLASS_OF_CATEGORY.get(category, ErrorClass.FINAL)
    return Failure(category, error_class, "", "", "", "", "")


def _why_not(policy: RetryPolicy, category: Category) -> str:
    if category in policy.never_retry:
        return "the policy says so"
    if category is Category.RATE_LIMIT and policy.max_retries == 0:
        return _hint(policy)
    return "" if policy.max_retries else "the policy never retries"


def _hint(policy: RetryPolicy) -> str:
    times = f"up to {policy.max_rate_limit_waits:,} times"
    return f"if the server says when: exactly then, uncounted, {times}"


def _formula(backoff: Backoff) -> str:
    return f"{backoff.formula('failures')} s, {backoff.jitter.describe()}"
