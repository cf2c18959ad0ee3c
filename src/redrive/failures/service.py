"""Failed work: everything that one caller does with dead letters, groups and replays of one organization."""

from __future__ import annotations

from redrive.failures.audit import Audit
from redrive.failures.bulk_replays import BulkReplays
from redrive.failures.dead_letters import DeadLetters
from redrive.failures.failed_runs import FailedRuns
from redrive.failures.groups import FailureGroups
from redrive.failures.parts import FailureParts
from redrive.failures.replays import Replays
from redrive.failures.saved_views import SavedViews
from redrive.failures.verdicts import Verdicts
from redrive.policy.codec import JsonValue
from redrive.policy.verdict import ReplayVerdict


class Failures:
    """
    dead_letters  find them by a query, read, resolve, ignore, archive, note and link them
    groups        failures with one fingerprint
    replays       execute the work of one dead letter again
    operations    replay many: planned, started with a canary, stopped when it does not help
    saved_views   queries under a name
    audit         who did what
    """

    def __init__(self, parts: FailureParts) -> None:
        store, ids, event_bus, redactor = parts.store, parts.ids, parts.event_bus, parts.redactor
        self.caller = caller = parts.caller
        self.dead_letters = DeadLetters(store, ids, event_bus, redactor, parts.encryption, caller)
        self.groups = FailureGroups(store, event_bus, redactor, parts.clock, caller)
        self.replays = Replays(parts)
        self.replay = self.replays.start
        self.operations = BulkReplays(parts)
        self.saved_views = SavedViews(store, ids, redactor, caller)
        self.audit = Audit(store, caller)
        self._verdicts = Verdicts(store, parts.breakers, caller)
        self._runs = FailedRuns(parts, self.replays)

    async def enter(self, run_id: str) -> str:
        """Make a dead letter of a failed run that has none, by its strategy or a full queue; its id."""
        return await self._runs.enter(run_id)

    async def retry(self, run_id: str, *, reason: str = "") -> None:
        """Queue a failed run again, unless the `source` of its task says that its subject is gone."""
        await self._runs.retry(run_id, reason)

    async def reveal(self, letter_id: str, *, reason: str) -> JsonValue:
        """The payload of the failed step with its secrets; the audit records who asked, and why."""
        return await self.dead_letters.reveal(letter_id, reason=reason)

    async def verdict(self, letter_id: str) -> ReplayVerdict:
        """Why it stopped, what has changed since, and what is likely to help."""
        return await self._verdicts.of(letter_id)
