"""Definitions: what runs consist of. A run keeps the one it was started with, whatever is deployed later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any

from redrive.errors import InvalidValueError
from redrive.model.step import Effect
from redrive.policy.codec import JsonValue, canonical, decode, encode
from redrive.policy.policy_json import policy_from_json, policy_to_json
from redrive.policy.retry import RetryPolicy


@dataclass(frozen=True)
class StepDefinition:
    """One position of a workflow, with everything that its task was set to when the run was started."""

    name: str
    task: str
    retry: RetryPolicy
    timeout: float
    queue: str
    breaker: str | None
    effect: Effect
    config: JsonValue

    @cached_property
    def policy_text(self) -> str:
        """The retry policy as it is kept in a dead letter."""
        return encode(policy_to_json(self.retry))

    def to_json(self) -> dict[str, JsonValue]:
        return {
            "name": self.name,
            "task": self.task,
            "retry": policy_to_json(self.retry),
            "timeout": self.timeout,
            "queue": self.queue,
            "breaker": self.breaker,
            "effect": str(self.effect),
            "config": self.config,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> StepDefinition:
        return cls(**{**value, "retry": policy_from_json(value["retry"]), "effect": Effect(value["effect"])})


@dataclass(frozen=True)
class Definition:
    workflow: str
    steps: tuple[StepDefinition, ...]

    @cached_property
    def body(self) -> str:
        return canonical({"workflow": self.workflow, "steps": [step.to_json() for step in self.steps]})

    @cached_property
    def digest(self) -> str:
        return sha256(self.body.encode()).hexdigest()[:32]

    @classmethod
    def parsed(cls, body: str) -> Definition:
        value: Any = decode(body)
        return cls(value["workflow"], tuple(StepDefinition.from_json(step) for step in value["steps"]))


def distinct(workflow: str, steps: Sequence[StepDefinition]) -> tuple[StepDefinition, ...]:
    """The steps of a workflow: at least one, and no two of the same name."""
    if not steps:
        raise InvalidValueError(f"the workflow {workflow!r} has no steps; a workflow has at least one")
    names = [step.name for step in steps]
    for name in names:
        if names.count(name) > 1:
            raise InvalidValueError(
                f"the workflow {workflow!r} has two steps named {name!r}; "
                f"give one of them another name with task.step(name=...)"
            )
    return tuple(steps)
