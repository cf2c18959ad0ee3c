"""Definitions: the steps of runs. A run keeps the one it was started with, whatever is deployed later."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from redrive.errors import InvalidValueError, RedriveError
from redrive.model.step import Effect
from redrive.policy.codec import JsonValue, canonical, decode, encode
from redrive.policy.policy_json import policy_from_json, policy_to_json
from redrive.policy.retry import RetryPolicy

if TYPE_CHECKING:
    from redrive.store.store import Store

MAX_DEFINITIONS = 1_024


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

    @cached_property
    def config_text(self) -> str:
        """The config as text: every attempt reads a value of its own from it, which a task may change."""
        return encode(self.config)

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


class Definitions:
    """The definitions of stored runs, read once each."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: OrderedDict[str, Definition] = OrderedDict()

    def known(self, digest: str) -> Definition | None:
        return self._known.get(digest)

    async def get(self, digest: str) -> Definition:
        known = self._known.get(digest)
        if known is None:
            known = Definition.parsed(await self._store.runs.definition(digest))
            if known.digest != digest:
                raise InvalidValueError(f"the stored definition {digest} is not what was stored")
            self._known[digest] = known
            if len(self._known) > MAX_DEFINITIONS:
                self._known.popitem(last=False)
        return known

    async def find(self, digest: str) -> Definition | None:
        """None if it can't be read: a run is shown even then."""
        try:
            return await self.get(digest)
        except (RedriveError, LookupError, TypeError, ValueError):
            return None
