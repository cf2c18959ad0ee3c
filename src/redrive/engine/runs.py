"""Access to the runs of an organization: list, view and cancel them. Payloads and results are redacted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from redrive.engine.definition import Definitions
from redrive.engine.handle import RunHandle
from redrive.engine.history import History, TimelineEvent, history_of
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
    """A page of runs. `next_cursor` is None on the last page."""

    runs: Sequence[RunSummary]
    next_cursor: str | None


class Story(NamedTuple):
    """The steps, attempts and events of a run, read at once."""

    steps: Sequence[StepView]
    attempts: Sequence[AttemptView]
    events: Sequence[TimelineEvent]


class Runs:
    """The runs of the caller's org. A run of another org raises NotFoundError."""

    def __init__(
        self,
        store: Store,
        definitions: Definitions,
        redacted_view: RedactedView,
        handle: Callable[[str, str], RunHandle[Any]],
        caller: Caller,
    ) -> None:
        self._store = store
        self._definitions = definitions
        self._view = redacted_view
        self._handle = handle
        self._caller = caller

    async def list(self, query: str = "", *, size: int = 50, cursor: str | None = None) -> RunPage:
        """Return a page of the runs that match the query (redrive.policy.query), newest first."""
        require_whole("size", size, 1, MAX_PAGE_SIZE)
        found = await self._store.run_lists.page(parse(query, RUNS), self._caller.org, size, cursor)
        definitions = {
            digest: await self._definitions.find(digest)
            for digest in {line.definition for line in found.lines}
        }
        runs = [self._view.summary(line, definitions[line.definition]) for line in found.lines]
        return RunPage(runs, found.next_cursor)

    async def count(self, query: str = "") -> Count:
        """Count the runs that match the query, up to 10,000."""
        return await self._store.run_lists.count(parse(query, RUNS), self._caller.org)

    async def counts(self) -> dict[RunState, Count]:
        """Count the runs in each state, each up to 10,000."""
        lists, org = self._store.run_lists, self._caller.org
        return {state: await lists.count(Query((Term("is", (state,)),)), org) for state in RunState}

    async def view(self, run_id: str) -> RunView:
        return await self._handle(run_id, self._caller.org).view()

    async def owner(self, run_id: str) -> str | None:
        """Return the user who may retry the run with only the permission to read; None if it has none."""
        return (await self._store.runs.origin(run_id, self._caller.org)).owner

    async def steps(self, run_id: str) -> Sequence[StepView]:
        return (await self.story(run_id)).steps

    async def attempts(self, run_id: str) -> Sequence[AttemptView]:
        """The attempts of a run, ordered by step and number."""
        return (await self.story(run_id)).attempts

    async def events(self, run_id: str) -> Sequence[TimelineEvent]:
        """The events of a run, in chronological order."""
        return (await self.story(run_id)).events

    async def story(self, run_id: str) -> Story:
        run = await self._run(run_id)
        history = await history_of(run, self._store, self._definitions, self._view.encryption)
        return self._redacted(history)

    async def cancel(self, run_id: str, *, reason: str = "") -> Cancellation:
        """Cancel a run. The audit log records the caller's name and the redacted reason."""
        run = await self._run(run_id)
        return await self._handle(run.id, run.org).cancel(by=self._caller.name, reason=reason)

    def _redacted(self, history: History) -> Story:
        names = [step.name for step in history.steps]
        return Story(
            [self._view.step(step, history.run) for step in history.steps],
            [self._view.attempt(attempt, names[attempt.step_index]) for attempt in history.attempts],
            history.events,
        )

    async def _run(self, run_id: str) -> Run:
        return await self._store.runs.get(run_id, self._caller.org)
