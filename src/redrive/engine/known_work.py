"""Known work: the workflows that a worker claims, because their tasks are registered in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from redrive.clock import Clock
from redrive.engine.definition import Definition
from redrive.engine.registry import Registry
from redrive.model.run import HELD_BY_TASK, HELD_BY_WORKFLOW

MIN_ABSTENTION_SECONDS, MAX_ABSTENTION_SECONDS = 1.0, 60.0


class _Abstention(NamedTuple):
    task: str
    seconds: float
    end: float


def holder_of(definition: Definition) -> str:
    """Return what holds the runs of a workflow that no worker knows."""
    if len(definition.steps) == 1:
        return HELD_BY_TASK + definition.steps[0].task
    return HELD_BY_WORKFLOW + definition.workflow


class KnownWork:
    """
    A worker knows a registered workflow, and an unregistered one if it has a task of its stored definition:
    such runs were started by another program, or before the workflow was removed.

    only  the workflows to which the worker is limited; None: all that it knows
    """

    def __init__(self, registry: Registry, clock: Clock, only: Sequence[str] | None) -> None:
        self._registry = registry
        self._clock = clock
        self.only = only
        self._learned: dict[str, Definition] = {}
        self._abstentions: dict[str, _Abstention] = {}
        self._workflows: Sequence[str] = ()
        self._origin: tuple[int, ...] = ()

    @property
    def workflows(self) -> Sequence[str]:
        if self.only is not None:
            return self.only
        registry = self._registry
        # Names are added and never removed, so their numbers tell whether the list is still valid.
        origin = len(registry.tasks), len(registry.workflows), len(registry.aliases), len(self._learned)
        if origin != self._origin:
            known = {**self._learned, **registry.runnable}
            names = [name for name, definition in known.items() if self._has_a_task_of(definition)]
            self._workflows, self._origin = names, origin
        return self._workflows

    @property
    def to_claim(self) -> Sequence[str]:
        """The known workflows, except those in which the worker recently found an unknown task."""
        if not self._abstentions:
            return self.workflows
        return [name for name in self.workflows if not self._abstains(name)]

    def releases(self, holder: str) -> bool:
        """Return whether this worker can execute runs that are held because no worker knew them.

        If it is limited to some workflows, it can execute only the runs of these.
        """
        if holder.startswith(HELD_BY_WORKFLOW):
            return holder.removeprefix(HELD_BY_WORKFLOW) in self.workflows
        return self._has_task(holder.removeprefix(HELD_BY_TASK))

    def learn(self, definitions: Iterable[Definition]) -> bool:
        """Claim runs of these workflows from now on if one of their tasks is known. Return whether one is."""
        if self.only is not None:
            return False
        known = [definition for definition in definitions if self._has_a_task_of(definition)]
        self._learned |= {definition.workflow: definition for definition in known}
        return bool(known)

    def abstain(self, workflow: str, task: str) -> None:
        """Leave a workflow with an unknown task to other workers for a while, longer each time."""
        before = self._abstentions.get(workflow)
        seconds = MIN_ABSTENTION_SECONDS if before is None else 2.0 * before.seconds
        seconds = min(MAX_ABSTENTION_SECONDS, seconds)
        self._abstentions[workflow] = _Abstention(task, seconds, self._clock.monotonic() + seconds)

    def _abstains(self, workflow: str) -> bool:
        abstention = self._abstentions.get(workflow)
        if abstention is None or self._has_task(abstention.task):
            return False
        return self._clock.monotonic() < abstention.end

    def _has_a_task_of(self, definition: Definition) -> bool:
        return any(self._has_task(step.task) for step in definition.steps)

    def _has_task(self, name: str) -> bool:
        return self._registry.task(name) is not None
