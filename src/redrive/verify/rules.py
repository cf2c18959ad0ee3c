"""Compare runs with their definitions: the steps (I10), the retry limits (I3) and the waits (I5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from redrive.errors import RedriveError
from redrive.model.decision import Wait
from redrive.model.failure import Category
from redrive.model.step import Effect
from redrive.model.violation import ViolationCode
from redrive.policy.codec import decode
from redrive.policy.policy_json import policy_from_json
from redrive.policy.retry import RetryPolicy
from redrive.store.verification import VerificationQueries, WaitRow
from redrive.verify.verdict import Verdict

MIN_WAITS = 20
MIN_SPREAD = 0.1
"""Twenty random waits don't all fall into one tenth of their interval."""

_ROUNDING = 1e-9
_CATEGORIES = frozenset(map(str, Category))
_UNREADABLE = (RedriveError, LookupError, TypeError, ValueError)


class StepRule(NamedTuple):
    """The retry policy and the effect of one step."""

    policy: RetryPolicy
    effect: Effect


class DefinitionRules:
    """Reads the rules of definitions and of policy overrides, and caches them."""

    def __init__(self, store: VerificationQueries) -> None:
        self._store = store
        self._steps: dict[str, list[StepRule] | None] = {}
        self._overrides: dict[str, RetryPolicy | None] = {}

    async def steps(self, definition: str) -> list[StepRule] | None:
        """Return the rules of a definition; None if it is missing or unreadable."""
        if definition not in self._steps:
            body = await self._store.definition(definition)
            self._steps[definition] = None if body is None else _steps(body)
        return self._steps[definition]

    async def step(self, definition: str, index: int) -> StepRule | None:
        steps = await self.steps(definition)
        return steps[index] if steps is not None and 0 <= index < len(steps) else None

    async def policy(self, definition: str, index: int, override: str | None) -> RetryPolicy | None:
        if override is not None:
            return self.override(override)
        rule = await self.step(definition, index)
        return None if rule is None else rule.policy

    def override(self, text: str) -> RetryPolicy | None:
        """Return the policy of a stored override; None if it is unreadable."""
        if text not in self._overrides:
            self._overrides[text] = _policy(text)
        return self._overrides[text]


async def check_rules(store: VerificationQueries, rules: DefinitionRules, verdict: Verdict) -> None:
    """I10: definitions and overrides are readable, and every run is in a step that its definition has."""
    verdict.start("I10")
    await _check_definitions(store, rules, verdict)
    for text, runs, run_id in await store.ask("overrides"):
        verdict.add_checked("I10", 1)
        if rules.override(text) is None:
            verdict.add_violation(ViolationCode.OVERRIDE_UNREADABLE, run_id, runs=runs)


async def _check_definitions(store: VerificationQueries, rules: DefinitionRules, verdict: Verdict) -> None:
    for digest, runs, highest, earliest in await store.ask("definitions_used"):
        verdict.add_checked("I10", 1)
        steps = await rules.steps(digest)
        if steps is None:
            if await store.definition(digest) is not None:
                verdict.add_violation(ViolationCode.DEFINITION_UNREADABLE, digest, runs=runs)
            continue
        last = len(steps) - 1
        if highest > last or (earliest is not None and earliest < last):
            await _check_step_indexes(store, verdict, digest, last)


async def _check_step_indexes(store: VerificationQueries, verdict: Verdict, digest: str, last: int) -> None:
    for run_id, index, state in await store.ask("steps_unknown", digest=digest, last=last):
        verdict.add_violation(
            ViolationCode.STEP_UNDEFINED, run_id, state=state, step_index=index, steps=last + 1
        )


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
    """Where the waits of one step lie within their jitter intervals, from 0 to 1."""

    waits: int = 0
    lowest: float = 1.0
    highest: float = 0.0

    def with_draw(self, draw: float) -> _Spread:
        return _Spread(self.waits + 1, min(self.lowest, draw), max(self.highest, draw))


async def check_waits(store: VerificationQueries, rules: DefinitionRules, verdict: Verdict) -> None:
    """I3: retries stay within the policy. I5: waits match the policy, and jitter spreads them."""
    verdict.start("I5")
    spreads: dict[tuple[str, int], _Spread] = {}
    async for row in store.waits():
        policy = await rules.policy(row.definition, row.step_index, row.override)
        if policy is None:  # check_rules reports it
            continue
        verdict.add_checked("I3", 1)
        _check_budget(row, policy, verdict)
        if row.kind == "charged" and row.delay is not None:
            verdict.add_checked("I5", 1)
            draw = _check_length(row, row.delay, policy, verdict)
            if draw is not None:
                key = (row.definition, row.step_index)
                spreads[key] = spreads.get(key, _Spread()).with_draw(draw)
    _check_spreads(spreads, verdict)


def _check_budget(row: WaitRow, policy: RetryPolicy, verdict: Verdict) -> None:
    if row.delay is None:
        if row.ordinal != policy.max_attempts:
            verdict.add_violation(
                ViolationCode.WRONG_LAST_ATTEMPT,
                row.run_id,
                step_index=row.step_index,
                attempt=row.number,
                used_attempts=row.ordinal,
                max_attempts=policy.max_attempts,
            )
        return
    kind, limit = _limit_of(row.kind, policy)
    if row.ordinal > limit:
        verdict.add_violation(
            ViolationCode.LIMIT_EXCEEDED,
            row.run_id,
            step_index=row.step_index,
            attempt=row.number,
            kind=kind,
            number=row.ordinal,
            limit=limit,
        )


def _limit_of(kind: str, policy: RetryPolicy) -> tuple[str, int]:
    return {
        "charged": ("retry", policy.max_retries),
        "hinted": ("rate_limit_wait", policy.max_rate_limit_waits),
        "released": ("release", policy.max_holds),
    }[kind]


def _check_length(row: WaitRow, delay: float, policy: RetryPolicy, verdict: Verdict) -> float | None:
    """Return the position of the wait in its jitter interval, from 0 to 1; None if it was not random."""
    wait = _wait_of(row, policy)
    if wait is None:
        verdict.add_violation(
            ViolationCode.RETRY_FORBIDDEN, row.run_id, step_index=row.step_index, attempt=row.number
        )
        return None
    rounding = _ROUNDING * max(1.0, wait.high)
    too_long = delay > wait.high + rounding and not row.asked_for
    if delay < wait.low - rounding or too_long:
        verdict.add_violation(
            ViolationCode.WAIT_OUT_OF_RANGE,
            row.run_id,
            step_index=row.step_index,
            attempt=row.number,
            wait_seconds=delay,
            min_seconds=wait.low,
            max_seconds=wait.high,
        )
        return None
    if row.asked_for or wait.high <= wait.low:
        return None
    return (delay - wait.low) / (wait.high - wait.low)


def _wait_of(row: WaitRow, policy: RetryPolicy) -> Wait | None:
    category = Category(row.category) if row.category in _CATEGORIES else Category.UNKNOWN
    return policy.backoff_for(category).wait(row.ordinal, draw=0.0, previous=row.previous)


def _check_spreads(spreads: dict[tuple[str, int], _Spread], verdict: Verdict) -> None:
    for (definition, index), spread in spreads.items():
        if spread.waits >= MIN_WAITS and spread.highest - spread.lowest < MIN_SPREAD:
            verdict.add_violation(
                ViolationCode.JITTER_WITHOUT_SPREAD, definition, step_index=index, **spread._asdict()
            )
