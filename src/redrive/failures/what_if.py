"""What if: a changed retry policy applied to the recorded failures of an organization.

The attempts are read twice, so that no more than a page of them is in memory: first to learn when
dependencies worked again, then to replay each failure under the changed policy.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from redrive.engine.definition import Definition, Definitions, StepDefinition
from redrive.errors import NotFoundError, RedriveError
from redrive.failures.attempt_evidence import Exclusion, FailureStory, read_attempts
from redrive.policy.comparison import PolicyComparison
from redrive.policy.policy_change import Alteration
from redrive.policy.retry import RetryPolicy
from redrive.policy.what_if import Recoveries, Works, relive, unseen
from redrive.store.attempt_history import AttemptHistory
from redrive.words.suggestion import suggest

if TYPE_CHECKING:
    from redrive.store.store import Store

CLOCKS_APART = 3600.0
"""Seconds by which the clock that made an id may be behind that of the database."""

Progress = Callable[[int], object]


class FailureSelection(NamedTuple):
    """Which failures: those of runs that were submitted at `since` or later. None is any."""

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
    """The comparison for one step; the policies are those of its newest run."""

    task: str
    dependency: str
    recorded: RetryPolicy
    changed: RetryPolicy
    comparison: PolicyComparison


class WhatIf(NamedTuple):
    """
    runs        runs that were read
    attempts    their recorded attempts
    under_way   failures left out because they have not ended, or were cancelled
    unreadable  failures left out because the definition of their run cannot be read
    """

    since: float
    runs: int
    attempts: int
    total: PolicyComparison
    steps: dict[StepName, StepOutcome]
    under_way: int
    unreadable: int


class _StepStory(NamedTuple):
    name: StepName
    step: StepDefinition
    queue: str
    attempts: FailureStory | Exclusion


async def what_if(
    store: Store,
    definitions: Definitions,
    wanted: FailureSelection,
    alteration: Alteration,
    progress: Progress | None = None,
) -> WhatIf:
    """Compare the recorded policies with the changed ones.

    `progress` is called with the number of rows after each page, of as many as `rows_to_read` says.
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
        self._known: dict[str, tuple[StepDefinition, ...] | None] = {}
        self._changed: dict[int, RetryPolicy] = {}
        self._recoveries = Recoveries()
        self._total = PolicyComparison()
        self._steps: dict[StepName, StepOutcome] = {}
        self._under_way = self._unreadable = self._read = 0

    async def run(self) -> WhatIf:
        runs = await self._learn_successes()
        await self._learn_recoveries()
        self._recoveries.settle()
        self._unreadable = self._read = 0  # everything is read a second time
        async for story in self._stories():
            if self._is_wanted(story):
                self._compare(story)
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
        async for story in self._stories():
            failures, dependency = story.attempts, _dependency(story.step)
            if isinstance(failures, Exclusion):
                continue
            self._recoveries.retried(dependency, failures.category, failures.trouble)
            if failures.works is not None:
                self._recoveries.recovered(
                    dependency, failures.category, failures.began, failures.works.since
                )

    # Comparing each failure

    def _compare(self, story: _StepStory) -> None:
        failures = story.attempts
        if isinstance(failures, Exclusion):
            self._under_way += failures is Exclusion.IN_PROGRESS
            return
        trouble = failures.trouble
        changed, works = self._changed_policy(trouble.policy), self._works(story.step, failures)
        relived = relive(trouble, changed, works)
        known, dependency = self._steps.get(story.name), _dependency(story.step)
        comparison = PolicyComparison() if known is None else known.comparison
        chance = self._recoveries.chance(dependency, failures.category, unseen(trouble, relived))
        self._steps[story.name] = StepOutcome(
            story.step.task, dependency, trouble.policy, changed, comparison
        )
        self._total.add(trouble, relived, works, chance)
        comparison.add(trouble, relived, works, chance)

    def _changed_policy(self, policy: RetryPolicy) -> RetryPolicy:
        """Computed once for each step of a definition: these are kept, so their policies have stable ids."""
        if id(policy) not in self._changed:
            self._changed[id(policy)] = self._alteration.of(policy)
        return self._changed[id(policy)]

    def _works(self, step: StepDefinition, failures: FailureStory) -> Works | None:
        if failures.works is not None:
            return failures.works
        moments = failures.began, failures.last_failed_at
        return self._recoveries.works(_dependency(step), failures.category, *moments)

    def _is_wanted(self, story: _StepStory) -> bool:
        wanted = self._wanted
        asked = (
            (wanted.workflow, story.name.workflow),
            (wanted.step, story.name.step),
            (wanted.task, story.step.task),
            (wanted.queue, story.queue),
        )
        return all(name is None or name == found for name, found in asked)

    # Reading

    async def _stories(self) -> AsyncIterator[_StepStory]:
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
                    yield _StepStory(name, step, rows[0].queue or step.queue, read_attempts(rows, step))

    async def _step(self, digest: str, index: int) -> StepDefinition | None:
        if digest not in self._known:
            self._known[digest] = await self._steps_of(digest)
        steps = self._known[digest]
        return steps[index] if steps is not None and 0 <= index < len(steps) else None

    async def _steps_of(self, digest: str) -> tuple[StepDefinition, ...] | None:
        try:
            definition = await self._definitions.get(digest)
        except (RedriveError, LookupError, TypeError, ValueError):
            return None
        return definition.steps

    def _check_names(self) -> None:
        """NotFoundError for a step or task that no run has; known only after everything was read."""
        if not self._known:
            return
        for what, name in (("step", self._wanted.step), ("task", self._wanted.task)):
            known = {getattr(step, "name" if what == "step" else "task") for step in self._all_steps()}
            if name is not None and name not in known:
                raise NotFoundError(f"no run looked at has a {what} {name!r}; {suggest(name, known)}")

    def _all_steps(self) -> Iterable[StepDefinition]:
        return (step for steps in self._known.values() if steps is not None for step in steps)


def _dependency(step: StepDefinition) -> str:
    """The breaker of a step, or its task: steps that share it recover together."""
    return step.task if step.breaker is None else step.breaker


def _history(store: Store, wanted: FailureSelection) -> AttemptHistory:
    return AttemptHistory(store.database, wanted.org, wanted.since, id_before(wanted.since - CLOCKS_APART))


async def newest_definitions(store: Store, org: str) -> list[Definition]:
    """Those of the workflows that an org has runs of, as they were defined last; unreadable ones are left
    out."""
    bodies = await AttemptHistory(store.database, org).definitions()
    return [definition for definition in map(_parsed, bodies) if definition is not None]


def _parsed(body: str) -> Definition | None:
    try:
        return Definition.parsed(body)
    except (RedriveError, LookupError, TypeError, ValueError):
        return None


def id_before(moment: float) -> str:
    """A bound below every id that was made at this instant or later (engine.ids)."""
    return f"{int(max(0.0, moment) * 1000) << 16:015x}".ljust(32, "0")


def _ignore(rows: int) -> None:
    """Report no progress."""
