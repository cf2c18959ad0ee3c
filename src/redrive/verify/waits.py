"""Waits against policies: how many there were (I3), how long, and whether jitter spreads them (I5)."""

from __future__ import annotations

from typing import NamedTuple

from redrive.model.decision import Wait
from redrive.model.failure import Category
from redrive.policy.retry import RetryPolicy
from redrive.store.verification import VerificationQueries, WaitRow
from redrive.verify.rules import DefinitionRules
from redrive.verify.verdict import Verdict

ENOUGH_TO_SPREAD = 20
MIN_SPREAD = 0.1
"""Twenty draws that all fall into a tenth of their interval are no draws."""

_ROUNDING = 1e-9
_CATEGORIES = frozenset(map(str, Category))


class _Spread(NamedTuple):
    """Where in their intervals, from 0 to 1, the waits of one step were drawn."""

    waits: int = 0
    lowest: float = 1.0
    highest: float = 0.0

    def with_draw(self, draw: float) -> _Spread:
        return _Spread(self.waits + 1, min(self.lowest, draw), max(self.highest, draw))


async def check_waits(store: VerificationQueries, rules: DefinitionRules, verdict: Verdict) -> None:
    verdict.begin("I5")
    spreads: dict[tuple[str, int], _Spread] = {}
    async for row in store.waits():
        policy = await rules.policy(row.definition, row.step_index, row.override)
        if policy is None:  # said by the check of the definitions
            continue
        verdict.look("I3", 1)
        _check_budget(row, policy, verdict)
        if row.kind == "charged" and row.delay is not None:
            verdict.look("I5", 1)
            draw = _check_length(row, row.delay, policy, verdict)
            if draw is not None:
                key = (row.definition, row.step_index)
                spreads[key] = spreads.get(key, _Spread()).with_draw(draw)
    _check_spreads(spreads, verdict)


def _check_budget(row: WaitRow, policy: RetryPolicy, verdict: Verdict) -> None:
    where = f"attempt {row.number} of step {row.step_index}"
    if row.delay is None:
        if row.ordinal != policy.max_attempts:
            spent = f"{row.ordinal} of {policy.max_attempts}"
            verdict.find("I3", row.run_id, f"After {where} it was given up with {spent} attempts used up.")
        return
    what, most = _allowed(row.kind, policy)
    if row.ordinal > most:
        text = f"After {where} it was to be executed again: {what} {row.ordinal}, and {most} are allowed."
        verdict.find("I3", row.run_id, text)


def _allowed(kind: str, policy: RetryPolicy) -> tuple[str, int]:
    return {
        "charged": ("retry", policy.max_retries),
        "hinted": ("rate-limit wait", policy.max_rate_limit_waits),
        "released": ("release", policy.max_holds),
    }[kind]


def _check_length(row: WaitRow, delay: float, policy: RetryPolicy, verdict: Verdict) -> float | None:
    """Where in its interval, from 0 to 1, the wait was drawn; None if there is nothing to be drawn."""
    wait = _planned(row, policy)
    if wait is None:
        text = (
            f"Step {row.step_index} was executed again after attempt {row.number}; its policy never retries."
        )
        verdict.find("I3", row.run_id, text)
        return None
    rounding = _ROUNDING * max(1.0, wait.high)
    too_long = delay > wait.high + rounding and not row.asked_for
    if delay < wait.low - rounding or too_long:
        text = (
            f"After attempt {row.number} of step {row.step_index} a wait of {delay:g} s was decided; "
            f"the policy allows {wait.low:g} to {wait.high:g} s."
        )
        verdict.find("I5", row.run_id, text)
        return None
    if row.asked_for or wait.high <= wait.low:
        return None
    return (delay - wait.low) / (wait.high - wait.low)


def _planned(row: WaitRow, policy: RetryPolicy) -> Wait | None:
    category = Category(row.category) if row.category in _CATEGORIES else Category.UNKNOWN
    return policy.backoff_for(category).wait(row.ordinal, draw=0.0, previous=row.previous)


def _check_spreads(spreads: dict[tuple[str, int], _Spread], verdict: Verdict) -> None:
    for (definition, index), spread in spreads.items():
        if spread.waits >= ENOUGH_TO_SPREAD and spread.highest - spread.lowest < MIN_SPREAD:
            text = (
                f"The {spread.waits:,} waits of step {index} all lie between {spread.lowest:.0%} and "
                f"{spread.highest:.0%} of their jitter; it does not spread them."
            )
            verdict.find("I5", definition, text)
