"""What-if simulation: applies a changed retry policy to the recorded failures of an organization.

The simulation reads the attempts twice, so that only one page of them is in memory: first to find out when
dependencies recovered, then to replay each failure under the changed policy.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from redrive.engine.definition import Definition, Definitions, StepDefinition
from redrive.errors import NotFoundError, RedriveError
from redrive.failures.attempt_evidence import Exclusion, StepFailures, read_attempts
from redrive.policy.comparison import PolicyComparison
from redrive.policy.policy_change import Alteration
from redrive.policy.retry import RetryPolicy
from redrive.policy.what_if import Recoveries, Works, relive, unseen
from redrive.store.attempt_history import AttemptHistory
from redrive.words.suggestion import suggest

if TYPE_CHECKING:
    from redrive.store.store import Store

CLOCKS_APART = 3600.0
"""Seconds by which the clock of the process that made an id may lag behind the database."""

Progress = Callable[[int], object]


class FailureSelection(NamedTuple):
    """Selects the failures of runs submitted at `since` or later. None: any."""

    org: str
    since: float
    workflow: str | None = None
    step: str | None = None
    task: str | None = None
    queue: str | None = None


class StepName(NamedTuple):
    workflow: str
    step: str


class StepOutcome(NamedTuple):
    """The comparison for one step, with the policies of its newest run."""

    task: str
    dependency: str
    recorded: RetryPolicy
    changed: RetryPolicy
    comparison: PolicyComparison


class WhatIf(NamedTuple):
    """
    runs        the number of runs read
    attempts    the number of their recorded attempts
    unfinished  failures left out because their step is in progress or was cancelled
    unreadable  failures left out because the definition of their run cannot be read
    """

    since: float
    runs: int
    attempts: int
    total: PolicyComparison
    steps: dict[StepName, StepOutcome]
    unfinished: int
    unreadable: int


class _RecordedStep(NamedTuple):
    name: StepName
    definition: StepDefinition
    queue: str
    attempts: StepFailures | Exclusion


async def what_if(
    store: Store,
    definitions: Definitions,
    wanted: FailureSelection,
    alteration: Alteration,
    progress: Progress | None = None,
) -> WhatIf:
    """Compare the recorded policies with the changed ones.

    Calls `progress` after each page with its number of rows; `rows_to_read` gives the total.
    """
    return await _Simulation(store, definitions, wanted, alteration, progress or _ignore).run()


async def rows_to_read(store: Store, wanted: FailureSelection) -> int:
    numbers = await _history(store, wanted).numbers()
    return numbers.runs + 2 * numbers.attempts


class _Simulation:
    def __init__(
        self,
        store: Store,
        definitions: Definitions,
        wanted: FailureSelection,
        alteration: Alteration,
        progress: Progress,
    ) -> None:
        self._history = _history(store, wanted)
        self._definitions = definitions
        self._wanted = wanted
        self._alteration = alteration
        self._progress = progress
        self._definition_steps: dict[str, tuple[StepDefinition, ...] | None] = {}
        self._changed: dict[int, RetryPolicy] = {}
        self._recoveries = Recoveries()
        self._total = PolicyComparison()
        self._steps: dict[StepName, StepOutcome] = {}
        self._under_way = self._unreadable = self._read = 0

    async def run(self) -> WhatIf:
        runs = await self._learn_successes()
        await self._learn_recoveries()
        self._recoveries.settle()
        self._unreadable = self._read = 0  # the second pass reads everything again
        async for step in self._recorded_steps():
            if self._is_wanted(step):
                self._compare(step)
        self._check_names()
        return WhatIf(
            self._wanted.since,
            runs,
            self._read,
            self._total,
            dict(sorted(self._steps.items())),
            self._under_way,
            self._unreadable,
        )

    # Learning when dependencies worked

    async def _learn_successes(self) -> int:
        runs = 0
        async for page in self._history.succeeded():
            self._progress(len({row.run_id for row in page}))
            runs += len({row.run_id for row in page})
            for row in page:
                step = await self._step(row.definition, row.step_index)
                if step is not None and row.at is not None:
                    self._recoveries.succeeded(_dependency(step), row.at)
        return runs

    async def _learn_recoveries(self) -> None:
        async for step in self._recorded_steps():
            failures, dependency = step.attempts, _dependency(step.definition)
            if isinstance(failures, Exclusion):
                continue
            self._recoveries.retried(dependency, failures.category, failures.failed_step)
            if failures.works is not None:
                self._recoveries.recovered(
                    dependency, failures.category, failures.began, failures.works.since
                )

    # Comparing each failure

    def _compare(self, step: _RecordedStep) -> None:
        failures = step.attempts
        if isinstance(failures, Exclusion):
            self._under_way += failures is Exclusion.IN_PROGRESS
            return
        failed = failures.failed_step
        changed, works = self._changed_policy(failed.policy), self._works(step.definition, failures)
        relived = relive(failed, changed, works)
        known, dependency = self._steps.get(step.name), _dependency(step.definition)
        comparison = PolicyComparison() if known is None else known.comparison
        chance = self._recoveries.chance(dependency, failures.category, unseen(failed, relived))
        self._steps[step.name] = StepOutcome(
            step.definition.task, dependency, failed.policy, changed, comparison
        )
        self._total.add(failed, relived, works, chance)
        comparison.add(failed, relived, works, chance)

    def _changed_policy(self, policy: RetryPolicy) -> RetryPolicy:
        """Compute the changed policy once per step. `_definition_steps` keeps the steps: ids stay unique."""
        if id(policy) not in self._changed:
            self._changed[id(policy)] = self._alteration.of(policy)
        return self._changed[id(policy)]

    def _works(self, step: StepDefinition, failures: StepFailures) -> Works | None:
        if failures.works is not None:
            return failures.works
        moments = failures.began, failures.last_failed_at
        return self._recoveries.works(_dependency(step), failures.category, *moments)

    def _is_wanted(self, step: _RecordedStep) -> bool:
        wanted = self._wanted
        filters = (
            (wanted.workflow, step.name.workflow),
            (wanted.step, step.name.step),
            (wanted.task, step.definition.task),
            (wanted.queue, step.queue),
        )
        return all(name is None or name == found for name, found in filters)

    # Reading

    async def _recorded_steps(self) -> AsyncIterator[_RecordedStep]:
        async for page in self._history.tried():
            self._progress(len(page))
            self._read += len(page)
            for (_, index), group in groupby(page, key=lambda row: (row.run_id, row.step_index)):
                rows = list(group)
                step = await self._step(rows[0].definition, index)
                if step is None:
                    self._unreadable += 1
                else:
                    name = StepName(rows[0].workflow, step.name)
                    yield _RecordedStep(name, step, rows[0].queue or step.queue, read_attempts(rows, step))

    async def _step(self, digest: str, index: int) -> StepDefinition | None:
        if digest not in self._definition_steps:
            self._definition_steps[digest] = await self._steps_of(digest)
        steps = self._definition_steps[digest]
        return steps[index] if steps is not None and 0 <= index < len(steps) else None

    async def _steps_of(self, digest: str) -> tuple[StepDefinition, ...] | None:
        try:
            definition = await self._definitions.get(digest)
        except (RedriveError, LookupError, TypeError, ValueError):
            return None
        return definition.steps

    def _check_names(self) -> None:
        """Raise NotFoundError for a step or task that no run has. Call it after all runs are read."""
        if not self._definition_steps:
            return
        for what, name in (("step", self._wanted.step), ("task", self._wanted.task)):
            known = {getattr(step, "name" if what == "step" else "task") for step in self._all_steps()}
            if name is not None and name not in known:
                raise NotFoundError(f"no selected run has a {what} {name!r}; {suggest(name, known)}")

    def _all_steps(self) -> Iterable[StepDefinition]:
        return (step for steps in self._definition_steps.values() if steps is not None for step in steps)


def _dependency(step: StepDefinition) -> str:
    """Return the breaker of a step, or its task: steps with the same dependency recover together."""
    return step.task if step.breaker is None else step.breaker


def _history(store: Store, wanted: FailureSelection) -> AttemptHistory:
    return AttemptHistory(store.database, wanted.org, wanted.since, id_before(wanted.since - CLOCKS_APART))


async def newest_definitions(store: Store, org: str) -> list[Definition]:
    """Return the newest definition of each workflow that has runs; unreadable definitions are left out."""
    bodies = await AttemptHistory(store.database, org).definitions()
    return [definition for definition in map(_parsed, bodies) if definition is not None]


def _parsed(body: str) -> Definition | None:
    try:
        return Definition.parsed(body)
    except (RedriveError, LookupError, TypeError, ValueError):
        return None


def id_before(moment: float) -> str:
    """Return a lower bound of all ids made at this time or later (engine.ids)."""
    return f"{int(max(0.0, moment) * 1000) << 16:015x}".ljust(32, "0")


def _ignore(rows: int) -> None:
    """Report no progress."""
