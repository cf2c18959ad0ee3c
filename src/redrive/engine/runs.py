"""The book of runs: finding them, and reading the story of one. What they were given is shown redacted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from redrive.engine.definition import Definitions
from redrive.engine.handle import RunHandle
from redrive.engine.history import Happening, History, history_of
from redrive.engine.run_view import AttemptView, RedactedView, RunSummary, RunView, StepView
from redrive.model.caller import Caller
from redrive.model.query import Count, Query, Term
from redrive.model.run import Cancellation, Run, RunState
from redrive.policy.bounds import require_whole
from redrive.policy.query import parse
from redrive.policy.query_language import RUNS
from redrive.store.store import Store

MAX_PAGE_SIZE = 500


class RunPage(NamedTuple):
    """`next_cursor` is None on the last page."""

    runs: Sequence[RunSummary]
    next_cursor: str | None


class Story(NamedTuple):
    """Everything about a run, read in one go."""

    steps: Sequence[StepView]
    attempts: Sequence[AttemptView]
    events: Sequence[Happening]


class Runs:
    """The runs of the caller's org. One of another org does not exist."""

    def __init__(
        self,
        store: Store,
        definitions: Definitions,
        showing: RedactedView,
        handle: Callable[[str, str], RunHandle[Any]],
        caller: Caller,
    ) -> None:
        self._store = store
        self._definitions = definitions
        self._showing = showing
        self._handle = handle
        self._caller = caller

    async def list(self, query: str = "", *, size: int = 50, cursor: str | None = None) -> RunPage:
        """A page of those that fulfil the query (redrive.policy.query), newest first."""
        require_whole("size", size, 1, MAX_PAGE_SIZE)
        found = await self._store.run_lists.page(parse(query, RUNS), self._caller.org, size, cursor)
        definitions = {
            digest: await self._definitions.find(digest)
            for digest in {line.definition for line in found.lines}
        }
        runs = [self._showing.summary(line, definitions[line.definition]) for line in found.lines]
        return RunPage(runs, found.next_cursor)

    async def count(self, query: str = "") -> Count:
        """How many fulfil the query; counted up to 10,000."""
        return await self._store.run_lists.count(parse(query, RUNS), self._caller.org)

    async def counts(self) -> dict[RunState, Count]:
        """How many there are in each state; counted up to 10,000 each."""
        lists, org = self._store.run_lists, self._caller.org
        return {state: await lists.count(Query((Term("is", (state,)),)), org) for state in RunState}

    async def view(self, run_id: str) -> RunView:
        return await self._handle(run_id, self._caller.org).view()

    async def steps(self, run_id: str) -> Sequence[StepView]:
        return (await self.story(run_id)).steps

    async def attempts(self, run_id: str) -> Sequence[AttemptView]:
        """By step and number."""
        return (await self.story(run_id)).attempts

    async def events(self, run_id: str) -> Sequence[Happening]:
        """What has happened to it, in order of time."""
        return (await self.story(run_id)).events

    async def story(self, run_id: str) -> Story:
        run = await self._run(run_id)
        history = await history_of(run, self._store, self._definitions, self._showing.encryption)
        return self._shown(history)

    async def cancel(self, run_id: str, *, reason: str = "") -> Cancellation:
        """End it before its time; the audit has it under the name of the caller."""
        run, said = await self._run(run_id), self._showing.said(reason)
        return await self._handle(run.id, run.org).cancel(by=self._caller.name, reason=said)

    def _shown(self, history: History) -> Story:
        names = [step.name for step in history.steps]
        return Story(
            [self._showing.step(step, history.run) for step in history.steps],
            [self._showing.attempt(each, names[each.step_index]) for each in history.attempts],
            history.events,
        )

    async def _run(self, run_id: str) -> Run:
        return await self._store.runs.get(run_id, self._caller.org)
