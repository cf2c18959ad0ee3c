"""The rules of runs: the steps of their definitions, with the policies stored there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from redrive.errors import RedriveError
from redrive.model.step import Effect
from redrive.policy.codec import decode
from redrive.policy.policy_json import policy_from_json
from redrive.policy.retry import RetryPolicy
from redrive.store.verification import VerificationQueries
from redrive.verify.verdict import Verdict

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
        """None when the definition is missing or cannot be read."""
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
        return [StepRule(policy_from_json(each["retry"]), Effect(each["effect"])) for each in value["steps"]]
    except _UNREADABLE:
        return None


def _policy(text: str) -> RetryPolicy | None:
    try:
        value = decode(text)
        return policy_from_json(value) if isinstance(value, Mapping) else None
    except _UNREADABLE:
        return None
