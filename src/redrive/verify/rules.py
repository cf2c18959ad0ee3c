"""Runs against their rules: the steps of their definitions (I10), and the policies of these (I3, I5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from redrive.errors import RedriveError
from redrive.model.decision import Wait
from redrive.model.failure import Category
from redrive.model.step import Effect
from redrive.policy.codec import decode
from redrive.policy.policy_json import policy_from_json
from redrive.policy.retry import RetryPolicy
from redrive.store.verification import VerificationQueries, WaitRow
from redrive.verify.verdict import Verdict

ENOUGH_TO_SPREAD = 20
MIN_SPREAD = 0.1
"""Twenty random waits do not all fall into one tenth of their interval."""

_ROUNDING = 1e-9
_CATEGORIES = frozenset(map(str, Category))
_UNREADABLE = (RedriveError, LookupError, TypeError, ValueError)


class StepRule(NamedTuple):
    """The policy and the effect of one step."""

    policy: RetryPolicy
    effect: Effect


class DefinitionRules:
    def __init__(self, store: VerificationQueries) -> None:
        self._store = store
        self._steps: dict[str, list[StepRule] | None] = {}
        self._overrides: dict[str, RetryPolicy | None] = {}

    async def steps(self, definition: str) -> list[StepRule] | None:
        """Return None if the definition is missing or cannot be read."""
        if definition not in self._steps:
            body = await self._store.definition(definition)
            self._steps[definition] = None if body is None else _steps(body)
        return self._steps[definition]

    async def step(self, definition: str, index: int) -> StepRule | None:
        steps = await self.steps(definition)
        return steps[index] if steps is not None and 0 <= index < len(steps) else None

    async def policy(self, definition: str, index: int, override: str | None) -> RetryPolicy | None:
        if override is not None:
            return self.overridden(override)
        rule = await self.step(definition, index)
        return None if rule is None else rule.policy

    def overridden(self, text: str) -> RetryPolicy | None:
        if text not in self._overrides:
            self._overrides[text] = _policy(text)
        return self._overrides[text]


async def check_rules(store: VerificationQueries, rules: DefinitionRules, verdict: Verdict) -> None:
    """I10: definitions and overrides can be read, and runs are in steps that their definition has."""
    verdict.begin("I10")
    await _check_definitions(store, rules, verdict)
    for text, runs, run_id in await store.ask("overrides"):
        verdict.look("I10", 1)
        if rules.overridden(text) is None:
            verdict.find(
                "I10", run_id, f"The policy given to it, and to {runs - 1:,} others, cannot be read."
            )


async def _check_definitions(store: VerificationQueries, rules: DefinitionRules, verdict: Verdict) -> None:
    for digest, runs, highest, earliest in await store.ask("definitions_used"):
        verdict.look("I10", 1)
        steps = await rules.steps(digest)
        if steps is None:
            if await store.definition(digest) is not None:
                verdict.find("I10", digest, f"The definition of {runs:,} runs cannot be read.")
            continue
        last = len(steps) - 1
        if highest > last or (earliest is not None and earliest < last):
            await _find_lost_in_steps(store, verdict, digest, last)


async def _find_lost_in_steps(store: VerificationQueries, verdict: Verdict, digest: str, last: int) -> None:
    for run_id, index, state in await store.ask("steps_unknown", digest=digest, last=last):
        text = f"It is {state} in step {index}, but the last step of its definition is {last}."
        verdict.find("I10", run_id, text)


def _steps(body: str) -> list[StepRule] | None:
    try:
        value: Any = decode(body)
        return [StepRule(policy_from_json(step["retry"]), Effect(step["effect"])) for step in value["steps"]]
    except _UNREADABLE:
        return None


def _policy(text: str) -> RetryPolicy | None:
    try:
        value = decode(text)
        return policy_from_json(value) if isinstance(value, Mapping) else None
    except _UNREADABLE:
        return None


class _Spread(NamedTuple):
    """The range, from 0 to 1, in which the waits of one step lie within their intervals."""

    waits: int = 0
    lowest: float = 1.0
    highest: float = 0.0

    def with_draw(self, draw: float) -> _Spread:
        return _Spread(self.waits + 1, min(self.lowest, draw), max(self.highest, draw))


async def check_waits(store: VerificationQueries, rules: DefinitionRules, verdict: Verdict) -> None:
    """I3: retries stay within the policy. I5: waits are as long as it says, and jitter spreads them."""
    verdict.begin("I5")
    spreads: dict[tuple[str, int], _Spread] = {}
    async for row in store.waits():
        policy = await rules.policy(row.definition, row.step_index, row.override)
        if policy is None:  # check_rules reports it
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
    """Return the position of the wait in its interval, from 0 to 1; None if it was not drawn at random."""
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
