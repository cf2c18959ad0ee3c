"""A changed policy against the recorded attempts of an org: what would have become of everything that failed.

The attempts are read twice, so that no more than a page of them is held: first to learn when dependencies
worked again, then to live through each failure.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from redrive.engine.definition import Definition, StepDefinition
from redrive.errors import NotFoundError, RedriveError
from redrive.failures.attempt_evidence import Left, Told, told
from redrive.policy.alteration import Alteration
from redrive.policy.comparison import Comparison
from redrive.policy.recovery import Recoveries
from redrive.policy.retry import RetryPolicy
from redrive.policy.what_if import Works, relive, unseen
from redrive.store.attempt_history import AttemptHistory, TriedRow
from redrive.words.suggestion import suggest

if TYPE_CHECKING:
    from redrive.engine.registry import Definitions
    from redrive.store.store import Store

CLOCKS_APART = 3600.0
"""Seconds by which the clock that has made an id may be behind that of the database."""

Tell = Callable[[int], object]


class Wanted(NamedTuple):
    """Which failures: of runs that were submitted at `since` or later. None is any."""

    org: str
    since: float
    workflow: str | None = None
    step: str | None = None
    task: str | None = None
    queue: str | None = None


class Place(NamedTuple):
    workflow: str
    step: str


class Outcome(NamedTuple):
    """Of one step; the policies are those of its newest run."""

    task: str
    dependency: str
    recorded: RetryPolicy
    changed: RetryPolicy
    comparison: Comparison


class WhatIf(NamedTuple):
    """
    runs        that were looked at
    attempts    that were written down for them
    under_way   failures that are left out since they have not ended, or were cancelled
    unreadable  those that are left out since the definition of their run cannot be read
    """

    since: float
    runs: int
    attempts: int
    total: Comparison
    steps: dict[Place, Outcome]
    under_way: int
    unreadable: int


class _Story(NamedTuple):
    place: Place
    step: StepDefinition
    queue: str
    told: Told | Left


async def what_if(
    store: Store, definitions: Definitions, wanted: Wanted, alteration: Alteration, tell: Tell | None = None
) -> WhatIf:
    """`tell` is told how many more rows were read, of as many as `to_be_read` says."""
    return await _Inquiry(store, definitions, wanted, alteration, tell or _nobody).answer()


async def to_be_read(store: Store, wanted: Wanted) -> int:
    numbers = await _history(store, wanted).numbers()
    return numbers.runs + 2 * numbers.attempts


class _Inquiry:
    def __init__(
        self, store: Store, definitions: Definitions, wanted: Wanted, alteration: Alteration, tell: Tell
    ) -> None:
        self._history = _history(store, wanted)
        self._definitions = definitions
        self._wanted = wanted
        self._alteration = alteration
        self._tell = tell
        self._known: dict[str, tuple[StepDefinition, ...] | None] = {}
        self._changed: dict[int, RetryPolicy] = {}
        self._recoveries = Recoveries()
        self._total = Comparison()
        self._steps: dict[Place, Outcome] = {}
        self._under_way = self._unreadable = self._read = 0

    async def answer(self) -> WhatIf:
        runs = await self._learn_successes()
        await self._learn_recoveries()
        self._recoveries.settle()
        self._unreadable = self._read = 0  # everything is read a second time
        async for story in self._stories():
            if self._is_wanted(story):
                self._live_through(story)
        self._refuse_unknown()
        return WhatIf(
            self._wanted.since,
            runs,
            self._read,
            self._total,
            dict(sorted(self._steps.items())),
            self._under_way,
            self._unreadable,
        )

    # What is known of dependencies

    async def _learn_successes(self) -> int:
        runs = 0
        async for page in self._history.succeeded():
            self._tell(len({row.run_id for row in page}))
            runs += len({row.run_id for row in page})
            for row in page:
                step = await self._step(row.definition, row.step_index)
                if step is not None and row.at is not None:
                    self._recoveries.succeeded(_dependency(step), row.at)
        return runs

    async def _learn_recoveries(self) -> None:
        async for story in self._stories():
            told, dependency = story.told, _dependency(story.step)
            if isinstance(told, Left):
                continue
            self._recoveries.retried(dependency, told.category, told.trouble)
            if told.works is not None:
                self._recoveries.recovered(dependency, told.category, told.began, told.works.since)

    # Each failure

    def _live_through(self, story: _Story) -> None:
        told = story.told
        if not isinstance(told, Told):
            self._under_way += told is Left.UNDER_WAY
            return
        trouble = told.trouble
        changed, works = self._changed_policy(trouble.policy), self._works(story.step, told)
        relived = relive(trouble, changed, works)
        known, dependency = self._steps.get(story.place), _dependency(story.step)
        comparison = Comparison() if known is None else known.comparison
        chance = self._recoveries.chance(dependency, told.category, unseen(trouble, relived))
        self._steps[story.place] = Outcome(story.step.task, dependency, trouble.policy, changed, comparison)
        for each in (self._total, comparison):
            each.add(trouble, relived, works, chance)

    def _changed_policy(self, policy: RetryPolicy) -> RetryPolicy:
        """Computed once for each step of a definition, which are kept."""
        if id(policy) not in self._changed:
            self._changed[id(policy)] = self._alteration.of(policy)
        return self._changed[id(policy)]

    def _works(self, step: StepDefinition, told: Told) -> Works | None:
        if told.works is not None:
            return told.works
        return self._recoveries.works(_dependency(step), told.category, told.began, told.last_failed_at)

    def _is_wanted(self, story: _Story) -> bool:
        wanted = self._wanted
        asked = (
            (wanted.workflow, story.place.workflow),
            (wanted.step, story.place.step),
            (wanted.task, story.step.task),
            (wanted.queue, story.queue),
        )
        return all(name is None or name == found for name, found in asked)

    # Reading

    async def _stories(self) -> AsyncIterator[_Story]:
        async for page in self._history.tried():
            self._tell(len(page))
            self._read += len(page)
            for (_, index), group in groupby(page, key=lambda row: (row.run_id, row.step_index)):
                rows = list(group)
                step = await self._step(rows[0].definition, index)
                if step is None:
                    self._unreadable += 1
                else:
                    yield _story(rows, step)

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

    # Names that nobody has

    def _refuse_unknown(self) -> None:
        """Only now is it known what there is; a name without failures is right, one without runs is wrong."""
        if not self._known:
            return
        for what, name in (("step", self._wanted.step), ("task", self._wanted.task)):
            known = {getattr(step, "name" if what == "step" else "task") for step in self._all_steps()}
            if name is not None and name not in known:
                raise NotFoundError(f"no run looked at has a {what} {name!r}; {suggest(name, known)}")

    def _all_steps(self) -> Iterable[StepDefinition]:
        return (step for steps in self._known.values() if steps is not None for step in steps)


def _story(rows: list[TriedRow], step: StepDefinition) -> _Story:
    place = Place(rows[0].workflow, step.name)
    return _Story(place, step, rows[0].queue or step.queue, told(rows, step))


def _dependency(step: StepDefinition) -> str:
    """What shows that it works again is shared by all that use it."""
    return step.task if step.breaker is None else step.breaker


def _history(store: Store, wanted: Wanted) -> AttemptHistory:
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
    """Every id that was made at this moment or later (engine.ids) lies behind it."""
    return f"{int(max(0.0, moment) * 1000) << 16:015x}"


def _nobody(rows: int) -> None:
    """Nobody wants to know how far it is."""
