"""The entry point to the failed work of one organization, for one caller."""

from __future__ import annotations

from redrive.failures.audit import Audit
from redrive.failures.bulk_replays import BulkReplays
from redrive.failures.dead_letters import DeadLetters
from redrive.failures.failed_runs import FailedRuns
from redrive.failures.groups import FailureGroups
from redrive.failures.overview import NeedsYou, Overview, OverviewQueries, OverviewTotals
from redrive.failures.parts import FailureParts
from redrive.failures.replays import Replays
from redrive.failures.saved_views import SavedViews
from redrive.failures.strategies import LetterStrategies
from redrive.failures.verdicts import Verdicts
from redrive.failures.what_if import FailureSelection, Progress, WhatIf, what_if
from redrive.model.statistics import Span
from redrive.policy.policy_change import Alteration
from redrive.policy.verdict import ReplayVerdict


class Failures(DeadLetters):
    """The failed work of the caller's organization: list, view, close and replay dead letters.

    replay      replays a dead letter; see Replays.start
    groups      failure groups: failures with the same fingerprint
    plans       bulk replays: planned first, started with a canary, stopped when too many items fail
    replays     the replays of single dead letters
    views       saved queries
    strategies  which failures become dead letters
    audit       the record of all changes: who did what, and when
    """

    def __init__(self, parts: FailureParts) -> None:
        store, caller, redactor = parts.store, parts.caller, parts.redactor
        self.caller = caller
        super().__init__(store, parts.ids, parts.event_bus, redactor, parts.encryption, caller)
        self.groups = FailureGroups(store, parts.event_bus, redactor, parts.clock, caller)
        self.plans = BulkReplays(parts)
        self.replays = Replays(parts)
        self.replay = self.replays.start
        self.views = SavedViews(store, parts.ids, redactor, caller)
        self.strategies = LetterStrategies(store, parts.strategies, redactor, caller)
        self.audit = Audit(store, caller)
        self._definitions = parts.definitions
        self._overview = OverviewQueries(store, parts.clock, caller)
        self._verdicts = Verdicts(store, parts.breakers, caller)
        self._runs = FailedRuns(parts, self.replays)

    async def verdict(self, letter_id: str) -> ReplayVerdict:
        """Explain why the work stopped, what has changed since, and whether a replay is likely to succeed."""
        return await self._verdicts.of(letter_id)

    async def overview(self, span: Span | str = Span.DAY) -> Overview:
        """Summarize what needs you, what heals itself, and new and closed dead letters."""
        return await self._overview.read(span)

    async def totals(self) -> OverviewTotals:
        """Count what needs you and what heals itself."""
        return await self._overview.totals()

    async def needs_you(self) -> NeedsYou:
        """Count the dead letters that wait for a person."""
        return await self._overview.needs_you()

    async def what_if(
        self,
        alteration: Alteration,
        *,
        since: float,
        workflow: str | None = None,
        step: str | None = None,
        task: str | None = None,
        queue: str | None = None,
        progress: Progress | None = None,
    ) -> WhatIf:
        """Simulate changed retry policies on the recorded failures.

        since     seconds since 1970: includes runs submitted from then on
        progress  called with the number of rows after each page
        """
        selection = FailureSelection(self.caller.org, since, workflow, step, task, queue)
        return await what_if(self._store, self._definitions, selection, alteration, progress)

    async def add(self, run_id: str) -> str:
        """Write a dead letter for a failed run that has none, and return its id.

        A failed run has no dead letter if the strategy of its dead-letter queue excludes the failure.
        """
        return await self._runs.add(run_id)

    async def replay_run(self, run_id: str, *, reason: str = "") -> None:
        """Queue a failed run again where it stopped.

        Raises ReplayRefusedError if the `source` of its task no longer exists.
        """
        await self._runs.replay(run_id, reason)

    async def obstacle_to_replay_run(self, run_id: str) -> str | None:
        """Return why `replay_run` would refuse the run now, or None."""
        return await self._runs.obstacle(run_id)
