"""Definitions: the steps of a workflow. A run keeps the definition with which it was started."""

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
    """One position of a workflow, with the settings that its task had when the run was started."""

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
        """The retry policy as stored in a dead letter."""
        return encode(policy_to_json(self.retry))

    @cached_property
    def config_text(self) -> str:
        """The config as text. Every attempt parses a new value from it, so a task may modify the value."""
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
    """A cache of the definitions of stored runs."""

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
                raise InvalidValueError(f"the stored definition {digest} was modified in the database")
            self._known[digest] = known
            if len(self._known) > MAX_DEFINITIONS:
                self._known.popitem(last=False)
        return known

    async def find(self, digest: str) -> Definition | None:
        """Return the definition, or None if it cannot be read: the run can still be shown without it."""
        try:
            return await self.get(digest)
        except (RedriveError, LookupError, TypeError, ValueError):
            return None
